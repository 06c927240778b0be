"""A saved folder is read whole, or refused with what to do; `crowdprism.load` knows what was saved."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.errors import ResultFormatError
from crowdprism.results import FitResult
from crowdprism.results.loading import SCHEMA_VERSION, fields_of
from crowdprism.results.manifest import read_run


@pytest.fixture
def result() -> FitResult:
    a = cp.Annotations.from_triplets(["x", "x", "y"], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    return cp.make_aggregator("majority-vote").fit(a).result_


def test_load_gives_a_result_where_only_that_was_saved(result: FitResult, tmp_path: Path) -> None:
    again = cp.load(result.save(tmp_path / "run"))
    assert isinstance(again, FitResult)
    assert again.labels().tolist() == result.labels().tolist()


def test_fields_are_those_that_were_saved_and_absent_parts_are_left_out(result: FitResult, tmp_path: Path) -> None:
    fields = read_run(result.save(tmp_path / "run"), fields_of)
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


# -- forged runs --------------------------------------------------------------------------------------------

DEEP = "[" * 200_000
MB = 1e6 if sys.platform == "darwin" else 1e3  # units of the largest resident size


def forge(folder: Path, record: dict[str, Any] | None = None, **arrays: Any) -> None:
    """Change a saved result as somebody without our code would; without a manifest only the content can tell."""
    (folder / "manifest.json").unlink()
    path = folder / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **(record or {})}))
    if arrays:
        with np.load(folder / "arrays.npz") as stored:
            kept = {**stored, **arrays}
        np.savez(folder / "arrays.npz", **{name: values for name, values in kept.items() if values is not None})


def names(*values: Any, kind: str = "str") -> dict[str, Any]:
    return {"type": kind, "values": list(values)}


def account(**changes: float) -> dict[str, Any]:
    expected = {"value": 0.8, "low": 0.7, "high": 0.9, "level": 0.9, **changes}
    return {"expected_accuracy": expected, "n_gold": 0, "n_more": 10, "half_width_after": 0.05}


@pytest.mark.parametrize(
    "record",
    [
        {"schema": "1"},
        {"schema": True},
        {"schema": 0},
        {"schema": None},
        {"method": 5},
        {"parameters": []},
        {"history": {"loss": "abc"}},
        {"history": {"loss": ["abc"]}},
        {"history": []},
        {"seed": "0"},
        {"seed": True},
        {"versions": {"numpy": 5}},
        {"warnings": "text"},
        {"warnings": [5]},
        {"items": names("x")},
        {"items": names("x", "y", "z")},
        {"items": names("x", "x")},
        {"items": names("x", 5, kind="uuid")},
        {"items": names("x", "y", kind="code")},
        {"items": names([], [], kind="tuple")},
        {"items": names(*[["tuple", 5]] * 2, kind="mixed")},
        {"items": {"type": "str", "values": 5}},
        {"items": {"type": [], "values": []}},
        {"items": 5},
        {"annotators": names("ann")},
        {"classes": names()},
        {"voices": 5},
        {"voices": [5]},
        {"voices": [["ann", "bob"]]},
        {"voices": [[0, 2]]},
        {"voices": [[-1, 0]]},
        {"known_items": [2]},
        {"known_items": [-1]},
        {"known_items": [True]},
        {"known_items": "0"},
        {"known_items": [0.0]},
        {"account": 5},
        {"account": {"expected_accuracy": {"value": "high"}}},
        {"account": {"expected_accuracy": {"value": float("nan")}, "n_gold": 0}},
        {"account": account(value=0.95)},
        {"account": account(low=-0.5)},
        {"account": account(high=2.0)},
        {"account": account() | {"n_gold": -1}},
        {"method": "\ud800"},
        {"items": names("\ud800", "y")},
    ],
    ids=str,
)
def test_a_forged_record_is_refused(record: dict[str, Any], result: FitResult, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "run")
    forge(folder, record)
    with pytest.raises(ResultFormatError):
        cp.load(folder)


@pytest.mark.parametrize(
    "arrays",
    [
        {"class_probabilities": np.full((2, 2), np.nan)},
        {"class_probabilities": np.array([[np.inf, 0], [1, 0]])},
        {"class_probabilities": np.array([[-1.0, 2.0], [0.5, 0.5]])},
        {"class_probabilities": np.array([[0.5, 0.1], [0.5, 0.5]])},
        {"class_probabilities": np.full((3, 2), 0.5)},
        {"class_probabilities": np.full((2, 3), 1 / 3)},
        {"class_probabilities": np.full((2, 2, 1), 0.5)},
        {"class_probabilities": np.array([["a", "b"], ["c", "d"]])},
        {"class_probabilities": np.array([[True, False], [True, False]])},
        {"class_probabilities": np.full((2, 2), 0.5 + 0j)},
        {"confusions": np.full((1, 2, 2), 0.5)},
        {"confusions": np.full((2, 2, 2), np.nan)},
        {"confusions": np.ones((2, 2, 2))},
        {"class_prior": np.array([0.5, 0.4])},
        {"labels_per_annotator": np.array([-1, 2])},
        {"skills": np.array([np.inf, 0.0])},
        {"confusion_posterior": np.full((2, 2, 2), -1.0)},
        {"unheard_of": np.zeros(3)},
        {"confidence": np.array([0.5, 1.5])},
        {"annotator_accuracy": np.array([0.5, 2.0])},
        {"annotator_interval": np.array([[0.5, 0.4], [0.1, 0.2]])},
    ],
    ids=lambda arrays: " ".join(arrays),
)
def test_forged_arrays_are_refused(arrays: dict[str, Any], result: FitResult, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "run")
    forge(folder, **arrays)
    with pytest.raises(ResultFormatError):
        cp.load(folder)


def header_of(shape: str, kind: str = "<f8") -> bytes:
    """An array of NumPy that states a shape and holds nothing."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def write_member(path: Path, content: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("class_probabilities.npy", content)


