"""Annotations brought into the order of other ids, and several put together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import checks
from crowdprism.annotations.building import NO_NUMBERS, assemble, gold_by_item
from crowdprism.annotations.names import NameArray, name_array, positions, same_names
from crowdprism.errors import AlignmentWarning, InvalidAnnotationsError, some

if TYPE_CHECKING:
    from crowdprism.annotations.container import Annotations


def aligned_to(annotations: Annotations, ids: NameArray) -> Annotations:
    """Do the work of `Annotations.align_items`."""
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
    order = np.where(found, place, 0)  # where not found, any item serves: it lends no annotation
    counts = np.where(found, annotations.labels_per_item[order], 0)
    start = np.zeros(len(ids) + 1, dtype=annotations.item_start.dtype)
    np.cumsum(counts, out=start[1:])
    rows = np.arange(start[-1]) + np.repeat(annotations.item_start[order] - start[:-1], counts)
    gold = None
    if annotations.gold is not None:
        gold = annotations.gold[order]
        gold[~found] = np.ma.masked
    return annotations._take(rows, start, ids, gold)


def concatenated(parts: Sequence[Annotations]) -> Annotations:
    """Do the work of `Annotations.concat`."""
    items = merged_names([part.items for part in parts], "item")
    annotators = merged_names([part.annotators for part in parts], "annotator")
    classes = merged_names([part.classes for part in parts], "label")
    item = np.concatenate([recoded(part.item, part.items, items) for part in parts])
    annotator = np.concatenate([recoded(part.annotator, part.annotators, annotators) for part in parts])
    label = np.concatenate([recoded(part.label, part.classes, classes) for part in parts])
    numbers = {
        name: None
        if all(getattr(part, name) is None for part in parts)
        else np.concatenate([number_or_default(part, name) for part in parts])
        for name in NO_NUMBERS
    }
    gold = None
    if any(part.gold is not None for part in parts):
        gold = merged_gold(parts)
    return assemble(
        type(parts[0]),
        names=(items, annotators, classes),
        codes=(item, annotator, label),
        numbers=numbers,
        gold=gold,
        repeats="keep",
        frame_kind=parts[0].frame_kind,
    )


def recoded(codes: NDArray[Any], names: NameArray, union: NameArray) -> NDArray[Any]:
    """Codes into `names` as codes into the union."""
    return codes if same_names(names, union) else positions(union, names)[codes]


def merged_names(vocabularies: Sequence[NameArray], role: str) -> NameArray:
    """The names of the first, then the new ones of each next, each in its own order."""
    first = vocabularies[0]
    if all(same_names(first, other) for other in vocabularies[1:]):
        return first
    union = list(dict.fromkeys(name for names in vocabularies for name in names.tolist()))
    checks.require([checks.check_one_type(union, role)])
    return name_array(union)


def number_or_default(part: Annotations, name: str) -> NDArray[Any]:
    """A part's numeric column, or what its absence means: weight 1, time unknown."""
    values: NDArray[Any] | None = getattr(part, name)
    if values is not None:
        return values
    kind = np.float64 if name == "timestamp" else np.float32
    return np.full(part.n_annotations, 1.0 if name == "weight" else np.nan, dtype=kind)


def merged_gold(parts: Sequence[Annotations]) -> dict[Any, Any]:
    """Gold of all parts by item name; two different golds for an item are an error."""
    items: list[Any] = []
    labels: list[Any] = []
    for part in parts:
        if part.gold is not None:
            known = ~np.ma.getmaskarray(part.gold)
            items.extend(part.items[known].tolist())
            labels.extend(part.classes[np.asarray(part.gold[known])].tolist())
    return gold_by_item(items, labels)
