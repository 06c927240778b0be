"""The crowd head of GeoCrowdNet: annotations through confusions, plus a volume term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from crowdprism.networks.annotator_layer import AnnotatorLayer
from crowdprism.networks.batch import Batch
from crowdprism.networks.crowd_head import CrowdHead
from crowdprism.networks.losses import coupled_cross_entropy, joint_cross_entropy
from crowdprism.networks.volume import confusion_gram, log_volume, prediction_gram, reference_log_volume

Loss = Literal["ccem", "joint"]
Regularizer = Literal["F", "W"]


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
        self.register_buffer("total_gram", None, persistent=False)
        self.total_gram: Tensor | None
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

    # -- penalties ------------------------------------------------------------------------------------------

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        terms: dict[str, Tensor] = {}
        if self.regularizer == "F":
            terms["volume"] = -self.strength * self._volume(prediction_gram(log_class_probs.exp()))
        elif self.regularizer == "W":
            terms["volume"] = self._confusion_volume(batch)
        if self.shrinkage:
            terms["shrinkage"] = self.shrinkage * (self._row_scale(batch) * self.layer.deviation(batch)).sum()
        return terms

    def _volume(self, gram: Tensor) -> Tensor:
        if not self.reference:
            return log_volume(gram)
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
        block = self.layer.block_log_confusions(batch).exp()
        if not self.layer.table.touched_only:
            return -self.strength * self._volume(confusion_gram(block.double()))
        gram = self._total().requires_grad_()
        value = log_volume(gram)
        (slope,) = torch.autograd.grad(value, gram)
        pull = 2.0 * torch.matmul(slope.to(block.dtype), block.detach())  # d log det / d C_m
        change = (self._row_scale(batch) * (pull * block).sum(dim=(1, 2))).sum()
        return -self.strength * (value.detach() + change - change.detach())

    # -- the running Gram -----------------------------------------------------------------------------------

    def _total(self) -> Tensor:
        if self.total_gram is None:
            self.total_gram = self.layer.gram()
        return self.total_gram.detach().clone()

    def _keeps_gram(self) -> bool:
        return self.regularizer == "W" and self.layer.table.touched_only

    def start_epoch(self, epoch: int) -> None:
        """Recompute the Gram from all annotators, so that rounding does not add up over epochs."""
        self.total_gram = self.layer.gram() if self._keeps_gram() else None

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        """Replace the touched annotators' share of the Gram by their share after the update."""
        pending = self.layer.table.pending
        if not self._keeps_gram() or self.total_gram is None or pending is None:
            return
        # `leaf` still holds the rows as they were before the optimiser wrote the table. Shared parts (pooled, skill)
        # moved too; their effect on annotators that were not touched waits for the next epoch's recomputation.
        before = self.layer.block_log_confusions(batch).exp()
        after = self.layer.log_confusions(batch.touched).exp()
        self.total_gram += (confusion_gram(after) - confusion_gram(before)).double()

    @torch.no_grad()
    def confusions(self) -> Tensor:
        return self.layer.confusions()
