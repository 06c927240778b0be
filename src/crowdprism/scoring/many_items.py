"""Rankings of more items than a dense covariance can have: sparse information, solved by conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.em import FloatArray
from crowdprism.seeding import stream

PROBES = 64  # random vectors by which variances are estimated; their errors are then a few per cent
TOLERANCE, PROBE_TOLERANCE = 1e-8, 1e-3  # of conjugate gradients, relative; probes need no more


@dataclass(frozen=True, eq=False)
class SparseInformation:
    """Information about theta: a sparse table, less the squares of what each judge's reliability shares with theta."""

    table: Any  # sparse (n, n)
    shared: Any = None  # sparse (n, n_judges)

    def __add__(self, more: Any) -> SparseInformation:
        return SparseInformation((self.table + more).tocsr(), self.shared)

    def at(self, places: NDArray[Any]) -> SparseInformation:
        """The information about some of the parameters."""
        return SparseInformation(self.table[places][:, places], None if self.shared is None else self.shared[places])

    def solve(self, right: FloatArray, tolerance: float = TOLERANCE) -> FloatArray:
        """The x for which information @ x = right."""
        from scipy.sparse.linalg import LinearOperator, cg

        def product(x: FloatArray) -> FloatArray:
            whole = self.table @ x
            return np.asarray(whole if self.shared is None else whole - self.shared @ (self.shared.T @ x))

        shape, diagonal = self.table.shape, np.maximum(self.table.diagonal(), np.finfo(float).tiny)
        scaled = LinearOperator(shape, matvec=lambda x: x / diagonal)
        found, _ = cg(LinearOperator(shape, matvec=product), right, rtol=tolerance, maxiter=len(right), M=scaled)
        return np.asarray(found)

    def variances(self, n_scores: int) -> FloatArray:
        """(n,) estimated diagonal of the inverse by random signs, the mean of the first `n_scores` held at 0."""
        random = stream(0, "probes")
        known = 1.0 / np.maximum(self.table.diagonal(), np.finfo(float).tiny)
        total = np.zeros(len(known))
        for _ in range(PROBES):
            signs = random.choice([-1.0, 1.0], len(known))
            probe = signs.copy()
            probe[:n_scores] -= probe[:n_scores].mean()
            found = self.solve(probe, PROBE_TOLERANCE)
            found[:n_scores] -= found[:n_scores].mean()
            total += signs * (found - known * signs)
        found = np.maximum(known + total / PROBES, known / 2)
        for place in range(n_scores, len(known)):
            found[place] = self.solve(np.eye(1, len(known), place)[0])[place]
        return np.asarray(found)


def laplacian(left: NDArray[Any], right: NDArray[Any], weight: FloatArray, size: int) -> Any:
    """Sparse (size, size) sum of weight * (e_left - e_right) (e_left - e_right)' over pairs."""
    from scipy.sparse import coo_array

    ends = np.concatenate([left, right, left, right]), np.concatenate([right, left, left, right])
    return coo_array((np.concatenate([-weight, -weight, weight, weight]), ends), shape=(size, size))


def sparse_quadratic(
    left: NDArray[np.int64],  # (n_pairs,)
    right: NDArray[np.int64],
    by_d: FloatArray,  # (n_pairs,) second derivatives by d
    edges: FloatArray,  # (n_items + 1, 2) by score and left place on the one side, left place and tie on the other
    by_tie: float,
) -> SparseInformation:
    """The sum over pairs of second derivatives as `bradley_terry.quadratic` has it."""
    from scipy.sparse import block_array, coo_array

    size = len(edges) - 1
    inner = laplacian(left, right, by_d, size)
    corner = np.array([edges[-1], [edges[-1, 1], by_tie]])
    outer = coo_array(edges[:-1])
    return SparseInformation(block_array([[inner, outer], [outer.T, coo_array(corner)]], format="csr"))
