"""Quality of labels and annotators from any classifier's probabilities and annotations (as CROWDLAB, Goh et al. 2022).

Classifier and annotators are voters whose weights grow with how often they agree with others, against a baseline that
always says the commonest class. Everything is sums over the annotations that exist, never items x annotators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import NameArray
from crowdprism.errors import InvalidParameterError

FloatArray = NDArray[np.float64]

LEAST_WEIGHT = 1e-4  # a voter no better than the baseline is not silenced altogether


@dataclass(frozen=True)
class LabelQuality:
    """Consensus and quality scores between 0 and 1.

    Attributes
    ----------
    consensus, consensus_quality
        (n_items,) class position, and how likely it is right.
    class_probabilities
        (n_items, n_classes) classifier and annotators together.
    label_quality
        (n_annotations,) how likely each given label is right, in the order of the annotations.
    annotator_quality, annotator_agreement, annotator_weight
        (n_annotators,) overall score; agreement with the consensus where several labelled (NaN where none did);
        weight as a voter.
    classifier_weight
        Weight of the classifier as a voter.
    """

    items: NameArray
    annotators: NameArray
    consensus: NDArray[np.int64]
    consensus_quality: FloatArray
    class_probabilities: FloatArray
    label_quality: FloatArray
    annotator_quality: FloatArray
    annotator_agreement: FloatArray
    annotator_weight: FloatArray
    classifier_weight: float


def label_quality(annotations: Annotations, class_probabilities: Any) -> LabelQuality:
    """Score consensus labels, single labels and annotators.

    Parameters
    ----------
    class_probabilities
        (n_items, n_classes) predicted by any classifier, best out of sample.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]])
    >>> quality = label_quality(a, [[0.9, 0.1], [0.2, 0.8], [0.8, 0.2], [0.3, 0.7]])
    >>> quality.consensus.tolist(), bool(quality.annotator_quality[0] > quality.annotator_quality[2])
    ([0, 1, 0, 1], True)
    """
    shares = np.asarray(class_probabilities, dtype=np.float64)
    if shares.shape != (annotations.n_items, annotations.n_classes):
        raise InvalidParameterError(
            f"class_probabilities must be ({annotations.n_items}, {annotations.n_classes}), one row per item in the "
            f"order of annotations.items, not {shares.shape}."
        )
    votes = vote_table(annotations)
    several = annotations.labels_per_item > 1
    agreement = peer_agreement(annotations, votes)
    # Ties of the vote go to the class that the classifier prefers, then to the first.
    consensus = np.argmax(votes + 0.5 * shares, axis=1)
    combined, weights, classifier_weight = shares, np.ones(annotations.n_annotators), 0.0
    for _ in range(2):  # the second pass weighs voters by the better consensus of the first
        weights, classifier_weight, reliability = voter_weights(
            annotations, shares, votes, consensus, several, agreement
        )
        combined = combine(annotations, shares, weights, classifier_weight, reliability)
        consensus = combined.argmax(axis=1)
    given = combined[annotations.item, annotations.label]
    with_consensus = consensus_agreement(annotations, consensus, several)
    return LabelQuality(
        items=annotations.items,
        annotators=annotations.annotators,
        consensus=consensus,
        consensus_quality=combined[np.arange(len(combined)), consensus],
        class_probabilities=combined,
        label_quality=given,
        annotator_quality=annotator_scores(annotations, given, with_consensus, weights, classifier_weight),
        annotator_agreement=with_consensus,
        annotator_weight=weights,
        classifier_weight=classifier_weight,
    )


def vote_table(annotations: Annotations) -> FloatArray:
    """Labels of each item by class: (n_items, n_classes)."""
    cell = annotations.item.astype(np.int64) * annotations.n_classes + annotations.label
    counts = np.bincount(cell, minlength=annotations.n_items * annotations.n_classes)
    return counts.reshape(annotations.n_items, annotations.n_classes).astype(np.float64)


def peer_agreement(annotations: Annotations, votes: FloatArray) -> FloatArray:
    """Share of other annotators' labels on the same items that equal each annotator's; the mean where none exist."""
    agree = votes[annotations.item, annotations.label] - 1
    others = annotations.labels_per_item[annotations.item] - 1
    total = np.bincount(annotations.annotator, others, annotations.n_annotators)
    same = np.bincount(annotations.annotator, agree, annotations.n_annotators)
    overall = same.sum() / max(total.sum(), 1.0)
    return np.where(total > 0, same / np.maximum(total, 1.0), overall)


def consensus_agreement(annotations: Annotations, consensus: NDArray[Any], several: NDArray[np.bool_]) -> FloatArray:
    """Share of each annotator's labels that equal the consensus, on items with several labels; NaN without any."""
    counted = several[annotations.item]
    same = (annotations.label == consensus[annotations.item]) & counted
    total = np.bincount(annotations.annotator, counted, annotations.n_annotators)
    right = np.bincount(annotations.annotator, same, annotations.n_annotators)
    return np.where(total > 0, right / np.maximum(total, 1), np.nan)


