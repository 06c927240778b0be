"""Arrays of NumPy files: a matrix items x annotators, three columns, or what `write_annotations` stored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations.building import triplets_of_dense
from crowdprism.annotations.frames import REQUIRED, find_columns
from crowdprism.annotations.names import names_from_json
from crowdprism.errors import ResultFormatError, UnreadableFileError
from crowdprism.formats.documents import Document
from crowdprism.formats.json_text import StoredNames, parse_json, require_shape
from crowdprism.formats.raw_annotations import NUMBERS, RawAnnotations

MATRIX_NAMES = ("annotations", "answers", "labels", "votes", "crowd_labels", "label", "arr_0")
NAMES_MEMBER = "crowdprism_names"


def matches(document: Document) -> bool:
    if document.container == "npy":
        return True
    if document.container != "npz":
        return False
    wanted = (NAMES_MEMBER, *MATRIX_NAMES, document.asked.get("label"))
    return any(name in document.arrays for name in wanted)


def read(document: Document) -> RawAnnotations:
    if document.container not in ("npy", "npz"):
        raise UnreadableFileError(f"{document.name} is {document.seen()} and no NumPy file. Leave the format out.")
    loaded = document.arrays
    if document.container == "npy":
        return from_matrix(document, loaded[""], "(the array)")
    if NAMES_MEMBER in loaded:
        return from_stored(document, loaded)
    are_there = all(column in loaded for column in document.asked.values())
    columns = find_columns(list(loaded), dict(document.asked))
    if are_there and all(role in columns and loaded[columns[role]].ndim == 1 for role in REQUIRED):
        return from_columns(document, loaded, columns)
    matrix = next((name for name in (document.asked.get("label"), *MATRIX_NAMES) if name in loaded), None)
    if not are_there or matrix is None or loaded[matrix].ndim != 2:
        there = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in loaded.items())
        raise UnreadableFileError(
            f"{document.name} holds neither a matrix of labels nor item, annotator and label arrays; it has {there}.",
            remedy="Name the matrix with {label}, or the three arrays with {item}, {annotator}, {label}",
        )
    raw = from_matrix(document, loaded[matrix], matrix)
    gold = columns.get("gold")
    if gold is not None:
        require_same_length(document, {matrix: loaded[matrix][:, 0], gold: loaded[gold]})
        raw.columns["gold"] = gold
        raw.gold_item, raw.gold_label = raw.item_names, loaded[gold].tolist()
    return raw


def require_same_length(document: Document, arrays: dict[str, NDArray[Any]]) -> None:
    if len({array.shape for array in arrays.values()}) > 1 or any(array.ndim != 1 for array in arrays.values()):
        listed = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise UnreadableFileError(
            f"{document.name}: arrays that belong together have different shapes: {listed}. Save the file again."
        )


def from_matrix(document: Document, matrix: NDArray[Any], name: str) -> RawAnnotations:
    """A matrix items x annotators; -1 and NaN are no annotation."""
    if matrix.ndim != 2:
        raise UnreadableFileError(
            f"{document.name} holds an array of shape {list(matrix.shape)}; expected items x annotators."
        )
    marker = document.options.missing[0] if document.options.missing else -1 if matrix.dtype.kind in "iuf" else ""
    items, annotators, labels, shape = triplets_of_dense(matrix, marker)
    raw = RawAnnotations({"item": "(row)", "annotator": "(column)", "label": name}, is_text=False)
    raw.item, raw.annotator, raw.label = items, annotators, labels
    raw.item_names, raw.annotator_names, raw.n_rows = list(range(shape[0])), list(range(shape[1])), shape[0]
    raw.n_answers = len(items)  # a cell without label is no answer
    return raw


def from_columns(document: Document, loaded: dict[str, NDArray[Any]], columns: dict[str, str]) -> RawAnnotations:
    raw = RawAnnotations(columns, is_text=False)
    roles = [role for role in (*REQUIRED, *NUMBERS) if role in columns]
    require_same_length(document, {columns[role]: loaded[columns[role]] for role in roles})
    raw.item, raw.annotator, raw.label = (loaded[columns[role]] for role in REQUIRED)
    raw.numbers = {role: loaded[columns[role]] for role in NUMBERS if role in columns}
    raw.n_rows = len(raw.label)
    if "gold" in columns and loaded[columns["gold"]].shape == raw.item.shape:
        raw.gold_item, raw.gold_label = raw.item.tolist(), loaded[columns["gold"]].tolist()
    return raw


def from_stored(document: Document, loaded: dict[str, NDArray[Any]]) -> RawAnnotations:
    """What `write_annotations` stored, names and their types included."""
    names = stored_names(document, loaded[NAMES_MEMBER])
    absent = [name for name in ("item_start", "annotator", "label") if name not in loaded]
    if absent:
        raise UnreadableFileError(f"{document.name} is incomplete: it has no array {absent[0]!r}. Write it again.")
    start = loaded["item_start"]
    require_same_length(document, {name: loaded[name] for name in ("annotator", "label", *NUMBERS) if name in loaded})
    require_codes(document, "item_start", start, len(loaded["label"]) + 1, len(names["items"]) + 1)
    per_item: NDArray[np.int64] = np.subtract(start[1:], start[:-1], dtype=np.int64)
    if start[0] != 0 or start[-1] != len(loaded["label"]) or (per_item < 0).any():
        raise UnreadableFileError(f"{document.name} is damaged: item_start does not divide the labels into items.")
    item = np.repeat(np.arange(len(names["items"])), per_item)
    require_codes(document, "annotator", loaded["annotator"], len(names["annotators"]))
    require_codes(document, "label", loaded["label"], len(names["classes"]))
    raw = RawAnnotations({"item": "items", "annotator": "annotator", "label": "label"}, is_text=False)
    raw.item, raw.annotator = names["items"][item], names["annotators"][loaded["annotator"]]
    raw.label, raw.n_rows = names["classes"][loaded["label"]], len(item)
    raw.numbers = {name: loaded[name] for name in NUMBERS if name in loaded}
    raw.keeps_order = True
    raw.item_names, raw.annotator_names, raw.classes = (found.tolist() for found in names.values())
    if "gold" in loaded:
        require_codes(document, "gold", loaded["gold"], len(names["classes"]), len(names["items"]))
        mask = loaded.get("gold_mask", np.zeros(0, dtype=bool))
        require_same_length(document, {"gold": loaded["gold"], "gold_mask": mask})
        known = ~mask.astype(bool)
        raw.gold_item = names["items"][known].tolist()
        raw.gold_label = names["classes"][loaded["gold"][known]].tolist()
    return raw


def stored_names(document: Document, stored: NDArray[Any]) -> dict[str, NDArray[Any]]:
    found = parse_json(stored.tobytes().decode(errors="replace"), document.name)
    require_shape([found], dict[str, StoredNames], lambda _: f"{document.name}, {NAMES_MEMBER}")
    try:
        return {role: names_from_json(found[role]) for role in ("items", "annotators", "classes")}
    except (ResultFormatError, KeyError) as error:
        raise UnreadableFileError(
            f"{document.name}: {NAMES_MEMBER} cannot be read ({error}). Write it again."
        ) from error


def require_codes(document: Document, name: str, codes: NDArray[Any], n_codes: int, length: int | None = None) -> None:
    """Stop at codes that are no whole numbers below `n_codes`, or too few of them."""
    is_list = codes.ndim == 1 and codes.dtype.kind in "iu" and (length is None or len(codes) == length)
    if not is_list or int(codes.min()) < 0 or int(codes.max()) >= n_codes:
        raise UnreadableFileError(
            f"{document.name} is damaged: {name} ({codes.dtype} of shape {list(codes.shape)}) does not fit the names; "
            f"expected whole numbers from 0 to {n_codes - 1}. Write it again."
        )
