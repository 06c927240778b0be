"""Two stages: aggregate the annotations, then train a network on the aggregated labels.

`nn-mv` (majority vote) and `nn-dsem` (Dawid and Skene's EM) are the two settings that papers compare with, among them
Ibrahim, Nguyen and Fu (ICLR 2023). Soft targets with mixup are the stronger ones (Herde et al., ECAI 2024).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from crowdprism.aggregators import AGGREGATORS, make_aggregator
from crowdprism.aggregators.majority_vote import decide
from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks.heads import TargetHead
from crowdprism.parameters import OneOf
from crowdprism.seeding import stream


@dataclass(kw_only=True, eq=False, repr=False)
class TwoStage(CrowdClassifier):
    """Aggregate the annotations first, then train an ordinary classifier on the aggregated labels.

    Parameters
    ----------
    aggregator, aggregator_options
        Name of any aggregator (`crowdprism.aggregators.AGGREGATORS`) and its parameters.
    targets
        `"hard"`: the most probable class, ties drawn at random by the seed (the papers' NN-MV and NN-DSEM).
        `"soft"`: the aggregator's class probabilities.
    unlabelled
        What becomes of items without annotations. `"drop"`: not trained on. `"random"`: a class drawn at random, and
        `"prior"`: the aggregator's most common class; the published NN-MV trains on the first and NN-DSEM on the
        second, which explains their low numbers where most items are unlabelled.
    **training
        Parameters of `CrowdClassifier`; `mixup=1.0` mixes items and their targets.
    """

    name: ClassVar[str] = "two-stage"
    no_confusions: ClassVar[str] = (
        " Its aggregator estimates none; aggregator='dawid-skene' does, and so does the classifier 'geocrowdnet'."
    )
    _allowed: ClassVar = {
        "aggregator": OneOf(*AGGREGATORS),
        "targets": OneOf("hard", "soft"),
        "unlabelled": OneOf("drop", "random", "prior"),
    }

    aggregator: str = "majority-vote"
    aggregator_options: Mapping[str, Any] | None = None
    targets: Literal["hard", "soft"] = "hard"
    unlabelled: Literal["drop", "random", "prior"] = "drop"

    def _advice(self, problem: Problem) -> Iterable[str]:
        n_items, n_bare = problem.annotations.n_items, int((problem.annotations.labels_per_item == 0).sum())
        if self.unlabelled != "drop" and 2 * n_bare > n_items:
            yield (
                f"{self._method_name(problem)} with unlabelled={self.unlabelled!r} trains on made-up classes, and "
                f"needs a majority of labelled items: {n_bare} of {n_items} have no annotation. "
                "Use unlabelled='drop', or geocrowdnet-f, which learns from items without annotations too."
            )

    def _method_name(self, problem: Problem) -> str:
        known = {("majority-vote", "hard"): "nn-mv", ("dawid-skene", "hard"): "nn-dsem"}
        return known.get((self.aggregator, self.targets), self.name)

    def _make_head(self, problem: Problem) -> TargetHead:
        annotations = problem.annotations
        options = {"use_gold": False, **(self.aggregator_options or {})}
        aggregated = make_aggregator(self.aggregator, **options).fit(annotations).result_
        probabilities = np.asarray(aggregated.class_probabilities)
        hard = decide(probabilities.round(9), "random", problem.seed)  # votes that tie must not win by rounding
        labelled = annotations.labels_per_item > 0
        targets = np.where(labelled[:, None] & (self.targets == "soft"), probabilities, hard)
        if self.unlabelled == "random":
            drawn = stream(problem.seed, "unlabelled").integers(problem.n_classes, size=int((~labelled).sum()))
            targets[~labelled] = np.eye(problem.n_classes)[drawn]
        every_target, used = problem.item_targets(targets, labelled | (self.unlabelled != "drop"))
        confusions = None if aggregated.confusions is None else torch.from_numpy(np.array(aggregated.confusions))
        return TargetHead(every_target, used=used, confusions=confusions)
