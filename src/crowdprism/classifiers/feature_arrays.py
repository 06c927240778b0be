"""Features as users give them, checked and turned into tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from crowdprism.errors import InvalidParameterError

Features = Tensor | Dataset[Any] | DataLoader[Any]


def is_stream(X: Any) -> bool:
    """Tell whether features are read item by item instead of held in memory."""
    return isinstance(X, (Dataset, DataLoader))


def as_features(X: Any, *, what: str = "X") -> Features:
    """Return features as a float32 or uint8 tensor (n_items, ...), or the Dataset as it is.

    Images (n_items, height, width) without channels get one channel. NaN and infinite values are refused.

    Examples
    --------
    >>> as_features([[1.0, 2.0]]).shape
    torch.Size([1, 2])
    """
    if is_stream(X):
        if len(_dataset_of(X)) == 0:
            raise InvalidParameterError(f"{what} has 0 items.")
        return X  # type: ignore[no-any-return]
    array = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
    if array.dtype == object:
        array = _numbers(array, what)
    if array.ndim < 2:
        raise InvalidParameterError(
            f"{what} must have at least 2 dimensions (n_items, n_features), but has shape {array.shape}. "
            "Reshape your data: X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one item."
        )
    if array.dtype.kind not in "fiub":
        raise InvalidParameterError(f"{what} must hold numbers, not {array.dtype}. Encode text as numbers first.")
    if len(array) == 0 or 0 in array.shape:
        raise InvalidParameterError(f"{what} has shape {array.shape}: there is no item or no feature.")
    if array.ndim == 3:
        array = array[:, None]  # grey images
    if array.dtype != np.uint8:
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
    require_finite(array, what)
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, order="C")
    return torch.from_numpy(array)


def _numbers(array: np.ndarray, what: str) -> np.ndarray:
    try:
        return array.astype(np.float64)
    except ValueError as error:
        raise InvalidParameterError(f"{what} must hold numbers: {error}. Encode text as numbers first.") from error


def require_finite(array: np.ndarray, what: str) -> None:
    """Raise where values are NaN or infinite: how many, and the first by row and column."""
    if array.dtype.kind != "f" or np.isfinite(array.sum(dtype=np.float64)):
        return
    bad = np.argwhere(~np.isfinite(array))
    if not len(bad):
        return
    first = bad[0]
    where = (
        f"row {first[0]}, column {first[1]}" if len(first) == 2 else f"item {first[0]}, position {first[1:].tolist()}"
    )
    raise InvalidParameterError(
        f"{what} contains NaN or infinite values: {len(bad)} of {array.size}, in {len(np.unique(bad[:, 0]))} items; "
        f"the first is {array[tuple(first)]} at {where}. Impute them (sklearn.impute.SimpleImputer) or drop the items."
    )


def _dataset_of(X: Any) -> Any:
    return X.dataset if isinstance(X, DataLoader) else X


def n_items_of(X: Features) -> int:
    """Number of items."""
    return len(_dataset_of(X)) if is_stream(X) else len(X)  # type: ignore[arg-type]


def row_names(X: Any) -> list[Any] | None:
    """Return the row labels of a data frame whose index is more than a count from 0, else None."""
    index = getattr(X, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex" or not hasattr(index, "tolist"):
        return None
    return list(index.tolist())
