"""Results: what a method learned, saved and loaded; confusion matrices and their intervals."""

from crowdprism.results.fit_result import FitResult

__all__ = ["FitResult"]
