"""Scores of items where answers are not classes: comparisons of two items, and ratings on a continuous scale."""

from __future__ import annotations

from crowdprism.scoring.comparisons import Comparisons
from crowdprism.scoring.ranking import Ranking, rank

__all__ = ["Comparisons", "Ranking", "rank"]
