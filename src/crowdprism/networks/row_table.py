"""A table of free numbers with one row per annotator, of which a step may read and update only the rows it needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from crowdprism.networks.annotation_batch import Batch

ALL_ROWS_LIMIT = 2**14  # numbers; a smaller table costs less whole than gathered


@dataclass
class Pending:
    """Rows that took part in the current step: their positions and the leaf that collects their gradient."""

    touched: Tensor
    leaf: Tensor


class RowTable(nn.Module):
    """(n_rows, ...) parameters, either updated whole or only where a batch touches them.

    With `touched_only` false the table is one ordinary parameter. With `touched_only` true a step works on a copy of
    the touched rows; `crowdprism.training.RowAdam` reads the gradient of that copy and writes the rows back, so that
    neither time nor memory of a step depends on the number of rows.

    Examples
    --------
    >>> RowTable(torch.zeros(3, 2)).values.shape
    torch.Size([3, 2])
    """

    def __init__(self, start: Tensor, *, touched_only: bool | None = None) -> None:
        super().__init__()
        self.touched_only = start.numel() > ALL_ROWS_LIMIT if touched_only is None else touched_only
        self.values = nn.Parameter(start.clone(), requires_grad=not self.touched_only)
        self.pending: Pending | None = None

    def rows(self, batch: Batch) -> Tensor:
        """Return the rows that a step works on: all, or those touched, in the order of `place`."""
        if not self.touched_only:
            return self.values
        touched = self.touched(batch)
        if self.pending is None or self.pending.touched is not touched:
            leaf = self.values.detach().index_select(0, touched)
            self.pending = Pending(touched, leaf.requires_grad_(torch.is_grad_enabled()))
        return self.pending.leaf

    def give(self, batch: Batch, gradient: Tensor) -> None:
        """Leave the gradient of the working rows for `crowdprism.training.RowAdam`."""
        if self.touched_only:
            self.rows(batch).grad = gradient
        else:
            self.values.grad = gradient

    def working(self) -> tuple[Tensor, Tensor] | None:
        """Positions of the rows of the current step and their gradient; None where there is no gradient."""
        if not self.touched_only:
            return None if self.values.grad is None else (self.everything, self.values.grad)
        if self.pending is None or self.pending.leaf.grad is None:
            return None
        return self.pending.touched, self.pending.leaf.grad

    @cached_property
    def everything(self) -> Tensor:
        """Positions of all rows."""
        return torch.arange(len(self.values), device=self.values.device)

    def touched(self, batch: Batch) -> Tensor:
        """Positions of the rows that a batch touches, each once: the batch's annotators."""
        return batch.touched

    def place(self, batch: Batch) -> Tensor:
        """(annotation,) where each annotation's annotator stands in `rows`."""
        return batch.place if self.touched_only else batch.annotator

    def forget(self) -> None:
        """Drop the rows of the last step, so that the next reads the table afresh."""
        self.pending = None


class PairTable(RowTable):
    """(n_annotations, ...) parameters with one row per annotation that was made; always updated where touched."""

    def __init__(self, start: Tensor) -> None:
        super().__init__(start, touched_only=True)

    def touched(self, batch: Batch) -> Tensor:
        """Positions of the batch's annotations among all training annotations."""
        return batch.annotation

    def place(self, batch: Batch) -> Tensor:
        """(annotation,) where each annotation stands in `rows`; mixup repeats them."""
        return torch.arange(len(batch.item), device=batch.item.device) % max(1, len(batch.annotation))
