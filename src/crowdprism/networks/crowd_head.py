"""The crowd head: what a method adds to a network during training. The training loop knows nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crowdprism.networks.annotation_batch import Batch
from crowdprism.networks.row_table import RowTable

if TYPE_CHECKING:
    from crowdprism.networks.epoch_view import EpochView


class CrowdHead(nn.Module):
    """Base of all crowd heads; see `crowdprism.classifiers.base` for how a method is made of one.

    A subclass supplies `loss`, and may supply `penalties`, `confusions` and the hooks at the ends of epochs and
    steps. State that hooks keep between epochs belongs in registered buffers, so that checkpoints carry it.
    """

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        """Return the sum (not the mean) over the batch's annotations of their loss.

        Parameters
        ----------
        log_class_probs
            (batch, true class) log-softmax of the network's outputs.
        """
        raise NotImplementedError

    def count(self, batch: Batch) -> float:
        """Return the denominator that turns `loss` into a mean; by default the sum of annotation weights."""
        return batch.count

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """Return named terms to be added to the mean loss, strength included.

        The loop multiplies them by the ramp (0 during the warm start). It does not ask for them while the ramp is 0.
        """
        return {}

    @property
    def compilable(self) -> bool:
        """Whether there is a `compiled_step`."""
        return False

    def compiled_step(self, outputs: Tensor, batch: Batch, factor: float) -> tuple[dict[str, float], Tensor]:
        """Do what `loss` and `penalties` and their differentiation do, in compiled loops on the CPU.

        Returns the mean loss ("data") and the penalties times `factor`, and the gradient by the network's outputs.
        Gradients of the head's own parameters are left in place.
        """
        raise NotImplementedError

    @property
    def visited(self) -> NDArray[np.int64] | None:
        """Positions of the items that training visits; None for all. Read once, before the first epoch."""
        return None

    def start_epoch(self, epoch: int) -> None:
        """Be told that an epoch begins."""

    def transform(self, batch: Batch, random: np.random.Generator) -> Batch:
        """Change a batch before the network sees it, for methods that mix or expand items."""
        return batch

    def after_step(self, batch: Batch) -> None:
        """Be told that the optimiser has taken its step."""

    def end_epoch(self, view: EpochView) -> None:
        """Be told that an epoch is over; an EM-style method updates its targets and confusions here."""

    @torch.no_grad()
    def confusions(self) -> Tensor | None:
        """(annotator, true class, given label) with rows that sum to one, or None for methods without."""
        return None

    @cached_property
    def tables(self) -> list[RowTable]:
        """All row tables inside, in order."""
        return [part for part in self.modules() if isinstance(part, RowTable)]

    def forget(self) -> None:
        """Let all row tables read afresh."""
        for table in self.tables:
            table.forget()
