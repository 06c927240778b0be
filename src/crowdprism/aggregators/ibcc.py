"""IBCC: Dawid-Skene with full uncertainty about confusion matrices, by variational Bayes."""

from __future__ import annotations

from typing import ClassVar

from crowdprism.aggregators.ebcc import EBCC, MAX_ITER, TOLERANCE
from crowdprism.annotations import Annotations


class IBCC(EBCC):
    """Confusion matrices with Dirichlet priors on the diagonal, by variational Bayes (Kim and Ghahramani 2012).

    Parameters
    ----------
    max_iter, tolerance
        The fit ends after `max_iter` iterations, or when the lower bound gains less than `tolerance` per annotation.
    right_prior, wrong_prior
        Dirichlet pseudo-counts of confusion rows: on the true class, and on each other label.
    class_prior_count
        Pseudo-count of each class.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]])
    >>> IBCC().fit(a).result_.labels().tolist()
    [0, 1, 0, 1]
    """

    name: ClassVar[str] = "ibcc"
    # IBCC is EBCC without subtypes; what only subtypes need is fixed and not a parameter of the constructor.
    n_subtypes = 1
    n_restarts = 1
    subtype_prior_count = 0.1
    random_state = 0

    def __init__(
        self,
        max_iter: int = MAX_ITER,
        tolerance: float = TOLERANCE,
        right_prior: float = 4.0,
        wrong_prior: float = 1.0,
        class_prior_count: float = 1.0,
    ) -> None:
        self.max_iter = max_iter
        self.tolerance = tolerance
        self.right_prior = right_prior
        self.wrong_prior = wrong_prior
        self.class_prior_count = class_prior_count


__all__ = ["IBCC", "Annotations"]
