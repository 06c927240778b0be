"""Settings and temperature by held-out items: what is tried, what is held out, and what the choice does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.classifiers import choosing, make_classifier, together
from crowdprism.classifiers.choosing import candidate_settings, hold_out, judge
from crowdprism.classifiers.together import Trained
from crowdprism.diagnostics.calibration import with_temperature
from crowdprism.errors import CrowdprismWarning
from crowdprism.training import TrainingOutcome

sys.path.insert(0, str(Path(__file__).parent))
from crowds import quick, small

pytestmark = pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")

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
    blind = choosing.Split(choosing.replace(split.kept, annotations=shown), split.items, split.annotations)
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
    monkeypatch.setattr(together, "train_runs", lambda runs, validation: [Trained(runs[0], interrupted)])
    with pytest.raises(KeyboardInterrupt):
        quick(**OPEN).fit(data.X, data.annotations)


def test_the_papers_mode_chooses_nothing() -> None:
    data = small()
    model = quick(mode="paper", epochs=1, **OPEN)
    model.fit(data.X, data.annotations, X_valid=data.X, y_valid=data.truth)
    assert (model.chosen_settings_.get("input_noise"), model.temperature_, model.candidates_) == (0.0, 1.0, [])
