"""Crowd heads: what a method adds to a network during training. The training loop knows nothing else of a method.

`CrowdHead` is the interface, `GeometricHead` that of GeoCrowdNet, `TargetHead` that of methods which fit the network to
class probabilities of the training items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crowdprism.networks import losses
from crowdprism.networks.annotator_layer import AnnotatorLayer, RowTable
from crowdprism.networks.losses import Batch, confusion_gram, joint_cross_entropy, log_volume, soft_cross_entropy

PREDICTION_MEMORY = 0.9  # of the running mean of predictions, per step
RAREST_CLASS = 1e-4  # a smaller mean prediction counts as this
RENEW_EVERY = 32  # steps between renewals of the Gram of all confusions, where a step updates only some


@dataclass(eq=False)
class EpochView:
    """The state of training at the end of an epoch, with all training annotations as flat tensors."""

    epoch: int  # that ended, from 0
    item: Tensor  # (annotation,) position among the training items
    annotator: Tensor  # (annotation,)
    label: Tensor  # (annotation,)
    weight: Tensor | None  # (annotation,) or None where all count 1
    network: nn.Module  # whose weights a hook may read or, for methods that re-initialise it, write
    evaluate: Callable[[], Tensor]

    @property
    def given(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        return self.item, self.annotator, self.label, self.weight

    @cached_property
    def log_class_probs(self) -> Tensor:
        """(n_items, true class) predictions for all training items, in evaluation mode; computed if asked for."""
        return self.evaluate()


class CrowdHead(nn.Module):
    """Base of all crowd heads: a subclass supplies `loss`, and may supply `penalties`, `confusions` and hooks.

    State that hooks keep between epochs belongs in registered buffers, so that checkpoints carry it.
    """

    needs_only_outputs = True  # of the network; else processes cannot share the items of a batch
    reads_features = False  # of the whole batch; else processes read those of their own items only
    item_state: tuple[str, ...] = ()  # names of the state that belongs to the training items; other items begin anew

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        """The sum (not the mean) over the batch's annotations; `log_class_probs` are (batch, true class)."""
        raise NotImplementedError

    n_models = 1  # that one batch trains (see `StackedHead`)

    def known_loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        """Return the sum over items of known class of -log f_class; only called where `batch.gold` is there."""
        return losses.known_cross_entropy(log_class_probs, batch)

    def count(self, batch: Batch) -> float:
        """Return the denominator that turns `loss` into a mean; by default the sum of annotation weights."""
        return batch.count

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """Named terms, strength included, added to the mean loss times the ramp; not asked for while that is 0."""
        return {}

    @property
    def visited(self) -> NDArray[np.int64] | None:
        """Positions of the items that training visits; None for all. Read once, before the first epoch."""
        return None

    def start_epoch(self, epoch: int) -> None:
        """Called at the start of each epoch."""

    def transform(self, batch: Batch, random: np.random.Generator) -> Batch:
        """Change a batch before the network sees it, for methods that mix or expand items."""
        return batch

    def after_step(self, batch: Batch) -> None:
        """Called after each step of the optimiser."""

    def end_epoch(self, view: EpochView) -> None:
        """Called at the end of each epoch; an EM-style method updates its targets and confusions here."""

    @torch.no_grad()
    def confusions(self) -> Tensor | None:
        """(annotator, true class, given label) with rows that sum to one, or None for methods without."""
        return None

    @cached_property
    def tables(self) -> list[RowTable]:
        return [part for part in self.modules() if isinstance(part, RowTable)]

    def forget(self) -> None:
        for table in self.tables:
            table.forget()


