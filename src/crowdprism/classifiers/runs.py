"""Training of one or several networks: members of an ensemble, candidates for settings, a grid, going on after a fit.

Small networks are trained as one stacked program (`crowdprism.training.stacked`), others one after the other.

Settings that are left to the data are chosen by a quarter of the annotated items, held out with all annotations. Every
candidate is trained on the rest, for fewer epochs, and judged by their mean log Σ_k f_k(x) C_annotator[k, label]; they
then give the temperature. The strength of a volume term is not chosen so: the likelihood is blind to what it fixes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.classifiers import inputs
from crowdprism.classifiers.fitting import Choice, Problem, Run, Validation, start_confusions
from crowdprism.classifiers.posterior import known_confusions, log_evidence, mean_log_likelihood, network_probs
from crowdprism.diagnostics.calibration import fit_temperature
from crowdprism.errors import InvalidParameterError
from crowdprism.results.fit_result import json_ready
from crowdprism.seeding import stream
from crowdprism.training import CheckpointFolder, FlatAnnotations, Items, TensorItems, Trainer, TrainingOutcome
from crowdprism.training.stacked import StackedModel, StackedTrainer, can_stack

if TYPE_CHECKING:
    from crowdprism.classifiers.base import CrowdClassifier


NOT_IN_FINGERPRINT = {"checkpoint", "resume", "callbacks", "n_workers", "network", "n_heads"}
SAME_IN_A_STACK = ("standardize", "selection", "validation_fraction")
INPUT_NOISES = (0.5, 1.0, 2.0)  # in units of the scaled features
WEIGHT_DECAYS = (1e-3, 1e-2, 3e-2)
UNCHOSEN = {"input_noise": 0.0, "weight_decay": 1e-2}  # where too few items could be held out
HELD_OUT = 0.25  # of the annotated items
FEWEST_HELD_OUT = 10  # items; with fewer, chance would choose
EPOCHS = 0.6  # of a fit's; with fewer, too little noise is chosen
Model = TypeVar("Model", bound="CrowdClassifier")
# Each call is a stretch of one long training, of unknown length: no schedule, and penalties from its first step.
CONSTANT: dict[str, Any] = {"schedule": "none", "warm_start": 0.0, "ramp": 0.0, "hold_annotators": 0.0}


def train(model: CrowdClassifier, problem: Problem, validation: Validation | None) -> list[Run]:
    runs = (model.make_run(replace(problem, member=place)) for place in range(model.n_heads))
    if model.checkpoint is None and not model.callbacks:
        return train_runs(list(runs), validation)
    return train_in_turn(runs, validation, watched_by=model)


def train_runs(runs: Sequence[Run], validation: Validation | None) -> list[Run]:
    """Train runs on the same problem, as one program where possible."""
    return train_together(runs, validation) or train_in_turn(runs, validation)


def train_in_turn(
    runs: Iterable[Run], validation: Validation | None, *, watched_by: CrowdClassifier | None = None
) -> list[Run]:
    """Train runs one after the other, with a model's callbacks and checkpoints; an interruption ends the list."""
    trained: list[Run] = []
    for run in runs:
        parts = (run.network, run.head)
        watch: dict[str, Any] = {"validate": None if validation is None else validation.bind(*parts)}
        if watched_by is not None:
            watch |= {"callbacks": watched_by.callbacks, "checkpoints": checkpoint_folder(watched_by, run)}
        trainer = Trainer(*parts, run.problem.items, run.problem.flat, run.settings, **watch)
        trainer.outcome = run.outcome
        trained.append(replace(run, outcome=trainer.run()))
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


def train_together(runs: Sequence[Run], validation: Validation | None) -> list[Run] | None:
    """Train runs on the same problem as one stacked program; None, without training, where that cannot be."""
    problem = runs[0].problem
    models = [StackedModel(run.network, run.head, run.settings) for run in runs]
    plain = isinstance(problem.items, TensorItems) and problem.flat.share is None
    if len(runs) < 2 or not plain or not can_stack(models):
        return None
    measured: Any = (None, None) if validation is None else (validation.figure, validation.items)
    trainer = StackedTrainer(models, problem.items, problem.flat, measure=measured[0], valid_items=measured[1])
    trainer.run()
    return [replace(run, outcome=own) for run, own in zip(runs, trainer.outcomes(), strict=True)]


