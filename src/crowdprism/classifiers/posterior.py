"""Predictions of trained networks, what annotators' labels add to them, and whether both agree on the classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor, nn

from crowdprism.aggregators.copies import describe_found, voices_of
from crowdprism.aggregators.one_voice import label_shares, named
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import NameArray, positions
from crowdprism.diagnostics.calibration import with_temperature
from crowdprism.errors import InvalidAnnotationsError, some
from crowdprism.results.confusion import class_alignment, mean_confusion, normalize_rows
from crowdprism.results.fit_result import FitResult
from crowdprism.training import InputScaling, Items, predict_log_probs

if TYPE_CHECKING:
    from crowdprism.classifiers.base import CrowdClassifier
    from crowdprism.classifiers.fitting import Prepared, Run

SMALLEST = 1e-12  # probabilities below this are taken as this in logs
TOLERANCE = 0.01  # agreement may rise by this much through alignment before it counts as a permutation


@dataclass(frozen=True)
class Member:
    """One trained network with the confusions learned beside it."""

    network: nn.Module
    order: NDArray[np.int64]  # brings the network's outputs into the order of the classes (see `ClassAlignment`)
    confusions: NDArray[Any] | None  # already in that order


@dataclass(frozen=True)
class Predictor:
    """All that a fitted classifier predicts with."""

    members: tuple[Member, ...]  # their class probabilities are averaged
    scaling: InputScaling  # applied to raw features
    input_shape: tuple[int, ...]  # of one item
    architecture: Any  # name of the network, or the user's own module or function
    temperature: float = 1.0  # of the averaged probabilities

    @property
    def device(self) -> torch.device:
        parameter = next(self.members[0].network.parameters(), None)
        return torch.device("cpu") if parameter is None else parameter.device

    def class_probs(self, items: Items) -> NDArray[np.float64]:
        each = [network_probs(member.network, items)[:, member.order] for member in self.members]
        return mean_class_probs(each, self.temperature)


def network_probs(network: nn.Module, items: Items) -> NDArray[np.float64]:
    return np.asarray(predict_log_probs(network, items).double().exp().numpy())


def mean_class_probs(each: Sequence[NDArray[np.float64]], temperature: float = 1.0) -> NDArray[np.float64]:
    """Average the class probabilities of several networks, and bring the average to a temperature."""
    total: NDArray[np.float64] = sum(each, start=np.zeros(()))
    average = np.asarray(total / total.sum(axis=1, keepdims=True))
    return average if temperature == 1 else with_temperature(average, temperature)


class ClassProbabilities(nn.Module):
    """Raw features (batch, ...) -> class probabilities (batch, n_classes); depends on torch alone."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.scaling, self.temperature = predictor.scaling, predictor.temperature
        self.networks = nn.ModuleList(member.network for member in predictor.members)
        self.orders = nn.Buffer(torch.from_numpy(np.stack([member.order for member in predictor.members])))

    def forward(self, features: Tensor) -> Tensor:
        scaled = self.scaling(features)
        pairs = zip(self.networks, self.orders, strict=True)
        parts = [torch.softmax(network(scaled).float(), dim=-1).index_select(1, order) for network, order in pairs]
        average = torch.stack(parts).mean(dim=0).clamp_min(SMALLEST)
        return torch.softmax(average.log() / self.temperature, dim=-1)


def known_confusions(confusions: NDArray[Any], labels_per_annotator: NDArray[Any]) -> NDArray[np.float64]:
    """Confusions in which annotators without labels have that of the crowd's average label."""
    has_labels = np.asarray(labels_per_annotator)[:, None, None] > 0
    return np.where(has_labels, confusions, mean_confusion(confusions, labels_per_annotator))


def class_codes(annotations: Annotations, classes: NameArray) -> NDArray[np.int64]:
    """Return the codes of these annotations' classes among `classes`; a class that was never seen is an error."""
    codes = positions(classes, annotations.classes.tolist())
    used = np.unique(annotations.label)
    unknown = annotations.classes[used[codes[used] < 0]]
    if len(unknown):
        raise InvalidAnnotationsError(
            f"{len(unknown)} classes are unknown to this model: {some(unknown.tolist())}. "
            f"It knows {some(classes.tolist())}."
        )
    return codes


def log_evidence(
    annotations: Annotations,
    confusions: NDArray[Any],  # (annotator, true class, given label)
    known: Annotations | FitResult,  # whose annotators and classes the confusions are about
) -> NDArray[np.float64]:
    """(annotation, true class) log probability of each given label; annotators never seen get the crowd's confusion."""
    place = positions(known.annotators, annotations.annotators.tolist())
    n_labels = np.asarray(known.labels_per_annotator)
    seen = ((place >= 0) & (n_labels[place] > 0))[annotations.annotator]
    label = class_codes(annotations, known.classes)[annotations.label]
    crowd = mean_confusion(confusions, n_labels)[:, label].T
    columns = np.where(seen[:, None], confusions[place[annotations.annotator], :, label], crowd)
    return np.asarray(np.log(np.maximum(columns, SMALLEST)))


