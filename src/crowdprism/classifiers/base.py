"""What every classifier shares: scikit-learn's conventions, one training loop, one `result_`.

How to add a method is described in `crowdprism.classifiers`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import sklearn.exceptions
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import nn

from crowdprism.aggregators.base import with_gold_classes
from crowdprism.aggregators.copies import Dependence
from crowdprism.aggregators.one_voice import given_groups
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import NameArray
from crowdprism.classifiers import fitting, inputs, posterior, runs, storage
from crowdprism.classifiers.fitting import Choice, NetworkPlan, Prepared, Problem, Run
from crowdprism.errors import CrowdprismWarning, IdentifiabilityWarning, InvalidParameterError, NotFittedError
from crowdprism.networks import CrowdHead, build_network
from crowdprism.parameters import FLAG, PROBABILITY, Allowed, OneOf, Parameterized, Real, Whole
from crowdprism.results.manifest import read_run
from crowdprism.seeding import torch_stream
from crowdprism.training import Augmentation, Callback, TrainingSettings
from crowdprism.training.distributed import require_shareable

INTERRUPTED = "Training was interrupted: labels and classifier are as they were after the last complete epoch."


class UnfittedError(NotFittedError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """A learned quantity was asked for before `fit`; scikit-learn's tools know it as theirs."""


