"""What every aggregator shares: checked parameters, one result, sums and limits of memory."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import AGGREGATORS, FastDawidSkene, MajorityVote, MultiSPAKL, ZenCrowd, base
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError, NotFittedError, UnsuitableDataError
from crowdprism.results import confusion


@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_clone_has_the_same_parameters(name: str) -> None:
    from sklearn.base import clone

    method = AGGREGATORS[name]()
    assert clone(method).get_params() == method.get_params()
    assert repr(method) == f"{type(method).__name__}()"


def test_a_method_offers_its_own_parameters_and_those_it_passes_on_and_no_others() -> None:
    assert set(ZenCrowd().get_params()) == {"max_iter", "tolerance", "initial_reliability", "use_gold"}
    assert FastDawidSkene().get_params()["e_step"] == "hard"
    assert {"iterations", "tolerance", "least_shared", "em_rounds"} <= set(MultiSPAKL().get_params())
    assert MultiSPAKL(em_rounds=3).em_rounds == 3


def test_parameters_are_checked_when_fitting_and_not_before() -> None:
    method = MajorityVote().set_params(voting="loud")
    with pytest.raises(InvalidParameterError, match="voting must be 'soft' or 'hard', not 'loud'"):
        method.fit([[0, 1]])
    method.set_params(voting="soft").partial_fit([[0, 1]])
    method.set_params(ties="never")
    with pytest.raises(InvalidParameterError, match="ties must be"):
        method.partial_fit([[1, 0]])


def test_a_failed_fit_leaves_no_result_and_later_annotations_do_not_join_it() -> None:
    method = MajorityVote(voting="loud")
    with pytest.raises(InvalidParameterError):
        method.fit([[0, 1], [1, 1]])
    with pytest.raises(NotFittedError, match="Call fit"):
        method.result_  # noqa: B018
    assert len(method.set_params(voting="soft").partial_fit([[0, 1]]).result_.items) == 1


def test_sums_in_pieces_equal_sums_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    place, weight = rng.integers(0, 7, 1000), rng.random(1000).astype(np.float32)
    monkeypatch.setattr(base, "PIECE", 64)
    np.testing.assert_allclose(base.sum_weights(place, weight, 9), np.bincount(place, weight, 9), rtol=1e-12)
    np.testing.assert_array_equal(base.sum_weights(place, None, 9), np.bincount(place, minlength=9))


def test_tables_are_refused_from_the_first_byte_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    a = Annotations.from_dense([[0, 1], [1, 1], [0, 0]])
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 8 * 2 * 5)
    base.require_room(a, n_rows=5, columns=2, method="This")
    with pytest.raises(UnsuitableDataError, match=r"This would need tables.*6 \(annotator, label\) pairs.*one-coin"):
        base.require_room(a, n_rows=6, columns=2, method="This")
    assert confusion.confusions_fit(2, 2)
    assert not confusion.confusions_fit(3, 2)
