"""Settings that are chosen by the data: network regularisation by the likelihood of held-out annotations.

The likelihood of annotations that were held out chooses weight decay and input noise well. It is not used to choose
the strength of a volume term, which it undervalues: the likelihood is blind to the part of the model that the volume
term is there to fix.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from crowdprism.classifiers.problem import Problem
from crowdprism.classifiers.together import Run, can_train_together, train_alone, train_together
from crowdprism.classifiers.validation import Validation
from crowdprism.errors import CrowdprismWarning, InvalidParameterError
from crowdprism.training import FlatAnnotations

if TYPE_CHECKING:
    from crowdprism.classifiers.base import CrowdClassifier

# Strong noise needs some decay beside it, so the weakest decay is only tried without.
WEIGHT_DECAYS = (1e-3, 1e-2, 3e-2)
INPUT_NOISES = (0.0, 1.0)
TUNABLE = {"weight_decay": WEIGHT_DECAYS, "input_noise": INPUT_NOISES}
HELD_OUT = 0.2


def open_settings(model: CrowdClassifier) -> list[str]:
    """Names of the settings that are left to the data."""
    return [name for name in TUNABLE if isinstance(getattr(model, name), str)]


def check(model: CrowdClassifier) -> None:
    """Raise for a word other than "auto"."""
    for name in open_settings(model):
        if getattr(model, name) != "auto":
            raise InvalidParameterError(f'{name} must be a number or "auto", not {getattr(model, name)!r}.')


def candidates(names: Sequence[str]) -> list[dict[str, float]]:
    """Values to try, one dict per candidate."""
    grid = [dict(zip(names, values, strict=True)) for values in product(*(TUNABLE[name] for name in names))]
    weakest = {"weight_decay": WEIGHT_DECAYS[0], "input_noise": INPUT_NOISES[-1]}
    return [values for values in grid if values != weakest]


def choose(model: CrowdClassifier, problem: Problem) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Train every candidate without a share of the annotations; return the best and the whole record.

    Returns
    -------
    The chosen values, and for each candidate its values and the mean log-likelihood of the held-out annotations.
    """
    names = open_settings(model)
    kept, held_out = problem.annotations.split_annotations(HELD_OUT, problem.seed)
    n_extra = problem.flat.n_items - problem.annotations.n_items
    reduced = replace(problem, annotations=kept, flat=FlatAnnotations.of(kept, extra_items=n_extra))
    validation = Validation(None, None, held_out, kept)
    tried = candidates(names)
    runs = [_run_of(model, values, reduced) for values in tried]
    if can_train_together(runs):
        outcomes = train_together(runs, validation)
    else:
        outcomes = [train_alone(run, validation) for run in runs]
    scores = [outcome.history["validation"][-1] for outcome in outcomes]
    record = [{**values, "held_out_likelihood": score} for values, score in zip(tried, scores, strict=True)]
    return tried[int(np.argmax(scores))], record


def _run_of(model: CrowdClassifier, values: dict[str, float], problem: Problem) -> Run:
    candidate: CrowdClassifier = clone(model).set_params(**values, n_heads=1, selection="last", checkpoint=None)
    candidate._warnings = []
    candidate._network_name = model._network_name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdprismWarning)  # the fit itself warns, once
        candidate._check_parameters(problem)
    return candidate._make_run(problem)
