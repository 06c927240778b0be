"""Figures by which an epoch is chosen: likelihood of held-out annotations, or accuracy on clean labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import positions
from crowdprism.classifiers import posterior as evidence
from crowdprism.classifiers.problem import require_same_classes
from crowdprism.errors import InvalidParameterError, some
from crowdprism.networks import CrowdHead
from crowdprism.training import Items, predict_log_probs


@dataclass(frozen=True)
class Validation:
    """What is measured after each epoch.

    Attributes
    ----------
    items
        Source of the validation features, or None: the first `n_training_items` training items.
    truth
        (n_items,) true class codes, or None.
    held_out
        Annotations to be predicted, or None.
    """

    items: Items | None
    truth: NDArray[np.int64] | None
    held_out: Annotations | None
    training: Annotations

    def bind(self, network: nn.Module, head: CrowdHead, training_items: Items) -> Callable[[], float]:
        """Return the function that the training loop calls; larger is better."""
        items = training_items if self.items is None else self.items

        def measure() -> float:
            class_probs = predict_log_probs(network, items).double().exp().numpy()
            with torch.no_grad():
                found = head.confusions()
            return self.figure(class_probs, None if found is None else found.double().cpu().numpy())

        return measure

    def figure(self, class_probs: NDArray[Any], confusions: NDArray[Any] | None) -> float:
        """Return accuracy on true classes, or the mean log-likelihood of held-out annotations.

        Parameters
        ----------
        class_probs
            (n_items, n_classes) of the validation items.
        confusions
            (n_annotators, true class, given label).
        """
        if self.truth is not None:
            return float(np.mean(class_probs.argmax(axis=1) == self.truth))
        assert self.held_out is not None
        if confusions is None:
            raise InvalidParameterError("This method has no confusion matrices; use selection='clean' or 'last'.")
        crowd = evidence.crowd_confusion(confusions, self.training.labels_per_annotator)
        codes = require_same_classes(self.held_out, self.training.classes)
        columns = evidence.log_evidence_columns(self.held_out, codes, self.training.annotators, confusions, crowd)
        return evidence.mean_log_likelihood(class_probs, self.held_out, columns)


def make_validation(
    selection: str,
    annotations: Annotations,
    items: Items | None,
    y_valid: Any,
    *,
    fraction: float,
    seed: int,
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
        return Validation(items, true_codes(annotations, y_valid), None, annotations), annotations
    if selection == "clean":
        raise InvalidParameterError("selection='clean' needs X_valid and y_valid with true classes.")
    if selection == "annotations":
        kept, held_out = annotations.split_annotations(fraction, seed)
        if not held_out.n_annotations or not kept.n_annotations:
            raise InvalidParameterError(
                f"{annotations.n_annotations} annotations are too few to hold out a share of {fraction}; "
                "use selection='last'."
            )
        return Validation(None, None, held_out, kept), kept
    return None, annotations


def true_codes(annotations: Annotations, y_valid: Any) -> NDArray[np.int64]:
    """Return class codes of true class names; a name that is no class is an error."""
    named = np.asarray(y_valid).tolist()
    codes = positions(annotations.classes, named)
    unknown = [name for name, code in zip(named, codes, strict=True) if code < 0]
    if unknown:
        raise InvalidParameterError(
            f"{len(unknown)} of {len(named)} values of y_valid are not classes: {some(unknown)}. "
            f"Classes are {some(annotations.classes.tolist())}."
        )
    return codes
