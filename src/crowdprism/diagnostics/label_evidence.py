"""What an annotator's labels say, judged by the others, and how sure we can be of it.

An item's class probabilities contain the annotator's own label. To judge that label, divide by the annotator's
confusion: what remains is what features, prior and the other annotators say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import same_names
from crowdprism.errors import InvalidParameterError, UnsuitableDataError, some
from crowdprism.results import FitResult
from crowdprism.results.confusion import cell_counts, normalize_logs

FloatArray = NDArray[np.float64]

FLOOR = 1e-10  # class probabilities of exactly zero cannot be divided out
# Confusions are kept further from zero than class probabilities: where both were cut off, sure items must stay sure.
CONFUSION_FLOOR = 1e-3
PSEUDO_COUNT = 0.5  # Jeffreys' prior for how often each label is given
ACCURACY_GRID = np.linspace(0.0025, 0.9975, 200)
FACTORS = 32  # probabilities multiplied before a logarithm is taken; the product of so many cannot vanish
CHANCE_BAND = 0.15  # an accuracy within this share of the way from chance to perfection counts as chance


def matching(result: FitResult, annotations: Annotations) -> Annotations:
    """Return the annotations with items, annotators and classes in the order of the result; other names are an error.

    Examples
    --------
    >>> from crowdprism.aggregators import make_aggregator
    >>> a = Annotations.from_triplets(["x", "y"], ["ann", "ann"], ["cat", "dog"])
    >>> matching(make_aggregator("majority-vote").fit(a).result_, a[[1, 0]]).items.tolist()
    ['x', 'y']
    """
    names = {role: getattr(result, role) for role in ("items", "annotators", "classes")}
    different = [role for role in names if not same_names(names[role], getattr(annotations, role))]
    for role in different:
        ours, theirs = names[role].tolist(), getattr(annotations, role).tolist()
        alone = set(ours) ^ set(theirs)
        if alone:
            raise InvalidParameterError(
                f"The annotations are not those of this result: it has {len(ours)} {role}, they have {len(theirs)}, "
                f"and only one of the two has {some([name for name in ours + theirs if name in alone])}. "
                "Pass the annotations that the result was fitted on."
            )
    return annotations.reindexed(**names) if different else annotations


def require_confusions(result: FitResult, purpose: str) -> FloatArray:
    if result.confusions is None:
        raise UnsuitableDataError(
            f"{purpose} needs confusion matrices and {result.method} gives none. "
            "Fit a method that does, such as dawid-skene."
        )
    return np.asarray(result.confusions, dtype=float)


def require_probabilities(class_probabilities: Any, annotations: Annotations) -> FloatArray:
    shares = np.asarray(class_probabilities, dtype=np.float64)
    shape = (annotations.n_items, annotations.n_classes)
    if shares.shape != shape:
        order = "one row per item in the order of annotations.items"
        raise InvalidParameterError(f"class_probabilities must be {shape}, {order}, not {shares.shape}.")
    return shares


def vote_table(annotations: Annotations, weight: FloatArray | None = None) -> FloatArray:
    """Annotations of each item by label, each counting one or its weight: (n_items, n_classes)."""
    cell = annotations.item.astype(np.int64) * annotations.n_classes + annotations.label
    counts = np.bincount(cell, weight, annotations.n_items * annotations.n_classes)
    return counts.reshape(annotations.n_items, annotations.n_classes).astype(np.float64)


def log_seen(annotations: Annotations, confusions: FloatArray) -> FloatArray:
    """Log likelihood of each item's annotations under each true class: (n_items, n_classes)."""
    columns = columns_of(np.log(confusions), annotations).T
    return np.stack([np.bincount(annotations.item, column, annotations.n_items) for column in columns], axis=1)


def columns_of(tables: FloatArray, annotations: Annotations) -> FloatArray:
    """(n_annotations, true class) the column of each label in its annotator's table (true class, given label)."""
    columns = np.swapaxes(tables, 1, 2).reshape(-1, annotations.n_classes)  # a copy, each column in one piece
    return np.asarray(columns[annotations.annotator.astype(np.int64) * annotations.n_classes + annotations.label])


