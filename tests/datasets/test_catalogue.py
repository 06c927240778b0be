"""The catalogue is complete and true; public files are fetched whole or not at all."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from crowdprism import load_dataset
from crowdprism.datasets import catalogue, find_entry
from crowdprism.datasets.catalogue import ATTEMPTS, Download, _copy, fetch_file
from crowdprism.errors import DownloadError, InvalidParameterError

IMAGES = ["mnist", "fashion_mnist", "cifar10"]


def test_all_that_is_promised_is_in_the_catalogue() -> None:
    truth_inference = [entry.name for entry in catalogue().values() if entry.folder.startswith("truth_inference/")]
    assert len(truth_inference) == 15
    assert {name for name, entry in catalogue().items() if entry.can_be_fetched} == {*IMAGES, "labelme"}
    for entry in catalogue().values():
        assert entry.what
        assert entry.licence
        assert entry.citation
        assert entry.origin
        assert sum(entry.splits.values()) == entry.n_items


def test_an_unknown_name_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(InvalidParameterError, match="Did you mean music"):
        load_dataset("musik")


def test_a_set_is_found_by_the_name_of_its_collection_too() -> None:
    assert find_entry("truth_inference/rte").name == "rte"


CONTENT = np.random.default_rng(0).bytes(700_000)


def wanted(*urls: str, content: bytes = CONTENT, kind: str = "sha256") -> Download:
    return Download(urls, "set.bin", f"{kind}:{hashlib.new(kind, content).hexdigest()}")


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_file_is_fetched_once_and_then_found(site, tmp_path: Path, kind: str) -> None:
    site.files["set.bin"] = CONTENT
    file = wanted(site.url("set.bin"), kind=kind)
    for _ in range(2):
        assert fetch_file(file, tmp_path / "cache").read_bytes() == CONTENT
    assert len(site.ranges_asked) == 1
    assert left_in(tmp_path) == ["set.bin"]


def test_a_cut_transfer_is_continued_where_it_ended(site, tmp_path: Path) -> None:
    site.files["set.bin"] = CONTENT
    site.cut_after = [300_000]
    assert fetch_file(wanted(site.url("set.bin")), tmp_path).read_bytes() == CONTENT
    assert site.ranges_asked == [None, "bytes=300000-"]


def test_a_transfer_cut_too_often_leaves_a_part_that_the_next_call_continues(site, tmp_path: Path) -> None:
    site.files["set.bin"] = CONTENT
    site.cut_after = [100_000] * ATTEMPTS
    file = wanted(site.url("set.bin"))
    with pytest.raises(DownloadError, match=f"{100_000 * ATTEMPTS} bytes were kept; the next call resumes there"):
        fetch_file(file, tmp_path)
    assert left_in(tmp_path) == [".set.bin.part"]
    assert fetch_file(file, tmp_path).read_bytes() == CONTENT
    assert site.ranges_asked[-1] == f"bytes={100_000 * ATTEMPTS}-"
    assert left_in(tmp_path) == ["set.bin"]


def test_a_server_that_cannot_continue_sends_all_again(site, tmp_path: Path) -> None:
    site.files["set.bin"] = CONTENT
    site.knows_ranges = False
    site.cut_after = [300_000]
    assert fetch_file(wanted(site.url("set.bin")), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_behind(site, tmp_path: Path) -> None:
    site.files["set.bin"] = CONTENT[:-1] + b"?"
    with pytest.raises(DownloadError, match=r"(?s)checksum.*Nothing was kept"):
        fetch_file(wanted(site.url("set.bin")), tmp_path)
    assert left_in(tmp_path) == []


def test_after_a_wrong_checksum_the_next_address_is_tried(site, tmp_path: Path) -> None:
    site.files |= {"bad.bin": CONTENT[::-1], "good.bin": CONTENT}
    assert fetch_file(wanted(site.url("bad.bin"), site.url("good.bin")), tmp_path).read_bytes() == CONTENT


def test_a_part_of_another_version_is_given_up_and_fetched_anew(site, tmp_path: Path) -> None:
    site.files["set.bin"] = CONTENT
    (tmp_path / ".set.bin.part").write_bytes(b"older version")
    assert fetch_file(wanted(site.url("set.bin")), tmp_path).read_bytes() == CONTENT
    assert left_in(tmp_path) == ["set.bin"]


@pytest.mark.parametrize("extra", [b"", b"and more than that"])
def test_a_part_that_lacks_nothing_or_is_too_long_ends_as_the_right_file(site, tmp_path: Path, extra: bytes) -> None:
    site.files["set.bin"] = CONTENT
    (tmp_path / ".set.bin.part").write_bytes(CONTENT + extra)
    assert fetch_file(wanted(site.url("set.bin")), tmp_path).read_bytes() == CONTENT


def test_without_a_known_checksum_a_cut_transfer_is_still_noticed(site, tmp_path: Path) -> None:
    site.files["set.bin"] = CONTENT
    site.cut_after = [10] * ATTEMPTS
    with pytest.raises(DownloadError, match="the transfer ended after"):
        fetch_file(Download((site.url("set.bin"),), "set.bin"), tmp_path)


def test_an_address_that_fails_is_named_and_the_next_one_is_used(site, tmp_path: Path) -> None:
    site.failing.add("down.bin")
    site.files["set.bin"] = CONTENT
    with pytest.raises(
        DownloadError, match=r"(?s)down\.bin: Service Unavailable.*gone\.bin: Not Found.*Nothing was kept"
    ):
        fetch_file(wanted(site.url("down.bin"), site.url("gone.bin")), tmp_path)
    assert left_in(tmp_path) == []
    assert fetch_file(wanted(site.url("down.bin"), site.url("set.bin")), tmp_path).read_bytes() == CONTENT


def test_nobody_listening_is_an_error_that_says_how_to_help_oneself(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DownloadError, match="put the file into"):
        fetch_file(wanted("http://127.0.0.1:9/set.bin"), tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="file permissions do not bind this user")
def test_a_folder_without_permission_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(DownloadError, match="CROWDPRISM_CACHE"):
        fetch_file(wanted("http://127.0.0.1:9/set.bin"), tmp_path / "locked" / "set")


def test_a_cache_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DownloadError, match=r"Cannot write into the cache folder .*file.* CROWDPRISM_CACHE"):
        fetch_file(wanted("http://127.0.0.1:9/set.bin"), tmp_path / "file" / "set")


def test_a_full_disk_is_told_as_such(site, tmp_path: Path, monkeypatch) -> None:
    site.files["set.bin"] = CONTENT

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules[fetch_file.__module__], "_copy", full)
    with pytest.raises(DownloadError, match="No space left on device"):
        fetch_file(wanted(site.url("set.bin")), tmp_path)
    assert "set.bin" not in left_in(tmp_path)


def test_ctrl_c_leaves_a_part_that_can_be_continued(site, tmp_path: Path, monkeypatch) -> None:
    site.files["set.bin"] = CONTENT
    honest = _copy

    def interrupted(response, file, bar) -> int:
        file.write(response.read(1000))
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[fetch_file.__module__], "_copy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch_file(wanted(site.url("set.bin")), tmp_path)
    monkeypatch.setattr(sys.modules[fetch_file.__module__], "_copy", honest)
    assert fetch_file(wanted(site.url("set.bin")), tmp_path).read_bytes() == CONTENT
    assert site.ranges_asked[-1] == "bytes=1000-"
