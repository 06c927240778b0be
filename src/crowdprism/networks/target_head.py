"""A crowd head that fits the network to class probabilities of the training items, kept or refreshed by a method."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crowdprism.networks.annotation_batch import Batch
from crowdprism.networks.crowd_head import CrowdHead


class TargetHead(CrowdHead):
    """Cross-entropy against one row of class probabilities per item.

    Two-stage methods set `targets` once; EM methods write new ones at the end of an epoch.

    Parameters
    ----------
    targets
        (n_items, n_classes), rows sum to one.
    used
        (n_items,) whether an item takes part in training at all; None for all.
    confusions
        (annotator, true class, given label) as known so far, or None.
    """

    def __init__(self, targets: Tensor, *, used: Tensor | None = None, confusions: Tensor | None = None) -> None:
        super().__init__()
        self.targets: Tensor
        self.known_confusions: Tensor | None
        self.register_buffer("targets", targets.float().clone())  # methods write into them
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
        return soft_cross_entropy(
            log_class_probs.index_select(0, batch.group_row), targets.repeat(2, 1), batch.group_weight
        )

    def count(self, batch: Batch) -> float:
        """Items: the loss is a mean per item."""
        return float(len(batch.index))

    @torch.no_grad()
    def confusions(self) -> Tensor | None:
        return self.known_confusions


def soft_cross_entropy(log_class_probs: Tensor, targets: Tensor, weight: Tensor | None = None) -> Tensor:
    """Sum over rows of -Σ_k target_k log f_k.

    Examples
    --------
    >>> round(float(soft_cross_entropy(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 0.0]]))), 4)  # log 2
    0.6931
    """
    each = -(targets * log_class_probs).sum(dim=1)
    return each.sum() if weight is None else (weight * each).sum()
