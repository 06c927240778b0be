"""A run folder holds the old run or the new one at every moment, and files of others stay."""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
from pathlib import Path

import pytest

import crowdprism as cp
from crowdprism.errors import InvalidParameterError
from crowdprism.results import FitResult
from crowdprism.results.manifest import MANIFEST, read_manifest
from crowdprism.results.replacing import LOCK, replacing_run

sys.path.insert(0, str(Path(__file__).parents[1] / "torture"))
from killing import killed_before


def fitted(method: str) -> FitResult:
    a = cp.Annotations.from_triplets(["x", "x", "y"], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    return cp.make_aggregator(method).fit(a).result_


OLD, NEW = fitted("majority-vote"), fitted("dawid-skene")


def write(folder: Path, content: str, *names: str, kind: str = "result", **options: bool) -> None:
    with replacing_run(folder, kind=kind, **options) as fresh:  # type: ignore[arg-type]
        for name in names:
            (fresh / name).write_text(content)


def interrupted_after(done: object) -> None:
    raise KeyboardInterrupt


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != MANIFEST}


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
@pytest.mark.parametrize("there_before", ["nothing", "a run", "a run with a report"])
def test_a_kill_before_any_call_leaves_the_old_run_or_the_new_one(there_before: str, tmp_path: Path) -> None:
    found, call = [], 1
    while True:
        folder = tmp_path / str(call) / "run"
        folder.parent.mkdir()
        if there_before != "nothing":
            with replacing_run(folder, kind="result") as fresh:
                OLD.write_into(fresh)
                if there_before == "a run with a report":
                    (fresh / "report.html").write_text("old")
            (folder / "mine.txt").write_text("kept")
        killed = killed_before(call, lambda folder=folder: NEW.save(folder))
        if there_before != "nothing":
            found.append(cp.load(folder).method)
            assert (folder / "mine.txt").read_text() == "kept"
        OLD.save(folder)
        names = {"manifest.json", "result.json", "arrays.npz"} | ({"mine.txt"} if there_before != "nothing" else set())
        assert set(os.listdir(folder)) == names, f"leftovers of a kill before call {call}"
        assert cp.load(folder).method == "majority-vote"
        assert os.listdir(folder.parent) == ["run"]
        call += 1
        if not killed:
            break
    assert call > 8
    assert found == sorted(found, reverse=True), "once the new run is there, it stays"


def test_files_of_the_run_before_go_and_all_others_stay(tmp_path: Path) -> None:
    write(tmp_path / "run", "1", "result.json", "labels.csv")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    write(tmp_path / "run", "2", "result.json", "report.html")
    assert content(tmp_path / "run") == {"result.json": "2", "report.html": "2", "notes.txt": "mine"}


def test_a_run_can_be_added_to(tmp_path: Path) -> None:
    write(tmp_path / "run", "1", "result.json", "report.html")
    write(tmp_path / "run", "2", "report.html", keep=True)
    assert content(tmp_path / "run") == {"result.json": "1", "report.html": "2"}
    manifest = read_manifest(tmp_path / "run")
    assert manifest is not None
    assert set(manifest.files) == {"result.json", "report.html"}


def refuse(folder: Path, match: str, **options: object) -> None:
    """The folder is refused before the work begins, and nothing in it changes."""
    before = content(folder) if folder.is_dir() else None
    with pytest.raises(InvalidParameterError, match=match), replacing_run(folder, kind="result", **options):  # type: ignore[arg-type]
        pytest.fail("the work began")
    assert (content(folder) if folder.is_dir() else None) == before


@pytest.mark.parametrize("force", [False, True])
def test_folders_and_files_of_others_are_refused(force: bool, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    refuse(tmp_path / "thesis", "holds 'chapter.txt'", force=force)
    refuse(tmp_path / "thesis" / "chapter.txt", "not a folder", force=force)
    (tmp_path / "extension").mkdir()
    (tmp_path / "extension" / "manifest.json").write_text('{"name": "a browser extension"}')
    refuse(tmp_path / "extension", "not a run folder", force=force)


def test_an_input_inside_the_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "run", "1", "result.json")
    (tmp_path / "run" / "in.csv").write_text("item,annotator,label")
    refuse(tmp_path / "run", "in.csv is inside", inputs=[tmp_path / "run" / "in.csv"])
    refuse(tmp_path / "run", "is inside", inputs=[tmp_path / "run"])


def test_a_file_of_somebody_else_with_a_name_of_ours_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "run", "1", "result.json")
    (tmp_path / "run" / "labels.csv").write_text("mine")
    refuse(tmp_path / "run", "'labels.csv', which the run there does not name", force=True)


def test_what_was_changed_or_is_of_another_kind_is_replaced_only_by_force(tmp_path: Path) -> None:
    write(tmp_path / "run", "1", "result.json", "labels.csv")
    refuse_kind = pytest.raises(InvalidParameterError, match=r"holds a result, and this is a classifier.*force=True")
    with refuse_kind, replacing_run(tmp_path / "run", kind="classifier"):
        pytest.fail("the work began")
    (tmp_path / "run" / "labels.csv").write_text("corrected by hand")
    refuse(tmp_path / "run", r"1 of 2 files .* 'labels.csv'.*force=True")
    write(tmp_path / "run", "2", "result.json", "labels.csv", kind="classifier", force=True)
    assert content(tmp_path / "run") == {"result.json": "2", "labels.csv": "2"}


