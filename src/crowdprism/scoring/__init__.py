"""Scores of items where answers are not classes: comparisons of two items, and ratings on a continuous scale."""

from crowdprism.scoring.comparisons import Comparisons
from crowdprism.scoring.gaussian_ratings import RatingResult, rate
from crowdprism.scoring.ranking import Ranking, rank
from crowdprism.scoring.rating_regression import RatingRegression

__all__ = ["Comparisons", "Ranking", "RatingRegression", "RatingResult", "rank", "rate"]
