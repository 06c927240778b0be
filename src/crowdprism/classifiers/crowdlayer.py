"""Free matrices on top of the classifier's output: one per annotator (CrowdLayer), one beside a common one (CoNAL), or
one for the labels of all annotators together (Union-Net).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks import Batch, CrowdHead, RowTable, coupled_cross_entropy
from crowdprism.networks.build import seeded
from crowdprism.networks.losses import label_cross_entropy
from crowdprism.parameters import FLAG, OneOf, Real, Whole
from crowdprism.seeding import torch_stream
from crowdprism.training import TrainingSettings

VARIANTS = ("MW", "VW", "VB", "VW+B", "SW")


class CrowdLayerHead(CrowdHead):
    """P(annotator's label | x) = softmax(g_m(σ)), where σ are the class probabilities of the network."""

    def __init__(self, variant: str, n_annotators: int, n_classes: int, *, scale: float, vote_epochs: int) -> None:
        super().__init__()
        self.variant, self.n_annotators, self.n_classes = variant, n_annotators, n_classes
        self.vote_epochs, self.voting = vote_epochs, vote_epochs > 0
        starts: dict[str, Tensor] = {}
        if variant == "MW":  # (annotator, true class, given label)
            starts["weight"] = scale * torch.eye(n_classes).expand(n_annotators, -1, -1)
        elif variant != "VB":
            starts["weight"] = torch.full((n_annotators, 1 if variant == "SW" else n_classes), scale)
        if variant in ("VB", "VW+B"):
            starts["bias"] = torch.zeros(n_annotators, n_classes)
        self.parts = nn.ModuleDict({name: RowTable(start) for name, start in starts.items()})

    def start_epoch(self, epoch: int) -> None:
        self.voting = epoch < self.vote_epochs

    def transformed(self, probs: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        """g_m(σ) for rows of class probabilities and the parameters of the annotator of each row."""
        logits = probs
        if weight is not None:
            logits = torch.bmm(probs.unsqueeze(1), weight).squeeze(1) if weight.ndim == 3 else probs * weight
        return logits if bias is None else logits + bias

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        if self.voting:
            return label_cross_entropy(log_class_probs.index_select(0, batch.item), batch.label, batch.weight)
        probs = log_class_probs.exp().index_select(0, batch.item)
        tables: Any = self.parts.items()
        rows = {name: table.rows(batch).index_select(0, table.place(batch)) for name, table in tables}
        logits = self.transformed(probs, **rows)
        return label_cross_entropy(torch.log_softmax(logits, dim=1), batch.label, batch.weight)

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """What each annotator would say of an item whose class is certain: softmax(g_m(e_k))."""
        sure = torch.eye(self.n_classes, device=next(self.parameters()).device)
        learned: Any = {name: table.values for name, table in self.parts.items()}
        rows = [self.transformed(one.expand(self.n_annotators, -1), **learned) for one in sure]
        return torch.softmax(torch.stack(rows, dim=1), dim=2)


@dataclass(kw_only=True, eq=False, repr=False)
class CrowdLayer(CrowdClassifier):
    """Put a layer with parameters of each annotator behind the classifier, and train all on the annotations.

    Rodrigues and Pereira, "Deep learning from crowds", AAAI 2018. The layer's weights are no probabilities:
    `confusions_` are softmax(g_m(e_k)), its answers where a class is certain.

    Parameters
    ----------
    variant
        `"MW"`: a matrix per annotator (the paper's strongest), `"VW"`: a weight per class, `"VB"`: a bias per class,
        `"VW+B"`: both, `"SW"`: one scale.
    start_scale
        Weights start at this times the identity. The paper has 1, from which the softmax of probabilities is nearly
        flat; 2 holds the classes apart (Music 66.2 -> 70.8 %, LabelMe unchanged).
    vote_epochs
        Epochs at the start in which the network is trained on the labels themselves; the paper's classification
        experiments have 0, the authors' sequence demonstration 5.
    **training
        Parameters of `CrowdClassifier`. The paper: Adam at 1e-3, batches of 64, 50 epochs, no weight decay.
    """

    name: ClassVar[str] = "crowdlayer"
    _allowed: ClassVar = {"variant": OneOf(*VARIANTS), "start_scale": Real(0), "vote_epochs": Whole(0)}

    variant: Literal["MW", "VW", "VB", "VW+B", "SW"] = "MW"
    start_scale: float = 2.0
    vote_epochs: int = 0

    def _make_head(self, problem: Problem) -> CrowdHead:
        sizes = problem.n_annotators, problem.n_classes
        return CrowdLayerHead(self.variant, *sizes, scale=self.start_scale, vote_epochs=self.vote_epochs)


GATE_WIDTH = 128  # of the layer between an item's features and its embedding, as in the paper
GATE_MEMORY = 0.95  # share of the old value in the running mean of an annotator's gate
SMALLEST_NORM = 1e-12


class CommonNoiseHead(CrowdHead):
    """Logits of an annotator's label: ω (Wᵀ f) + (1 - ω) (W_mᵀ f), with the gate ω = sigmoid(<v_item, u_annotator>)."""

    reads_features = True

    def __init__(
        self, method: CoNAL, sizes: tuple[int, int, int], *, touch_rate: Tensor, generator: torch.Generator
    ) -> None:
        super().__init__()
        n_annotators, n_classes, n_features = sizes
        self.strength, embedding = method.strength, method.embedding
        start = method.start_scale * torch.eye(n_classes)
        self.common = nn.Parameter(start.clone())  # (true class, given label)
        self.individual = RowTable(start.expand(n_annotators, -1, -1))
        self.item_gate = seeded(
            lambda: nn.Sequential(nn.Linear(n_features, GATE_WIDTH), nn.Linear(GATE_WIDTH, embedding)), generator
        )
        bound = 1 / math.sqrt(n_annotators)  # a linear layer on one-hot annotators, as torch starts it
        drawn = torch.empty(n_annotators, embedding).uniform_(-bound, bound, generator=generator)
        self.annotator_gate = RowTable(drawn)
        self.touch_rate = nn.Buffer(touch_rate.float(), persistent=False)
        self.mean_gate = nn.Buffer(torch.full((n_annotators,), 0.5))

    def gates(self, batch: Batch) -> Tensor:
        """(annotation,) share of the common noise; both embeddings have length one, so it lies in 0.27 .. 0.73."""
        of_items = functional.normalize(self.item_gate(batch.features.flatten(1)), dim=1)
        table = self.annotator_gate
        of_annotators = functional.normalize(table.rows(batch), dim=1).index_select(0, table.place(batch))
        return torch.sigmoid((of_items.index_select(0, batch.item) * of_annotators).sum(dim=1))

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        gate = self.gates(batch)
        probs = log_class_probs.exp().index_select(0, batch.item)
        own = self.individual.rows(batch).index_select(0, self.individual.place(batch))
        individual = torch.bmm(probs.unsqueeze(1), own).squeeze(1)
        logits = gate.unsqueeze(1) * (probs @ self.common) + (1 - gate).unsqueeze(1) * individual
        self._remember(gate.detach(), batch)
        return label_cross_entropy(torch.log_softmax(logits, dim=1), batch.label, batch.weight)

    @torch.no_grad()
    def _remember(self, gate: Tensor, batch: Batch) -> None:
        """Keep a running mean of each annotator's gate, for `confusions`."""
        weight = torch.ones_like(gate) if batch.weight is None else batch.weight
        sums = gate.new_zeros(len(batch.touched)).index_add_(0, batch.place, gate * weight)
        totals = gate.new_zeros(len(batch.touched)).index_add_(0, batch.place, weight)
        old = self.mean_gate.index_select(0, batch.touched)
        means = torch.where(totals > 0, sums / totals, old)
        self.mean_gate.index_copy_(0, batch.touched, torch.lerp(means, old, GATE_MEMORY))

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """-strength Σ_m ||W_m - W||: individual noise is pushed away from the common one."""
        if not self.strength:
            return {}
        apart = (self.individual.rows(batch) - self.common).square().sum(dim=(1, 2))
        # The norm has no gradient at zero, where training starts.
        norms = torch.where(apart > 0, apart.clamp_min(SMALLEST_NORM).sqrt(), 0.0)
        if self.individual.touched_only:
            norms = norms / self.touch_rate.index_select(0, batch.touched)
        return {"distance": -self.strength * norms.sum()}

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """What each annotator says of an item whose class is certain, at the annotator's mean gate."""
        gate = self.mean_gate.view(-1, 1, 1)
        return torch.softmax(gate * self.common + (1 - gate) * self.individual.values, dim=-1)


@dataclass(kw_only=True, eq=False, repr=False)
class CoNAL(CrowdClassifier):
    """Model noise that all annotators share beside each annotator's own, and train a classifier through both.

    Chu, Ma and Wang, "Learning from crowds by modeling common confusions", AAAI 2021. `confusions_` are what the model
    answers for an item whose class is certain, at the mean gate of each annotator.

    Parameters
    ----------
    strength
        Weight of the distance between common and individual noise, which is maximised; the paper has 1e-5.
    embedding
        Length of the embeddings of items and annotators in the gate; 20 in the paper (80 for Music).
    start_scale
        Both kinds of noise start at this times the identity; the paper has 2.
    one_step_per_epoch
        Take a single step per epoch, as an earlier port did whose published numbers are low for that reason.
    **training
        Parameters of `CrowdClassifier`. The paper (LabelMe): Adam at 0.01, batches of 1024, 100 epochs.
    """

    name: ClassVar[str] = "conal"
    _allowed: ClassVar = {
        "strength": Real(0),
        "embedding": Whole(1),
        "start_scale": Real(0),
        "one_step_per_epoch": FLAG,
    }

    strength: float = 1e-5
    embedding: int = 20
    start_scale: float = 2.0
    one_step_per_epoch: bool = False

    def _settings(self, problem: Problem) -> TrainingSettings:
        return replace(super()._settings(problem), max_batches=1 if self.one_step_per_epoch else None)

    def _make_head(self, problem: Problem) -> CrowdHead:
        sizes = (problem.n_annotators, problem.n_classes, math.prod(problem.items.shape))
        touch_rate = torch.from_numpy(problem.flat.touch_rate(problem.batch_size))
        generator = torch_stream(problem.seed, "gate", problem.member)
        return CommonNoiseHead(self, sizes, touch_rate=touch_rate, generator=generator)


BLOCK = 2**12  # columns of scores formed at once: with a hundred items they stay in the processor's cache


class _LogSumOfScores(torch.autograd.Function):
    """(batch,) log Σ_c exp(Σ_k f_k T[k, c]) over all columns c, by blocks; the many scores are never kept."""

    @staticmethod
    def forward(ctx: Any, probs: Tensor, transition: Tensor) -> Tensor:
        # No score exceeds f's average of the rows' largest entries, so that nothing overflows below it.
        bound = probs @ transition.amax(dim=1)
        total = torch.zeros_like(bound)
        for block in torch.split(transition, BLOCK, dim=1):
            total += torch.addmm(bound.unsqueeze(1), probs, block, beta=-1).exp_().sum(dim=1)
        total = total.log_().add_(bound)
        if not total.isfinite().all():  # entries so far apart that a row's sum vanished below the bound
            total = torch.logsumexp(probs @ transition, dim=1)
        ctx.save_for_backward(probs, transition, total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        probs, transition, total = ctx.saved_tensors
        weighted = gradient.unsqueeze(1) * probs
        by_probs, by_transition = torch.zeros_like(probs), torch.empty_like(transition)
        blocks = (torch.split(whole, BLOCK, dim=1) for whole in (transition, by_transition))
        for block, into in zip(*blocks, strict=True):
            share = torch.addmm(total.unsqueeze(1), probs, block, beta=-1).exp_()  # of a column in an item's sum
            by_probs.addmm_(share, block.T)
            torch.mm(weighted.T, share, out=into)
        return by_probs.mul_(gradient.unsqueeze(1)), by_transition


class UnionHead(CrowdHead):
    """P(annotator and label | x) over all annotators x labels: T f(x), T normalised (B), or softmax(T f(x)) (A)."""

    def __init__(
        self, variant: str, n_annotators: int, n_classes: int, *, off_diagonal: float, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.variant = variant
        eye = torch.eye(n_classes)
        block = (1 - off_diagonal) * eye + off_diagonal / (n_classes - 1) * (1 - eye)
        # True classes in rows, all annotators' labels in columns: sums over columns then read memory in order.
        self.values = nn.Parameter(scale * block.repeat(1, n_annotators))  # (true class, annotator x given label)

    def by_annotator(self, values: Tensor) -> Tensor:
        """(true class, annotator x given label) -> (annotator, true class, given label)."""
        return values.view(len(values), -1, len(values)).transpose(0, 1)

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        chosen = self.values.index_select(1, batch.annotator * len(self.values) + batch.label).T
        if self.variant == "B":
            columns = chosen - torch.logsumexp(self.values, dim=1)  # (annotation, true class)
            return coupled_cross_entropy(log_class_probs, columns, batch.item, batch.weight)
        probs = log_class_probs.exp()
        totals: Tensor = _LogSumOfScores.apply(probs, self.values)  # type: ignore[no-untyped-call]
        scores = (probs.index_select(0, batch.item) * chosen).sum(dim=1)
        log_probs = scores - totals.index_select(0, batch.item)
        return -log_probs.sum() if batch.weight is None else -(log_probs * batch.weight).sum()

    def count(self, batch: Batch) -> float:
        """Items: an item with many annotations weighs more, as in the paper."""
        return float(batch.n_labelled)

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """Each annotator's share of the transition, normalised: softmax of its rows."""
        return torch.softmax(self.by_annotator(self.values), dim=-1)


@dataclass(kw_only=True, eq=False, repr=False)
class UnionNet(CrowdClassifier):
    """Treat all annotations of an item as one answer, predicted through one transition over annotators and labels.

    Wei, Xie, Feng, Han and An, "Deep learning from multiple noisy annotators as a union", IEEE TNNLS 2022. The
    transition also encodes how often each annotator labels. The normaliser sums over all annotators at each step: with
    very many of them `geocrowdnet` or `crowdlayer` is the better choice.

    Parameters
    ----------
    variant
        `"B"`: the transition's columns are distributions. `"A"`: free numbers, with a softmax over the output.
    off_diagonal
        Each annotator's block starts at (1 - off_diagonal) on the diagonal and the rest spread evenly, before any
        softmax; the paper has 1e-5.
    start_scale
        Blocks start at this times that; the paper has 1, which after the softmax is nearly uniform.
    """

    name: ClassVar[str] = "unionnet-b"
    _allowed: ClassVar = {"variant": OneOf("A", "B"), "off_diagonal": Real(0, 1, below=True), "start_scale": Real(0)}

    variant: Literal["A", "B"] = "B"
    off_diagonal: float = 1e-5
    start_scale: float = 1.0

    def _method_name(self, problem: Problem) -> str:
        return f"unionnet-{self.variant.lower()}"

    def _make_head(self, problem: Problem) -> CrowdHead:
        sizes = problem.n_annotators, problem.n_classes
        return UnionHead(self.variant, *sizes, off_diagonal=self.off_diagonal, scale=self.start_scale)
