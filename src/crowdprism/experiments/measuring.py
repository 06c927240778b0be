"""Running fits: measure those that have no row yet, in several processes, and store each row at once.

Fits of one trial and method that differ only in parameters are trained as one stack where possible.
"""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from crowdprism.errors import InvalidParameterError, MissingDatasetError
from crowdprism.experiments.fits import DONE, FAILED, Fit, Plan, Row, RowStore, check_parameters, missing_fits
from crowdprism.experiments.problems import Problem, crowd_file, make_problem, simulated
from crowdprism.progress import progress, set_progress
from crowdprism.results.confusion import confusion_error
from crowdprism.results.fit_result import installed_versions

if TYPE_CHECKING:
    from crowdprism.classifiers import CrowdClassifier

Job = TypeVar("Job")
Found = TypeVar("Found")
STACK_SETTINGS = ("network", "network_options", "epochs", "batch_size")  # equal within a stack
# Studies state what they change; the rest is as when their rows were made, and not what users' data would choose.
PROTOCOL = {"standardize": True, "input_noise": 0.0, "temperature": 1.0, "use_gold": False}
ROUNDING = 4


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run: the rows measured so far are stored, and the same call continues from there."""

    def __init__(self, n_done: int, n_left: int) -> None:
        super().__init__(f"{n_done} fits were measured and stored, {n_left} are left.")
        self.n_done, self.n_left = n_done, n_left


@dataclass(frozen=True)
class RunReport:
    """Result of a run: the number of fits stored before and measured now, and the rows that failed now."""

    n_there: int
    n_measured: int
    failed: tuple[Row, ...]


def run(plan: Plan, store: RowStore, *, processes: int = 1, retry: bool = False) -> RunReport:
    """Measure the fits of a plan that have no row yet; each row is stored as soon as it is measured.

    Parameters
    ----------
    processes
        Number of fits trained at the same time, each on one thread.
    retry
        Whether to run failed fits again.
    """
    fits = plan.fits
    check_parameters(fits)
    with_confusions = plan.study.keep_confusions
    missing = missing_fits(fits, store.read(), retry=retry, with_confusions=with_confusions)
    failed: list[Row] = []
    n_done = 0
    store.append(())  # fails before the work if the file cannot be written
    prepare_crowds(missing, processes)
    with progress(f"{plan.study.name}, {plan.budget.name}", total=len(missing)) as bar:
        try:
            for rows in run_all(partial(measure, with_confusions=with_confusions), groups_of(missing), processes):
                store.append(rows)
                n_done += len(rows)
                failed += [row for row in rows if row["status"] == FAILED]
                bar.advance(len(rows), note=describe(rows[-1]))
        except KeyboardInterrupt as error:
            # Count the stored rows: the interruption may come between storing a row and counting it.
            left = missing_fits(missing, store.read(), retry=False, with_confusions=with_confusions)
            raise Interrupted(len(missing) - len(left), len(left)) from error
    return RunReport(len(fits) - len(missing), n_done, tuple(failed))


def describe(row: Row) -> str:
    fit = row["fit"]
    outcome = f"{row['test']:.1f} %, {row['seconds']:.0f} s" if row["status"] != FAILED else row["reason"]
    return f"{fit['data']['dataset']} {fit['classifier']} seed {fit['seed']}: {outcome}"


def groups_of(fits: Sequence[Fit]) -> list[list[Fit]]:
    """Consecutive fits of one trial and method that can be trained as a stack."""

    def settings(fit: Fit) -> tuple[Any, ...]:
        return fit.data, fit.classifier, fit.seed, *(str(fit.parameters.get(name)) for name in STACK_SETTINGS)

    return [list(own) for _, own in groupby(fits, key=settings)]


def prepare_crowds(fits: Sequence[Fit], processes: int) -> None:
    """Train the machine annotators that the fits need and the cache lacks, each crowd once."""
    needed = {crowd_file(fit.data, fit.seed): (fit.data, fit.seed) for fit in fits if fit.data.crowd.kind == "machine"}
    absent = [wanted for path, wanted in needed.items() if not path.exists()]
    with progress("machine annotators", total=len(absent)) as bar:
        try:
            for _ in run_all(make_crowd, absent, processes):
                bar.advance()
        except KeyboardInterrupt as error:
            raise Interrupted(0, len(fits)) from error


def make_crowd(wanted: tuple[Any, int]) -> None:
    """Make one crowd; an invalid crowd is reported by the fits that need it."""
    with one_thread(), suppress(InvalidParameterError):
        simulated(*wanted)


def run_all(work: Callable[[Job], Found], jobs: Sequence[Job], processes: int) -> Iterator[Found]:
    """Results in the order in which they are ready, from this process or from several workers."""
    if processes <= 1 or len(jobs) <= 1:
        yield from map(work, jobs)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor

    parallel = Parallel(n_jobs=processes, return_as="generator_unordered", pre_dispatch=processes, batch_size=1)
    try:
        yield from parallel(delayed(work_quietly)(work, job) for job in jobs)
    except BaseException:
        get_reusable_executor().shutdown(wait=False, kill_workers=True)
        raise


def work_quietly(work: Callable[[Job], Found], job: Job) -> Found:
    """Do one job in a worker, without progress bars and ignoring Ctrl-C, which the main process handles."""
    set_progress(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return work(job)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch and the linear algebra libraries to one thread: work is parallel by processes."""
    from threadpoolctl import threadpool_limits

    from crowdprism.training.settings import limited_threads

    with limited_threads(1), threadpool_limits(1):
        yield


