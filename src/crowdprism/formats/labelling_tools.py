"""JSON of labelling tools: Prodigy, doccano, Argilla and peerannot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats import json_text
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations, split

SHARED_NAMES = ("all", "unknown", "admin_all")  # of doccano's files that do not say who gave which label
CONTENT_FIELDS = ("text", "filename", "data")
UNKNOWN = "unknown"
RESPONSES = ".responses"
Record = dict[str, Any]
Response = tuple[Any, Any, Any]  # value, user, status of Argilla
N_LOOKED_AT = 20
MOST_CLASSES = 1_000_000
MOST_DIGITS = 18


def matches_prodigy(document: Document) -> bool:
    return document.container in ("json", "json lines") and {"_input_hash", "answer"} <= set(document.columns)


def read_prodigy(document: Document) -> RawAnnotations:
    """Read answers: ignored ones are skipped; in binary tasks a rejection means "not" the label shown."""
    item_field = document.asked.get("item", "_input_hash")
    usual = "_annotator_id" if "_annotator_id" in document.columns else "_session_id"
    annotator_field = document.asked.get("annotator") or usual
    raw = RawAnnotations({"item": item_field, "annotator": annotator_field, "label": "accept"}, is_text=False)
    has_time = "_timestamp" in document.columns
    if has_time:
        raw.columns["timestamp"] = "_timestamp"
    for place, record in enumerate(document.records_as(json_text.ProdigyRecord)):
        raw.n_rows += 1
        label, reason = prodigy_label(record, multi=document.options.multi)
        if reason:
            raw.skip(reason, document.place(place))
            continue
        numbers = {"timestamp": record.get("_timestamp")} if has_time else {}
        if item_field not in record:
            raise document.lacks_field(place, record, item_field)
        annotator = document.stem if document.options.annotator_from == "filename" else record.get(annotator_field)
        if annotator is None:
            raise UnreadableFileError(
                f"{document.name} does not say who answered (no {annotator_field!r}).",
                remedy="Start Prodigy with named sessions, name the field with {annotator}, or pass "
                "{annotator_from:'filename'} if each file is one annotator.",
            )
        raw.add(record[item_field], annotator, label, **numbers)
    if any("options" not in record and "label" in record for record in document.records[:20]):
        raw.columns["label"] = "label and answer"
    return raw


def prodigy_label(record: Record, *, multi: bool) -> tuple[Any, str]:
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


def matches_doccano(document: Document) -> bool:
    fields = set(document.columns)
    if document.container == "table":
        return {"id", "label"} <= fields and bool(fields & {"text", "filename"}) and "annotator" not in fields
    return document.is_records and {"id", "label"} <= fields and isinstance(document.json[0].get("label"), list)


def read_doccano(document: Document) -> RawAnnotations:
    """Read one annotator's file; the file name is the annotator."""
    content = next((field for field in CONTENT_FIELDS if field in document.columns), None)
    item_field = document.asked.get("item", "id")
    label_field = document.asked.get("label", "label")
    annotator = document.stem
    columns = {"item": item_field, "annotator": "(file name)", "label": label_field}
    raw = RawAnnotations(columns, is_text=document.container == "table")
    if annotator.lower() in SHARED_NAMES:
        annotator = UNKNOWN
        raw.columns["annotator"] = f"(not in the export: all are {UNKNOWN!r})"
        raw.warn_of_loss(
            f"{document.name} does not say who gave which label: all are put down to one annotator {UNKNOWN!r}, so "
            "nothing can be learned about annotators. Switch off sharing of annotations in the doccano project and "
            "export again to get one file per member."
        )
    for place, record in enumerate(document.records_as(json_text.DoccanoRecord)):
        raw.n_rows += 1
        labels = split(record.get(label_field), "#")  # a list in JSON lines, joined by # in CSV
        if len(labels) != 1 and not document.options.multi:
            raw.skip("several labels chosen" if labels else "no label", document.place(place))
            continue
        if item_field not in record:
            raise document.lacks_field(place, record, item_field)
        if item_field == "id" and content is not None:
            raw.see_content(record["id"], record.get(content), document.name)
        raw.add(record[item_field], annotator, labels if document.options.multi else labels[0])
    return raw


def matches_argilla(document: Document) -> bool:
    if document.container not in ("json", "json lines") or not {"fields", "responses"} <= set(document.columns):
        return False
    return isinstance(document.records[0].get("responses"), dict)


def matches_flat_argilla(document: Document) -> bool:
    fields = document.columns
    return document.container in ("json", "json lines", "parquet") and any(
        name.endswith(RESPONSES) and f"{name}.users" in fields for name in fields
    )


