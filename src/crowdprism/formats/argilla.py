"""Argilla: records with responses, nested (`to_json`) or flattened (`to_list(flatten=True)`, `to_datasets`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations
from crowdprism.formats.schemas import ArgillaRecord, fields_of_shape

RESPONSES = ".responses"
Record = dict[str, Any]
Response = tuple[Any, Any, Any]  # value, user, status


def matches_nested(document: Document) -> bool:
    """Tell whether records have fields and a dict of responses."""
    if document.container not in ("json", "json lines") or not {"fields", "responses"} <= set(document.columns):
        return False
    return isinstance(document.records[0].get("responses"), dict)


def matches_flat(document: Document) -> bool:
    """Tell whether there are columns `<question>.responses` and `.responses.users`."""
    fields = document.columns
    return document.container in ("json", "json lines", "parquet") and any(
        name.endswith(RESPONSES) and f"{name}.users" in fields for name in fields
    )


def read_nested(document: Document) -> RawAnnotations:
    """Read nested records; this export does not say which responses are drafts."""
    raw = read_responses(document, nested=True)
    raw.notes.append("the nested export drops the status of responses, so drafts cannot be told apart")
    return raw


def read_flat(document: Document) -> RawAnnotations:
    """Read flattened records; drafts and discarded responses are skipped."""
    return read_responses(document, nested=False)


def read_responses(document: Document, *, nested: bool) -> RawAnnotations:
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
    return raw


def responses(document: Document, *, role: str, nested: bool) -> tuple[str, Iterator[tuple[int, Record, Response]]]:
    """The question asked for, else the only one, and each response to it with its record and place."""
    if nested:
        records = document.records_as(ArgillaRecord)
        questions = list(dict.fromkeys(name for record in records for name in record.get("responses") or {}))
    else:
        questions = [name.removesuffix(RESPONSES) for name in document.columns if name.endswith(RESPONSES)]
        lists = [f"{name}{RESPONSES}{part}" for name in questions for part in ("", ".users", ".status")]
        shape = fields_of_shape(**dict.fromkeys(lists, list[Any] | None), fields=dict[str, Any] | None)
        records = document.records_as(shape)
    question = document.asked.get(role) or (questions[0] if len(questions) == 1 else None)
    if question not in questions:
        why = f"has no question {question!r}" if question else "answers several questions"
        raise UnreadableFileError(
            f"{document.name} {why if questions else 'has no response'}; its questions are {some(questions, 10)}.",
            remedy=f"Choose one with {{{role}}}",
        )
    given = nested_responses if nested else flat_responses
    return str(question), (
        (place, record, response)
        for place, record in enumerate(records)
        for response in given(record, str(question), document.place(place))
    )


def nested_responses(record: Record, question: str, where: str) -> Iterable[Response]:
    for response in (record.get("responses") or {}).get(question) or []:
        yield response.get("value"), response.get("user_id"), response.get("status", "submitted")


def flat_responses(record: Record, question: str, where: str) -> Iterable[Response]:
    field = f"{question}{RESPONSES}"
    values, users = record.get(field) or [], record.get(f"{field}.users") or []
    statuses = record.get(f"{field}.status") or ["submitted"] * len(values)
    if not len(values) == len(users) == len(statuses):
        raise UnreadableFileError(
            f"{where} has {len(values)} responses in {field!r} but {len(users)} users and {len(statuses)} statuses. "
            "Export it again."
        )
    return zip(values, users, statuses, strict=True)
