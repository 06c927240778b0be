"""An account of every item: corrected label, difficulty, disagreement, gold that is probably wrong.

`label_quality` scores labels and annotators with any classifier's probabilities (as CROWDLAB, Goh et al. 2022):
classifier and annotators are voters whose weight grows with how often they agree with others, compared with a baseline
that always predicts the most frequent class. All sums run over the annotations that exist, never items x annotators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.frames import frame_of_columns
from crowdprism.annotations.names import NameArray
from crowdprism.diagnostics.annotator_accounts import class_prior_of, entropy
from crowdprism.diagnostics.calibration import WRONG_GOLD_SHARE, fit_gold_temperature, with_temperature
from crowdprism.diagnostics.label_evidence import FloatArray, matching, require_probabilities, vote_table
from crowdprism.results import FitResult
from crowdprism.results.confusion import annotator_accuracy

WRONG_GOLD = 0.5  # gold that is right with less probability than this is called likely mislabelled
LEAST_WEIGHT = 1e-4  # a voter no better than the baseline still counts a little


@dataclass(frozen=True)
class ItemReport:
    """What is known about each item; arrays are (n_items,) in the order of `items`, NaN is not known.

    `difficulty` is the share of labels that are probably wrong, minus the share expected from the accuracy of the
    annotators: above zero, annotators who are usually right disagree on this item. `gold_probability` is that of gold
    being right if 2 % of gold is wrong. Class probabilities are first softened to fit the gold as a whole
    (`calibration.fit_gold_temperature`); otherwise every mistake of the fit would count against gold.
    """

    items: NameArray
    classes: NameArray
    label: NDArray[np.int64]  # corrected label, as class position
    probability: FloatArray
    uncertainty: FloatArray  # entropy of the class probabilities, 0 for certainty and 1 for none at all
    disagreement: FloatArray  # probability that two of its annotations, drawn without replacement, differ
    difficulty: FloatArray
    gold_probability: FloatArray
    likely_mislabelled: NDArray[np.bool_]

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per item, in the user's own names."""
        columns = {"item": self.items} | vars(self) | {"label": self.classes[self.label]}
        del columns["items"], columns["classes"]
        return frame_of_columns(columns, kind)


def item_report(result: FitResult, annotations: Annotations, *, wrong_gold: float = WRONG_GOLD) -> ItemReport:
    """Report for each item which label it should have, how sure that is, and how hard the item was.

    Examples
    --------
    >>> from crowdprism.aggregators import make_aggregator
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0]])
    >>> report = item_report(make_aggregator("dawid-skene").fit(a).result_, a)
    >>> report.label.tolist(), report.disagreement.round(3).tolist()
    ([0, 1, 0], [0.667, 0.0, 0.0])
    """
    annotations = matching(result, annotations)
    shares = np.asarray(result.class_probabilities, dtype=float)
    gold_probability, gold = np.full(result.n_items, np.nan), annotations.gold
    if gold is not None and gold.count():
        known = np.flatnonzero(~np.ma.getmaskarray(gold))
        softened = with_temperature(shares, fit_gold_temperature(shares, gold))
        right = softened[known, np.asarray(gold.data)[known]] * (1 - WRONG_GOLD_SHARE)
        wrong = (1 - right / (1 - WRONG_GOLD_SHARE)) * WRONG_GOLD_SHARE / (result.n_classes - 1)
        gold_probability[known] = right / (right + wrong)
    return ItemReport(
        items=result.items,
        classes=result.classes,
        label=shares.argmax(axis=1),
        probability=shares.max(axis=1),
        uncertainty=entropy(shares) / np.log(result.n_classes),
        disagreement=disagreement(annotations),
        difficulty=difficulty(result, annotations),
        gold_probability=gold_probability,
        likely_mislabelled=np.nan_to_num(gold_probability, nan=1.0) < wrong_gold,
    )


def disagreement(annotations: Annotations) -> FloatArray:
    """Probability that two annotations of an item differ: (n_items,), NaN with fewer than two."""
    votes, total = vote_table(annotations), annotations.labels_per_item
    same, pairs = (votes * (votes - 1)).sum(axis=1), total * (total - 1)
    return np.where(pairs > 0, 1 - same / np.maximum(pairs, 1), np.nan)


def difficulty(result: FitResult, annotations: Annotations) -> FloatArray:
    """Share of probably wrong labels of each item, minus the share expected from its annotators' confusions."""
    if result.confusions is None:
        return np.full(annotations.n_items, np.nan)
    wrong = 1 - np.asarray(result.class_probabilities, dtype=float)[annotations.item, annotations.label]
    expected = 1 - annotator_accuracy(result.confusions, class_prior_of(result))[annotations.annotator]
    excess = np.bincount(annotations.item, wrong - expected, annotations.n_items)
    counts = annotations.labels_per_item
    return np.where(counts > 0, excess / np.maximum(counts, 1), np.nan)