class GeometricHead(CrowdHead):
    """Coupled cross-entropy with log-volume terms over predictions ("F") or confusions ("W").

    Where a step sees only its batch's annotators, gradients of the terms are divided by the `touch_rate`.
    """

    def __init__(
        self,
        layer: AnnotatorLayer,
        *,
        loss: Literal["ccem", "joint"] = "ccem",  # "joint" multiplies an item's evidence before the logarithm
        temper: float = 1.0,  # the n annotations of an item count as n^temper independent ones in the joint loss
        regularizer: Literal["F", "W"] | None = None,  # which volume is maximised ...
        strength: float = 0.0,  # ... with this weight against the mean loss (per annotation, or per item for "joint")
        shrinkage: float = 0.0,  # of annotators' logits towards the crowd's, in units of one annotation
        n_annotations: float = 1,  # sum of the weights of training annotations, which `shrinkage` is divided by
        touch_rate: Tensor | None = None,  # (annotator,) probability that a batch contains the annotator
        reference: bool = False,  # whether the volume is that of the authors' code (see `reference_log_volume`)
        class_shares: Tensor | None = None,  # (n_classes,) towards which the mean prediction is drawn
    ) -> None:
        super().__init__()
        self.layer, self.kind, self.temper, self.reference = layer, loss, temper, reference
        self.regularizer, self.strength = regularizer if strength else None, strength
        self.shrinkage, self.n_skipped = shrinkage / max(n_annotations, 1), 0
        rate = torch.ones(layer.n_annotators) if touch_rate is None else touch_rate
        self.touch_rate = nn.Buffer(rate.float(), persistent=False)
        self.class_shares: Tensor | None
        self.mean_prediction: Tensor | None
        self.register_buffer("class_shares", class_shares, persistent=False)
        self.register_buffer("mean_prediction", None if class_shares is None else class_shares.clone())
        self._renewed: tuple[Tensor, Tensor] | None = None  # volume of all confusions, and its gradient by their Gram
        self._age = 0  # steps that have used it

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        columns = self.layer.log_columns(batch)
        if self.kind == "ccem":
            return losses.coupled_cross_entropy(log_class_probs, columns, batch.item, batch.weight)
        if batch.group is None or batch.group_row is None:
            return joint_cross_entropy(log_class_probs, columns, batch.item, batch.weight, temper=self.temper)
        by_group = (log_class_probs.index_select(0, batch.group_row), columns, batch.group, batch.evidence_weight)
        return joint_cross_entropy(*by_group, temper=self.temper, group_weight=batch.group_weight)

    def count(self, batch: Batch) -> float:
        """Annotations for the coupled loss, which is a mean per annotation; items for the joint one."""
        return batch.count if self.kind == "ccem" else float(batch.n_labelled)

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        terms: dict[str, Tensor] = {}
        if self.regularizer == "F":
            terms["volume"] = -self.strength * self._volume(losses.prediction_gram(log_class_probs.exp()))
        elif self.regularizer == "W":
            terms["volume"] = -self.strength * self._confusion_volume(batch)
        if self.shrinkage:
            squares = self.layer.deviation(batch).square()
            whole = not self.layer.table.touched_only
            terms["shrinkage"] = 0.5 * self.shrinkage * (squares.sum() if whole else self._over_all(squares, batch))
        if self.class_shares is not None and self.mean_prediction is not None:
            # The gradient of the cross-entropy of the shares and the mean prediction over many batches.
            mean = log_class_probs.exp().mean(dim=0)
            self.mean_prediction.lerp_(mean.detach(), 1 - PREDICTION_MEMORY)
            terms["class_shares"] = -(self.class_shares / self.mean_prediction.clamp_min(RAREST_CLASS) * mean).sum()
        return terms

    def _volume(self, gram: Tensor) -> Tensor:
        if not self.reference:
            return log_volume(gram)
        value, dropped = losses.reference_log_volume(gram.float())
        self.n_skipped += int(dropped)
        return value

    def _over_all(self, term: Tensor, batch: Batch) -> Tensor:
        """Sum (touched, ...) terms, enlarged because rows are not touched at each step."""
        return (term.view(len(term), -1).sum(dim=1) / self.touch_rate.index_select(0, batch.touched)).sum()

    def _confusion_volume(self, batch: Batch) -> Tensor:
        """log det(Wᵀ W); where only touched rows are at hand, the last renewal's value with the gradient 2 S C_m."""
        block = self.layer.block_log_confusions(batch).exp()
        if self.layer.forms_all:
            return self._volume(confusion_gram(block))
        value, slope = self._volume_of_all()
        quadratic = self._over_all(torch.matmul(slope, block) * block, batch)
        return value + (quadratic - quadratic.detach())

    def _volume_of_all(self) -> tuple[Tensor, Tensor]:
        """Log volume of all confusions and its gradient by their Gram, renewed every few steps."""
        if self._renewed is None or self._age >= RENEW_EVERY:
            gram = self.layer.gram().requires_grad_()
            with torch.enable_grad():
                value = log_volume(gram)
            (slope,) = torch.autograd.grad(value, gram)
            self._renewed, self._age = (value.detach(), slope.to(self.touch_rate.dtype)), 0
        self._age += 1
        return self._renewed

    def start_epoch(self, epoch: int) -> None:
        """Renew the Gram with the first step, so that a resumed run takes the same steps."""
        self._renewed = None

    @torch.no_grad()
    def confusions(self) -> Tensor:
        return self.layer.confusions()


class TargetHead(CrowdHead):
    """Cross-entropy against one row of class probabilities per item, which EM methods renew at the end of an epoch."""

    item_state: tuple[str, ...] = ("targets",)

    def __init__(
        self,
        targets: Tensor,  # (n_items, n_classes), rows sum to one
        *,
        used: Tensor | None = None,  # (n_items,) whether an item takes part in training at all; None for all
        confusions: Tensor | None = None,  # (annotator, true class, given label) as known so far
    ) -> None:
        super().__init__()
        self.known_confusions: Tensor | None
        self.targets = nn.Buffer(targets.float().clone())  # methods write into them
        self.register_buffer("known_confusions", None if confusions is None else confusions.float().clone())
        self.used = None if used is None else used.cpu().numpy()

    @property
    def visited(self) -> NDArray[np.int64] | None:
        """Positions of the items that are trained on."""
        return None if self.used is None else np.flatnonzero(self.used)

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        targets = self.targets.index_select(0, batch.index)
        if batch.group_row is None or batch.group_weight is None:
            return soft_cross_entropy(log_class_probs, targets)
        # Mixup: every item stands twice, once in its own row and once in its partner's.
        by_group = log_class_probs.index_select(0, batch.group_row)
        return soft_cross_entropy(by_group, targets.repeat(2, 1), batch.group_weight)

    def count(self, batch: Batch) -> float:
        """Items: the loss is a mean per item."""
        return float(len(batch.index))

    @torch.no_grad()
    def confusions(self) -> Tensor | None:
        return self.known_confusions
