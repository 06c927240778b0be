"""Training of one or several networks: members of an ensemble, candidates for settings, a grid of classifiers.

Small networks are trained as one stacked program (`crowdprism.training.stacked`), others one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdprism.classifiers.fitting import Choice, Problem, Run, Validation
from crowdprism.results.fit_result import json_ready
from crowdprism.training import CheckpointFolder, TensorItems, Trainer, TrainingOutcome
from crowdprism.training.stacked import StackedModel, StackedTrainer, can_stack

if TYPE_CHECKING:
    from crowdprism.classifiers.base import CrowdClassifier

NOT_IN_FINGERPRINT = {"checkpoint", "resume", "callbacks", "n_workers", "network", "n_heads"}
SAME_IN_A_STACK = ("standardize", "selection", "validation_fraction")


@dataclass(frozen=True)
class Trained:
    """A run, and how its training went."""

    run: Run
    outcome: TrainingOutcome


def train(model: CrowdClassifier, problem: Problem, validation: Validation | None) -> list[Trained]:
    runs = (model.make_run(replace(problem, member=place)) for place in range(model.n_heads))
    if model.checkpoint is None and not model.callbacks:
        return train_runs(list(runs), validation)
    return train_in_turn(runs, validation, watched_by=model)


def train_runs(runs: Sequence[Run], validation: Validation | None) -> list[Trained]:
    """Train runs on the same problem, as one program where possible."""
    return train_together(runs, validation) or train_in_turn(runs, validation)


def train_in_turn(
    runs: Iterable[Run], validation: Validation | None, *, watched_by: CrowdClassifier | None = None
) -> list[Trained]:
    """Train runs one after the other, with a model's callbacks and checkpoints; an interruption ends the list."""
    trained: list[Trained] = []
    for run in runs:
        parts = (run.network, run.head)
        watch: dict[str, Any] = {"validate": None if validation is None else validation.bind(*parts)}
        if watched_by is not None:
            watch |= {"callbacks": watched_by.callbacks, "checkpoints": checkpoint_folder(watched_by, run)}
        trainer = Trainer(*parts, run.problem.items, run.problem.flat, run.settings, **watch)
        trainer.outcome = run.outcome
        trained.append(Trained(run, trainer.run()))
        if trained[-1].outcome.interrupted:
            break
    return trained


def checkpoint_folder(model: CrowdClassifier, run: Run) -> CheckpointFolder | None:
    """Where the states of a run are kept, with all that a state must agree with to be resumed from."""
    if model.checkpoint is None:
        return None
    problem = run.problem
    parameters = {name: value for name, value in model.get_params().items() if name not in NOT_IN_FINGERPRINT}
    fingerprint = {
        "method": model.name,
        "network": run.plan.architecture if isinstance(run.plan.architecture, str) else "user",
        **{f"parameter {name}": json_ready(value) for name, value in parameters.items()},
        **{f"setting {name}": json_ready(value) for name, value in asdict(run.settings).items() if name != "device"},
        "items": len(problem.items),
        "features": problem.items.checksum(),
        "annotations": problem.flat.checksum(),
        "classes": problem.n_classes,
        "annotators": problem.n_annotators,
    }
    folder = CheckpointFolder(Path(model.checkpoint) / f"head-{problem.member}", fingerprint)
    if not model.resume:
        folder.clear()
    return folder


def train_together(runs: Sequence[Run], validation: Validation | None) -> list[Trained] | None:
    """Train runs on the same problem as one stacked program; None, without training, where that cannot be."""
    problem = runs[0].problem
    models = [StackedModel(run.network, run.head, run.settings) for run in runs]
    plain = isinstance(problem.items, TensorItems) and problem.flat.share is None
    if len(runs) < 2 or not plain or not can_stack(models):
        return None
    measured: dict[str, Any] = {}
    if validation is not None:
        measured = {"measure": validation.figure, "valid_items": validation.items}
    trainer = StackedTrainer(models, problem.items, problem.flat, **measured)
    trainer.run()
    return [Trained(*pair) for pair in zip(runs, trainer.outcomes(), strict=True)]


def fit_together(models: Sequence[CrowdClassifier], X: Any, y: Any, **validation: Any) -> bool:
    """Fit classifiers to the same data as one stacked program; return False, without training, where that cannot be.

    For grids of settings: what a stack allows to differ is learning rates, weight decay, input noise, strength and
    seed; nothing may be left to the data. Results equal those of fitting one by one in distribution, not digit for
    digit. `validation` is `X_valid` and `y_valid` of `fit`.
    """
    if any(one.n_heads != 1 or one.checkpoint is not None or one.callbacks or one._open for one in models):
        return False
    if any(getattr(model, name) != getattr(models[0], name) for model in models for name in SAME_IN_A_STACK):
        return False
    prepared = [model.prepare(X, y, **validation) for model in models]
    items = prepared[0].problem.items  # scaled alike, so one copy serves all
    prepared = [replace(one, problem=replace(one.problem, items=items)) for one in prepared]
    runs = [model.make_run(one.problem) for model, one in zip(models, prepared, strict=True)]
    found = train_together(runs, prepared[0].validation)
    for model, one, trained in zip(models, prepared, found or [], strict=bool(found)):
        given = 1.0 if model.temperature == "auto" else float(model.temperature)  # the paper's mode leaves it open
        model.keep(one, [trained], Choice(temperature=given))
    return found is not None
