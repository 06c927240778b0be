"""The crowd head of GeoCrowdNet: annotations through confusions, plus a volume term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from crowdprism.networks import step_kernels
from crowdprism.networks.annotation_batch import Batch
from crowdprism.networks.annotator_layer import AnnotatorLayer, LogitConfusions
from crowdprism.networks.crowd_head import CrowdHead
from crowdprism.networks.losses import coupled_cross_entropy, joint_cross_entropy
from crowdprism.networks.volume import (
    confusion_gram,
    known_gradient,
    prediction_gram,
    prediction_volume,
    reference_log_volume,
    volume_and_slope,
)

Loss = Literal["ccem", "joint"]
Regularizer = Literal["F", "W"]
HEAVY_GRAM = 2**24  # multiplications from which on the touched rows' share of the Gram is not renewed at each step
RENEW_EVERY = 32  # steps between renewals of such a Gram
HEAVY_PULL = 2**26  # multiplications from which on the touched rows take turns in being pulled apart


class Share(NamedTuple):
    """Some of a step's rows, which stand for all: one of so many shares."""

    rows: slice
    of: int


class GeometricHead(CrowdHead):
    """Coupled cross-entropy with log-volume terms over predictions ("F") or confusions ("W").

    Parameters
    ----------
    layer
        The annotators' confusions.
    loss
        `"ccem"` sums -log Σ_k f_k C[k, label] over annotations; `"joint"` multiplies an item's evidence first.
    temper
        The n annotations of an item count as n^temper independent ones in the joint loss.
    regularizer, strength
        Which volume is maximised, and its weight against the mean loss (per annotation for `"ccem"`, per annotated
        item for `"joint"`).
    shrinkage
        Weight of the squared distance of an annotator's logits from the crowd's, in units of one annotation.
    n_annotations
        Number of training annotations, which `shrinkage` is divided by.
    touch_rate
        (annotator,) probability that a batch contains the annotator. Where only touched rows are updated, the volume
        and shrinkage gradients of an annotator are divided by it, so that over an epoch they add up to those of the
        full terms.
    reference
        Compute the volume as the authors' code does (see `reference_log_volume`), for comparison.
    """

    def __init__(
        self,
        layer: AnnotatorLayer,
        *,
        loss: Loss = "ccem",
        temper: float = 1.0,
        regularizer: Regularizer | None = None,
        strength: float = 0.0,
        shrinkage: float = 0.0,
        n_annotations: int = 1,
        touch_rate: Tensor | None = None,
        reference: bool = False,
    ) -> None:
        super().__init__()
        self.layer = layer
        self.kind = loss
        self.temper = temper
        self.regularizer = regularizer if strength else None
        self.strength = strength
        self.shrinkage = shrinkage / max(n_annotations, 1)
        self.reference = reference
        self.n_skipped = 0
        rate = torch.ones(layer.n_annotators) if touch_rate is None else touch_rate
        self.register_buffer("touch_rate", rate.float(), persistent=False)
        self.total_gram: Tensor | None = None  # of all annotators, where only touched rows are updated
        self._before: Tensor | None = None  # confusions of the touched rows before the step, where they are few
        self._used = False  # whether this step asked for the Gram
        self._age = 0  # steps since the Gram was recomputed
        self._turn = 0  # steps of the epoch in which the Gram was asked for
        self.touch_rate: Tensor

    # -- data term ------------------------------------------------------------------------------------------

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        columns = self.layer.log_columns(batch)
        if self.kind == "ccem":
            return coupled_cross_entropy(log_class_probs, columns, batch.item, batch.weight)
        if batch.group is None or batch.group_row is None:
            return joint_cross_entropy(log_class_probs, columns, batch.item, batch.weight, temper=self.temper)
        return joint_cross_entropy(
            log_class_probs.index_select(0, batch.group_row),
            columns,
            batch.group,
            batch.evidence_weight,
            temper=self.temper,
            group_weight=batch.group_weight,
        )

    def count(self, batch: Batch) -> float:
        """Annotations for the coupled loss, which is a mean per annotation; items for the joint one."""
        return batch.count if self.kind == "ccem" else float(batch.n_labelled)

    # -- a whole step in compiled loops ----------------------------------------------------------------------

    @property
    def compilable(self) -> bool:
        return isinstance(self.layer, LogitConfusions) and not self.reference

    @torch.no_grad()
    def compiled_step(self, outputs: Tensor, batch: Batch, factor: float) -> tuple[dict[str, float], Tensor]:
        """Return the mean loss and the penalties, and their gradient by the network's outputs.

        The gradient by the annotators' rows is left with the table (and with `common` of the pooled form).
        """
        layer, strength = self.layer, factor * self.strength
        assert isinstance(layer, LogitConfusions)
        confusions = layer.block_confusions(batch)
        volume = self.regularizer if strength else None
        pulled = self._pulled(confusions) if volume == "W" else None
        before = confusions[pulled.rows].clone() if pulled else confusions  # the step writes over them
        done = step_kernels.crowd_step(
            outputs,
            confusions,
            layer.table.place(batch),
            batch.label,
            batch.item,
            batch.weight,
            count=self.count(batch),
            temper=None if self.kind == "ccem" else self.temper,
            volume=strength if volume == "F" else 0.0,
        )
        values, gradient = {"data": done.loss}, done.by_logit
        if volume == "F":
            values["volume"] = -strength * done.volume
        elif pulled:
            value, pull = self._confusion_pull(before, pulled, batch)
            values["volume"] = -strength * float(value)
            step_kernels.add_pull(gradient[pulled.rows], before, pull, strength)
        if layer.common is not None:
            layer.common.grad = gradient.sum(dim=0)
        if self.shrinkage and factor:
            shift = layer.shift(batch)
            back = shift * self._row_scale(batch).mul_(factor * self.shrinkage).view(-1, 1, 1)
            values["shrinkage"] = 0.5 * float(torch.vdot(shift.flatten(), back.flatten()))
            gradient.add_(back)
        layer.table.give(batch, gradient)
        return values, done.by_output

    # -- penalties ------------------------------------------------------------------------------------------

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        terms: dict[str, Tensor] = {}
        if self.regularizer == "F":
            terms["volume"] = -self.strength * self._prediction_volume(log_class_probs)
        elif self.regularizer == "W":
            terms["volume"] = self._confusion_volume(batch)
        if self.shrinkage:
            terms["shrinkage"] = self.shrinkage * (self._row_scale(batch) * self.layer.deviation(batch)).sum()
        return terms

    def _prediction_volume(self, log_class_probs: Tensor) -> Tensor:
        if self.reference:
            return self._reference_volume(prediction_gram(log_class_probs.exp()))
        return prediction_volume(log_class_probs)

    def _reference_volume(self, gram: Tensor) -> Tensor:
        value, skipped = reference_log_volume(gram.float())
        self.n_skipped += skipped
        return value

    def _row_scale(self, batch: Batch) -> Tensor:
        """(rows,) by how much a working row's penalty is enlarged because it is not seen at each step."""
        if not self.layer.table.touched_only:
            return torch.ones_like(self.touch_rate)
        return 1.0 / self.touch_rate.index_select(0, batch.touched)

    def _confusion_volume(self, batch: Batch) -> Tensor:
        """-strength log det(Wᵀ W): exact where all rows are at hand, else with the gradient of the touched rows.

        For touched rows the total Gram is kept up to date and taken as constant; what depends on the rows is the
        first-order change 2 <G⁻¹ C_m, C_m>, which has exactly the gradient of log det G.
        """
        block = self.layer.block_confusions(batch)
        if self.reference:
            return -self.strength * self._reference_volume(confusion_gram(block.double()))
        share = self._pulled(block)
        part = block[share.rows]
        return -self.strength * known_gradient(part, *self._confusion_pull(part.detach(), share, batch))

    def _pulled(self, block: Tensor) -> Share:
        """Which of the working rows are pulled apart in this step: all, or where that is much work some, in turn.

        Rows stand in the order in which shuffled items name them, turns in that of the steps: every row has the same
        chance, and the pull of some, times the number of shares, is on average that of all.
        """
        work = block.numel() * block.shape[-1]
        n_shares = max(1, -(-work // HEAVY_PULL)) if self.layer.table.touched_only else 1
        turn, size = self._turn % n_shares, -(-len(block) // n_shares)
        return Share(slice(turn * size, (turn + 1) * size), n_shares)

    @torch.no_grad()
    def _confusion_pull(self, part: Tensor, share: Share, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return log det of the Gram of all confusions, and its gradient by `part`, those of the share's rows."""
        if not self.layer.table.touched_only:
            value, slope = volume_and_slope(confusion_gram(part.double()))
            return value, torch.matmul((2.0 * slope).to(part.dtype), part)
        value, slope = volume_and_slope(self._total())
        self._used = True
        self._before = part if part.numel() * part.shape[-1] <= HEAVY_GRAM and share.of == 1 else None
        pull = torch.matmul((2.0 * slope).to(part.dtype), part)  # d log det / d C_m
        return value, pull.mul_(self._row_scale(batch)[share.rows].mul_(share.of).view(-1, 1, 1))

    # -- the running Gram -----------------------------------------------------------------------------------

    def _total(self) -> Tensor:
        if self.total_gram is None:
            self.total_gram, self._age = self.layer.gram(), 0
        return self.total_gram

    def start_epoch(self, epoch: int) -> None:
        """Let the Gram be recomputed from all annotators, so that rounding does not add up over epochs."""
        self.total_gram = self._before = None
        self._turn = 0

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        """Replace the touched annotators' share of the Gram by their share after the update.

        Shared parts (pooled, skill) moved too; their effect on annotators that were not touched waits for the next
        epoch's recomputation. Where classes are many, renewing the share at each step would cost more than the step
        itself, and the whole Gram is recomputed every few steps instead.
        """
        if self.regularizer != "W" or not self.layer.table.touched_only:
            return
        used, before = self._used, self._before
        self._used, self._before = False, None
        if not used:
            self.total_gram = None  # it was not asked for in this step, and is not kept up
        elif self.total_gram is not None and before is not None:
            after = self.layer.log_confusions(batch.touched).exp()
            self.total_gram += (confusion_gram(after) - confusion_gram(before)).double()
        elif self._age + 1 >= RENEW_EVERY:
            self.total_gram = None
        self._age += 1
        self._turn += 1

    @torch.no_grad()
    def confusions(self) -> Tensor:
        return self.layer.confusions()
