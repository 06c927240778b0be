"""A classifier and every annotator's confusion matrix, learned together: GeoCrowdNet, SpeeLFC and a Gaussian process.

Ibrahim, Nguyen and Fu, "Deep learning from crowdsourced labels: coupled cross-entropy minimization, identifiability,
and regularization", ICLR 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from crowdprism.annotations import Annotations
from crowdprism.classifiers import fitting
from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import NetworkPlan, Problem
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import Batch, CrowdHead, Dropout, FreeConfusions, GeometricHead, diagonal_confusions
from crowdprism.networks.annotator_layer import FORMS, make_annotator_layer, suitable_form
from crowdprism.networks.build import last_linear
from crowdprism.parameters import PROBABILITY, OneOf, Real, Whole
from crowdprism.seeding import stream
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
        "start": OneOf(*fitting.STARTS),
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
        if fitting.is_imbalanced(annotations) or self._form(annotations) == "skill":
            return None
        return "W" if annotations.n_annotators * annotations.n_classes >= problem.flat.n_items else "F"

    def _advice(self, problem: Problem) -> Iterable[str]:
        if self.regularizer == "F" and self.strength != 0:
            way_out = "Use regularizer='auto' or None."
            yield from fitting.imbalance_advice(problem.annotations, "regularizer='F'", way_out)

    def _method_name(self, problem: Problem) -> str:
        chosen = self._regularizer(problem)
        return self.name if chosen is None else f"{self.name}-{chosen.lower()}"

    @property
    def _as_published(self) -> bool:
        return self.mode == "paper"

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

    def _form(self, annotations: Annotations) -> str:
        if self._as_published:
            return "free"
        if self.confusion_form != "auto":
            return self.confusion_form
        return suitable_form(annotations.n_annotations, annotations.n_annotators, annotations.n_classes)

    def _make_head(self, problem: Problem) -> CrowdHead:
        annotations, paper = problem.annotations, self._as_published
        start = fitting.start_confusions("identity" if paper else self.start, annotations, diagonal=self.start_diagonal)
        touched_only = {"all": False, "touched": True, "auto": None}["all" if paper else self.annotator_updates]
        layer = make_annotator_layer(self._form(annotations), start, touched_only=touched_only)
        shares = torch.from_numpy(fitting.vote_class_shares(annotations)).float()
        regularizer = self._regularizer(problem)
        strength = DEFAULT_STRENGTHS.get(str(regularizer), 0.0) if self.strength == "auto" else float(self.strength)
        return GeometricHead(
            layer,
            loss="ccem" if paper else self.loss,
            temper=self.evidence_temper,
            regularizer=regularizer,  # type: ignore[arg-type]
            strength=strength,
            shrinkage=0.0 if paper else self.shrinkage,
            n_annotations=annotations.n_annotations if annotations.weight is None else float(annotations.weight.sum()),
            touch_rate=torch.from_numpy(problem.flat.touch_rate(problem.batch_size)),
            reference=paper,
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


JITTER = 1e-4  # on the diagonal of the kernel of the inducing points, in units of its variance


class SparseProcess(nn.Module):
    """One latent function per class at inducing points, with a normal distribution over its whitened values."""

    def __init__(self, n_features: int, n_classes: int, n_inducing: int) -> None:
        super().__init__()
        self.inducing = nn.Buffer(torch.zeros(n_inducing, n_features))
        self.log_length, self.log_amplitude = nn.Parameter(torch.zeros(())), nn.Parameter(torch.tensor(math.log(2.0)))
        self.mean = nn.Parameter(torch.zeros(n_inducing, n_classes))
        self.log_std = nn.Parameter(torch.zeros(n_inducing, n_classes))
        self.coin = Dropout(0.5)

    def place(self, points: Tensor) -> None:
        """Put the inducing points at these items, and the length of the kernel at their median distance."""
        with torch.no_grad():
            self.inducing.copy_(points)
            self.log_length.copy_(torch.pdist(self.inducing).median().clamp_min(JITTER).log())

    def kernel(self, first: Tensor, second: Tensor) -> Tensor:
        """Squared-exponential kernel of unit variance: (n_first, n_second)."""
        squares = (first.unsqueeze(1) - second.unsqueeze(0)).square().sum(dim=2)
        return torch.exp(-squares / (2 * torch.exp(2 * self.log_length)))

    def moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent functions at items: (batch, n_classes) each."""
        among = self.kernel(self.inducing, self.inducing)
        factor = torch.linalg.cholesky(among + JITTER * torch.eye(len(among), device=among.device))
        weights = torch.linalg.solve_triangular(factor, self.kernel(self.inducing, features), upper=False).T
        left = (1 - weights.square().sum(dim=1, keepdim=True)).clamp_min(0)
        variance = left + weights.square() @ torch.exp(2 * self.log_std)
        return self.log_amplitude.exp() * (weights @ self.mean), torch.exp(2 * self.log_amplitude) * variance

    def forward(self, features: Tensor) -> Tensor:
        """(batch, ...) -> (batch, n_classes) logits: mean ± deviation in training, moderated by the variance at use."""
        mean, variance = self.moments(features.flatten(1))
        if self.training:
            side: Tensor = self.coin(torch.ones_like(mean)) - 1  # 1 or -1
            return mean + (variance + JITTER).sqrt() * side
        return mean / (1 + math.pi / 8 * variance).sqrt()

    def divergence(self) -> Tensor:
        """Of the whitened values' distribution from their prior, the standard normal."""
        return (torch.exp(2 * self.log_std) + self.mean.square() - 1 - 2 * self.log_std).sum() / 2


