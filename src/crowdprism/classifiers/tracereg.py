"""TraceReg: coupled cross-entropy plus the trace of the confusion matrices.

Tanno, Saeedi, Sankaranarayanan, Alexander and Silberman, "Learning from noisy labels by regularized estimation of
annotator confusion", CVPR 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks import Batch, CrowdHead, RowTable, confusion_trace, coupled_cross_entropy, log_columns
from crowdprism.networks.losses import label_cross_entropy
from crowdprism.parameters import OneOf, Real, Whole

SOFTPLUS_DIAGONAL, SOFTPLUS_REST = 1.0, -5.0  # the authors' start 6 I - 5: a diagonal of about 0.96


class TraceHead(CrowdHead):
    """-log Σ_k f_k C[k, label] per annotation, plus strength times the sum (or mean) of all traces.

    `touch_rate` is the probability that a batch contains each annotator: where only touched rows are updated, a row's
    trace is divided by it, so that over an epoch the gradients add up to those of the full term.
    """

    def __init__(self, method: TraceReg, n_annotators: int, n_classes: int, *, touch_rate: Tensor) -> None:
        super().__init__()
        self.positive = method.positive
        self.vote_epochs, self.voting = method.vote_epochs, method.vote_epochs > 0
        self.strength = method.strength / n_annotators if method.reduction == "mean" else method.strength
        eye = torch.eye(n_classes)
        start = SOFTPLUS_REST + (SOFTPLUS_DIAGONAL - SOFTPLUS_REST) * eye if self.positive == "softplus" else eye
        self.table = RowTable(start.expand(n_annotators, -1, -1))
        self.touch_rate: Tensor
        self.register_buffer("touch_rate", touch_rate.float(), persistent=False)

    def log_confusions(self, values: Tensor) -> Tensor:
        """Rows of free numbers -> log probabilities: softmax, or softplus divided by its sum."""
        if self.positive == "softmax":
            return torch.log_softmax(values, dim=-1)
        lifted = functional.softplus(values)
        return lifted.log() - lifted.sum(dim=-1, keepdim=True).log()

    def start_epoch(self, epoch: int) -> None:
        self.voting = epoch < self.vote_epochs

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        if self.voting:
            return label_cross_entropy(log_class_probs.index_select(0, batch.item), batch.label, batch.weight)
        columns = log_columns(self.log_confusions(self.table.rows(batch)), self.table.place(batch), batch.label)
        return coupled_cross_entropy(log_class_probs, columns, batch.item, batch.weight)

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        if self.voting or not self.strength:
            return {}
        confusions = self.log_confusions(self.table.rows(batch)).exp()
        if self.table.touched_only:
            confusions = confusions / self.touch_rate.index_select(0, batch.touched).view(-1, 1, 1)
        return {"trace": self.strength * confusion_trace(confusions)}

    @torch.no_grad()
    def confusions(self) -> Tensor:
        return self.log_confusions(self.table.values).exp()


@dataclass(kw_only=True, eq=False, repr=False)
class TraceReg(CrowdClassifier):
    """Train through confusion matrices whose diagonal is kept as small as the annotations allow.

    Where the average confusion is diagonally dominant this singles out the true ones.

    Parameters
    ----------
    strength
        Weight of the trace; the paper has 0.01.
    reduction
        `"mean"` over annotators as in the paper, or `"sum"`, with which the term grows with the number of annotators.
    positive
        `"softplus"`: rows are softplus of free numbers, normalised, from 6 I - 5 (the paper; a diagonal of 0.96).
        `"softmax"`: from identity logits, as in the comparison of Ibrahim et al. (2023).
    vote_epochs
        Epochs at the start that train the network on the labels themselves; 0 in the paper, 20 in the comparison.
    **training
        Parameters of `CrowdClassifier`; during `warm_start` (a share of all steps) the trace is left out.
    """

    name: ClassVar[str] = "tracereg"
    _allowed: ClassVar = {
        "strength": Real(0),
        "reduction": OneOf("mean", "sum"),
        "positive": OneOf("softplus", "softmax"),
        "vote_epochs": Whole(0),
    }

    strength: float = 0.01
    reduction: Literal["mean", "sum"] = "mean"
    positive: Literal["softplus", "softmax"] = "softplus"
    vote_epochs: int = 0

    def _make_head(self, problem: Problem) -> CrowdHead:
        touch_rate = torch.from_numpy(problem.flat.touch_rate(problem.batch_size))
        return TraceHead(self, problem.n_annotators, problem.n_classes, touch_rate=touch_rate)
