from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.aggregators.abstentions import shares_without, use_abstentions
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError


def test_who_abstains_on_what_is_evidence() -> None:
    """Annotators abstain on most items of class 1 and on few of class 0, and are right when they do answer."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    item, annotator = np.repeat(np.arange(400), 3), np.tile(np.arange(3), 400)
    answers = rng.random(1200) > np.where(truth[item] == 1, 0.7, 0.1)
    right = rng.random(1200) < 0.85
    names = np.array(["a", "b", "unsure"], dtype=object)
    label = np.where(answers, np.where(right, truth[item], 1 - truth[item]), 2)
    annotations = Annotations.from_triplets(item, annotator, names[label].tolist())
    learning = make_aggregator("dawid-skene", dependence=None)
    use_abstentions(learning, annotations, ["unsure"])
    with_evidence = learning.fit(annotations).result_
    skipped = annotations.select(annotations.label != 2).reindexed()
    without = make_aggregator("dawid-skene", dependence=None).fit(skipped).result_
    gold = dict(enumerate(names[truth].tolist()))
    assert with_evidence.accuracy(gold) > without.accuracy(gold) + 0.03
    assert "unsure" not in with_evidence.labels().tolist()


def test_shares_leave_abstentions_out() -> None:
    a = Annotations.from_triplets([1, 1, 2, 3], ["x", "y", "x", "x"], ["a", "unsure", "b", "unsure"])
    assert shares_without(a, ["unsure"]).tolist() == [0.5, 0.5, 0.0]


def test_unknown_answers_methods_without_prior_and_nothing_else_are_refused() -> None:
    a = Annotations.from_triplets([1, 1], ["x", "y"], ["a", "unsure"])
    with pytest.raises(InvalidParameterError, match="are not answers: 'dunno'"):
        shares_without(a, ["dunno"])
    with pytest.raises(InvalidParameterError, match="majority-vote cannot learn from abstentions"):
        use_abstentions(make_aggregator("majority-vote"), a, ["unsure"])
    with pytest.raises(InvalidParameterError, match="nothing is left"):
        shares_without(a, ["unsure", "a"])
