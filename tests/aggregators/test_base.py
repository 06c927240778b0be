"""What every aggregator shares: checked parameters, one result, sums and limits of memory."""

from __future__ import annotations

import pytest

from crowdprism.aggregators import AGGREGATORS, FastDawidSkene, MajorityVote, MultiSPAKL, ZenCrowd
from crowdprism.errors import InvalidParameterError, NotFittedError


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
