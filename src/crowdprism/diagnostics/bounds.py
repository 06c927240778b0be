"""The finite-sample theory of coupled cross-entropy as numbers (Ibrahim, Nguyen and Fu 2023, Theorem 1 and appendix).

A class specialist gives a label if and only if its class is the true one; an anchor is an item that certainly belongs
to one class. How far crowd and items are from these ideals bounds the error of what is learned. The bounds are worst
cases: for useful networks they exceed the largest possible error by orders of magnitude. They show how errors scale
with annotations, annotators and classes, not how large errors are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError

FloatArray = NDArray[np.float64]

LARGEST_ERROR = 2.0  # two probability vectors are never farther apart than this, squared


@dataclass(frozen=True)
class Nearest:
    """The annotator or item nearest to the ideal of each class; arrays are (n_classes,)."""

    distance: FloatArray  # Euclidean distance of the nearest one
    who: NDArray[np.int64]  # its position
    label: NDArray[np.int64]  # the label assigned to the class; for items the class itself

    @property
    def largest(self) -> float:
        """The distance of the worst served class: xi_1 for annotators, xi_2 for items."""
        return float(self.distance.max())


def nearest_specialists(confusions: Any, *, any_order: bool = True) -> Nearest:
    """Find for each true class the annotator whose use of a label comes closest to "if and only if this class".

    `any_order` assigns labels to classes so that the largest distance is smallest, because learned classes may be in
    another order than the labels. Otherwise class k belongs to label k.

    Examples
    --------
    >>> nearest_specialists(np.eye(3)[None]).largest
    0.0
    """
    table = np.asarray(confusions, dtype=float)  # (n_annotators, true class, given label)
    place = np.arange(table.shape[1])
    # |column - e_k|^2 = |column|^2 - 2 column_k + 1, for the column of a label over true classes
    squared = np.square(table).sum(axis=1)[:, None, :] - 2 * table + 1.0  # (annotator, class, label)
    who = squared.argmin(axis=0)
    nearest = np.sqrt(np.maximum(np.take_along_axis(squared, who[None], axis=0)[0], 0.0))
    label = bottleneck_assignment(nearest) if any_order else place
    return Nearest(nearest[place, label], who[place, label], label)


def nearest_anchors(class_probabilities: Any) -> Nearest:
    """Find for each class the item that most certainly belongs to it.

    Examples
    --------
    >>> nearest_anchors([[1.0, 0.0], [0.2, 0.8]]).distance.round(3).tolist()
    [0.0, 0.283]
    """
    table = np.asarray(class_probabilities, dtype=float)
    squared = np.square(table).sum(axis=1, keepdims=True) - 2 * table + 1.0
    who = squared.argmin(axis=0)
    place = np.arange(table.shape[1])
    return Nearest(np.sqrt(np.maximum(squared[who, place], 0.0)), who, place)


def bottleneck_assignment(cost: Any) -> NDArray[np.int64]:
    """Choose a column for each row of a square table so that the largest entry is smallest, then the sum."""
    from scipy.optimize import linear_sum_assignment

    table = np.asarray(cost, dtype=float)
    levels = np.unique(table)
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        above = table > levels[middle]
        low, high = (middle + 1, high) if above[linear_sum_assignment(above)].any() else (low, middle)
    forbidden = 1.0 + table.sum()
    return np.asarray(linear_sum_assignment(np.where(table > levels[low], forbidden, table))[1])


@dataclass(frozen=True)
class DenseLayer:
    """A fully connected layer."""

    inputs: int
    outputs: int


@dataclass(frozen=True)
class ConvolutionLayer:
    """A convolution: number of filters, entries of one filter (channels in x kernel area), entries of its output."""

    filters: int
    filter_size: int
    outputs: int


Layer = DenseLayer | ConvolutionLayer


def sensitive_complexity(layers: Sequence[Layer], *, lipschitz: float = 1.0) -> float:
    """2 rho^L L^2 (sum over dense layers of d_i^2 d_(i-1)^2 + sum over convolutions of c_i^2 r_i^2 sqrt(d_i / c_i)).

    `lipschitz` (rho) is that of the activation functions, which must be zero at zero; 1 for ReLU.
    """
    total = 0.0
    for layer in layers:
        if isinstance(layer, DenseLayer):
            total += float(layer.outputs) ** 2 * float(layer.inputs) ** 2
        else:
            total += float(layer.filters * layer.filter_size) ** 2 * np.sqrt(layer.outputs / layer.filters)
    return float(2.0 * lipschitz ** len(layers) * len(layers) ** 2 * total)


def network_layers(network: Any, *, image_shape: tuple[int, int] | None = None) -> list[Layer]:
    """Dense and convolution layers of a torch module, found by their attributes in the order of `modules()`.

    `image_shape` is height and width of the input, needed where the network has convolutions. Pooling is followed;
    layers are taken to come one after the other.
    """
    layers: list[Layer] = []
    size = image_shape
    for module in network.modules():
        if hasattr(module, "in_features") and hasattr(module, "out_features"):
            layers.append(DenseLayer(int(module.in_features), int(module.out_features)))
        elif hasattr(module, "out_channels") and hasattr(module, "kernel_size"):
            if size is None:
                raise InvalidParameterError("The network has convolutions; pass image_shape=(height, width).")
            size, filters = size_after(size, module), int(module.out_channels)
            channels = int(module.in_channels) // int(getattr(module, "groups", 1))
            filter_size = channels * math.prod(as_pair(module.kernel_size))
            layers.append(ConvolutionLayer(filters, filter_size, filters * math.prod(size)))
        elif size is not None and hasattr(module, "kernel_size") and hasattr(module, "stride"):
            size = size_after(size, module)
        elif hasattr(module, "output_size"):
            size = as_pair(module.output_size)
    if not layers:
        raise InvalidParameterError("No layer of this network has in_features or out_channels; pass layers yourself.")
    return layers


def size_after(size: tuple[int, int], module: Any) -> tuple[int, int]:
    """Height and width after a convolution or pooling."""
    padding = getattr(module, "padding", 0)
    if padding == "same":
        return size
    settings = (module.kernel_size, module.stride or module.kernel_size, 0 if padding == "valid" else padding)
    cells = zip(size, *map(as_pair, settings), as_pair(getattr(module, "dilation", 1)), strict=True)
    after = [(n + 2 * around - spread * (kernel - 1) - 1) // stride + 1 for n, kernel, stride, around, spread in cells]
    return after[0], after[1]


def as_pair(value: Any) -> tuple[int, int]:
    first, second = value if isinstance(value, Iterable) else (value, value)
    return int(first), int(second)


@dataclass(frozen=True)
class TheoremInputs:
    """What the bounds need to know."""

    n_items: int
    n_annotators: int
    n_classes: int
    n_annotations: int
    smallest_probability: float  # 1/beta, the least probability of any label
    complexity: float
    input_norm: float  # Frobenius norm of the features
    misfit: float = 0.0  # nu, the distance of the best network from the true class probabilities
    alpha: float = 0.1  # trades the failure probability K / N^alpha against the bound

    @property
    def beta(self) -> float:
        return 1.0 / self.smallest_probability

    @property
    def capacity(self) -> float:
        return self.input_norm * self.complexity


def theorem_inputs(
    confusions: FloatArray | None, shares: FloatArray, annotations: Annotations, *, complexity: float, input_norm: float
) -> TheoremInputs:
    """What the bounds need; the most certain items come nearest to the least probability of a label."""
    least = 1 / shares.shape[1]
    if confusions is not None:
        surest = shares[np.unique(np.argsort(-shares, axis=0)[:20])]
        least = float((surest @ confusions.min(axis=0)).min())
    sizes = (annotations.n_items, annotations.n_annotators, annotations.n_classes, max(annotations.n_annotations, 2))
    return TheoremInputs(*sizes, smallest_probability=max(least, 1e-12), complexity=complexity, input_norm=input_norm)


def label_probability_bound(inputs: TheoremInputs, *, delta: float = 0.05) -> float:
    """Mean squared error of the label probabilities, exceeded with probability at most `delta` (the Proposition).

    4 sqrt(2) K beta R + 10 log(beta) sqrt(2 log(4 / delta)) / sqrt(S) + 2 beta sqrt(K) nu, with
    R = 16 / sqrt(S) sqrt(M K log(4 S sqrt(K)) + (2 |X| R_F)^(1/2)). Informative only below 2.
    """
    classes, annotations = inputs.n_classes, inputs.n_annotations
    inner = inputs.n_annotators * classes * np.log(4 * annotations * np.sqrt(classes))
    rademacher = 16 / np.sqrt(annotations) * np.sqrt(inner + np.sqrt(2 * inputs.capacity))
    chance = 10 * np.log(inputs.beta) * np.sqrt(2 * np.log(4 / delta)) / np.sqrt(annotations)
    misfit = 2 * inputs.beta * np.sqrt(classes) * inputs.misfit
    return float(4 * np.sqrt(2) * classes * inputs.beta * rademacher + chance + misfit)


def item_probability_bound(inputs: TheoremInputs, *, delta: float = 0.05) -> float:
    """The same for the label probabilities of a single item, exceeded with probability at most N^-alpha.

    N^alpha times the sum of `label_probability_bound` and 4 delta: by Markov's inequality, from the mean over items.
    """
    return float(inputs.n_items**inputs.alpha * (label_probability_bound(inputs, delta=delta) + 4 * delta))


def generalization_bound(inputs: TheoremInputs, training_error: float, *, delta: float = 0.05) -> float:
    """Mean squared error of the class probabilities of new items, exceeded with probability at most `delta`.

    `training_error` is that of the fitted items. It is joined by 64 N^(-5/8) (2 |X| R_F)^(1/4) and
    16 sqrt(2 log(4 / delta) / N) (the generalisation lemma).
    """
    spread = 64 * inputs.n_items**-0.625 * (2 * inputs.capacity) ** 0.25
    return float(training_error + spread + 16 * np.sqrt(2 * np.log(4 / delta) / inputs.n_items))


def estimation_rate(inputs: TheoremInputs) -> float:
    """The rate eta of Theorem 1, with its unnamed constant taken as one."""
    scale = inputs.beta * inputs.n_annotators * inputs.n_items**inputs.alpha
    spread = np.sqrt(inputs.n_annotators * np.log(inputs.n_annotations)) + inputs.capacity**0.25
    misfit = scale * np.sqrt(inputs.n_classes) * inputs.misfit
    return float(np.sqrt(scale / np.sqrt(inputs.n_annotations) * spread + misfit))


class Condition(NamedTuple):
    """One condition of Theorem 1 and whether it holds."""

    name: str
    value: float
    threshold: float
    holds: bool


def theorem_conditions(inputs: TheoremInputs, *, xi_1: float, xi_2: float) -> list[Condition]:
    """The conditions of Theorem 1, big-O constants taken as one.

    xi_1, xi_2 <= 1/K; nu <= 1 / (beta K^2 M^2 N^alpha); S >= beta^2 M^2 N^(2 alpha) K^2 max(M log S, sqrt(|X| R_F));
    and kappa = eta + xi_1 + xi_2 + sqrt(K) xi_1 xi_2 <= 1 / (K + 1), with eta for the error of the probabilities.
    """
    classes, annotators = inputs.n_classes, inputs.n_annotators
    grown = inputs.n_items**inputs.alpha
    misfit = 1 / (inputs.beta * classes**2 * annotators**2 * grown)
    largest = max(annotators * np.log(inputs.n_annotations), np.sqrt(inputs.capacity))
    needed = float((inputs.beta * annotators * grown * classes) ** 2 * largest)
    kappa = estimation_rate(inputs) + xi_1 + xi_2 + np.sqrt(classes) * xi_1 * xi_2
    return [
        Condition("class specialists: xi_1 <= 1/K", xi_1, 1 / classes, xi_1 <= 1 / classes),
        Condition("anchors: xi_2 <= 1/K", xi_2, 1 / classes, xi_2 <= 1 / classes),
        Condition("network fits: nu", inputs.misfit, misfit, inputs.misfit <= misfit),
        Condition("enough annotations: S", inputs.n_annotations, needed, inputs.n_annotations >= needed),
        Condition("proof: kappa <= 1/(K+1)", float(kappa), 1 / (classes + 1), float(kappa) <= 1 / (classes + 1)),
    ]
