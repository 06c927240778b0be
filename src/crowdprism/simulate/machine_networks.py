"""The small networks among the machine annotators: logistic regression, one hidden layer, and a CNN.

Layers, optimiser and losses follow the reference code of Ibrahim, Nguyen and Fu (ICLR 2023): Adam with rate 1e-3
and weight decay 1e-3, batches of 512, so that up to 512 training items make one step per epoch; cross-entropy is
applied to the softmax of logistic regression and of the hidden-layer network (a softmax of a softmax), which slows
their learning and is part of why these annotators are weak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.seeding import stream, torch_stream

if TYPE_CHECKING:
    import torch

NetworkKind = Literal["logistic", "fcnn", "cnn"]
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-3
ADAM_MEMORY = (0.9, 0.999)
ADAM_EPSILON = 1e-8
BATCH_SIZE = 512
HIDDEN_UNITS = 128
CNN_CHANNELS = (32, 64)
CNN_DROPOUT = (0.25, 0.5)
ITEMS_AT_ONCE = 50  # so that the maps of a CNN stay in the cache, which is half as fast again
EXPERT_ACCURACY = 0.9
EXPERT_MAX_EPOCHS = 60  # an expert that has not learned by then stays as it is; the report shows its accuracy

Weights = list["torch.Tensor"]
Predictor = Callable[[NDArray[np.float32]], NDArray[np.int64]]


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
    """Train one network and return its prediction function; draws come from streams of this annotator alone.

    With `until_expert`, training goes on beyond `epochs` until more than 90 % of the training items are right.
    """
    import torch

    generator = torch_stream(seed, "machine network", index)
    inputs, targets = tensor_of(kind, features), torch.from_numpy(labels)
    weights = first_weights(kind, tuple(inputs.shape[1:]), n_classes, generator)
    step = adam_steps(weights)
    order = stream(seed, "machine order", index)
    for epoch in range(max(epochs, EXPERT_MAX_EPOCHS if until_expert else 0)):
        rows = torch.from_numpy(order.permutation(len(targets)))
        for begin in range(0, len(rows), BATCH_SIZE):
            batch = rows[begin : begin + BATCH_SIZE]
            step(gradients(kind, weights, inputs[batch], targets[batch], generator))
        if epoch + 1 >= epochs and until_expert and share_right(kind, weights, inputs, labels) > EXPERT_ACCURACY:
            break
    return lambda items: predict(kind, weights, tensor_of(kind, items))


def adam_steps(weights: Weights) -> Callable[[Sequence[torch.Tensor]], None]:
    """Adam with weight decay added to the gradient (Kingma and Ba 2015), as a function of the gradients.

    A few lines of our own, because the first step of torch's optimisers loads its compiler, for seconds.
    """
    import torch

    first = [torch.zeros_like(weight) for weight in weights]
    second = [torch.zeros_like(weight) for weight in weights]
    count = 0

    def step(gradients: Sequence[torch.Tensor]) -> None:
        nonlocal count
        count += 1
        fast, slow = 1 - ADAM_MEMORY[0] ** count, 1 - ADAM_MEMORY[1] ** count
        with torch.no_grad():
            for weight, gradient, mean, square in zip(weights, gradients, first, second, strict=True):
                decayed = gradient + WEIGHT_DECAY * weight
                mean.lerp_(decayed, 1 - ADAM_MEMORY[0])
                square.mul_(ADAM_MEMORY[1]).addcmul_(decayed, decayed, value=1 - ADAM_MEMORY[1])
                weight.addcdiv_(mean, (square / slow).sqrt_().add_(ADAM_EPSILON), value=-LEARNING_RATE / fast)

    return step


def tensor_of(kind: NetworkKind, features: NDArray[np.float32]) -> torch.Tensor:
    """Flat rows for all but the CNN, whose channels come last in memory: its convolutions are faster so."""
    import torch

    if kind != "cnn":
        return torch.from_numpy(np.ascontiguousarray(features.reshape(len(features), -1), dtype=np.float32))
    return torch.from_numpy(np.ascontiguousarray(features)).contiguous(memory_format=torch.channels_last)


def first_weights(kind: NetworkKind, shape: Sequence[int], n_classes: int, generator: torch.Generator) -> Weights:
    """Weights and biases, layer after layer, uniform within 1 / sqrt(inputs) as torch's layers start."""
    if kind == "cnn":
        n_channels, height, width = shape
        narrow, wide = CNN_CHANNELS
        n_flat = wide * ((height - 4) // 2) * ((width - 4) // 2)
        shapes = [(narrow, n_channels, 3, 3), (wide, narrow, 3, 3), (HIDDEN_UNITS, n_flat), (n_classes, HIDDEN_UNITS)]
    elif kind == "fcnn":
        shapes = [(HIDDEN_UNITS, shape[0]), (n_classes, HIDDEN_UNITS)]
    else:
        shapes = [(n_classes, shape[0])]
    return [drawn for layer in shapes for drawn in _layer(layer, generator)]


def _layer(shape: tuple[int, ...], generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    bound = 1 / math.sqrt(math.prod(shape[1:]))
    weight = (2 * torch.rand(shape, generator=generator) - 1) * bound
    if weight.ndim == 4:
        weight = weight.contiguous(memory_format=torch.channels_last)
    weight.requires_grad_()
    bias = ((2 * torch.rand(shape[:1], generator=generator) - 1) * bound).requires_grad_()
    return weight, bias


def logits_of(
    kind: NetworkKind, weights: Weights, inputs: torch.Tensor, generator: torch.Generator | None = None
) -> torch.Tensor:
    """(n, n_classes); a generator switches the CNN's dropout on."""
    from torch.nn import functional

    if kind == "logistic":
        return functional.linear(inputs, weights[0], weights[1])
    if kind == "fcnn":
        return functional.linear(functional.linear(inputs, weights[0], weights[1]).relu(), weights[2], weights[3])
    maps = functional.conv2d(inputs, weights[0], weights[1]).relu()
    maps = functional.max_pool2d(functional.conv2d(maps, weights[2], weights[3]).relu(), 2)
    hidden = functional.linear(_dropped(maps, CNN_DROPOUT[0], generator).flatten(1), weights[4], weights[5]).relu()
    return functional.linear(_dropped(hidden, CNN_DROPOUT[1], generator), weights[6], weights[7])


def _dropped(values: torch.Tensor, share: float, generator: torch.Generator | None) -> torch.Tensor:
    import torch

    if generator is None:
        return values
    return values * (torch.rand(values.shape, generator=generator) >= share) / (1 - share)


def gradients(
    kind: NetworkKind, weights: Weights, inputs: torch.Tensor, targets: torch.Tensor, generator: torch.Generator
) -> Weights:
    """Gradients of the mean cross-entropy: of the logits for the CNN, of the class probabilities for the others."""
    import torch
    from torch.nn import functional

    total = [torch.zeros_like(weight) for weight in weights]
    size = ITEMS_AT_ONCE if kind == "cnn" else len(targets)
    for begin in range(0, len(targets), size):
        part = slice(begin, begin + size)
        logits = logits_of(kind, weights, inputs[part], generator)
        scores = logits if kind == "cnn" else logits.softmax(1)
        loss = functional.cross_entropy(scores, targets[part], reduction="sum") / len(targets)
        for sum_so_far, gradient in zip(total, torch.autograd.grad(loss, weights), strict=True):
            sum_so_far += gradient
    return total


def predict(kind: NetworkKind, weights: Weights, inputs: torch.Tensor) -> NDArray[np.int64]:
    """(n,) most probable classes."""
    import torch

    found = np.empty(len(inputs), dtype=np.int64)
    with torch.no_grad():
        for begin in range(0, len(inputs), ITEMS_AT_ONCE):
            part = slice(begin, begin + ITEMS_AT_ONCE)
            found[part] = logits_of(kind, weights, inputs[part]).argmax(1).numpy()
    return found


def share_right(kind: NetworkKind, weights: Weights, inputs: torch.Tensor, labels: NDArray[np.int64]) -> float:
    """Accuracy on the items trained on."""
    return float((predict(kind, weights, inputs) == labels).mean())
