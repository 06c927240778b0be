"""Compare methods on the same annotations without knowing the truth, and check the contract that methods keep."""

from __future__ import annotations

from crowdprism.comparison.recommendation import Comparison, MethodRow
from crowdprism.comparison.running import USUAL_AGGREGATORS, USUAL_CLASSIFIERS, compare

__all__ = ["Comparison", "MethodRow", "USUAL_AGGREGATORS", "USUAL_CLASSIFIERS", "compare"]
