"""Label Studio: JSON (tasks with annotations), JSON_MIN and CSV/TSV (one record per annotation)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats.documents import Document
from crowdprism.formats.json_text import LabelStudioRecord, LabelStudioTask, cell_json
from crowdprism.formats.raw_annotations import RawAnnotations

# Where a result keeps its label, by its type.
VALUE_KEYS = ("choices", "rating", "taxonomy", "selected", "number", "text", "labels")
MIN_FIELDS = ("annotation_id", "annotator", "created_at", "updated_at", "lead_time", "id", "agreement")


def matches_json(document: Document) -> bool:
    first = document.json[0] if document.is_records else {}
    return "data" in first and bool({"annotations", "completions"} & set(first))


def read_json(document: Document) -> RawAnnotations:
    """Read tasks: cancelled annotations are skipped, those marked as ground truth become gold."""
    tasks = document.records_as(LabelStudioTask)
    name = document.asked.get("label") or only_question(document.name, tasks)
    item_field = document.asked.get("item", "id")
    raw = RawAnnotations({"item": item_field, "annotator": "completed_by", "label": name}, is_text=False)
    raw.columns |= {"duration": "lead_time", "timestamp": "created_at", "gold": "ground_truth"}
    for place, task in enumerate(tasks):
        item = item_of(document, place, task, item_field)
        if item_field == "id":
            raw.see_content(item, json.dumps(task.get("data"), sort_keys=True), document.name)
        for annotation in annotations_of(task):
            raw.n_rows += 1
            where = f"{document.name} task {task.get('id', place)!r}"
            if annotation.get("was_cancelled") and not document.options.include_rejected:
                raw.skip("cancelled", where)
                continue
            label = label_of(annotation, name)
            if not raw.is_answer(label, where, document.options, f"no answer to {name!r}"):
                continue
            if annotation.get("ground_truth"):
                raw.add_gold(item, label)
                raw.n_gold_rows += 1
            else:
                duration, when = annotation.get("lead_time"), annotation.get("created_at")
                raw.add(item, person(annotation.get("completed_by")), label, duration=duration, timestamp=when)
    return raw


def annotations_of(task: dict[str, Any]) -> list[dict[str, Any]]:
    """The annotations of a task, under their present or their former name."""
    return task.get("annotations", task.get("completions")) or []


def item_of(document: Document, place: int, task: dict[str, Any], field: str) -> Any:
    if field in task and field != "data":
        return task[field]
    if field in task.get("data", {}):
        return task["data"][field]
    raise document.lacks_field(place, {**task, **task.get("data", {})}, field)


def person(completed_by: Any) -> Any:
    """Who annotated: a number, or the id of a user record (the e-mail where there is no id)."""
    if isinstance(completed_by, dict):
        return completed_by.get("id", completed_by.get("email"))
    return completed_by


def only_question(document_name: str, tasks: list[dict[str, Any]]) -> str:
    """The one question that has labels; several are an error that lists them."""
    names = Counter(
        str(result["from_name"])
        for task in tasks
        for annotation in annotations_of(task)
        for result in annotation.get("result") or []
        if "from_name" in result and any(key in result.get("value", {}) for key in VALUE_KEYS)
    )
    if len(names) == 1:
        return next(iter(names))
    if not names:
        raise UnreadableFileError(
            f"{document_name} is a Label Studio export without any choice, rating or the like. "
            "Check that it was annotated, and that the annotations (not only the tasks) were exported."
        )
    listed = ", ".join(f"{name} ({count})" for name, count in names.most_common())
    problem, choice = f"{document_name} answers several questions: {listed}.", {"label": names.most_common(1)[0][0]}
    raise UnreadableFileError(problem, remedy="Choose one with {label}", suggestion=choice)


def label_of(annotation: dict[str, Any], name: str) -> Any:
    """The label an annotation gives to a question: None if none, a list if several."""
    given = (result.get("value", {}) for result in annotation.get("result") or [] if result.get("from_name") == name)
    value: dict[str, Any] = next(given, {})
    return single(next((value[key] for key in VALUE_KEYS if key in value), None))


def single(found: Any) -> Any:
    """Take the one entry of a list; a path of a taxonomy becomes text."""
    if isinstance(found, list) and len(found) == 1:
        inner = found[0]
        return " / ".join(map(str, inner)) if isinstance(inner, list) else inner
    return found if found != [] else None


def matches_min(document: Document) -> bool:
    is_flat = {"annotation_id", "annotator", "id"} <= set(document.columns) and "data" not in document.columns
    return is_flat and document.container in ("json", "json lines", "table", "parquet")


def read_min(document: Document) -> RawAnnotations:
    records = document.records_as(LabelStudioRecord)
    item_field = document.asked.get("item", "id")
    name = document.asked.get("label") or label_field(document, records, item_field)
    document.require_columns(item_field, name)
    is_text = document.container == "table"
    raw = RawAnnotations({"item": item_field, "annotator": "annotator", "label": name}, is_text=is_text)
    usual = {"duration": "lead_time", "timestamp": "created_at"}
    times = {role: field for role, field in usual.items() if field in document.columns}
    raw.columns |= times
    data_fields = content_fields(records, [field for field in document.columns if field not in (*MIN_FIELDS, name)])
    for place, record in enumerate(records):
        raw.n_rows += 1
        label = answer_of(record.get(name))
        if not raw.is_answer(label, document.place(place), document.options, f"no answer to {name!r}"):
            continue
        if item_field == "id":
            content = {field: json.dumps(record.get(field), sort_keys=True, default=str) for field in data_fields}
            raw.see_content(record.get("id"), content, document.name)
        numbers = {role: record.get(field) or None for role, field in times.items()}
        raw.add(record.get(item_field), person(record.get("annotator")), label, **numbers)
    return raw


def values_by_task(records: list[dict[str, Any]], fields: list[str]) -> dict[str, dict[Any, set[str]]]:
    values: dict[str, dict[Any, set[str]]] = {field: {} for field in fields}
    for record in records:
        for field, by_id in values.items():
            by_id.setdefault(record.get("id"), set()).add(str(record.get(field)))
    return values


def content_fields(records: list[dict[str, Any]], fields: list[str]) -> list[str]:
    """Fields that are equal within each task and differ between tasks; without any, all that are equal within tasks."""
    values = values_by_task(records, fields)
    same = [field for field, by_id in values.items() if all(len(found) == 1 for found in by_id.values())]
    unique = [field for field in same if len(set.union(*values[field].values())) == len(values[field])]
    return unique or same


def answer_of(cell: Any) -> Any:
    if isinstance(cell, str) and cell[:1] in ("{", "["):
        cell = cell_json(cell)
    if isinstance(cell, dict):
        cell = next((cell[key] for key in VALUE_KEYS if key in cell), None)
    found = single(cell)
    return None if found == "" else found


def label_field(document: Document, records: list[dict[str, Any]], item_field: str) -> str:
    """The field that holds the label: data fields are the same for all annotations of a task, labels differ."""
    fields = [field for field in document.columns if field not in (*MIN_FIELDS, item_field)]
    if "label" in fields:
        return "label"
    values = values_by_task(records, fields)
    candidates = [field for field, by_id in values.items() if any(len(found) > 1 for found in by_id.values())]
    if not candidates:  # every task has one annotation, or all agree: a label repeats, an item's data does not
        n_values = {field: len(set().union(*by_id.values())) for field, by_id in values.items()}
        fewest = min(n_values.values(), default=0)
        candidates = [field for field in fields if n_values[field] == fewest and fewest < max(len(records), 2)]
    if len(candidates) == 1:
        return candidates[0]
    raise UnreadableFileError(
        f"{document.name}: several fields could hold the label: {some(candidates or fields, 10)}.",
        remedy="Choose one with {label}",
        suggestion={"label": (candidates or fields)[0]} if fields else {},
    )
