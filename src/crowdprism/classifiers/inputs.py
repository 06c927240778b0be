"""Features and annotations as users give them: checked, turned into tensors, and matched item by item."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from crowdprism.annotations import Annotations, as_annotations
from crowdprism.annotations.names import positions
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, some
from crowdprism.results.fit_result import FitResult
from crowdprism.seeding import stream
from crowdprism.training import InputScaling, Items, TensorItems
from crowdprism.training.batches import DatasetItems, MappedFeatures

Features = Tensor | Dataset[Any] | DataLoader[Any]
IN_MEMORY_BYTES = 2**28  # of a memory-mapped array; larger ones stay on disk
N_SAMPLED = 1000  # items of a Dataset whose mean and deviation stand for those of all


def is_stream(X: Any) -> bool:
    return isinstance(X, (Dataset, DataLoader))


def dataset_of(X: Any) -> Any:
    return X.dataset if isinstance(X, DataLoader) else X


def n_items_of(X: Features) -> int:
    return len(dataset_of(X))


def item_shape(X: Features) -> tuple[int, ...]:
    if not is_stream(X):
        return tuple(X.shape[1:])  # type: ignore[union-attr]
    first = dataset_of(X)[0]
    return tuple((first[0] if isinstance(first, (tuple, list)) else first).shape)


def read_features(model: Any, X: Any, *, fitted_shape: tuple[int, ...] | None = None, what: str = "X") -> Features:
    """Check features of items for a classifier, which learns their shape and names or, if fitted, compares them."""
    if not is_stream(X) and not hasattr(X, "shape"):
        X = np.asarray(X)
    first = fitted_shape is None
    if isinstance(X, np.memmap) and X.nbytes > IN_MEMORY_BYTES and X.ndim > 1 and X.dtype.kind in "fiub":
        X = on_disk(X, what)
    elif not is_stream(X) and len(X.shape) <= 2 and not isinstance(X, Tensor):
        X = validate_data(model, X, reset=first, dtype=None, ensure_all_finite=False)
    features = as_features(X, what=what)
    shape = item_shape(features)
    if first:
        model.n_features_in_ = shape[0]
    elif shape != fitted_shape:
        raise InvalidParameterError(f"Items of {what} have shape {shape}, but the model was fitted on {fitted_shape}.")
    return features


def on_disk(array: NDArray[Any], what: str) -> MappedFeatures:
    """An array larger than memory, which is checked a part at a time; grey images get one channel."""
    step = max(1, IN_MEMORY_BYTES // max(array[:1].nbytes, 1))
    for first in range(0, len(array), step):
        require_finite(array[first : first + step], what, first=first)
    return MappedFeatures(array[:, None] if array.ndim == 3 else array)


def as_features(X: Any, *, what: str = "X") -> Features:
    """Features as a float32 or uint8 tensor (n_items, ...), grey images with a channel; or the Dataset as it is."""
    if is_stream(X):
        if n_items_of(X) == 0:
            raise InvalidParameterError(f"{what} has 0 items.")
        return X  # type: ignore[no-any-return]
    array = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except ValueError as error:
            raise InvalidParameterError(f"{what} must hold numbers: {error}. Encode text as numbers first.") from error
    if array.ndim < 2:
        raise InvalidParameterError(
            f"{what} must have at least 2 dimensions (n_items, n_features), but has shape {array.shape}. "
            "Reshape your data: X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one item."
        )
    if array.dtype.kind not in "fiub":
        raise InvalidParameterError(f"{what} must hold numbers, not {array.dtype}. Encode text as numbers first.")
    if 0 in array.shape:
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


def require_finite(array: NDArray[Any], what: str, *, first: int = 0) -> None:
    """Raise where values are NaN or infinite: how many, and the first by row (counted from `first`) and column."""
    if array.dtype.kind != "f" or np.isfinite(array.sum(dtype=np.float64)):
        return
    bad = np.argwhere(~np.isfinite(array))
    if not len(bad):
        return
    at, *inside = bad[0].tolist()
    where = f"row {first + at}, column {inside[0]}" if len(inside) == 1 else f"item {first + at}, position {inside}"
    raise InvalidParameterError(
        f"{what} contains NaN or infinite values: {len(bad)} of {array.size}, in {len(np.unique(bad[:, 0]))} items; "
        f"the first is {array[tuple(bad[0])]} at {where}. Impute them (sklearn.impute.SimpleImputer) or drop the items."
    )


def make_scaling(features: Features, *, standardize: bool | str) -> InputScaling:
    """Mean and standard deviation of these items, of a sample where they are streamed; or leave them as they are."""
    if not standardize:
        return InputScaling.identity()
    if is_stream(features):
        n_items = n_items_of(features)
        chosen = np.unique(np.linspace(0, n_items - 1, min(n_items, N_SAMPLED)).astype(int)).tolist()
        found = [dataset_of(features)[place] for place in chosen]
        rows = [torch.as_tensor(one[0] if isinstance(one, (tuple, list)) else one) for one in found]
        features = torch.stack(rows)
    return InputScaling.of(features, one_unit=None if standardize == "auto" else False)  # type: ignore[arg-type]


def make_items(features: Features, scaling: InputScaling, device: torch.device, n_workers: int) -> Items:
    if isinstance(features, Tensor):
        return TensorItems(features, scaling, device)
    return DatasetItems(features, scaling, device, n_workers)


def part_of(features: Features, index: NDArray[np.int64]) -> Features:
    if isinstance(features, MappedFeatures):
        return features.part(index)
    if is_stream(features):
        return Subset(dataset_of(features), index.tolist())
    return features[torch.from_numpy(index)]  # type: ignore[index]


def item_weights(sample_weight: Any, n_items: int) -> NDArray[np.float64]:
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_items,):
        raise InvalidParameterError(f"sample_weight has shape {weight.shape}, but X has {n_items} items.")
    bad = np.flatnonzero(~np.isfinite(weight) | (weight < 0))
    if len(bad):
        raise InvalidParameterError(
            f"{len(bad)} of {n_items} values of sample_weight are no numbers of at least 0; the first is "
            f"{weight[bad[0]]} of item {bad[0]}."
        )
    if not weight.any():
        raise InvalidParameterError("All values of sample_weight are zero, so that no item is left to train on.")
    return weight


def with_unlabelled(features: Features, extra: Features) -> Features:
    if isinstance(features, Tensor) and isinstance(extra, Tensor):
        return torch.cat([features, extra.to(features.dtype)])
    if isinstance(features, Tensor) or isinstance(extra, Tensor):
        raise InvalidParameterError("X and X_unlabelled must both be arrays, or both be torch Datasets.")
    return ConcatDataset([dataset_of(features), dataset_of(extra)])


def annotations_of(y: Any) -> Annotations:
    """Accept `Annotations`, a 2-D table with -1 for none, or a 1-D array: the labels of a single annotator."""
    if y is None:
        raise InvalidParameterError("This classifier requires y to be passed, but the target y is None.")
    if isinstance(y, Annotations):
        return y
    if not hasattr(y, "shape"):
        y = np.asarray(y)
    if len(y.shape) != 1:
        return as_annotations(y)
    labels = np.asarray(y)
    check_classification_targets(labels)
    if labels.dtype.kind == "f":
        labels = labels.astype(np.int64)  # whole numbers: checked above
    return Annotations.from_triplets(np.arange(len(labels)), np.zeros(len(labels), dtype=np.int64), labels.tolist())


def matched(annotations: Annotations, X: Any, n_items: int, items: Any = None) -> Annotations:
    """Annotations in the order of the rows of X, matched by `items` or a data frame's index, else by position."""
    names = list(items) if items is not None else row_names(X)
    if names is not None and items is None and (positions(annotations.items, names) < 0).all():
        names = None  # an index left over from a split says nothing about items that are numbered otherwise
    if names is None:
        if annotations.n_items == n_items:
            return annotations
        raise InvalidAnnotationsError(
            f"X has {n_items} rows but the annotations have {annotations.n_items} items "
            f"({some(annotations.items.tolist())}).",
            remedy="Name each row of X with {items}, or bring the annotations into the order of X with "
            "annotations.align_items(ids).",
        )
    if len(names) != n_items:
        raise InvalidParameterError(f"items has {len(names)} names for {n_items} rows of X.", parameter="items")
    rows = set(names)
    without_row = [name for name in annotations.items.tolist() if name not in rows]
    place = positions(annotations.items, names)
    unknown = [name for name, at in zip(names, place, strict=True) if at < 0]
    if without_row or unknown:
        raise InvalidAnnotationsError(
            f"X and the annotations are of different items: {len(unknown)} rows of X are no items of the annotations "
            f"({some(unknown) or 'none'}), and {len(without_row)} items have no row in X "
            f"({some(without_row) or 'none'}). "
            "Use annotations.align_items(ids) to keep the items of X (those without annotations may stay)."
        )
    return annotations[place] if (place != np.arange(n_items)).any() else annotations


