"""One fit, or several of one trial trained as a stack, and what is recorded about each."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdprism.errors import InvalidParameterError, MissingDatasetError
from crowdprism.experiments.fits import Fit
from crowdprism.experiments.problems import Problem, make_problem
from crowdprism.experiments.rows import DONE, FAILED, Row
from crowdprism.results.confusion import confusion_error

if TYPE_CHECKING:
    from crowdprism.classifiers import CrowdClassifier

ROUNDING = 4


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch and the linear algebra libraries to one thread: processes are the unit of parallel work."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def groups_of(fits: Sequence[Fit]) -> list[list[Fit]]:
    """Neighbouring fits that differ in parameters only: one trial of one method, which may be trained as a stack."""
    return [
        list(own) for _, own in groupby(fits, key=lambda fit: (fit.data, fit.classifier, fit.seed, stack_settings(fit)))
    ]


def stack_settings(fit: Fit) -> tuple[Any, ...]:
    """Parameters that must agree within a stack, as far as they say how long training takes."""
    return tuple(str(fit.parameters.get(name)) for name in ("network", "network_options", "epochs", "batch_size"))


def measure(fits: Sequence[Fit], *, with_confusions: bool = False) -> list[Row]:
    """Run the fits of a group; a fit that fails becomes a row with its reason. Missing data end the run."""
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they would tell is in the row: permuted
        try:
            problem = make_problem(fits[0].data, fits[0].seed)
        except MissingDatasetError:
            raise
        except Exception as error:
            return [failed_row(fit, error) for fit in fits]
        rows = measure_stacked(fits, problem, with_confusions)
        if rows is not None:
            return rows
        return [measure_alone(fit, problem, with_confusions) for fit in fits]


def measure_stacked(fits: Sequence[Fit], problem: Problem, with_confusions: bool) -> list[Row] | None:
    """Train the fits as one program where that is possible, else return None."""
    from crowdprism.classifiers.together import fit_together

    if len(fits) == 1:
        return None
    models = [model_of(fit) for fit in fits]
    begun = time.process_time()
    try:
        if not fit_together(models, problem.X, problem.y, **problem.validation):
            return None
    except Exception:
        return None  # one by one, the fit that is at fault gets a row with the reason
    seconds = (time.process_time() - begun) / len(fits)
    return [
        row_of(fit, model, problem, seconds, with_confusions) | {"stacked": len(fits)}
        for fit, model in zip(fits, models, strict=True)
    ]


def measure_alone(fit: Fit, problem: Problem, with_confusions: bool) -> Row:
    """Train one fit; its seconds are those of the processor, which other work on the machine hardly changes."""
    begun = time.process_time()
    try:
        model = model_of(fit).fit(problem.X, problem.y, **problem.validation)
    except Exception as error:
        return failed_row(fit, error)
    return row_of(fit, model, problem, time.process_time() - begun, with_confusions)


def model_of(fit: Fit) -> CrowdClassifier:
    """The classifier of a fit, untrained."""
    from crowdprism.classifiers import make_classifier

    return make_classifier(fit.classifier, random_state=fit.seed, **fit.parameters)


def failed_row(fit: Fit, error: Exception) -> Row:
    """The row of a fit that could not be finished."""
    return {"fit": fit.content, "status": FAILED, "reason": f"{type(error).__name__}: {error}"}


def row_of(fit: Fit, model: CrowdClassifier, problem: Problem, seconds: float, with_confusions: bool) -> Row:
    """What is recorded about a trained model; accuracies in per cent."""
    if model.interrupted_:
        raise KeyboardInterrupt  # training stopped early on Ctrl-C; half a fit is no row
    best = model.histories_[0].get("validation")
    row: Row = {
        "fit": fit.content,
        "status": DONE,
        "test": 100 * float(np.mean(model.predict(problem.X_test) == problem.y_test)),
        "valid": None if best is None else 100 * max(best),
        "epoch": model.best_epochs_[0],
        "permuted": any(alignment.permuted for alignment in model.alignments_),
        "seconds": round(seconds, 3),
        "label_accuracy": round(100 * problem.label_accuracy, 2),
        "unlabelled": round(100 * problem.unlabelled, 2),
        "versions": versions(),
    }
    if model.confusions_ is not None:
        row |= confusion_parts(model, problem, with_confusions)
    return row


def confusion_parts(model: CrowdClassifier, problem: Problem, with_confusions: bool) -> Row:
    """Errors of the confusion matrices after one common alignment of classes, and the matrices where wanted."""
    assert model.confusions_ is not None
    if model.confusions_.shape != problem.truth.shape:
        raise InvalidParameterError(
            f"Confusions have shape {model.confusions_.shape}, the true ones {problem.truth.shape}."
        )
    error = confusion_error(model.confusions_, problem.truth)
    parts: Row = {
        "confusion_error": {
            "mean_squared": error.mean_squared,
            "frobenius": error.frobenius,
            "relative_l1": error.relative_l1,
        }
    }
    if with_confusions:
        parts["confusions"] = np.round(model.confusions_, ROUNDING).tolist()
        parts["true_confusions"] = np.round(problem.truth, ROUNDING).tolist()
    return parts


def versions() -> dict[str, str]:
    """Of crowdprism and torch, which decide the numbers."""
    from crowdprism.results.fit_result import installed_versions

    return {name: version for name, version in installed_versions().items() if name in ("crowdprism", "torch")}