class ProcessHead(GeometricHead):
    """The joint likelihood of an item's labels, and the divergence from the prior per labelled item."""

    needs_only_outputs = False

    def __init__(self, process: SparseProcess, start: Tensor, *, n_labelled: int) -> None:
        super().__init__(FreeConfusions(start), loss="joint", shrinkage=1.0, n_annotations=n_labelled)
        self._process, self.n_labelled = [process], n_labelled  # in a list: its parameters are not the head's

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        divergence = self._process[0].divergence() / self.n_labelled
        return {**super().penalties(log_class_probs, batch), "divergence": divergence}


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianProcess(CrowdClassifier):
    """Classify by a sparse variational Gaussian process, with a confusion matrix for every annotator.

    Rodrigues, Pereira and Ribeiro, "Gaussian process classification and active learning with multiple annotators", ICML
    2014; here for several classes, variational and sparse (Hensman, Matthews and Ghahramani 2015): the values at fixed
    inducing items are independent in the approximation, and a step costs what its batch does, not the cube of the
    items. For few items with few features, and where doubt far from all items matters.

    Parameters
    ----------
    n_inducing
        Items, drawn at random, at which the latent functions are kept; more are finer and slower.
    start_diagonal
        Probability of a right label at the start.
    """

    name: ClassVar[str] = "gaussian-process"
    rate_ratio: ClassVar[float] = 3.0
    _allowed: ClassVar = {"n_inducing": Whole(2), "start_diagonal": PROBABILITY}

    n_inducing: int = 50
    start_diagonal: float = 0.7
    network: Any = "linear"
    learning_rate: float = 3e-2
    weight_decay: float = 0.0
    warm_start: float = 0.0

    def _check_parameters(self, problem: Problem) -> None:
        if self.network != "linear":
            raise InvalidParameterError(
                "The process takes the place of the network: leave network='linear'.", parameter="network"
            )

    def _extend_network(self, network: nn.Module, plan: NetworkPlan, generator: torch.Generator) -> nn.Module:
        return SparseProcess(last_linear(network)[1].in_features, plan.n_classes, self.n_inducing)

    def _make_head_for(self, network: nn.Module, problem: Problem) -> CrowdHead:
        assert isinstance(network, SparseProcess)
        drawn = stream(problem.seed, "inducing", problem.member).permutation(len(problem.items))
        index = drawn[torch.arange(self.n_inducing).numpy() % len(drawn)]
        network.place(next(iter(problem.items.batches([index], None))).flatten(1).float())
        start = diagonal_confusions(problem.n_annotators, problem.n_classes, self.start_diagonal)
        n_labelled = int((problem.annotations.labels_per_item > 0).sum())
        return ProcessHead(network, start, n_labelled=n_labelled)
