"""Several choices per item: a classifier with one output per choice."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations.choice_sets import MultiLabelAnnotations
from crowdprism.annotations.names import NameArray
from crowdprism.classifiers import make_classifier
from crowdprism.errors import NotFittedError


class ChoiceClassifier:
    """Learn which choices apply to new items: any classifier, fitted to the yes/no annotations of each choice.

    Parameters
    ----------
    method, params
        As in `make_classifier`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> chosen = [[name for name, value in zip("pq", row) if value > 0] for row in X for _ in range(2)]
    >>> answers = MultiLabelAnnotations.from_triplets(np.repeat(np.arange(40), 2), ["ann", "bob"] * 40, chosen)
    >>> ChoiceClassifier("geocrowdnet", epochs=1, random_state=0).fit(X, answers).predict_proba(X).shape
    (40, 2)
    """

    def __init__(self, method: str = "geocrowdnet", **params: Any) -> None:
        self.method = method
        self.params = params

    def fit(self, X: Any, y: MultiLabelAnnotations) -> Self:
        """Learn from features of the items, in the order of `y.sets.items`, and answers."""
        self.classifiers_ = {
            choice: make_classifier(self.method, **self.params).fit(X, problem) for choice, problem in y
        }
        self.choices_: NameArray = y.choices
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(n_items, n_choices) probability that each choice applies."""
        if not hasattr(self, "choices_"):
            raise NotFittedError("This ChoiceClassifier is not fitted yet. Call fit(X, answers) first.")
        return np.stack([one.predict_proba(X)[:, 1] for one in self.classifiers_.values()], axis=1)

    def predict(self, X: Any) -> list[tuple[Any, ...]]:
        """The choices that more likely apply than not, per item."""
        probabilities = self.predict_proba(X)  # raises first where the classifier is not fitted
        return [tuple(self.choices_[row].tolist()) for row in probabilities > 0.5]
