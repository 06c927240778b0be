"""What every aggregator shares: parameters as scikit-learn expects them, `fit`, one `result_`."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from crowdprism.aggregators.cells import cell_totals
from crowdprism.annotations import Annotations, as_annotations
from crowdprism.annotations.names import NameArray
from crowdprism.errors import InvalidParameterError, NotFittedError
from crowdprism.results import FitResult


class Aggregator(ABC):
    """Annotations in, class probabilities of the same items out; no features.

    A method is a subclass with a `name`, a constructor that only stores, and `_aggregate`. `clone` of
    scikit-learn works, although scikit-learn is not imported (it would triple the start-up time).
    """

    name: ClassVar[str]
    _result: FitResult | None = None

    @abstractmethod
    def _aggregate(self, annotations: Annotations) -> FitResult:
        """Learn from annotations that were checked."""

    def fit(self, annotations: Any, y: None = None) -> Self:
        """Learn from `Annotations`, or from an items x annotators array with -1 for none."""
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

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as scikit-learn's `get_params`."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as scikit-learn's `set_params`."""
        known = self._parameter_names()
        for name, value in params.items():
            if name not in known:
                raise InvalidParameterError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}."
                )
            setattr(self, name, value)
        return self

    def _build_result(self, annotations: Annotations, class_probabilities: np.ndarray, **parts: Any) -> FitResult:
        counts = cell_totals(annotations.annotator, None, annotations.n_annotators)
        return FitResult(
            method=self.name,
            parameters=self.get_params(),
            items=annotations.items,
            annotators=annotations.annotators,
            classes=annotations.classes,
            class_probabilities=class_probabilities,
            labels_per_annotator=counts.astype(np.int64),
            **parts,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self._result is not None

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name].default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


class IncrementalAggregator(Aggregator):
    """An aggregator that takes further annotations without starting anew.

    A method gives `_resume`, which learns from all annotations, starting from an earlier result.
    """

    _seen: Annotations | None = None

    def fit(self, annotations: Any, y: None = None) -> Self:
        """Learn from `Annotations`, or from an items x annotators array with -1 for none; forgets earlier ones."""
        self._seen = as_annotations(annotations)
        self._result = self._aggregate(self._seen)
        return self

    def partial_fit(self, annotations: Any, y: None = None) -> Self:
        """Add annotations to those seen before and go on from what was learned.

        Names say what is the same item, annotator or class. Run to convergence, the outcome is that of a fit to all
        annotations at once, within the tolerance. The first call is a fit.
        """
        more = as_annotations(annotations)
        if self._seen is None or self._result is None:
            return self.fit(more)
        together = self._seen.concat(more)
        self._result = self._resume(together, self._result)
        self._seen = together
        return self

    def _resume(self, annotations: Annotations, previous: FitResult) -> FitResult:
        """Learn from all annotations, starting from an earlier result; by default from scratch."""
        return self._aggregate(annotations)
