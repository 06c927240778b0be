"""Training many small models as one program: a grid of settings, several seeds, or the heads of an ensemble.

`StackedTrainer` is the ordinary loop (`Trainer`) with a batch that holds the same number of items for each model, an
optimiser whose rates differ by model, and a best epoch for each model. Models draw their own shuffles, from their own
seeds; dropout and noise come from one common stream, so a stack's results equal those of models trained one by one in
distribution, not digit for digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crowdprism.networks.geometric_head import GeometricHead
from crowdprism.networks.stacked import StackedNetwork
from crowdprism.networks.stacked_head import StackedHead
from crowdprism.seeding import stream
from crowdprism.training.augmentation import Augmentation
from crowdprism.training.batches import FlatAnnotations, epoch_order
from crowdprism.training.items import Items
from crowdprism.training.loop import Trainer, TrainingOutcome
from crowdprism.training.optimizers import BETAS, EPSILON
from crowdprism.training.settings import TrainingSettings

# What may differ between the models of a stack; everything else must be the same.
FREE_SETTINGS = {"learning_rate", "annotator_learning_rate", "weight_decay", "augmentation", "seed", "member"}
Measure = Callable[[Tensor, Tensor], NDArray[np.float64]]


@dataclass(frozen=True)
class StackedModel:
    """One model of a stack: modules to train, how, and which of the items it trains on."""

    network: nn.Module
    head: GeometricHead
    settings: TrainingSettings
    index: NDArray[np.int64]


def settings_can_stack(settings: Sequence[TrainingSettings]) -> bool:
    """Tell whether runs differ only in what a stack allows, and use nothing that it lacks."""
    first = settings[0]
    alike = {replace(one, **{name: getattr(first, name) for name in FREE_SETTINGS}) for one in settings}
    plain = first.optimizer in ("adam", "adamw") and first.precision == "float32"
    simple = first.rounds == 1 and first.clip_norm is None and first.patience is None and first.max_batches is None
    only_noise = all(one.augmentation == Augmentation(noise=one.augmentation.noise) for one in settings)
    return len(alike) == 1 and plain and simple and only_noise and not first.borrow_stream


class StackedItems:
    """The same features for each model: item i of model s is number `s * n_items + i`."""

    def __init__(self, items: Items, n_models: int) -> None:
        self._items, self._n_models = items, n_models

    def __len__(self) -> int:
        return len(self._items) * self._n_models

    @property
    def shape(self) -> tuple[int, ...]:
        return self._items.shape

    def batches(self, order: Sequence[NDArray[np.int64]], generator: torch.Generator | None = None) -> Iterator[Tensor]:
        yield from self._items.batches([index % len(self._items) for index in order], generator)

    def checksum(self) -> str:
        return self._items.checksum()


def stacked_annotations(flat: FlatAnnotations, n_models: int) -> FlatAnnotations:
    """Repeat annotations for each model, items and annotators numbered on."""
    shift = np.arange(n_models)
    start = (flat.start[:-1] + shift[:, None] * flat.n_annotations).reshape(-1)
    return replace(
        flat,
        start=np.append(start, n_models * flat.n_annotations),
        annotator=(flat.annotator + shift[:, None] * flat.n_annotators).reshape(-1),
        label=np.tile(flat.label, n_models),
        weight=None if flat.weight is None else np.tile(flat.weight, n_models),
        n_annotators=flat.n_annotators * n_models,
    )


class StackedAdam(torch.optim.Optimizer):
    """Adam (or AdamW) over stacked parameters, with a rate and a weight decay for each model.

    A group's `ratio` and `weight_decay` are (n_models,) tensors; the first axis of each parameter is a multiple of
    the number of models. With equal rates it equals `torch.optim.Adam`.
    """

    def __init__(self, groups: list[dict[str, Any]], *, decoupled: bool) -> None:
        super().__init__(groups, {"betas": BETAS})
        self._decoupled = decoupled

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                    state["clock"] = 0
                state["clock"] += 1
                value = _by_model(parameter, group["ratio"])
                gradient = parameter.grad.view_as(value)
                rate = _broadcast(group["lr"] * group["ratio"], value)
                decay = _broadcast(group["weight_decay"], value)
                if self._decoupled:
                    value.mul_(1 - rate * decay)
                else:
                    gradient = torch.addcmul(gradient, value, decay)
                mean, square = state["mean"].view_as(value), state["square"].view_as(value)
                mean.lerp_(gradient, 1 - beta1)
                square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
                change = mean / square.sqrt().div_((1 - beta2 ** state["clock"]) ** 0.5).add_(EPSILON)
                value.sub_(change.mul_(rate / (1 - beta1 ** state["clock"])))


def _by_model(parameter: Tensor, per_model: Tensor) -> Tensor:
    return parameter.view(len(per_model), -1)


def _broadcast(per_model: Tensor, value: Tensor) -> Tensor:
    return per_model.view(-1, *[1] * (value.ndim - 1))


class StackedTrainer(Trainer):
    """Trains the models of a stack together.

    Parameters
    ----------
    models
        At least one; all with the same number of items and alike settings (`settings_can_stack`).
    items, annotations
        Pool that the models' `index` points into.
    measure
        Called after each epoch with the stacked network's log class probabilities (model, n_items, true class) for
        `valid_items`, or for the pool where these are None, and the confusions (model, annotator, true class, given
        label); returns a figure per model of which larger is better.
    """

    def __init__(
        self,
        models: Sequence[StackedModel],
        items: Items,
        annotations: FlatAnnotations,
        *,
        measure: Measure | None = None,
        valid_items: Items | None = None,
    ) -> None:
        self.models = list(models)
        self.measure = measure
        self.valid_items = items if valid_items is None else valid_items
        self.n_models = len(self.models)
        self.figures: list[NDArray[np.float64]] = []
        self.best_epochs = np.full(self.n_models, -1)
        self._best_figures = np.full(self.n_models, -np.inf)
        self._best_rows: list[Tensor] = []
        noise = [model.settings.augmentation.noise for model in self.models]
        first = self.models[0].settings
        head = StackedHead([model.head for model in self.models], noise=noise, seed=first.seed)
        super().__init__(
            StackedNetwork([model.network for model in self.models]),
            head,
            StackedItems(items, self.n_models),
            stacked_annotations(annotations, self.n_models),
            replace(first, augmentation=Augmentation()),
        )

    def _order(self, random: np.random.Generator) -> list[NDArray[np.int64]]:
        """Batches of equal size for each model, in each model's own order."""
        epoch = self.outcome.epochs_done
        shuffled = []
        for place, model in enumerate(self.models):
            s = model.settings
            own = stream(s.seed, "shuffle", s.member, epoch)
            order = epoch_order(len(model.index), s.batch_size, own, even=s.even_batches)
            shuffled.append([place * self._size() + model.index[batch] for batch in order])
        return [np.concatenate(parts) for parts in zip(*shuffled, strict=True)]

    def _size(self) -> int:
        return len(self.items) // self.n_models

    def _make_optimizers(self) -> None:
        super()._make_optimizers()
        s, models = self.settings, self.models
        rates = torch.tensor([model.settings.learning_rate for model in models])
        annotator_rates = torch.tensor([model.settings.annotator_learning_rate for model in models])
        decays = torch.tensor([model.settings.weight_decay for model in models])
        no_decay = torch.full((len(models),), s.annotator_weight_decay)
        self.optimizer = StackedAdam(
            [
                {"params": [*module.parameters()], "lr": 1.0, "base_lr": 1.0, "ratio": ratio, "weight_decay": decay}
                for module, ratio, decay in (
                    (self.network, rates, decays),
                    (self.head, annotator_rates, no_decay),
                )
            ],
            decoupled=s.optimizer == "adamw",
        )

    def _note(self, epoch: int, parts: dict[str, float], validation: float | None) -> None:
        super()._note(epoch, parts, validation)
        if self.measure is None:
            return
        figures = self.measure(self.log_class_probs(), self.confusions())
        self.figures.append(figures)
        better = figures >= self._best_figures
        self._best_figures = np.where(better, figures, self._best_figures)
        self.best_epochs = np.where(better, epoch, self.best_epochs)
        if self.settings.keep_best:
            self._keep(torch.from_numpy(better))

    @torch.no_grad()
    def _keep(self, better: Tensor) -> None:
        """Copy the rows of the models that have just been best."""
        tensors = [*self.network.state_dict().values(), *self.head.state_dict().values()]
        if not self._best_rows:
            self._best_rows = [tensor.clone() for tensor in tensors]
            return
        for best, tensor in zip(self._best_rows, tensors, strict=True):
            rows, now = best.view(self.n_models, -1), tensor.view(self.n_models, -1)
            rows.copy_(torch.where(better[:, None], now, rows))

    @torch.no_grad()
    def log_class_probs(self) -> Tensor:
        """(model, n_items, true class) for the validation items."""
        self.network.eval()
        everything = np.arange(len(self.valid_items))
        (features,) = self.valid_items.batches([everything], None)
        outputs = self.network(features.repeat(self.n_models, *[1] * (features.ndim - 1)))
        self.network.train()
        return torch.log_softmax(outputs, dim=-1).view(self.n_models, len(everything), -1)

    def confusions(self) -> Tensor:
        """(model, annotator, true class, given label)."""
        found = self.head.confusions()
        assert found is not None
        return found.view(self.n_models, -1, *found.shape[1:])

    def run(self) -> TrainingOutcome:
        """Train, and give each network and head its weights, of its best epoch where that is asked for."""
        outcome = super().run()
        if self.settings.keep_best and self._best_rows:
            with torch.no_grad():
                tensors = [*self.network.state_dict().values(), *self.head.state_dict().values()]
                for tensor, best in zip(tensors, self._best_rows, strict=True):
                    tensor.copy_(best)
        assert isinstance(self.network, StackedNetwork)
        assert isinstance(self.head, StackedHead)
        self.network.write_back([model.network for model in self.models])
        self.head.write_back([model.head for model in self.models])
        for model in self.models:
            model.network.eval()
        return outcome