def peak_of_loading(folder: Path) -> tuple[str, float]:
    """The error of loading in a fork, and by how many megabytes its memory grew."""
    import resource

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            cp.load(folder)
            said = "loaded"
        except BaseException as error:
            said = type(error).__name__
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / MB
        os.write(writing, f"{said} {grown}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    said, grown = os.read(reading, 1000).decode().split()
    return said, float(grown)


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
@pytest.mark.parametrize(
    "damage",
    [
        "huge shape",
        "negative shape",
        "huge header",
        "code as header",
        "objects",
        "compressed zeros",
        "nested record",
        "nested manifest",
        "endless record",
        "waiting arrays",
        "sparse arrays",
        "sparse record",
    ],
)
def test_files_made_to_take_memory_or_to_wait_are_refused_at_once(
    damage: str, result: FitResult, tmp_path: Path
) -> None:
    folder = result.save(tmp_path / "run")
    record, arrays = folder / "result.json", folder / "arrays.npz"
    if damage == "nested manifest":
        (folder / "manifest.json").write_text(DEEP)
    else:
        forge(folder)
    makers = {
        "huge shape": lambda: write_member(arrays, header_of("(1000000, 1000000)")),
        "negative shape": lambda: write_member(arrays, header_of("(-1, -1)")),
        "huge header": lambda: write_member(arrays, header_of("(" + "1," * 20_000 + ")")),
        "code as header": lambda: write_member(arrays, header_of("__import__('os').system('true')")),
        "objects": lambda: write_member(arrays, header_of("(2, 2)", "|O")),
        "compressed zeros": lambda: write_member(arrays, header_of("(2, 2)") + bytes(10**9), zipfile.ZIP_DEFLATED),
        "nested record": lambda: record.write_text('{"schema": 1, "method": ' + DEEP),
        "nested manifest": lambda: None,
        "endless record": lambda: (record.unlink(), record.symlink_to("/dev/zero")),
        "waiting arrays": lambda: (arrays.unlink(), os.mkfifo(arrays)),
        "sparse arrays": lambda: os.truncate(arrays, 10**12),
        "sparse record": lambda: (record.write_text("{"), os.truncate(record, 10**12)),
    }
    makers[damage]()
    said, grown = peak_of_loading(folder)
    assert said == "ResultFormatError"
    assert grown < 200


def test_every_byte_that_changes_is_noticed(result: FitResult, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "run")
    random = np.random.default_rng(0)
    for name in ("result.json", "arrays.npz"):
        content = (folder / name).read_bytes()
        for place in random.integers(len(content), size=40):
            (folder / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(ResultFormatError, match="is damaged"):
                cp.load(folder)
        (folder / name).write_bytes(content)
    assert cp.load(folder).method == "majority-vote"


def test_a_run_of_version_0_1_0_loads_without_a_manifest(result: FitResult, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "run")
    (folder / "manifest.json").unlink()
    record = json.loads((folder / "result.json").read_text())
    for later in ("account", "uses_features"):
        record.pop(later, None)
    (folder / "result.json").write_text(json.dumps(record))
    arrays = ("class_probabilities", "confusions", "class_prior", "labels_per_annotator")
    np.savez(folder / "arrays.npz", **{name: getattr(result, name) for name in arrays})
    assert np.array_equal(cp.load(folder).class_probabilities, result.class_probabilities)


def test_tables_of_many_classes_are_saved_in_small_files_and_load_back_to_their_rounding(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    item = np.repeat(np.arange(4000), 3)
    wrong = random.random(len(item)) < 0.1
    label = np.where(wrong, random.integers(600, size=len(item)), item % 600)
    crowd = cp.Annotations.from_triplets(item, random.integers(8, size=len(item)), label, repeats="keep")
    kept = cp.make_aggregator("dawid-skene").fit(crowd).result_
    folder = kept.save(tmp_path / "run")
    stored = sum(path.stat().st_size for path in folder.iterdir())
    tables = ("class_probabilities", "confusions", "confusion_posterior")
    assert stored < sum(getattr(kept, name).nbytes for name in tables) / 20
    again = FitResult.load(folder)
    for name in tables:
        table = getattr(kept, name)
        step = 2**-32 * table.sum(axis=-1).max()
        assert np.allclose(getattr(again, name), table, rtol=1e-6, atol=step), name
    assert np.array_equal(again.confidence, kept.confidence)
    assert again.labels().tolist() == kept.labels().tolist()


def test_small_tables_are_saved_to_the_bit(result: FitResult, tmp_path: Path) -> None:
    assert np.array_equal(FitResult.load(result.save(tmp_path / "run")).class_probabilities, result.class_probabilities)
