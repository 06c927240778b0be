"""What a fitted classifier is used for: predictions, scores, corrected labels, a torch module."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import sklearn.exceptions
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data
from torch import nn

from crowdprism.annotations import Annotations, as_annotations
from crowdprism.annotations.names import NameArray
from crowdprism.classifiers import posterior as evidence
from crowdprism.classifiers.ensemble import ClassProbabilities, Member, mean_class_probs
from crowdprism.classifiers.feature_arrays import Features, as_features, is_stream, n_items_of
from crowdprism.classifiers.problem import make_items, matched, require_same_classes
from crowdprism.classifiers.training_parameters import TrainingParameters
from crowdprism.errors import InvalidParameterError, NotFittedError
from crowdprism.results import FitResult
from crowdprism.training import InputScaling, Items


class UnfittedError(NotFittedError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """A learned quantity was asked for before `fit`; scikit-learn's tools know it as theirs."""


class FittedClassifier(TrainingParameters):
    """The half of a classifier that works on what `CrowdClassifier.fit` has left."""

    no_confusions: ClassVar[str] = ""  # why a method has no confusion matrices, and which to take instead

    classes_: NameArray
    result_: FitResult
    _members: list[Member]
    _scaling: InputScaling
    _annotators: NameArray
    _labels_per_annotator: NDArray[Any]
    _confusions: NDArray[Any] | None

    @property
    def _posterior_temper(self) -> float:
        """How the annotations of an item add up in `label_posterior`; see `evidence.posterior`."""
        return 1.0

    # -- features -------------------------------------------------------------------------------------------

    def _features(self, X: Any, *, reset: bool = False, what: str = "X") -> Features:
        """Check features, and that later ones have the shape of those fitted."""
        if is_stream(X):
            return as_features(X, what=what)
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        if len(X.shape) <= 2 and not isinstance(X, torch.Tensor):
            X = validate_data(
                self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=1, ensure_min_features=1
            )
        features = as_features(X, what=what)
        shape = tuple(features.shape[1:])  # type: ignore[union-attr]
        if reset:
            self._input_shape = shape
            self.n_features_in_ = shape[0]
        elif shape != self._input_shape:
            raise InvalidParameterError(
                f"Items of {what} have shape {shape}, but the model was fitted on {self._input_shape}."
            )
        return features

    def _make_scaling(self, features: Features) -> InputScaling:
        if is_stream(features):
            first = getattr(features, "dataset", features)[0]  # type: ignore[index]
            self._input_shape = tuple((first[0] if isinstance(first, (tuple, list)) else first).shape)
            return InputScaling.identity()
        return InputScaling.of(features) if self.standardize else InputScaling.identity()  # type: ignore[arg-type]

    def _items(self, features: Features, device: torch.device) -> Items:
        return make_items(features, self._scaling, device, self.n_workers)

    # -- use ------------------------------------------------------------------------------------------------

    def _require_fitted(self) -> None:
        if not hasattr(self, "result_"):
            raise UnfittedError(f"This {type(self).__name__} is not fitted yet. Call fit(X, annotations) first.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "result_")

    @property
    def confusions_(self) -> NDArray[Any] | None:
        """(n_annotators, true class, given label), rows sum to one; None for methods without."""
        self._require_fitted()
        return self._confusions

    @property
    def annotator_accuracy_(self) -> NDArray[Any] | None:
        """(n_annotators,) probability that a label is right, for items like those fitted."""
        self._require_fitted()
        return self.result_.annotator_accuracy

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities of items by their features alone: (n_items, n_classes), in the order of `classes_`."""
        self._require_fitted()
        return mean_class_probs(self._members, self._items(self._features(X), self._predict_device()))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each item, by name; ties go to the class that comes first."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _predict_device(self) -> torch.device:
        parameter = next(self._members[0].network.parameters(), None)
        return torch.device("cpu") if parameter is None else parameter.device

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy where y holds true classes (1-D); `annotation_score` where y is annotations.

        So `GridSearchCV` on annotations chooses by the likelihood of held-out annotations.
        """
        if isinstance(y, Annotations) or len(np.shape(y)) == 2:
            return self.annotation_score(X, y)
        return float(super().score(X, y, sample_weight))

    def annotation_score(self, X: Any, y: Any) -> float:
        """Mean log-likelihood of annotations given their items' features; annotators never seen are the average one."""
        self._require_fitted()
        features = self._features(X)
        annotations = matched(self._known(y), X, n_items_of(features))
        class_probs = mean_class_probs(self._members, self._items(features, self._predict_device()))
        return evidence.mean_log_likelihood(class_probs, annotations, self._columns(annotations))

    def label_posterior(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Class probabilities given features and annotations: corrected labels of annotated items.

        The classifier's probabilities times each annotator's evidence. Annotators that were not seen in `fit` get the
        confusion of the crowd's average label; items without annotations get the classifier's probabilities.
        """
        self._require_fitted()
        features = self._features(X)
        annotations = matched(self._known(y), X, n_items_of(features))
        class_probs = mean_class_probs(self._members, self._items(features, self._predict_device()))
        return self._posterior_of(class_probs, annotations)

    def _known(self, y: Any) -> Annotations:
        """Accept annotations, or a table in which columns are the fitted annotators and labels the class names."""
        if isinstance(y, Annotations):
            return y
        if np.ndim(y) == 2 and np.shape(y)[1] == len(self._annotators):
            return Annotations.from_dense(y, classes=self.classes_.tolist(), annotator_names=self._annotators.tolist())
        return as_annotations(y)

    def _columns(self, annotations: Annotations) -> NDArray[np.float64]:
        if self._confusions is None:
            raise InvalidParameterError(
                f"{type(self).__name__} learns no confusion matrices, so it has no evidence.{self.no_confusions}"
            )
        crowd = evidence.crowd_confusion(self._confusions, self._labels_per_annotator)
        codes = require_same_classes(annotations, self.classes_)
        return evidence.log_evidence_columns(annotations, codes, self._annotators, self._confusions, crowd)

    def _posterior_of(self, class_probs: NDArray[Any], annotations: Annotations) -> NDArray[np.float64]:
        columns = self._columns(annotations)
        return evidence.posterior(class_probs, annotations, columns, temper=self._posterior_temper)

    def to_module(self) -> nn.Module:
        """Return a torch module from raw features to class probabilities, scaling and all heads included."""
        self._require_fitted()
        return ClassProbabilities(
            self._scaling, [member.network for member in self._members], [member.order for member in self._members]
        ).eval()
