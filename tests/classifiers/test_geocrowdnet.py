"""GeoCrowdNet: recovery of known crowds, the permutation guard, corrected labels and refusals; SpeeLFC."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from crowdprism.classifiers import CLASSIFIERS, GaussianProcess, GeoCrowdNet, SpeeLFC, make_classifier
from crowdprism.classifiers.geocrowdnet import JITTER, SparseProcess
from crowdprism.errors import CrowdprismWarning, InvalidParameterError
from crowdprism.networks.losses import log_volume
from crowdprism.results.confusion import confusion_error

sys.path.insert(0, str(Path(__file__).parent))
import crowds
from crowds import quick, small

pytestmark = pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")
GENTLE = {"weight_decay": 1e-4, "network_options": {"dropout": 0.0}, **crowds.PLAIN}


def aligned_accuracy(predicted: np.ndarray, truth: np.ndarray, n_classes: int) -> float:
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (predicted, truth), 1)
    return float(counts[linear_sum_assignment(-counts)].sum() / len(truth))


@pytest.mark.parametrize("loss", ["ccem", "joint"])
@pytest.mark.parametrize("regularizer", [None, "F", "W"])
def test_confusions_of_class_specialists_are_recovered(regularizer: str | None, loss: str) -> None:
    problem = crowds.specialists()
    strength = 0.001 if regularizer == "W" else 0.01  # five annotators: a strong W sharpens the weak ones
    model = GeoCrowdNet(regularizer=regularizer, strength=strength, loss=loss, epochs=12, **GENTLE)
    model.fit(problem.X, problem.annotations)
    assert confusion_error(model.confusions_, problem.confusions)["mean_squared"] < 0.002
    assert (model.predict(problem.X_test) == problem.truth_test).mean() > 0.97
    spammer = model.confusions_[4]
    assert np.abs(spammer - spammer.mean(axis=0)).max() < 0.1  # whatever the true class, the same answers


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        ({}, 0.01),
        # The weak start with a strong term from the first step locks in a wrong permutation, and merges classes.
        (
            {"loss": "ccem", "start": "identity", "warm_start": 0.0, "strength": 0.1, "annotator_learning_rate": 3e-3},
            0.05,
        ),
    ],
)
def test_plain_and_aligned_accuracy_agree_among_spammers(settings: dict[str, Any], tolerance: float) -> None:
    problem = crowds.hammer_and_spammers(0, n_items=4000)
    plain_training = {"epochs": 8, "batch_size": 64, "standardize": True, **crowds.PLAIN}
    model = GeoCrowdNet(regularizer="F", **plain_training, **settings).fit(problem.X, problem.annotations)
    predicted = model.predict(problem.X_test)
    plain = float((predicted == problem.truth_test).mean())
    assert aligned_accuracy(predicted, problem.truth_test, 10) - plain < tolerance
    assert plain > 0.7
    assert model.annotator_accuracy_.argmax() == 0


def test_a_hundred_classes_with_one_label_per_item_do_not_collapse() -> None:
    problem = crowds.many_classes(0, n_items=6000)
    model = GeoCrowdNet(epochs=12, batch_size=64, input_noise=0.0, temperature=1.0).fit(problem.X, problem.annotations)
    predicted = model.predict(problem.X_test)
    assert (predicted == problem.truth_test).mean() > 0.5  # chance is 0.01
    assert len(np.unique(predicted)) == 100
    skill = problem.confusions[:, 0, 0]
    assert np.corrcoef(model.annotator_accuracy_, skill)[0, 1] > 0.3
    assert model.confusions_.shape == (500, 100, 100)


def test_corrected_labels_are_better_than_the_labels_and_the_classifier() -> None:
    problem = crowds.specialists()
    noisy = crowds.blobs(np.random.default_rng(1), problem.truth, 1.5 * np.eye(3, 5))
    model = GeoCrowdNet(regularizer=None, loss="joint", evidence_temper=1.0, epochs=12, **GENTLE)
    model.fit(noisy, problem.annotations)
    corrected = (model.result_.labels() == problem.truth).mean()
    assert corrected > (model.predict(noisy) == problem.truth).mean() + 0.01
    assert corrected > (problem.annotations.label == problem.truth[problem.annotations.item]).mean() + 0.1


def test_the_same_seed_gives_the_same_model_and_heads_differ() -> None:
    problem = small()
    first, second = (quick(n_heads=2).fit(problem.X, problem.annotations) for _ in range(2))
    assert np.array_equal(first.predict_proba(problem.X), second.predict_proba(problem.X))
    assert np.array_equal(first.confusions_, second.confusions_)
    weights = [next(iter(member.network.parameters())) for member in first.predictor_.members]
    assert not torch.equal(*weights)


def test_annotators_in_another_order_give_the_same_confusions() -> None:
    problem = small()
    table = problem.annotations.to_dense()
    first = quick().fit(problem.X, table).confusions_
    second = quick().fit(problem.X, table[:, ::-1]).confusions_
    assert np.allclose(first, second[::-1], atol=2e-3)


def test_paper_mode_starts_from_identity_logits_and_decays_everything() -> None:
    problem = small()
    model = quick(mode="paper", regularizer="F", strength=0.01)
    model.fit(problem.X, problem.annotations, X_valid=problem.X_test, y_valid=problem.truth_test)
    from crowdprism.classifiers.fitting import Problem
    from crowdprism.training import FlatAnnotations, InputScaling, TensorItems

    items = TensorItems(torch.from_numpy(problem.X), InputScaling.identity(), torch.device("cpu"))
    flat = FlatAnnotations.of(problem.annotations)
    detail = Problem(problem.annotations, flat, items, 64, torch.device("cpu"), 0)
    head, settings = model._make_head(detail), model._settings(detail)
    assert torch.allclose(head.layer.table.values[0], torch.eye(3), atol=1e-5)
    assert (settings.weight_decay, settings.annotator_weight_decay) == (1e-4, 1e-4)
    assert settings.annotator_learning_rate == settings.learning_rate
    assert (settings.warm_start, settings.even_batches, settings.keep_best) == (0.0, False, True)
    assert settings.equal_epochs == ("earliest" if model.regularizer is None else "latest")
    assert (head.reference, head.kind, head.shrinkage) == (True, "ccem", 0.0)


def test_auto_takes_f_for_balanced_votes_w_for_many_annotators_and_none_for_imbalanced_votes() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3))
    balanced = np.arange(200)[:, None] % 2
    many = np.where(np.arange(200)[:, None] // 4 == np.arange(100)[None] // 2, balanced, -1)
    rare = (np.arange(200)[:, None] % 20 == 0).astype(int)
    for table, expected in ((balanced, "geocrowdnet-f"), (many, "geocrowdnet-w"), (rare, "geocrowdnet")):
        assert quick(epochs=1).fit(X, table).result_.method == expected


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("geocrowdnet-f", {"regularizer": "auto"}),
        ("coinnet", {"strength": 0.0}),
        ("max-mig", {"prior": "votes"}),
    ],
)
def test_what_evens_out_predictions_warns_on_imbalanced_votes_and_names_a_way_out(
    name: str, way_out: dict[str, Any]
) -> None:
    table = np.repeat(np.arange(100)[:, None] % 20 == 0, 2, axis=1).astype(int)
    X = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.warns(CrowdprismWarning, match=rf"class 1 has 5.0% of the votes.*Use {next(iter(way_out))}="):
        model = make_classifier(name, epochs=1, **crowds.PLAIN).fit(X, table)
    assert "imbalanced" in model.result_.warnings[0]
    assert not make_classifier(name, epochs=1, **crowds.PLAIN, **way_out).fit(X, table).result_.warnings


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"regularizer": "G"}, "regularizer must be 'F', 'W', None or 'auto', not 'G'"),
        ({"loss": "cce"}, "'ccem' or 'joint'"),
        ({"selection": "best"}, "'annotations', 'clean' or 'last'"),
        ({"network": "mpl"}, "linear, mlp"),
        ({"network": 3}, "torch.nn.Module"),
        ({"start": "eye"}, "'dawid-skene'"),
        ({"start_diagonal": 0.1}, "above chance"),
        ({"strength": -1.0}, "strength"),
        ({"evidence_temper": 0.0}, "evidence_temper"),
        ({"n_heads": 0}, "n_heads"),
        ({"optimizer": "sgd"}, "'adam', 'adamw' or 'radam'"),
        ({"device": "tpu9"}, "cpu, cuda or mps"),
        ({"network": nn.Linear(3, 5), "network_options": None}, "does not accept items of shape|returns shape"),
        ({"network": nn.Linear(2, 5), "network_options": None}, r"returns shape \(2, 5\)"),
    ],
)
def test_parameters_that_cannot_work_are_refused_with_the_choices(parameters: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        quick(**parameters).fit(np.eye(2), [[0, 0], [1, 1]])


def test_the_registry_names_the_published_variants_and_lists_them() -> None:
    assert {"geocrowdnet", "geocrowdnet-f", "geocrowdnet-w"} <= set(CLASSIFIERS)
    assert make_classifier("geocrowdnet-w").regularizer == "W"
    with pytest.raises(InvalidParameterError, match="geocrowdnet-f"):
        make_classifier("geocrowdnet-x")


def test_a_batch_smaller_than_the_number_of_classes_trains_with_f() -> None:
    problem = crowds.hammer_and_spammers(0, n_items=200)
    model = quick(regularizer="F", warm_start=0.0, batch_size=4, epochs=2).fit(problem.X, problem.annotations)
    assert all(np.isfinite(model.result_.history["volume"]))
    assert bool(log_volume(torch.zeros(2, 2)).isfinite())


def test_speelfc_equals_geocrowdnet_without_regulariser_at_the_same_start(crowd: Any) -> None:
    common = {
        "epochs": 5,
        "input_noise": 0.0,
        "temperature": 1.0,
        "start_diagonal": 0.7,
        "network_options": {"hidden": (16,)},
        "random_state": 3,
    }
    speelfc = SpeeLFC(**common).fit(crowd.features, crowd.annotations)
    plain = GeoCrowdNet(regularizer=None, loss="ccem", confusion_form="free", shrinkage=0.0, **common)
    plain.fit(crowd.features, crowd.annotations)
    assert np.array_equal(speelfc.predict_proba(crowd.features), plain.predict_proba(crowd.features))
    assert np.array_equal(speelfc.confusions_, plain.confusions_)


SMALL: dict[str, Any] = {"epochs": 20, "n_inducing": 20, "input_noise": 0.0, "temperature": 1.0}


def make_process(n_inducing: int = 6) -> tuple[SparseProcess, torch.Tensor]:
    drawn = torch.Generator().manual_seed(0)
    process = SparseProcess(2, 3, n_inducing)
    process.place(torch.randn(n_inducing, 2, generator=drawn))
    with torch.no_grad():
        process.mean.normal_(generator=drawn)
        process.log_std.normal_(generator=drawn)
    return process, torch.randn(4, 2, generator=drawn)


def test_moments_are_those_of_the_process_given_the_inducing_values() -> None:
    process, items = make_process()
    mean, variance = (part.detach().numpy() for part in process.moments(items))
    z, x, length = process.inducing.numpy(), items.numpy(), float(process.log_length.detach().exp())

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.exp(-np.square(a[:, None] - b[None]).sum(axis=2) / (2 * length**2))

    factor = np.linalg.cholesky(kernel(z, z) + JITTER * np.eye(6))
    values = factor @ process.mean.detach().numpy()  # means of the function at the inducing points
    gain = kernel(x, z) @ np.linalg.inv(factor @ factor.T)
    amplitude = float(process.log_amplitude.detach().exp())
    assert mean == pytest.approx(amplitude * gain @ values, abs=1e-4)
    for k in range(3):
        spread = factor @ np.diag(np.exp(2 * process.log_std.detach().numpy()[:, k])) @ factor.T
        left = 1 - np.einsum("bp,bp->b", gain @ (factor @ factor.T), gain)
        expected = amplitude**2 * (left + np.einsum("bp,pq,bq->b", gain, spread, gain))
        assert variance[:, k] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_the_prior_has_no_divergence_and_far_from_all_items_nothing_is_known() -> None:
    process = SparseProcess(2, 3, 5)
    assert float(process.divergence()) == 0.0
    process, _ = make_process()
    far = process.eval()(torch.full((1, 2), 1e3))
    assert torch.allclose(far, torch.zeros(1, 3), atol=1e-6)


def test_draws_while_training_have_the_mean_and_variance_of_the_process() -> None:
    process, items = make_process()
    mean, variance = process.moments(items)
    process.coin.generator = torch.Generator().manual_seed(1)
    draws = torch.stack([process.train()(items) for _ in range(400)]).detach()
    assert torch.allclose(draws.mean(dim=0), mean, atol=0.5)
    assert torch.allclose(draws.var(dim=0), variance, rtol=0.1)


def test_it_learns_a_boundary_that_no_line_can_draw() -> None:
    random = np.random.default_rng(0)
    features = random.uniform(-2, 2, size=(300, 2)).astype(np.float32)
    truth = (np.square(features).sum(axis=1) > 2).astype(int)
    noisy = np.where(random.random((300, 4)) < 0.2, 1 - truth[:, None], truth[:, None])
    model = GaussianProcess(**{**SMALL, "epochs": 30}).fit(features, noisy)
    assert model.score(features, truth) > 0.9
    assert model.annotator_accuracy_ == pytest.approx(np.full(4, 0.8), abs=0.12)


def test_another_network_is_refused(crowd: Any) -> None:
    with pytest.raises(InvalidParameterError, match="leave network='linear'"):
        GaussianProcess(network="mlp").fit(crowd.features, crowd.annotations)