def test_a_folder_without_a_manifest_is_never_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write(folder, "1", "result.json", "labels.csv")
    (folder / MANIFEST).unlink()
    refuse(folder, r"not a run folder.*'labels.csv'")
    with pytest.raises(InvalidParameterError, match="not a run folder"):
        write(folder, "2", "result.json", force=True)
    assert content(folder) == {"result.json": "1", "labels.csv": "1"}


@pytest.mark.skipif(os.name != "posix", reason="needs links, locks or renames over open files")
def test_links_and_the_current_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "run", "1", "result.json")
    for name, goal in (("link", tmp_path / "run"), ("dangling", tmp_path / "nowhere")):
        (tmp_path / name).symlink_to(goal)
        refuse(Path(f"{tmp_path / name}/"), "is a link")
    monkeypatch.chdir(tmp_path / "run")
    for name in (".", "../run", str(tmp_path / "run")):
        refuse(Path(name), "current folder")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(os.name != "posix", reason="needs links, locks or renames over open files")
def test_of_two_writers_one_wins_and_the_other_is_told(tmp_path: Path) -> None:
    with replacing_run(tmp_path / "run", kind="result") as fresh:
        (fresh / "result.json").write_text("1")
        other = pytest.raises(
            InvalidParameterError, match=rf"being written by another program \(process {os.getpid()}\)"
        )
        with other, replacing_run(tmp_path / "run", kind="result"):
            pytest.fail("the work began")
    assert content(tmp_path / "run") == {"result.json": "1"}


def test_a_lock_that_a_killed_writer_left_does_not_hold(tmp_path: Path) -> None:
    write(tmp_path / "run", "1", "result.json")
    (tmp_path / "run" / LOCK).write_text("1")
    write(tmp_path / "run", "2", "result.json")
    assert content(tmp_path / "run") == {"result.json": "2"}


def test_work_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), replacing_run(tmp_path / "a" / "b", kind="result") as fresh:
            interrupted_after((fresh / "result.json").write_text("half"))
        assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refuse(tmp_path / "file" / "run", "cannot be written")


@pytest.mark.skipif(os.name != "posix", reason="needs links, locks or renames over open files")
def test_readers_during_replacements_see_one_run_or_the_other(tmp_path: Path) -> None:
    folder, done = OLD.save(tmp_path / "run"), threading.Event()

    def write_on() -> None:
        for _ in range(60):
            NEW.save(folder)
            OLD.save(folder)
        done.set()

    writer = threading.Thread(target=write_on)
    writer.start()
    seen = set()
    while not done.is_set():
        found = cp.load(folder)
        expected = OLD if found.method == OLD.method else NEW
        assert found.class_probabilities.tolist() == expected.class_probabilities.tolist()
        seen.add(found.method)
    writer.join()
    assert seen == {OLD.method, NEW.method}


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize("inside", ["", "staging"])
def test_a_forged_run_moves_no_file_through_a_link(inside: str, tmp_path: Path) -> None:
    """A manifest names files in the folder `labels`; that it is a link elsewhere must not matter to files there."""
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    with replacing_run(folder, kind="result") as fresh:
        (fresh / "result.json").write_text("{}")
    manifest = json.loads((folder / "manifest.json").read_text())
    staging = folder / manifest["staging"]
    (staging / "labels").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "mine.txt").write_text("kept")
    if inside:
        (staging / "labels").rmdir()
        (staging / "labels").symlink_to(elsewhere)
    else:
        (staging / "labels" / "mine.txt").write_text("forged")
        (folder / "labels").symlink_to(elsewhere)
    manifest["files"]["labels/mine.txt"] = {"size": 6, "sha256": "0" * 64}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InvalidParameterError, match="is a link"), replacing_run(folder, kind="result", force=True):
        raise AssertionError("the work began")
    assert (elsewhere / "mine.txt").read_text() == "kept"


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_links_that_lead_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for target in (tmp_path / "circle", tmp_path / "circle" / "run"):
        with pytest.raises(InvalidParameterError, match="circle"), replacing_run(target, kind="result"):
            raise AssertionError("the work began")
    with replacing_run(tmp_path / "run", kind="result", inputs=[tmp_path / "circle"]) as fresh:
        (fresh / "result.json").write_text("{}")


def test_a_place_below_a_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidParameterError, match=r"file.run cannot be written: .*nothing was written"):
        write(tmp_path / "file" / "run", "1", "result.json")


def test_a_full_disk_at_the_lock_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*rest: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InvalidParameterError, match="No space left"), replacing_run(tmp_path / "run", kind="result"):
        raise AssertionError("the work began")
    assert list(tmp_path.iterdir()) == []
