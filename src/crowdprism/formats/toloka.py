"""Toloka: TSV of assignments with INPUT:, OUTPUT:, GOLDEN: and ASSIGNMENT: columns."""

from __future__ import annotations

from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations

WORKER, STATUS, TASK = "ASSIGNMENT:worker_id", "ASSIGNMENT:status", "ASSIGNMENT:task_id"
STARTED, SUBMITTED = "ASSIGNMENT:started", "ASSIGNMENT:submitted"
ANSWERED = ("APPROVED", "SUBMITTED", "")


def matches(document: Document) -> bool:
    return document.container == "table" and any(column.startswith("OUTPUT:") for column in document.columns)


def read(document: Document) -> RawAnnotations:
    """Read assignments: golden answers become gold; rejected, skipped and expired assignments are skipped."""
    item = column_for(document, "item", "INPUT:")
    label = column_for(document, "label", "OUTPUT:")
    golden = document.asked.get("gold", label.replace("OUTPUT:", "GOLDEN:"))
    worker = document.asked.get("annotator", WORKER)
    document.require_columns(worker)
    raw = RawAnnotations({"item": item, "annotator": worker, "label": label}, is_text=True)
    if golden in document.columns:
        raw.columns["gold"] = golden
    if SUBMITTED in document.columns:
        raw.columns["timestamp"] = SUBMITTED
    for place, record in enumerate(document.records):
        raw.n_rows += 1
        if record.get(golden):
            raw.add_gold(record[item], record[golden])
        status = str(record.get(STATUS) or "").upper()
        if status not in ANSWERED and not document.options.include_rejected:
            raw.skip(status.lower(), document.place(place))
        elif not record[label]:
            raw.skip("no answer", document.place(place))
        else:
            numbers = {"timestamp": record[SUBMITTED] or None} if SUBMITTED in document.columns else {}
            raw.add(record[item], record[worker], record[label], **numbers)
    return raw


def column_for(document: Document, role: str, prefix: str) -> str:
    """The column asked for (with or without prefix), else the only one with the prefix."""
    asked = document.asked.get(role)
    if asked is not None:
        name = f"{prefix}{asked}" if f"{prefix}{asked}" in document.columns else asked
        document.require_columns(name)
        return name
    found = [column for column in document.columns if column.startswith(prefix)]
    if len(found) != 1 and role == "item" and TASK in document.columns:
        return TASK
    return document.only(found, role, f"{prefix} columns")
