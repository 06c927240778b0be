"""The training loop: seeds, ramps, endings, and what stays untouched."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from crowdprism.annotations import Annotations
from crowdprism.errors import CrowdprismWarning, TrainingError
from crowdprism.networks import (
    CrowdHead,
    GeometricHead,
    build_network,
    diagonal_confusions,
    make_annotator_layer,
)
from crowdprism.seeding import torch_stream
from crowdprism.training import (
    Augmentation,
    CheckpointFolder,
    EpochRecord,
    FlatAnnotations,
    InputScaling,
    TensorItems,
    Trainer,
    TrainingSettings,
)
from crowdprism.training import settings as settings_module

N_ITEMS, N_CLASSES, N_ANNOTATORS = 40, 3, 4


def make_trainer(head: CrowdHead | None = None, *, network: Any = "mlp", **options: Any) -> Trainer:
    random = np.random.default_rng(0)
    truth = np.arange(N_ITEMS) % N_CLASSES
    table = np.where(random.random((N_ITEMS, N_ANNOTATORS)) < 0.7, truth[:, None], random.integers(0, 3, (N_ITEMS, 4)))
    features = torch.from_numpy((np.eye(N_CLASSES)[truth] + 0.3 * random.normal(size=(N_ITEMS, 3))).astype(np.float32))
    extra = {name: options.pop(name) for name in ("validate", "callbacks", "checkpoints") if name in options}
    settings = TrainingSettings(**{"epochs": 4, "batch_size": 16, "learning_rate": 0.01, **options})
    seed = settings.seed
    if head is None:
        layer = make_annotator_layer("free", diagonal_confusions(N_ANNOTATORS, N_CLASSES, 0.6))
        head = GeometricHead(layer, regularizer="F", strength=0.01)
    return Trainer(
        build_network(network, (3,), N_CLASSES, generator=torch_stream(seed, "weights")),
        head,
        TensorItems(features, InputScaling.identity(), torch.device("cpu")),
        FlatAnnotations.of(Annotations.from_dense(table)),
        settings,
        **extra,
    )


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer._modules().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


EVERYTHING = {"augmentation": Augmentation(noise=0.1, mixup=0.5), "optimizer": "radam", "schedule": "one-cycle"}


@pytest.mark.parametrize(
    "network", ["mlp", lambda shape, k: nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, k))]
)
@pytest.mark.parametrize("options", [{}, EVERYTHING, {"clip_norm": 0.1}])
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(network: Any, options: dict[str, Any]) -> None:
    runs = []
    for seed in (1, 1, 2):
        trainer = make_trainer(network=network, seed=seed, borrow_stream=callable(network), **options)
        torch.rand(seed + 3)  # what was drawn outside must not matter
        trainer.run()
        runs.append(weights(trainer))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_global_random_states_are_left_as_they_were() -> None:
    before, before_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    make_trainer(
        network=lambda shape, k: nn.Sequential(nn.Dropout(0.5), nn.Linear(3, k)), borrow_stream=True, **EVERYTHING
    ).run()
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(before_numpy, np.random.get_state()[1])  # noqa: NPY002


def test_training_lowers_the_loss() -> None:
    history = make_trainer(epochs=30).run().history
    assert history["data"][-1] < history["data"][0]
    assert len(history["data"]) == len(history["volume"]) == len(history["total"]) == 30


def test_penalties_wait_for_the_warm_start_and_grow_over_the_ramp() -> None:
    history = make_trainer(epochs=10, warm_start=0.3, ramp=0.3).run().history
    assert history["volume"][:3] == [0.0, 0.0, 0.0]
    assert all(value != 0 for value in history["volume"][3:])
    assert abs(history["volume"][3]) < abs(history["volume"][8])


def test_held_annotators_stay_at_their_start() -> None:
    trainer = make_trainer(hold_annotators=1.0)
    before = trainer.head.layer.table.values.detach().clone()
    trainer.run()
    assert torch.equal(before, trainer.head.layer.table.values)


@pytest.mark.parametrize(("equal_epochs", "best"), [("latest", 2), ("earliest", 1)])
def test_the_best_epoch_is_restored_and_ties_go_as_asked(equal_epochs: str, best: int) -> None:
    figures = iter([0.1, 0.9, 0.9, 0.2])
    seen = []
    trainer = make_trainer(
        keep_best=True,
        equal_epochs=equal_epochs,
        validate=lambda: next(figures),
        callbacks=[lambda _: seen.append(weights(trainer))],
    )
    outcome = trainer.run()
    assert (outcome.best_epoch, outcome.best_value) == (best, 0.9)
    assert same(weights(trainer), seen[best])
    assert outcome.history["validation"] == [0.1, 0.9, 0.9, 0.2]


def test_patience_ends_training() -> None:
    figures = iter([0.5, 0.4, 0.3, 0.2, 0.1])
    assert make_trainer(epochs=50, patience=2, validate=lambda: next(figures)).run().epochs_done == 3


def test_a_callback_sees_every_epoch_and_may_end_training() -> None:
    records: list[EpochRecord] = []

    def stop_at_three(record: EpochRecord) -> bool:
        records.append(record)
        return record.epoch == 2

    assert make_trainer(epochs=9, callbacks=[stop_at_three]).run().epochs_done == 3
    assert [record.epoch for record in records] == [0, 1, 2]
    assert set(records[0].parts) == {"data", "volume", "total"}
    assert records[0].learning_rate > records[2].learning_rate


def test_ctrl_c_keeps_the_best_so_far() -> None:
    seen = []

    def interrupt(record: EpochRecord) -> None:
        seen.append(weights(trainer))
        if record.epoch == 1:
            raise KeyboardInterrupt

    figures = iter([0.9, 0.1])
    trainer = make_trainer(epochs=9, keep_best=True, validate=lambda: next(figures), callbacks=[interrupt])
    with pytest.warns(CrowdprismWarning, match="interrupted after 2 of 9 epochs"):
        outcome = trainer.run()
    assert outcome.interrupted
    assert same(weights(trainer), seen[0])


class BreaksAt(CrowdHead):
    """A head whose loss is not finite at one step."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.left = step

    def loss(self, log_class_probs: torch.Tensor, batch: Any) -> torch.Tensor:
        self.left -= 1
        return log_class_probs.sum() * (1.0 if self.left else float("nan"))


