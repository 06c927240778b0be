"""CrowdLayer: each annotator's own transformation on top of the classifier's output, learned with it.

Rodrigues and Pereira, "Deep learning from crowds", AAAI 2018.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks import Batch, CrowdHead, RowTable
from crowdprism.networks.losses import label_cross_entropy
from crowdprism.parameters import Allowed, OneOf, Real, Whole

VARIANTS = ("MW", "VW", "VB", "VW+B", "SW")


class CrowdLayerHead(CrowdHead):
    """P(annotator's label | x) = softmax(g_m(σ)), where σ are the class probabilities of the network.

    The variants of g_m: "MW" a full matrix, "VW" a weight per class, "VB" a bias per class, "VW+B" both, "SW" one
    scale. Weights start at the identity (ones), biases at zero.
    """

    def __init__(self, variant: str, n_annotators: int, n_classes: int, *, scale: float, vote_epochs: int) -> None:
        super().__init__()
        self.variant = variant
        self.n_annotators, self.n_classes = n_annotators, n_classes
        self.vote_epochs = vote_epochs
        self.voting = vote_epochs > 0
        eye = torch.eye(n_classes)
        starts: dict[str, Tensor] = {}
        if variant == "MW":
            starts["weight"] = scale * eye.expand(n_annotators, -1, -1)  # (annotator, true class, given label)
        if variant in ("VW", "VW+B"):
            starts["weight"] = torch.full((n_annotators, n_classes), scale)
        if variant in ("VB", "VW+B"):
            starts["bias"] = torch.zeros(n_annotators, n_classes)
        if variant == "SW":
            starts["weight"] = torch.full((n_annotators, 1), scale)
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
        rows = {
            name: table.rows(batch).index_select(0, table.place(batch))  # type: ignore[operator]
            for name, table in self.parts.items()
        }
        logits = self.transformed(
            log_class_probs.exp().index_select(0, batch.item), rows.get("weight"), rows.get("bias")
        )
        return label_cross_entropy(torch.log_softmax(logits, dim=1), batch.label, batch.weight)

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """What each annotator would say of an item whose class is certain: softmax(g_m(e_k))."""
        sure = torch.eye(self.n_classes, device=next(self.parameters()).device)
        values = {name: table.values for name, table in self.parts.items()}
        rows = [
            self.transformed(sure[k].expand(self.n_annotators, -1), values.get("weight"), values.get("bias"))  # type: ignore[arg-type]
            for k in range(self.n_classes)
        ]
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
    The layer's weights are no probabilities. `confusions_` are what the layer answers for an item whose class is
    certain, softmax(g_m(e_k)).
    """

    name: ClassVar[str] = "crowdlayer"
    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "variant": OneOf(*VARIANTS),
        "start_scale": Real(0),
        "vote_epochs": Whole(0),
    }

    variant: Literal["MW", "VW", "VB", "VW+B", "SW"] = "MW"
    start_scale: float = 2.0
    vote_epochs: int = 0

    def _make_head(self, problem: Problem) -> CrowdHead:
        return CrowdLayerHead(
            self.variant, problem.n_annotators, problem.n_classes, scale=self.start_scale, vote_epochs=self.vote_epochs
        )
