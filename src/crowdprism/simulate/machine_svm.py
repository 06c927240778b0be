"""Support vector machines, one against one, with Gram matrices from matrix products.

The same problems as scikit-learn's SVC with C = 1 solves; libsvm computes each kernel value by itself, which is
many times slower on thousands of images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError
from crowdprism.simulate.machine_networks import Predictor

KERNELS = ("linear", "rbf", "poly")
POLYNOMIAL_DEGREE = 3
Rows = NDArray[np.float32]  # (n, n_features)


def train_svm(features: Rows, labels: NDArray[np.int64], *, kernel: str) -> Predictor:
    """Train on flat features; kernels "linear", "rbf" or "poly" (degree 3), width as scikit-learn's "scale"."""
    if kernel not in KERNELS:
        raise InvalidParameterError(f"There is no kernel {kernel!r}; there are {', '.join(KERNELS)}.")
    if len(np.unique(labels)) == 1:
        only = int(labels[0])
        return lambda items: np.full(len(items), only, dtype=np.int64)
    return _train_linear(features, labels) if kernel == "linear" else _train_curved(features, labels, kernel)


def _train_curved(features: Rows, labels: NDArray[np.int64], kernel: str) -> Predictor:
    from sklearn.svm import SVC

    gram = _gram_function(kernel, gamma=1 / (features.shape[1] * float(features.var())))
    machine = SVC(kernel="precomputed").fit(gram(features, features), labels)
    return lambda items: np.asarray(machine.predict(gram(items.reshape(len(items), -1), features)), dtype=np.int64)


def _gram_function(kernel: str, gamma: float) -> Callable[[Rows, Rows], NDArray[Any]]:
    def polynomial(one: Rows, other: Rows) -> NDArray[Any]:
        return np.asarray((gamma * (one @ other.T)) ** POLYNOMIAL_DEGREE)

    def gaussian(one: Rows, other: Rows) -> NDArray[Any]:
        squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None] - 2 * (one @ other.T)
        return np.asarray(np.exp(-gamma * np.maximum(squares, 0)))

    return gaussian if kernel == "rbf" else polynomial


def _train_linear(features: Rows, labels: NDArray[np.int64]) -> Predictor:
    """One weight vector for each pair of classes; each pair votes, ties go to the lower class."""
    from sklearn.svm import SVC

    classes = np.unique(labels)
    members = [features[labels == label] for label in classes]
    within = [rows @ rows.T for rows in members]
    first, second = np.triu_indices(len(classes), k=1)
    weights = np.empty((len(first), features.shape[1]), dtype=np.float32)
    offsets = np.empty(len(first), dtype=np.float32)
    for pair, (one, other) in enumerate(zip(first, second, strict=True)):
        across = members[one] @ members[other].T
        gram = np.block([[within[one], across], [across.T, within[other]]])
        machine = SVC(kernel="precomputed").fit(gram, np.repeat([1, 0], [len(members[one]), len(members[other])]))
        rows = np.vstack([members[one], members[other]])[machine.support_]
        weights[pair] = machine.dual_coef_[0] @ rows
        offsets[pair] = machine.intercept_[0]

    def predict(items: NDArray[np.float32]) -> NDArray[np.int64]:
        decisions = items.reshape(len(items), -1) @ weights.T + offsets  # above 0: the first of the pair
        winner = np.where(decisions > 0, first, second)
        votes = np.zeros((len(items), len(classes)), dtype=np.int64)
        np.add.at(votes, (np.arange(len(items))[:, None], winner), 1)
        return np.asarray(classes[votes.argmax(axis=1)], dtype=np.int64)

    return predict