def posterior(
    class_probs: NDArray[Any], annotations: Annotations, columns: NDArray[Any], *, temper: float = 1.0, voices: Any = ()
) -> NDArray[np.float64]:
    """f times the annotators' evidence, normalised; n annotations of an item count as n^temper, voices once."""
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
    if voices:
        weight = (weight * label_shares(annotations, voices)).astype(np.float32)
    total = np.bincount(annotations.item, weights=weight, minlength=annotations.n_items)
    discount = np.maximum(total, 1.0) ** (temper - 1.0)
    log_joint = np.log(np.maximum(class_probs, SMALLEST))
    np.add.at(log_joint, annotations.item, columns * (weight * discount[annotations.item])[:, None])
    return np.asarray(np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True)))


def mean_log_likelihood(class_probs: NDArray[Any], annotations: Annotations, columns: NDArray[Any]) -> float:
    """Mean over annotations of log Σ_k f_k C[k, label], by weight."""
    log_probs = np.log(np.maximum(class_probs, SMALLEST))
    each = logsumexp(log_probs[annotations.item] + columns, axis=1)
    return float(np.average(each, weights=annotations.weight))


@dataclass(frozen=True)
class ClassAlignment:
    """How predictions agree with annotations as they are and after the best permutation of classes.

    The likelihood does not change when all classes are permuted in the predictor and in every confusion.
    """

    order: NDArray[np.int64]  # (n_classes,) column `order[k]` of the raw outputs is class k
    plain_agreement: float  # share of annotations that equal the item's predicted class, before ...
    aligned_agreement: float  # ... and after

    @property
    def permuted(self) -> bool:
        return bool((self.order != np.arange(len(self.order))).any())

    def describe(self, *, mended: bool) -> str:
        done = "they were put in the annotators' order" if mended else "they were left as they are"
        return (
            "The network learned the classes in another order than annotators use: predictions agree with "
            f"{self.plain_agreement:.1%} of annotations as they are and {self.aligned_agreement:.1%} after "
            f"alignment; {done}. Check predictions against a few known items, or fit with a smaller strength, a longer "
            "warm_start or a larger start_diagonal."
        )


def agreement(class_probs: NDArray[Any], annotations: Annotations) -> float:
    return float(np.mean(class_probs.argmax(axis=1)[annotations.item] == annotations.label))


def examine_alignment(
    class_probs: NDArray[Any], confusions: NDArray[Any] | None, annotations: Annotations, *, fixed: bool = False
) -> ClassAlignment:
    """The permutation of classes that the labels ask for (Hungarian), if agreement rises by more than `TOLERANCE`."""
    plain = agreement(class_probs, annotations)
    if fixed:
        return ClassAlignment(np.arange(annotations.n_classes), plain, plain)
    if confusions is None:
        mean = np.zeros((annotations.n_classes, annotations.n_classes))
        np.add.at(mean, (class_probs.argmax(axis=1)[annotations.item], annotations.label), 1.0)
    else:
        mean = mean_confusion(confusions, annotations.labels_per_annotator)
    order = class_alignment(mean[None])
    aligned = agreement(class_probs[:, order], annotations)
    if aligned <= plain + TOLERANCE:
        return ClassAlignment(np.arange(annotations.n_classes), plain, max(plain, aligned))
    return ClassAlignment(order, plain, aligned)


@dataclass(frozen=True)
class Examined:
    """A trained network in the order of the classes, with its predictions for the annotated training items."""

    member: Member
    class_probs: NDArray[np.float64]
    alignment: ClassAlignment


def examine_run(run: Run, *, mend: bool) -> Examined:
    """Predict the training items with a trained network; put its classes in the annotators' order where `mend`."""
    found = run.head.confusions()
    confusions = None if found is None else normalize_rows(found.double().cpu().numpy())
    annotations = run.problem.annotations[: run.problem.n_given]
    class_probs = network_probs(run.network, run.problem.items)[: annotations.n_items]
    alignment = examine_alignment(class_probs, confusions, annotations, fixed=run.problem.flat.gold is not None)
    order = alignment.order if mend else np.arange(annotations.n_classes)
    confusions = None if confusions is None else confusions[:, order]
    return Examined(Member(run.network, order, confusions), class_probs[:, order], alignment)


def make_result(
    model: CrowdClassifier, prepared: Prepared, class_probs: NDArray[np.float64], *, warned: tuple[str, ...]
) -> FitResult:
    """What a trained model learned, with the classifier's probabilities of the training items."""
    annotations = prepared.annotations
    each = [member.confusions for member in model.predictor_.members if member.confusions is not None]
    confusions = np.mean(each, axis=0) if each else None
    found = voices_of(annotations, model.dependence if confusions is not None else None)
    return FitResult(
        method=model._method_name(prepared.problem),
        parameters=model.get_params(),
        items=annotations.items,
        annotators=annotations.annotators,
        classes=annotations.classes,
        class_probabilities=class_probs,
        confusions=confusions,
        class_prior=class_probs.mean(axis=0),
        labels_per_annotator=annotations.labels_per_annotator,
        history=model.histories_[0],
        seed=prepared.problem.seed,
        warnings=(*warned, *describe_found(annotations, found)),
        voices=named(annotations, found.voices),
        annotations=annotations,
        uses_features=True,
    )
