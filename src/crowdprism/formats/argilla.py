"""Argilla: records with responses, nested (`to_json`) or flattened (`to_list(flatten=True)`, `to_datasets`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


def read_nested(document: Document) -> RawAnnotations:
    """Read nested records; this export does not say which responses are drafts."""
    records = document.records_as(ArgillaRecord)
    questions = dict.fromkeys(name for record in records for name in record.get("responses") or {})
    raw = read_responses(document, list(questions), nested_responses)
    raw.notes.append("the nested export drops the status of responses, so drafts cannot be told apart")
    return raw


def nested_responses(record: Record, question: str, where: str) -> Iterable[Response]:
    """The responses to a question in a nested record."""
    for response in (record.get("responses") or {}).get(question) or []:
        yield response.get("value"), response.get("user_id"), response.get("status", "submitted")


def matches_flat(document: Document) -> bool:
    """Tell whether there are columns `<question>.responses` and `.responses.users`."""
    fields = document.columns
    return document.container in ("json", "json lines", "parquet") and any(
        name.endswith(RESPONSES) and f"{name}.users" in fields for name in fields
    )


def read_flat(document: Document) -> RawAnnotations:
    """Read flattened records; drafts and discarded responses are skipped."""
    questions = [name.removesuffix(RESPONSES) for name in document.columns if name.endswith(RESPONSES)]
    shape = {f"{name}{RESPONSES}{part}": list[Any] | None for name in questions for part in ("", ".users", ".status")}
    document.records_as(fields_of_shape(**shape, fields=dict[str, Any] | None))
    return read_responses(document, questions, flat_responses)


def flat_responses(record: Record, question: str, where: str) -> Iterable[Response]:
    """The responses to a question in a flattened record."""
    field = f"{question}{RESPONSES}"
    values, users = record.get(field) or [], record.get(f"{field}.users") or []
    statuses = record.get(f"{field}.status") or ["submitted"] * len(values)
    if not len(values) == len(users) == len(statuses):
        raise UnreadableFileError(
            f"{where} has {len(values)} responses in {field!r} but {len(users)} users and {len(statuses)} statuses. "
            "Export it again."
        )
    return zip(values, users, statuses, strict=True)


def read_responses(
    document: Document,
    questions: list[str],
    responses_of: Callable[[Record, str, str], Iterable[Response]],
) -> RawAnnotations:
    """Take the responses to one question."""
    question, item = choose(document, questions), document.asked.get("item", "id")
    raw = RawAnnotations({"item": item, "annotator": "user", "label": f"{question} responses"}, is_text=False)
    for place, record in enumerate(document.records):
        for value, user, status in responses_of(record, question, document.place(place)):
            raw.n_rows += 1
            if isinstance(value, list) and len(value) == 1:
                value = value[0]
            if status != "submitted" and not document.options.include_rejected:
                raw.skip(str(status), document.place(place))
            elif value is None or isinstance(value, dict) or (isinstance(value, list) and not document.options.multi):
                raw.skip("several labels chosen" if value else "no value", document.place(place))
            else:
                raw.add(item_of(document, place, record, item), user, value)
    return raw


def item_of(document: Document, place: int, record: Record, field: str) -> Any:
    """The item's id: a field of the record or of its fields."""
    found = record.get(field, (record.get("fields") or {}).get(field))
    if found is None:
        raise UnreadableFileError(f"{document.place(place)} has no field {field!r}; it has {some(list(record), 10)}.")
    return found


def choose(document: Document, questions: list[str]) -> str:
    """The question asked for, else the only one."""
    asked = document.asked.get("label")
    if asked in questions:
        return str(asked)
    if asked is None and len(questions) == 1:
        return questions[0]
    why = f"has no question {asked!r}" if asked else "answers several questions" if questions else "has no response"
    raise UnreadableFileError(
        f"{document.name} {why}; its questions are {some(questions, 10)}.", remedy="Choose one with {label}"
    )
