"""Two-stage training: targets, unlabelled items, mixup."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.classifiers import TwoStage, make_classifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.errors import CrowdprismWarning, InvalidParameterError
from crowdprism.networks.heads import TargetHead
from crowdprism.networks.losses import soft_cross_entropy
from crowdprism.training import FlatAnnotations
from crowdprism.training.batches import mixed

SMALL: dict[str, Any] = {"epochs": 3, "network_options": {"hidden": (16,)}, "input_noise": 0.0, "temperature": 1.0}


def head_of(model: Any, annotations: Annotations, *, extra: int = 0) -> Any:
    flat = FlatAnnotations.of(annotations, extra_items=extra)
    return model._make_head(Problem(annotations, flat, None, 8, torch.device("cpu"), seed=0))  # type: ignore[arg-type]


def test_soft_targets_are_the_aggregators_probabilities(crowd: Any) -> None:
    head = head_of(TwoStage(aggregator="dawid-skene", targets="soft"), crowd.annotations)
    expected = make_aggregator("dawid-skene").fit(crowd.annotations).result_.class_probabilities
    assert np.allclose(head.targets, expected, atol=1e-6)


def test_hard_targets_are_one_hot_and_ties_are_drawn_by_the_seed() -> None:
    tied = Annotations.from_dense([[0, 1]] * 200)
    targets = head_of(TwoStage(), tied).targets.numpy()
    assert set(targets.sum(axis=1)) == {1.0}
    assert 0.35 < targets[:, 0].mean() < 0.65


def bare(crowd: Any) -> Annotations:
    chosen: Annotations = crowd.annotations.select(crowd.annotations.item >= 40)
    return chosen


def test_unlabelled_items_are_not_visited_by_default(crowd: Any) -> None:
    head = head_of(TwoStage(), bare(crowd), extra=5)
    assert head.visited.tolist() == list(range(40, 120))


def test_dropping_unlabelled_items_equals_never_having_had_them(crowd: Any) -> None:
    options = {"targets": "soft", "batch_size": 16, "standardize": False, **SMALL}
    with_them = TwoStage(**options).fit(crowd.features, bare(crowd))
    without = TwoStage(**options).fit(crowd.features[40:], crowd.annotations[np.arange(40, 120)])
    assert np.allclose(with_them.predict_proba(crowd.features), without.predict_proba(crowd.features), atol=1e-6)


def test_the_reference_treatments_give_unlabelled_items_a_random_class_or_the_most_common_one(crowd: Any) -> None:
    random = head_of(TwoStage(unlabelled="random"), bare(crowd)).targets[:40]
    assert len(random.argmax(dim=1).unique()) == 3
    skewed = bare(crowd).select(bare(crowd).label != 0)
    prior = head_of(TwoStage(aggregator="dawid-skene", unlabelled="prior"), skewed).targets[:40]
    assert len(prior.argmax(dim=1).unique()) == 1


@pytest.mark.parametrize("unlabelled", ["random", "prior"])
def test_made_up_classes_for_most_items_warn_and_name_what_does_without(crowd: Any, unlabelled: Any) -> None:
    few = crowd.annotations.select(crowd.annotations.item >= 70)
    with pytest.warns(CrowdprismWarning, match=r"nn-mv .* majority .*: 70 of 120 .*'drop', or geocrowdnet-f"):
        model = TwoStage(unlabelled=unlabelled, **SMALL).fit(crowd.features, few)
    assert any("majority of labelled items" in told for told in model.result_.warnings)


@pytest.mark.filterwarnings("error::crowdprism.errors.CrowdprismWarning")
def test_items_that_are_dropped_or_few_do_not_warn(crowd: Any) -> None:
    few = crowd.annotations.select(crowd.annotations.item >= 70)
    TwoStage(**SMALL).fit(crowd.features, few)
    TwoStage(unlabelled="random", **SMALL).fit(crowd.features, bare(crowd))


def test_mixed_items_count_towards_both_targets_by_their_shares(crowd: Any) -> None:
    targets = torch.eye(3)[torch.from_numpy(crowd.truth)]
    batch = mixed(crowd.batch(), 1.0, np.random.default_rng(0))
    share = float(batch.group_weight[0])  # type: ignore[index]
    partner = torch.argsort(batch.group_row[len(targets) :])  # type: ignore[index]
    log_probs = crowd.log_class_probs()
    expected = soft_cross_entropy(log_probs, share * targets + (1 - share) * targets[partner])
    assert torch.allclose(TargetHead(targets).loss(log_probs, batch), expected, rtol=1e-5)


def test_the_names_stand_for_two_settings(crowd: Any) -> None:
    for name in ("nn-mv", "nn-dsem"):
        assert make_classifier(name, **SMALL).fit(crowd.features, crowd.annotations).result_.method == name


def test_an_unknown_aggregator_is_refused_with_the_list(crowd: Any) -> None:
    with pytest.raises(InvalidParameterError, match="dawid-skene"):
        TwoStage(aggregator="oracle").fit(crowd.features, crowd.annotations)


def test_weights_of_annotations_reach_the_targets(crowd: Any) -> None:
    heavy = replace(crowd.annotations, weight=np.where(crowd.annotations.label == 0, 9, 1).astype(np.float32))
    plain, weighted = (head_of(TwoStage(targets="soft"), a).targets[:, 0].sum() for a in (crowd.annotations, heavy))
    assert weighted > plain
