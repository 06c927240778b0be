"""Training of single machine annotators: support vector machines, neighbours, and small networks.

The networks (logistic regression, one hidden layer, a CNN) have the layers, optimiser and losses of the reference code
of Ibrahim, Nguyen and Fu (ICLR 2023): Adam with rate 1e-3 and weight decay 1e-3, batches of 512, so that up to 512
training items make one step per epoch. Except for the CNN, cross-entropy is applied to the softmax (a softmax of a
softmax), which slows learning and is one reason why these annotators are weak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError
from crowdprism.seeding import stream, torch_stream

if TYPE_CHECKING:
    import torch

NetworkKind = Literal["logistic", "fcnn", "cnn"]
MachineKind = Literal["svm", "knn", NetworkKind]
SMALLEST_IMAGE = 6  # the least that two 3 x 3 convolutions and a pooling step can take
EXPERT_SIZE = 9000  # the reference code; the paper's text says 10 000
SMALL_SIZES = (100, 200, 300, 400)  # the reference code; the paper's text says 100 to 500
KERNELS = ("linear", "rbf", "poly")
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-3
BATCH_SIZE = 512
HIDDEN_UNITS = 128
CNN_CHANNELS = (32, 64)
CNN_DROPOUT = (0.25, 0.5)
ITEMS_AT_ONCE = 50  # the maps of a CNN then fit the cache, which is 1.5 times as fast
EXPERT_ACCURACY = 0.9
EXPERT_MAX_EPOCHS = 60  # training of an expert stops here in any case; the report shows its accuracy
Weights = list["torch.Tensor"]
Predictor = Callable[[NDArray[np.float32]], NDArray[np.int64]]


@dataclass(frozen=True)
class MachineAnnotator:
    """One annotator: what is trained, on how many items, and how.

    Without `n_train`, the number of training items is drawn from `SMALL_SIZES` by the place in the list, whatever the
    seed, as in the reference code; experts always take `EXPERT_SIZE`.
    """

    kind: MachineKind
    setting: str | int  # kernel of a support vector machine, number of neighbours, or epochs of a network
    n_train: int | None = None
    expert: bool = False

    @property
    def name(self) -> str:
        """Kind and setting, such as `svm-linear` or `cnn-10`."""
        return f"{self.kind}-{self.setting}{'-expert' if self.expert else ''}"


def train_annotator(
    annotator: MachineAnnotator, features: NDArray[Any], labels: NDArray[Any], *, n_classes: int, seed: Any, place: int
) -> Predictor:
    """Train one annotator; items of a single class make a support vector machine a constant."""
    kind, setting = annotator.kind, annotator.setting
    if kind == "svm":
        from sklearn.svm import SVC

        if setting not in KERNELS:
            raise InvalidParameterError(f"There is no kernel {setting!r}; there are {', '.join(KERNELS)}.")
        if len(np.unique(labels)) == 1:
            return lambda items: np.full(len(items), labels[0])
        return predictor_of(SVC(kernel=setting), features, labels)
    if kind == "knn":
        from sklearn.neighbors import KNeighborsClassifier

        if not 1 <= int(setting) <= len(labels):
            raise InvalidParameterError(
                f"The number of neighbours must lie between 1 and the {len(labels)} training items, not {setting}."
            )
        return predictor_of(KNeighborsClassifier(int(setting), algorithm="brute"), features, labels)
    if kind not in get_args(NetworkKind):
        known = ", ".join(get_args(MachineKind))
        raise InvalidParameterError(f"There is no machine annotator of kind {kind!r}; there are {known}.")
    if kind == "cnn" and (features.ndim != 4 or min(features.shape[2:]) < SMALLEST_IMAGE):
        raise InvalidParameterError(
            f"A CNN annotator needs images of at least {SMALLEST_IMAGE} x {SMALLEST_IMAGE} pixels, "
            f"(n_items, height, width[, channels]), but items have shape {features.shape[1:]}. "
            "Choose annotators without cnn."
        )
    options = {"n_classes": n_classes, "epochs": int(setting), "until_expert": annotator.expert}
    return train_network(kind, features, labels, seed=seed, index=place, **options)  # type: ignore[arg-type]


def predictor_of(model: Any, features: NDArray[np.float32], labels: NDArray[np.int64]) -> Predictor:
    model.fit(features.reshape(len(features), -1), labels)
    return lambda items: np.asarray(model.predict(items.reshape(len(items), -1)), dtype=np.int64)


def train_network(
    kind: NetworkKind,
    features: NDArray[np.float32],  # (n, ...) normalised; images (n, channels, height, width) for a CNN
    labels: NDArray[np.int64],
    *,
    n_classes: int,
    epochs: int,
    until_expert: bool,
    seed: Any,
    index: int,
) -> Predictor:
    """Train one network; with `until_expert`, after `epochs` until more than 90 % of the training items are right."""
    import torch
    from torch.nn.functional import cross_entropy

    generator = torch_stream(seed, "machine network", index)
    inputs, targets = tensor_of(kind, features), torch.from_numpy(labels)
    weights = first_weights(kind, tuple(inputs.shape[1:]), n_classes, generator)
    optimizer = torch.optim.Adam(weights, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    order = stream(seed, "machine order", index)
    for epoch in range(max(epochs, EXPERT_MAX_EPOCHS if until_expert else 0)):
        for batch in torch.split(torch.from_numpy(order.permutation(len(targets))), BATCH_SIZE):
            optimizer.zero_grad()
            for part in torch.split(batch, ITEMS_AT_ONCE if kind == "cnn" else BATCH_SIZE):
                logits = logits_of(kind, weights, inputs[part], generator)
                scores = logits if kind == "cnn" else logits.softmax(1)
                loss = cross_entropy(scores, targets[part], reduction="sum") / len(batch)
                loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if epoch + 1 >= epochs and until_expert and (predict(kind, weights, inputs) == labels).mean() > EXPERT_ACCURACY:
            break
    return lambda items: predict(kind, weights, tensor_of(kind, items))


def tensor_of(kind: NetworkKind, features: NDArray[np.float32]) -> torch.Tensor:
    """Flat rows, or for the CNN images in channels-last layout, in which convolutions are faster."""
    import torch

    if kind != "cnn":
        return torch.from_numpy(np.ascontiguousarray(features.reshape(len(features), -1), dtype=np.float32))
    return torch.from_numpy(np.ascontiguousarray(features)).contiguous(memory_format=torch.channels_last)


def first_weights(kind: NetworkKind, shape: Sequence[int], n_classes: int, generator: torch.Generator) -> Weights:
    """Weight and bias of each layer, uniform within 1 / sqrt(inputs) as in torch's layers."""
    import torch

    shapes: list[tuple[int, ...]] = [(n_classes, shape[0])]
    if kind == "cnn":
        narrow, wide = CNN_CHANNELS
        n_flat = wide * ((shape[1] - 4) // 2) * ((shape[2] - 4) // 2)
        shapes = [(narrow, shape[0], 3, 3), (wide, narrow, 3, 3), (HIDDEN_UNITS, n_flat), (n_classes, HIDDEN_UNITS)]
    elif kind == "fcnn":
        shapes = [(HIDDEN_UNITS, shape[0]), (n_classes, HIDDEN_UNITS)]
    weights: Weights = []
    for layer in shapes:
        bound = 1 / math.sqrt(math.prod(layer[1:]))
        weight, bias = ((2 * torch.rand(size, generator=generator) - 1) * bound for size in (layer, layer[:1]))
        if len(layer) == 4:
            weight = weight.contiguous(memory_format=torch.channels_last)
        weights += [weight.requires_grad_(), bias.requires_grad_()]
    return weights


def logits_of(
    kind: NetworkKind, weights: Weights, inputs: torch.Tensor, generator: torch.Generator | None = None
) -> torch.Tensor:
    """(n, n_classes); the CNN uses dropout if a generator is given."""
    import torch
    from torch.nn.functional import conv2d, linear, max_pool2d

    def drop(values: torch.Tensor, share: float) -> torch.Tensor:
        if generator is None:
            return values
        return values * (torch.rand(values.shape, generator=generator) >= share) / (1 - share)

    if kind == "logistic":
        return linear(inputs, weights[0], weights[1])
    if kind == "fcnn":
        return linear(linear(inputs, weights[0], weights[1]).relu(), weights[2], weights[3])
    maps = conv2d(inputs, weights[0], weights[1]).relu()
    maps = max_pool2d(conv2d(maps, weights[2], weights[3]).relu(), 2)
    hidden = linear(drop(maps, CNN_DROPOUT[0]).flatten(1), weights[4], weights[5]).relu()
    return linear(drop(hidden, CNN_DROPOUT[1]), weights[6], weights[7])


def predict(kind: NetworkKind, weights: Weights, inputs: torch.Tensor) -> NDArray[np.int64]:
    import torch

    with torch.no_grad():
        found = [logits_of(kind, weights, part).argmax(1) for part in torch.split(inputs, ITEMS_AT_ONCE)]
    return torch.cat(found).numpy()
