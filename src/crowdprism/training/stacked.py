"""Training many small models as one program: a grid of settings, several seeds, or the heads of an ensemble.

`StackedTrainer` is the ordinary loop (`Trainer`) with a batch that holds the same number of items for each model and a
best epoch for each model; rates that differ make groups of the one optimiser. Models draw their own shuffles, from
their own seeds; dropout and noise come from one common stream, so a stack's results equal those of models trained one
by one in distribution, not digit for digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crowdprism.networks.heads import GeometricHead
from crowdprism.networks.stacked_networks import StackedHead, StackedNetwork
from crowdprism.seeding import stream
from crowdprism.training.augmentation import Augmentation
from crowdprism.training.batches import FlatAnnotations, epoch_order
from crowdprism.training.items import Items
from crowdprism.training.loop import Trainer, TrainingOutcome
from crowdprism.training.optimizers import RowAdam, make_optimizer
from crowdprism.training.settings import TrainingSettings, choose_threads

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
    simple = first.rounds == 1 and first.clip_norm is None and first.patience is None and first.max_batches is None
    plain = first.precision == "float32" and not first.compile and not first.borrow_stream
    only_noise = all(one.augmentation == Augmentation(noise=one.augmentation.noise) for one in settings)
    return len(alike) == 1 and plain and simple and only_noise


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
        gold=None if flat.gold is None else np.tile(flat.gold, n_models),
    )


class StackedTrainer(Trainer):
    """Trains the models of a stack together.

    `measure` is called after each epoch with the stacked network's log class probabilities (model, n_items, true class)
    for `valid_items`, or for all items where these are None, and the confusions (model, annotator, true class, given
    label); it returns a figure per model of which larger is better.
    """

    network: StackedNetwork
    head: StackedHead
    in_every_process = True  # small networks: exchanging outputs would take longer than the work

    def __init__(
        self,
        models: Sequence[StackedModel],  # with the same number of items and alike settings (`settings_can_stack`)
        items: Items,  # that the models' `index` points into
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
        self._best_states: dict[int, list[dict[str, Tensor]]] = {}  # by model: of its network and its head
        noise = [model.settings.augmentation.noise for model in self.models]
        first = self.models[0].settings
        super().__init__(
            StackedNetwork([model.network for model in self.models]),
            StackedHead([model.head for model in self.models], noise=noise, seed=first.seed),
            items,
            stacked_annotations(annotations, self.n_models),
            replace(first, augmentation=Augmentation()),
        )

    def _order(self, random: np.random.Generator) -> list[NDArray[np.int64]]:
        """Batches of equal size for each model, in its own order; item i of model s is number `s * n_items + i`."""
        shuffled = []
        for place, model in enumerate(self.models):
            s = model.settings
            own = stream(s.seed, "shuffle", s.member, self.outcome.epochs_done)
            order = epoch_order(len(model.index), s.batch_size, own, even=s.even_batches)
            shuffled.append([place * len(self.items) + model.index[batch] for batch in order])
        return [np.concatenate(parts) for parts in zip(*shuffled, strict=True)]

    def _features(self, order: Sequence[NDArray[np.int64]], random: torch.Generator) -> Iterator[Tensor]:
        return super()._features([index % len(self.items) for index in order], random)

    def _choose_threads(self) -> int:
        n_items = self.n_models * self.settings.batch_size
        return choose_threads(self.models[0].network, self.items.shape, n_items, self.device)

    def _make_optimizers(self) -> None:
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for model in self.models:
            s = model.settings
            groups.setdefault((s.learning_rate, s.weight_decay), []).extend(model.network.parameters())
            rates = (s.annotator_learning_rate, s.annotator_weight_decay)
            groups.setdefault(rates, []).extend(model.head.parameters())
        self.optimizer = make_optimizer(
            self.settings.optimizer, [(parameters, *rates) for rates, parameters in groups.items()]
        )
        self._trained = [parameter for parameters in groups.values() for parameter in parameters]
        self.rows = RowAdam([], learning_rate=0.0)

    def _note(self, epoch: int, parts: dict[str, float], validation: float | None) -> None:
        super()._note(epoch, parts, validation)
        self.network.write_back()
        if self.measure is None:
            return
        figures = self.measure(self.log_class_probs(), self.head.confusions())
        self.figures.append(figures)
        better = np.array([*map(self.settings.is_better, figures, self._best_figures)])
        self._best_figures = np.where(better, figures, self._best_figures)
        self.best_epochs = np.where(better, epoch, self.best_epochs)
        for place in np.flatnonzero(better).tolist() if self.settings.keep_best else ():
            self._best_states[place] = [
                {name: tensor.clone() for name, tensor in module.state_dict().items()} for module in self._own(place)
            ]

    def _own(self, place: int) -> tuple[nn.Module, nn.Module]:
        return self.models[place].network, self.models[place].head

    @torch.no_grad()
    def log_class_probs(self) -> Tensor:
        self.network.eval()
        (features,) = self.valid_items.batches([np.arange(len(self.valid_items))], None)
        outputs = self.network(features.repeat(self.n_models, *[1] * (features.ndim - 1)))
        self.network.train()
        return torch.log_softmax(outputs, dim=-1).view(self.n_models, -1, outputs.shape[-1])

    def run(self) -> TrainingOutcome:
        """Train, and give each network and head the weights of its best epoch where that is asked for."""
        outcome = super().run()
        for place, states in self._best_states.items():
            for module, state in zip(self._own(place), states, strict=True):
                module.load_state_dict(state)
        return outcome
