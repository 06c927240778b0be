"""The shapes of JSON exports, declared per tool, and the one check that a file keeps them.

Only fields that a reader looks at are declared; all others may hold anything.
"""

# Schemas are values for msgspec, not types of ours.
# mypy: disable-error-code="valid-type"

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Required, TypedDict

import msgspec

from crowdprism.errors import UnreadableFileError

Schema = Any  # a type as msgspec takes it
Name = str | int | float | bool | None  # what can be an id, a label or a moment


def fields_of_shape(**fields: Schema) -> Schema:
    """A schema of records in which these fields, where there are any, hold what is said."""
    return TypedDict("Record", fields, total=False)  # type: ignore[operator]


User = fields_of_shape(id=Name, email=Name)
LabelStudioResult = fields_of_shape(from_name=Name, value=dict[str, Any])
LabelStudioAnnotation = fields_of_shape(
    completed_by=User | Name, result=list[LabelStudioResult] | None, lead_time=float | None, created_at=Name
)
LabelStudioTask = fields_of_shape(
    id=Name,
    data=dict[str, Any],
    annotations=list[LabelStudioAnnotation] | None,
    completions=list[LabelStudioAnnotation] | None,  # as they were called formerly
)
# One annotation of a JSON_MIN export.
LabelStudioRecord = fields_of_shape(id=Name, annotator=User | Name, lead_time=float | str | None, created_at=Any)

ProdigyRecord = fields_of_shape(accept=list[Name] | None, label=Name, answer=Name, _timestamp=float | None)

ArgillaResponse = fields_of_shape(value=Any, user_id=Name, status=Name)
ArgillaRecord = fields_of_shape(fields=dict[str, Any] | None, responses=dict[str, list[ArgillaResponse] | None] | None)

# Ground Truth: what workers answered about an object, in a consolidation request, and in a manifest.
WorkerAnswer = fields_of_shape(
    workerId=Required[str | int], timeSpentInSeconds=float | None, acceptanceTime=Name, submissionTime=Name
)
WorkerResponses = fields_of_shape(answers=Required[list[WorkerAnswer]], datasetObjectId=Name)
RequestedAnnotation = fields_of_shape(workerId=Required[str | int], annotationData=dict[str, Any])
ManifestMetadata = fields_of_shape(confidence=float | None)

DoccanoRecord = fields_of_shape(id=Name, label=list[Any] | Name)
PeerannotAnswers = dict[str, dict[str, Name]]
# Names of one role with their type, as `names_to_json` writes them.
StoredNames = fields_of_shape(type=Required[str], values=Required[list[Any]])


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
