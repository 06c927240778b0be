"""A saved folder is read whole, or refused with what to do; `crowdprism.load` knows what was saved."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.errors import ResultFormatError
from crowdprism.results import FitResult
from crowdprism.results.loading import SCHEMA_VERSION, read_fields


@pytest.fixture
def result() -> FitResult:
    a = cp.Annotations.from_triplets(["x", "x", "y"], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    return cp.make_aggregator("majority-vote").fit(a).result_


def test_load_gives_a_result_where_only_that_was_saved(result: FitResult, tmp_path: Path) -> None:
    again = cp.load(result.save(tmp_path / "run"))
    assert isinstance(again, FitResult)
    assert again.labels().tolist() == result.labels().tolist()


def test_fields_are_those_that_were_saved_and_absent_parts_are_left_out(result: FitResult, tmp_path: Path) -> None:
    fields = read_fields(result.save(tmp_path / "run"))
    assert fields["method"] == "majority-vote"
    assert np.array_equal(fields["class_probabilities"], result.class_probabilities)
    assert "skills" not in fields


def test_a_result_of_an_older_version_has_no_account(result: FitResult, tmp_path: Path) -> None:
    path = result.save(tmp_path / "run") / "result.json"
    record = json.loads(path.read_text())
    del record["account"], record["uses_features"]
    path.write_text(json.dumps(record))
    (tmp_path / "run" / "manifest.json").unlink()
    assert FitResult.load(tmp_path / "run").account is None


def test_a_result_of_a_newer_version_says_so(result: FitResult, tmp_path: Path) -> None:
    path = result.save(tmp_path / "run") / "result.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "schema": SCHEMA_VERSION + 1}))
    (tmp_path / "run" / "manifest.json").unlink()
    with pytest.raises(ResultFormatError, match="newer crowdprism"):
        FitResult.load(tmp_path / "run")


@pytest.mark.parametrize(
    "damage", ["cut json", "no arrays", "cut arrays", "no folder", "arrays with pickle", "no probabilities"]
)
def test_a_damaged_result_is_an_error_that_says_what_to_do(damage: str, result: FitResult, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "run")
    record, arrays = folder / "result.json", folder / "arrays.npz"
    if damage == "cut json":
        record.write_text(record.read_text()[:50])
    elif damage == "no arrays":
        arrays.unlink()
    elif damage == "cut arrays":
        arrays.write_bytes(arrays.read_bytes()[:100])
    elif damage == "no folder":
        folder = tmp_path / "nowhere"
    elif damage == "no probabilities":
        np.savez(arrays, class_prior=np.array([0.5, 0.5]))
    else:
        np.savez(arrays, class_probabilities=np.array([{"code": "runs"}], dtype=object))
    with pytest.raises(ResultFormatError, match=r"again|written by .* the `save` method"):
        FitResult.load(folder)
