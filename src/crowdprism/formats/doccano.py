"""doccano: a file per annotator (`<username>.jsonl`, usually in a zip), or `all.jsonl` without annotators."""

from __future__ import annotations

from typing import Any

from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations
from crowdprism.formats.schemas import DoccanoRecord

SHARED_NAMES = ("all", "unknown", "admin_all")
CONTENT_FIELDS = ("text", "filename", "data")
UNKNOWN = "unknown"


def matches(document: Document) -> bool:
    """Tell whether records have an id, content and a list of labels but no annotator."""
    fields = set(document.columns)
    if document.container == "table":
        return {"id", "label"} <= fields and bool(fields & {"text", "filename"}) and "annotator" not in fields
    return document.is_records and {"id", "label"} <= fields and isinstance(document.json[0].get("label"), list)


def read(document: Document) -> RawAnnotations:
    """Read one annotator's file; the file name is the annotator."""
    content = next((field for field in CONTENT_FIELDS if field in document.columns), None)
    item_field = document.asked.get("item", "id")
    label_field = document.asked.get("label", "label")
    annotator = document.stem
    raw = RawAnnotations(
        {"item": item_field, "annotator": "(file name)", "label": label_field}, is_text=document.container == "table"
    )
    if annotator.lower() in SHARED_NAMES:
        annotator = UNKNOWN
        raw.columns["annotator"] = f"(not in the export: all are {UNKNOWN!r})"
        raw.warn_of_loss(
            f"{document.name} does not say who gave which label: all are put down to one annotator {UNKNOWN!r}, so "
            "nothing can be learned about annotators. Switch off sharing of annotations in the doccano project and "
            "export again to get one file per member."
        )
    for place, record in enumerate(document.records_as(DoccanoRecord)):
        raw.n_rows += 1
        labels = labels_of(record.get(label_field))
        if len(labels) != 1 and not document.options.multi:
            raw.skip("several labels chosen" if labels else "no label", document.place(place))
            continue
        if item_field not in record:
            raise document.lacks_field(place, record, item_field)
        if item_field == "id" and content is not None:
            raw.see_content(record["id"], record.get(content), document.name)
        raw.add(record[item_field], annotator, labels if document.options.multi else labels[0])
    return raw


def labels_of(cell: Any) -> list[Any]:
    """Labels of a record: a list in JSON lines, joined by # in CSV."""
    if isinstance(cell, str):
        return [label for label in cell.split("#") if label]
    return [] if cell is None else list(cell) if isinstance(cell, list) else [cell]