def known_annotations(y: Any, X: Any, result: FitResult) -> Annotations:
    """Annotations of the rows of X; the columns of a table are the fitted annotators, its labels the class names."""
    if not isinstance(y, Annotations) and np.ndim(y) == 2 and np.shape(y)[1] == result.n_annotators:
        names = {"classes": result.classes.tolist(), "annotator_names": result.annotators.tolist()}
        y = Annotations.from_dense(y, **names)
    return matched(as_annotations(y), X, n_items_of(X))


def row_names(X: Any) -> list[Any] | None:
    """The row labels of a data frame whose index is more than a count from 0, else None."""
    index = getattr(X, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex" or not hasattr(index, "tolist"):
        return None
    return list(index.tolist())


def require_learnable(annotations: Annotations) -> None:
    if annotations.n_annotations == 0:
        raise InvalidAnnotationsError(
            f"There is no annotation at all for the {annotations.n_items} items. Check how they were selected."
        )
    if annotations.n_classes < 2:
        raise InvalidAnnotationsError(
            f"There is only 1 class: {some(annotations.classes.tolist())}. A classifier needs at least two.",
            remedy="List every class that annotators could choose with {classes}",
        )


def plain_seed(random_state: Any) -> int:
    """Return a plain seed; None is 0, and a `RandomState` gives one draw."""
    if random_state is None or isinstance(random_state, (int, np.integer)):
        stream(random_state, "check")  # refuses negative seeds
        return int(random_state or 0)
    return int(stream(random_state, "random_state").integers(2**31))
