"""NumPy files: a matrix items x annotators, three columns, or what `write_annotations` stored."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import names_from_json
from crowdprism.errors import UnreadableFileError
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import NUMBERS, RawAnnotations
from crowdprism.formats.tables import REQUIRED, find_columns

MATRIX_NAMES = ("annotations", "answers", "labels", "votes", "crowd_labels", "label", "arr_0")
NAMES_MEMBER = "crowdprism_names"


def load(document: Document) -> Any:
    """Load without pickle; object arrays are refused with the way out."""
    try:
        loaded = np.load(io.BytesIO(document.data), allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        if "allow_pickle" in str(error):
            raise UnreadableFileError(
                f"{document.name} holds Python objects, which are stored as pickle and never read. "
                "Save text as a fixed-width array, for example numpy.array(names, dtype=str)."
            ) from error
        raise UnreadableFileError(f"{document.name} is a damaged or truncated NumPy file ({error}).") from error


def matches(document: Document) -> bool:
    """Tell whether a NumPy file holds labels under names that say so."""
    if document.container == "npy":
        return True
    if document.container != "npz":
        return False
    names = array_names(document)
    wanted = (NAMES_MEMBER, *MATRIX_NAMES, document.asked.get("label"))
    return any(name in names for name in wanted)


def array_names(document: Document) -> list[str]:
    """Names of the arrays in an .npz file, without loading them."""
    try:
        with np.load(io.BytesIO(document.data), allow_pickle=False) as archive:
            return list(archive.files)
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise UnreadableFileError(f"{document.name} is a damaged or truncated NumPy file ({error}).") from error


def read(document: Document) -> RawAnnotations:
    """Read a matrix or three columns."""
    loaded = load(document)
    if isinstance(loaded, np.ndarray):
        return from_matrix(document, loaded, "(the array)")
    if NAMES_MEMBER in loaded:
        return from_stored(loaded)
    if not all(column in loaded for column in document.asked.values()):
        raise not_found(document, loaded)
    columns = find_columns(list(loaded), dict(document.asked))
    if all(role in columns and loaded[columns[role]].ndim == 1 for role in REQUIRED):
        return from_columns(loaded, columns)
    matrix = next((name for name in (document.asked.get("label"), *MATRIX_NAMES) if name in loaded), None)
    if matrix is None or loaded[matrix].ndim != 2:
        raise not_found(document, loaded)
    raw = from_matrix(document, loaded[matrix], matrix)
    gold = columns.get("gold")
    if gold is not None:
        raw.columns["gold"] = gold
        raw.gold_item, raw.gold_label = raw.item_names, loaded[gold].tolist()
    return raw


def not_found(document: Document, loaded: dict[str, Any]) -> UnreadableFileError:
    """Say which arrays are there."""
    there = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in loaded.items())
    return UnreadableFileError(
        f"{document.name} holds neither a matrix of labels nor item, annotator and label arrays; it has {there}.",
        remedy="Name the matrix with {label}, or the three arrays with {item}, {annotator}, {label}",
    )


def from_matrix(document: Document, matrix: Any, name: str) -> RawAnnotations:
    """A matrix items x annotators; -1 and NaN are no annotation."""
    from crowdprism.annotations.building import triplets_of_dense

    if matrix.ndim != 2:
        raise UnreadableFileError(
            f"{document.name} holds an array of shape {list(matrix.shape)}; expected items x annotators."
        )
    marker = document.options.missing[0] if document.options.missing else -1 if matrix.dtype.kind in "iuf" else ""
    items, annotators, labels, shape = triplets_of_dense(matrix, marker)
    raw = RawAnnotations({"item": "(row)", "annotator": "(column)", "label": name}, is_text=False)
    raw.item, raw.annotator, raw.label = items, annotators, labels
    raw.item_names, raw.annotator_names, raw.n_rows = list(range(shape[0])), list(range(shape[1])), shape[0]
    return raw


def from_columns(loaded: dict[str, Any], columns: dict[str, str]) -> RawAnnotations:
    """Three arrays of one dimension, one entry per annotation."""
    raw = RawAnnotations(columns, is_text=False)
    raw.item, raw.annotator, raw.label = (loaded[columns[role]] for role in REQUIRED)
    raw.numbers = {role: loaded[columns[role]] for role in NUMBERS if role in columns}
    raw.n_rows = len(raw.label)
    if "gold" in columns and loaded[columns["gold"]].shape == raw.item.shape:
        raw.gold_item, raw.gold_label = raw.item.tolist(), loaded[columns["gold"]].tolist()
    return raw


def from_stored(loaded: dict[str, Any]) -> RawAnnotations:
    """What `write_annotations` stored, names and their types included."""
    stored = json.loads(loaded[NAMES_MEMBER].tobytes().decode())
    items, annotators, classes = (names_from_json(stored[role]) for role in ("items", "annotators", "classes"))
    gold = np.ma.MaskedArray(loaded["gold"], mask=loaded["gold_mask"]) if "gold" in loaded else None
    numbers = {name: loaded[name] for name in NUMBERS if name in loaded}
    whole = Annotations(
        loaded["item_start"], loaded["annotator"], loaded["label"], items, annotators, classes, gold=gold, **numbers
    )
    raw = RawAnnotations({"item": "items", "annotator": "annotator", "label": "label"}, is_text=False)
    raw.item, raw.annotator = items[whole.item], annotators[whole.annotator]
    raw.label, raw.numbers, raw.n_rows = classes[whole.label], numbers, whole.n_annotations
    raw.keeps_order = True
    raw.item_names, raw.annotator_names, raw.classes = items.tolist(), annotators.tolist(), classes.tolist()
    known = whole.gold_by_name()
    raw.gold_item, raw.gold_label = list(known), list(known.values())
    return raw
