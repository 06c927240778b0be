"""Training runs side by side: the heads of an ensemble, or candidates for settings that the data choose.

Small networks are trained as one stacked program (`crowdprism.training.stacked`), others one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from crowdprism.annotations import Annotations
from crowdprism.classifiers.problem import Problem
from crowdprism.classifiers.validation import Validation
from crowdprism.networks import CrowdHead, GeometricHead
from crowdprism.networks.stacked import can_stack
from crowdprism.networks.stacked_head import can_stack_heads
from crowdprism.training import Items, TensorItems, Trainer, TrainingOutcome, TrainingSettings
from crowdprism.training.stacked import StackedModel, StackedTrainer, settings_can_stack

if TYPE_CHECKING:
    from crowdprism.classifiers.base import CrowdClassifier


@dataclass(frozen=True)
class Prepared:
    """Checked data of one `fit`: what is trained on, what is measured after each epoch, what the result is about."""

    problem: Problem
    validation: Validation | None
    annotations: Annotations
    items: Items


@dataclass(frozen=True)
class Run:
    """A network and a crowd head, ready to be trained."""

    network: nn.Module
    head: CrowdHead
    settings: TrainingSettings
    problem: Problem


def can_train_together(runs: Sequence[Run]) -> bool:
    """Tell whether runs on the same items can be trained as one stacked program."""
    return (
        len(runs) > 1
        and isinstance(runs[0].problem.items, TensorItems)
        and all(can_stack(run.network) for run in runs)
        and can_stack_heads([run.head for run in runs])
        and settings_can_stack([run.settings for run in runs])
        and all(run.head.visited is None for run in runs)
    )


def train_together(runs: Sequence[Run], validation: Validation | None) -> list[TrainingOutcome]:
    """Train all runs as one program; return what each would have returned alone."""
    problem = runs[0].problem
    models = [
        StackedModel(run.network, run.head, run.settings, np.arange(len(problem.items)))
        for run in runs
        if isinstance(run.head, GeometricHead)
    ]

    def measure(log_class_probs: Tensor, confusions: Tensor) -> NDArray[np.float64]:
        assert validation is not None
        probs, matrices = log_class_probs.double().exp().numpy(), confusions.double().numpy()
        return np.array([validation.figure(*pair) for pair in zip(probs, matrices, strict=True)])

    trainer = StackedTrainer(
        models,
        problem.items,
        problem.flat,
        measure=None if validation is None else measure,
        valid_items=None if validation is None else validation.items,
    )
    outcome = trainer.run()
    figures = np.array(trainer.figures)
    return [
        TrainingOutcome(
            history=_own_history(outcome.history, len(runs), figures[:, place] if len(figures) else None),
            best_epoch=int(trainer.best_epochs[place]) if len(figures) else None,
            best_value=float(figures[:, place].max()) if len(figures) else None,
            interrupted=outcome.interrupted,
            finished=outcome.finished,
            epochs_done=outcome.epochs_done,
        )
        for place in range(len(runs))
    ]


def _own_history(
    common: dict[str, list[float]], n_runs: int, figures: NDArray[np.float64] | None
) -> dict[str, list[float]]:
    """Losses are known for the stack only: each run gets their mean. Validation figures are each run's own."""
    history = {name: [value / n_runs for value in values] for name, values in common.items()}
    return history if figures is None else history | {"validation": figures.tolist()}


def train_alone(run: Run, validation: Validation | None) -> TrainingOutcome:
    """Train one run by itself, without callbacks and checkpoints."""
    items = run.problem.items
    validate = None if validation is None else validation.bind(run.network, run.head, items)
    return Trainer(run.network, run.head, items, run.problem.flat, run.settings, validate=validate).run()


def fit_together(models: Sequence[CrowdClassifier], X: Any, y: Any, **validation: Any) -> bool:
    """Fit classifiers to the same data as one stacked program; return False, nothing done, where that cannot be.

    For grids of settings: what a stack allows to differ is learning rates, weight decay, input noise, strength and
    seed. Results equal those of fitting one by one in distribution, not digit for digit.

    Parameters
    ----------
    **validation
        `X_valid` and `y_valid` of `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdprism import make_classifier
    >>> X, table = np.repeat(np.eye(2), 10, axis=0), np.repeat([[0, 0, 1], [1, 1, 0]], 10, axis=0)
    >>> same = {"confusion_form": "free", "epochs": 5}
    >>> grid = [make_classifier("geocrowdnet-f", strength=strength, **same) for strength in (0.01, 0.1)]
    >>> fit_together(grid, X, table)
    True
    >>> [model.predict(X).shape for model in grid]
    [(20,), (20,)]
    """
    if any(model.n_heads != 1 or model.checkpoint is not None or model.callbacks for model in models):
        return False
    if any("auto" in (model.weight_decay, model.input_noise) for model in models):
        return False
    prepared = [model._prepare(X, y, **validation) for model in models]
    for model in models:
        model._forget()
    runs = [model._make_run(one.problem) for model, one in zip(models, prepared, strict=True)]
    if not can_train_together(runs):
        return False
    outcomes = train_together(runs, prepared[0].validation)
    for model, one, run, outcome in zip(models, prepared, runs, outcomes, strict=True):
        model._keep_run(run, outcome)
        model._make_result(one.annotations, one.items, one.problem.seed)
    return True