def voter_weights(
    annotations: Annotations,
    shares: FloatArray,
    votes: FloatArray,
    consensus: NDArray[Any],
    several: NDArray[np.bool_],
    agreement: FloatArray,
) -> tuple[FloatArray, float, float]:
    """Weights of annotators and classifier, and how often annotators give the consensus label."""
    judged = np.flatnonzero(several) if several.any() else np.arange(len(consensus))
    commonest = np.bincount(consensus[judged]).max() / max(len(judged), 1)
    room = max(1 - commonest, LEAST_WEIGHT)
    right = np.mean(shares.argmax(axis=1)[judged] == consensus[judged])
    labels_each = annotations.n_annotations / max(int((annotations.labels_per_item > 0).sum()), 1)
    classifier = max(1 - (1 - float(right)) / room, LEAST_WEIGHT) * np.sqrt(labels_each)
    weights = np.maximum(1 - (1 - agreement) / room, LEAST_WEIGHT)
    counts = np.maximum(annotations.labels_per_item[judged], 1)
    reliability = float(np.mean(votes[judged, consensus[judged]] / counts))
    floor = 1 / shares.shape[1]
    return weights, float(classifier), min(max(reliability, floor), 1 - LEAST_WEIGHT)


def combine(
    annotations: Annotations, shares: FloatArray, weights: FloatArray, classifier_weight: float, reliability: float
) -> FloatArray:
    """Weighted mean of the classifier's probabilities and of each label's, which gives `reliability` to its class."""
    n_items, n_classes = shares.shape
    each = weights[annotations.annotator]
    total = np.bincount(annotations.item, each, n_items)
    elsewhere = (1 - reliability) / (n_classes - 1)
    cell = annotations.item.astype(np.int64) * n_classes + annotations.label
    named = np.bincount(cell, each, n_items * n_classes).reshape(n_items, n_classes)
    mixed = classifier_weight * shares + (reliability - elsewhere) * named + (elsewhere * total)[:, None]
    return np.asarray(mixed / (classifier_weight + total)[:, None])


def annotator_scores(
    annotations: Annotations,
    given: FloatArray,
    with_consensus: FloatArray,
    weights: FloatArray,
    classifier_weight: float,
) -> FloatArray:
    """Mean quality of the own labels, mixed with agreement with the consensus; NaN without labels."""
    counts = annotations.labels_per_annotator
    mean = np.bincount(annotations.annotator, given, len(counts)) / np.where(counts > 0, counts, np.nan)
    labels_each = annotations.n_annotations / max(int((annotations.labels_per_item > 0).sum()), 1)
    trust = classifier_weight / (classifier_weight + weights.mean() * labels_each)
    return np.where(np.isnan(with_consensus), mean, trust * mean + (1 - trust) * np.nan_to_num(with_consensus))
