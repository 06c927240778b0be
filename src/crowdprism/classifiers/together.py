"""Training runs side by side: the heads of an ensemble, or candidates for settings that the data choose.

Small networks are trained as one stacked program (`crowdprism.training.stacked`), others one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from crowdprism.classifiers.problem import Problem
from crowdprism.classifiers.validation import Validation
from crowdprism.networks import CrowdHead, GeometricHead
from crowdprism.networks.stacked import can_stack
from crowdprism.networks.stacked_head import can_stack_heads
from crowdprism.training import TensorItems, Trainer, TrainingOutcome, TrainingSettings
from crowdprism.training.stacked import StackedModel, StackedTrainer, settings_can_stack


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
