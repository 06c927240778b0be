"""A training problem: features and annotations of the same items, checked, with what is held out for validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crowdprism.annotations import Annotations, as_annotations
from crowdprism.annotations.names import positions
from crowdprism.classifiers.feature_arrays import Features, is_stream, n_items_of, row_names
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, some
from crowdprism.training import DatasetItems, FlatAnnotations, InputScaling, Items, TensorItems


@dataclass(frozen=True)
class Problem:
    """What a method sees when it makes its crowd head.

    Attributes
    ----------
    annotations
        The annotations to train on, one item per row of the features (held-out annotations already taken away).
    flat
        The same as flat arrays; unlabelled items follow after the annotated ones.
    items
        Source of features for all items of `flat`.
    batch_size
        Items per step.
    device, seed, member
        Where to compute; the user's seed; which of `n_heads` networks this is.
    """

    annotations: Annotations
    flat: FlatAnnotations
    items: Items
    batch_size: int
    device: torch.device
    seed: int
    member: int = 0

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.annotations.n_classes

    @property
    def n_annotators(self) -> int:
        """Number of annotators."""
        return self.annotations.n_annotators


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
    from sklearn.utils.multiclass import check_classification_targets

    labels = np.asarray(y)
    check_classification_targets(labels)
    if labels.dtype.kind == "f":
        labels = labels.astype(np.int64)  # whole numbers: checked above
    rows = np.arange(len(labels))
    return Annotations.from_triplets(rows, np.zeros(len(rows), dtype=np.int64), labels.tolist())


def matched(annotations: Annotations, X: Any, n_items: int, items: Any = None) -> Annotations:
    """Bring annotations into the order of the rows of X; different items are an error that names them.

    Rows are matched by name where `items` or the index of a data frame gives names, else by position.
    """
    names = list(items) if items is not None else row_names(X)
    if names is not None and items is None and not _share_names(annotations, names):
        names = None  # an index left over from a split says nothing about items that are numbered otherwise
    if names is None:
        if annotations.n_items == n_items:
            return annotations
        raise InvalidAnnotationsError(
            f"X has {n_items} rows but the annotations have {annotations.n_items} items "
            f"({some(annotations.items.tolist())}). Pass items=[...] with the name of each row of X, or bring the "
            "annotations into the order of X with annotations.align_items(ids)."
        )
    if len(names) != n_items:
        raise InvalidParameterError(f"items has {len(names)} names for {n_items} rows of X.")
    without_row = [name for name in annotations.items.tolist() if name not in set(names)]
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


def _share_names(annotations: Annotations, names: list[Any]) -> bool:
    return bool((positions(annotations.items, names) >= 0).any())


def require_learnable(annotations: Annotations) -> None:
    """Raise where there is nothing to learn from: no annotation at all, or a single class."""
    if annotations.n_annotations == 0:
        raise InvalidAnnotationsError(
            f"There is no annotation at all for the {annotations.n_items} items. Check how they were selected."
        )
    if annotations.n_classes < 2:
        raise InvalidAnnotationsError(
            f"There is only 1 class: {some(annotations.classes.tolist())}. A classifier needs at least two; pass "
            "classes=[...] with every class that annotators could choose."
        )


def require_same_classes(annotations: Annotations, classes: NDArray[Any]) -> NDArray[np.int64]:
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


def make_items(features: Features, scaling: InputScaling, device: torch.device, n_workers: int) -> Items:
    """Return the source of features for these items."""
    if is_stream(features):
        return DatasetItems(features, scaling, device, n_workers)  # type: ignore[arg-type]
    return TensorItems(features, scaling, device)  # type: ignore[arg-type]


def with_unlabelled(features: Features, extra: Features | None) -> tuple[Features, int]:
    """Append unlabelled items to the annotated ones; return all and how many were added."""
    if extra is None:
        return features, 0
    if is_stream(features) or is_stream(extra):
        if not (is_stream(features) and is_stream(extra)):
            raise InvalidParameterError("X and X_unlabelled must both be arrays, or both be torch Datasets.")
        from torch.utils.data import ConcatDataset

        parts = [
            getattr(part, "dataset", part) if hasattr(part, "batch_sampler") else part for part in (features, extra)
        ]
        return ConcatDataset(parts), n_items_of(extra)  # type: ignore[arg-type]
    if features.shape[1:] != extra.shape[1:]:  # type: ignore[union-attr]
        raise InvalidParameterError(
            f"X_unlabelled has items of shape {tuple(extra.shape[1:])}, "  # type: ignore[union-attr]
            f"X of {tuple(features.shape[1:])}."  # type: ignore[union-attr]
        )
    return torch.cat([features, extra.to(features.dtype)]), len(extra)  # type: ignore[union-attr,arg-type,list-item]