def read_argilla(document: Document, *, nested: bool) -> RawAnnotations:
    """Read records as `to_json` nests or `to_list(flatten=True)` flattens them; drafts and the like are skipped."""
    question, found = responses(document, role="label", nested=nested)
    item = document.asked.get("item", "id")
    raw = RawAnnotations({"item": item, "annotator": "user", "label": f"{question} responses"}, is_text=False)
    for place, record, (value, user, status) in found:
        raw.n_rows += 1
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if status != "submitted" and not document.options.include_rejected:
            raw.skip(str(status), document.place(place))
        elif value is None or isinstance(value, dict) or (isinstance(value, list) and not document.options.multi):
            raw.skip("several labels chosen" if value else "no value", document.place(place))
        else:
            name = record.get(item, (record.get("fields") or {}).get(item))
            if name is None:
                raise document.lacks_field(place, record, item)
            raw.add(name, user, value)
    if nested:
        raw.notes.append("the nested export drops the status of responses, so drafts cannot be told apart")
    return raw


def responses(document: Document, *, role: str, nested: bool) -> tuple[str, Iterator[tuple[int, Record, Response]]]:
    """The question asked for, else the only one, and each response to it with its record and place."""
    if nested:
        records = document.records_as(json_text.ArgillaRecord)
        questions = list(dict.fromkeys(name for record in records for name in record.get("responses") or {}))
    else:
        questions = [name.removesuffix(RESPONSES) for name in document.columns if name.endswith(RESPONSES)]
        lists = [f"{name}{RESPONSES}{part}" for name in questions for part in ("", ".users", ".status")]
        shape = json_text.fields_of_shape(**dict.fromkeys(lists, list[Any] | None), fields=dict[str, Any] | None)
        records = document.records_as(shape)
    question = document.asked.get(role) or (questions[0] if len(questions) == 1 else None)
    if question not in questions:
        why = f"has no question {question!r}" if question else "answers several questions"
        raise UnreadableFileError(
            f"{document.name} {why if questions else 'has no response'}; its questions are {some(questions, 10)}.",
            remedy=f"Choose one with {{{role}}}",
        )
    return str(question), (
        (place, record, response)
        for place, record in enumerate(records)
        for response in responses_of(record, str(question), document.place(place), nested=nested)
    )


def responses_of(record: Record, question: str, where: str, *, nested: bool) -> Iterable[Response]:
    if nested:
        given = (record.get("responses") or {}).get(question) or []
        return [(one.get("value"), one.get("user_id"), one.get("status", "submitted")) for one in given]
    field = f"{question}{RESPONSES}"
    values, users = record.get(field) or [], record.get(f"{field}.users") or []
    statuses = record.get(f"{field}.status") or ["submitted"] * len(values)
    if not len(values) == len(users) == len(statuses):
        raise UnreadableFileError(
            f"{where} has {len(values)} responses in {field!r} but {len(users)} users and {len(statuses)} statuses. "
            "Export it again."
        )
    return zip(values, users, statuses, strict=True)


def matches_peerannot(document: Document) -> bool:
    if document.container != "json" or not isinstance(document.json, dict) or not document.json:
        return False
    first = list(document.json.values())[:N_LOOKED_AT]
    labels = [label for given in first if isinstance(given, dict) for label in given.values()]
    are_plain = all(isinstance(label, (str, int, float, bool)) for label in labels)
    return all(isinstance(given, dict) for given in first) and are_plain


def read_peerannot(document: Document) -> RawAnnotations:
    """Read nested answers; a metadata.json beside the file says how many classes there are."""
    raw = RawAnnotations({"item": "(outer keys)", "annotator": "(inner keys)", "label": "(values)"}, is_text=True)
    json_text.require_shape([document.json], json_text.PeerannotAnswers, lambda _: document.name)
    for item, given in document.json.items():
        for annotator, label in given.items():
            raw.add(item, annotator, label if isinstance(label, str) else json.dumps(label))
    raw.n_rows = len(raw.label)
    raw.item_names = list(document.json)
    n_classes = metadata_beside(document).get("n_classes")
    if isinstance(n_classes, int) and n_classes > MOST_CLASSES:
        raise UnreadableFileError(f"metadata.json of {document.name} names over {MOST_CLASSES} classes. Correct it.")
    codes = [int(label) if label.isdecimal() and len(label) <= MOST_DIGITS else MOST_CLASSES for label in raw.label]
    if isinstance(n_classes, int) and max(codes, default=0) < n_classes:
        raw.classes = list(range(n_classes))
        raw.notes.append(f"metadata.json names {n_classes} classes")
    return raw


def metadata_beside(document: Document) -> Record:
    path = document.path and document.path.with_name("metadata.json")
    if path is None or not path.is_file():
        return {}
    records = Document(str(path), path=path, options=document.options).records
    return records[0] if records else {}
