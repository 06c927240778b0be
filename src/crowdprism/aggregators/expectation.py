"""The expectation step shared by the EM methods: class probabilities of items, and what they mean for each cell.

Two ways give the same numbers: scipy's sparse products for small data (nothing to load or compile) and compiled,
threaded kernels for large data. Which one runs depends on the size of the data alone.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.cells import Cells, FloatArray
from crowdprism.aggregators.expectation_records import FLOOR, TIE, Expectation

# The sparse products need about 4 ns per annotation, column and pass: 0.4 s at this many. Linking the kernels takes
# a tenth of that, but making their code, once per machine, takes four seconds: small data should not wait for it.
COMPILE_ABOVE = 100_000_000
USUAL_PASSES = 30


class ExpectationStep:
    """Repeated expectation steps over the same annotations.

    Parameters
    ----------
    cells
        The annotations.
    columns
        Number of latent classes: `n_classes`, or more where a class has subtypes.
    passes
        How many steps the method expects to take, which decides together with the size whether compiling pays.
    compiled
        Use the kernels (True), sparse products (False), or decide by size (None).

    Examples
    --------
    >>> from crowdprism.aggregators.cells import cells_of
    >>> from crowdprism.annotations import Annotations
    >>> cells = cells_of(Annotations.from_dense([[0, 0], [1, -1]]))
    >>> step = ExpectationStep(cells)
    >>> right = np.where(cells.label_of[:, None] == np.arange(2), 0.9, 0.1)
    >>> step(right, np.array([0.5, 0.5])).class_probabilities.round(3).tolist()
    [[0.988, 0.012], [0.1, 0.9]]
    """

    def __init__(
        self,
        cells: Cells,
        *,
        columns: int | None = None,
        passes: int = USUAL_PASSES,
        compiled: bool | None = None,
    ) -> None:
        self.cells = cells
        self.columns = columns or cells.n_classes
        work = len(cells.cell) * self.columns * passes
        self.compiled = work > COMPILE_ABOVE if compiled is None else compiled

    def __call__(
        self, likelihood: FloatArray, prior: FloatArray, *, hard: bool = False, keep: bool = True
    ) -> Expectation:
        """Class probabilities from the likelihood of each cell.

        Parameters
        ----------
        likelihood
            (n_cells, columns) probability of the cell's label, given its annotator and each class.
        prior
            (columns,) probability of each class.
        hard
            Give all probability to the most probable class, in equal shares where several are.
        keep
            Whether the class probabilities are wanted; without them large data need less memory.
        """
        if self.compiled:
            from crowdprism.aggregators import kernels

            return kernels.expect(self.cells, likelihood, prior, hard=hard, keep=keep)
        with np.errstate(divide="ignore"):
            scores = self._table @ np.log(np.maximum(likelihood, FLOOR)) + np.log(prior)
        if not hard:
            return self._expectation(*soft_classes(scores))
        annotated = self.annotated.astype(bool)
        probabilities = np.broadcast_to(prior, scores.shape).copy()  # items without annotations keep the prior
        probabilities[annotated], log_likelihood = hard_classes(scores[annotated])
        return self._expectation(probabilities, log_likelihood)

    def count(self, class_probabilities: FloatArray) -> Expectation:
        """The counts that given class probabilities imply, with log likelihood 0."""
        if self.compiled:
            from crowdprism.aggregators import kernels

            return kernels.count(self.cells, class_probabilities)
        return self._expectation(class_probabilities, 0.0)

    def count_votes(self) -> Expectation:
        """The counts if class probabilities were the items' shares of votes."""
        if self.compiled:
            from crowdprism.aggregators import kernels

            return kernels.count_votes(self.cells)
        return self.count(vote_shares_of(self.cells))

    def _expectation(self, probabilities: FloatArray, log_likelihood: float) -> Expectation:
        counts = np.asarray(self._table.T @ probabilities)
        return Expectation(log_likelihood, counts, self.annotated @ probabilities, probabilities)

    @cached_property
    def annotated(self) -> FloatArray:
        """(n_items,) 1 where the item has an annotation that counts, else 0."""
        return annotated_items(self.cells).astype(np.float64)

    @cached_property
    def _table(self) -> Any:
        """Items x cells: the weight of each annotation."""
        from scipy.sparse import csr_array

        cells = self.cells
        weight = np.ones(len(cells.cell)) if cells.weight is None else cells.weight.astype(np.float64)
        return csr_array((weight, cells.cell.astype(np.int64), cells.item_start), shape=(cells.n_items, cells.n_cells))


def annotated_items(cells: Cells) -> NDArray[np.bool_]:
    """(n_items,) whether the item has an annotation of weight above 0."""
    if cells.weight is None:
        return np.diff(cells.item_start) > 0
    counting = np.concatenate([[0], np.cumsum(cells.weight > 0)])
    return counting[cells.item_start[1:]] > counting[cells.item_start[:-1]]


def vote_shares_of(cells: Cells) -> FloatArray:
    """(n_items, n_classes) share of each class in the item's annotations; uniform for items without any."""
    item = np.repeat(np.arange(cells.n_items), np.diff(cells.item_start))
    place = item * cells.n_classes + cells.label_of[cells.cell]
    votes = np.bincount(place, weights=cells.weight, minlength=cells.n_items * cells.n_classes)
    votes = votes.reshape(cells.n_items, cells.n_classes).astype(np.float64)
    sums = votes.sum(axis=1, keepdims=True)
    return np.where(sums > 0, votes / np.where(sums > 0, sums, 1.0), 1.0 / cells.n_classes)


def soft_classes(scores: FloatArray) -> tuple[FloatArray, float]:
    """Class probabilities from log joint probabilities, and the sum of their log normalisers."""
    top = scores.max(axis=1, keepdims=True)
    joint = np.exp(scores - top)
    sums = joint.sum(axis=1, keepdims=True)
    return joint / sums, float(top.sum() + np.log(sums).sum())


def hard_classes(scores: FloatArray) -> tuple[FloatArray, float]:
    """All probability on the best class (equal shares for equal ones), and the sum of the best log joints."""
    top = scores.max(axis=1, keepdims=True)
    best = scores >= top - TIE
    return best / best.sum(axis=1, keepdims=True), float(top.sum())
