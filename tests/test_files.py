"""Files and folders appear complete or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from crowdprism import files
from crowdprism.files import cache_folder, data_folder, replacing_file, replacing_folder


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


def test_a_folder_is_replaced_as_a_whole_only_when_the_block_succeeds(tmp_path: Path) -> None:
    target = tmp_path / "run"
    for name in ("a", "b"):
        with replacing_folder(target) as fresh:
            (fresh / name).write_text(name)
    with pytest.raises(KeyboardInterrupt), replacing_folder(target) as fresh:
        interrupted_after((fresh / "c").write_text("c"))
    assert content(tmp_path) == {str(Path("run", "b")): "b"}


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "run"
    with replacing_folder(target) as fresh:
        (fresh / "old").write_text("old")
    rename = os.rename

    def fail_for_the_new_one(source: Path, goal: Path) -> None:
        if goal == target and not source.name.endswith(".old"):
            raise PermissionError("in use")
        rename(source, goal)

    monkeypatch.setattr(files.os, "rename", fail_for_the_new_one)
    with pytest.raises(PermissionError), replacing_folder(target) as fresh:
        (fresh / "new").write_text("new")
    assert content(tmp_path) == {str(Path("run", "old")): "old"}


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_files_and_folders_have_the_permissions_of_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        with replacing_file(tmp_path / "file") as fresh:
            fresh.write_text("x")
        with replacing_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(umask)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750


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
