"""Juries: known confusions, copies, people in place of gold, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism import Annotations
from crowdprism.calibration.jury import JuryReport, measure_jury
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError

N = 1200


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    return (np.arange(N) % 4 == 0).astype(int)


def labelled(truth: np.ndarray, accuracies: list[float], names: list[str], seed: int = 0) -> Annotations:
    random = np.random.default_rng(seed)
    table = np.stack([np.where(random.random(N) < one, truth, 1 - truth) for one in accuracies], axis=1)
    return Annotations.from_dense(table, annotator_names=names)


def with_truth(annotations: Annotations, truth: np.ndarray, n: int = N) -> Annotations:
    return annotations.with_gold(dict(enumerate(truth[:n].tolist())))


@pytest.fixture(scope="module")
def report(truth: np.ndarray) -> JuryReport:
    """Three honest judges, and three copies of a fourth; gold of a third of the items."""
    honest = labelled(truth, [0.9, 0.8, 0.75, 0.7], ["a", "b", "c", "d"])
    table = honest.to_dense()
    copies = Annotations.from_dense(
        np.hstack([table, table[:, 3:], table[:, 3:]]), annotator_names=["a", "b", "c", "d", "e", "f"]
    )
    return measure_jury(with_truth(copies, truth, 400))


def test_every_judge_is_measured_with_intervals_that_hold(report: JuryReport) -> None:
    assert (report.reference, report.n_reference, report.n_items) == ("gold", 400, N)
    for judge, accuracy in zip(report.judges, [0.9, 0.8, 0.75, 0.7, 0.7, 0.7], strict=True):
        assert judge.accuracy.low < accuracy < judge.accuracy.high
        assert judge.kappa.low < judge.kappa.value < judge.kappa.high < judge.accuracy.high
        assert judge.n == 400


def test_copies_have_correlation_1_and_count_as_one(report: JuryReport) -> None:
    assert report.correlation[3:, 3:] == pytest.approx(np.ones((3, 3)))
    assert np.abs(report.correlation[:3, :3] - np.eye(3)).max() < 0.15
    expected = 6 / (1 + 5 * 3 / 15)  # 3 of 15 pairs are copies
    assert report.n_independent.low < expected < report.n_independent.high
    assert report.n_independent.value == pytest.approx(expected, abs=0.4)


def test_a_copy_adds_nothing_and_the_panel_does_without(report: JuryReport) -> None:
    adds = {judge.name: judge.adds for judge in report.judges}
    assert adds["a"].low > 0
    assert adds["f"].high <= 0
    assert "a" in report.panel
    assert len({"d", "e", "f"} & set(report.panel)) <= 1
    assert report.panel_accuracy > report.vote.value


def test_over_use_is_the_share_named_minus_the_share_that_is_true(report: JuryReport, truth: np.ndarray) -> None:
    table = labelled(truth, [0.9, 0.8, 0.75, 0.7], ["a", "b", "c", "d"]).to_dense()[:400]
    for judge, given in zip(report.judges[:4], table.T, strict=True):
        assert judge.over_use[1].value == pytest.approx(given.mean() - truth[:400].mean())
        assert judge.over_use[1].low < judge.over_use[1].value < judge.over_use[1].high
        assert judge.over_use[0].value == pytest.approx(-judge.over_use[1].value)


def test_prevalence_is_corrected_for_the_errors_of_the_vote(report: JuryReport) -> None:
    assert report.voted[1] > 0.28
    assert report.prevalence[1].low < 0.25 < report.prevalence[1].high
    assert report.prevalence[1].value == pytest.approx(0.25, abs=0.05)


def test_identical_judges_are_one_and_independent_judges_are_all(truth: np.ndarray) -> None:
    one = labelled(truth, [0.8], ["a"]).to_dense()
    same = Annotations.from_dense(np.repeat(one, 4, axis=1))
    assert measure_jury(with_truth(same, truth)).n_independent.value == pytest.approx(1.0)
    independent = labelled(truth, [0.8] * 4, list("abcd"))
    assert measure_jury(with_truth(independent, truth)).n_independent.value == pytest.approx(4.0, abs=0.4)


def test_two_judges_with_known_tables_give_closed_forms() -> None:
    truth = np.repeat([0, 1], [60, 40])
    first = np.r_[np.zeros(50), np.ones(10), np.ones(32), np.zeros(8)].astype(int)
    second = np.r_[np.zeros(48), np.ones(12), np.ones(36), np.zeros(4)].astype(int)
    report = measure_jury(
        Annotations.from_dense(np.stack([first, second], axis=1)).with_gold(dict(enumerate(truth.tolist())))
    )
    judge = report.judges[0]
    chance = 0.58 * 0.6 + 0.42 * 0.4
    assert judge.accuracy.value == pytest.approx(0.82)
    assert judge.kappa.value == pytest.approx((0.82 - chance) / (1 - chance))
    assert judge.over_use[1].value == pytest.approx(0.02)
    wrong = first != truth, second != truth
    assert report.correlation[0, 1] == pytest.approx(np.corrcoef(*wrong)[0, 1])
    assert report.vote.value == pytest.approx(np.mean([1 - np.mean(pair) for pair in zip(*wrong, strict=True)]))


def test_people_are_the_reference_without_gold_and_the_test_compares_with_them(truth: np.ndarray) -> None:
    everyone = labelled(truth, [0.85, 0.85, 0.85, 0.95, 0.55], ["h1", "h2", "h3", "good", "bad"])
    report = measure_jury(everyone, humans=["h1", "h2", "h3"])
    assert report.reference == "the majority of 3 humans"
    assert {judge.name for judge in report.judges} == {"bad", "good"}
    assert report.replaces["good"].passed is True
    assert report.replaces["bad"].passed is False


def test_the_same_seed_gives_the_same_report_and_one_judge_is_a_jury(truth: np.ndarray) -> None:
    alone = with_truth(labelled(truth, [0.8, 0.5], ["a", "b"]).drop_annotators(["b"]), truth)
    first, second = (measure_jury(alone, seed=3) for _ in range(2))
    assert first.judges == second.judges
    assert (first.n_independent.value, first.panel) == (1.0, ("a",))
    assert first.correlation.tolist() == [[1.0]]


def test_missing_labels_are_left_out(truth: np.ndarray) -> None:
    table = labelled(truth, [0.9, 0.8], ["a", "b"]).to_dense().astype(int)
    table[: N // 2, 0] = -1
    report = measure_jury(with_truth(Annotations.from_dense(table), truth))
    assert [judge.n for judge in report.judges] == [N // 2, N]


def test_what_cannot_be_measured_is_refused(truth: np.ndarray) -> None:
    everyone = labelled(truth, [0.9, 0.8], ["a", "b"])
    with pytest.raises(InvalidAnnotationsError, match=r"nothing to compare .* humans="):
        measure_jury(everyone)
    with pytest.raises(InvalidAnnotationsError, match=r"share 5 items .* at least 10"):
        measure_jury(with_truth(everyone, truth, 5))
    with pytest.raises(InvalidParameterError, match="1 of 2 humans are not annotators: 'z'"):
        measure_jury(everyone, humans=["a", "z"])
    with pytest.raises(InvalidParameterError, match="no judge"):
        measure_jury(everyone, humans=["a", "b"])
    table = everyone.to_dense().astype(int)
    table[:600, 0], table[600:, 1] = -1, -1
    apart = Annotations.from_dense(table, annotator_names=["a", "b"])
    with pytest.raises(InvalidAnnotationsError, match=r"1 of \d pairs of judges have no item .* 'a' and 'b'"):
        measure_jury(with_truth(apart, truth))
    with pytest.raises(InvalidAnnotationsError, match="1 of 2 judges labelled no item of the reference"):
        measure_jury(with_truth(apart, truth, 300))
