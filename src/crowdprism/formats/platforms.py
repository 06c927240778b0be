"""Exports of crowdsourcing platforms: Mechanical Turk and SageMaker Ground Truth, Toloka, Appen (CrowdFlower)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import PurePath
from typing import Any

import polars as pl

from crowdprism.annotations.frames import find_columns
from crowdprism.annotations.times import moment_in_seconds
from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats import json_text, tables
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations

INPUT, ANSWER = "Input.", "Answer."
TASK_ANSWERS = "Answer.taskAnswers"
BOXES = ".*.on"  # stands for a column per box
TOLOKA_WORKER, STATUS, TASK = "ASSIGNMENT:worker_id", "ASSIGNMENT:status", "ASSIGNMENT:task_id"
SUBMITTED = "ASSIGNMENT:submitted"
UNIT, WORKER, TAINTED = "_unit_id", "_worker_id", "_tainted"
GOLD_ENDING = "_gold"


def read_mturk(document: Document) -> RawAnnotations:
    """Read assignments; rejected ones are skipped unless `include_rejected`."""
    pairs = item_label_pairs(document)
    items, labels = (", ".join(dict.fromkeys(columns)) for columns in zip(*pairs, strict=True))
    annotator = document.asked.get("annotator", "WorkerId")
    times = {"duration": "WorkTimeInSeconds"} if "WorkTimeInSeconds" in document.columns else {}
    raw = RawAnnotations({"item": items, "annotator": annotator, "label": labels, **times}, is_text=True)
    needed = [annotator, *(column for pair in pairs for column in pair)]
    document.require_columns(*(column for column in needed if not column.endswith(BOXES)))
    raw.n_answers = 0
    for place, record in enumerate(document.records):
        raw.n_rows += 1
        if record.get("AssignmentStatus") == "Rejected" and not document.options.include_rejected:
            raw.skip("rejected", document.place(place))
            raw.n_answers += 1
            continue
        raw.n_answers += len(pairs)
        # The time is that of the whole assignment, so each of its items gets an equal share.
        numbers = {role: seconds(record.get(field), len(pairs)) for role, field in times.items()}
        for item_column, label_column in pairs:
            label = answer(record, label_column)
            if raw.is_answer(label, document.place(place), document.options, f"no answer in {label_column}"):
                raw.add(record[item_column], record[annotator], label, **numbers)
    return raw


def seconds(text: Any, share: int) -> float | None:
    try:
        return float(text) / share
    except (TypeError, ValueError):
        return None


def item_label_pairs(document: Document) -> list[tuple[str, str]]:
    """Which column names the item that an answer column is about; one pair for each item of a HIT."""
    columns = document.columns
    answers = [column for column in columns if column.startswith(ANSWER)]
    inputs = [column for column in columns if column.startswith(INPUT)]
    label, item = document.asked.get("label"), document.asked.get("item")
    if label is not None and label not in columns:
        label = next((one for one in (f"{ANSWER}{label}", f"{ANSWER}{label}.label") if one in columns), label)
        if label not in columns and not any(one.startswith(label) for one in answers):
            raise UnreadableFileError(f"{document.name} has no answer column {label!r}; it has {some(answers, 12)}.")
    if item is not None and item not in columns:
        item = f"{INPUT}{item}"
        if item not in columns:
            raise UnreadableFileError(
                f"{document.name} has no input column {document.asked['item']!r}; it has {some(inputs, 12)}.",
                parameter="item",
            )
    numbered = numbered_pairs(inputs, answers, item, label)
    if numbered:
        return numbered
    if item is None:
        item = inputs[0] if len(inputs) == 1 else "HITId"
    return [(item, only_answer(document, answers) if label is None else label)]


def numbered_pairs(inputs: list[str], answers: list[str], item: str | None, label: str | None) -> list[tuple[str, str]]:
    """Pairs such as Input.image_url3 and Answer.label3; none unless at least two numbers fit."""
    by_number: dict[str, dict[str, list[str]]] = {}
    for kind, columns in (("input", inputs), ("answer", answers)):
        for column in columns:
            found = re.fullmatch(r"(.*?[^0-9])_?(\d+)(\.label)?", column)
            if found:
                by_number.setdefault(found[2], {}).setdefault(kind, []).append(column)
    full = {number: found for number, found in by_number.items() if {"input", "answer"} <= set(found)}
    if len(full) < 2:
        return []

    def choose(columns: list[str], wanted: str | None) -> str | None:
        if wanted is not None:
            base = re.sub(r"\d+(\.label)?$", "", wanted)
            columns = [column for column in columns if column.startswith(base)]
        return columns[0] if len(columns) == 1 else None

    pairs = [(choose(found["input"], item), choose(found["answer"], label)) for found in full.values()]
    return [(one, other) for one, other in pairs if one is not None and other is not None]


def only_answer(document: Document, answers: list[str]) -> str:
    if TASK_ANSWERS in answers:
        return TASK_ANSWERS
    boxes = {column.rsplit(".", 2)[0] if column.count(".") > 2 else "Answer" for column in answers}
    if answers and all(column.endswith(".on") for column in answers) and len(boxes) == 1:
        return f"{boxes.pop()}{BOXES}"
    labels = [column for column in answers if column.endswith(".label")]
    return document.only(labels or answers, "label", "answer columns")


def answer(record: dict[str, Any], column: str) -> Any:
    """The label in a record: None if there is none, a list if there are several."""
    if column.endswith(BOXES):
        prefix = column.removesuffix("*.on")
        boxes = {name: str(record[name]).strip().lower() for name in record if name.startswith(prefix)}
        ticked = [name for name, cell in boxes.items() if name.endswith(".on") and cell in ("true", "1", "on", "yes")]
        chosen = [name.removeprefix(prefix).removesuffix(".on") for name in ticked]
        return chosen[0] if len(chosen) == 1 else chosen or None
    cell = record.get(column)
    if column == TASK_ANSWERS and cell:
        return task_answer(json_text.cell_json(cell))
    return None if cell in (None, "", "{}") else cell


def task_answer(content: Any) -> Any:
    """The label inside what crowd-elements return: a label, or the boxes that are ticked."""
    if isinstance(content, list):
        content = content[0] if len(content) == 1 else {}
    if not isinstance(content, dict):
        return content
    if "label" in content:
        return content["label"]
    if "labels" in content:
        found = content["labels"]
        return found[0] if isinstance(found, list) and len(found) == 1 else found or None
    if content and all(isinstance(one, dict) and "on" in one for one in content.values()):
        content = {name: one["on"] for name, one in content.items()}
    ticked = [name for name, one in content.items() if one is True]
    if ticked or (content and all(isinstance(one, bool) for one in content.values())):
        return ticked[0] if len(ticked) == 1 else ticked or None
    inner = [found for found in map(task_answer, content.values()) if found is not None]
    return inner[0] if len(inner) == 1 else inner or None


def matches_toloka(document: Document) -> bool:
    return document.container == "table" and any(column.startswith("OUTPUT:") for column in document.columns)


def read_toloka(document: Document) -> RawAnnotations:
    """Read assignments: golden answers become gold; rejected, skipped and expired assignments are skipped."""
    item = column_for(document, "item", "INPUT:")
    label = column_for(document, "label", "OUTPUT:")
    golden = document.asked.get("gold", label.replace("OUTPUT:", "GOLDEN:"))
    worker = document.asked.get("annotator", TOLOKA_WORKER)
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
        if status not in ("APPROVED", "SUBMITTED", "") and not document.options.include_rejected:
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


def read_appen(document: Document) -> RawAnnotations:
    """Read judgments: answers of test questions become gold, tainted judgments are skipped."""
    label = document.asked.get("label") or only_question(document)
    given = {"item": UNIT, "annotator": WORKER, "label": label, **document.asked}
    given.setdefault("gold", f"{label}{GOLD_ENDING}")
    if given["gold"] not in document.columns:
        del given["gold"]
    frame = document.frame
    none = pl.repeat(False, frame.height, eager=True)
    skips = TAINTED in frame.columns and not document.options.include_rejected
    tainted = frame[TAINTED].str.to_lowercase().is_in(["true", "1", "yes"]) if skips else none
    several = frame[given["gold"]].str.contains("\n") if "gold" in given else none
    if several.any():  # any of several answers counts as right, which is no true class
        gold = pl.when(several).then(pl.lit("")).otherwise(given["gold"])
        document.frame = frame.with_columns(gold.alias(given["gold"]))
    document.frame = document.frame.filter(~tainted)
    raw = tables.read(document, given)
    if "gold" not in given:
        raw.columns.pop("gold", None)  # _golden says whether a unit is a test question, not its class
        raw.gold_item, raw.gold_label = [], []
    raw.n_rows += int(tainted.sum())
    if tainted.any():
        raw.skip("tainted", document.place(int(tainted.arg_true()[0])), int(tainted.sum()))
    if several.any():
        units = frame.filter(several)[UNIT].n_unique()
        raw.notes.append(f"{units} test questions accept several answers; they are not used as gold")
    return raw


def only_question(document: Document) -> str:
    """The one column that has a column of gold beside it, or a usual name; several are an error that lists them."""
    columns = document.columns
    asked = [name for name in columns if f"{name}{GOLD_ENDING}" in columns]
    if not asked:
        found = find_columns([name for name in columns if not name.startswith("_")]).get("label")
        asked = [found] if found else []
    return document.only(asked, "label", "questions")


CONSOLIDATED = "consolidated"
SOURCES = ("source-ref", "source")
ALL_WORKERS = "annotationsFromAllWorkers"


def first_record(document: Document) -> dict[str, Any]:
    if document.container not in ("json", "json lines"):
        return {}
    found = document.json[0] if isinstance(document.json, list) and document.json else document.json
    return found if isinstance(found, dict) else {}


def matches_responses(document: Document) -> bool:
    answers = first_record(document).get("answers")
    return isinstance(answers, list) and bool(answers) and isinstance(answers[0], dict) and "workerId" in answers[0]


def read_responses(document: Document) -> RawAnnotations:
    """Read worker responses; the object is named by the folder they stand in (its line in the input manifest)."""
    raw = RawAnnotations({"item": "(folder)", "annotator": "workerId", "label": "answerContent"}, is_text=True)
    raw.columns |= {"duration": "timeSpentInSeconds", "timestamp": "submissionTime"}
    parent = PurePath(document.name).parent.name
    for record in document.records_as(json_text.WorkerResponses):
        item = record.get("datasetObjectId", parent if parent.isdigit() else document.stem)
        for given in record["answers"]:
            raw.n_rows += 1
            label = label_text(given.get("answerContent"), document.asked.get("label"))
            if raw.is_answer(label, f"{document.name} {given.get('workerId')}", document.options):
                times = {"duration": time_spent(given), "timestamp": given.get("submissionTime")}
                raw.add(str(item), given["workerId"], label, **times)
    return raw


def time_spent(given: dict[str, Any]) -> float | None:
    """Time spent: as stated, else from acceptance to submission."""
    if given.get("timeSpentInSeconds") is not None:
        return float(given["timeSpentInSeconds"])
    try:
        begun, ended = (moment_in_seconds(given.get(name)) for name in ("acceptanceTime", "submissionTime"))
    except ValueError:
        return None
    return ended - begun


def label_text(content: Any, wanted: str | None) -> Any:
    """The label inside an answer, as text; `wanted` chooses among several fields."""
    if isinstance(content, str):
        content = json_text.cell_json(content)
    if wanted is not None and isinstance(content, dict) and wanted in content:
        content = content[wanted]
    found = task_answer(content)
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    return found if found is None or isinstance(found, (list, str)) else json.dumps(found)


def matches_requests(document: Document) -> bool:
    record = first_record(document)
    return ("datasetObjectId" in record and "annotations" in record) or ALL_WORKERS in json.dumps(record)[:100_000]


def read_requests(document: Document) -> RawAnnotations:
    item_field = document.asked.get("item", "datasetObjectId")
    raw = RawAnnotations({"item": item_field, "annotator": "workerId", "label": "annotationData.content"}, is_text=True)
    for place, record in enumerate(document.records):
        item = object_id(document, place, record, item_field)
        answers = list(answers_of(record))
        where = partial("{}, answer {}".format, document.place(place))
        json_text.require_shape(answers, json_text.RequestedAnnotation, where)
        for given in answers:
            raw.n_rows += 1
            label = label_text(given.get("annotationData", {}).get("content"), document.asked.get("label"))
            if raw.is_answer(label, document.place(place), document.options):
                raw.add(item, given["workerId"], label)
    return raw


def answers_of(record: Any) -> Iterator[dict[str, Any]]:
    """The workers' answers in a record, wherever a custom job put them."""
    if not isinstance(record, dict):
        return
    for name, value in record.items():
        if name in ("annotations", ALL_WORKERS) and isinstance(value, list):
            yield from value
        else:
            yield from answers_of(value)


