"""The training loop: epochs, steps, validation, checkpoints. It knows nothing of particular methods.

The ladder is `Trainer.run` -> `_epoch` -> `_losses` and `_descend`. What a method is lives in its `CrowdHead`.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crowdprism.errors import CrowdprismWarning, TrainingError
from crowdprism.networks.build import global_stream, set_generator
from crowdprism.networks.heads import CrowdHead, EpochView
from crowdprism.networks.losses import Batch
from crowdprism.progress import progress
from crowdprism.seeding import stream, torch_stream
from crowdprism.training.batches import FlatAnnotations, Items, TensorItems, drawn_visits, epoch_order
from crowdprism.training.checkpoint import CheckpointFolder, load_optimizer, optimizer_tensors, prefixed, without_prefix
from crowdprism.training.distributed import Processes, processes_here, require_share, same_everywhere, shared_layers
from crowdprism.training.optimizers import RowAdam, make_optimizer, schedule_at, set_rate, take_step
from crowdprism.training.settings import EpochRecord, TrainingSettings, choose_device, choose_threads, limited_threads

EVALUATION_BATCH = 1024


@dataclass
class TrainingOutcome:
    """What a run returns besides the trained modules: history by epoch, best epoch, how it ended, threads it used."""

    history: dict[str, list[float]] = field(default_factory=dict)
    best_epoch: int | None = None
    best_value: float | None = None
    interrupted: bool = False
    finished: bool = False
    epochs_done: int = 0
    threads: int = 1


@torch.no_grad()
def predict_log_probs(network: nn.Module, items: Items, batch_size: int = EVALUATION_BATCH) -> Tensor:
    """Return log class probabilities of all items in order, in evaluation mode: (n_items, n_classes) on the CPU."""
    was_training = network.training
    network.eval()
    order = np.array_split(np.arange(len(items)), max(1, -(-len(items) // batch_size)))
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    try:
        with limited_threads(choose_threads(network, items.shape, min(batch_size, len(items)), device)):
            outputs = (network(features).float() for features in items.batches(order, None))
            parts = [torch.log_softmax(output, dim=-1).cpu() for output in outputs]
    finally:
        network.train(was_training)
    return torch.cat(parts)


class Trainer:
    """Trains a network with a crowd head on items and their annotations."""

    in_every_process = False  # whether processes do not share the work, but each does all of it

    def __init__(
        self,
        network: nn.Module,
        head: CrowdHead,
        items: Items,
        annotations: FlatAnnotations,
        settings: TrainingSettings,
        *,
        validate: Callable[[], float] | None = None,  # called after each epoch; of its figures, larger is better
        callbacks: Sequence[
            Callable[[EpochRecord], Any]
        ] = (),  # called after each epoch; one that returns True ends training
        checkpoints: CheckpointFolder | None = None,  # of states after each epoch, which a run resumes from
    ) -> None:
        settings.check()
        self.settings = settings
        self.device = choose_device(settings.device)
        self.network, self.head = network.to(self.device), head.to(self.device)
        self.items, self.annotations = items, annotations
        self.validate, self.callbacks, self.checkpoints = validate, callbacks, checkpoints
        self.outcome = TrainingOutcome()
        self.processes = Processes() if self.in_every_process else processes_here()
        require_share(len(items), settings.batch_size, self.processes)
        self._forward: Callable[[Tensor], Tensor] = torch.compile(network) if settings.compile else network
        self._plain = not (self.processes.several or settings.borrow_stream or settings.precision != "float32")
        whole = head.reads_features or settings.augmentation.any or isinstance(items, TensorItems)
        self._reads_own = self.processes.several and not whole  # features of the items of this process alone
        self._best: dict[str, Tensor] = {}
        self._bar_note = ""  # loss parts and validation figure of the last epoch
        self._visited = np.arange(len(items)) if head.visited is None else head.visited
        self._n_batches = len(self._order(stream(0, "")))
        fresh = settings.fresh_network and settings.rounds > 1
        self._untrained = {name: value.clone() for name, value in network.state_dict().items()} if fresh else None
        self._make_optimizers()

    def _order(self, random: np.random.Generator) -> list[NDArray[np.int64]]:
        s, visited, share = self.settings, self._visited, self.annotations.share
        if share is not None:
            visited = visited[drawn_visits(share[visited], random)]
        shuffled = epoch_order(len(visited), s.batch_size, random, even=s.even_batches)
        return [visited[places] for places in shuffled[: s.max_batches]]

    def _features(self, order: Sequence[NDArray[np.int64]], random: torch.Generator) -> Iterator[Tensor]:
        if self._reads_own:
            order = [index[self.processes.own(len(index))] for index in order]
        return self.items.batches(order, random)

    def _choose_threads(self) -> int:
        return choose_threads(self.network, self.items.shape, self.settings.batch_size, self.device)

    def _make_optimizers(self) -> None:
        s = self.settings
        crowd = (s.annotator_learning_rate, s.annotator_weight_decay)
        wanted = [(self.network.parameters(), s.learning_rate, s.weight_decay), (self.head.parameters(), *crowd)]
        self.optimizer = make_optimizer(s.optimizer, wanted)
        groups = [] if self.optimizer is None else self.optimizer.param_groups
        self._trained: list[Tensor] = [parameter for group in groups for parameter in group["params"]]
        self.rows = RowAdam(self.head.tables, *crowd, name=s.optimizer)

    def run(self) -> TrainingOutcome:
        """Train until the end, patience, a callback or Ctrl-C; then restore the best epoch if asked."""
        same_everywhere(f"{self.annotations.checksum()} {self.items.checksum()}", self.processes)
        self._resume()
        total = self.settings.epochs * self._n_batches
        name = "training" if not self.settings.member else f"training {self.settings.member + 1}"
        try:
            self.outcome.threads = self._choose_threads()
            with limited_threads(self.outcome.threads), progress(name, total=total) as bar:
                bar.advance(self.outcome.epochs_done * self._n_batches)
                while not self.outcome.finished:
                    self._one_epoch(bar)
        except KeyboardInterrupt:
            self.outcome.interrupted = True
            warnings.warn(
                f"Training was interrupted after {self.outcome.epochs_done} of {self.settings.epochs} epochs; "
                "the best weights so far are kept.",
                CrowdprismWarning,
                stacklevel=2,
            )
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"A batch of {self.settings.batch_size} items did not fit in the memory of {self.device}. "
                f"Try batch_size={max(1, self.settings.batch_size // 2)}, or precision='bfloat16'."
            ) from error
        self._finish()
        return self.outcome

    def _one_epoch(self, bar: Any) -> None:
        epoch = self.outcome.epochs_done
        parts = self._epoch(epoch, bar)
        if type(self.head).end_epoch is not CrowdHead.end_epoch:
            evaluate = lambda: predict_log_probs(self.network, self.items).to(self.device)  # noqa: E731
            given = self.annotations.tensors(self.device)
            self.head.end_epoch(EpochView(epoch, *given, self.network, evaluate))
            self.head.forget()
        validation = None if self.validate is None else float(self.validate())
        self._note(epoch, parts, validation)
        stop = self._tell(epoch, parts, validation)
        best, patience = self.outcome.best_epoch, self.settings.patience
        impatient = patience is not None and best is not None and epoch - best >= patience
        self.outcome.finished = stop or impatient or self.outcome.epochs_done >= self.settings.epochs
        if self.checkpoints is not None and self.processes.rank == 0:
            self.checkpoints.save(self.outcome.epochs_done, self._state(), {"outcome": asdict(self.outcome)})
        self.processes.wait()

    def _finish(self) -> None:
        set_generator(self.network, None)
        self.head.forget()
        if self.settings.keep_best and self._best:
            self._load_modules(self._best)
        self.network.eval()

    def _epoch(self, epoch: int, bar: Any) -> dict[str, float]:
        s = self.settings
        if epoch and epoch == s.round_of(epoch)[0]:
            if self._untrained is not None:
                self.network.load_state_dict(self._untrained)
            self._make_optimizers()
        self.network.train()
        self.head.train()
        self.head.start_epoch(epoch)
        set_generator(self.network, torch_stream(s.seed, "network", s.member, epoch, device=str(self.device)))
        lent = torch_stream(s.seed, "lent", s.member, epoch)
        drawn = torch_stream(s.seed, "augmentation", s.member, epoch, device=str(self.device))
        mixing = stream(s.seed, "mixup", s.member, epoch)
        order = self._order(stream(s.seed, "shuffle", s.member, epoch))
        random = stream(s.seed, "head", s.member, epoch)
        loading = torch_stream(s.seed, "loading", s.member, epoch)
        counts: list[float] = []
        parts: dict[str, list[Tensor]] = {}
        batches = self.annotations.batches(order, self._features(order, loading), self.device)
        first, total = self._progress(epoch)
        for place, batch in enumerate(batches):
            batch = self.head.transform(s.augmentation.apply(batch, drawn, mixing), random)
            losses = self._losses(batch, s.penalty_factor(first + place, total), lent)
            loss = functools.reduce(torch.add, losses.values())
            if not math.isfinite(loss.item()):
                self._stop(losses, epoch, place)
            self._descend(loss, first + place, total)
            self.head.after_step(batch)
            self.head.forget()
            for name, part in losses.items():
                parts.setdefault(name, []).append(part.detach())
            counts.append(self.head.count(batch))
            bar.advance(note=self._bar_note)
        return _means(parts, counts)

    def _progress(self, epoch: int) -> tuple[int, int]:
        """Steps taken in the round of this epoch before it begins, and steps of that round."""
        first, length = self.settings.round_of(epoch)
        return (epoch - first) * self._n_batches, length * self._n_batches

    def _losses(self, batch: Batch, factor: float, lent: torch.Generator) -> dict[str, Tensor]:
        """Return the mean data loss and each penalty times its factor; their sum is what a step descends."""
        outputs = self._forward(batch.features) if self._plain else self._shared_forward(batch, lent)
        log_probs = torch.log_softmax(outputs if outputs.dtype == torch.float64 else outputs.float(), dim=-1)
        parts = {"data": self.head.loss(log_probs, batch) / self.head.count(batch)}
        if batch.gold is not None:  # a known class weighs as much as all annotations of an average item
            parts["gold"] = self.head.known_loss(log_probs, batch) * (self.head.n_models / len(log_probs))
        for name, term in (self.head.penalties(log_probs, batch) if factor else {}).items():
            parts[name] = term if factor == 1.0 else factor * term
        return parts

    def _shared_forward(self, batch: Batch, lent: torch.Generator) -> Tensor:
        """Outputs of a network that draws from a lent stream, runs under autocast, or shares rows with processes."""
        with ExitStack() as held:
            if self.settings.borrow_stream:
                held.enter_context(global_stream(lent, self.device))
            if self.settings.precision != "float32":
                held.enter_context(torch.autocast(self.device.type, dtype=torch.bfloat16))
            n_rows = len(batch.index)  # of which features may be those of this process
            held.enter_context(shared_layers(self.network, self.processes, n_rows))
            return self.processes.forward(self._forward, batch.features, n_rows)

    def _descend(self, loss: Tensor, step: int, total: int) -> None:
        s = self.settings
        for parameter in self._trained:
            parameter.grad = None  # what zero_grad does, without its hooks for profilers
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
            if self.processes.several:
                self.processes.sum_gradients(list(self.network.parameters()))
        if step < s.hold_annotators * total:
            for parameter in self.head.parameters():
                parameter.grad = None  # the optimiser passes over parameters without a gradient
            self.head.forget()
        if s.clip_norm is not None:
            self._clip(s.clip_norm)
        schedule = schedule_at(s.schedule, step, total)
        if self.optimizer is not None:
            set_rate(self.optimizer, *schedule)
            take_step(self.optimizer)
        if self.rows.tables:
            set_rate(self.rows, *schedule)
            self.rows.step()

    def _clip(self, largest: float) -> None:
        """Scale all gradients together so that their common norm is at most `largest`."""
        parameters = (*self.network.parameters(), *self.head.parameters(), *self.rows.working())
        torch.nn.utils.clip_grad_norm_(parameters, largest)

    def _stop(self, parts: dict[str, Tensor], epoch: int, place: int) -> NoReturn:
        told = ", ".join(f"{name} {part.item():.4g}" for name, part in parts.items())
        kept = self.checkpoints and f" The checkpoint of the last good epoch stays in {self.checkpoints.folder}."
        raise TrainingError(
            f"The loss is not finite at step {place + 1} of epoch {epoch + 1}: {told}. No weight was changed by this "
            f"step.{kept or ''} Try a smaller learning_rate, clip_norm=1.0, or look for extreme values in X."
        )

    def _note(self, epoch: int, parts: dict[str, float], validation: float | None) -> None:
        """Write the history, and keep the weights if this epoch is the best so far."""
        history = self.outcome.history
        for name in sorted(set(parts) | {name for name in history if name != "validation"}):
            past = history.setdefault(name, [0.0] * epoch)  # a penalty that only now begins was 0 before
            past.append(parts.get(name, 0.0))
        if validation is not None:
            history.setdefault("validation", []).append(validation)
            best = self.outcome.best_value
            if best is None or self.settings.is_better(validation, best):
                self.outcome.best_value, self.outcome.best_epoch = validation, epoch
                if self.settings.keep_best:
                    self._best = {name: tensor.detach().clone() for name, tensor in self._modules().items()}
        self.outcome.epochs_done = epoch + 1

    def _tell(self, epoch: int, parts: dict[str, float], validation: float | None) -> bool:
        s = self.settings
        first, total = self._progress(epoch)
        rate = s.learning_rate * schedule_at(s.schedule, first + self._n_batches - 1, total)[0]
        record = EpochRecord(
            epoch, s.epochs, dict(parts), validation, rate, self.outcome.best_epoch, s.member, self.outcome.threads
        )
        shown = "" if validation is None else f" valid {validation:.4f}"
        self._bar_note = " ".join(f"{name} {value:.4f}" for name, value in parts.items() if name != "total") + shown
        answers = [callback(record) for callback in self.callbacks]
        return any(answer is True for answer in answers)

    def _modules(self) -> dict[str, Tensor]:
        return prefixed("network", self.network.state_dict()) | prefixed("head", self.head.state_dict())

    def _load_modules(self, tensors: dict[str, Tensor]) -> None:
        self.network.load_state_dict(without_prefix("network", tensors))
        self.head.load_state_dict(without_prefix("head", tensors))
        self.head.forget()

    def _state(self) -> dict[str, Tensor]:
        tensors = self._modules() | prefixed("rows", self.rows.state()) | prefixed("best", self._best)
        if self.optimizer is not None:
            tensors |= prefixed("optimizer", optimizer_tensors(self.optimizer))
        return tensors

    def _resume(self) -> None:
        stored = None if self.checkpoints is None else self.checkpoints.latest()
        if stored is None:
            return
        tensors, record = stored
        self._load_modules(tensors)
        self._best = {name: tensor.to(self.device) for name, tensor in without_prefix("best", tensors).items()}
        self.rows.load_state(without_prefix("rows", tensors))
        if self.optimizer is not None:
            load_optimizer(self.optimizer, without_prefix("optimizer", tensors))
        self.outcome = TrainingOutcome(**record["outcome"])


def _means(parts: dict[str, list[Tensor]], counts: list[float]) -> dict[str, float]:
    """Mean of each part over the steps of an epoch: the data loss by counts, penalties by steps, and their sum."""
    means = {}
    for name, values in parts.items():
        each = torch.stack(values).double()
        weighted = each * each.new_tensor(counts) if name == "data" else each
        means[name] = weighted.sum().item() / (sum(counts) if name == "data" else len(counts))
    return means | {"total": sum(means.values())}
