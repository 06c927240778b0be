"""What every classifier shares: scikit-learn's conventions, one training loop, one `result_`.

How to add a method
-------------------
A method is one file with a subclass of `CrowdClassifier` and one line in `crowdprism.classifiers.CLASSIFIERS`.

1. Write a **crowd head**, a subclass of `crowdprism.networks.CrowdHead` (a torch module):

   - `loss(log_class_probs, batch)` returns the *sum* of the loss over the batch's annotations. `log_class_probs` is the
     log-softmax of the network's outputs, (batch, true class). `batch` (`crowdprism.networks.Batch`) has flat `item`
     (row of the batch), `annotator`, `label`, `weight`, the raw `features`, and `index`, the position of each row among
     the training items, by which per-item targets kept in a buffer are looked up.
   - `count(batch)` is the denominator of the mean; by default the number of annotations. A method whose loss is per
     item returns `len(batch.index)`.
   - `penalties(log_class_probs, batch)` returns named regulariser terms, strength included. The loop multiplies them by
     the ramp of `warm_start` and `ramp`.
   - `end_epoch(view)` is the EM-style hook: `view.log_class_probs` are the network's predictions for all training items
     (computed when first asked for), `view.item/annotator/label/weight` all annotations, `view.network` the network.
     What it keeps between epochs goes into registered buffers (`self.register_buffer`), so that checkpoints carry it.
   - `start_epoch(epoch)`, `after_step(batch)` and `transform(batch, random)` (change a batch before the network sees
     it) exist as well, and `visited`, the positions of the items that training visits at all.
   - `confusions()` returns (annotator, true class, given label) with rows that sum to one, or None.

   Parameters of a head are trained with `annotator_learning_rate` and `annotator_weight_decay`. A parameter with one
   row per annotator is best held in a `crowdprism.networks.RowTable`: large tables are then updated only where a batch
   touches them. `make_annotator_layer` gives ready confusion matrices with all starts.

2. Subclass `CrowdClassifier`: set `name`; the constructor takes the method's own parameters and `**training`, passes
   the latter to `super().__init__` and only stores; `_make_head(problem)` returns the head. Optional:
   `_check_parameters`, `_settings(problem)` to change training settings, `_posterior_temper`, `_prepare_network`
   to start from weights trained otherwise, `_extend_network` where the module that predicts is more than the network,
   and `_make_head_for(network, problem)` where the head looks into the network.

`problem` (`crowdprism.classifiers.problem.Problem`) holds the training annotations, the flat arrays, the source of
features, device and seed. Draw random numbers only through `crowdprism.seeding` with `problem.seed, problem.member`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import nn

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import NameArray
from crowdprism.classifiers import storage, tuning
from crowdprism.classifiers.alignment import ClassAlignment, examine_alignment
from crowdprism.classifiers.ensemble import Member, mean_class_probs, mean_confusions
from crowdprism.classifiers.feature_arrays import n_items_of
from crowdprism.classifiers.fitted import FittedClassifier
from crowdprism.classifiers.problem import (
    Problem,
    annotations_of,
    matched,
    require_learnable,
    with_unlabelled,
)
from crowdprism.classifiers.together import Prepared, Run, can_train_together, train_together
from crowdprism.classifiers.validation import Validation, make_validation
from crowdprism.errors import IdentifiabilityWarning, InvalidParameterError
from crowdprism.networks import CrowdHead, build_network
from crowdprism.networks.build import check_output, resolve_network
from crowdprism.results.confusion import normalize_rows
from crowdprism.results.fit_result import FitResult, json_ready
from crowdprism.seeding import stream, torch_stream
from crowdprism.training import (
    Augmentation,
    CheckpointFolder,
    FlatAnnotations,
    Items,
    Trainer,
    TrainingOutcome,
    TrainingSettings,
    choose_device,
)

SELECTIONS = ("annotations", "clean", "last")
SMALLEST_AUTO_BATCH, LARGEST_AUTO_BATCH, AUTO_BATCHES = 8, 64, 10
ANNOTATOR_RATE_RATIO = 10.0  # annotators' logits must travel several units; at the network's rate they cannot
NOT_IN_FINGERPRINT = {"checkpoint", "resume", "callbacks", "n_workers", "network", "n_heads"}


class CrowdClassifier(FittedClassifier):
    """A network trained on features and annotations; base of all methods.

    Parameters
    ----------
    network, network_options
        A name (`crowdprism.networks.NETWORKS`; `"auto"` chooses by the shape of X) and its options, a
        `torch.nn.Module`, or a function `(input_shape, n_classes) -> Module`. Networks return logits.
    epochs, batch_size, optimizer, schedule, learning_rate, weight_decay
        As in `crowdprism.training.TrainingSettings`. A batch size of `"auto"` is a tenth of the items, at least 8 and
        at most 64, so that small data sets still get enough steps. A weight decay of `"auto"` is chosen among a few by
        the likelihood of held-out annotations; then the model is fitted to all (`candidates_` is the record).
    annotator_learning_rate, annotator_weight_decay
        Of the crowd head; by default ten times the network's rate (`rate_ratio` of the class), and no decay.
    clip_norm, warm_start, ramp, hold_annotators, patience
        As in `TrainingSettings`.
    selection
        Which epoch's weights are kept: `"last"`; the one with the best likelihood of held-out `"annotations"` (a
        `validation_fraction` of them, or `y_valid` if that is annotations); the one with the best accuracy on `"clean"`
        labels `y_valid`.
    standardize
        Scale features (per feature; images per channel) by mean and standard deviation of the training items.
    input_noise, shift, flip, mixup
        As in `crowdprism.training.Augmentation`. An input noise of `"auto"` is chosen as weight decay is.
    n_heads
        Number of networks trained from different seeds and averaged; small ones are trained together.
    device, precision, compile, n_workers
        `"auto"`, `"cpu"`, `"cuda"`, `"mps"`; `"float32"` or `"bfloat16"` autocast; `torch.compile`; DataLoader workers
        where X is a Dataset.
    checkpoint, resume
        Keep the state after each epoch there, and go on from what is there (`resume=False` starts afresh).
    callbacks
        Functions called with an `EpochRecord` after each epoch; one that returns True ends training.
    random_state
        Seed of all random streams. Torch's and NumPy's global random states are never changed.
    """

    name: ClassVar[str]
    kinds: ClassVar[dict[str, type[CrowdClassifier]]] = {}  # every method by name, for loading; users' own as well
    rate_ratio: ClassVar[float] = ANNOTATOR_RATE_RATIO

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Enter the method among the kinds."""
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            CrowdClassifier.kinds[cls.name] = cls

    # -- what a method supplies -----------------------------------------------------------------------------

    def _make_head(self, problem: Problem) -> CrowdHead:
        """Return the method's crowd head for this problem."""
        raise NotImplementedError

    def _make_head_for(self, network: nn.Module, problem: Problem) -> CrowdHead:
        """Return the crowd head; overridden by methods whose head looks into the network."""
        return self._make_head(problem)

    def _extend_network(
        self, network: nn.Module, *, n_annotators: int, n_classes: int, generator: torch.Generator
    ) -> nn.Module:
        """Return the module that predicts, where it is more than the network; also called when a model is loaded."""
        return network

    def _check_parameters(self, problem: Problem) -> None:
        """Raise for parameters of the method that do not fit."""

    def _settings(self, problem: Problem) -> TrainingSettings:
        """Return how to train; a method may change what the parameters say."""
        rate = self.annotator_learning_rate
        return TrainingSettings(
            epochs=self.epochs,
            batch_size=problem.batch_size,
            optimizer=self.optimizer,
            schedule=self.schedule,
            learning_rate=self.learning_rate,
            weight_decay=self._chosen("weight_decay"),
            annotator_learning_rate=self.rate_ratio * self.learning_rate if rate is None else rate,
            annotator_weight_decay=self.annotator_weight_decay,
            clip_norm=self.clip_norm,
            warm_start=self.warm_start,
            ramp=self.ramp,
            hold_annotators=self.hold_annotators,
            patience=self.patience,
            keep_best=self._selection() != "last",
            device=self.device,
            precision=self.precision,
            compile=self.compile,
            borrow_stream=not isinstance(self.network, str),
            augmentation=Augmentation(self._chosen("input_noise"), self.shift, self.flip, self.mixup),
            seed=problem.seed,
            member=problem.member,
        )

    def _method_name(self) -> str:
        """Name of the method in the result; by default the class's."""
        return self.name

    def _selection(self) -> str:
        """Which epoch is kept; see `selection`."""
        return self.selection

    def _aligns_classes(self) -> bool:
        """Whether a wrong permutation of classes is mended, or only reported."""
        return True

    def _prepare_network(self, network: nn.Module, problem: Problem) -> None:
        """Change the freshly built network before training, such as by training it on majority votes."""

    # -- fit ------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_valid: Any = None,
        y_valid: Any = None,
        X_unlabelled: Any = None,
        items: Sequence[Any] | None = None,
    ) -> Self:
        """Train on features and annotations of the same items.

        Parameters
        ----------
        X
            (n_items, n_features) array or data frame, images (n_items, channels, height, width), or a torch Dataset.
        y
            `Annotations`, a 2-D array (items x annotators, -1 or NaN for none), or a 1-D array: one annotator's labels.
        X_valid, y_valid
            Items for choosing the epoch: with true classes (1-D, by class name) or with `Annotations`.
        X_unlabelled
            Further items without annotations; they take part in volume terms over predictions.
        items
            Name of each row of X, where rows are not in the order of the annotations' items.
        """
        prepared = self._prepare(X, y, X_valid=X_valid, y_valid=y_valid, X_unlabelled=X_unlabelled, items=items)
        self._train_all(prepared.problem, prepared.validation)
        self._make_result(prepared.annotations, prepared.items, prepared.problem.seed)
        return self

    def _prepare(
        self,
        X: Any,
        y: Any,
        *,
        X_valid: Any = None,
        y_valid: Any = None,
        X_unlabelled: Any = None,
        items: Sequence[Any] | None = None,
    ) -> Prepared:
        """Check data and parameters, and bring them into the form that training takes."""
        annotations = annotations_of(y)
        features = self._features(X, reset=True)
        annotations = matched(annotations, X, n_items_of(features), items)
        require_learnable(annotations)
        self._check_common()
        seed = self._seed()
        device = choose_device(self.device)
        self._scaling = self._make_scaling(features)
        validation, kept = make_validation(
            self._selection(),
            annotations,
            None if X_valid is None else self._items(self._features(X_valid, what="X_valid"), device),
            y_valid,
            fraction=self.validation_fraction,
            seed=seed,
        )
        extra = None if X_unlabelled is None else self._features(X_unlabelled, what="X_unlabelled")
        everything, n_extra = with_unlabelled(features, extra)
        problem = Problem(
            annotations=kept,
            flat=FlatAnnotations.of(kept, extra_items=n_extra),
            items=self._items(everything, device),
            batch_size=self._batch_size(n_items_of(everything)),
            device=device,
            seed=seed,
        )
        self._warnings: list[str] = []
        self._check_parameters(problem)
        self._network_name = resolve_network(self.network, problem.items.shape)
        return Prepared(problem, validation, annotations, self._items(features, device))

    def _check_common(self) -> None:
        tuning.check(self)
        if self.selection not in SELECTIONS:
            raise InvalidParameterError(f"selection must be one of {', '.join(SELECTIONS)}, not {self.selection!r}.")
        if isinstance(self.n_heads, bool) or not isinstance(self.n_heads, int) or self.n_heads < 1:
            raise InvalidParameterError(f"n_heads must be a whole number of at least 1, not {self.n_heads!r}.")

    def _batch_size(self, n_items: int) -> int:
        if self.batch_size != "auto":
            return self.batch_size
        return min(LARGEST_AUTO_BATCH, max(SMALLEST_AUTO_BATCH, n_items // AUTO_BATCHES))

    def _seed(self) -> int:
        """Return a plain seed; a `RandomState` gives one draw."""
        if self.random_state is None or isinstance(self.random_state, (int, np.integer)):
            stream(self.random_state, "check")
            return int(self.random_state or 0)
        return int(stream(self.random_state, "random_state").integers(2**31))

    # -- training -------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Start the record of a fit."""
        self._members: list[Member] = []
        self.alignments_: list[ClassAlignment] = []
        self.histories_: list[dict[str, list[float]]] = []
        self.best_epochs_: list[int | None] = []
        self.chosen_settings_: dict[str, float] = {}
        self.candidates_: list[dict[str, Any]] = []

    def _train_all(self, problem: Problem, validation: Validation | None) -> None:
        self._forget()
        if tuning.open_settings(self):
            self.chosen_settings_, self.candidates_ = tuning.choose(self, problem)
        members = [replace(problem, member=place) for place in range(self.n_heads)]
        watched = self.checkpoint is not None or bool(self.callbacks)
        runs = [] if watched else [self._make_run(member) for member in members]
        if can_train_together(runs):
            for run, outcome in zip(runs, train_together(runs, validation), strict=True):
                self._keep_run(run, outcome)
            return
        for place, member in enumerate(members):
            run = self._make_run(member) if watched else runs[place]
            outcome = self._train_one(run, validation)
            self._keep_run(run, outcome)
            if outcome.interrupted:
                break

    def _make_run(self, problem: Problem) -> Run:
        network = self._build(problem)
        head = self._make_head_for(network, problem).to(problem.device)
        return Run(network, head, self._settings(problem), problem)

    def _train_one(self, run: Run, validation: Validation | None) -> TrainingOutcome:
        items = run.problem.items
        trainer = Trainer(
            run.network,
            run.head,
            items,
            run.problem.flat,
            run.settings,
            validate=None if validation is None else validation.bind(run.network, run.head, items),
            callbacks=self.callbacks,
            checkpoints=self._checkpoints(run.problem, run.settings),
        )
        return trainer.run()

    def _keep_run(self, run: Run, outcome: TrainingOutcome) -> None:
        self._keep_member(run.problem, run.network, run.head)
        self.histories_.append(outcome.history)
        self.best_epochs_.append(outcome.best_epoch)
        self.interrupted_ = outcome.interrupted

    def _chosen(self, name: str) -> Any:
        """Value of a setting: the user's, or the one that the data chose."""
        return self.chosen_settings_.get(name) if getattr(self, name) == "auto" else getattr(self, name)

    def _build(self, problem: Problem) -> nn.Module:
        network = build_network(
            self._network_name,
            problem.items.shape,
            problem.n_classes,
            options=self.network_options,
            generator=torch_stream(problem.seed, "weights", problem.member),
        ).to(problem.device)
        self._try_network(network, problem)
        network = self._extend_network(
            network,
            n_annotators=problem.n_annotators,
            n_classes=problem.n_classes,
            generator=torch_stream(problem.seed, "extension", problem.member),
        ).to(problem.device)
        self._prepare_network(network, problem)
        return network

    def _try_network(self, network: nn.Module, problem: Problem) -> None:
        """Pass two items through, so that a network that does not fit is refused before training begins."""
        in_batch = min(problem.batch_size, len(problem.items))
        if in_batch < 2 and any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in network.modules()):
            raise InvalidParameterError(
                f"The network has batch norm and needs at least two items in a batch; there is {in_batch}. "
                "Give a larger batch_size, or network='mlp', which has none."
            )
        pair = np.arange(min(2, len(problem.items)))
        features = next(iter(problem.items.batches([pair], None)))
        was_training = network.training
        network.eval()
        try:
            with torch.no_grad():
                outputs = network(features)
        except RuntimeError as error:
            raise InvalidParameterError(
                f"The network does not accept items of shape {tuple(problem.items.shape)}: {error}"
            ) from error
        network.train(was_training)
        check_output(outputs, len(pair), problem.n_classes)

    def _checkpoints(self, problem: Problem, settings: TrainingSettings) -> CheckpointFolder | None:
        if self.checkpoint is None:
            return None
        parameters = {name: value for name, value in self.get_params().items() if name not in NOT_IN_FINGERPRINT}
        fingerprint = {
            "method": self.name,
            "network": self._network_name if isinstance(self._network_name, str) else "user",
            **{f"parameter {name}": json_ready(value) for name, value in parameters.items()},
            **{f"setting {name}": json_ready(value) for name, value in asdict(settings).items() if name != "device"},
            "items": len(problem.items),
            "features": problem.items.checksum(),
            "annotations": problem.flat.checksum(),
            "classes": problem.n_classes,
            "annotators": problem.n_annotators,
        }
        folder = CheckpointFolder(Path(self.checkpoint) / f"head-{problem.member}", fingerprint)
        if not self.resume:
            folder.clear()
        return folder

    def _keep_member(self, problem: Problem, network: nn.Module, head: CrowdHead) -> None:
        """Examine the class permutation, mend or report it, and store the trained network."""
        found = head.confusions()
        confusions = None if found is None else normalize_rows(found.double().cpu().numpy())
        identity = np.arange(problem.n_classes)
        member = Member(network, identity, confusions)
        n_annotated = problem.annotations.n_items
        probs = mean_class_probs([member], problem.items)[:n_annotated]
        alignment = examine_alignment(probs, confusions, problem.annotations)
        if alignment.permuted:
            self._report_permutation(alignment)
            if self._aligns_classes():
                member.order = alignment.order
                member.confusions = None if confusions is None else confusions[:, alignment.order]
        self._members.append(member)
        self.alignments_.append(alignment)

    def _report_permutation(self, alignment: ClassAlignment) -> None:
        done = "they were put in the annotators' order" if self._aligns_classes() else "they were left as they are"
        self._warn(
            f"The network learned the classes in another order than annotators use: predictions agree with "
            f"{alignment.plain_agreement:.1%} of annotations as they are and {alignment.aligned_agreement:.1%} after "
            f"alignment; {done}. Check predictions against a few known items, or fit with a smaller strength, a longer "
            "warm_start or a larger start_diagonal.",
            IdentifiabilityWarning,
        )

    def _warn(self, message: str, category: type[Warning]) -> None:
        self._warnings.append(message)
        warnings.warn(message, category, stacklevel=4)

    def _make_result(self, annotations: Annotations, items: Items, seed: int) -> None:
        self.classes_: NameArray = annotations.classes
        self._annotators = annotations.annotators
        self._labels_per_annotator = annotations.labels_per_annotator
        self._confusions = mean_confusions(self._members)
        class_probs = mean_class_probs(self._members, items)
        probabilities = class_probs
        if self._confusions is not None:
            probabilities = self._posterior_of(class_probs, annotations)
        self.result_ = FitResult(
            method=self._method_name(),
            parameters=self.get_params(),
            items=annotations.items,
            annotators=annotations.annotators,
            classes=annotations.classes,
            class_probabilities=probabilities,
            confusions=self._confusions,
            class_prior=class_probs.mean(axis=0),
            labels_per_annotator=self._labels_per_annotator,
            history=self.histories_[0],
            seed=seed,
            warnings=tuple(self._warnings),
        )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the fitted model and its result as a folder (safetensors and JSON), replacing one that is there."""
        self._require_fitted()
        return storage.save(self, folder)

    def write_into(self, folder: Path) -> None:
        """Write the model's files into an existing folder, not atomically; `save` is the safe way."""
        self._require_fitted()
        storage.write_into(self, folder)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, network: nn.Module | Callable[..., nn.Module] | None = None
    ) -> Self:
        """Read a model that `save` wrote; `network` is needed where it was not one of ours."""
        model = storage.load(folder, cls.kinds, network=network)
        if not isinstance(model, cls):
            raise InvalidParameterError(f"{folder} holds a {type(model).__name__}, not a {cls.__name__}.")
        return model
