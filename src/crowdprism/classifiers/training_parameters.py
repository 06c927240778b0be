"""Parameters that all classifiers share, kept as scikit-learn wants them: stored, listed, shown."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from crowdprism.training import Callback

Selection = Literal["annotations", "clean", "last"]


class TrainingParameters(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """How to train; `CrowdClassifier` says what each parameter means.

    A subclass takes parameters of its own and `**training`, and passes the latter on: `get_params`, `clone` and
    signatures show them all.
    """

    def __init__(
        self,
        *,
        network: Any = "auto",
        network_options: dict[str, Any] | None = None,
        epochs: int = 50,
        batch_size: int | Literal["auto"] = "auto",
        optimizer: str = "adam",
        schedule: str = "cosine",
        learning_rate: float = 3e-3,
        annotator_learning_rate: float | None = None,
        weight_decay: float = 5e-3,
        annotator_weight_decay: float = 0.0,
        clip_norm: float | None = None,
        warm_start: float = 0.2,
        ramp: float = 0.0,
        hold_annotators: float = 0.0,
        patience: int | None = None,
        selection: Selection = "last",
        validation_fraction: float = 0.1,
        standardize: bool = True,
        input_noise: float | Literal["auto"] = 0.0,
        shift: int = 0,
        flip: bool = False,
        mixup: float = 0.0,
        n_heads: int = 1,
        device: str = "auto",
        precision: str = "float32",
        compile: bool = False,
        n_workers: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = True,
        callbacks: Sequence[Callback] = (),
        random_state: Any = 0,
    ) -> None:
        self.network = network
        self.network_options = network_options
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.schedule = schedule
        self.learning_rate = learning_rate
        self.annotator_learning_rate = annotator_learning_rate
        self.weight_decay = weight_decay
        self.annotator_weight_decay = annotator_weight_decay
        self.clip_norm = clip_norm
        self.warm_start = warm_start
        self.ramp = ramp
        self.hold_annotators = hold_annotators
        self.patience = patience
        self.selection = selection
        self.validation_fraction = validation_fraction
        self.standardize = standardize
        self.input_noise = input_noise
        self.shift = shift
        self.flip = flip
        self.mixup = mixup
        self.n_heads = n_heads
        self.device = device
        self.precision = precision
        self.compile = compile
        self.n_workers = n_workers
        self.checkpoint = checkpoint
        self.resume = resume
        self.callbacks = callbacks
        self.random_state = random_state

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Names of all parameters: the method's own and those it passes on as `**training`."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names = {
            parameter.name
            for base in cls.__mro__
            if issubclass(base, TrainingParameters) and "__init__" in vars(base)
            for parameter in inspect.signature(base.__init__).parameters.values()
            if parameter.kind in kinds and parameter.name != "self"
        }
        return sorted(names)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Show the whole list of parameters in `help` and editors, though a method only writes its own."""
        super().__init_subclass__(**kwargs)
        seen: dict[str, inspect.Parameter] = {}
        for base in cls.__mro__:
            if issubclass(base, TrainingParameters) and "__init__" in vars(base):
                for name, parameter in inspect.signature(base.__init__).parameters.items():
                    if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                        seen.setdefault(name, parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        cls.__signature__ = inspect.Signature(list(seen.values()))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Show the parameters that differ from their defaults."""
        defaults = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if not _same(value, defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(np.all(value == default)))
