"""Argilla: records with responses, nested (`to_json`) or flattened (`to_list(flatten=True)`, `to_datasets`)."""

from __future__ import annotations

from typing import Any

from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations, ReadingOptions

RESPONSES = ".responses"


def matches_nested(document: Document) -> bool:
    """Tell whether records have fields and a dict of responses."""
    if document.container not in ("json", "json lines") or not {"fields", "responses"} <= set(document.columns):
        return False
    return isinstance(document.records[0].get("responses"), dict)


def read_nested(document: Document, options: ReadingOptions) -> RawAnnotations:
    """Read nested records; this export does not say which responses are drafts."""
    questions = dict.fromkeys(name for record in document.records for name in record.get("responses") or {})
    question = choose(document, list(questions), options)
    raw = start(question, options)
    raw.notes.append("the nested export drops the status of responses, so drafts cannot be told apart")
    for place, record in enumerate(document.records):
        for response in (record.get("responses") or {}).get(question) or []:
            status = response.get("status", "submitted")
            take(document, place, raw, record, response.get("value"), response.get("user_id"), status, options)
    return raw


def matches_flat(document: Document) -> bool:
    """Tell whether there are columns `<question>.responses` and `.responses.users`."""
    fields = document.columns
    return document.container in ("json", "json lines", "parquet") and any(
        name.endswith(RESPONSES) and f"{name}.users" in fields for name in fields
    )


def read_flat(document: Document, options: ReadingOptions) -> RawAnnotations:
    """Read flattened records; drafts and discarded responses are skipped."""
    names = [name.removesuffix(RESPONSES) for name in document.columns if name.endswith(RESPONSES)]
    question = choose(document, names, options)
    raw = start(question, options)
    field = f"{question}{RESPONSES}"
    for place, record in enumerate(document.records):
        values, users = record.get(field) or [], record.get(f"{field}.users") or []
        statuses = record.get(f"{field}.status") or ["submitted"] * len(values)
        for value, user, status in zip(values, users, statuses, strict=True):
            take(document, place, raw, record, value, user, status, options)
    return raw


def start(question: str, options: ReadingOptions) -> RawAnnotations:
    """An empty collection with its mapping."""
    item = options.columns.get("item", "id")
    return RawAnnotations({"item": item, "annotator": "user", "label": f"{question} responses"}, is_text=False)


def choose(document: Document, questions: list[str], options: ReadingOptions) -> str:
    """The question asked for, else the only one."""
    asked = options.columns.get("label")
    if asked in questions:
        return str(asked)
    if asked is None and len(questions) == 1:
        return questions[0]
    why = f"has no question {asked!r}" if asked else "answers several questions" if questions else "has no response"
    raise UnreadableFileError(
        f"{document.name} {why}; its questions are {some(questions, 10)}.", remedy="Choose one with {label}"
    )


def take(
    document: Document,
    place: int,
    raw: RawAnnotations,
    record: dict[str, Any],
    value: Any,
    user: Any,
    status: Any,
    options: ReadingOptions,
) -> None:
    """Take one response, or count why not."""
    raw.n_rows += 1
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if status != "submitted" and not options.include_rejected:
        raw.skip(str(status), document.place(place))
    elif value is None or isinstance(value, (list, dict)):
        raw.skip("several labels chosen" if value else "no value", document.place(place))
    else:
        item = options.columns.get("item", "id")
        found = record.get(item, (record.get("fields") or {}).get(item))
        if found is None:
            raise UnreadableFileError(
                f"{document.place(place)} has no field {item!r}; it has {some(list(record), 10)}."
            )
        raw.add(found, user, value)
