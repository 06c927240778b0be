"""Settings that are left to the data, and the temperature of predictions: both by held-out items, without clean labels.

A quarter of the annotated items is held out with all annotations. Every candidate is trained on the rest, for fewer
epochs, and judged by the likelihood of the held-out annotations,

    mean log Σ_k f_k(x) C_annotator[k, label].

The same items then give the temperature of the best candidate. The strength of a volume term is not chosen this way:
the likelihood is blind to the part of the model that the volume term is there to fix.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.classifiers import together
from crowdprism.classifiers.fitting import Choice, Problem, Run
from crowdprism.classifiers.posterior import known_confusions, log_evidence, mean_log_likelihood, network_probs
from crowdprism.classifiers.starting_values import start_confusions
from crowdprism.diagnostics.calibration import fit_temperature
from crowdprism.seeding import stream
from crowdprism.training import FlatAnnotations, Items

if TYPE_CHECKING:
    from crowdprism.classifiers.base import CrowdClassifier

INPUT_NOISES = (0.5, 1.0, 2.0)  # in units of the scaled features
WEIGHT_DECAYS = (1e-3, 1e-2, 3e-2)
UNCHOSEN = {"input_noise": 0.0, "weight_decay": 1e-2}  # where too few items could be held out
HELD_OUT = 0.25  # of the annotated items
FEWEST_HELD_OUT = 10  # items; with fewer, chance would choose
EPOCHS = 0.6  # of a fit's; with fewer, too little noise is chosen


@dataclass(frozen=True)
class Split:
    """A problem without its held-out items, and these."""

    kept: Problem
    items: Items
    annotations: Annotations


def choose(model: CrowdClassifier, problem: Problem) -> Choice:
    """Choose the settings that are `"auto"` and the temperature; nothing is trained where all are given."""
    tried = candidate_settings(model, problem)
    given = 1.0 if model.temperature == "auto" else float(model.temperature)
    split = hold_out(problem) if model._open else None
    if split is None:
        return unchosen(model, problem)
    runs = candidate_runs(model, split.kept, tried)
    trained = together.train_runs(runs, None)
    if any(one.outcome.interrupted for one in trained):
        raise KeyboardInterrupt  # no candidate is a model to keep
    record = [values | judge(run, split) for values, run in zip(tried, runs, strict=True)]
    best = int(np.argmax([figures["held_out_likelihood"] for figures in record]))
    return Choice(tried[best], record[best]["temperature"] if model.temperature == "auto" else given, record)


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


def candidate_runs(model: CrowdClassifier, problem: Problem, tried: Sequence[dict[str, float]]) -> list[Run]:
    """Untrained networks and heads of all candidates; judged by their last epoch."""
    short: Any = copy.copy(model)
    short.epochs = max(1, round(EPOCHS * model.epochs))
    runs = [short.make_run(replace(problem, chosen=values)) for values in tried]
    return [replace(run, settings=replace(run.settings, keep_best=False, patience=None)) for run in runs]


def judge(run: Run, split: Split) -> dict[str, float]:
    """Likelihood of the held-out annotations, and the temperature that they ask for.

    Methods without confusion matrices are judged by those of Dawid-Skene; annotators without training labels by the
    confusion of the crowd's average label.
    """
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