@dataclass(frozen=True)
class LabelQuality:
    """Consensus classes, quality scores between 0 and 1 (how likely a label is right), and weights as voters.

    `class_probabilities` are those of classifier and annotators together. `annotator_agreement` is with the consensus
    where several labelled, and NaN where none did.
    """

    items: NameArray
    annotators: NameArray
    consensus: NDArray[np.int64]  # (n_items,)
    consensus_quality: FloatArray  # (n_items,)
    class_probabilities: FloatArray  # (n_items, n_classes)
    label_quality: FloatArray  # (n_annotations,)
    annotator_quality: FloatArray  # (n_annotators,)
    annotator_agreement: FloatArray  # (n_annotators,)
    annotator_weight: FloatArray  # (n_annotators,)
    classifier_weight: float


def label_quality(annotations: Annotations, class_probabilities: Any) -> LabelQuality:
    """Score consensus labels, single labels and annotators with any classifier's probabilities (n_items, n_classes).

    Predict these out of sample if you can.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]])
    >>> quality = label_quality(a, [[0.9, 0.1], [0.2, 0.8], [0.8, 0.2], [0.3, 0.7]])
    >>> quality.consensus.tolist(), bool(quality.annotator_quality[0] > quality.annotator_quality[2])
    ([0, 1, 0, 1], True)
    """
    shares = require_probabilities(class_probabilities, annotations)
    votes = vote_table(annotations)
    several = annotations.labels_per_item > 1
    labels_each = annotations.n_annotations / max(int((annotations.labels_per_item > 0).sum()), 1)
    agreement = peer_agreement(annotations, votes)
    # Ties of the vote go to the class that the classifier prefers, then to the first.
    consensus = np.argmax(votes + 0.5 * shares, axis=1)
    for _ in range(2):  # the second pass weighs voters by the better consensus of the first
        weights, classifier, reliability = voter_weights(annotations, shares, votes, consensus, several, agreement)
        classifier *= np.sqrt(labels_each)
        combined = combine(annotations, shares, weights, classifier, reliability)
        consensus = combined.argmax(axis=1)
    given = combined[annotations.item, annotations.label]
    counted = several[annotations.item]
    same = (annotations.label == consensus[annotations.item]) & counted
    right, total, quality, labels = (
        np.bincount(annotations.annotator, values, annotations.n_annotators)
        for values in (same, counted, given, np.ones(len(given)))
    )
    with_consensus = np.where(total > 0, right / np.maximum(total, 1), np.nan)
    mean = quality / np.where(labels > 0, labels, np.nan)
    trust = classifier / (classifier + weights.mean() * labels_each)
    mixed = trust * mean + (1 - trust) * np.nan_to_num(with_consensus)
    return LabelQuality(
        items=annotations.items,
        annotators=annotations.annotators,
        consensus=consensus,
        consensus_quality=combined[np.arange(len(combined)), consensus],
        class_probabilities=combined,
        label_quality=given,
        annotator_quality=np.where(np.isnan(with_consensus), mean, mixed),
        annotator_agreement=with_consensus,
        annotator_weight=weights,
        classifier_weight=float(classifier),
    )


def peer_agreement(annotations: Annotations, votes: FloatArray) -> FloatArray:
    """Share of other annotators' labels on the same items that equal each annotator's; the mean where none exist."""
    agree = votes[annotations.item, annotations.label] - 1
    others = annotations.labels_per_item[annotations.item] - 1
    total = np.bincount(annotations.annotator, others, annotations.n_annotators)
    same = np.bincount(annotations.annotator, agree, annotations.n_annotators)
    overall = same.sum() / max(total.sum(), 1.0)
    return np.where(total > 0, same / np.maximum(total, 1.0), overall)


def voter_weights(
    annotations: Annotations,
    shares: FloatArray,
    votes: FloatArray,
    consensus: NDArray[Any],
    several: NDArray[np.bool_],
    agreement: FloatArray,
) -> tuple[FloatArray, float, float]:
    """Weights of annotators and (per label) of the classifier, and how often annotators give the consensus label."""
    judged = np.flatnonzero(several) if several.any() else np.arange(len(consensus))
    commonest = np.bincount(consensus[judged]).max() / max(len(judged), 1)
    room = max(1 - commonest, LEAST_WEIGHT)
    right = np.mean(shares.argmax(axis=1)[judged] == consensus[judged])
    classifier = max(1 - (1 - float(right)) / room, LEAST_WEIGHT)
    weights = np.maximum(1 - (1 - agreement) / room, LEAST_WEIGHT)
    counts = np.maximum(annotations.labels_per_item[judged], 1)
    reliability = float(np.mean(votes[judged, consensus[judged]] / counts))
    return weights, classifier, min(max(reliability, 1 / shares.shape[1]), 1 - LEAST_WEIGHT)


def combine(
    annotations: Annotations, shares: FloatArray, weights: FloatArray, classifier_weight: float, reliability: float
) -> FloatArray:
    """Weighted mean of the classifier's probabilities and of each label's, which gives `reliability` to its class."""
    each = weights[annotations.annotator]
    total = np.bincount(annotations.item, each, len(shares))
    elsewhere = (1 - reliability) / (shares.shape[1] - 1)
    named = (reliability - elsewhere) * vote_table(annotations, each)
    mixed = classifier_weight * shares + named + (elsewhere * total)[:, None]
    return np.asarray(mixed / (classifier_weight + total)[:, None])
