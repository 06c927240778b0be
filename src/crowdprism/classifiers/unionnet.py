"""Union-Net: the labels of all annotators as one long answer, predicted through one transition matrix.

Wei, Xie, Feng, Han and An, "Deep learning from multiple noisy annotators as a union", IEEE TNNLS 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks import Batch, CrowdHead, coupled_cross_entropy
from crowdprism.parameters import OneOf, Real

BLOCK = 2**12  # columns of scores formed at once: with a hundred items they stay in the processor's cache


class _LogSumOfScores(torch.autograd.Function):
    """(batch,) log Σ_c exp(Σ_k f_k T[k, c]) over all columns c, a block of columns at a time.

    The (batch, annotators x labels) scores are never kept: they would be written and read several times, and at ten
    thousand annotators they are what a step costs. Backward forms them again.
    """

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
    """P(annotator and label | x) over all annotators x labels, for one draw from the union of an item's annotations.

    "B": T f(x), where each true class's part of T is a distribution over all annotators and labels.
    "A": softmax(T f(x)) over all annotators and labels, T free.
    """

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

    def log_transition(self) -> Tensor:
        """(annotator, true class, given label) log probabilities of variant B: one per true class over all others."""
        return self.by_annotator(self.values - torch.logsumexp(self.values, dim=1, keepdim=True))

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

    The transition also encodes how often each annotator labels. The normaliser sums over all annotators at each step:
    with very many of them `geocrowdnet` or `crowdlayer` is the better choice.

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