def class_probabilities_without(result: FitResult, annotations: Annotations) -> FloatArray:
    """Class probabilities of each annotation's item without that annotation: (n_annotations, n_classes).

    Without confusions nothing can be divided out, and the item's probabilities are returned as they are.
    """
    log = np.log(np.maximum(result.class_probabilities, FLOOR))[annotations.item]
    if result.confusions is not None:
        log_confusions = np.log(np.maximum(result.confusions, CONFUSION_FLOOR))
        own = columns_of(log_confusions, annotations)
        log -= own if annotations.weight is None else own * annotations.weight[:, None]
    return normalize_logs(log)


@dataclass(frozen=True)
class LabelEvidence:
    """How well three explanations fit each annotator's labels, as log marginal likelihoods: (n_annotators,)."""

    careless: FloatArray  # labels do not depend on the true class (a confusion of rank one), or hardly do
    steady: FloatArray  # one accuracy for all classes, not near chance, errors spread evenly
    free: FloatArray  # any confusion matrix
    accuracy: FloatArray  # (n_annotators, 200) posterior over `ACCURACY_GRID` under the steady explanation
    counts: FloatArray  # (n_annotators, true class, given label) expected counts

    @property
    def spammer_probability(self) -> FloatArray:
        """(n_annotators,) posterior probability of `careless`, all explanations being equally likely at first."""
        informative = np.logaddexp(self.steady, self.free) - np.log(2.0)
        return np.asarray(1.0 / (1.0 + np.exp(np.clip(informative - self.careless, -700, 700))))


def label_evidence(annotations: Annotations, without: FloatArray) -> LabelEvidence:
    """Weigh explanations of each annotator's labels; `without` is from `class_probabilities_without`."""
    counts = cell_counts(annotations, without.T)
    right = without[np.arange(len(without)), annotations.label]
    log_likelihood = steady_log_likelihood(annotations, right)
    chance = 1 / annotations.n_classes
    near_chance = np.abs(ACCURACY_GRID - chance) <= CHANCE_BAND * (1 - chance)
    one_habit = dirichlet_multinomial(counts.sum(axis=1))
    return LabelEvidence(
        careless=np.logaddexp(one_habit, log_mean(log_likelihood[:, near_chance])) - np.log(2.0),
        steady=log_mean(log_likelihood[:, ~near_chance]),
        free=dirichlet_multinomial(counts).sum(axis=1),
        accuracy=np.exp(log_likelihood - log_mean(log_likelihood)[:, None]) / len(ACCURACY_GRID),
        counts=counts,
    )


def steady_log_likelihood(annotations: Annotations, right: FloatArray) -> FloatArray:
    """(n_annotators, 200) log likelihood of each accuracy of `ACCURACY_GRID`.

    `right` (n_annotations,) is the probability that the label is right. Probabilities of a few labels are multiplied
    before the logarithm is taken, which takes longer than all the rest.
    """
    by_annotator = np.argsort(annotations.annotator, kind="stable")
    right = right[by_annotator]
    n_labels = annotations.labels_per_annotator
    n_factors = -(-n_labels // FACTORS)  # products of each annotator
    annotator = np.repeat(np.arange(len(n_labels)), n_factors)
    place = np.arange(len(annotator)) - np.repeat(np.cumsum(n_factors) - n_factors, n_factors)
    start = np.repeat(np.cumsum(n_labels) - n_labels, n_factors) + place * FACTORS
    found = np.zeros((len(n_labels), len(ACCURACY_GRID)))
    for column, accuracy in enumerate(ACCURACY_GRID if len(right) else ()):
        by_chance = (1 - accuracy) / (annotations.n_classes - 1)
        products = np.multiply.reduceat(by_chance + right * (accuracy - by_chance), start)
        found[:, column] = np.bincount(annotator, np.log(products), len(n_labels))
    return found


def log_mean(values: FloatArray) -> FloatArray:
    """Logarithm of the mean of exponentials along the last axis."""
    top = values.max(axis=-1, keepdims=True)
    return np.asarray((top + np.log(np.exp(values - top).mean(axis=-1, keepdims=True)))[..., 0])


def dirichlet_multinomial(counts: FloatArray) -> FloatArray:
    """Log probability of a sequence with these counts (last axis), shares drawn from Jeffreys' prior."""
    from scipy.special import gammaln

    prior = counts.shape[-1] * PSEUDO_COUNT
    cells = gammaln(counts + PSEUDO_COUNT) - gammaln(PSEUDO_COUNT)
    return np.asarray(gammaln(prior) - gammaln(counts.sum(axis=-1) + prior) + cells.sum(axis=-1))
