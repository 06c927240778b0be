"""Credible intervals for confusion entries and annotator accuracy, from Dirichlet posteriors of confusion rows.

The posteriors hold expected counts of true classes, so intervals say how much an annotator's own number of labels
leaves open; doubt about the items' classes themselves enters only through these counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError

FloatArray = NDArray[np.float64]


def beta_interval(first: Any, second: Any, *, level: float = 0.95) -> FloatArray:
    """Central interval of Beta(first, second): `(..., 2)`, lower and upper end.

    A parameter of 0 is certainty: Beta(0, b) is 0 and Beta(a, 0) is 1.

    Examples
    --------
    >>> beta_interval(1.0, 1.0, level=0.9).round(2).tolist()
    [0.05, 0.95]
    """
    from scipy.special import betaincinv

    require_level(level)
    first, second = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    open_ended = (first > 0) & (second > 0)
    safe_first, safe_second = (np.where(open_ended, part, 1.0)[..., None] for part in (first, second))
    ends = betaincinv(safe_first, safe_second, tails)
    certain = np.where(first > 0, 1.0, 0.0)[..., None]
    return np.where(open_ended[..., None], ends, certain)


def confusion_interval(posterior: NDArray[Any], *, level: float = 0.95) -> FloatArray:
    """Interval of every confusion entry: `(n_annotators, true class, given label, 2)`.

    Parameters
    ----------
    posterior
        (n_annotators, true class, given label) Dirichlet parameters of the rows; an entry of a Dirichlet row has a
        Beta distribution.

    Examples
    --------
    >>> confusion_interval(np.array([[[8.0, 2.0], [1.0, 9.0]]]))[0, 0, 0].round(2).tolist()
    [0.52, 0.97]
    """
    posterior = np.asarray(posterior, dtype=np.float64)
    rest = posterior.sum(axis=-1, keepdims=True) - posterior
    return beta_interval(posterior, np.maximum(rest, 0.0), level=level)


def accuracy_interval(posterior: NDArray[Any], class_prior: NDArray[Any], *, level: float = 0.95) -> FloatArray:
    """Interval of each annotator's probability of a right label: `(n_annotators, 2)`.

    Accuracy is the sum of independent Beta variables (the diagonal) weighted by the class prior; the interval is
    that of the Beta distribution with the same mean and variance.

    Examples
    --------
    >>> accuracy_interval(np.array([[[90.0, 10.0], [10.0, 90.0]]]), np.array([0.5, 0.5])).round(2).tolist()
    [[0.86, 0.94]]
    """
    posterior = np.asarray(posterior, dtype=np.float64)
    totals = posterior.sum(axis=2)
    known = totals > 0  # a row without any count tells nothing: as if uniform
    diagonal = np.einsum("mkk->mk", posterior)
    share = np.where(known, diagonal / np.where(known, totals, 1.0), 0.5)
    spread = np.where(known, share * (1 - share) / (totals + 1), 1 / 12)
    mean = share @ class_prior
    variance = spread @ np.square(class_prior)
    doubtful = variance > 0
    size = np.where(doubtful, mean * (1 - mean) / np.where(doubtful, variance, 1.0) - 1, 1.0)
    ends = beta_interval(mean * size, (1 - mean) * size, level=level)
    return np.where(doubtful[:, None], ends, mean[:, None])


def require_level(level: float) -> None:
    """Check that a level is a probability strictly between 0 and 1."""
    if not 0 < level < 1:
        raise InvalidParameterError(f"level must lie between 0 and 1, not {level}.")
