"""What a crowd head may look at when an epoch ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn


@dataclass(eq=False)
class EpochView:
    """The state of training at the end of an epoch, computed only where asked for.

    Attributes
    ----------
    epoch
        Number of the epoch that ended, from 0.
    item, annotator, label, weight
        (annotation,) all training annotations: positions of items among the training items, annotator and label
        codes, weights or None.
    network
        The network, whose weights a hook may read or, for methods that re-initialise it, write.
    """

    epoch: int
    item: Tensor
    annotator: Tensor
    label: Tensor
    weight: Tensor | None
    network: nn.Module
    evaluate: Callable[[], Tensor]

    @cached_property
    def log_class_probs(self) -> Tensor:
        """(n_items, true class) predictions for all training items, in evaluation mode."""
        return self.evaluate()
