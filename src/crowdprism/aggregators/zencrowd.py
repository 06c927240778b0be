"""ZenCrowd: one reliability per annotator under equally likely classes."""

from __future__ import annotations

from typing import ClassVar

from crowdprism.aggregators.confusion_em import MAX_ITER, TOLERANCE
from crowdprism.aggregators.one_coin import OneCoin
from crowdprism.annotations import Annotations

INITIAL_RELIABILITY = 0.8


class ZenCrowd(OneCoin):
    """Estimate one reliability per annotator by EM, all classes equally likely (Demartini et al. 2012).

    One-coin with a uniform class prior, no shrinkage, and the same reliability of 0.8 for all at the start.

    Parameters
    ----------
    max_iter, tolerance
        EM ends after `max_iter` iterations, or when the log likelihood gains less than `tolerance` per annotation.
    initial_reliability
        Where EM starts.

    Examples
    --------
    >>> ZenCrowd().fit(Annotations.from_dense([[0, 0, 1], [1, 1, 0]])).result_.labels().tolist()
    [0, 1]
    """

    name: ClassVar[str] = "zencrowd"
    # Fixed by the method, so not parameters of the constructor.
    prior_strength = 0.0
    class_prior = "uniform"

    def __init__(
        self,
        max_iter: int = MAX_ITER,
        tolerance: float = TOLERANCE,
        initial_reliability: float = INITIAL_RELIABILITY,
    ) -> None:
        self.max_iter = max_iter
        self.tolerance = tolerance
        self.initial_reliability = initial_reliability

    @property
    def initial_accuracy(self) -> float:  # type: ignore[override]
        """Where EM starts, under the name that `OneCoin` knows."""
        return self.initial_reliability


__all__ = ["Annotations", "ZenCrowd"]
