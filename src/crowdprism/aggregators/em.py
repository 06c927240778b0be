"""The one EM climb: alternate expectation and maximisation until the objective has settled."""

from __future__ import annotations

import math
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import ConvergenceWarning, InvalidParameterError
from crowdprism.progress import progress
from crowdprism.results.confusion import normalize_rows

FloatArray = NDArray[np.float64]

MAX_ITER = 100
TOLERANCE = 1e-5  # gain of the objective per annotation below which EM has settled
NEGLIGIBLE = 10.0  # a last gain below this many tolerances changes no label worth speaking of
MAX_GROUPS = 16
LEAST_IN_GROUP = 2**14  # annotations; less is not worth a thread
MAX_COUNT_BYTES = 512 * 1024**2  # of the counts of groups that are made at the same time


@dataclass(frozen=True, eq=False)
class Expectation:
    """What an expectation step gives.

    `counts` is what the M step needs, in the shape of the model's table: the expected weight of a cell's annotations on
    items of each class (n_cells, columns), or of a source's right annotations (n_sources,).
    """

    log_likelihood: float  # sum over items of the log of the summed (hard step: largest) joint probability
    counts: FloatArray
    class_totals: FloatArray  # (columns,) expected number of annotated items of each class
    class_probabilities: FloatArray | None = None  # (n_items, columns) where asked for

    @property
    def kept(self) -> FloatArray:
        assert self.class_probabilities is not None
        return self.class_probabilities

    def class_shares(self) -> FloatArray:
        """Share of each class among annotated items; uniform where no annotation counts."""
        return np.asarray(normalize_rows(self.class_totals), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Sums:
    """Running sums of a group: `counts` and `totals` as in `Expectation`, and what the compiled pass carries on."""

    counts: FloatArray
    totals: FloatArray
    carried: FloatArray  # (2,) log likelihood so far, and a factor whose log belongs to it
    pieces: list[FloatArray]  # what is kept of the items, one piece after the other

    @classmethod
    def zeros(cls, counts_shape: tuple[int, ...], columns: int) -> Self:
        return cls(np.zeros(counts_shape), np.zeros(columns), np.array([0.0, 1.0]), [])

    def expectation(self) -> Expectation:
        kept = np.concatenate(self.pieces) if self.pieces else None
        return Expectation(float(self.carried[0]) + math.log(self.carried[1]), self.counts, self.totals, kept)


M = TypeVar("M")  # parameters of a method; `penalty` is what they add to the log likelihood in the objective


class Journal(Protocol):
    """Keeps the state of climbs, so that a fit that was killed goes on where it was."""

    def begin(self, start: Any) -> tuple[Any, list[float], bool | None]:
        """Model and objective so far of the climb that begins, and whether it had settled; None if it has not ended."""

    def keep(self, model: Any, objective: list[float], settled: bool | None) -> None:
        """Keep the state after an iteration; with `settled`, the climb has ended."""


class Evidence(Protocol):
    """The annotations as a climb sees them."""

    @property
    def total_weight(self) -> float: ...

    def expect(self, model: Any, *, keep: bool) -> Expectation: ...


@dataclass(frozen=True, eq=False)
class Climb(Generic[M]):
    """Where a climb ended: the model, the objective after each iteration, whether it had settled, the last gain."""

    model: M
    objective: list[float]
    converged: bool
    max_iter: int
    tolerance: float
    total_weight: float

    def notes(self, method: str) -> tuple[str, ...]:
        """Warn, and return the message, if the objective still rose clearly at the limit of a tolerance above 0."""
        if self.converged or self.tolerance == 0 or len(self.objective) < 2:
            return ()
        gain = (self.objective[-1] - self.objective[-2]) / max(self.total_weight, 1.0)
        if gain <= NEGLIGIBLE * self.tolerance:
            return ()
        message = (
            f"{method} stopped at max_iter={self.max_iter} while its objective still rose by {gain:.1e} per annotation "
            f"(tolerance {self.tolerance:.1e}). Raise max_iter."
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
        return (message,)


def climb(
    evidence: Evidence,
    start: M,
    maximize: Callable[[M, Expectation], M],
    *,
    title: str,
    max_iter: int = MAX_ITER,
    tolerance: float = TOLERANCE,
    until: Callable[[M, M], bool] | None = None,
    last_step: bool = True,
) -> Climb[M]:
    """Alternate E and M steps until the objective gains less than `tolerance` per annotation; it never decreases.

    `maximize` is the M step: the current model and its expectation to the next model. `until` is called with the old
    and the new model; True ends the climb as settled. With `last_step`, a climb that ends at `max_iter` makes one more
    M step after its last objective.
    """
    model: Any = start
    objective, settled = list[float](), None
    journal: Journal | None = getattr(evidence, "journal", None)
    if journal is not None:
        model, objective, settled = journal.begin(start)
    weight = max(evidence.total_weight, 1.0)
    with progress(title, total=max_iter) as bar:
        bar.advance(len(objective))
        while settled is None:
            expectation = evidence.expect(model, keep=False)
            objective.append(expectation.log_likelihood + model.penalty)
            bar.advance(note=f"objective {objective[-1]:.6g}")
            if len(objective) > 1 and objective[-1] - objective[-2] < tolerance * weight:
                settled = True
            else:
                settled = False if len(objective) >= max_iter else None
                if settled is None or last_step:
                    following = maximize(model, expectation)
                    settled = True if until is not None and until(model, following) else settled
                    model = following
            if journal is not None:
                journal.keep(model, objective, settled)
    return Climb(model, objective, settled, max_iter, tolerance, weight)


def climb_from_each(
    evidence: Evidence,
    starts: Iterable[M],
    maximize: Callable[[M, Expectation], M],
    *,
    title: str,
    n_starts: int,
    **options: Any,
) -> tuple[Climb[M], list[float]]:
    """Climb from several starts; returns the highest climb, of equals the first, and the objective of each."""
    best: Climb[M] | None = None
    reached = []
    with progress(title, total=n_starts) as bar:
        for start in starts:
            run = climb(evidence, start, maximize, title=title, **options)
            reached.append(run.objective[-1])
            bar.advance(note=f"objective {reached[-1]:.6g}")
            if best is None or run.objective[-1] > best.objective[-1]:
                best = run
    assert best is not None
    return best, reached


def fixed_class_prior(wanted: Any, n_classes: int) -> FloatArray | None:
    """The class prior that EM must keep, or None where it is estimated."""
    if isinstance(wanted, str):
        if wanted == "estimate":
            return None
        if wanted == "uniform":
            return np.full(n_classes, 1.0 / n_classes)
        raise InvalidParameterError(
            f'class_prior must be "estimate", "uniform" or shares, not {wanted!r}.', parameter="class_prior"
        )
    shares = np.asarray(wanted, dtype=np.float64)
    if shares.shape != (n_classes,) or not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
        raise InvalidParameterError(
            f"class_prior must be {n_classes} shares of at least 0, one per class, not {wanted!r}.",
            parameter="class_prior",
        )
    return np.asarray(shares / shares.sum())


def n_threads() -> int:
    """Cores this process may use, or what CROWDPRISM_THREADS says."""
    wanted = os.environ.get("CROWDPRISM_THREADS")
    if wanted:
        return max(1, int(wanted))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def n_groups(n_annotations: int, n_rows: int) -> int:
    """Number of groups, by the data alone; a group has more annotations than its counts have rows."""
    return max(1, min(MAX_GROUPS, n_annotations // max(n_rows, LEAST_IN_GROUP)))


def group_bounds(item_start: NDArray[Any], n_rows: int) -> list[tuple[int, int]]:
    """First and last item of each group."""
    n_annotations = int(item_start[-1])
    cuts = np.searchsorted(item_start, np.linspace(0, n_annotations, n_groups(n_annotations, n_rows) + 1))
    cuts[0], cuts[-1] = 0, len(item_start) - 1
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def sum_groups(
    work: Callable[[int, int], Expectation],
    groups: list[tuple[int, int]],
    table_bytes: int,  # of a group's counts
) -> Expectation:
    """Sum what `work(first item, last item)` gives for each group, in their order: threads change no bit."""
    workers = min(n_threads(), len(groups), max(1, MAX_COUNT_BYTES // max(table_bytes, 1)))
    if workers == 1:
        return add_in_order(work(first, last) for first, last in groups)
    with ThreadPoolExecutor(workers, thread_name_prefix="crowdprism") as pool:
        return add_in_order(results_in_order(pool, work, groups, ahead=workers + 1))


def results_in_order(
    pool: ThreadPoolExecutor,
    work: Callable[[int, int], Expectation],
    groups: list[tuple[int, int]],
    *,
    ahead: int,  # groups that are in work or waiting at the same time: each may hold a large table
) -> Iterator[Expectation]:
    """What `work` gives for each group, in order."""
    waiting: deque[Future[Expectation]] = deque()
    for group in groups:
        if len(waiting) == ahead:
            yield waiting.popleft().result()
        waiting.append(pool.submit(work, *group))
    while waiting:
        yield waiting.popleft().result()


def add_in_order(parts: Iterable[Expectation]) -> Expectation:
    whole: Expectation | None = None
    kept: list[FloatArray] = []
    for part in parts:
        if part.class_probabilities is not None:
            kept.append(part.class_probabilities)
        if whole is None:
            whole = part
            continue
        counts = np.add(whole.counts, part.counts, out=whole.counts)
        log_likelihood = whole.log_likelihood + part.log_likelihood
        whole = Expectation(log_likelihood, counts, whole.class_totals + part.class_totals)
    assert whole is not None
    return replace(whole, class_probabilities=np.concatenate(kept)) if kept else whole
