"""Parts of annotations, other orders of names, and several containers put together."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import checks
from crowdprism.annotations.building import NO_NUMBERS, assemble, gold_by_item
from crowdprism.annotations.names import NameArray, known_positions, name_array, positions, same_names
from crowdprism.errors import AlignmentWarning, InvalidAnnotationsError, InvalidParameterError, some
from crowdprism.seeding import stream

if TYPE_CHECKING:
    from crowdprism.annotations.container import Annotations


def item_positions(index: Any, n_items: int) -> NDArray[np.int64]:
    """Positions of the items that an index (int, slice, mask or array of positions) selects."""
    if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
        index = index[0]  # scikit-learn selects rows of any array as y[rows, ...]
    if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
        if not -n_items <= index < n_items:
            raise IndexError(f"Item {index} is out of range: there are {n_items} items.")
        return np.array([index % n_items])
    if not isinstance(index, slice):
        index = np.asarray(index)
        if index.ndim != 1:
            raise IndexError(f"Items are selected by one-dimensional arrays, not by shape {index.shape}.")
        if not len(index) and index.dtype != bool:
            return np.empty(0, dtype=np.int64)
    return np.asarray(np.arange(n_items)[index])


def at_items(annotations: Annotations, chosen: NDArray[Any], present: NDArray[np.bool_] | None = None) -> Annotations:
    """The items at the positions `chosen`; where the mask `present` is false, an item without annotations or gold."""
    counts = annotations.item_start[chosen + 1] - annotations.item_start[chosen]
    gold = None if annotations.gold is None else annotations.gold[chosen]
    if present is not None:
        counts = np.where(present, counts, 0)
        if gold is not None:
            gold[~present] = np.ma.masked
    start = np.zeros(len(chosen) + 1, dtype=annotations.item_start.dtype)
    np.cumsum(counts, out=start[1:])
    rows = np.arange(start[-1]) + np.repeat(annotations.item_start[chosen] - start[:-1], counts)
    return at_rows(annotations, rows, start, items=annotations.items[chosen], gold=gold)


def at_rows(annotations: Annotations, rows: NDArray[Any], start: NDArray[Any], **changes: Any) -> Annotations:
    """The annotations at `rows`, already grouped by item; `start` is their `item_start`."""
    present = {name: getattr(annotations, name) for name in ("annotator", "label", *NO_NUMBERS)}
    taken = {name: values[rows] for name, values in present.items() if values is not None}
    return replace(annotations, item_start=start, **taken, **changes)


def where(annotations: Annotations, keep: NDArray[np.bool_]) -> Annotations:
    if keep.dtype != bool or keep.shape != (annotations.n_annotations,):
        raise InvalidParameterError(
            f"select takes a mask of {annotations.n_annotations} truth values, one per annotation, not "
            f"{keep.dtype} of shape {keep.shape}."
        )
    before = np.zeros(annotations.n_annotations + 1, dtype=annotations.item_start.dtype)
    np.cumsum(keep, out=before[1:])
    return at_rows(annotations, np.flatnonzero(keep), before[annotations.item_start])


def without_annotators(annotations: Annotations, names: Sequence[Hashable]) -> Annotations:
    dropped = known_positions(annotations.annotators, names, "annotators")
    stays = np.ones(annotations.n_annotators, dtype=bool)
    stays[dropped] = False
    kept = where(annotations, stays[annotations.annotator])
    new_code = (np.cumsum(stays) - 1).astype(np.int32)
    return replace(kept, annotator=new_code[kept.annotator], annotators=name_array(annotations.annotators[stays]))


def held_out_mask(n_annotations: int, fraction: float, seed: int) -> NDArray[np.bool_]:
    """(n_annotations,) true for a random share of the annotations."""
    if not 0 < fraction < 1:
        raise InvalidParameterError(f"The fraction held out must be between 0 and 1, not {fraction}.")
    held_out = np.zeros(n_annotations, dtype=bool)
    held_out[stream(seed, "split_annotations").permutation(n_annotations)[: round(fraction * n_annotations)]] = True
    return held_out


def aligned_to(annotations: Annotations, ids: Iterable[Hashable]) -> Annotations:
    ids = name_array(ids)
    checks.require([checks.check_distinct(ids, "id")])
    place = positions(annotations.items, ids)
    found = place >= 0
    annotated = annotations.labels_per_item > 0
    n_matched = int(annotated[place[found]].sum())
    if n_matched == 0:
        raise InvalidAnnotationsError(
            f"None of the {len(ids)} ids is an annotated item. Ids look like {some(ids.tolist())}; "
            f"items look like {some(annotations.items.tolist())}. Check that both use the same names and type."
        )
    n_left_out = int(annotated.sum()) - n_matched
    if n_left_out or n_matched < len(ids):
        absent = [name for name, has in zip(ids.tolist(), found, strict=True) if not has]
        warnings.warn(
            f"{n_matched} of {len(ids)} ids are annotated items; {len(ids) - n_matched} ids have no annotation"
            + (f" (first: {some(absent)})" if absent else "")
            + f"; {n_left_out} annotated items have no id and were left out.",
            AlignmentWarning,
            stacklevel=3,
        )
    return replace(at_items(annotations, np.where(found, place, 0), present=found), items=ids)


def reindexed(annotations: Annotations, items: Any, annotators: Any, classes: Any) -> Annotations:
    a = annotations
    breaches: list[checks.Breach | None] = []

    def renamed(role: str, old: NameArray, code: NDArray[Any], wanted: Any) -> tuple[NameArray, NDArray[Any]]:
        names = old if wanted is None else name_array(wanted)
        checks.require([checks.check_distinct(names, role)])
        codes = recoded(code, old, names)
        breaches.append(checks.check_known(codes, old[code], names, role))
        return names, codes

    items, item = renamed("item", a.items, a.item, items)
    annotators, annotator = renamed("annotator", a.annotators, a.annotator, annotators)
    classes, label = renamed("label", a.classes, a.label, classes)
    checks.require(breaches)
    return assemble(
        type(a),
        names=(items, annotators, classes),
        codes=(item, annotator, label),
        numbers={name: getattr(a, name) for name in NO_NUMBERS},
        gold=None if a.gold is None else a.gold_by_name(),
        frame_kind=a.frame_kind,
    )


def recoded(codes: NDArray[Any], names: NameArray, others: NameArray) -> NDArray[Any]:
    """Codes into `names` as codes into other names; -1 where a name is not among those."""
    return codes if same_names(names, others) else positions(others, names)[codes]


def concatenated(parts: Sequence[Annotations]) -> Annotations:
    items = merged_names([part.items for part in parts], "item")
    annotators = merged_names([part.annotators for part in parts], "annotator")
    classes = merged_names([part.classes for part in parts], "label")
    item = np.concatenate([recoded(part.item, part.items, items) for part in parts])
    annotator = np.concatenate([recoded(part.annotator, part.annotators, annotators) for part in parts])
    label = np.concatenate([recoded(part.label, part.classes, classes) for part in parts])
    present = [name for name in NO_NUMBERS if any(getattr(part, name) is not None for part in parts)]
    numbers = {name: np.concatenate([number_or_default(part, name) for part in parts]) for name in present}
    known = [pair for part in parts for pair in part.gold_by_name().items()]
    has_gold = any(part.gold is not None for part in parts)
    return assemble(
        type(parts[0]),
        names=(items, annotators, classes),
        codes=(item, annotator, label),
        numbers={**NO_NUMBERS, **numbers},
        gold=gold_by_item([item for item, _ in known], [label for _, label in known]) if has_gold else None,
        frame_kind=parts[0].frame_kind,
    )


def merged_names(vocabularies: Sequence[NameArray], role: str) -> NameArray:
    """The names of the first, then the new ones of each next, each in its own order."""
    first = vocabularies[0]
    if all(same_names(first, other) for other in vocabularies[1:]):
        return first
    union = list(dict.fromkeys(name for names in vocabularies for name in names.tolist()))
    checks.require([checks.check_one_type(union, role)])
    return name_array(union)


def number_or_default(part: Annotations, name: str) -> NDArray[Any]:
    values: NDArray[Any] | None = getattr(part, name)
    if values is not None:
        return values
    kind = np.float64 if name == "timestamp" else np.float32
    return np.full(part.n_annotations, 1.0 if name == "weight" else np.nan, dtype=kind)