def measure(fits: Sequence[Fit], *, with_confusions: bool = False) -> list[Row]:
    """Run the fits of a group; a fit that fails becomes a row with its reason, and missing data stop the run."""
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the row holds what they would say: permuted
        try:
            problem = make_problem(fits[0].data, fits[0].seed)
        except MissingDatasetError:
            raise
        except Exception as error:
            return [failed_row(fit, error) for fit in fits]
        stacked = measure_stacked(fits, problem, with_confusions) if len(fits) > 1 else None
        return stacked or [measure_alone(fit, problem, with_confusions) for fit in fits]


def measure_stacked(fits: Sequence[Fit], problem: Problem, with_confusions: bool) -> list[Row] | None:
    """Train the fits as one stack if possible, else return None."""
    from crowdprism.classifiers.runs import fit_together

    models = [model_of(fit) for fit in fits]
    begun = time.process_time()
    try:
        if not fit_together(models, problem.X, problem.y, **problem.validation):
            return None
    except Exception:
        return None  # run one by one, the faulty fit gets a row with the reason
    seconds = (time.process_time() - begun) / len(fits)
    rows = [row_of(*pair, problem, seconds, with_confusions) for pair in zip(fits, models, strict=True)]
    return [row | {"stacked": len(fits)} for row in rows]


def measure_alone(fit: Fit, problem: Problem, with_confusions: bool) -> Row:
    """Train one fit; its seconds are processor time, which other work on the machine hardly changes."""
    begun = time.process_time()
    try:
        model = model_of(fit).fit(problem.X, problem.y, **problem.validation)
    except Exception as error:
        return failed_row(fit, error)
    return row_of(fit, model, problem, time.process_time() - begun, with_confusions)


def model_of(fit: Fit) -> CrowdClassifier:
    from crowdprism.classifiers import make_classifier

    return make_classifier(fit.classifier, random_state=fit.seed, **{**PROTOCOL, **fit.parameters})


def failed_row(fit: Fit, error: Exception) -> Row:
    return {"fit": fit.content, "status": FAILED, "reason": f"{type(error).__name__}: {error}"}


def row_of(fit: Fit, model: CrowdClassifier, problem: Problem, seconds: float, with_confusions: bool) -> Row:
    """The row of a trained model; accuracies in per cent, confusion errors after one alignment of classes."""
    if model.interrupted_:
        raise KeyboardInterrupt  # training stopped early on Ctrl-C, and half a fit is not a result
    best = model.histories_[0].get("validation")
    versions = installed_versions()
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
        "versions": {name: versions[name] for name in ("crowdprism", "torch") if name in versions},
    }
    confusions = model.confusions_
    if confusions is None:
        return row
    if confusions.shape != problem.truth.shape:
        raise InvalidParameterError(f"Confusions have shape {confusions.shape}, the true ones {problem.truth.shape}.")
    row["confusion_error"] = confusion_error(confusions, problem.truth)
    if with_confusions:
        row["confusions"] = np.round(confusions, ROUNDING).tolist()
        row["true_confusions"] = np.round(problem.truth, ROUNDING).tolist()
    return row
