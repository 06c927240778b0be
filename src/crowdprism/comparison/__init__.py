"""Many methods on the same annotations, ranked without knowing the truth."""

from __future__ import annotations

from crowdprism.comparison.comparison_records import Comparison, MethodRow
from crowdprism.comparison.running import USUAL_AGGREGATORS, USUAL_CLASSIFIERS, compare

__all__ = ["Comparison", "MethodRow", "USUAL_AGGREGATORS", "USUAL_CLASSIFIERS", "compare"]
