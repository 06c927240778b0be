"""What every aggregator shares: parameters as scikit-learn expects them, `fit`, one `result_`, limits of memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations, as_annotations
from crowdprism.annotations.names import NameArray
from crowdprism.errors import NotFittedError, UnsuitableDataError
from crowdprism.parameters import Parameterized
from crowdprism.results import FitResult, confusion

PIECE = 2**18  # annotations counted at once
NO_ROOM = "Full confusion matrices would not fit in memory; skills tell annotators apart."


class Aggregator(Parameterized, ABC):
    """Annotations in, class probabilities of the same items out; no features.

    A method is a subclass with a `name`, a constructor that only stores, allowed parameters (`_allowed`) and
    `_aggregate`. `clone` of scikit-learn works, although scikit-learn is not imported (it would triple the start-up
    time).
    """

    name: ClassVar[str]
    _result: FitResult | None = None

    @abstractmethod
    def _aggregate(self, annotations: Annotations) -> FitResult:
        """Learn from annotations that were checked."""

    def fit(self, annotations: Any, y: None = None) -> Self:
        """Learn from `Annotations`, or from an items x annotators array with -1 for none."""
        self.check_params()
        self._result = self._aggregate(as_annotations(annotations))
        return self

    @property
    def result_(self) -> FitResult:
        """All that was learned."""
        if self._result is None:
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet. Call fit(annotations) first.")
        return self._result

    @property
    def classes_(self) -> NameArray:
        """Class names, in the order of the probabilities' columns."""
        return self.result_.classes

    def _build_result(self, annotations: Annotations, class_probabilities: NDArray[Any], **parts: Any) -> FitResult:
        counts = sum_weights(annotations.annotator, None, annotations.n_annotators)
        return FitResult(
            method=self.name,
            parameters=self.get_params(),
            items=annotations.items,
            annotators=annotations.annotators,
            classes=annotations.classes,
            class_probabilities=class_probabilities,
            labels_per_annotator=counts.astype(np.int64),
            annotations=annotations,
            **parts,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self._result is not None


class IncrementalAggregator(Aggregator):
    """An aggregator that takes further annotations without starting anew.

    A method gives `_resume`, which learns from all annotations, starting from an earlier result.
    """

    _seen: Annotations | None = None

    def fit(self, annotations: Any, y: None = None) -> Self:
        """Learn from `Annotations`, or from an items x annotators array with -1 for none; forgets earlier ones."""
        seen = as_annotations(annotations)
        super().fit(seen)
        self._seen = seen
        return self

    def partial_fit(self, annotations: Any, y: None = None) -> Self:
        """Add annotations to those seen before and go on from what was learned.

        Names say what is the same item, annotator or class. Run to convergence, the outcome is that of a fit to all
        annotations at once, within the tolerance. The first call is a fit.
        """
        more = as_annotations(annotations)
        if self._seen is None or self._result is None:
            return self.fit(more)
        self.check_params()
        together = self._seen.concat(more)
        self._result = self._resume(together, self._result)
        self._seen = together
        return self

    def _resume(self, annotations: Annotations, previous: FitResult) -> FitResult:
        """Learn from all annotations, starting from an earlier result; by default from scratch."""
        return self._aggregate(annotations)


def sum_weights(place: NDArray[Any], weight: NDArray[Any] | None, n_places: int) -> NDArray[np.float64]:
    """Sum of weights per place; in pieces, because NumPy counts copies of eight bytes per number."""
    totals = np.zeros(n_places)
    size = max(PIECE, n_places)
    for first in range(0, len(place), size):
        piece = slice(first, first + size)
        totals += np.bincount(place[piece], weights=None if weight is None else weight[piece], minlength=n_places)
    return totals


def require_room(annotations: Annotations, *, n_rows: int, columns: int, method: str) -> None:
    """Refuse tables that would not fit in memory, naming a method that can do the work."""
    needed = 8 * columns * max(n_rows, annotations.n_items)
    if needed > confusion.MAX_TABLE_BYTES:
        raise UnsuitableDataError(
            f"{method} would need tables of {needed / 1024**3:.1f} GiB for {n_rows} (annotator, label) pairs and "
            f"{annotations.n_items} items with {columns} numbers each; the limit is "
            f"{confusion.MAX_TABLE_BYTES / 1024**3:.0f} GiB. Use one-coin, which keeps one number per annotator, "
            "or merge rare classes."
        )
