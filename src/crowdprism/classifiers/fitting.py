"""From the arguments of `fit` to a training problem, and what is measured while it is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crowdprism.aggregators import make_aggregator
from crowdprism.aggregators.base import ALL_KNOWN
from crowdprism.aggregators.majority_vote import vote_shares, vote_totals
from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.annotations.names import known_positions, plain
from crowdprism.classifiers import inputs
from crowdprism.classifiers.posterior import Predictor, log_evidence, mean_log_likelihood, network_probs
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import CrowdHead
from crowdprism.networks.annotator_layer import diagonal_confusions, identity_diagonal
from crowdprism.networks.build import resolve_network
from crowdprism.results.confusion import confusion_counts, normalize_rows, pooled_confusion
from crowdprism.training import Augmentation, FlatAnnotations, InputScaling, Items, TrainingOutcome, TrainingSettings
from crowdprism.training.settings import choose_device

SMALLEST_AUTO_BATCH, LARGEST_AUTO_BATCH, AUTO_BATCHES = 8, 64, 10


@dataclass(frozen=True)
class Problem:
    """What a method sees when it makes its crowd head."""

    annotations: Annotations  # to train on, one item per row of the features; without those that are held out
    flat: FlatAnnotations  # the same as flat arrays; unlabelled items follow after the annotated ones
    items: Items  # source of features for all items of `flat`
    batch_size: int  # items per step
    device: torch.device
    seed: int
    member: int = 0  # which of `n_heads` networks this is
    chosen: dict[str, float] = field(default_factory=dict)  # values of the settings that were left to the data
    n_copies: int = 0  # annotated items at the end of `annotations` that repeat earlier ones (see `weighted`)

    @property
    def n_classes(self) -> int:
        return self.annotations.n_classes

    @property
    def n_annotators(self) -> int:
        return self.annotations.n_annotators

    @property
    def n_given(self) -> int:
        return self.annotations.n_items - self.n_copies

    @property
    def n_unlabelled(self) -> int:
        return self.flat.n_items - self.annotations.n_items

    def plan(self, network: Any) -> NetworkPlan:
        """Which network to build for this problem; `"auto"` takes the one that fits the shape of an item."""
        shape = tuple(self.items.shape)
        sizes = (self.n_annotators, self.n_classes, self.device, self.seed, self.member)
        return NetworkPlan(resolve_network(network, shape), shape, *sizes)

    def item_targets(self, targets: NDArray[Any], used: NDArray[np.bool_]) -> tuple[Tensor, Tensor]:
        """Extend class probabilities to unlabelled items (even, not trained on), and say which items to train on."""
        even = np.full((self.n_unlabelled, self.n_classes), 1 / self.n_classes)
        unused = np.zeros(self.n_unlabelled, dtype=bool)
        return torch.from_numpy(np.concatenate([targets, even])), torch.from_numpy(np.concatenate([used, unused]))


@dataclass(frozen=True)
class NetworkPlan:
    """Which network to build; `architecture` is its name, or the user's own module or function."""

    architecture: Any
    input_shape: tuple[int, ...]
    n_annotators: int
    n_classes: int
    device: torch.device | None = None
    seed: int = 0
    member: int = 0


@dataclass(frozen=True)
class Prepared:
    """Checked data of one `fit`: what to train on, what to measure after each epoch, what the result is about."""

    problem: Problem
    validation: Validation | None
    annotations: Annotations  # all of them, held-out ones included
    scaling: InputScaling
    warnings: tuple[str, ...] = ()
    weight: NDArray[np.float64] | None = None  # (n_items,) how often an epoch visits each item, above 0

    def to_train(self, choice: Choice) -> Problem:
        """The problem with the chosen settings and items repeated by their weights."""
        problem = replace(self.problem, chosen=choice.settings)
        return problem if self.weight is None else weighted(problem, self.weight)


@dataclass(frozen=True)
class Choice:
    """What held-out items chose: values by setting, the temperature, and all candidates with their figures."""

    settings: dict[str, float] = field(default_factory=dict)
    temperature: float = 1.0
    candidates: Sequence[dict[str, float]] = ()


