"""The shapes of JSON exports, declared per tool, and the one check that a file keeps them.

Only fields that a reader looks at are declared; all others may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Required, TypedDict

import msgspec

from crowdprism.errors import UnreadableFileError

Schema = Any  # a type as msgspec takes it
Name = str | int | float | bool | None  # what can be an id, a label or a moment


class User(TypedDict, total=False):
    """Someone who annotated, in Label Studio."""

    id: Name
    email: Name


class LabelStudioResult(TypedDict, total=False):
    """The answer to one question."""

    from_name: Name
    value: dict[str, Any]


class LabelStudioAnnotation(TypedDict, total=False):
    """What one person answered about a task."""

    completed_by: User | Name
    result: list[LabelStudioResult] | None
    lead_time: float | None
    created_at: Name


class LabelStudioTask(TypedDict, total=False):
    """An item with its annotations, under their present or their former name."""

    id: Name
    data: dict[str, Any]
    annotations: list[LabelStudioAnnotation] | None
    completions: list[LabelStudioAnnotation] | None


class LabelStudioRecord(TypedDict, total=False):
    """One annotation of a JSON_MIN export."""

    id: Name
    annotator: User | Name
    lead_time: float | str | None
    created_at: Any


class ProdigyRecord(TypedDict, total=False):
    """One answer."""

    accept: list[Name] | None
    label: Name
    answer: Name
    _timestamp: float | None


class ArgillaResponse(TypedDict, total=False):
    """What one user answered."""

    value: Any
    user_id: Name
    status: Name


class ArgillaRecord(TypedDict, total=False):
    """An item with its responses by question."""

    fields: dict[str, Any] | None
    responses: dict[str, list[ArgillaResponse] | None] | None


class WorkerAnswer(TypedDict, total=False):
    """What one worker of Ground Truth answered."""

    workerId: Required[str | int]
    timeSpentInSeconds: float | None
    acceptanceTime: Name
    submissionTime: Name


class WorkerResponses(TypedDict, total=False):
    """What all workers answered about one object."""

    answers: Required[list[WorkerAnswer]]
    datasetObjectId: Name


class RequestedAnnotation(TypedDict, total=False):
    """A worker's answer in a consolidation request."""

    workerId: Required[str | int]
    annotationData: dict[str, Any]


class ManifestMetadata(TypedDict, total=False):
    """What an output manifest says about a consolidated label."""

    confidence: float | None


class DoccanoRecord(TypedDict, total=False):
    """An item with the labels of one person."""

    id: Name
    label: list[Any] | Name


class StoredNames(TypedDict):
    """Names of one role with their type, as `names_to_json` writes them."""

    type: str
    values: list[Any]


PeerannotAnswers = dict[str, dict[str, Name]]


def fields_of_shape(**fields: Schema) -> Schema:
    """A schema for records whose names of fields are known only from the file."""
    return TypedDict("Record", fields, total=False)  # type: ignore[operator]


def require_shape(value: Any, schema: Schema, place: Callable[[int], str]) -> None:
    """Stop at the first part of parsed JSON that is not as the schema says; `place` words where an entry stands."""
    try:
        msgspec.convert(value, list[schema])
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        found = re.match(r"\[(\d+)\](.*)`$", path, flags=re.DOTALL)
        where = f"{place(int(found[1]))}: {found[2].lstrip('.') or 'the record'}" if found else place(0)
        raise UnreadableFileError(
            f"{where} is not as this format has it ({problem[:1].lower()}{problem[1:]}). Correct the file or export it "
            "again."
        ) from error
