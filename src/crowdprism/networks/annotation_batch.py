"""What one training step sees: features of some items and the flat list of their annotations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Items of one step with their annotations, as flat tensors.

    Attributes
    ----------
    features
        (batch, ...) what the network sees.
    index
        (batch,) position of each row among the training items.
    item, annotator, label
        (annotation,) row of the batch, annotator code, label code.
    weight
        (annotation,) or None where all count 1.
    count
        Sum of the weights: the denominator of a mean per annotation. Not zero even for a batch without annotations.
    n_labelled
        Number of items with annotations: the denominator of a mean per item; at least 1.
    annotation
        Position of each annotation among all training annotations, for parameters that belong to single annotations.
        Mixup repeats annotations, but not these.
    distinct
        `touched` and `place`, where they are known already.
    group, group_row, group_weight, evidence_weight
        Annotations that are evidence about the same item share a `group`; `group_row` is the batch row of each
        group. None where groups are the rows themselves; mixup makes two groups per row, with weights. Annotations
        within a group then count by `evidence_weight`, as `weight` already holds the share of the mixture.
    partner, share
        Where single annotations are mixed in pairs: the annotation that each is mixed with, and its own share. Rows
        are then annotations. None elsewhere.
    """

    features: Tensor
    index: Tensor
    item: Tensor
    annotator: Tensor
    label: Tensor
    weight: Tensor | None
    count: float
    n_labelled: int
    annotation: Tensor
    distinct: tuple[Tensor, Tensor] | None = None
    group: Tensor | None = None
    group_row: Tensor | None = None
    group_weight: Tensor | None = None
    partner: Tensor | None = None
    share: Tensor | None = None
    evidence_weight: Tensor | None = None

    @cached_property
    def _distinct(self) -> tuple[Tensor, Tensor]:
        if self.distinct is not None:
            return self.distinct
        touched, place = torch.unique(self.annotator, return_inverse=True)
        return touched, place

    @property
    def touched(self) -> Tensor:
        """The distinct annotators of the batch."""
        return self._distinct[0]

    @property
    def place(self) -> Tensor:
        """(annotation,) position of each annotation's annotator in `touched`."""
        return self._distinct[1]
