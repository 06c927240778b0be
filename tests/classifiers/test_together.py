"""Training side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdprism.classifiers import together
from crowdprism.classifiers.together import fit_together

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
    original = together.train_together
    monkeypatch.setattr(together, "train_together", lambda runs, *rest: kept.extend(runs) or original(runs, *rest))
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
