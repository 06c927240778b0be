"""Batches for the tests of networks."""

from __future__ import annotations

import torch

from crowdprism.networks import Batch


def make_batch(annotator: list[int], label: list[int], n_items: int = 3) -> Batch:
    codes = torch.tensor(annotator)
    return Batch(
        features=torch.zeros(n_items, 1),
        index=torch.arange(n_items),
        item=torch.arange(len(annotator)) % n_items,
        annotator=codes,
        label=torch.tensor(label),
        weight=None,
        count=float(len(annotator)),
        n_labelled=n_items,
        annotation=torch.arange(len(annotator)),
    )
