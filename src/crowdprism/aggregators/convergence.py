"""When a fit that ended at its iteration limit deserves a warning."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from crowdprism.errors import ConvergenceWarning, InvalidParameterError

NEGLIGIBLE = 10.0  # a last gain below this many tolerances changes no label worth speaking of


def unsettled(
    objective: Sequence[float], *, max_iter: int, tolerance: float, total_weight: float, method: str
) -> tuple[str, ...]:
    """Warn, and return the message, if the objective was still rising clearly at the limit.

    With `tolerance=0` the user asked for exactly `max_iter` iterations, so nothing is said.
    """
    if tolerance == 0 or len(objective) < 2:
        return ()
    gain = (objective[-1] - objective[-2]) / max(total_weight, 1.0)
    if gain <= NEGLIGIBLE * tolerance:
        return ()
    message = (
        f"{method} stopped at max_iter={max_iter} while its objective still rose by {gain:.1e} per annotation "
        f"(tolerance {tolerance:.1e}). Raise max_iter."
    )
    warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return (message,)


def require_iterations(max_iter: int, tolerance: float) -> None:
    """Check the two parameters that every iterated method has."""
    if max_iter < 1:
        raise InvalidParameterError(f"max_iter must be at least 1, not {max_iter}.")
    if not tolerance >= 0:
        raise InvalidParameterError(f"tolerance must be at least 0, not {tolerance}.")