def fit_together(models: Sequence[CrowdClassifier], X: Any, y: Any, **validation: Any) -> bool:
    """Fit classifiers to the same data as one stack; return False, without training, where that cannot be.

    Rates, weight decay, input noise, strength and seed may differ. `validation` is `X_valid` and `y_valid` of `fit`.
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


@dataclass(frozen=True)
class Split:
    """A problem without its held-out items, and these."""

    kept: Problem
    items: Items
    annotations: Annotations


def choose(model: CrowdClassifier, problem: Problem) -> Choice:
    """Choose the settings that are `"auto"` and the temperature; nothing is trained where all are given."""
    tried, default = candidate_settings(model, problem), unchosen(model, problem)
    split = hold_out(problem) if model._open else None
    if split is None:
        return default
    short: Any = copy.copy(model)
    short.epochs = max(1, round(EPOCHS * model.epochs))
    runs = [short.make_run(replace(split.kept, chosen=values)) for values in tried]
    runs = [replace(run, settings=replace(run.settings, keep_best=False, patience=None)) for run in runs]
    trained = train_runs(runs, None)
    if any(run.outcome.interrupted for run in trained):
        raise KeyboardInterrupt  # no candidate is a model to keep
    record = [values | judge(run, split) for values, run in zip(tried, trained, strict=True)]
    best = int(np.argmax([figures["held_out_likelihood"] for figures in record]))
    temperature = record[best]["temperature"] if model.temperature == "auto" else default.temperature
    return Choice(tried[best], temperature, record)


def unchosen(model: CrowdClassifier, problem: Problem) -> Choice:
    """What is taken where no items are held out."""
    settings = {name: UNCHOSEN[name] for name in candidate_settings(model, problem)[0]}
    return Choice(settings, 1.0 if model.temperature == "auto" else float(model.temperature))


def candidate_settings(model: CrowdClassifier, problem: Problem) -> list[dict[str, float]]:
    """Values to try, one dict per candidate. Images get no noise: it is meant for features of one scale."""
    noises = INPUT_NOISES if len(problem.items.shape) == 1 else (0.0,)
    noisy = model.input_noise == "auto" and len(noises) > 1
    values = {
        "input_noise": noises if model.input_noise == "auto" else (),
        "weight_decay": (WEIGHT_DECAYS[1:] if noisy else WEIGHT_DECAYS) if model.weight_decay == "auto" else (),
    }
    names = [name for name, each in values.items() if each]
    return [dict(zip(names, each, strict=True)) for each in product(*(values[name] for name in names))]


def hold_out(problem: Problem) -> Split | None:
    """Split off a share of the annotated items with all their annotations; None where there are too few."""
    annotated = np.flatnonzero(problem.annotations.labels_per_item > 0)
    n_held = int(HELD_OUT * len(annotated))
    if n_held < FEWEST_HELD_OUT:
        return None
    held = np.sort(stream(problem.seed, "held-out items").permutation(annotated)[:n_held])
    kept = np.setdiff1d(np.arange(problem.flat.n_items), held)  # unlabelled items come last and stay
    annotations = problem.annotations[kept[kept < problem.annotations.n_items]]
    flat = FlatAnnotations.of(annotations, extra_items=problem.n_unlabelled)
    reduced = replace(problem, annotations=annotations, flat=flat, items=problem.items.part(kept))
    return Split(reduced, problem.items.part(held), problem.annotations[held])


def judge(run: Run, split: Split) -> dict[str, float]:
    """Likelihood of held-out annotations and their temperature; methods without confusions get Dawid-Skene's."""
    found = run.head.confusions()
    training = split.kept.annotations
    if found is None:
        found = start_confusions("dawid-skene", training, diagonal=1.0)
    confusions = known_confusions(found.double().cpu().numpy(), training.labels_per_annotator)
    class_probs: NDArray[np.float64] = network_probs(run.network, split.items)
    evidence = log_evidence(split.annotations, confusions, training)
    return {
        "held_out_likelihood": mean_log_likelihood(class_probs, split.annotations, evidence),
        "temperature": fit_temperature(class_probs, confusions, split.annotations).value,
    }


def partial_fit(model: Model, X: Any, y: Any, classes: Any, sample_weight: Any, *, epochs: int, items: Any) -> Model:
    """See `CrowdClassifier.partial_fit`."""
    annotations = inputs.annotations_of(y)
    fitted = getattr(model, "predictor_", None)
    if fitted is not None:
        if not hasattr(model, "_head_states"):
            raise InvalidParameterError(
                "This model was saved without what training goes on from: by an older version, or because its "
                "confusions take more than 64 MB. Use fit."
            )
        known = model.result_
        annotations = annotations.reindexed(annotators=known.annotators.tolist(), classes=known.classes.tolist())
    elif classes is not None:
        annotations = annotations.reindexed(classes=list(classes))
    prepared = model.prepare(X, annotations, sample_weight=sample_weight, items=items, fitted=fitted)
    choice = unchosen(model, prepared.problem)
    if fitted is not None:
        choice = replace(choice, settings=choice.settings | model.chosen_settings_, temperature=fitted.temperature)
    problem = prepared.to_train(choice)
    runs = [begun_run(model, replace(problem, member=place), epochs) for place in range(model.n_heads)]
    return model.keep(prepared, train_in_turn(runs, prepared.validation, watched_by=model), choice)


def begun_run(model: CrowdClassifier, problem: Problem, epochs: int) -> Run:
    """A run of a few epochs from where the last one ended."""
    run, outcome = model.make_run(problem), TrainingOutcome()
    if hasattr(model, "predictor_"):
        run.network.load_state_dict(model.predictor_.members[problem.member].network.state_dict())
        run.head.load_state_dict({**run.head.state_dict(), **model._head_states[problem.member]})
        history = copy.deepcopy(model.histories_[problem.member])
        outcome = TrainingOutcome(history, epochs_done=len(history["total"]))
    settings = replace(run.settings, epochs=outcome.epochs_done + epochs, rounds=1, keep_best=False, **CONSTANT)
    return replace(run, settings=settings, outcome=outcome)
