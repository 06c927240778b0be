"""Two stages: aggregate the annotations, then train a network on the aggregated labels.

`nn-mv` (majority vote) and `nn-dsem` (Dawid and Skene's EM) are the two settings that papers compare with, among them
Ibrahim, Nguyen and Fu (ICLR 2023). Soft targets with mixup are the stronger ones (Herde et al., ECAI 2024).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from crowdprism.aggregators import AGGREGATORS, make_aggregator
from crowdprism.aggregators.majority_vote import decide
from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.problem import Problem
from crowdprism.errors import CrowdprismWarning, InvalidParameterError
from crowdprism.networks.target_head import TargetHead
from crowdprism.seeding import stream

TARGETS = ("hard", "soft")
UNLABELLED = ("drop", "random", "prior")


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
        `"prior"`: the class that the aggregator finds most common; the published reference implementation trains
        NN-MV on the first and NN-DSEM on the second, which explains their low published numbers where most items
        are unlabelled.
    **training
        Parameters of `CrowdClassifier`; `mixup=1.0` mixes items and their targets.

    Examples
    --------
    >>> from crowdprism import load_dataset
    >>> train, test = (load_dataset("simulated").part(split) for split in ("train", "test"))
    >>> model = TwoStage(epochs=10).fit(train.features, train.annotations)
    >>> bool((model.predict_proba(test.features).argmax(axis=1) == test.gold).mean() > 0.65)
    True
    """

    name: ClassVar[str] = "two-stage"
    no_confusions: ClassVar[str] = (
        " Its aggregator estimates none; aggregator='dawid-skene' does, and so does the classifier 'geocrowdnet'."
    )

    def __init__(
        self,
        *,
        aggregator: str = "majority-vote",
        aggregator_options: Mapping[str, Any] | None = None,
        targets: Literal["hard", "soft"] = "hard",
        unlabelled: Literal["drop", "random", "prior"] = "drop",
        **training: Any,
    ) -> None:
        super().__init__(**training)
        self.aggregator = aggregator
        self.aggregator_options = aggregator_options
        self.targets = targets
        self.unlabelled = unlabelled

    def _check_parameters(self, problem: Problem) -> None:
        for name, allowed in (("targets", TARGETS), ("unlabelled", UNLABELLED), ("aggregator", tuple(AGGREGATORS))):
            if getattr(self, name) not in allowed:
                raise InvalidParameterError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}.")
        n_items, n_bare = problem.annotations.n_items, int((problem.annotations.labels_per_item == 0).sum())
        if self.unlabelled != "drop" and 2 * n_bare > n_items:
            self._warn(
                f"{self._method_name()} with unlabelled={self.unlabelled!r} trains on made-up classes, and needs a "
                f"majority of labelled items: {n_bare} of {n_items} have no annotation. Use unlabelled='drop', or "
                "geocrowdnet-f, which learns from items without annotations too.",
                CrowdprismWarning,
            )

    def _method_name(self) -> str:
        known = {("majority-vote", "hard"): "nn-mv", ("dawid-skene", "hard"): "nn-dsem"}
        return known.get((self.aggregator, self.targets), self.name)

    def _make_head(self, problem: Problem) -> TargetHead:
        annotations = problem.annotations
        aggregated = make_aggregator(self.aggregator, **(self.aggregator_options or {})).fit(annotations).result_
        probabilities = np.asarray(aggregated.class_probabilities)
        hard = decide(probabilities.round(9), "random", problem.seed)  # votes that tie must not win by rounding
        labelled = annotations.labels_per_item > 0
        targets = np.where(labelled[:, None] & (self.targets == "soft"), probabilities, hard)
        if self.unlabelled == "random":
            targets[~labelled] = random_classes(int((~labelled).sum()), problem)
        n_extra = problem.flat.n_items - len(targets)
        targets = np.concatenate([targets, np.full((n_extra, problem.n_classes), 1 / problem.n_classes)])
        used = np.concatenate([labelled | (self.unlabelled != "drop"), np.zeros(n_extra, dtype=bool)])
        confusions = aggregated.confusions
        return TargetHead(
            torch.from_numpy(targets),
            used=torch.from_numpy(used),
            confusions=None if confusions is None else torch.from_numpy(np.array(confusions)),
        )


def random_classes(n_items: int, problem: Problem) -> NDArray[np.float64]:
    """One-hot rows of classes drawn evenly."""
    drawn = stream(problem.seed, "unlabelled").integers(problem.n_classes, size=n_items)
    return np.asarray(np.eye(problem.n_classes)[drawn])
