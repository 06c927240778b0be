"""Trains in this process or in those that torchrun started, and saves the weights: what the tests compare.

python distributed_worker.py OUTPUT CASE ...
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crowdprism.classifiers import CLASSIFIERS, make_classifier
from crowdprism.networks import GeometricHead, build_network, diagonal_confusions, make_annotator_layer
from crowdprism.seeding import torch_stream
from crowdprism.simulate import one_coin, per_item, simulate_annotations
from crowdprism.training import FlatAnnotations, TensorItems, Trainer, TrainingSettings
from crowdprism.training.distributed import process_group

N_ITEMS, N_FEATURES, N_CLASSES = 203, 6, 3


def data(n_items: int = N_ITEMS) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    truth = random.integers(0, N_CLASSES, n_items)
    features = (np.eye(N_FEATURES)[truth] * 2 + random.normal(size=(n_items, N_FEATURES))).astype(np.float32)
    crowd = simulate_annotations(truth, one_coin([0.9, 0.7, 0.6, 0.5], N_CLASSES), per_item(n_items, 4, labels=3))
    return features, crowd.with_gold(None)


def fitted(name: str, **settings: Any) -> dict[str, np.ndarray]:
    features, crowd = data()
    model = make_classifier(name, epochs=1, batch_size=32, random_state=0, selection="last", **settings)
    model.fit(features, crowd)
    weights = {key: value.double().numpy() for key, value in model.to_module().state_dict().items()}
    return weights | {"probabilities": model.result_.class_probabilities}


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
    "dropout": lambda: fitted("geocrowdnet-f", network="mlp"),
    "mixup": lambda: fitted("crowdlayer", mixup=0.4),
}


def main() -> None:
    output, names = Path(sys.argv[1]), sys.argv[2:]
    torch.set_num_threads(1)
    with process_group("cpu") as processes:
        for name in names:
            try:
                found = CASES[name]()
            except Exception as error:
                found = {"error": np.array(f"{type(error).__name__}: {error}")}
            if processes.rank == 0:
                np.savez(output / f"{name}-{processes.n}.npz", **found)


if __name__ == "__main__":
    main()
