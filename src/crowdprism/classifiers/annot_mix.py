"""annot-mix: confusions that depend on item and annotator, trained on mixtures of (item, annotator, label) triples.

Herde, Lührs, Huseljic and Sick, "Annot-Mix: learning with noisy class labels from multiple annotators via a mixup
extension", ECAI 2024.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem, Run
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import Batch, CrowdHead, Dropout, RowTable
from crowdprism.networks.annotator_layer import diagonal_logit
from crowdprism.networks.build import EmbeddingTap, seeded, set_generator
from crowdprism.networks.losses import confusion_trace, log_rows
from crowdprism.parameters import PROBABILITY, Real
from crowdprism.seeding import torch_stream

WIDTH = 128  # of the annotators' and items' parts of the confusion network, as in the paper
DROPOUT = 0.5
EMBEDDING_MEMORY = 0.95  # share of the old value in the running mean of embeddings
CONFUSION_CHUNK = 2**22  # numbers of confusions formed at once


class AnnotatorMixHead(CrowdHead):
    """log Σ_k f_k(x) C(x, m)[k, label], with C from a small network of annotator and (detached) item embedding."""

    needs_only_outputs = False

    def __init__(
        self, method: AnnotMix, tap: EmbeddingTap, n_annotators: int, n_classes: int, *, seed: int, member: int
    ) -> None:
        super().__init__()
        self.tap, self.alpha, self.n_classes = tap, method.alpha, n_classes
        self.seed, self.member = seed, member
        generator = torch_stream(seed, "confusions", member)
        annotators = seeded(lambda: nn.Linear(n_annotators, WIDTH), generator)  # on one-hot annotators; kept as rows
        self.of_annotator = RowTable(annotators.weight.detach().T.contiguous())  # type: ignore[operator]
        self.of_item = seeded(lambda: nn.Linear(tap.width, WIDTH), generator)
        self.mixer = seeded(
            lambda: nn.Sequential(
                Dropout(DROPOUT),
                nn.Linear(2 * WIDTH, WIDTH),
                nn.BatchNorm1d(WIDTH),
                nn.ReLU(),
                nn.Linear(WIDTH, n_classes**2),
            ),
            generator,
        )
        with torch.no_grad():
            start = diagonal_logit(method.start_diagonal, n_classes) * torch.eye(n_classes)
            self.mixer[-1].bias.copy_(start.flatten())  # type: ignore[index]
        self.mean_embedding = nn.Buffer(torch.zeros(tap.width))

    def start_epoch(self, epoch: int) -> None:
        device = str(self.mean_embedding.device)
        set_generator(self.mixer, torch_stream(self.seed, "confusion dropout", self.member, epoch, device=device))

    def transform(self, batch: Batch, random: np.random.Generator) -> Batch:
        """Make one row per annotation and mix each with another: features, annotators and labels by the same share."""
        if not self.alpha or len(batch.label) < 2:
            return batch
        n, device = len(batch.label), batch.features.device
        share = torch.from_numpy(random.beta(self.alpha, self.alpha, size=n)).float().to(device)
        partner = torch.from_numpy(random.permutation(n)).to(device)
        features = batch.features.index_select(0, batch.item)
        wide = share.view(-1, *[1] * (features.ndim - 1))
        return replace(
            batch,
            features=wide * features + (1 - wide) * features.index_select(0, partner),
            index=batch.index.index_select(0, batch.item),
            item=torch.arange(n, device=device),
            partner=partner,
            share=share,
            gold=None if batch.gold is None else batch.gold.index_select(0, batch.item),
        )

    def log_confusions_of(self, annotator: Tensor, embedding: Tensor) -> Tensor:
        """(rows, WIDTH) annotators and (rows, width) embeddings -> (rows, true class, given label)."""
        joined = torch.cat([annotator, self.of_item(embedding)], dim=1)
        for part in self.mixer.children():
            if isinstance(part, nn.BatchNorm1d) and len(joined) < 2:  # a lone row has no variance: use past ones
                past = (part.running_mean, part.running_var, part.weight, part.bias)
                joined = functional.batch_norm(joined, *past, False, 0.0, part.eps)
            else:
                joined = part(joined)
        return log_rows(joined.view(-1, self.n_classes, self.n_classes))

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        assert self.tap.value is not None
        embedding = self.tap.value.detach().float()
        if not len(batch.label):
            return 0.0 * log_class_probs.sum()
        self.mean_embedding.lerp_(embedding.mean(dim=0), 1 - EMBEDDING_MEMORY)
        rows = self.of_annotator.rows(batch).index_select(0, self.of_annotator.place(batch))
        if batch.partner is not None and batch.share is not None:
            share = batch.share.unsqueeze(1)
            rows = share * rows + (1 - share) * rows.index_select(0, batch.partner)
        log_confusions = self.log_confusions_of(rows, embedding.index_select(0, batch.item))
        log_probs = log_class_probs.index_select(0, batch.item).unsqueeze(2)
        log_labels = torch.logsumexp(log_probs + log_confusions, dim=1)  # (annotation, given label)
        own = log_labels.gather(1, batch.label.unsqueeze(1)).squeeze(1)
        weight = torch.ones_like(own) if batch.weight is None else batch.weight
        if batch.partner is None or batch.share is None:
            return -(weight * own).sum()
        others = batch.label.index_select(0, batch.partner)
        other = log_labels.gather(1, others.unsqueeze(1)).squeeze(1)
        return -(weight * batch.share * own + weight[batch.partner] * (1 - batch.share) * other).sum()

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """Of the average item: what each annotator does at the mean embedding."""
        was_training = self.training
        self.eval()
        chunks = torch.split(self.of_annotator.values, max(1, CONFUSION_CHUNK // self.n_classes**2))
        parts = [self.log_confusions_of(rows, self.mean_embedding.expand(len(rows), -1)).exp() for rows in chunks]
        self.train(was_training)
        return torch.cat(parts)


@dataclass(kw_only=True, eq=False, repr=False)
class AnnotMix(CrowdClassifier):
    """Mix pairs of annotations (items, annotators and labels alike) and train classifier and confusions on them.

    Confusions depend on the item; `confusions_` are those of the average item.

    Parameters
    ----------
    alpha
        Parameter of the Beta distribution of the shares; the paper has 1. 0 turns mixing off.
    start_diagonal
        Probability of a right label at the start; the paper has 0.9.
    **training
        Parameters of `CrowdClassifier`; RAdam and its rates are the paper's (weight decay 0 for Music, batches of 64).
        The paper's network for Music is `network="mlp", network_options={"hidden": (256, 128), "batch_norm": True}`:
        73.7 instead of 71.3 %. On fixed features of images `input_noise=1.0` takes the place of the paper's random
        crops (LabelMe 81.5 -> 86.1 %).
    """

    name: ClassVar[str] = "annot-mix"
    rate_ratio: ClassVar[float] = 1.0  # the confusions are a network too
    _allowed: ClassVar = {"alpha": Real(0), "start_diagonal": PROBABILITY}

    alpha: float = 1.0
    start_diagonal: float = 0.9
    optimizer: str = "radam"
    learning_rate: float = 1e-2
    weight_decay: float | Literal["auto"] = 1e-4

    def _check_parameters(self, problem: Problem) -> None:
        if self.alpha and self.mixup:
            raise InvalidParameterError(
                "annot-mix mixes annotations itself: leave mixup at 0, or set alpha=0.", parameter="mixup"
            )

    def _make_head_for(self, network: nn.Module, problem: Problem) -> CrowdHead:
        sizes = problem.n_annotators, problem.n_classes
        return AnnotatorMixHead(self, EmbeddingTap(network), *sizes, seed=problem.seed, member=problem.member)

    def _after_training(self, run: Run) -> None:
        assert isinstance(run.head, AnnotatorMixHead)
        run.head.tap.remove()


class SecondNetworkHead(AnnotatorMixHead):
    """The confusions of annot-mix without mixing; their mean trace is kept small, so that errors stay in them."""

    strength: float = 0.0
    latest: Tensor | None = None  # (annotation, true class, given label) of the step

    def log_confusions_of(self, annotator: Tensor, embedding: Tensor) -> Tensor:
        self.latest = super().log_confusions_of(annotator, embedding)
        return self.latest

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        if not self.strength or self.latest is None or not len(batch.label):
            return {}
        return {"trace": self.strength * confusion_trace(self.latest.exp()) / len(self.latest)}

    @torch.no_grad()
    def confusions(self) -> Tensor:
        found = super().confusions()
        self.latest = None
        return found


@dataclass(kw_only=True, eq=False, repr=False)
class InstanceConfusions(AnnotMix):
    """Train a classifier, and beside it a network from items and annotators to confusion matrices.

    Zhang, Tanno, Xu, Jin, Jacob, Ciccarelli, Barkhof and Alexander, "Disentangling human error from the ground truth in
    segmentation of medical images", NeurIPS 2020: confusions C(item, annotator), and their trace as a penalty. For
    annotators whose errors depend on the item, not only on its class. `confusions_` are those of the average item.

    Parameters
    ----------
    strength
        Weight of the mean trace of the confusions; the paper has 0.01.
    start_diagonal, alpha
        As in `AnnotMix`; an `alpha` of 0 mixes nothing.
    """

    name: ClassVar[str] = "instance-confusions"
    rate_ratio: ClassVar[float] = 0.1  # a second network as quick as the first would explain the classes away
    _allowed: ClassVar = {"strength": Real(0)}

    alpha: float = 0.0
    strength: float = 0.01

    def _make_head_for(self, network: nn.Module, problem: Problem) -> CrowdHead:
        sizes = problem.n_annotators, problem.n_classes
        head = SecondNetworkHead(self, EmbeddingTap(network), *sizes, seed=problem.seed, member=problem.member)
        head.strength = self.strength
        head.mixer[0].share = 0.0  # type: ignore[index]  # dropout is annot-mix's
        return head
