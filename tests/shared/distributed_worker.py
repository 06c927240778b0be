"""What the tests compare: weights after training in this process, or in several that share it as under torchrun."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from crowdprism.classifiers import CLASSIFIERS, inputs, make_classifier
from crowdprism.cli import main
from crowdprism.formats import feature_files
from crowdprism.networks import GeometricHead, build_network, diagonal_confusions, make_annotator_layer
from crowdprism.seeding import torch_stream
from crowdprism.simulate import one_coin, per_item, simulate_annotations
from crowdprism.training import FlatAnnotations, TensorItems, Trainer, TrainingSettings
from crowdprism.training.batches import DatasetItems
from crowdprism.training.distributed import process_group
from crowdprism.training.settings import limited_threads

N_ITEMS, N_FEATURES, N_CLASSES = 203, 6, 3


def data(n_items: int = N_ITEMS) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    truth = random.integers(0, N_CLASSES, n_items)
    features = (np.eye(N_FEATURES)[truth] * 2 + random.normal(size=(n_items, N_FEATURES))).astype(np.float32)
    crowd = simulate_annotations(truth, one_coin([0.9, 0.7, 0.6, 0.5], N_CLASSES), per_item(n_items, 4, labels=3))
    return features, crowd.with_gold(None)


def fitted(name: str, **settings: Any) -> dict[str, np.ndarray]:
    """Weights of a small network after six steps; nothing is left to the data unless asked for."""
    features, crowd = data(100)
    given = {"epochs": 2, "batch_size": 34, "network": "linear", "learning_rate": 0.05}
    given |= {"input_noise": 0.0, "temperature": 1.0}
    model = make_classifier(name, random_state=0, **{**given, **settings}).fit(features, crowd)
    weights = {key: value.double().numpy() for key, value in model.to_module().state_dict().items()}
    return weights | {"probabilities": model.result_.class_probabilities}


def fitted_from_disk() -> dict[str, np.ndarray]:
    """Weights of a fit on a Parquet file that counts as large, and the share of the rows that this process read."""
    features, crowd = data(100)
    n_read = 0
    batches = DatasetItems.batches

    def counted(self: Any, order: Any, generator: Any = None) -> Any:
        nonlocal n_read
        n_read += sum(map(len, order)) if generator is not None else 0
        return batches(self, order, generator)

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        pl.DataFrame(
            {"item": range(100), **{f"x{place}": column for place, column in enumerate(features.T)}}
        ).write_parquet(f"{folder}/x.parquet")
        patch.setattr(feature_files, "ON_DISK_FROM", 100)
        patch.setattr(inputs, "IN_MEMORY_BYTES", 100)
        patch.setattr(DatasetItems, "batches", counted)
        given = {"epochs": 2, "batch_size": 34, "network": "linear", "input_noise": 0.0, "temperature": 1.0}
        mapped = feature_files.read_features(f"{folder}/x.parquet").values
        assert isinstance(mapped, np.memmap)
        model = make_classifier("geocrowdnet-f", learning_rate=0.05, random_state=0, **given).fit(mapped, crowd)
    return {"probabilities": model.result_.class_probabilities, "read": np.array(n_read / 200)}


class DoubleItems(TensorItems):
    """Features in double precision."""

    def __init__(self, features: torch.Tensor) -> None:
        self._scaling, self._features = None, features


def in_double(regularizer: Any, network: str = "mlp") -> dict[str, np.ndarray]:
    """Weights after fifty steps in double precision; batches of 33 or 34 items do not divide evenly."""
    features, crowd = data()
    layer = make_annotator_layer("free", diagonal_confusions(crowd.n_annotators, N_CLASSES, 0.6))
    head = GeometricHead(layer, regularizer=regularizer, strength=0.01 if regularizer else 0.0)
    settings = TrainingSettings(epochs=10, max_batches=5, batch_size=40, learning_rate=0.01, clip_norm=1.0)
    built = build_network(network, (N_FEATURES,), N_CLASSES, generator=torch_stream(0, "weights"))
    if network == "linear":
        built = torch.nn.Sequential(torch.nn.BatchNorm1d(N_FEATURES), built)
    items = DoubleItems(torch.from_numpy(features).double())
    trainer = Trainer(built.double(), head.double(), items, FlatAnnotations.of(crowd), settings)
    trainer.run()
    states = {**trainer.network.state_dict(), **{f"head {key}": value for key, value in head.state_dict().items()}}
    return {key: value.double().numpy() for key, value in states.items()}


CASES: dict[str, Any] = {
    "double none": lambda: in_double(None),
    "double F": lambda: in_double("F"),
    "double W": lambda: in_double("W"),
    "double batch norm": lambda: in_double("F", network="linear"),
    **{name: (lambda name=name: fitted(name)) for name in CLASSIFIERS},
    "dropout": lambda: fitted("geocrowdnet-f", network="mlp", network_options={"hidden": (8,)}),
    "mixup": lambda: fitted("crowdlayer", mixup=0.4),
    "from disk": fitted_from_disk,
    "chosen": lambda: fitted("geocrowdnet-f", input_noise="auto", temperature="auto"),
}


def outcome(case: str) -> dict[str, np.ndarray]:
    """The weights of a case, or why it was refused."""
    try:
        return CASES[case]()
    except Exception as error:
        return {"error": np.array(f"{type(error).__name__}: {error}")}


def save_outcomes(folder: str, cases: Sequence[str]) -> None:
    """Save the outcomes of cases, by the first process of the group."""
    with limited_threads(1), process_group("cpu") as processes:
        for case in cases:
            found = outcome(case)
            if processes.rank == 0:
                np.savez(Path(folder) / f"{case}-{processes.n}.npz", **found)


def run_command(folder: str, arguments: Sequence[str]) -> None:
    """Run the command line in a folder."""
    os.chdir(folder)
    sys.argv = ["crowdprism", *arguments]
    main()


def in_processes(n_processes: int, work: Callable[..., Any], *arguments: Any) -> None:
    """Run work in several processes with the environment that torchrun gives them; torch is loaded once for all."""
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload([__name__])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = []
    for rank in range(n_processes):
        environment = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": n_processes, "MASTER_PORT": port}
        started.append(context.Process(target=one_process, args=(environment, work, arguments)))
        started[-1].start()
    for process in started:
        process.join(timeout=300)
    assert [process.exitcode for process in started] == [0] * n_processes


def one_process(environment: dict[str, int], work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.environ.update({name: str(value) for name, value in environment.items()}, MASTER_ADDR="127.0.0.1")
    work(*arguments)
