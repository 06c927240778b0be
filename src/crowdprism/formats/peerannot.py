"""Nested JSON `{item: {annotator: label}}`, as peerannot writes it to answers.json."""

from __future__ import annotations

import json
from typing import Any

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations
from crowdprism.formats.schemas import PeerannotAnswers, require_shape

N_LOOKED_AT = 20
MOST_CLASSES = 1_000_000
MOST_DIGITS = 18


def matches(document: Document) -> bool:
    """Tell whether this is a dict of dicts of plain labels."""
    if document.container != "json" or not isinstance(document.json, dict) or not document.json:
        return False
    first = list(document.json.values())[:N_LOOKED_AT]
    labels = [label for given in first if isinstance(given, dict) for label in given.values()]
    return all(isinstance(given, dict) for given in first) and all(
        isinstance(label, (str, int, float, bool)) for label in labels
    )


def read(document: Document) -> RawAnnotations:
    """Read nested answers; a metadata.json beside the file says how many classes there are."""
    raw = RawAnnotations({"item": "(outer keys)", "annotator": "(inner keys)", "label": "(values)"}, is_text=True)
    require_shape([document.json], PeerannotAnswers, lambda _: document.name)
    for item, given in document.json.items():
        for annotator, label in given.items():
            raw.add(item, annotator, label if isinstance(label, str) else json.dumps(label))
    raw.n_rows = len(raw.label)
    raw.item_names = list(document.json)
    metadata = beside(document)
    n_classes = metadata.get("n_classes")
    if isinstance(n_classes, int) and n_classes > MOST_CLASSES:
        raise UnreadableFileError(
            f"metadata.json beside {document.name} names {n_classes} classes, more than {MOST_CLASSES}. Correct it."
        )
    codes = [int(label) if label.isdecimal() and len(label) <= MOST_DIGITS else MOST_CLASSES for label in raw.label]
    if isinstance(n_classes, int) and max(codes, default=0) < n_classes:
        raw.classes = list(range(n_classes))
        raw.notes.append(f"metadata.json names {n_classes} classes")
    return raw


def beside(document: Document) -> dict[str, Any]:
    if document.path is None:
        return {}
    path = document.path.with_name("metadata.json")
    if not path.is_file():
        return {}
    records = Document(str(path), path=path, options=document.options).records
    return records[0] if records else {}
