"""An account of every item: corrected label, difficulty, disagreement, and gold that is probably wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import NameArray
from crowdprism.diagnostics.annotator_accounts import class_prior_of, entropy
from crowdprism.diagnostics.calibration import WRONG_GOLD_SHARE, fit_gold_temperature, with_temperature
from crowdprism.diagnostics.label_evidence import FloatArray, require_same_names
from crowdprism.results import FitResult

WRONG_GOLD = 0.5  # gold that is right with less probability than this is called likely mislabelled


@dataclass(frozen=True)
class ItemReport:
    """What is known of each item; arrays are (n_items,) in the order of `items`.

    Attributes
    ----------
    label, probability
        Corrected label (class position) and its probability.
    uncertainty
        Entropy of the class probabilities, 0 for certainty and 1 for none at all.
    disagreement
        Probability that two of its annotations, drawn without replacement, differ; NaN with fewer than two.
    difficulty
        Share of its labels that are probably wrong, minus the share to expect from who labelled it: above zero the
        item is harder than its annotators' skill explains. NaN without annotations or confusions.
    gold_probability
        Probability that gold is right, gold itself counting as a witness who errs in 2 % of items; NaN without gold.
        Class probabilities are first made less sure until they suit the gold as a whole
        (`calibration.fit_gold_temperature`), or else every mistake of the fit would accuse gold.
    likely_mislabelled
        Whether gold is more probably wrong than right.
    """

    items: NameArray
    classes: NameArray
    label: NDArray[np.int64]
    probability: FloatArray
    uncertainty: FloatArray
    disagreement: FloatArray
    difficulty: FloatArray
    gold_probability: FloatArray
    likely_mislabelled: NDArray[np.bool_]

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per item, in the user's own names."""
        from crowdprism.annotations.frames import frame_of_columns

        numbers = ("probability", "uncertainty", "disagreement", "difficulty", "gold_probability")
        columns: dict[str, Any] = {"item": self.items, "label": self.classes[self.label]}
        columns |= {name: getattr(self, name) for name in (*numbers, "likely_mislabelled")}
        return frame_of_columns(columns, kind)


def item_report(result: FitResult, annotations: Annotations, *, wrong_gold: float = WRONG_GOLD) -> ItemReport:
    """Tell of each item what label it should have, how sure that is, and how hard it was.

    Examples
    --------
    >>> from crowdprism.aggregators import make_aggregator
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0]])
    >>> report = item_report(make_aggregator("dawid-skene").fit(a).result_, a)
    >>> report.label.tolist(), report.disagreement.round(3).tolist()
    ([0, 1, 0], [0.667, 0.0, 0.0])
    """
    require_same_names(result, annotations)
    shares = np.asarray(result.class_probabilities, dtype=float)
    gold_probability = np.full(result.n_items, np.nan)
    if annotations.gold is not None:
        known = np.flatnonzero(~np.ma.getmaskarray(annotations.gold))
        if len(known):
            softened = with_temperature(shares, fit_gold_temperature(shares, annotations.gold))
            right = softened[known, np.asarray(annotations.gold.data)[known]] * (1 - WRONG_GOLD_SHARE)
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
    n_classes = annotations.n_classes
    cell = annotations.item.astype(np.int64) * n_classes + annotations.label
    votes = np.bincount(cell, minlength=annotations.n_items * n_classes).reshape(-1, n_classes)
    total = votes.sum(axis=1)
    same = (votes * (votes - 1)).sum(axis=1)
    pairs = total * (total - 1)
    return np.where(pairs > 0, 1 - same / np.maximum(pairs, 1), np.nan)


def difficulty(result: FitResult, annotations: Annotations) -> FloatArray:
    """Share of probably wrong labels of each item beyond what its annotators' confusions let expect."""
    unknown = np.full(annotations.n_items, np.nan)
    if result.confusions is None:
        return unknown
    shares = np.asarray(result.class_probabilities, dtype=float)
    prior = class_prior_of(result)
    wrong = 1 - shares[annotations.item, annotations.label]
    expected = 1 - np.einsum("mkk,k->m", result.confusions, prior)[annotations.annotator]
    excess = np.bincount(annotations.item, wrong - expected, annotations.n_items)
    counts = annotations.labels_per_item
    return np.where(counts > 0, excess / np.maximum(counts, 1), unknown)
