"""Training many small models as one program: a grid of settings, several seeds, or the heads of an ensemble.

`torch.func` turns thirty matrix products into one batched product. `StackedTrainer` is the ordinary loop (`Trainer`)
with a batch that holds the same number of items for each model. Models keep their own parameters and shuffles; dropout
and noise come from one stream, so results equal those of models trained one by one in distribution only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from crowdprism.networks import losses
from crowdprism.networks.annotator_layer import LogitConfusions
from crowdprism.networks.build import Dropout
from crowdprism.networks.heads import CrowdHead, GeometricHead
from crowdprism.networks.losses import Batch
from crowdprism.seeding import stream, torch_stream
from crowdprism.training.batches import Augmentation, FlatAnnotations, Items, epoch_order
from crowdprism.training.loop import Trainer, TrainingOutcome
from crowdprism.training.optimizers import RowAdam, make_optimizer
from crowdprism.training.settings import TrainingSettings, choose_threads

STACKABLE = (nn.Flatten, nn.Linear, nn.ReLU, nn.BatchNorm1d, Dropout)
# What may differ between the models of a stack; everything else must be the same.
FREE_SETTINGS = {"learning_rate", "annotator_learning_rate", "weight_decay", "augmentation", "seed", "member"}


@dataclass(frozen=True)
class StackedModel:
    """One model of a stack: modules to train, and how."""

    network: nn.Module
    head: CrowdHead
    settings: TrainingSettings

    @property
    def kind(self) -> tuple[Any, ...] | None:
        """What must be equal within a stack; None for a model that uses anything a stack lacks."""
        network, head, s = self.network, self.head, self.settings
        if not isinstance(network, nn.Sequential) or not all(
            isinstance(layer, STACKABLE) and getattr(layer, "momentum", 0.0) is not None for layer in network
        ):
            return None
        if type(head) is not GeometricHead or not isinstance(head.layer, LogitConfusions):
            return None
        if head.layer.table.touched_only or head.class_shares is not None:
            return None
        simple = s.rounds == 1 and s.clip_norm is None and s.patience is None and s.max_batches is None
        plain = s.precision == "float32" and not s.compile and not s.borrow_stream
        if not simple or not plain or s.augmentation != Augmentation(noise=s.augmentation.noise):
            return None
        fixed = tuple(value for name, value in vars(s).items() if name not in FREE_SETTINGS)
        crowd = (head.layer.form, head.kind, head.temper, head.regularizer, head.reference)
        return repr(network), crowd, fixed  # every layer with its sizes


def can_stack(models: Sequence[StackedModel]) -> bool:
    """Tell whether models are equal chains of plain layers with small GeoCrowdNet heads and alike settings."""
    kinds = {model.kind for model in models}
    return len(kinds) == 1 and None not in kinds


class StackedNetwork(nn.Module):
    """Networks of the same layers as one module; running statistics stay stacked until `write_back`."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        names = [name for name, _ in networks[0].named_parameters()]
        self._same = dict(zip(names, zip(*(network.parameters() for network in networks), strict=True), strict=True))

    @cached_property
    def _statistics(self) -> dict[str, Tensor]:  # made with the first step, when the networks are on their device
        return stack_module_state(list(self.networks))[1]

    def forward(self, features: Tensor) -> Tensor:
        """(model * batch, ...) -> (model * batch, n_classes)."""
        parameters = {name: torch.stack(same) for name, same in self._same.items()}
        by_model = features.view(len(self.networks), -1, *features.shape[1:])

        def one(parameters: dict[str, Tensor], statistics: dict[str, Tensor], features: Tensor) -> Any:
            return functional_call(self.networks[0], (parameters, statistics), (features,))

        outputs: Tensor = vmap(one, randomness="different")(parameters, self._statistics, by_model)
        return outputs.flatten(0, 1)

    @torch.no_grad()
    def write_back(self) -> None:
        for place, network in enumerate(self.networks):
            for name, buffer in network.named_buffers():
                buffer.copy_(self._statistics[name][place])


