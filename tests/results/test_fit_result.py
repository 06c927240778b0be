"""Results survive the disk, without pickle, whole or not at all."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError, NotFittedError
from crowdprism.results.fit_result import FitResult
from crowdprism.results.intervals import Account, Estimate


@pytest.fixture
def result() -> FitResult:
    a = Annotations.from_triplets(["x", "x", "y"], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    return make_aggregator("majority-vote", voting="hard", ties="lowest").fit(a).result_


def test_a_saved_result_loads_as_it_was(result: FitResult, tmp_path: Path) -> None:
    again = FitResult.load(result.save(tmp_path / "run"))
    for name in ("class_probabilities", "confusions", "class_prior", "labels_per_annotator"):
        assert np.array_equal(getattr(again, name), getattr(result, name))
    assert again.items.tolist() == ["x", "y"]
    given = {"voting": "hard", "ties": "lowest", "random_state": 0, "dependence": "auto", "use_gold": True}
    assert again.parameters == given
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
    with pytest.raises(InvalidParameterError, match="not a run folder"):
        result.save(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


def test_a_failure_while_writing_keeps_the_old_result(
    result: FitResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result.save(tmp_path / "run")

    def full_disk(*args: object, **kwargs: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
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


def test_accuracy_takes_a_series_a_frame_and_an_array(result: FitResult) -> None:
    import pandas as pd

    known = {"x": "dog", "y": "cat"}
    frame = pd.DataFrame({"item": list(known), "label": list(known.values())})
    for gold in (pd.Series(known), frame, np.array(list(known.values()))):
        assert result.accuracy(gold) == 0.5


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
    names = np.repeat(["<b>x", "y", "z", "w"], 3)
    a = Annotations.from_triplets(names, ["ann", "bob", "cy"] * 4, [0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    page = make_aggregator("majority-vote").fit(a).result_._repr_html_()
    assert page.index("&lt;b&gt;x") < page.index(">y<")
    assert "<b>x" not in page
    parts = ("majority-vote", "4 items, 3 annotators, 2 classes", "Expected right:", "Least accurate annotators")
    assert all(part in page for part in (*parts, "confidence", "95 % interval"))


# -- the account ---------------------------------------------------------------------------------------------


def test_the_account_is_made_when_first_asked_for_and_then_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdprism.calibration import account

    made = []
    plain = account.make_account

    def counted(*rest: object, **more: object) -> object:
        made.append(1)
        return plain(*rest, **more)

    monkeypatch.setattr(account, "make_account", counted)
    result = make_aggregator("dawid-skene").fit(Annotations.from_dense([[0, 0, 1], [1, 1, 1]])).result_
    assert not made
    assert result.confidence is result.confidence
    assert result.expected_accuracy.low <= result.expected_accuracy.value <= result.expected_accuracy.high
    assert len(made) == 1


def test_a_loaded_result_states_the_same_account(result: FitResult, tmp_path: Path) -> None:
    again = FitResult.load(result.save(tmp_path / "run"))
    assert np.array_equal(again.confidence, result.confidence)
    assert np.array_equal(again.annotator_accuracy, result.annotator_accuracy)
    assert np.array_equal(again.annotator_accuracy_interval(), result.annotator_accuracy_interval())
    assert again.account.numbers() == result.account.numbers()
    assert again.account.sentence() == result.account.sentence()
    with pytest.raises(InvalidParameterError, match=r"level of 0\.95, not 0\.5"):
        again.annotator_accuracy_interval(level=0.5)


def test_an_account_without_gold_says_so_and_what_answers_would_tell() -> None:
    estimate = Estimate(0.84, 0.67, 0.96, 0.9)
    none = np.empty(0)
    account = Account(none, estimate, lambda level: (none, none), n_gold=0, n_more=40, half_width_after=0.08)
    assert account.sentence() == (
        "Expected right: 84% (67% to 96%), by what other crowds reached; nothing here was checked against gold."
    )
    assert account.advice() == "40 answers would narrow it to about ±8 points."
    assert replace(account, half_width_after=0.14).advice() == ""
    assert "by 1,200 gold answers and what other crowds reached" in replace(account, n_gold=1200).sentence()


def test_voices_are_saved_by_position_and_come_back_by_name(result: FitResult, tmp_path: Path) -> None:
    voices = (tuple(result.annotators.tolist()),)
    saved = replace(result, voices=voices).save(tmp_path / "run")
    assert FitResult.load(saved).voices == voices
