"""The outside view: closed forms, and what gold answers must do to it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import t as student

from crowdprism.calibration.outside_view import FREEDOM, LARGEST_LOGIT, OutsideView, U, outside_view

VIEW = OutsideView(intercept=-0.2, slope=0.5, spread=0.8)


def test_a_score_is_linear_in_the_logit_of_the_posterior() -> None:
    reference = np.array([[0.7, 0.3], [0.1, 0.9]])
    expected = [-0.2 + 0.5 * logit(0.7), -0.2 + 0.5 * logit(0.9)]
    np.testing.assert_allclose(VIEW.scores(reference, np.array([0, 1])), expected)


def test_a_differing_label_has_its_share_of_what_the_reference_leaves() -> None:
    reference = np.array([[0.6, 0.3, 0.1]])
    view = OutsideView(-0.2, 0.5, 0.8, agreement=0.1, disagreement=0.4)
    score = -0.2 + 0.5 * logit(0.6)
    share = 0.5 * 0.3 / 0.4 + 0.5 * 0.5
    for own, against in ((True, score), (False, score - 0.4)):
        found = view.scores(reference, np.array([1]), own=own)
        np.testing.assert_allclose(expit(found), (1 - expit(against)) * share)
    np.testing.assert_allclose(view.scores(reference, np.array([0])), [score + 0.1])


def test_a_posterior_beyond_the_largest_logit_is_no_better_evidence() -> None:
    reference = np.array([[1.0, 0.0], [1 - 1e-9, 1e-9], [expit(LARGEST_LOGIT), 1 - expit(LARGEST_LOGIT)]])
    assert np.ptp(VIEW.scores(reference, np.zeros(3, dtype=int))) == pytest.approx(0.0, abs=1e-9)


def test_the_prior_is_students_distribution_on_the_grid() -> None:
    density = student.pdf(U / VIEW.spread, FREEDOM)
    np.testing.assert_allclose(VIEW.prior(), density / density.sum(), rtol=1e-12)


def test_the_posterior_is_the_prior_times_the_chance_of_each_answer() -> None:
    scores, right = np.array([0.3, -1.0]), np.array([True, False])
    weights = VIEW.prior() * expit(0.3 + U) * (1 - expit(-1.0 + U))
    np.testing.assert_allclose(VIEW.posterior(scores, right), weights / weights.sum(), rtol=1e-10)


def test_no_answers_leave_the_prior() -> None:
    np.testing.assert_allclose(VIEW.posterior(np.empty(0), np.empty(0, dtype=bool)), VIEW.prior(), rtol=1e-12)


def test_answers_narrow_u_and_move_it_their_way() -> None:
    def mean_and_sd(weights: np.ndarray) -> tuple[float, float]:
        mean = float(weights @ U)
        return mean, float(np.sqrt(weights @ (U - mean) ** 2))

    scores = np.zeros(40)
    before = mean_and_sd(VIEW.prior())
    good, bad = (mean_and_sd(VIEW.posterior(scores, np.arange(40) < n)) for n in (36, 12))
    assert bad[0] < before[0] < good[0]
    assert max(good[1], bad[1]) < before[1] / 2


@pytest.mark.parametrize("family", ["labels", "features", "predictions", "single"])
def test_every_family_has_constants_and_confidence_rises_with_the_posterior(family: str) -> None:
    view = outside_view(family)
    assert view.spread > 0
    assert view.slope >= 0
    assert (view.slope == 0) == (family == "single")
