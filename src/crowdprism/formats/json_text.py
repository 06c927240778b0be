"""JSON and JSON lines as Python values, and the shapes of exports: only the fields that a reader looks at."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Required, TypedDict

import msgspec

from crowdprism.errors import UnreadableFileError

LARGE_JSON = 1 << 24  # characters
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class JsonLines(list[Any]):
    """Records that stood one per line."""


class RepeatedKeyError(ValueError):
    """An object has the same key twice."""


def parse_json(text: str, name: str) -> Any:
    """The value of a JSON document, or `JsonLines` where there is one value per line or a single record."""
    if len(text) >= LARGE_JSON and text.rstrip()[-1:] not in ("]", "}"):  # parsing would take long to find out
        raise UnreadableFileError(
            f"{name} is cut off: it begins as JSON but its last characters (of {len(text)}) are "
            f"{text.rstrip()[-20:]!r}. Export or copy it again; nothing was read."
        )
    try:
        found = loads(text)
    except json.JSONDecodeError as error:
        start = text.lstrip()
        first = start.split("\n", 1)[0]
        begins_as_lines = start[:1] == "{" and error.lineno > 1 and isinstance(cell_json(first), dict)
        if error.msg != "Extra data" and not begins_as_lines:
            cut = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated")
            why = "the file seems cut off there; export or copy" if cut else "correct the file or export"
            raise UnreadableFileError(
                f"{name} is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno} (character "
                f"{error.pos}); {why} it again. Nothing was read."
            ) from error
        found = JsonLines(json_lines(text, name))
    except (RecursionError, ValueError) as error:
        raise unusual_json(name, error) from error
    if SURROGATE.search(text):
        require_encodable(found, name)
    if isinstance(found, dict) and not all(isinstance(value, dict) for value in found.values()):
        return JsonLines([found])  # a single record
    return found


def loads(text: str) -> Any:
    """Parse JSON; an object with the same key twice is an error, because one of the values would be lost."""
    return json.loads(text, object_pairs_hook=distinct_keys)


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise RepeatedKeyError(f"an object has the key {repeated!r} twice")
    return found


def cell_json(text: str) -> Any:
    """The value of a cell that holds JSON; text that is no JSON stays as it is."""
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return text


def unusual_json(name: str, error: Exception) -> UnreadableFileError:
    why = str(error) if isinstance(error, RepeatedKeyError) else "a number has thousands of digits"
    if isinstance(error, RecursionError):
        why = "values are nested too deeply"
    return UnreadableFileError(f"{name} is no export: {why}. Correct the file or export it again; nothing was read.")


def require_encodable(found: Any, name: str) -> None:
    """Stop at half of a surrogate pair: such a text cannot be written to any file."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        around = error.object[max(error.start - 20, 0) : error.start]
        raise UnreadableFileError(
            f"{name} holds half of a surrogate pair, \\u{ord(error.object[error.start]):04x}, after {around!r}: this "
            "is no text. Correct the file or export it again; nothing was read."
        ) from error


def json_lines(text: str, name: str) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield loads(line)
        except json.JSONDecodeError as error:
            raise UnreadableFileError(
                f"{name} is not valid JSON lines: {error.msg} in line {number}, column {error.colno}. "
                "If it is the last line, the file was cut off; export or copy it again. Nothing was read."
            ) from error
        except (RecursionError, ValueError) as error:
            raise unusual_json(f"{name} line {number}", error) from error


# Schemas are values for msgspec, not types of ours.
# mypy: disable-error-code="valid-type"


Schema = Any  # a type as msgspec takes it
Name = str | int | float | bool | None  # what can be an id, a label or a moment


def fields_of_shape(**fields: Schema) -> Schema:
    """A schema of records in which these fields, if present, have the given types."""
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
