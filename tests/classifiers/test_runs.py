"""Training side by side."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.annotations import Annotations
from crowdprism.classifiers import CLASSIFIERS, CrowdClassifier, load_classifier, make_classifier, runs, storage
from crowdprism.classifiers.runs import candidate_settings, fit_together, hold_out, judge
from crowdprism.diagnostics.calibration import with_temperature
from crowdprism.errors import CrowdprismError, CrowdprismWarning, InvalidParameterError
from crowdprism.training import TrainingOutcome
from crowdprism.training.batches import drawn_visits

sys.path.insert(0, str(Path(__file__).parent))
from crowds import quick, small

pytestmark = pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")


def alike(**parameters: Any) -> Any:
    """A model that can be stacked with others."""
    return quick(confusion_form="free", regularizer="F", **parameters)


def test_classifiers_fitted_together_are_as_good_as_those_fitted_alone() -> None:
    problem = small()
    grid = [alike(strength=strength, epochs=20) for strength in (0.001, 0.01)]
    assert fit_together(grid, problem.X, problem.annotations)
    for model in grid:
        alone = alike(strength=model.strength, epochs=20).fit(problem.X, problem.annotations)
        assert model.score(problem.X_test, problem.truth_test) > alone.score(problem.X_test, problem.truth_test) - 0.03
        assert np.allclose(model.confusions_, alone.confusions_, atol=0.1)
        assert model.result_.method == "geocrowdnet-f"
        assert len(model.histories_[0]["data"]) == 20


def test_each_of_a_stack_keeps_its_own_best_epoch() -> None:
    problem = small()
    valid = {"X_valid": problem.X_test, "y_valid": problem.truth_test}
    grid = [alike(learning_rate=rate, selection="clean") for rate in (1e-6, 3e-2)]
    assert fit_together(grid, problem.X, problem.annotations, **valid)
    for model in grid:
        figures = model.histories_[0]["validation"]
        assert figures[model.best_epochs_[0]] == max(figures)
        assert model.score(problem.X_test, problem.truth_test) == pytest.approx(max(figures))
    assert grid[0].histories_[0]["validation"] != grid[1].histories_[0]["validation"]


@pytest.mark.parametrize(
    "different",
    [
        {"n_heads": 2},
        {"callbacks": [print]},
        {"weight_decay": "auto"},
        {"standardize": False},
        {"selection": "annotations"},
        {"validation_fraction": 0.3},
        {"epochs": 3},
        {"network_options": {"hidden": (4,)}},
        {"loss": "ccem"},
    ],
)
def test_classifiers_that_cannot_be_stacked_are_left_unfitted(different: dict[str, Any]) -> None:
    problem = small()
    grid = [alike(), alike(**different)]
    assert not fit_together(grid, problem.X, problem.annotations)
    assert not any(hasattr(model, "result_") for model in grid)


def test_models_on_different_inputs_are_scaled_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small()
    kept = []
    original = runs.train_together
    monkeypatch.setattr(runs, "train_together", lambda runs, *rest: kept.extend(runs) or original(runs, *rest))
    assert fit_together([alike(epochs=1), alike(epochs=1, strength=0.3)], problem.X, problem.annotations)
    assert kept[0].problem.items is kept[1].problem.items


def test_members_of_an_ensemble_differ_and_have_their_own_figures() -> None:
    problem = small()
    model = alike(n_heads=2, selection="annotations").fit(problem.X, problem.annotations)
    first, second = (history["validation"] for history in model.histories_)
    assert first != second
    assert [figures.index(max(figures)) for figures in (first, second)] == model.best_epochs_


@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_an_interruption_keeps_the_members_trained_so_far() -> None:
    def interrupt(record: Any) -> None:
        if record.member == 1:
            raise KeyboardInterrupt

    problem = small()
    model = quick(n_heads=3, callbacks=[interrupt]).fit(problem.X, problem.annotations)
    assert model.interrupted_
    assert len(model.predictor_.members) == 2


sys.path.insert(0, str(Path(__file__).parent))


OPEN = {"input_noise": "auto", "temperature": "auto"}


def problem_of(**parameters: Any) -> Any:
    data = small()
    return quick(**parameters).prepare(data.X, data.annotations).problem


def test_values_that_are_given_are_not_tried() -> None:
    problem = problem_of()
    assert candidate_settings(quick(), problem) == [{}]
    assert candidate_settings(quick(input_noise="auto"), problem) == [{"input_noise": x} for x in (0.5, 1.0, 2.0)]
    assert len(candidate_settings(quick(weight_decay="auto"), problem)) == 3
    both = candidate_settings(quick(weight_decay="auto", input_noise="auto"), problem)
    assert len(both) == 6
    assert min(one["weight_decay"] for one in both) == 1e-2  # noise needs some decay beside it


def test_images_get_no_noise() -> None:
    images = np.zeros((20, 1, 6, 6), dtype=np.float32)
    model = quick(input_noise="auto")
    problem = model.prepare(images, np.tile([[0, 1]], (20, 1))).problem
    assert candidate_settings(model, problem) == [{"input_noise": 0.0}]


def test_held_out_items_are_a_quarter_of_the_annotated_and_leave_with_all_they_have() -> None:
    data = small()
    problem = quick().prepare(data.X, data.annotations.select(data.annotations.item >= 40)).problem
    split = hold_out(problem)
    assert split is not None
    n_annotated = int((problem.annotations.labels_per_item > 0).sum())
    assert split.annotations.n_items == n_annotated // 4
    assert (split.annotations.labels_per_item > 0).all()
    assert not set(split.annotations.items.tolist()) & set(split.kept.annotations.items.tolist())
    assert split.kept.annotations.n_annotations + split.annotations.n_annotations == problem.annotations.n_annotations
    (held,) = split.items.batches([np.arange(len(split.items))])
    (every,) = problem.items.batches([split.annotations.items.astype(int)])
    assert torch.equal(held, every)


def test_unlabelled_items_stay_in_training() -> None:
    data = small()
    problem = quick().prepare(data.X, data.annotations, X_unlabelled=data.X[:7]).problem
    split = hold_out(problem)
    assert split is not None
    assert split.kept.n_unlabelled == 7
    assert len(split.kept.items) == split.kept.flat.n_items


def test_too_few_items_choose_nothing() -> None:
    X, table = np.eye(2).repeat(10, axis=0), np.repeat([[0], [1]], 10, axis=0)
    model = quick(epochs=1, weight_decay="auto", **OPEN).fit(X, table)
    assert model.chosen_settings_ == {"input_noise": 0.0, "weight_decay": 1e-2}
    assert (model.temperature_, model.candidates_) == (1.0, [])


@pytest.mark.parametrize("form", ["free", "skill"])
def test_a_chosen_setting_is_the_likeliest_and_trains_as_if_it_had_been_given(form: str) -> None:
    data = small()
    model = quick(confusion_form=form, **OPEN).fit(data.X, data.annotations)
    best = max(model.candidates_, key=lambda candidate: candidate["held_out_likelihood"])
    assert model.chosen_settings_ == {"input_noise": best["input_noise"]}
    assert model.temperature_ == best["temperature"] != 1
    assert model.input_noise == "auto"
    given = quick(confusion_form=form, input_noise=best["input_noise"]).fit(data.X, data.annotations)
    assert (given.chosen_settings_, given.candidates_, given.temperature_) == ({}, [], 1.0)
    plain = given.predict_proba(data.X)
    assert np.allclose(model.predict_proba(data.X), with_temperature(plain, model.temperature_))
    same = quick(confusion_form=form, input_noise=best["input_noise"], temperature=best["temperature"])
    assert np.array_equal(same.fit(data.X, data.annotations).predict_proba(data.X), model.predict_proba(data.X))


@pytest.mark.parametrize("name", ["nn-mv", "doctornet", "annot-mix", "mbem"])
def test_every_method_gets_a_temperature(name: str) -> None:
    data = small()
    model = make_classifier(name, epochs=3, input_noise=0.0, network_options={"hidden": (8,)})
    model.fit(data.X, data.annotations)
    assert len(model.candidates_) == 1
    assert model.temperature_ != 1


def test_an_annotator_without_training_labels_is_judged_as_the_crowds_average_label() -> None:
    data = small()
    model = quick()
    problem = model.prepare(data.X, data.annotations).problem
    split = hold_out(problem)
    assert split is not None
    run = model.make_run(split.kept)
    before = judge(run, split)["held_out_likelihood"]
    shown = split.kept.annotations.select(split.kept.annotations.annotator != 0)
    blind = runs.Split(runs.replace(split.kept, annotations=shown), split.items, split.annotations)
    with torch.no_grad():
        run.head.layer.table.values[0] = -5.0 * torch.eye(problem.n_classes)  # a wrong confusion that is not used
    assert judge(run, blind)["held_out_likelihood"] != judge(run, split)["held_out_likelihood"]
    assert abs(judge(run, blind)["held_out_likelihood"] - before) < 0.05


def test_choosing_settings_warns_no_more_than_a_plain_fit() -> None:
    table = (np.arange(100)[:, None] % 20 == 0).astype(int)
    X = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.warns(CrowdprismWarning, match="imbalanced") as caught:
        quick(regularizer="F", epochs=1, **OPEN).fit(X, table)
    assert len([one for one in caught if "imbalanced" in str(one.message)]) == 1


def test_an_interruption_while_settings_are_chosen_ends_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = small()
    interrupted = TrainingOutcome(interrupted=True)
    monkeypatch.setattr(runs, "train_runs", lambda runs, validation: [replace(runs[0], outcome=interrupted)])
    with pytest.raises(KeyboardInterrupt):
        quick(**OPEN).fit(data.X, data.annotations)


def test_the_papers_mode_chooses_nothing() -> None:
    data = small()
    model = quick(mode="paper", epochs=1, **OPEN)
    model.fit(data.X, data.annotations, X_valid=data.X, y_valid=data.truth)
    assert (model.chosen_settings_.get("input_noise"), model.temperature_, model.candidates_) == (0.0, 1.0, [])


GIVEN = {"epochs": 2, "batch_size": 16, "network": "linear", "standardize": False, "dependence": None}
GIVEN |= {"input_noise": 0.0, "temperature": 1.0, "learning_rate": 0.05}  # classes in their order after two epochs


def crowd(n_items: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    truth = random.integers(3, size=n_items)
    X = (np.eye(3, 4)[truth] * 2 + random.normal(size=(n_items, 4))).astype(np.float32)
    table = np.where(random.random((n_items, 4)) < 0.75, truth[:, None], random.integers(0, 3, (n_items, 4)))
    return X, table, truth


def made(name: str = "geocrowdnet", **changes: Any) -> CrowdClassifier:
    return make_classifier(name, **{**GIVEN, **changes})


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_an_item_of_weight_two_counts_as_the_item_twice_and_one_of_weight_zero_is_absent(name: str) -> None:
    X, table, _ = crowd()
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    kept = np.flatnonzero(weight)
    repeated = np.concatenate([kept, np.repeat(kept, weight[kept] - 1)])
    by_weight = made(name).fit(X, Annotations.from_dense(table), sample_weight=weight)
    by_hand = made(name).fit(X[repeated], Annotations.from_dense(table[repeated]))
    np.testing.assert_array_equal(by_weight.predict_proba(X), by_hand.predict_proba(X))
    assert by_weight.result_.items.tolist() == kept.tolist()


def test_scaling_sees_no_item_of_weight_zero() -> None:
    X, table, _ = crowd()
    spoilt = X.copy()
    spoilt[0] = 1e9
    weight = np.r_[0.0, np.ones(len(X) - 1)]
    found, expected = (
        made(standardize=True).fit(*data, sample_weight=given)
        for data, given in (((spoilt, table), weight), ((X[1:], table[1:]), None))
    )
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def test_an_epoch_visits_items_as_often_as_their_weights_say() -> None:
    share = np.array([1.0, 0.25, 0.25, 0.5, 1.0])
    visits = [drawn_visits(share, np.random.default_rng(seed)) for seed in range(2000)]
    assert {len(one) for one in visits} == {3}
    np.testing.assert_allclose(np.bincount(np.concatenate(visits)) / 2000, share, atol=0.05)


def test_broken_weights_train_and_differ_from_whole_ones() -> None:
    X, table, _ = crowd()
    half, whole = (made(epochs=4).fit(X, table, sample_weight=np.full(len(X), weight)) for weight in (0.5, 1.0))
    assert half.result_.n_items == len(X)
    assert np.abs(half.predict_proba(X) - whole.predict_proba(X)).max() > 0


@pytest.mark.parametrize("weight", [np.zeros(40), -np.ones(40), np.full(40, np.nan), np.ones(39)])
def test_weights_that_make_no_sense_are_refused(weight: np.ndarray) -> None:
    X, table, _ = crowd()
    with pytest.raises(InvalidParameterError, match="sample_weight"):
        made().fit(X, table, sample_weight=weight)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_training_goes_on_from_where_it_was(name: str) -> None:
    X, table, _ = crowd()
    model = made(name).partial_fit(X, table, epochs=2)
    before = model.predict_proba(X)
    model.learning_rate = 0.0
    model.annotator_learning_rate = 0.0
    model.partial_fit(X[:20], Annotations.from_dense(table)[:20])
    assert model.result_.items.tolist() == list(range(20))
    assert len(model.histories_[0]["total"]) == 3
    np.testing.assert_allclose(model.predict_proba(X), before, atol=1e-6)


def test_many_short_calls_learn_as_one_fit_does() -> None:
    X, table, truth = crowd(200)
    model = made()
    for _ in range(15):
        model.partial_fit(X, table)
    assert np.mean(model.predict(X) == truth) > 0.85


def test_fit_begins_anew_after_partial_fit() -> None:
    X, table, _ = crowd()
    fresh, used = made().fit(X, table), made().partial_fit(X, table).fit(X, table)
    np.testing.assert_array_equal(fresh.predict_proba(X), used.predict_proba(X))


def test_classes_of_later_calls_are_announced_in_the_first() -> None:
    X, table, truth = crowd(90)
    first = truth < 2
    labels = Annotations.from_dense(table[:, :1])
    model = made().partial_fit(X[first], truth[first], classes=[0, 1, 2])
    model.partial_fit(X, truth)
    assert model.predict_proba(X).shape == (90, 3)
    with pytest.raises(CrowdprismError, match="annotator"):
        made().partial_fit(X, labels).partial_fit(X, Annotations.from_dense(table))


@pytest.mark.parametrize("name", ["geocrowdnet-f", "doctornet-item", "conal", "mbem", "gaussian-process"])
def test_a_loaded_model_goes_on_as_the_model_that_was_saved(name: str, tmp_path: Path) -> None:
    X, table, _ = crowd()
    model = made(name, input_noise="auto", n_heads=2).fit(X, table)
    model.save(tmp_path / "run")
    loaded = load_classifier(tmp_path / "run").partial_fit(X, table, epochs=2)
    model.partial_fit(X, table, epochs=2)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.histories_ == model.histories_


def test_a_model_that_was_saved_without_its_large_confusions_predicts_and_cannot_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "MOST_HEAD_BYTES", 10)
    X, table, _ = crowd()
    model = made().fit(X, table)
    model.save(tmp_path / "run")
    loaded = load_classifier(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    with pytest.raises(InvalidParameterError, match="saved without what training goes on from"):
        loaded.partial_fit(X, table)