@dataclass(frozen=True)
class Run:
    """A network and a crowd head, to be trained or trained."""

    plan: NetworkPlan
    network: nn.Module
    head: CrowdHead
    settings: TrainingSettings
    problem: Problem
    outcome: TrainingOutcome = field(default_factory=TrainingOutcome)  # so far


def prepare(
    model: Any,
    X: Any,
    y: Any,
    *,
    X_valid: Any = None,
    y_valid: Any = None,
    X_unlabelled: Any = None,
    items: Any = None,
    sample_weight: Any = None,
    fitted: Predictor | None = None,  # whose scaling and shape of items stay, where training goes on
) -> Prepared:
    """Check and match the arguments of `fit`, and scale every item once; `model` has checked its parameters."""
    features = inputs.read_features(model, X, fitted_shape=None if fitted is None else fitted.input_shape)
    annotations = inputs.matched(inputs.annotations_of(y), X, inputs.n_items_of(features), items)
    weight = None if sample_weight is None else inputs.item_weights(sample_weight, annotations.n_items)
    if weight is not None and not weight.all():
        used = np.flatnonzero(weight)
        features, annotations, weight = inputs.part_of(features, used), annotations[used], weight[used]
    inputs.require_learnable(annotations)
    seed, device = inputs.plain_seed(model.random_state), choose_device(model.device)
    shape = inputs.item_shape(features)
    standardize = bool(model.standardize) if model._as_published else model.standardize
    scaling = inputs.make_scaling(features, standardize=standardize) if fitted is None else fitted.scaling
    shown = annotations if model.use_gold else annotations.with_gold(None)

    def read(given: Any, what: str) -> inputs.Features:
        return inputs.read_features(model, given, fitted_shape=shape, what=what)

    def scaled(given: inputs.Features) -> Items:
        return inputs.make_items(given, scaling, device, model.n_workers)

    valid = None if X_valid is None else scaled(read(X_valid, "X_valid"))
    held_out = {"fraction": model.validation_fraction, "seed": seed}
    validation, kept = make_validation(model._selection(), shown, valid, y_valid, **held_out)
    if X_unlabelled is not None:
        features = inputs.with_unlabelled(features, read(X_unlabelled, "X_unlabelled"))
    n_items = inputs.n_items_of(features)
    automatic = min(LARGEST_AUTO_BATCH, max(SMALLEST_AUTO_BATCH, n_items // AUTO_BATCHES))
    batch_size = automatic if model.batch_size == "auto" else int(model.batch_size)
    flat = FlatAnnotations.of(kept, extra_items=n_items - kept.n_items)
    problem = Problem(kept, flat, scaled(features), batch_size, device, seed)
    if validation is not None and validation.items is None:
        validation = replace(validation, items=problem.items)
    return Prepared(problem, validation, annotations, scaling, weight=weight)


def weighted(problem: Problem, weight: NDArray[np.float64]) -> Problem:
    """The problem with items repeated by their weights (n_given,): twice for 2, in every other epoch for 0.5."""
    n_each, places = np.ceil(weight).astype(np.int64), np.arange(len(weight))
    copies = np.repeat(places, n_each - 1)
    index = np.concatenate([places, copies])
    annotations = problem.annotations[index]
    share = np.ones(len(index) + problem.n_unlabelled)
    share[np.where(n_each > 1, len(weight) + np.cumsum(n_each - 1) - 1, places)] -= n_each - weight
    flat = FlatAnnotations.of(annotations, extra_items=problem.n_unlabelled)
    flat = replace(flat, share=None if (share == 1).all() else share)
    items = problem.items.part(np.concatenate([index, np.arange(len(weight), problem.flat.n_items)]))
    return replace(problem, annotations=annotations, flat=flat, items=items, n_copies=len(copies))


def gold_advice(annotations: Annotations) -> Iterable[str]:
    gold = known_classes(annotations)
    if gold is not None and (gold[annotations.labels_per_item > 0] >= 0).all():
        yield ALL_KNOWN


def training_settings(model: Any, parameters: set[str], problem: Problem) -> TrainingSettings:
    """How to train: the parameters of the same names, and what was chosen for this problem."""
    settings = {one.name: getattr(model, one.name) for one in fields(TrainingSettings) if one.name in parameters}
    settings |= problem.chosen | {"batch_size": problem.batch_size, "warm_start": float(model.warm_start)}
    noise = settings.pop("input_noise", 0.0 if model.input_noise == "auto" else model.input_noise)
    if model.annotator_learning_rate is None:
        settings["annotator_learning_rate"] = model.rate_ratio * model.learning_rate
    return TrainingSettings(
        **settings,
        keep_best=model._selection() != "last",
        borrow_stream=not isinstance(model.network, str),
        augmentation=Augmentation(noise, model.shift, model.flip, model.mixup),
        seed=problem.seed,
        member=problem.member,
    )


def try_network(network: nn.Module, plan: NetworkPlan) -> None:
    """Pass two items of zeros through, so that a network that does not fit is refused before training begins."""
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad():
            outputs = network(torch.zeros(2, *plan.input_shape, device=plan.device))
    except RuntimeError as error:
        raise InvalidParameterError(
            f"The network does not accept items of shape {plan.input_shape}: {error}", parameter="network"
        ) from error
    network.train(was_training)
    if tuple(outputs.shape) != (2, plan.n_classes):
        raise InvalidParameterError(
            f"The network returns shape {tuple(outputs.shape)} for 2 items, but {plan.n_classes} classes need "
            f"(2, {plan.n_classes}): one logit per class (no softmax)."
        )


def require_batches(network: nn.Module, in_batch: int) -> None:
    """Raise where a network with batch norm would see one item at a time."""
    if in_batch < 2 and any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in network.modules()):
        raise InvalidParameterError(
            f"The network has batch norm and needs at least two items in a batch; there is {in_batch}. "
            "Give a larger batch_size, or network='mlp', which has none.",
            parameter="batch_size",
        )


@dataclass(frozen=True)
class Validation:
    """What is measured after each epoch: accuracy on true classes, or the likelihood of held-out annotations."""

    items: Items | None  # source of the validation features; None for the training items, until these are known
    truth: NDArray[np.int64] | None  # (n_items,) true class codes
    held_out: Annotations | None  # to predict where there is no truth
    training: Annotations  # those trained on, whose annotators and classes the confusions are about

    def bind(self, network: nn.Module, head: CrowdHead) -> Callable[[], float]:
        """Return the function that the training loop calls; larger is better."""
        assert self.items is not None
        items = self.items

        def measure() -> float:
            found = head.confusions()
            confusions = None if found is None else found.double().cpu().numpy()
            return self.figure(network_probs(network, items), confusions)

        return measure

    def figure(self, class_probs: NDArray[Any], confusions: NDArray[Any] | None) -> float:
        """Accuracy where true classes are known, else the mean log-likelihood of the held-out annotations."""
        if self.truth is not None:
            return float(np.mean(class_probs.argmax(axis=1) == self.truth))
        assert self.held_out is not None
        if confusions is None:
            raise InvalidParameterError(
                "This method has no confusion matrices; use selection='clean' or 'last'.", parameter="selection"
            )
        columns = log_evidence(self.held_out, confusions, self.training)
        return mean_log_likelihood(class_probs, self.held_out, columns)


def make_validation(
    selection: str, annotations: Annotations, items: Items | None, y_valid: Any, *, fraction: float, seed: int
) -> tuple[Validation | None, Annotations]:
    """Return what to measure after each epoch, and the annotations that are left for training."""
    if (items is None) != (y_valid is None):
        raise InvalidParameterError("X_valid and y_valid go together: give both or neither.")
    if items is not None and len(items) != len(y_valid):
        raise InvalidParameterError(f"X_valid has {len(items)} items but y_valid has {len(y_valid)}.")
    if isinstance(y_valid, Annotations):
        if selection == "clean":
            raise InvalidParameterError("selection='clean' needs true classes as y_valid, not annotations.")
        return Validation(items, None, y_valid, annotations), annotations
    if y_valid is not None and selection != "annotations":
        named = np.asarray(y_valid).tolist()
        truth = known_positions(annotations.classes, named, "classes", given="values of y_valid")
        return Validation(items, truth, None, annotations), annotations
    if selection == "clean":
        raise InvalidParameterError("selection='clean' needs X_valid and y_valid with true classes.")
    if selection != "annotations":
        return None, annotations
    kept, held_out = annotations.split_annotations(fraction, seed)
    if not held_out.n_annotations or not kept.n_annotations:
        raise InvalidParameterError(
            f"{annotations.n_annotations} annotations are too few to hold out a share of {fraction}; "
            "use selection='last'.",
            parameter="selection",
        )
    return Validation(None, None, held_out, kept), kept


STARTS = ("diagonal", "identity", "soft-vote", "dawid-skene")
RARE_CLASS = 0.5  # a class with less than this part of an even share of the votes makes the crowd imbalanced
PRIOR_LABELS = 4.0  # an annotator's counts are joined by this many labels per class from the whole crowd


def item_votes(annotations: Annotations) -> NDArray[np.float64]:
    """(n_items, n_classes) vote shares; even where an item has no annotations."""
    return vote_shares(vote_totals(annotations), np.full(annotations.n_classes, 1 / annotations.n_classes))


def vote_class_shares(annotations: Annotations) -> NDArray[np.float64]:
    """(n_classes,) mean over annotated items of their vote shares."""
    return np.asarray(item_votes(annotations)[annotations.labels_per_item > 0].mean(axis=0))


def is_imbalanced(annotations: Annotations) -> bool:
    return bool(vote_class_shares(annotations).min() < RARE_CLASS / annotations.n_classes)


def imbalance_advice(annotations: Annotations, cause: str, way_out: str) -> Iterable[str]:
    """Return a warning where votes are imbalanced and a method draws predictions towards equally frequent classes."""
    if is_imbalanced(annotations):
        shares = vote_class_shares(annotations)
        rare = plain(annotations.classes[shares.argmin()])
        yield (
            f"Votes are imbalanced (class {rare!r} has {shares.min():.1%} of the votes; an even share is "
            f"{1 / len(shares):.1%}), and {cause} draws predictions towards equally frequent classes: rare classes may "
            f"be predicted far too often. {way_out}"
        )


def vote_targets(problem: Problem) -> tuple[Tensor, Tensor]:
    targets, used = problem.item_targets(item_votes(problem.annotations), problem.annotations.labels_per_item > 0)
    return targets.float(), used


def start_confusions(start: str, annotations: Annotations, *, diagonal: float) -> Tensor:
    """Return the confusions that training starts from: (annotator, true class, given label).

    `"diagonal"`: the same for all, with `diagonal` as probability of a right label whatever the number of classes.
    `"identity"`: logits of the reference implementation, whose diagonal is e / (e + n_classes - 1).
    `"soft-vote"`, `"dawid-skene"`: counted from that aggregator's class probabilities and shrunk to the crowd's.
    """
    shape = (annotations.n_annotators, annotations.n_classes)
    if start == "diagonal":
        return diagonal_confusions(*shape, diagonal)
    if start == "identity":
        return diagonal_confusions(*shape, identity_diagonal(annotations.n_classes))
    aggregator = make_aggregator("majority-vote" if start == "soft-vote" else "dawid-skene", use_gold=False)
    probabilities = aggregator.fit(annotations).result_.class_probabilities
    return torch.from_numpy(shrunk_confusions(annotations, probabilities)).float()


def shrunk_confusions(annotations: Annotations, class_probabilities: NDArray[Any]) -> NDArray[np.float64]:
    """Confusions counted from class probabilities, each row joined by `PRIOR_LABELS` labels of the pooled row."""
    counts = confusion_counts(annotations, class_probabilities)
    pooled = pooled_confusion(counts + 1.0 / annotations.n_classes)  # no zeros: logits must be finite
    return np.asarray(normalize_rows(counts + PRIOR_LABELS * pooled))
