"""Results survive the disk, without pickle, whole or not at all."""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError, NotFittedError
from crowdprism.results.fit_result import FitResult


@pytest.fixture
def result() -> FitResult:
    a = Annotations.from_triplets(["x", "x", "y"], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    return make_aggregator("majority-vote", voting="hard", ties="lowest").fit(a).result_


def test_a_saved_result_loads_as_it_was(result: FitResult, tmp_path: Path) -> None:
    again = FitResult.load(result.save(tmp_path / "run"))
    for name in ("class_probabilities", "confusions", "class_prior", "labels_per_annotator"):
        assert np.array_equal(getattr(again, name), getattr(result, name))
    assert again.items.tolist() == ["x", "y"]
    assert again.parameters == {"voting": "hard", "ties": "lowest", "random_state": 0}
    assert (again.method, again.seed, again.versions) == (result.method, result.seed, result.versions)


@pytest.mark.parametrize(
    "names",
    [
        [3, -1, 2**62],
        ["é", "日本", "<script>"],
        [("a", 1), ("a", 2), ("b", (3, "c"))],
        [uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=3)],
        [1.5, 2.25, 0.1],
        [True, False],
        [b"\x00", b"\xff"],
    ],
)
def test_names_of_any_type_keep_their_type(names: list, tmp_path: Path) -> None:
    a = Annotations.from_triplets(names, names, [0, 1, 1][: len(names)], classes=[0, 1])
    again = FitResult.load(make_aggregator("majority-vote").fit(a).result_.save(tmp_path / "run"))
    assert again.items.tolist() == a.items.tolist()
    assert [type(name) for name in again.items.tolist()] == [type(name) for name in a.items.tolist()]


def test_a_name_that_cannot_be_saved_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    class Odd:
        pass

    a = Annotations.from_triplets([Odd(), Odd()], ["a", "a"], [0, 1])
    with pytest.raises(InvalidParameterError, match="Odd"):
        make_aggregator("majority-vote").fit(a).result_.save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_saving_again_replaces_the_old_result_and_leaves_no_scraps(result: FitResult, tmp_path: Path) -> None:
    result.save(tmp_path / "run")
    result.save(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_of_something_else_is_never_replaced(result: FitResult, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(InvalidParameterError, match="not a saved result"):
        result.save(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


def test_a_failure_while_writing_keeps_the_old_result(
    result: FitResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result.save(tmp_path / "run")

    def full_disk(*args: object, **kwargs: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="No space"):
        result.save(tmp_path / "run")
    monkeypatch.undo()
    assert FitResult.load(tmp_path / "run").method == "majority-vote"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_labels_and_accuracy_are_by_name(result: FitResult) -> None:
    assert result.labels().tolist() == ["cat", "cat"]
    assert result.accuracy({"x": "dog", "y": "cat", "unheard of": "cat"}) == 0.5
    with pytest.raises(InvalidParameterError, match="None of the gold items"):
        result.accuracy({"z": "cat"})


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
def test_frames_hold_one_row_per_item_and_per_annotator(kind: str, result: FitResult) -> None:
    import narwhals as nw

    labels = nw.from_native(result.to_frame(kind)).to_dict(as_series=False)
    assert labels["item"] == ["x", "y"]
    assert labels["label"] == ["cat", "cat"]
    people = nw.from_native(result.annotators_frame(kind)).to_dict(as_series=False)
    assert people["annotator"] == ["ann", "bob"]
    assert people["annotations"] == [2, 1]


def test_asking_before_fitting_says_what_to_call() -> None:
    with pytest.raises(NotFittedError, match="fit"):
        _ = make_aggregator("majority-vote").result_


def test_a_notebook_shows_what_is_least_certain_and_nothing_runs() -> None:
    a = Annotations.from_triplets(["<b>x", "<b>x", "y"], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    page = make_aggregator("majority-vote").fit(a).result_._repr_html_()
    assert page.index("&lt;b&gt;x") < page.index(">y<")
    assert "<b>x" not in page
    for part in ("majority-vote", "2 items, 2 annotators, 2 classes", "Least accurate annotators", ">50.0%<"):
        assert part in page
