"""Manifests name only files of their folder, and what they say is checked before anything is read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import crowdprism as cp
from crowdprism.errors import ResultFormatError
from crowdprism.results.manifest import MANIFEST, RunFiles, entry_of, parse_manifest, read_manifest, read_run
from crowdprism.results.replacing import replacing_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with replacing_run(tmp_path / "run", kind="result") as fresh:
        (fresh / "result.json").write_text('{"a": 1}')
    return tmp_path / "run"


def record_of(run: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((run / MANIFEST).read_text())
    return record


def test_a_manifest_names_kind_version_sizes_and_digests(run: Path) -> None:
    manifest = read_manifest(run)
    assert manifest is not None
    assert (manifest.kind, manifest.version) == ("result", "0.1.0")
    assert manifest.files["result.json"] == entry_of(run / "result.json")
    entry = manifest.files["result.json"]
    assert entry.size == 8
    # printf '{"a": 1}' | sha256sum
    assert entry.sha256 == "f9d86028c6e0d64e225186f96acb69338b2c59764df79162107f5c4bb34d1310"


def test_a_folder_without_a_manifest_has_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "nowhere") is None


ENTRY = {"size": 8, "sha256": "0" * 64}


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"../thesis.txt": ENTRY}},
        {"files": {"/etc/passwd": ENTRY}},
        {"files": {"a/b": ENTRY}},
        {"files": {"..": ENTRY}},
        {"files": {".hidden": ENTRY}},
        {"files": {"result.json": {"size": -1, "sha256": "0" * 64}}},
        {"files": {"result.json": {"size": True, "sha256": "0" * 64}}},
        {"files": {"result.json": {"size": 8, "sha256": "0"}}},
        {"files": {"result.json": {"size": 8, "sha256": 5}}},
        {"files": ["result.json"]},
        {"files": None},
        {"obsolete": {"../thesis.txt": ENTRY}},
        {"staging": "../elsewhere"},
        {"staging": "/tmp"},
        {"staging": 5},
        {"kind": None},
        {"crowdprism_run": "1"},
        {"crowdprism_run": True},
        {"crowdprism_run": 2},
    ],
)
def test_a_manifest_that_lies_is_refused(change: dict[str, Any], run: Path) -> None:
    text = json.dumps({**record_of(run), **change}).encode()
    with pytest.raises(ResultFormatError, match=r"not a manifest|newer crowdprism"):
        parse_manifest(text, run / MANIFEST)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"5", b"[" * 500_000, b"{" + b" " * 1_000_001, b"\xff", b'{"crowdprism_run": 1}']
)
def test_what_is_no_manifest_is_refused(text: bytes, run: Path) -> None:
    (run / MANIFEST).write_bytes(text)
    with pytest.raises(ResultFormatError, match="not a manifest"):
        read_manifest(run)


@pytest.mark.skipif(os.name != "posix", reason="needs links and FIFOs")
@pytest.mark.parametrize("damage", ["longer", "changed", "gone", "link", "fifo", "device", "folder", "linked staging"])
def test_a_file_that_is_not_as_the_manifest_says_is_refused(damage: str, run: Path, tmp_path: Path) -> None:
    path = run / "result.json"
    if damage == "longer":
        path.write_text('{"a": 10}')
    elif damage == "changed":
        path.write_text('{"a": 2}')
    elif damage == "linked staging":
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "result.json").write_text('{"a": 1}')
        (run / record_of(run)["staging"]).symlink_to(tmp_path / "other")
    else:
        path.rename(tmp_path / "moved.json")
        makers = {
            "link": lambda: path.symlink_to(tmp_path / "moved.json"),
            "fifo": lambda: os.mkfifo(path),
            "device": lambda: path.symlink_to("/dev/zero"),
            "folder": path.mkdir,
            "gone": lambda: None,
        }
        makers[damage]()
    with pytest.raises(ResultFormatError):
        read_run(run, lambda files: files.read_json("result.json"))


def test_any_exception_while_reading_becomes_one_of_ours(run: Path) -> None:
    def read(files: RunFiles) -> None:
        raise MemoryError("by hand")

    with pytest.raises(ResultFormatError, match=r"damaged: MemoryError: by hand\. Fit and save it again"):
        read_run(run, read)


def test_files_that_have_not_moved_yet_are_found_in_their_hidden_folder(run: Path) -> None:
    hidden = run / record_of(run)["staging"]
    hidden.mkdir()
    (run / "result.json").rename(hidden / "result.json")
    (run / "result.json").write_text("of the run before")
    assert read_run(run, lambda files: files.read_json("result.json")) == {"a": 1}


def test_halves_of_surrogate_pairs_as_bytes_are_refused(tmp_path: Path) -> None:
    folder = cp.MajorityVote().fit([[0, 1, 1], [1, 1, 0]]).result_.save(tmp_path / "run")
    (folder / "manifest.json").unlink()
    path = folder / "result.json"
    path.write_bytes(path.read_bytes().replace(b'"majority-vote"', b'"\xed\xa0\x80"'))
    with pytest.raises(ResultFormatError):
        cp.load(folder)
