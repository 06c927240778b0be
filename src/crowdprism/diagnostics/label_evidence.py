"""What an annotator's labels say, judged by the others: the base of all findings about annotators.

An item's class probabilities contain the annotator's own label. To judge that label they are taken apart again:
dividing by the annotator's confusion leaves what features, prior and the other annotators say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import same_names
from crowdprism.errors import InvalidParameterError, UnsuitableDataError
from crowdprism.results import FitResult

FloatArray = NDArray[np.float64]

FLOOR = 1e-10  # class probabilities of exactly zero cannot be taken apart
# Confusions are kept further from zero than class probabilities: where both were cut off, sure items must stay sure.
CONFUSION_FLOOR = 1e-3
PSEUDO_COUNT = 0.5  # Jeffreys' prior for how often each label is given
ACCURACY_GRID = np.linspace(0.0025, 0.9975, 200)
CHANCE_BAND = 0.15  # an accuracy within this share of the way from chance to perfection counts as chance


def require_same_names(result: FitResult, annotations: Annotations) -> None:
    """Stop where result and annotations do not speak of the same items, annotators and classes."""
    for role in ("items", "annotators", "classes"):
        ours, theirs = getattr(result, role), getattr(annotations, role)
        if len(ours) != len(theirs) or not same_names(ours, theirs):
            raise InvalidParameterError(
                f"The result has {len(ours)} {role} and the annotations have {len(theirs)}, or their names or order "
                f"differ. Pass the annotations that the result was fitted on."
            )


def require_confusions(result: FitResult, purpose: str) -> FloatArray:
    """The result's confusions, or an error that says which methods have them."""
    if result.confusions is None:
        raise UnsuitableDataError(
            f"{purpose} needs confusion matrices and {result.method} gives none. "
            "Fit a method that does, such as dawid-skene."
        )
    return np.asarray(result.confusions, dtype=float)


def class_probabilities_without(result: FitResult, annotations: Annotations) -> FloatArray:
    """Class probabilities of each annotation's item without that annotation: (n_annotations, n_classes).

    Where the result has no confusions nothing can be taken out and the item's probabilities stand as they are.

    Examples
    --------
    >>> from crowdprism.aggregators import make_aggregator
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0]])
    >>> without = class_probabilities_without(make_aggregator("dawid-skene").fit(a).result_, a)
    >>> without.shape, bool(without[2, 0] > 0.5)
    ((9, 2), True)
    """
    require_same_names(result, annotations)
    log = np.log(np.maximum(result.class_probabilities, FLOOR))[annotations.item]
    if result.confusions is not None:
        taken = np.maximum(result.confusions, CONFUSION_FLOOR)[annotations.annotator, :, annotations.label]
        power = 1.0 if annotations.weight is None else annotations.weight[:, None]
        log = log - power * np.log(taken)
    log -= log.max(axis=1, keepdims=True)
    shares: FloatArray = np.exp(log)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class LabelEvidence:
    """How well three explanations fit each annotator's labels, as log marginal likelihoods.

    Attributes
    ----------
    careless
        (n_annotators,) labels that do not depend on the true class (a confusion of rank one), or hardly do.
    steady
        (n_annotators,) one accuracy for all classes, not near chance, errors spread evenly.
    free
        (n_annotators,) any confusion matrix.
    accuracy
        (n_annotators, 200) posterior over `ACCURACY_GRID` under the steady explanation.
    counts
        (n_annotators, true class, given label) expected counts.
    """

    careless: FloatArray
    steady: FloatArray
    free: FloatArray
    accuracy: FloatArray
    counts: FloatArray

    @property
    def spammer_probability(self) -> FloatArray:
        """(n_annotators,) posterior probability of `careless`, all explanations being equally likely at first."""
        informative = np.logaddexp(self.steady, self.free) - np.log(2.0)
        odds: FloatArray = 1.0 / (1.0 + np.exp(np.clip(informative - self.careless, -700, 700)))
        return odds

    def accuracy_below(self, level: float) -> FloatArray:
        """(n_annotators,) posterior probability that the accuracy lies below a level."""
        below: FloatArray = self.accuracy[:, level > ACCURACY_GRID].sum(axis=1)
        return below

    @property
    def mean_accuracy(self) -> FloatArray:
        """(n_annotators,) posterior mean of the accuracy."""
        return self.accuracy @ ACCURACY_GRID


def label_evidence(annotations: Annotations, without: FloatArray) -> LabelEvidence:
    """Weigh explanations of each annotator's labels against what the others say.

    Parameters
    ----------
    without
        (n_annotations, n_classes) as from `class_probabilities_without`.
    """
    n_annotators, n_classes = annotations.n_annotators, annotations.n_classes
    counts = counts_of(annotations, without)
    right = without[np.arange(len(without)), annotations.label]
    log_likelihood = np.empty((n_annotators, len(ACCURACY_GRID)))
    for place, accuracy in enumerate(ACCURACY_GRID):
        each = np.log(right * accuracy + (1 - right) * (1 - accuracy) / (n_classes - 1))
        log_likelihood[:, place] = np.bincount(annotations.annotator, weights=each, minlength=n_annotators)
    chance = 1 / n_classes
    near_chance = np.abs(ACCURACY_GRID - chance) <= CHANCE_BAND * (1 - chance)
    one_habit = dirichlet_multinomial(counts.sum(axis=1))
    return LabelEvidence(
        careless=np.logaddexp(one_habit, log_mean(log_likelihood[:, near_chance])) - np.log(2.0),
        steady=log_mean(log_likelihood[:, ~near_chance]),
        free=dirichlet_multinomial(counts).sum(axis=1),
        accuracy=np.exp(log_likelihood - log_mean(log_likelihood)[:, None]) / len(ACCURACY_GRID),
        counts=counts,
    )


def log_mean(values: FloatArray) -> FloatArray:
    """Logarithm of the mean of exponentials along the last axis."""
    top = values.max(axis=-1, keepdims=True)
    return np.asarray((top + np.log(np.exp(values - top).mean(axis=-1, keepdims=True)))[..., 0])


def counts_of(annotations: Annotations, shares: FloatArray) -> FloatArray:
    """Expected counts (annotator, true class, given label) from class shares of each annotation."""
    n_annotators, n_classes = annotations.n_annotators, annotations.n_classes
    cell = annotations.annotator.astype(np.int64) * n_classes + annotations.label
    columns = [np.bincount(cell, weights=shares[:, k], minlength=n_annotators * n_classes) for k in range(n_classes)]
    stacked: FloatArray = np.stack(columns).astype(np.float64).reshape(n_classes, n_annotators, n_classes)
    return stacked.transpose(1, 0, 2)


def dirichlet_multinomial(counts: FloatArray) -> FloatArray:
    """Log probability of a sequence with these counts (last axis), shares drawn from Jeffreys' prior.

    Examples
    --------
    >>> round(float(np.exp(dirichlet_multinomial(np.array([1.0, 0.0])))), 3)
    0.5
    """
    from scipy.special import gammaln

    n_labels = counts.shape[-1]
    total = counts.sum(axis=-1)
    return np.asarray(
        gammaln(n_labels * PSEUDO_COUNT)
        - gammaln(total + n_labels * PSEUDO_COUNT)
        + (gammaln(counts + PSEUDO_COUNT) - gammaln(PSEUDO_COUNT)).sum(axis=-1)
    )
