"""Gold-calibrated voting: annotators measured on gold items, then a vote weighted by log odds (Snow et al. 2008)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.moments import refine_by_em, vote_start
from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.parameters import Allowed, Real
from crowdprism.results import FitResult
from crowdprism.results.confusion import confusion_counts, normalize_rows

NO_GOLD = "There is no gold to measure annotators on, so all have the crowd's confusions: this is a vote. Add gold."


@dataclass(eq=False, repr=False)
class GoldVote(Aggregator):
    """Measure each annotator on items with gold only, and combine labels by Bayes' rule.

    Unlike `DawidSkene` with gold, labels of other items teach nothing about annotators: the choice where gold is
    plentiful and annotators may agree on the same mistakes. Annotators without labels on gold items have the crowd's
    confusions by vote shares; so do all where there is no gold, and `result_.warnings` says so.

    Parameters
    ----------
    prior_strength
        Pseudo-annotations per confusion row, spread as the crowd errs.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 1, 1], [1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 1, 1]])
    >>> calibrated = a.with_gold({0: 0, 1: 1, 2: 0, 3: 1})
    >>> int(GoldVote().fit(calibrated).result_.labels()[4])  # the two who agree were wrong on every gold item
    0
    """

    name: ClassVar[str] = "gold-vote"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"prior_strength": Real(0, above=True)}
    prior_strength: float = 1.0

    def _aggregate(self, annotations: Annotations) -> FitResult:
        crowd = vote_start(annotations, method="GoldVote")
        gold = known_classes(annotations)
        truth = np.zeros((annotations.n_items, annotations.n_classes))
        if gold is not None:
            truth[gold >= 0, gold[gold >= 0]] = 1.0
        pseudo_counts = self.prior_strength * crowd.pooled
        confusions = normalize_rows(confusion_counts(annotations, truth) + pseudo_counts)
        parts = refine_by_em(annotations, confusions, crowd.prior, pseudo_counts=pseudo_counts, max_iter=0)
        return self._build_result(annotations, warnings=(NO_GOLD,) if gold is None else (), **parts)