class StackedHead(CrowdHead):
    """GeoCrowdNet's terms for many models in one batch; annotators of model s have codes from `s * n_annotators` on."""

    def __init__(self, models: Sequence[StackedModel], device: torch.device) -> None:
        super().__init__()
        heads = [model.head for model in models if isinstance(model.head, GeometricHead)]
        self.heads, self.n_models = nn.ModuleList(heads), len(heads)
        self.kind, self.temper = heads[0].kind, heads[0].temper
        self.regularizer, self.reference = heads[0].regularizer, heads[0].reference
        self.layers = [head.layer for head in heads if isinstance(head.layer, LogitConfusions)]
        self.strength = torch.tensor([head.strength for head in heads], device=device)
        self.shrinkage = torch.tensor([head.shrinkage for head in heads], device=device)
        noise = [model.settings.augmentation.noise for model in models]
        self.noise = torch.tensor(noise, device=device).view(-1, 1, 1)  # standard deviation of each model's
        self._noisy, self._shrunk = any(noise), bool(self.shrinkage.any())
        self._seed = models[0].settings.seed
        self._generator: torch.Generator | None = None

    def start_epoch(self, epoch: int) -> None:
        self._generator = torch_stream(self._seed, "stacked noise", epoch, device=str(self.noise.device))

    def transform(self, batch: Batch, random: np.random.Generator) -> Batch:
        """Add each model's noise to its features."""
        if not self._noisy:
            return batch
        features = batch.features.view(self.n_models, -1, *batch.features.shape[1:]).flatten(2)
        drawn = torch.randn(features.shape, generator=self._generator, device=features.device)
        return replace(batch, features=torch.addcmul(features, drawn, self.noise).view_as(batch.features))

    def _rows(self) -> Tensor:
        """(model, annotator, true class, given label) of the tables."""
        return torch.stack([layer.table.values for layer in self.layers])

    def _log_confusions(self) -> Tensor:
        common: list[Tensor] = [layer.common for layer in self.layers if layer.common is not None]
        rows = self._rows()
        return losses.log_rows(rows + torch.stack(common).unsqueeze(1) if common else rows)

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        """Sum over models of each model's mean loss."""
        columns = losses.log_columns(self._log_confusions().flatten(0, 1), batch.annotator, batch.label)
        per_model = len(log_class_probs) // self.n_models
        if self.kind == "ccem":
            weight = torch.ones_like(columns[:, 0]) if batch.weight is None else batch.weight
            model = batch.item // per_model
            count = weight.new_zeros(self.n_models).index_add_(0, model, weight)
            each = weight / count.clamp_min_(torch.finfo(weight.dtype).tiny).index_select(0, model)
            return losses.coupled_cross_entropy(log_class_probs, columns, batch.item, each)
        labelled = columns.new_zeros(len(log_class_probs)).index_fill_(0, batch.item, 1.0)
        share = 1 / labelled.view(self.n_models, per_model).sum(dim=1, keepdim=True).clamp_min(1.0)
        each = share.expand(-1, per_model).flatten()
        rows = (log_class_probs, columns, batch.item, batch.weight)
        return losses.joint_cross_entropy(*rows, temper=self.temper, group_weight=each)

    def count(self, batch: Batch) -> float:
        """1: the loss is already a sum of means."""
        return 1.0

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        terms: dict[str, Tensor] = {}
        if self.regularizer is not None:
            if self.regularizer == "F":
                by_model = log_class_probs.exp().view(self.n_models, -1, log_class_probs.shape[-1])
                grams = losses.prediction_gram(by_model)
            else:
                grams = losses.confusion_gram(self._log_confusions().exp())
            volume = losses.reference_log_volume(grams.float())[0] if self.reference else losses.log_volume(grams)
            terms["volume"] = -(self.strength * volume).sum()
        if self._shrunk:
            centres = [layer.centre for layer in self.layers if layer.centre is not None]
            rows = self._rows() - torch.stack(centres).unsqueeze(1) if centres else self._rows()
            terms["shrinkage"] = 0.5 * (self.shrinkage * rows.square().sum(dim=(1, 2, 3))).sum()
        return terms

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """(model, annotator, true class, given label)."""
        return self._log_confusions().exp()


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
    """Trains the models of a stack; `measure` sees each one's class probabilities of `valid_items`, and confusions."""

    network: StackedNetwork
    head: StackedHead
    in_every_process = True  # small networks: exchanging outputs would take longer than the work

    def __init__(
        self,
        models: Sequence[StackedModel],  # as `can_stack` allows
        items: Items,
        annotations: FlatAnnotations,
        *,
        measure: Callable[[NDArray[Any], NDArray[Any]], float] | None = None,
        valid_items: Items | None = None,
    ) -> None:
        self.models, self.measure = list(models), measure
        self.valid_items = items if valid_items is None else valid_items
        self.own_outcomes = [TrainingOutcome() for _ in models]
        self._best_states: dict[int, list[dict[str, Tensor]]] = {}  # by model: of its network and its head
        network = StackedNetwork([model.network for model in models])
        head = StackedHead(models, next(models[0].network.parameters()).device)
        stacked = stacked_annotations(annotations, len(models))
        super().__init__(network, head, items, stacked, replace(models[0].settings, augmentation=Augmentation()))

    def _order(self, random: np.random.Generator) -> list[NDArray[np.int64]]:
        """Batches of equal size for each model, in its own order; item i of model s is number `s * n_items + i`."""
        shuffled = []
        for place, model in enumerate(self.models):
            s = model.settings
            own = stream(s.seed, "shuffle", s.member, self.outcome.epochs_done)
            order = epoch_order(len(self.items), s.batch_size, own, even=s.even_batches)
            shuffled.append([place * len(self.items) + batch for batch in order])
        return [np.concatenate(parts) for parts in zip(*shuffled, strict=True)]

    def _features(self, order: Sequence[NDArray[np.int64]], random: torch.Generator) -> Iterator[Tensor]:
        return super()._features([index % len(self.items) for index in order], random)

    def _choose_threads(self) -> int:
        n_items = len(self.models) * self.settings.batch_size
        return choose_threads(self.models[0].network, self.items.shape, n_items, self.device)

    def _make_optimizers(self) -> None:
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for model in self.models:
            s = model.settings
            groups.setdefault((s.learning_rate, s.weight_decay), []).extend(model.network.parameters())
            rates = (s.annotator_learning_rate, s.annotator_weight_decay)
            groups.setdefault(rates, []).extend(model.head.parameters())
        listed = [(parameters, *rates) for rates, parameters in groups.items()]
        self.optimizer = make_optimizer(self.settings.optimizer, listed)
        self._trained = [parameter for parameters in groups.values() for parameter in parameters]
        self.rows = RowAdam([], learning_rate=0.0)

    def _note(self, epoch: int, parts: dict[str, float], validation: float | None) -> None:
        super()._note(epoch, parts, validation)
        self.network.write_back()
        if self.measure is None:
            return
        found = self._class_probs(), self.head.confusions().double().cpu().numpy()
        for place, (own, *pair) in enumerate(zip(self.own_outcomes, *found, strict=True)):
            figure = self.measure(*pair)
            own.history.setdefault("validation", []).append(figure)
            if own.best_value is None or self.settings.is_better(figure, own.best_value):
                own.best_value, own.best_epoch = figure, epoch
                if self.settings.keep_best:
                    states = (module.state_dict() for module in (self.models[place].network, self.models[place].head))
                    self._best_states[place] = [{name: one.clone() for name, one in state.items()} for state in states]

    @torch.no_grad()
    def _class_probs(self) -> NDArray[np.float64]:
        """(model, n_items, true class) predictions for the validation items."""
        self.network.eval()
        (features,) = self.valid_items.batches([np.arange(len(self.valid_items))], None)
        outputs = self.network(features.repeat(len(self.models), *[1] * (features.ndim - 1)))
        self.network.train()
        log_probs = torch.log_softmax(outputs, dim=-1).view(len(self.models), -1, outputs.shape[-1])
        return np.asarray(log_probs.double().exp().cpu().numpy())

    def _finish(self) -> None:
        super()._finish()
        for place, (network, head) in self._best_states.items():
            self.models[place].network.load_state_dict(network)
            self.models[place].head.load_state_dict(head)

    def outcomes(self) -> list[TrainingOutcome]:
        """Of each model. Losses are known for the stack only: each gets their mean. Validation figures are its own."""
        n_models, losses = len(self.models), self.outcome.history.items()
        means = ({name: [value / n_models for value in values] for name, values in losses} for _ in self.models)
        return [
            replace(self.outcome, history=mean | own.history, best_epoch=own.best_epoch, best_value=own.best_value)
            for mean, own in zip(means, self.own_outcomes, strict=True)
        ]
