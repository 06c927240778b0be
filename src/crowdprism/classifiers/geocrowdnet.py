"""GeoCrowdNet: a classifier and every annotator's confusion matrix, learned together from annotations alone.

Ibrahim, Nguyen and Fu, "Deep learning from crowdsourced labels: coupled cross-entropy minimization, identifiability,
and regularization", ICLR 2023.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from crowdprism.aggregators.majority_vote import vote_shares, vote_totals
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import plain
from crowdprism.classifiers.annotator_start import STARTS, start_confusions
from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.problem import Problem
from crowdprism.errors import CrowdprismWarning, InvalidParameterError
from crowdprism.networks import CrowdHead, GeometricHead, make_annotator_layer, suitable_form
from crowdprism.networks.annotator_layer import FORMS
from crowdprism.training import TrainingSettings

REGULARIZERS = ("F", "W", None, "auto")
LOSSES = ("ccem", "joint")
MODES = ("crowdprism", "paper")
DEFAULT_STRENGTHS = {"F": 0.05, "W": 0.01}
RARE_CLASS = 0.5  # a class with less than this part of an even share of the votes makes the crowd imbalanced
PAPER_WEIGHT_DECAY = 1e-4


class GeoCrowdNet(CrowdClassifier):
    """Train a classifier on annotations of unknown quality, and learn every annotator's confusion matrix with it.

    Minimises the mean over annotations of -log Σ_k f_k(x) C_annotator[k, label] (coupled cross-entropy), minus
    `strength` times a log-volume that makes the split into classifier and confusions unique.

    Parameters
    ----------
    regularizer
        `"F"`: volume of the predictions (confident and balanced over classes; the all-round choice). `"W"`: volume of
        the stacked confusions (for many annotators and few items). None: plain coupled cross-entropy. `"auto"`: none
        where votes are imbalanced or annotators have a skill each, W where there are more confusion rows than items,
        else F.
    strength
        Weight of the volume term; `"auto"` takes 0.05 for F and 0.01 for W.
    loss
        `"ccem"` as published, or `"joint"`: the annotations of an item are multiplied as evidence about one hidden
        class before the logarithm, which is more efficient where annotators err independently.
    evidence_temper
        The n annotations of an item count as n^evidence_temper independent ones in the joint loss and in
        `label_posterior`: 1 for independent errors, less for crowds whose errors are correlated. The coupled loss
        ignores it.
    confusion_form
        `"free"`, `"pooled"` or `"skill"` (see `crowdprism.networks.annotator_layer`); `"auto"` by labels per annotator.
    start, start_diagonal
        Where confusions start (`"diagonal"`, `"identity"`, `"soft-vote"`, `"dawid-skene"`) and, for `"diagonal"`, the
        probability of a right label. It holds the classes apart whatever their number.
    shrinkage
        How strongly annotators are drawn to the crowd, in units of one annotation: those with few labels stay near it.
    annotator_updates
        `"touched"` updates only annotators that occur in a batch, each with its own Adam clock; `"all"` updates every
        annotator at each step; `"auto"` takes `"all"` for small tables.
    mode
        `"paper"` reproduces the published reference behaviour for comparison: identity logits, the volume term from
        the first step with the reference's rule for dropping it, one learning rate, weight decay 1e-4 on everything,
        full batches, and the epoch chosen by clean labels.
    **training
        Parameters of `CrowdClassifier`.

    Examples
    --------
    >>> X = np.repeat(np.eye(3), 20, axis=0)
    >>> truth = np.repeat([0, 1, 2], 20)
    >>> table = np.stack([truth, truth, (truth + 1) % 3], axis=1)  # two good annotators, one who is always wrong
    >>> model = GeoCrowdNet(epochs=30, network="linear", hold_annotators=0.3).fit(X, table)
    >>> model.predict(np.eye(3)).tolist()
    [0, 1, 2]
    >>> int(model.annotator_accuracy_.argmin())
    2
    """

    name: ClassVar[str] = "geocrowdnet"

    def __init__(
        self,
        *,
        regularizer: Literal["F", "W", "auto"] | None = "auto",
        strength: float | Literal["auto"] = "auto",
        loss: Literal["ccem", "joint"] = "joint",
        evidence_temper: float = 0.5,
        confusion_form: str = "auto",
        start: str = "diagonal",
        start_diagonal: float = 0.6,
        shrinkage: float = 1.0,
        annotator_updates: Literal["auto", "all", "touched"] = "auto",
        mode: Literal["crowdprism", "paper"] = "crowdprism",
        **training: Any,
    ) -> None:
        super().__init__(**training)
        self.regularizer = regularizer
        self.strength = strength
        self.loss = loss
        self.evidence_temper = evidence_temper
        self.confusion_form = confusion_form
        self.start = start
        self.start_diagonal = start_diagonal
        self.shrinkage = shrinkage
        self.annotator_updates = annotator_updates
        self.mode = mode

    # -- parameters -----------------------------------------------------------------------------------------

    def _check_parameters(self, problem: Problem) -> None:
        for name, allowed in (
            ("regularizer", REGULARIZERS),
            ("loss", LOSSES),
            ("mode", MODES),
            ("start", STARTS),
            ("confusion_form", ("auto", *FORMS)),
            ("annotator_updates", ("auto", "all", "touched")),
        ):
            value = getattr(self, name)
            if not any(value is choice or value == choice for choice in allowed):
                listed = ", ".join(repr(choice) for choice in allowed)
                raise InvalidParameterError(f"{name} must be one of {listed}, not {value!r}.")
        if self.strength != "auto" and not (isinstance(self.strength, (int, float)) and self.strength >= 0):
            raise InvalidParameterError(f"strength must be 'auto' or a number of at least 0, not {self.strength!r}.")
        if not 0 < self.evidence_temper <= 1:
            raise InvalidParameterError(f"evidence_temper must be above 0 and at most 1, not {self.evidence_temper}.")
        self._chosen_regularizer = self._choose_regularizer(problem)

    def _choose_regularizer(self, problem: Problem) -> str | None:
        """Follow the paper's remark on when F or W suits, warned by class imbalance."""
        annotations = problem.annotations
        shares = vote_class_shares(annotations)
        rare = int(shares.argmin())
        imbalanced = shares[rare] < RARE_CLASS / annotations.n_classes
        told = f"class {plain(annotations.classes[rare])!r} has {shares[rare]:.1%} of the votes"
        if self.regularizer == "auto":
            if imbalanced or self._form(annotations) == "skill":
                return None
            many_annotators = annotations.n_annotators * annotations.n_classes >= problem.flat.n_items
            return "W" if many_annotators else "F"
        if self.regularizer == "F" and imbalanced and self.strength != 0:
            self._warn(
                f"Votes are imbalanced ({told}; an even share is {1 / len(shares):.1%}), and regularizer='F' draws "
                "predictions towards equally frequent classes. Compare with regularizer=None.",
                CrowdprismWarning,
            )
        return self.regularizer

    def _method_name(self) -> str:
        chosen = self._chosen_regularizer
        return self.name if chosen is None else f"{self.name}-{chosen.lower()}"

    @property
    def _paper(self) -> bool:
        return self.mode == "paper"

    def _selection(self) -> str:
        return "clean" if self._paper else super()._selection()

    def _aligns_classes(self) -> bool:
        return not self._paper

    @property
    def _posterior_temper(self) -> float:
        return self.evidence_temper if self.loss == "joint" and not self._paper else 1.0

    def _settings(self, problem: Problem) -> TrainingSettings:
        settings = super()._settings(problem)
        if not self._paper:
            return settings
        return replace(
            settings,
            weight_decay=PAPER_WEIGHT_DECAY,
            annotator_weight_decay=PAPER_WEIGHT_DECAY,
            annotator_learning_rate=settings.learning_rate,
            warm_start=0.0,
            ramp=0.0,
            hold_annotators=0.0,
            even_batches=False,
        )

    # -- head -----------------------------------------------------------------------------------------------

    def _form(self, annotations: Annotations) -> str:
        """Which form the confusions take."""
        if self._paper:
            return "free"
        if self.confusion_form != "auto":
            return self.confusion_form
        return suitable_form(annotations.n_annotations, annotations.n_annotators, annotations.n_classes)

    def _make_head(self, problem: Problem) -> CrowdHead:
        annotations = problem.annotations
        start = start_confusions("identity" if self._paper else self.start, annotations, diagonal=self.start_diagonal)
        everywhere = {"all": False, "touched": True, "auto": None}[self.annotator_updates]
        layer = make_annotator_layer(self._form(annotations), start, touched_only=False if self._paper else everywhere)
        regularizer = self._chosen_regularizer
        strength = DEFAULT_STRENGTHS.get(str(regularizer), 0.0) if self.strength == "auto" else float(self.strength)
        return GeometricHead(
            layer,
            loss="ccem" if self._paper else self.loss,
            temper=self.evidence_temper,
            regularizer=regularizer,  # type: ignore[arg-type]
            strength=strength,
            shrinkage=0.0 if self._paper else self.shrinkage,
            n_annotations=annotations.n_annotations,
            touch_rate=torch.from_numpy(problem.flat.touch_rate(problem.batch_size)),
            reference=self._paper,
        )


def vote_class_shares(annotations: Annotations) -> np.ndarray:
    """(n_classes,) mean over annotated items of their vote shares."""
    totals = vote_totals(annotations)
    even = np.full(annotations.n_classes, 1 / annotations.n_classes)
    shares: np.ndarray = vote_shares(totals, even)[annotations.labels_per_item > 0].mean(axis=0)
    return shares
