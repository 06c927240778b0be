"""What every aggregator shares: parameters as scikit-learn expects them, `fit`, one `result_`."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.sources import OutOfCore, sum_weights
from crowdprism.annotations import Annotations, as_annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.annotations.names import NameArray
from crowdprism.errors import CrowdprismWarning, NotFittedError
from crowdprism.parameters import FLAG, Allowed, Parameterized, Real, Whole
from crowdprism.results import FitResult

NO_ROOM = "Full confusion matrices would not fit in memory; skills tell annotators apart."
ALL_KNOWN = (
    "Every annotated item has gold, so the labels are the gold and tell nothing of the method. Fit without gold "
    "(use_gold=False) to compare its labels with it."
)


@dataclass(eq=False, repr=False)
class Aggregator(Parameterized, ABC):
    """Annotations in, class probabilities of the same items out; no features.

    A method is a dataclass with a `name`, its parameters as fields, allowed values (`_allowed`) and `_aggregate`.
    `clone` of scikit-learn works, although scikit-learn is not imported (it would triple the start-up time).

    Parameters
    ----------
    use_gold
        Whether the annotations' gold is used, in every method: items with gold get their known class, and annotators
        are judged by it.
    """

    name: ClassVar[str]
    _allowed: ClassVar[Mapping[str, Allowed]] = {  # of names that several methods have
        "use_gold": FLAG,
        "max_iter": Whole(1),
        "iterations": Whole(1),
        "n_restarts": Whole(1),
        "tolerance": Real(0),
        "prior_strength": Real(0),
        "least_shared": Real(0),
    }
    use_gold: bool = field(default=True, kw_only=True)
    _result: FitResult | None = field(default=None, init=False)

    @abstractmethod
    def _aggregate(self, annotations: Annotations) -> FitResult:
        """Learn from annotations that were checked."""

    def fit(self, annotations: Any, y: None = None) -> Self:
        """Learn from `Annotations`, or from an items x annotators array with -1 for none."""
        self.check_params()
        self._result = self._learn(as_annotations(annotations), self._aggregate)
        return self

    def fit_out_of_core(self, data: OutOfCore) -> Self:
        """Learn from annotations that are not in memory; `crowdprism.shards.aggregate_shards` calls it."""
        self.check_params()
        self._result = self._aggregate(cast(Annotations, data))  # sizes and names are the same
        return self

    def _learn(self, annotations: Annotations, learn: Callable[[Annotations], FitResult]) -> FitResult:
        """Learn with or without the gold; the result has the annotations with it, to be judged by it."""
        if annotations.gold is None:
            return learn(annotations)
        result = learn(annotations if self.use_gold else annotations.with_gold(None))
        notes = result.warnings
        if result.n_known and not np.ma.getmaskarray(annotations.gold)[annotations.labels_per_item > 0].any():
            warnings.warn(ALL_KNOWN, CrowdprismWarning, stacklevel=3)
            notes = (*notes, ALL_KNOWN)
        return replace(result, annotations=annotations, warnings=notes)

    def fit_predict(self, annotations: Any, y: None = None) -> NameArray:
        """Learn, and return the label of each item in the order of `result_.items`."""
        return self.fit(annotations).result_.labels()

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
        if isinstance(annotations, OutOfCore):
            counts, shown = annotations.labels_per_annotator, annotations.sample
            parts = {"annotations": None, **parts, "warnings": (*parts.get("warnings", ()), annotations.note)}
            parts["known_items"] = None if shown.gold is None else np.flatnonzero(~np.ma.getmaskarray(shown.gold))
        else:
            counts, shown = sum_weights(annotations.annotator, None, annotations.n_annotators), annotations
            parts = {"annotations": annotations, **parts}
        return FitResult(
            method=self.name,
            parameters=self.get_params(),
            items=shown.items,
            annotators=annotations.annotators,
            classes=annotations.classes,
            class_probabilities=with_gold_classes(class_probabilities, shown),
            labels_per_annotator=counts.astype(np.int64),
            **parts,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self._result is not None


class IncrementalAggregator(Aggregator):
    """An aggregator that takes further annotations without starting anew; `fit` forgets earlier ones."""

    def partial_fit(self, annotations: Any, y: None = None) -> Self:
        """Add annotations to those seen before and go on from what was learned.

        Names say what is the same item, annotator or class. Run to convergence, the outcome is that of a fit to all
        annotations at once, within the tolerance. The first call is a fit.
        """
        more = as_annotations(annotations)
        previous = self._result
        if previous is None or previous.annotations is None:
            return self.fit(more)
        self.check_params()
        self._result = self._learn(previous.annotations.concat(more), lambda shown: self._resume(shown, previous))
        return self

    def _resume(self, annotations: Annotations, previous: FitResult) -> FitResult:
        """Learn from all annotations, starting from an earlier result; by default from scratch."""
        return self._aggregate(annotations)


def with_gold_classes(class_probabilities: NDArray[Any], annotations: Annotations) -> NDArray[Any]:
    """Give items with gold their known class."""
    gold = known_classes(annotations)
    if gold is None:
        return class_probabilities
    one_hot = gold[:, None] == np.arange(annotations.n_classes)
    return np.where(gold[:, None] >= 0, one_hot.astype(class_probabilities.dtype), class_probabilities)
