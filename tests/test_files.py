"""Files appear complete or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from crowdprism.files import cache_folder, data_folder, locked, open_regular, replacing_file


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def interrupted_after(done: object) -> None:
    raise KeyboardInterrupt


def test_a_file_is_replaced_only_when_the_block_succeeds(tmp_path: Path) -> None:
    target = tmp_path / "new" / "labels.csv"
    with replacing_file(target, suffix=".csv") as fresh:
        assert fresh.suffix == ".csv"
        fresh.write_text("first")
        assert not target.exists()
    with pytest.raises(KeyboardInterrupt), replacing_file(target) as fresh:
        interrupted_after(fresh.write_text("half"))
    assert content(tmp_path) == {str(Path("new", "labels.csv")): "first"}


@pytest.mark.skipif(os.name != "posix", reason="needs links, FIFOs or locks")
def test_leftovers_of_a_killed_writer_go_and_those_of_a_running_one_stay(tmp_path: Path) -> None:
    target = tmp_path / "labels.csv"
    (tmp_path / ".labels.csv.0123456789abcdef").write_text("half")
    (tmp_path / ".labels.csv.notes").write_text("mine")
    with replacing_file(target, suffix=".csv") as first, replacing_file(target) as second:
        second.write_text("second")
        first.write_text("first")
    assert content(tmp_path) == {"labels.csv": "first", ".labels.csv.notes": "mine"}


@pytest.mark.skipif(os.name != "posix", reason="needs links, FIFOs or locks")
def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo"):
        with pytest.raises(FileExistsError, match="no regular file"), replacing_file(tmp_path / name):
            pass
    assert (tmp_path / "link").is_symlink()


@pytest.mark.skipif(os.name != "posix", reason="needs links, FIFOs or locks")
@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_only_regular_files_are_opened(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(OSError, match=r"regular|symbolic|[Ll]oop"):
        open_regular(path)


@pytest.mark.skipif(os.name != "posix", reason="needs links, FIFOs or locks")
def test_a_lock_is_held_by_one_at_a_time_and_ends_with_its_block(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "lock"), pytest.raises(BlockingIOError), locked(tmp_path / "lock"):
            pass


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_files_have_the_permissions_of_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        with replacing_file(tmp_path / "file") as fresh:
            fresh.write_text("x")
    finally:
        os.umask(umask)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_the_data_folder_is_the_one_that_the_variable_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDPRISM_DATA", "~/sets")
    assert data_folder() == Path.home() / "sets"
    monkeypatch.delenv("CROWDPRISM_DATA")
    assert data_folder() is None


@pytest.mark.parametrize(
    ("platform", "variable", "place"),
    [
        ("linux", "XDG_CACHE_HOME", ("crowdprism",)),
        ("win32", "LOCALAPPDATA", ("crowdprism", "Cache")),
        ("darwin", None, ("Library", "Caches", "crowdprism")),
    ],
)
def test_the_cache_folder_is_that_of_the_platform_unless_the_variable_names_one(
    platform: str, variable: str | None, place: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("CROWDPRISM_CACHE", raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, str(tmp_path))
    assert cache_folder() == (Path.home() if variable is None else tmp_path).joinpath(*place)
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
