"""SageMaker Ground Truth: worker responses, consolidation requests, and the consolidated output manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import PurePath
from typing import Any

from crowdprism.annotations.times import moment_in_seconds
from crowdprism.formats import json_text
from crowdprism.formats.documents import Document
from crowdprism.formats.platforms import task_answer
from crowdprism.formats.raw_annotations import RawAnnotations

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
                times = {"duration": seconds(given), "timestamp": given.get("submissionTime")}
                raw.add(str(item), given["workerId"], label, **times)
    return raw


def seconds(given: dict[str, Any]) -> float | None:
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
    """Read consolidation requests: every worker's answer to every object."""
    item_field = document.asked.get("item", "datasetObjectId")
    raw = RawAnnotations({"item": item_field, "annotator": "workerId", "label": "annotationData.content"}, is_text=True)
    for place, record in enumerate(document.records):
        item = object_id(document, place, record, item_field)
        answers = list(answers_of(record))
        json_text.require_shape(
            answers, json_text.RequestedAnnotation, partial("{}, answer {}".format, document.place(place))
        )
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
    return (
        document.container in ("json", "json lines")
        and any(name.endswith("-metadata") for name in fields)
        and any(name in fields for name in SOURCES)
    )


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
