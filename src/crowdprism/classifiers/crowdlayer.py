"""CrowdLayer: each annotator's own transformation on top of the classifier's output, learned with it.

Rodrigues and Pereira, "Deep learning from crowds", AAAI 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks import Batch, CrowdHead, RowTable
from crowdprism.networks.losses import label_cross_entropy
from crowdprism.parameters import OneOf, Real, Whole

VARIANTS = ("MW", "VW", "VB", "VW+B", "SW")


class CrowdLayerHead(CrowdHead):
    """P(annotator's label | x) = softmax(g_m(σ)), where σ are the class probabilities of the network."""

    def __init__(self, variant: str, n_annotators: int, n_classes: int, *, scale: float, vote_epochs: int) -> None:
        super().__init__()
        self.variant, self.n_annotators, self.n_classes = variant, n_annotators, n_classes
        self.vote_epochs, self.voting = vote_epochs, vote_epochs > 0
        starts: dict[str, Tensor] = {}
        if variant == "MW":  # (annotator, true class, given label)
            starts["weight"] = scale * torch.eye(n_classes).expand(n_annotators, -1, -1)
        elif variant != "VB":
            starts["weight"] = torch.full((n_annotators, 1 if variant == "SW" else n_classes), scale)
        if variant in ("VB", "VW+B"):
            starts["bias"] = torch.zeros(n_annotators, n_classes)
        self.parts = nn.ModuleDict({name: RowTable(start) for name, start in starts.items()})

    def start_epoch(self, epoch: int) -> None:
        self.voting = epoch < self.vote_epochs

    def transformed(self, probs: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """g_m(σ) for rows of class probabilities and the parameters of the annotator of each row."""
        logits = probs
        if weight is not None:
            logits = torch.bmm(probs.unsqueeze(1), weight).squeeze(1) if weight.ndim == 3 else probs * weight
        return logits if bias is None else logits + bias

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        if self.voting:
            return label_cross_entropy(log_class_probs.index_select(0, batch.item), batch.label, batch.weight)
        probs = log_class_probs.exp().index_select(0, batch.item)
        rows = {
            name: table.rows(batch).index_select(0, table.place(batch))  # type: ignore[operator]
            for name, table in self.parts.items()
        }
        logits = self.transformed(probs, rows.get("weight"), rows.get("bias"))
        return label_cross_entropy(torch.log_softmax(logits, dim=1), batch.label, batch.weight)

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """What each annotator would say of an item whose class is certain: softmax(g_m(e_k))."""
        sure = torch.eye(self.n_classes, device=next(self.parameters()).device)
        values = {name: table.values for name, table in self.parts.items()}
        learned: Any = (values.get("weight"), values.get("bias"))
        rows = [self.transformed(one.expand(self.n_annotators, -1), *learned) for one in sure]
        return torch.softmax(torch.stack(rows, dim=1), dim=2)


@dataclass(kw_only=True, eq=False, repr=False)
class CrowdLayer(CrowdClassifier):
    """Put a layer with parameters of each annotator behind the classifier, and train all on the annotations.

    Parameters
    ----------
    variant
        `"MW"`: a matrix per annotator (the paper's strongest), `"VW"`: a weight per class, `"VB"`: a bias per class,
        `"VW+B"`: both, `"SW"`: one scale.
    start_scale
        Weights start at this times the identity. The paper has 1, from which the softmax of probabilities is nearly
        flat; 2 holds the classes apart (Music 66.2 -> 70.8 %, LabelMe unchanged).
    vote_epochs
        Epochs at the start in which the network is trained on the labels themselves; the paper's classification
        experiments have 0, the authors' sequence demonstration 5.
    **training
        Parameters of `CrowdClassifier`. The paper: Adam at 1e-3, batches of 64, 50 epochs, no weight decay.

    Notes
    -----
    The layer's weights are no probabilities: `confusions_` are softmax(g_m(e_k)), its answers where a class is certain.
    """

    name: ClassVar[str] = "crowdlayer"
    _allowed: ClassVar = {"variant": OneOf(*VARIANTS), "start_scale": Real(0), "vote_epochs": Whole(0)}

    variant: Literal["MW", "VW", "VB", "VW+B", "SW"] = "MW"
    start_scale: float = 2.0
    vote_epochs: int = 0

    def _make_head(self, problem: Problem) -> CrowdHead:
        return CrowdLayerHead(
            self.variant, problem.n_annotators, problem.n_classes, scale=self.start_scale, vote_epochs=self.vote_epochs
        )