@dataclass(kw_only=True, eq=False, repr=False)
class CrowdClassifier(Parameterized, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network trained on features and annotations; base of all methods.

    Parameters
    ----------
    network, network_options
        A name (`crowdprism.networks.NETWORKS`; `"auto"` chooses by the shape of X) and its options, a
        `torch.nn.Module`, or a function `(input_shape, n_classes) -> Module`. Networks return logits.
    epochs, batch_size, optimizer, schedule, learning_rate, weight_decay
        As in `crowdprism.training.TrainingSettings`. A batch size of `"auto"` is a tenth of the items within 8 .. 64. A
        weight decay of `"auto"` is chosen among a few by held-out items (see `candidates_`).
    annotator_learning_rate, annotator_weight_decay
        Of the crowd head; by default ten times the network's rate (`rate_ratio` of the class), and no decay.
    clip_norm, warm_start, ramp, hold_annotators, patience, equal_epochs
        As in `TrainingSettings`.
    selection
        Which epoch's weights are kept: `"last"`; the one with the best likelihood of held-out `"annotations"` (a
        `validation_fraction` of them, or `y_valid` if that is annotations); the one with the best accuracy on `"clean"`
        labels `y_valid`.
    standardize
        Centre features and divide them by the standard deviation of the training items: True each by its own (images
        per channel), `"auto"` all by one number unless their deviations are far apart, as different units have.
    input_noise, shift, flip, mixup
        As in `crowdprism.training.Augmentation`. An input noise of `"auto"` is chosen among 0.5, 1 and 2 by held-out
        items; images get none.
    temperature
        `predict_proba` raises probabilities to the power 1 / temperature; `"auto"` takes the temperature that best
        explains the annotations of held-out items. Where noise and temperature are given, nothing is held out.
    use_gold
        Train on the annotations' gold as well: the clean cross-entropy of those items is added to the loss.
    dependence
        Who is counted once in `label_posterior`, as in `crowdprism.aggregators.DawidSkene`.
    n_heads
        Number of networks trained from different seeds and averaged; small ones are trained together.
    device, precision, compile, n_workers
        As in `TrainingSettings`; DataLoader workers where X is a Dataset.
    checkpoint, resume
        Keep the state after each epoch there, and go on from what is there (`resume=False` starts afresh).
    callbacks
        Functions called with an `EpochRecord` after each epoch; one that returns True ends training.
    random_state
        Seed of all random streams. Torch's and NumPy's global random states are never changed.

    Attributes
    ----------
    result_, classes_, predictor_
        What was learned (`FitResult`), the class names in the order of `predict_proba`, all that predictions need.
    histories_, best_epochs_, alignments_, threads_, interrupted_
        Losses by epoch, the selected epoch, the check of the class order and the number of processor threads used for
        each head; whether Ctrl-C ended it.
    chosen_settings_, temperature_, candidates_
        Settings that were left to the data, the temperature of predictions, and all values that were tried.
    """

    name: ClassVar[str]
    kinds: ClassVar[dict[str, type[CrowdClassifier]]] = {}  # every method by name, for loading; users' own as well
    rate_ratio: ClassVar[float] = 10.0  # annotators' logits travel several units, too far for the network's rate
    no_confusions: ClassVar[str] = ""  # why a method has no confusion matrices, and which to take instead

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **TrainingSettings.allowed,
        **Augmentation.allowed,
        **dict.fromkeys(("compile", "resume", "use_gold"), FLAG),
        "standardize": (FLAG, "auto"),
        "temperature": (Real(0, above=True), "auto"),
        **dict.fromkeys(("weight_decay", "input_noise"), (Real(0), "auto")),
        "batch_size": (Whole(1), "auto"),
        "annotator_learning_rate": (Real(0), None),
        "warm_start": (Real(0, 1), OneOf(False)),  # scikit-learn's tools know the name as a switch
        "selection": OneOf("annotations", "clean", "last"),
        "validation_fraction": PROBABILITY,
        "n_heads": Whole(1),
        "n_workers": Whole(0),
    }

    network: Any = "auto"
    network_options: dict[str, Any] | None = None
    epochs: int = 50
    batch_size: int | Literal["auto"] = "auto"
    optimizer: str = "adam"
    schedule: str = "cosine"
    learning_rate: float = 3e-3
    annotator_learning_rate: float | None = None
    weight_decay: float | Literal["auto"] = 5e-3
    annotator_weight_decay: float = 0.0
    clip_norm: float | None = None
    warm_start: float = 0.2
    ramp: float = 0.0
    hold_annotators: float = 0.0
    patience: int | None = None
    selection: Literal["annotations", "clean", "last"] = "last"
    equal_epochs: Literal["latest", "earliest"] = "latest"
    validation_fraction: float = 0.1
    standardize: bool | Literal["auto"] = "auto"
    input_noise: float | Literal["auto"] = "auto"
    shift: int = 0
    flip: bool = False
    mixup: float = 0.0
    temperature: float | Literal["auto"] = "auto"
    use_gold: bool = True
    dependence: Dependence = "auto"
    n_heads: int = 1
    device: str = "auto"
    precision: str = "float32"
    compile: bool = False
    n_workers: int = 0
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = True
    callbacks: Sequence[Callback] = ()
    random_state: Any = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            CrowdClassifier.kinds[cls.name] = cls

    def _make_head(self, problem: Problem) -> CrowdHead:
        """Return the method's crowd head for this problem."""
        raise NotImplementedError

    def _make_head_for(self, network: nn.Module, problem: Problem) -> CrowdHead:
        """Return the crowd head; overridden by methods whose head looks into the network."""
        return self._make_head(problem)

    def _extend_network(self, network: nn.Module, plan: NetworkPlan, generator: torch.Generator) -> nn.Module:
        """Return the module that predicts, where it is more than the network; also called when a model is loaded."""
        return network

    def _check_parameters(self, problem: Problem) -> None:
        """Raise for parameters that do not fit each other or the data; `_allowed` has checked each by itself."""

    def _advice(self, problem: Problem) -> Iterable[str]:
        """Return what to warn of before training."""
        return ()

    def _settings(self, problem: Problem) -> TrainingSettings:
        """Return how to train: the parameters of the same names, unless a method changes them."""
        return fitting.training_settings(self, {one.name for one in fields(CrowdClassifier)}, problem)

    def _method_name(self, problem: Problem) -> str:
        """Name of the method in the result."""
        return self.name

    def _selection(self) -> str:
        """Which epoch is kept; see `selection`."""
        return "clean" if self._as_published else self.selection

    @property
    def _as_published(self) -> bool:
        """Whether held-out items choose nothing, clean labels the epoch, and a wrong order of classes is not mended."""
        return False

    @property
    def _open(self) -> bool:
        """Whether something is left to the data."""
        return not self._as_published and "auto" in (self.weight_decay, self.input_noise, self.temperature)

    def _after_training(self, run: Run) -> None:
        """Take what else is wanted from a trained network and head."""

    @property
    def _posterior_temper(self) -> float:
        """How the annotations of an item add up in `label_posterior`; see `posterior.posterior`."""
        return 1.0

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        X_valid: Any = None,
        y_valid: Any = None,
        X_unlabelled: Any = None,
        items: Any = None,
    ) -> Self:
        """Train on features and annotations of the same items.

        Parameters
        ----------
        X
            (n_items, n_features) array or data frame, images (n_items, channels, height, width), or a torch Dataset.
        y
            `Annotations`, a 2-D array (items x annotators, -1 or NaN for none), or a 1-D array: one annotator's labels.
        sample_weight
            (n_items,) how often each item counts: twice for 2, in every other epoch for 0.5; 0 leaves it out, also of
            `result_`.
        X_valid, y_valid
            Items for choosing the epoch: with true classes (1-D, by class name) or with `Annotations`.
        X_unlabelled
            Further items without annotations; they take part in volume terms over predictions.
        items
            Name of each row of X, where rows are not in the order of the annotations' items.
        """
        given = {"X_valid": X_valid, "y_valid": y_valid, "X_unlabelled": X_unlabelled, "items": items}
        prepared = self.prepare(X, y, sample_weight=sample_weight, **given)
        choice = runs.choose(self, prepared.problem)
        problem = prepared.to_train(choice)
        return self.keep(prepared, runs.train(self, problem, prepared.validation), choice)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, epochs: int = 1, items: Any = None
    ) -> Self:
        """Go on training on these items for one epoch, or begin; `result_` is then about these items.

        Networks, annotators, scaling and temperature are those that `fit` or an earlier call left; the optimiser starts
        anew, at a constant rate; nothing is held out. Annotators and classes must be those of the first call, where
        `classes` lists all classes; the other arguments are as in `fit`.
        """
        return runs.partial_fit(self, X, y, classes, sample_weight, epochs=epochs, items=items)

    def prepare(self, X: Any, y: Any, **given: Any) -> Prepared:
        """First part of `fit`, with its arguments: check parameters and data, and make the training problem."""
        self.check_params()
        prepared = fitting.prepare(self, X, y, **given)
        self._check_parameters(prepared.problem)
        if self.dependence not in ("auto", None):
            given_groups(self.dependence, prepared.annotations)  # an unknown name is an error before training
        advice = (*self._advice(prepared.problem), *fitting.gold_advice(prepared.problem.annotations))
        for message in advice:
            warnings.warn(message, CrowdprismWarning, stacklevel=3)
        return replace(prepared, warnings=advice)

    def make_network(self, plan: NetworkPlan) -> nn.Module:
        """Return the untrained module that predicts, its weights drawn by the seed."""
        drawn, extension = (torch_stream(plan.seed, purpose, plan.member) for purpose in ("weights", "extension"))
        shapes, options = (plan.input_shape, plan.n_classes), self.network_options
        network = build_network(plan.architecture, *shapes, options=options, generator=drawn).to(plan.device)
        fitting.try_network(network, plan)
        return self._extend_network(network, plan, extension).to(plan.device)

    def make_run(self, problem: Problem) -> Run:
        """Return an untrained network and its crowd head for a problem."""
        plan = problem.plan(self.network)
        network = self.make_network(plan)
        fitting.require_batches(network, min(problem.batch_size, len(problem.items)))
        head = self._make_head_for(network, problem).to(problem.device)
        require_shareable(head, self.name)
        return Run(plan, network, head, self._settings(problem), problem)

    def keep(self, prepared: Prepared, trained: Sequence[Run], choice: Choice) -> Self:
        """Last part of `fit`: put the classes of the trained networks in order, and write `result_`."""
        for one in trained:
            self._after_training(one)
        examined = [posterior.examine_run(one, mend=not self._as_published) for one in trained]
        self.alignments_ = [one.alignment for one in examined]
        self.histories_ = [one.outcome.history for one in trained]
        self.best_epochs_ = [one.outcome.best_epoch for one in trained]
        self.interrupted_ = trained[-1].outcome.interrupted
        self.threads_ = [one.outcome.threads for one in trained]
        states = [(one.head.item_state, one.head.state_dict()) for one in trained]  # without that of training items
        self._head_states = [{k: value.clone() for k, value in own.items() if k not in items} for items, own in states]
        self.chosen_settings_, self.candidates_ = dict(choice.settings), list(choice.candidates)
        self.temperature_ = choice.temperature
        permuted = [one.describe(mended=not self._as_published) for one in self.alignments_ if one.permuted]
        for message in permuted:
            warnings.warn(message, IdentifiabilityWarning, stacklevel=3)
        members, plan = tuple(one.member for one in examined), trained[0].plan
        shapes = (plan.input_shape, plan.architecture)
        self.predictor_ = posterior.Predictor(members, prepared.scaling, *shapes, choice.temperature)
        class_probs = posterior.mean_class_probs([one.class_probs for one in examined], choice.temperature)
        warned = (*prepared.warnings, *permuted, *([INTERRUPTED] if self.interrupted_ else []))
        self.classes_: NameArray = prepared.annotations.classes
        self.result_ = posterior.make_result(self, prepared, class_probs, warned=warned)
        if self.result_.confusions is not None:
            class_probs = self._posterior(class_probs, prepared.annotations)
        known = with_gold_classes(class_probs, prepared.problem.annotations)
        self.result_ = replace(self.result_, class_probabilities=known)
        return self

    def _require_fitted(self) -> None:
        if not hasattr(self, "result_"):
            raise UnfittedError(f"This {type(self).__name__} is not fitted yet. Call fit(X, annotations) first.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "result_")

    @property
    def confusions_(self) -> NDArray[Any] | None:
        """(n_annotators, true class, given label), rows sum to one; None for methods without."""
        self._require_fitted()
        return self.result_.confusions

    @property
    def annotator_accuracy_(self) -> NDArray[Any] | None:
        """(n_annotators,) probability that a label is right, for items like those fitted."""
        self._require_fitted()
        return self.result_.annotator_accuracy

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities of items by their features alone: (n_items, n_classes), in the order of `classes_`."""
        self._require_fitted()
        predictor = self.predictor_
        features = inputs.read_features(self, X, fitted_shape=predictor.input_shape)
        return predictor.class_probs(inputs.make_items(features, predictor.scaling, predictor.device, self.n_workers))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each item, by name; ties go to the class that comes first."""
        best = self.predict_proba(X).argmax(axis=1)  # raises first where the model is not fitted
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy where y holds true classes (1-D); `annotation_score`, also in `GridSearchCV`, for annotations."""
        if isinstance(y, Annotations) or len(np.shape(y)) == 2:
            return self.annotation_score(X, y)
        return float(super().score(X, y, sample_weight))

    def annotation_score(self, X: Any, y: Any) -> float:
        """Mean log-likelihood of annotations given their items' features; annotators never seen are the average one."""
        class_probs = self.predict_proba(X)
        annotations = inputs.known_annotations(y, X, self.result_)
        return posterior.mean_log_likelihood(class_probs, annotations, self._evidence(annotations))

    def label_posterior(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Class probabilities given features and annotations: corrected labels of annotated items.

        Annotators that were not seen in `fit` get the confusion of the crowd's average label; those who answer as one
        voice (`result_.voices`) count once; items without annotations get the classifier's probabilities.
        """
        return self._posterior(self.predict_proba(X), inputs.known_annotations(y, X, self.result_))

    def _posterior(self, class_probs: NDArray[np.float64], annotations: Annotations) -> NDArray[np.float64]:
        columns, voices = self._evidence(annotations), self.result_.voices
        return posterior.posterior(class_probs, annotations, columns, temper=self._posterior_temper, voices=voices)

    def _evidence(self, annotations: Annotations) -> NDArray[np.float64]:
        if self.result_.confusions is None:
            raise InvalidParameterError(
                f"{type(self).__name__} learns no confusion matrices, so it has no evidence.{self.no_confusions}"
            )
        return posterior.log_evidence(annotations, self.result_.confusions, self.result_)

    def to_module(self) -> nn.Module:
        """Return a torch module from raw features to class probabilities, scaling and all heads included."""
        self._require_fitted()
        return posterior.ClassProbabilities(self.predictor_).eval()

    save, write_into, export_onnx = storage.save, storage.write_into, storage.export_onnx

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, network: nn.Module | Callable[..., Any] | None = None) -> Self:
        """Read a model that `save` wrote; `network` is needed where it was not one of ours."""
        model = read_run(Path(folder), lambda files: storage.restored(files, cls.kinds, network))
        if not isinstance(model, cls):
            raise InvalidParameterError(f"{folder} holds a {type(model).__name__}, not a {cls.__name__}.")
        return model