def object_id(document: Document, place: int, record: dict[str, Any], field: str) -> str:
    inner = record.get("dataObject")
    found = record.get(field, inner.get(field) if isinstance(inner, dict) else None)
    if found is None:
        found = next((record[name] for name in SOURCES if name in record), None)
    if found is None:
        raise document.lacks_field(place, record, field)
    return str(found)


def matches_manifest(document: Document) -> bool:
    fields = document.columns
    has_source = any(name in fields for name in SOURCES) and any(name.endswith("-metadata") for name in fields)
    return document.container in ("json", "json lines") and has_source


def read_manifest(document: Document) -> RawAnnotations:
    """Read consolidated labels as those of one annotator, and warn that who said what is lost."""
    attributes = [name.removesuffix("-metadata") for name in document.columns if name.endswith("-metadata")]
    attribute = document.asked.get("label") or document.only(attributes, "label", "label attributes")
    source = document.asked.get("item") or next((name for name in SOURCES if name in document.columns), SOURCES[0])
    raw = RawAnnotations({"item": source, "annotator": "(not in the manifest)", "label": attribute}, is_text=False)
    shape = json_text.fields_of_shape(**{f"{attribute}-metadata": json_text.ManifestMetadata | None})
    for place, record in enumerate(document.records_as(shape)):
        raw.n_rows += 1
        metadata = record.get(f"{attribute}-metadata") or {}
        label = metadata.get("class-name", record.get(attribute))
        if label is None:
            raw.skip(f"no {attribute!r}", document.place(place))
            continue
        raw.add(record.get(source), CONSOLIDATED, label, weight=metadata.get("confidence", 1.0))
    raw.columns["weight"] = "confidence"
    raw.warn_of_loss(
        f"{document.name} holds consolidated labels only: who gave which label is lost, and all are put down to one "
        f"annotator {CONSOLIDATED!r}. Read the folder annotations/worker-response of the job's output instead."
    )
    return raw
