"""Prodigy: JSON lines as `db-out` writes them, one line per answer."""

from __future__ import annotations

from typing import Any

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations
from crowdprism.formats.schemas import ProdigyRecord

ITEM, ANNOTATOR = "_input_hash", "_annotator_id"


def matches(document: Document) -> bool:
    return document.container in ("json", "json lines") and {"_input_hash", "answer"} <= set(document.columns)


def read(document: Document) -> RawAnnotations:
    """Read answers: ignored ones are skipped; in binary tasks a rejection means "not" the label shown."""
    item_field = document.asked.get("item", ITEM)
    annotator_field = document.asked.get("annotator") or (ANNOTATOR if ANNOTATOR in document.columns else "_session_id")
    raw = RawAnnotations({"item": item_field, "annotator": annotator_field, "label": "accept"}, is_text=False)
    has_time = "_timestamp" in document.columns
    if has_time:
        raw.columns["timestamp"] = "_timestamp"
    for place, record in enumerate(document.records_as(ProdigyRecord)):
        raw.n_rows += 1
        label, reason = label_of(record, multi=document.options.multi)
        if reason:
            raw.skip(reason, document.place(place))
            continue
        numbers = {"timestamp": record.get("_timestamp")} if has_time else {}
        if item_field not in record:
            raise document.lacks_field(place, record, item_field)
        raw.add(record[item_field], annotator_of(document, record, annotator_field), label, **numbers)
    if any("options" not in record and "label" in record for record in document.records[:20]):
        raw.columns["label"] = "label and answer"
    return raw


def label_of(record: dict[str, Any], *, multi: bool = False) -> tuple[Any, str]:
    """The label of a record (with `multi`, a list), or the reason why there is none."""
    answer = record.get("answer")
    if answer == "ignore":
        return None, "ignored"
    if "options" in record or isinstance(record.get("accept"), list):
        chosen = record.get("accept") or []
        if answer == "reject":
            return None, "rejected"
        if multi:
            return chosen, ""
        if len(chosen) != 1:
            return None, "several labels chosen" if chosen else "no option chosen"
        return chosen[0], ""
    if "label" in record and answer in ("accept", "reject"):
        return (record["label"] if answer == "accept" else f"not {record['label']}"), ""
    return None, "no label"


def annotator_of(document: Document, record: dict[str, Any], field: str) -> Any:
    """Who answered; without sessions, the file name if the caller says so."""
    if document.options.annotator_from == "filename":
        return document.stem
    if record.get(field) is None:
        raise UnreadableFileError(
            f"{document.name} does not say who answered (no {field!r}).",
            remedy="Start Prodigy with named sessions, name the field with {annotator}, or pass "
            "{annotator_from:'filename'} if each file is one annotator.",
        )
    return record[field]