def test_a_loss_that_is_not_finite_stops_with_the_step_before_it_changes_a_weight() -> None:
    trainer = make_trainer(BreaksAt(5))  # three batches an epoch
    trainer.network.register_forward_hook(lambda *_: kept.append(weights(trainer)))
    kept: list[dict[str, torch.Tensor]] = []
    with pytest.raises(TrainingError, match="not finite at step 2 of epoch 2: data nan"):
        trainer.run()
    assert same(kept[-1], weights(trainer))


def test_a_head_without_parameters_trains_the_network_alone() -> None:
    assert make_trainer(BreaksAt(10**9), epochs=2).run().epochs_done == 2


def test_out_of_memory_names_a_batch_size_to_try() -> None:
    trainer = make_trainer()

    def too_much(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    trainer.network.register_forward_hook(too_much)
    with pytest.raises(TrainingError, match="batch_size=8"):
        trainer.run()


def test_clipping_bounds_the_common_norm() -> None:
    trainer = make_trainer(clip_norm=1e-3, epochs=1)
    parameters = [*trainer.network.parameters(), *trainer.head.parameters()]
    norms = []
    trainer._clip, clip = (lambda largest: (clip(largest), norms.append(norm_of(parameters)))), trainer._clip

    def norm_of(chosen: list[nn.Parameter]) -> float:
        return float(torch.nn.utils.get_total_norm([p.grad for p in chosen if p.grad is not None]))

    trainer.run()
    assert max(norms) <= 1e-3 * 1.001


def test_bfloat16_autocast_trains() -> None:
    assert np.isfinite(make_trainer(precision="bfloat16", epochs=1).run().history["data"][0])


def test_the_loop_takes_items_in_a_new_order_each_epoch() -> None:
    seen = []

    class Watches(BreaksAt):
        def loss(self, log_class_probs: torch.Tensor, batch: Any) -> torch.Tensor:
            seen.append(batch.index.tolist())
            return super().loss(log_class_probs, batch)

    make_trainer(Watches(10**9), epochs=2).run()
    first, second = (list(itertools.chain.from_iterable(part)) for part in (seen[:3], seen[3:]))
    assert sorted(first) == sorted(second) == list(range(N_ITEMS))
    assert first != second


@pytest.mark.parametrize("touched_only", [True, False])
@pytest.mark.parametrize("regularizer", ["F", "W"])
def test_a_resumed_run_goes_on_with_the_same_bits(regularizer: Any, touched_only: bool, tmp_path: Path) -> None:
    def trainer(folder: Path, *, ends_in: int | None = None) -> Trainer:
        def interrupt(record: EpochRecord) -> None:
            if record.epoch == ends_in:
                raise KeyboardInterrupt

        start = diagonal_confusions(N_ANNOTATORS, N_CLASSES, 0.7)
        layer = make_annotator_layer("pooled", start, touched_only=touched_only)
        head = GeometricHead(layer, regularizer=regularizer, strength=0.05)
        return make_trainer(head, epochs=6, callbacks=[interrupt], checkpoints=CheckpointFolder(folder, {}))

    straight, resumed = trainer(tmp_path / "straight"), trainer(tmp_path / "resumed")
    straight.run()
    with pytest.warns(CrowdprismWarning, match="interrupted"):
        trainer(tmp_path / "resumed", ends_in=2).run()  # two epochs are kept, the third is lost
    resumed.run()
    assert resumed.outcome.epochs_done == 6
    assert same(weights(resumed), weights(straight))


def test_two_runs_at_once_in_two_threads_end_as_one_after_the_other() -> None:
    def train(options: dict[str, Any]) -> dict[str, torch.Tensor]:
        layer = make_annotator_layer("free", diagonal_confusions(N_ANNOTATORS, N_CLASSES, 0.6), touched_only=True)
        trainer = make_trainer(GeometricHead(layer, regularizer="W", strength=0.01), epochs=8, **options)
        together.wait()
        trainer.run()
        return weights(trainer)

    class Pause(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            time.sleep(0.001)  # lets the other thread in
            return inputs

    def dropping(shape: tuple[int, ...], k: int) -> nn.Module:  # draws from torch's global stream
        return nn.Sequential(nn.Linear(3, 8), Pause(), nn.Dropout(0.5), nn.Linear(8, k))

    runs: list[dict[str, Any]] = [
        {"seed": 1, "network": dropping, "borrow_stream": True},
        {"seed": 2, "network": dropping, "borrow_stream": True},
    ]
    together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        at_once = list(pool.map(train, runs))
    together = threading.Barrier(1)
    assert all(same(found, train(options)) for found, options in zip(at_once, runs, strict=True))


def test_history_is_the_mean_over_the_steps_of_an_epoch() -> None:
    taken = []

    class Watches(CrowdHead):
        def loss(self, log_class_probs: torch.Tensor, batch: Any) -> torch.Tensor:
            found = -log_class_probs[batch.item, batch.label].sum()
            taken.append((float(found.detach()), batch.count))
            return found

        def penalties(self, log_class_probs: torch.Tensor, batch: Any) -> dict[str, torch.Tensor]:
            return {"size": log_class_probs.square().mean()}

    history = make_trainer(Watches(), epochs=1, warm_start=0.5).run().history
    sums, counts = np.array(taken).T
    assert history["data"][0] == pytest.approx(sums.sum() / counts.sum(), rel=1e-6)
    assert history["total"][0] == pytest.approx(history["data"][0] + history["size"][0])


def test_the_number_of_threads_is_recorded_and_restored() -> None:
    records: list[EpochRecord] = []
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        outcome = make_trainer(epochs=1, callbacks=[records.append]).run()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert outcome.threads == records[0].threads == 1  # the network is small


def test_the_same_number_of_threads_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_module, "WORK_PER_THREAD", 1)  # a small network, on all threads nevertheless
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first, second = make_trainer(epochs=2), make_trainer(epochs=2)
        assert first.run().threads == second.run().threads == 2
    finally:
        torch.set_num_threads(before)
    assert same(weights(first), weights(second))


FORKED = """
import os, sys
import numpy as np
import torch
from crowdprism.classifiers import GeoCrowdNet

torch.set_num_threads(2)
torch.randn(600, 600) @ torch.randn(600, 600)  # starts torch's threads, which a fork does not take along
random = np.random.default_rng(0)
X = random.normal(size=(200, 300)).astype(np.float32)
table = np.tile(np.arange(200) % 2, (3, 1)).T
options = {"network_options": {"hidden": (2000,)}, "epochs": 2, "batch_size": 100, "random_state": 0}
options |= {"input_noise": 0.0, "temperature": 1.0}
child = os.fork()
if child == 0:
    model = GeoCrowdNet(**options).fit(X, table)
    np.save(sys.argv[1], model.predict_proba(X))
    os._exit(0)
os.waitpid(child, 0)
torch.set_num_threads(1)
print(np.array_equal(np.load(sys.argv[1]), GeoCrowdNet(**options).fit(X, table).predict_proba(X)))
"""


def test_a_fit_after_a_fork_ends_as_one_on_a_single_thread(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "found.npy")],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")},
    )
    assert done.stdout.split()[-1] == "True"
