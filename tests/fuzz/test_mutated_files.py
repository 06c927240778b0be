"""Whatever bytes come in, reading ends in annotations or in one of our errors; the seeds are fixed."""

from __future__ import annotations

import json
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crowdprism.annotations.names import name_array
from crowdprism.errors import CrowdprismError, LostInformationWarning
from crowdprism.formats import FORMATS
from crowdprism.formats.feature_files import read_features
from crowdprism.formats.gold_file import read_gold
from crowdprism.formats.read import read_annotations_with_report

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fuzz_files import difference, mutated_sample, outcome_of, random_table, samples

FIXED = settings(
    max_examples=100, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
N_MUTANTS = 12  # of each sample
KEYS = [
    "id", "data", "annotations", "result", "from_name", "value", "choices", "completed_by", "_input_hash", "answer",
    "accept", "label", "options", "fields", "responses", "q.responses", "q.responses.users", "answers", "workerId",
    "answerContent", "datasetObjectId", "source-ref", "kind", "kind-metadata", "item", "annotator", "text",
    "annotation_id", "timestamp", "weight", "gold", "status",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["x", "y", "accept"])
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=15,
)
RECORDS = st.lists(st.dictionaries(st.sampled_from(KEYS), TREES, max_size=8), min_size=1, max_size=4)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def refusal(reading: Callable[[], Any]) -> str | None:
    """Our message, or None where the file is read."""
    try:
        reading()
    except CrowdprismError as error:
        return str(error)
    return None


def read(path: Path, **options: Any) -> None:
    """Read, and let pass only what is ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LostInformationWarning)
        message = refusal(lambda: read_annotations_with_report(path, max_size="16MB", **options))
    assert message is None or path.name in message
    assert message is None or "internal error" not in message


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_a_mutated_file_is_read_or_refused(sample: Any, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index in range(N_MUTANTS):
            ended, where = outcome_of(sample, mutated_sample(sample, 0, index), folder / str(index), seconds=None)
            assert ended in ("read", "refused"), f"{where} ({index})"


@FIXED
@given(RECORDS, st.booleans())
def test_json_of_any_shape_is_read_or_refused(folder: Path, records: list[Any], as_lines: bool) -> None:
    path = folder / ("x.jsonl" if as_lines else "x.json")
    path.write_text("\n".join(map(json.dumps, records)) if as_lines else json.dumps(records))
    read(path)


@FIXED
@given(RECORDS, st.sampled_from(sorted(FORMATS)))
def test_json_of_any_shape_is_read_or_refused_as_any_format(folder: Path, records: list[Any], name: str) -> None:
    path = folder / "x.json"
    path.write_text(json.dumps(records))
    read(path, format=name)


@FIXED
@given(
    st.sampled_from(["", "item,annotator,label\n", "PK\x03\x04", "\x1f\x8b", "PAR1", "[{", '"']), st.binary(max_size=60)
)
def test_any_bytes_are_read_or_refused(folder: Path, start: str, rest: bytes) -> None:
    path = folder / "x.csv"
    path.write_bytes(start.encode("latin-1") + rest)
    read(path)


@FIXED
@given(st.sampled_from([sample for sample in samples() if len(sample.files) == 1]), st.integers(0, 10**6))
def test_mutated_gold_and_features_are_read_or_refused(folder: Path, sample: Any, index: int) -> None:
    (data,) = mutated_sample(sample, 1, index).values()
    path = folder / "x"
    path.write_bytes(data)
    for reading in (
        lambda: read_gold(path, name_array([7, 8]), name_array(["cat", "dog"])),
        lambda: read_features(path),
    ):
        message = refusal(reading)
        assert message is None or path.name in message


def test_a_random_table_is_read_alike_in_every_form(folder: Path) -> None:
    for index in range(150):
        table = random_table(random.Random(f"0/{index}"))
        assert not difference(table, folder), table.columns
