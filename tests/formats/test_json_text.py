"""JSON as Python values, and the shapes that exports must have."""

from __future__ import annotations

from typing import Any

import pytest

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.json_text import (
    JsonLines,
    LabelStudioTask,
    PeerannotAnswers,
    RepeatedKeyError,
    WorkerResponses,
    cell_json,
    distinct_keys,
    fields_of_shape,
    parse_json,
    require_shape,
)


def test_a_value_per_line_and_a_single_record_are_json_lines() -> None:
    assert parse_json('{"a": 1}\n\n{"a": 2}\n', "x") == JsonLines([{"a": 1}, {"a": 2}])
    assert isinstance(parse_json('{"a": 1}', "x"), JsonLines)
    assert parse_json('{"a": {"b": 1}}', "x") == {"a": {"b": 1}}
    assert not isinstance(parse_json('{"a": {"b": 1}}', "x"), JsonLines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"a": 1}', r"not valid JSON.*line 1, column 10.*cut off"),
        ('{"a": 1}\n{"a": ', "JSON lines: .* in line 2"),
        ('{"a": 1}\n{"b": 1, "b": 2}', "line 2 is no export: an object has the key 'b' twice"),
        ('[{"a": {"b": 1, "b": 2}}]', "the key 'b' twice"),
        ("[" * 10_000, "nested too deeply"),
        ('{"a": 1}\n' + "[" * 10_000, "line 2 is no export: values are nested too deeply"),
        ("[" + "1" * 5000 + "]", "thousands of digits"),
        (r'["\ud83d\ude00", ["\udc00"]]', r"half of a surrogate pair, \\udc00"),
    ],
)
def test_what_is_no_export_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnreadableFileError, match=f"(?s)^x.*{message}"):
        parse_json(text, "x")


class Key(str):
    """A key that counts how often it is compared."""

    __hash__ = str.__hash__
    n_compared = 0

    def __eq__(self, other: object) -> bool:
        Key.n_compared += 1
        return str.__eq__(self, other)


def test_a_repeated_key_is_found_without_comparing_every_two() -> None:
    keys = [Key(place) for place in range(2000)]
    with pytest.raises(RepeatedKeyError, match="'1999' twice"):
        distinct_keys([(key, 0) for key in [*keys, Key(1999)]])
    assert Key.n_compared < 10 * len(keys)


def test_a_cell_that_is_no_json_stays_text() -> None:
    assert cell_json('{"a": [1]}') == {"a": [1]}
    for text in ("{broken", "[" * 10_000, "1" * 5000, '{"a": 1, "a": 2}'):
        assert cell_json(text) == text


def place(entry: int) -> str:
    return f"x.json entry {entry}"


@pytest.mark.parametrize(
    ("records", "schema", "message"),
    [
        ([{}, {"annotations": 5}], LabelStudioTask, r"entry 1: annotations .*expected `array \| null`, got `int`"),
        ([{"annotations": [{"result": [1]}]}], LabelStudioTask, r"entry 0: annotations\[0\]\.result\[0\] "),
        ([{}], WorkerResponses, r"entry 0: the record .*missing required field `answers`"),
        ([{"1": {"a": []}}], PeerannotAnswers, "entry 0"),
        ([{"q.responses": 1}], fields_of_shape(**{"q.responses": list[Any]}), "entry 0: q.responses"),
    ],
)
def test_the_first_part_of_another_shape_is_named(records: list[Any], schema: Any, message: str) -> None:
    with pytest.raises(UnreadableFileError, match=message):
        require_shape(records, schema, place)


def test_fields_that_no_reader_looks_at_may_hold_anything() -> None:
    require_shape([{"id": 1, "other": object()}, {"completions": None, "data": {"a": [{}]}}], LabelStudioTask, place)
