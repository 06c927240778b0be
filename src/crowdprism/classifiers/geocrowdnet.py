"""GeoCrowdNet: a classifier and every annotator's confusion matrix, learned together from annotations alone.

Ibrahim, Nguyen and Fu, "Deep learning from crowdsourced labels: coupled cross-entropy minimization, identifiability,
and regularization", ICLR 2023.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from crowdprism.annotations import Annotations
from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import (
    STARTS,
    Problem,
    imbalance_advice,
    is_imbalanced,
    start_confusions,
    vote_class_shares,
)
from crowdprism.networks import CrowdHead, FreeConfusions, GeometricHead, diagonal_confusions
from crowdprism.networks.annotator_layer import FORMS, make_annotator_layer, suitable_form
from crowdprism.parameters import PROBABILITY, OneOf, Real
from crowdprism.training import TrainingSettings

DEFAULT_STRENGTHS = {"F": 0.05, "W": 0.01}
PAPER_WEIGHT_DECAY = 1e-4


@dataclass(kw_only=True, eq=False, repr=False)
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
        `label_posterior`: 1 for independent errors, less where errors are correlated.
    confusion_form
        `"free"`, `"pooled"` or `"skill"` (see `crowdprism.networks.annotator_layer`); `"auto"` by labels per annotator.
    start, start_diagonal
        Where confusions start (see `start_confusions`) and, for `"diagonal"`, the probability of a right label.
    shrinkage
        How strongly annotators are drawn to the crowd, in units of one annotation: those with few labels stay near it.
    annotator_updates
        `"touched"`: annotators of the batch, each with its own Adam clock; `"all"` at each step, as `"auto"` does for
        small tables.
    class_shares
        `"votes"` draws the mean prediction towards the shares of the votes. Helps where classes are imbalanced and the
        votes show their shares well; harms where the crowd favours a class, which held-out annotations cannot tell.
    mode
        `"paper"` reproduces the published reference: identity logits, the volume term from the first step with the
        reference's rule for dropping it, one learning rate, weight decay 1e-4 on everything, full batches, and the
        epoch chosen by clean labels.

    Examples
    --------
    >>> import numpy as np
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
    _allowed: ClassVar = {
        "regularizer": OneOf("F", "W", None, "auto"),
        "strength": (Real(0), "auto"),
        "loss": OneOf("ccem", "joint"),
        "evidence_temper": Real(0, 1, above=True),
        "confusion_form": OneOf("auto", *FORMS),
        "start": OneOf(*STARTS),
        "start_diagonal": PROBABILITY,
        "shrinkage": Real(0),
        "annotator_updates": OneOf("auto", "all", "touched"),
        "class_shares": OneOf("votes", None),
        "mode": OneOf("crowdprism", "paper"),
    }

    regularizer: Literal["F", "W", "auto"] | None = "auto"
    strength: float | Literal["auto"] = "auto"
    loss: Literal["ccem", "joint"] = "joint"
    evidence_temper: float = 0.5
    confusion_form: str = "auto"
    start: str = "diagonal"
    start_diagonal: float = 0.6
    shrinkage: float = 1.0
    annotator_updates: Literal["auto", "all", "touched"] = "auto"
    class_shares: Literal["votes"] | None = None
    mode: Literal["crowdprism", "paper"] = "crowdprism"

    def _regularizer(self, problem: Problem) -> str | None:
        """Return the regulariser; `"auto"` follows the paper's remark on when F or W suits, and class imbalance."""
        if self.regularizer != "auto":
            return self.regularizer
        annotations = problem.annotations
        if is_imbalanced(annotations) or self._form(annotations) == "skill":
            return None
        return "W" if annotations.n_annotators * annotations.n_classes >= problem.flat.n_items else "F"

    def _advice(self, problem: Problem) -> Iterable[str]:
        if self.regularizer == "F" and self.strength != 0:
            way_out = "Use regularizer='auto' or None."
            yield from imbalance_advice(problem.annotations, "regularizer='F'", way_out)

    def _method_name(self, problem: Problem) -> str:
        chosen = self._regularizer(problem)
        return self.name if chosen is None else f"{self.name}-{chosen.lower()}"

    @property
    def _as_published(self) -> bool:
        return self.mode == "paper"

    def _selection(self) -> str:
        return "clean" if self._as_published else super()._selection()

    @property
    def _posterior_temper(self) -> float:
        return self.evidence_temper if self.loss == "joint" and not self._as_published else 1.0

    def _settings(self, problem: Problem) -> TrainingSettings:
        settings = super()._settings(problem)
        if not self._as_published:
            return settings
        decay, rate = PAPER_WEIGHT_DECAY, settings.learning_rate
        settings = replace(settings, weight_decay=decay, annotator_weight_decay=decay, annotator_learning_rate=rate)
        # The reference keeps the latest of equal epochs with a volume term, and the earliest without.
        equal = "earliest" if self._regularizer(problem) is None else "latest"
        settings = replace(settings, warm_start=0.0, ramp=0.0, hold_annotators=0.0)
        return replace(settings, even_batches=False, equal_epochs=equal)

    # -- head -----------------------------------------------------------------------------------------------

    def _form(self, annotations: Annotations) -> str:
        if self._as_published:
            return "free"
        if self.confusion_form != "auto":
            return self.confusion_form
        return suitable_form(annotations.n_annotations, annotations.n_annotators, annotations.n_classes)

    def _make_head(self, problem: Problem) -> CrowdHead:
        annotations = problem.annotations
        start = start_confusions(
            "identity" if self._as_published else self.start, annotations, diagonal=self.start_diagonal
        )
        everywhere = {"all": False, "touched": True, "auto": None}[self.annotator_updates]
        layer = make_annotator_layer(
            self._form(annotations), start, touched_only=False if self._as_published else everywhere
        )
        shares = torch.from_numpy(vote_class_shares(annotations)).float()
        regularizer = self._regularizer(problem)
        strength = DEFAULT_STRENGTHS.get(str(regularizer), 0.0) if self.strength == "auto" else float(self.strength)
        return GeometricHead(
            layer,
            loss="ccem" if self._as_published else self.loss,
            temper=self.evidence_temper,
            regularizer=regularizer,  # type: ignore[arg-type]
            strength=strength,
            shrinkage=0.0 if self._as_published else self.shrinkage,
            n_annotations=annotations.n_annotations if annotations.weight is None else float(annotations.weight.sum()),
            touch_rate=torch.from_numpy(problem.flat.touch_rate(problem.batch_size)),
            reference=self._as_published,
            class_shares=shares if self.class_shares == "votes" else None,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class SpeeLFC(CrowdClassifier):
    """Train a classifier through confusion matrices that are a softmax of free numbers, without any regulariser.

    Chen, Wang, Sun, Chen, Tsumoto and Tao, "Structured probabilistic end-to-end learning from crowds", IJCAI 2020.
    The loss is that of `GeoCrowdNet(regularizer=None, loss="ccem")`; only the start is nearer to the identity.

    Parameters
    ----------
    start_diagonal
        Probability of a right label at the start; the paper starts "close to the identity" without a number.
    """

    name: ClassVar[str] = "speelfc"
    _allowed: ClassVar = {"start_diagonal": PROBABILITY}

    start_diagonal: float = 0.9

    def _make_head(self, problem: Problem) -> CrowdHead:
        start = diagonal_confusions(problem.n_annotators, problem.n_classes, self.start_diagonal)
        return GeometricHead(FreeConfusions(start), loss="ccem", n_annotations=problem.annotations.n_annotations)
