"""GeoCrowdNet: recovery of known crowds, the permutation guard, corrected labels, files, and refusals."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn
from torch.utils.data import TensorDataset

from crowdprism.annotations import Annotations
from crowdprism.classifiers import CLASSIFIERS, GeoCrowdNet, load_classifier, make_classifier
from crowdprism.classifiers.posterior import agreement, examine_alignment
from crowdprism.errors import (
    CrowdprismWarning,
    InvalidAnnotationsError,
    InvalidParameterError,
    NotFittedError,
    ResultFormatError,
)
from crowdprism.networks import log_volume
from crowdprism.results.confusion import confusion_error

sys.path.insert(0, str(Path(__file__).parent))
import crowds

pytestmark = pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")
GENTLE = {"weight_decay": 1e-4, "network_options": {"dropout": 0.0}}


def small(seed: int = 0) -> Any:
    return crowds.specialists(seed, n_items=300)


def quick(**parameters: Any) -> GeoCrowdNet:
    return GeoCrowdNet(**{"epochs": 8, "network": "mlp", "network_options": {"hidden": (16,)}, **parameters})


def aligned_accuracy(predicted: np.ndarray, truth: np.ndarray, n_classes: int) -> float:
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (predicted, truth), 1)
    return float(counts[linear_sum_assignment(-counts)].sum() / len(truth))


# -- recovery -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["ccem", "joint"])
@pytest.mark.parametrize("regularizer", [None, "F", "W"])
def test_confusions_of_class_specialists_are_recovered(regularizer: str | None, loss: str) -> None:
    problem = crowds.specialists()
    strength = 0.001 if regularizer == "W" else 0.01  # five annotators: a strong W sharpens the weak ones
    model = GeoCrowdNet(regularizer=regularizer, strength=strength, loss=loss, epochs=12, **GENTLE)
    model.fit(problem.X, problem.annotations)
    assert confusion_error(model.confusions_, problem.confusions).mean_squared < 0.002
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
    model = GeoCrowdNet(regularizer="F", epochs=8, batch_size=64, **settings).fit(problem.X, problem.annotations)
    predicted = model.predict(problem.X_test)
    plain = float((predicted == problem.truth_test).mean())
    assert aligned_accuracy(predicted, problem.truth_test, 10) - plain < tolerance
    assert plain > 0.7
    assert model.annotator_accuracy_.argmax() == 0


def test_predictions_in_another_class_order_are_found_and_mended() -> None:
    problem = small()
    truth = np.eye(3)[problem.truth]
    order = np.array([2, 0, 1])
    mixed = np.argsort(order)
    alignment = examine_alignment(truth[:, mixed], problem.confusions[:, mixed], problem.annotations)
    assert alignment.order.tolist() == order.tolist()
    assert alignment.permuted
    assert alignment.aligned_agreement == agreement(truth, problem.annotations)
    assert alignment.plain_agreement < alignment.aligned_agreement - 0.01
    right = examine_alignment(truth, problem.confusions, problem.annotations)
    assert not right.permuted
    assert right.plain_agreement == right.aligned_agreement


def test_a_permutation_without_confusions_is_found_from_predictions_and_labels() -> None:
    problem = small()
    mixed = np.eye(3)[problem.truth][:, [1, 2, 0]]
    assert examine_alignment(mixed, None, problem.annotations).order.tolist() == [2, 0, 1]


def test_a_hundred_classes_with_one_label_per_item_do_not_collapse() -> None:
    problem = crowds.many_classes(0, n_items=6000)
    model = GeoCrowdNet(epochs=12, batch_size=64).fit(problem.X, problem.annotations)
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


# -- determinism and members --------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_model_and_heads_differ() -> None:
    problem = small()
    first, second = (quick(n_heads=2).fit(problem.X, problem.annotations) for _ in range(2))
    assert np.array_equal(first.predict_proba(problem.X), second.predict_proba(problem.X))
    assert np.array_equal(first.confusions_, second.confusions_)
    weights = [next(iter(member.network.parameters())) for member in first.predictor_.members]
    assert not torch.equal(*weights)


def test_heads_are_averaged() -> None:
    problem = small()
    model = quick(n_heads=2).fit(problem.X, problem.annotations)
    both = model.predict_proba(problem.X)
    each = []
    predictor = model.predictor_
    for member in predictor.members:
        model.predictor_ = replace(predictor, members=(member,))
        each.append(model.predict_proba(problem.X))
    assert np.allclose(both, np.mean(each, axis=0), atol=1e-6)


def test_annotators_in_another_order_give_the_same_confusions() -> None:
    problem = small()
    table = problem.annotations.to_dense()
    first = quick().fit(problem.X, table).confusions_
    second = quick().fit(problem.X, table[:, ::-1]).confusions_
    assert np.allclose(first, second[::-1], atol=2e-3)


# -- data -----------------------------------------------------------------------------------------------------


def test_a_dataset_gives_the_same_model_as_an_array() -> None:
    problem = small()
    array = quick(standardize=False).fit(problem.X, problem.annotations)
    stream = quick().fit(TensorDataset(torch.from_numpy(problem.X)), problem.annotations)
    assert np.allclose(array.predict_proba(problem.X), stream.predict_proba(problem.X), atol=1e-6)


def test_unlabelled_items_and_items_without_annotations_enter_the_volume_term_only() -> None:
    problem = small()
    extra = problem.X_test[:100]
    model = quick(regularizer="F", warm_start=0.0).fit(problem.X, problem.annotations, X_unlabelled=extra)
    assert model.result_.n_items == 300
    table = np.vstack([problem.annotations.to_dense(), np.full((100, 5), -1)])
    joined = quick(regularizer="F", warm_start=0.0, standardize=False)
    with_rows = joined.fit(np.vstack([problem.X, extra]), table)
    unlabelled = quick(regularizer="F", warm_start=0.0, standardize=False)
    unlabelled.fit(problem.X, problem.annotations, X_unlabelled=extra)
    assert np.allclose(with_rows.predict_proba(extra), unlabelled.predict_proba(extra), atol=1e-6)


def test_images_find_their_network() -> None:
    images = np.zeros((30, 28, 28), dtype=np.uint8)
    truth = np.arange(30) % 3
    images[np.arange(30), 5 + 6 * truth, 10:20] = 255
    model = GeoCrowdNet(epochs=12, learning_rate=0.01, shift=1, regularizer=None).fit(images, truth)
    assert type(model.predictor_.members[0].network).__name__ == "LeNet5"
    assert (model.predict(images) == truth).mean() > 0.9


def test_one_annotator_one_item_of_each_class_and_a_batch_of_one_work() -> None:
    model = quick(batch_size=1, epochs=2).fit(np.eye(2), [[0], [1]])
    assert model.predict_proba(np.eye(2)).shape == (2, 2)


def test_a_class_that_nobody_chose_stays_a_class() -> None:
    annotations = Annotations.from_dense(np.arange(40)[:, None] % 2, classes=[0, 1, 2])
    model = quick(regularizer=None).fit(np.eye(2)[np.arange(40) % 2], annotations)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(np.eye(2)).shape == (2, 3)


def test_rows_of_a_data_frame_are_matched_by_name() -> None:
    problem = small()
    names = [f"item {i}" for i in range(300)]
    table = Annotations.from_dense(problem.annotations.to_dense(), item_names=names)
    frame = pd.DataFrame(problem.X, index=names).add_prefix("x")
    shuffled = frame.sample(frac=1, random_state=0)
    model = quick(epochs=2).fit(shuffled, table)
    assert model.result_.items.tolist() == shuffled.index.tolist()


# -- evidence -------------------------------------------------------------------------------------------------


def test_the_posterior_is_the_classifier_times_the_evidence() -> None:
    problem = small()
    model = quick(loss="joint", evidence_temper=1.0).fit(problem.X, problem.annotations)
    slow = model.predict_proba(problem.X)
    for i, m, y in zip(problem.annotations.item, problem.annotations.annotator, problem.annotations.label, strict=True):
        slow[i] *= model.confusions_[m, :, y]
    slow /= slow.sum(axis=1, keepdims=True)
    assert np.allclose(model.label_posterior(problem.X, problem.annotations), slow, atol=1e-6)
    assert np.allclose(model.result_.class_probabilities, slow, atol=1e-6)


def test_an_annotator_never_seen_has_the_confusion_of_the_average_label() -> None:
    problem = small()
    model = quick(loss="ccem").fit(problem.X, problem.annotations)
    new = Annotations.from_triplets([0], ["a stranger"], [1], classes=[0, 1, 2])
    weights = problem.annotations.labels_per_annotator / problem.annotations.n_annotations
    column = np.einsum("m,mk->k", weights, model.confusions_[:, :, 1])
    expected = model.predict_proba(problem.X[:1])[0] * column
    assert np.allclose(model.label_posterior(problem.X[:1], new)[0], expected / expected.sum(), atol=1e-6)


def test_the_annotation_score_is_the_mean_log_likelihood() -> None:
    problem = small()
    model = quick().fit(problem.X, problem.annotations)
    probs, a = model.predict_proba(problem.X), problem.annotations
    each = np.log((probs[a.item] * model.confusions_[a.annotator, :, a.label]).sum(axis=1))
    assert model.annotation_score(problem.X, a) == pytest.approx(each.mean(), abs=1e-6)
    assert model.score(problem.X, a) == model.annotation_score(problem.X, a)
    assert model.score(problem.X, problem.truth) == (model.predict(problem.X) == problem.truth).mean()


# -- selection ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["annotations", "clean"])
def test_the_selected_epoch_is_the_best_of_the_history(selection: str) -> None:
    problem = small()
    clean = {"X_valid": problem.X_test, "y_valid": problem.truth_test} if selection == "clean" else {}
    model = quick(selection=selection, epochs=12).fit(problem.X, problem.annotations, **clean)
    figures = model.result_.history["validation"]
    assert figures[model.best_epochs_[0]] == max(figures)
    if selection == "clean":
        assert model.score(problem.X_test, problem.truth_test) == pytest.approx(max(figures))


def test_clean_selection_needs_clean_labels() -> None:
    with pytest.raises(InvalidParameterError, match="needs X_valid and y_valid"):
        quick(selection="clean").fit(np.eye(2), [[0], [1]])
    with pytest.raises(InvalidParameterError, match="not classes: 'z'"):
        quick(selection="clean").fit(np.eye(2), [[0], [1]], X_valid=np.eye(2)[:1], y_valid=["z"])


# -- paper mode -----------------------------------------------------------------------------------------------


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
    assert (head.reference, head.kind, head.shrinkage) == (True, "ccem", 0.0)


# -- choice of regulariser --------------------------------------------------------------------------------------


def test_auto_takes_f_for_balanced_votes_w_for_many_annotators_and_none_for_imbalanced_votes() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3))
    balanced = np.arange(200)[:, None] % 2
    many = np.where(np.arange(200)[:, None] // 4 == np.arange(100)[None] // 2, balanced, -1)
    rare = (np.arange(200)[:, None] % 20 == 0).astype(int)
    for table, expected in ((balanced, "geocrowdnet-f"), (many, "geocrowdnet-w"), (rare, "geocrowdnet")):
        assert quick(epochs=1).fit(X, table).result_.method == expected


def test_f_on_imbalanced_votes_warns() -> None:
    table = (np.arange(100)[:, None] % 20 == 0).astype(int)
    with pytest.warns(CrowdprismWarning, match=r"class 1 has 5.0% of the votes"):
        model = quick(regularizer="F", epochs=1).fit(np.random.default_rng(0).normal(size=(100, 3)), table)
    assert "imbalanced" in model.result_.warnings[0]


# -- files ------------------------------------------------------------------------------------------------------


def test_a_saved_model_predicts_as_before(tmp_path: Path) -> None:
    problem = small()
    model = quick(n_heads=2).fit(problem.X, problem.annotations)
    model.save(tmp_path / "run")
    for loaded in (GeoCrowdNet.load(tmp_path / "run"), load_classifier(tmp_path / "run")):
        assert np.array_equal(model.predict_proba(problem.X), loaded.predict_proba(problem.X))
        assert np.array_equal(model.confusions_, loaded.confusions_)
        posterior = loaded.label_posterior(problem.X, problem.annotations)
        assert np.allclose(posterior, model.result_.class_probabilities, atol=1e-12)
        assert loaded.get_params()["n_heads"] == 2


def test_a_network_of_the_users_own_is_asked_for_when_loading(tmp_path: Path) -> None:
    def network(shape: tuple[int, ...], n_classes: int) -> nn.Module:
        return nn.Linear(*shape, n_classes)

    problem = small()
    model = quick(network=network, network_options=None).fit(problem.X, problem.annotations)
    model.save(tmp_path / "run")
    with pytest.raises(InvalidParameterError, match="network of your own"):
        load_classifier(tmp_path / "run")
    loaded = load_classifier(tmp_path / "run", network=network)
    assert np.array_equal(model.predict_proba(problem.X), loaded.predict_proba(problem.X))


def test_a_cut_weights_file_says_so(tmp_path: Path) -> None:
    quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path / "run")
    (tmp_path / "run" / "weights.safetensors").write_bytes(b"x")
    with pytest.raises(ResultFormatError, match="damaged"):
        load_classifier(tmp_path / "run")


def test_a_folder_with_other_files_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidParameterError, match="not a saved model"):
        quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path)


def test_the_exported_module_gives_the_models_probabilities() -> None:
    problem = small()
    model = quick(n_heads=2).fit(problem.X, problem.annotations)
    module = model.to_module()
    with torch.no_grad():
        assert np.allclose(module(torch.from_numpy(problem.X)).numpy(), model.predict_proba(problem.X), atol=1e-5)


def test_parameters_are_written_as_json(tmp_path: Path) -> None:
    quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path / "run")
    record = json.loads((tmp_path / "run" / "classifier.json").read_text())
    assert record["classifier"] == "geocrowdnet"
    assert record["parameters"]["epochs"] == 1


# -- refusals ---------------------------------------------------------------------------------------------------


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


def test_features_that_are_not_finite_are_refused_with_the_first_place() -> None:
    X = np.zeros((4, 3))
    X[2, 1] = np.nan
    X[3, 0] = np.inf
    with pytest.raises(InvalidParameterError, match=r"2 of 12, in 2 items; the first is nan at row 2, column 1"):
        quick().fit(X, [[0], [1], [0], [1]])


def test_different_items_are_named() -> None:
    annotations = Annotations.from_triplets(["a", "b"], ["ann", "ann"], [0, 1])
    with pytest.raises(InvalidAnnotationsError, match="X has 3 rows but the annotations have 2 items"):
        quick().fit(np.eye(3), annotations)
    with pytest.raises(InvalidAnnotationsError, match=r"1 rows of X are no items of the annotations \('c'\)"):
        quick().fit(np.eye(2), annotations, items=["a", "c"])
    with pytest.raises(InvalidAnnotationsError, match=r"items have no row in X \('b'\)"):
        quick().fit(pd.DataFrame(np.eye(2), index=["a", "c"]).add_prefix("x"), annotations)


def test_no_annotation_at_all_and_a_single_class_are_refused() -> None:
    annotations = Annotations.from_dense([[0], [1]])
    with pytest.raises(InvalidAnnotationsError, match="no annotation at all"):
        quick().fit(np.eye(2), annotations.select(np.zeros(2, dtype=bool)))
    with pytest.raises((InvalidAnnotationsError, ValueError), match="class"):
        quick().fit(np.eye(2), [[0], [0]])


def test_unknown_classes_and_unfitted_models_are_refused() -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        quick().predict(np.eye(2))
    model = quick(epochs=1).fit(np.eye(2), [[0], [1]])
    with pytest.raises(InvalidAnnotationsError, match="unknown to this model: 7"):
        model.label_posterior(np.eye(2), Annotations.from_dense([[0], [7]]))
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.eye(3))


def test_wrong_channels_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="1 or 3 channels, but items have 2"):
        GeoCrowdNet(network="lenet5").fit(np.zeros((4, 2, 28, 28)), [[0], [1], [0], [1]])


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
