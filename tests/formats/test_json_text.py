"""JSON is parsed whole or refused with a place."""

from __future__ import annotations

import pytest

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.json_text import JsonLines, cell_json, parse_json


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


def test_a_cell_that_is_no_json_stays_text() -> None:
    assert cell_json('{"a": [1]}') == {"a": [1]}
    for text in ("{broken", "[" * 10_000, "1" * 5000, '{"a": 1, "a": 2}'):
        assert cell_json(text) == text
