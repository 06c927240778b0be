"""The runner: measure what has no row yet, several processes at a time, and lose nothing when interrupted."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from crowdprism.experiments.fits import Fit, Plan, check_parameters
from crowdprism.experiments.measuring import groups_of, measure
from crowdprism.experiments.rows import FAILED, Row, RowStore, missing_fits
from crowdprism.progress import progress

Job = TypeVar("Job")
Found = TypeVar("Found")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run: the rows measured so far are stored, and the same call goes on from there."""

    def __init__(self, n_done: int, n_left: int) -> None:
        super().__init__(f"{n_done} fits were measured and stored, {n_left} are left.")
        self.n_done, self.n_left = n_done, n_left


@dataclass(frozen=True)
class RunReport:
    """What a run did: fits that were there before, measured now, and failed now with their reasons."""

    n_there: int
    n_measured: int
    failed: tuple[Row, ...]


def run(
    plan: Plan,
    store: RowStore,
    *,
    processes: int = 1,
    retry: bool = False,
    tell: Callable[[str], None] | None = None,
) -> RunReport:
    """Measure the fits of a plan that have no row yet; each row is stored as soon as it is there.

    Parameters
    ----------
    processes
        How many fits are trained at a time, each on one thread.
    retry
        Measure fits again that failed before.
    tell
        Called with a line of text after each group of fits.
    """
    fits = plan.fits
    check_parameters(fits)
    with_confusions = plan.study.keep_confusions
    missing = missing_fits(fits, store.read(), retry=retry, with_confusions=with_confusions)
    failed: list[Row] = []
    n_done = 0
    store.append(())  # a place that cannot be written is noticed before the work, not after
    prepare_crowds(missing, processes)
    with progress(f"{plan.study.name}, {plan.budget.name}", total=len(missing)) as bar:
        try:
            for rows in run_all(partial(measure, with_confusions=with_confusions), groups_of(missing), processes):
                store.append(rows)
                n_done += len(rows)
                failed += [row for row in rows if row["status"] == FAILED]
                bar.advance(len(rows), note=told(rows[-1]))
                if tell is not None:
                    tell(f"[{n_done}/{len(missing)}] {told(rows[-1])}")
        except KeyboardInterrupt as error:
            # Count what is stored: the interruption may have come between storing a row and counting it.
            left = missing_fits(missing, store.read(), retry=False, with_confusions=with_confusions)
            raise Interrupted(len(missing) - len(left), len(left)) from error
    return RunReport(len(fits) - len(missing), n_done, tuple(failed))


def told(row: Row) -> str:
    """A row in a few words."""
    fit = row["fit"]
    outcome = f"{row['test']:.1f} %, {row['seconds']:.0f} s" if row["status"] != FAILED else row["reason"]
    return f"{fit['data']['dataset']} {fit['classifier']} seed {fit['seed']}: {outcome}"


def prepare_crowds(fits: Sequence[Fit], processes: int) -> None:
    """Train machine annotators that the fits need and that are not in the cache, each crowd once."""
    from crowdprism.experiments.problems import crowd_file

    needed = {crowd_file(fit.data, fit.seed): (fit.data, fit.seed) for fit in fits if fit.data.crowd.kind == "machine"}
    absent = [wanted for path, wanted in needed.items() if not path.exists()]
    with progress("machine annotators", total=len(absent)) as bar:
        try:
            for _ in run_all(make_crowd, absent, processes):
                bar.advance()
        except KeyboardInterrupt as error:
            raise Interrupted(0, len(fits)) from error


def make_crowd(wanted: tuple[Any, int]) -> None:
    """Make one crowd; what is wrong with it is told by the fits that need it."""
    from crowdprism.errors import InvalidParameterError
    from crowdprism.experiments.measuring import one_thread
    from crowdprism.experiments.problems import simulated

    with one_thread(), contextlib.suppress(InvalidParameterError):
        simulated(*wanted)


def run_all(work: Callable[[Job], Found], jobs: Sequence[Job], processes: int) -> Iterator[Found]:
    """Results in the order in which they are ready; one process works here, several in workers that Ctrl-C spares."""
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
    """Do one job in a worker: without progress bars, and deaf to Ctrl-C, which the main process answers."""
    from crowdprism.progress import set_progress

    set_progress(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return work(job)
