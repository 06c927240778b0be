"""AggNet's E and M steps against slow loops; Raykar's EM against exact logistic regressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from crowdprism.annotations import Annotations
from crowdprism.classifiers import MBEM, AggNet, CoupledView, Raykar, TwoStage
from crowdprism.classifiers.aggnet import BootstrapHead, CoupledViewHead, ExpectationHead, PairNetwork, small_loss
from crowdprism.networks import EpochView, diagonal_confusions
from crowdprism.networks.losses import counted_confusions, expected_counts, log_posterior, soft_cross_entropy
from crowdprism.results.confusion import confusion_counts, normalize_rows
from crowdprism.seeding import stream
from crowdprism.simulate import one_coin, per_item, simulate_annotations

SMALL: dict[str, Any] = {
    "epochs": 6,
    "network_options": {"hidden": (16,)},
    "learning_rate": 0.01,
    "input_noise": 0.0,
    "temperature": 1.0,
}


def view_of(crowd: Any, log_class_probs: torch.Tensor, epoch: int = 0) -> EpochView:
    batch = crowd.batch()
    return EpochView(
        epoch, batch.item, batch.annotator, batch.label, None, torch.nn.Identity(), lambda: log_class_probs
    )


def head_of(crowd: Any, confusions: torch.Tensor, **options: Any) -> ExpectationHead:
    votes = torch.full((len(crowd.truth), 3), 1 / 3)
    chosen: dict[str, Any] = {"epochs_per_round": 1, "smoothing": 0.0, "smallest": 1e-6} | options
    return ExpectationHead(AggNet(**chosen), votes, torch.ones(len(votes), dtype=torch.bool), confusions)


def test_one_round_equals_the_formulas_item_by_item(crowd: Any) -> None:
    confusions = torch.softmax(2 * torch.eye(3).expand(5, -1, -1), dim=2)
    head = head_of(crowd, confusions)
    log_probs = crowd.log_class_probs()
    head.end_epoch(view_of(crowd, log_probs))
    batch = crowd.batch()
    posterior = log_probs.exp().double().clone()
    for item, annotator, label in zip(batch.item, batch.annotator, batch.label, strict=True):
        posterior[item] *= confusions[annotator, :, label]
    posterior /= posterior.sum(dim=1, keepdim=True)
    assert torch.allclose(head.targets.double(), posterior, atol=1e-6)
    counted = normalize_rows(confusion_counts(crowd.annotations, posterior.numpy()))
    assert np.allclose(head.confusions().numpy(), counted, atol=1e-5)  # type: ignore[union-attr]


def test_targets_stay_between_rounds(crowd: Any) -> None:
    head = head_of(crowd, torch.softmax(torch.eye(3).expand(5, -1, -1), dim=2), epochs_per_round=2)
    before = head.targets.clone()
    head.end_epoch(view_of(crowd, crowd.log_class_probs(), epoch=0))
    assert torch.equal(head.targets, before)
    head.end_epoch(view_of(crowd, crowd.log_class_probs(), epoch=1))
    assert not torch.equal(head.targets, before)


def test_an_overconfident_network_does_not_silence_the_annotators(crowd: Any) -> None:
    sure = torch.log_softmax(1000 * torch.eye(3)[torch.zeros(len(crowd.truth), dtype=torch.long)], dim=1)
    confusions = torch.full((5, 3, 3), 5e-5)
    confusions[:, torch.arange(3), torch.arange(3)] = 1 - 1e-4
    head = head_of(crowd, confusions, smallest=1e-3)
    head.end_epoch(view_of(crowd, sure))
    both_say_two = np.flatnonzero(
        [set(crowd.annotations.label[crowd.annotations.item == n]) == {2} for n in range(len(crowd.truth))]
    )
    assert bool((head.targets[both_say_two].argmax(dim=1) == 2).all())


def test_on_perfect_labels_it_is_plain_training(perfect_crowd: Any) -> None:
    crowd = perfect_crowd
    model = AggNet(smoothing=0.0, smallest=1e-9, **SMALL).fit(crowd.features, crowd.annotations)
    plain = TwoStage(**SMALL).fit(crowd.features, crowd.annotations)
    assert np.allclose(model.predict_proba(crowd.features), plain.predict_proba(crowd.features), atol=1e-4)


def test_the_posterior_of_the_result_is_an_e_step(crowd: Any) -> None:
    model = AggNet(**SMALL).fit(crowd.features, crowd.annotations)
    probs = model.predict_proba(crowd.features)
    expected = probs.copy()
    a = crowd.annotations
    for item, annotator, label in zip(a.item, a.annotator, a.label, strict=True):
        expected[item] *= model.confusions_[annotator, :, label]
    expected /= expected.sum(axis=1, keepdims=True)
    assert model.result_.class_probabilities == pytest.approx(expected, abs=1e-5)


# -- Raykar -------------------------------------------------------------------------------------------------


def binary_crowd() -> tuple[Any, Annotations, Any]:
    random = stream(0, "raykar")
    features = random.normal(size=(400, 2))
    truth = (features @ [1.0, -1.0] + 0.7 * random.normal(size=400) > 0).astype(int)
    crowd = one_coin(np.array([0.9, 0.8, 0.7, 0.6]), 2)
    return features, simulate_annotations(truth, crowd, per_item(400, 4, labels=3)).with_gold(None), truth


def slow_em(features: Any, annotations: Annotations, rounds: int = 100) -> tuple[Any, Any, Any]:
    """Sensitivity and specificity as in the paper; the regression is solved to the end in each round."""
    a = annotations
    share = np.bincount(a.item, weights=a.label, minlength=a.n_items) / np.bincount(a.item, minlength=a.n_items)
    mu = share
    for _ in range(rounds):
        sensitivity = np.array(
            [np.average(a.label[a.annotator == m], weights=mu[a.item[a.annotator == m]]) for m in range(4)]
        )
        specificity = np.array(
            [np.average(1 - a.label[a.annotator == m], weights=1 - mu[a.item[a.annotator == m]]) for m in range(4)]
        )
        regression = LogisticRegression(C=1e3)
        regression.fit(
            np.concatenate([features, features]),
            np.repeat([1, 0], len(features)),
            sample_weight=np.concatenate([mu, 1 - mu]),
        )
        p = regression.predict_proba(features)[:, 1]
        ones, zeros = np.ones(len(p)), np.ones(len(p))
        np.multiply.at(ones, a.item, np.where(a.label == 1, sensitivity[a.annotator], 1 - sensitivity[a.annotator]))
        np.multiply.at(zeros, a.item, np.where(a.label == 0, specificity[a.annotator], 1 - specificity[a.annotator]))
        mu = ones * p / (ones * p + zeros * (1 - p))
    return sensitivity, specificity, p


def test_it_reaches_the_fixed_point_of_the_exact_em() -> None:
    features, annotations, _ = binary_crowd()
    sensitivity, specificity, p = slow_em(features, annotations)
    model = Raykar(epochs=100, weight_decay=0.0, smoothing=0.0, standardize=True, input_noise=0.0, temperature=1.0).fit(
        features, annotations
    )
    assert np.allclose(model.confusions_[:, 1, 1], sensitivity, atol=0.02)
    assert np.allclose(model.confusions_[:, 0, 0], specificity, atol=0.02)
    assert np.abs(model.predict_proba(features)[:, 1] - p).mean() < 0.02


def test_sensitivity_and_specificity_are_near_the_simulated_skills() -> None:
    features, annotations, _ = binary_crowd()
    model = Raykar(epochs=60, input_noise=0.0, temperature=1.0).fit(features, annotations)
    assert np.allclose(model.confusions_.diagonal(axis1=1, axis2=2).mean(axis=1), [0.9, 0.8, 0.7, 0.6], atol=0.08)


def test_easy_items_are_those_of_the_smallest_loss() -> None:
    loss = torch.tensor([0.3, 0.1, 0.9, 0.2])
    assert small_loss(loss, 0.5).tolist() == [0, 1, 0, 1]
    assert small_loss(loss, 1.0).tolist() == [1, 1, 1, 1]
    assert small_loss(loss, 0.0).tolist() == [0, 1, 0, 0]  # never none


class Given(torch.nn.Module):
    """Outputs that are known beforehand."""

    def __init__(self, outputs: torch.Tensor) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.outputs


def coupled_head(**given: Any) -> CoupledViewHead:
    votes = torch.nn.functional.one_hot(torch.arange(120) % 3, 3).float()
    return CoupledViewHead(
        CoupledView(**given), votes, torch.ones(120, dtype=torch.bool), diagonal_confusions(5, 3, 0.8)
    )


def pair_view(crowd: Any, *outputs: torch.Tensor) -> EpochView:
    pair, batch = PairNetwork(Given(outputs[0]), Given(outputs[1])), crowd.batch()
    pair.eval()
    given = batch.item, batch.annotator, batch.label, None
    return EpochView(0, *given, pair, lambda: torch.log_softmax(pair(torch.empty(0)), dim=-1))


def test_a_pair_predicts_the_mean_of_its_networks_and_shows_each_of_them() -> None:
    first, second = torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.3, 0.7]]).log()
    pair = PairNetwork(Given(first + 3), Given(second - 2))
    evaluate = lambda: torch.log_softmax(pair(torch.empty(0)), dim=-1)  # noqa: E731
    assert pair(torch.empty(0)).shape == (1, 2, 2)  # in training
    pair.eval()
    assert torch.allclose(evaluate().exp(), torch.tensor([[0.6, 0.4]]))
    assert torch.allclose(pair.of_each(evaluate), torch.stack([first, second], dim=1))
    assert pair(torch.empty(0)).shape == (1, 2)


def test_with_all_items_and_equal_weights_each_network_has_the_cross_entropy(crowd: Any) -> None:
    head, batch = coupled_head(), crowd.batch()
    both = torch.log_softmax(torch.randn(120, 2, 3, generator=torch.Generator().manual_seed(0)), dim=2)
    expected = sum(soft_cross_entropy(both[:, one], head.targets) for one in (0, 1))
    assert torch.allclose(head.loss(both, batch), torch.as_tensor(expected))


def test_each_network_learns_from_the_items_that_the_other_finds_easy(crowd: Any) -> None:
    head, batch = coupled_head(), crowd.batch()
    head.share.fill_(0.5)
    sure, unsure = 4 * head.targets, torch.zeros(120, 3)
    easy_for_first = torch.arange(120) < 60
    first = torch.where(easy_for_first.unsqueeze(1), sure, unsure)
    second = torch.where(easy_for_first.unsqueeze(1), unsure, sure)
    both = torch.stack([first, second], dim=1).requires_grad_()
    head.loss(torch.log_softmax(both, dim=2), batch).backward()  # type: ignore[no-untyped-call]
    assert both.grad is not None
    learned = both.grad.abs().sum(dim=2) > 0
    assert torch.equal(learned[:, 1], easy_for_first)
    assert torch.equal(learned[:, 0], ~easy_for_first)


def test_items_of_a_class_that_the_other_network_seldom_predicts_weigh_more(crowd: Any) -> None:
    head, batch = coupled_head(), crowd.batch()
    head.class_weight.copy_(torch.tensor([[1.0, 1.0, 1.0], [2.0, 1.0, 0.0]]))
    both = torch.log_softmax(torch.stack([torch.zeros(120, 3), 4 * head.targets], dim=1), dim=2)
    weight = torch.tensor([2.0, 1.0, 0.0])[torch.arange(120) % 3]  # by the second network, for the first
    first = -(weight * (head.targets * both[:, 0]).sum(dim=1)).sum()
    assert torch.allclose(head.loss(both, batch), first + soft_cross_entropy(both[:, 1], head.targets))


def test_only_classes_on_which_both_networks_agree_judge_annotators(crowd: Any) -> None:
    head, view = coupled_head(strictness=0.0), pair_view(crowd, *2 * [crowd.log_class_probs()])
    agreed = crowd.log_class_probs().argmax(dim=1)
    head.end_epoch(view)
    counts = expected_counts(torch.nn.functional.one_hot(agreed, 3).float(), *view.given, 5)
    confusions = counted_confusions(counts, head.method.smoothing)
    assert torch.allclose(head.known_confusions, confusions, atol=1e-6)
    by_labels = log_posterior(torch.zeros(120, 3), confusions, *view.given, smallest=head.method.smallest)
    assert torch.equal(head.targets.argmax(dim=1), by_labels.argmax(dim=1))
    assert float(head.share) == 1.0
    before = head.predicted.clone()
    head.end_epoch(pair_view(crowd, crowd.log_class_probs(), crowd.log_class_probs().roll(1, dims=1)))
    assert torch.equal(head.predicted, before)


def test_hard_items_wait_and_rare_classes_weigh_more(crowd: Any) -> None:
    outputs = torch.zeros(120, 3)
    outputs[:, 0] = 1.0
    outputs[:30, 1] = 2.0  # 30 items of class 1, 90 of class 0, none of class 2
    head, view = coupled_head(strictness=1.0), pair_view(crowd, outputs, outputs)
    head.end_epoch(view)
    best = head.posterior(torch.zeros(120, 3), view, head.method.smallest).max(dim=1).values
    assert 1 / 3 < float(head.share) < 1
    assert float(head.share) == pytest.approx(float(best.mean()))
    weights = torch.tensor([60 / 90, 60 / 30, 60.0])  # inverse to the counts, and 1 in the mean over the 120 items
    assert torch.allclose(head.class_weight, weights.expand(2, 3))


def test_it_learns_a_crowd_of_mixed_skill(crowd: Any) -> None:
    model = CoupledView(epochs=15, input_noise=0.0, temperature=1.0).fit(crowd.features, crowd.annotations)
    assert model.score(crowd.features, crowd.truth) > 0.75
    accuracy = model.annotator_accuracy_
    assert accuracy is not None
    assert accuracy[0] > accuracy[4]


MBEM_SMALL: dict[str, Any] = {
    "epochs": 20,
    "learning_rate": 0.01,
    "network_options": {"hidden": (16,)},
    "input_noise": 0.0,
    "temperature": 1.0,
}

STEADY: dict[str, Any] = {
    "epochs": 20,
    "learning_rate": 0.02,
    "network_options": {"hidden": (16,), "dropout": 0.0},
    "input_noise": 0.0,
    "temperature": 1.0,
}


def test_one_round_on_perfect_labels_is_plain_training(perfect_crowd: Any) -> None:
    plain = TwoStage(**MBEM_SMALL).fit(perfect_crowd.features, perfect_crowd.annotations)
    model = MBEM(rounds=1, **MBEM_SMALL).fit(perfect_crowd.features, perfect_crowd.annotations)
    assert np.array_equal(model.predict_proba(perfect_crowd.features), plain.predict_proba(perfect_crowd.features))


def test_a_second_round_starts_from_the_first_weights_and_a_fresh_schedule(perfect_crowd: Any) -> None:
    """On perfect labels the second round has nearly the targets of the first, so it repeats its losses."""
    # Other shuffles and dropout masks are drawn, hence the tolerance.
    losses = MBEM(rounds=2, **STEADY).fit(perfect_crowd.features, perfect_crowd.annotations).result_.history["data"]
    assert losses[9] < 0.5 * losses[0]
    assert losses[10] == pytest.approx(losses[0], rel=0.3)


def test_without_a_fresh_network_the_second_round_goes_on(perfect_crowd: Any) -> None:
    model = MBEM(rounds=2, continue_training=True, **STEADY).fit(perfect_crowd.features, perfect_crowd.annotations)
    losses = model.result_.history["data"]
    assert losses[10] == pytest.approx(losses[9], rel=0.3)
    assert losses[10] < 0.6 * losses[0]


def test_confusions_are_counted_against_hard_predictions(crowd: Any) -> None:
    model = MBEM(**MBEM_SMALL).fit(crowd.features, crowd.annotations)
    hard = np.eye(3)[model.predict_proba(crowd.features).argmax(axis=1)]
    assert np.allclose(model.confusions_, normalize_rows(confusion_counts(crowd.annotations, hard)), atol=1e-5)


@pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")
def test_misaligned_predictions_make_confusions_uninformative(crowd: Any) -> None:
    right = MBEM(**MBEM_SMALL).fit(crowd.features, crowd.annotations)
    wrong = MBEM(misaligned_predictions=True, **MBEM_SMALL).fit(crowd.features, crowd.annotations)
    assert np.einsum("mkk->m", wrong.confusions_).mean() < 0.75 * np.einsum("mkk->m", right.confusions_).mean()


def test_with_two_softmaxes_an_item_costs_between_two_bounds_whatever_the_network_says(crowd: Any) -> None:
    """The second softmax sees probabilities, so a target's logit is at most 1 above and 1 below the others."""
    targets = torch.eye(3)[torch.from_numpy(crowd.truth)]
    head = BootstrapHead(targets, torch.ones(120, dtype=torch.bool), 5, [0], None, softmax_twice=True)
    for logits, expected in ((targets, np.log(np.e + 2) - 1), (targets.roll(1, dims=1), np.log(np.e + 2))):
        sure = torch.log_softmax(1e3 * logits, dim=1)
        assert head.loss(sure, crowd.batch()).item() / 120 == pytest.approx(expected, rel=1e-5)


def test_two_softmaxes_change_what_is_learned(crowd: Any) -> None:
    plain, twice = (MBEM(softmax_twice=on, **MBEM_SMALL).fit(crowd.features, crowd.annotations) for on in (False, True))
    assert not np.allclose(plain.predict_proba(crowd.features), twice.predict_proba(crowd.features), atol=1e-3)
