"""Shapes of exports are declared; what does not keep to them is named by its path."""

from __future__ import annotations

from typing import Any

import pytest

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.schemas import (
    LabelStudioTask,
    PeerannotAnswers,
    WorkerResponses,
    fields_of_shape,
    require_shape,
)


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
