"""A grid of small models trained as one stacked program against one by one, interleaved on the same threads.

    CROWDPRISM_DATA=... python benchmarks/grid_search.py [--threads 2] [--epochs 60] [--repeats 3]

The Music grid of the GeoCrowdNet paper: six settings (two learning rates, three strengths of F), five trials
from different seeds on one 595/105 split. Best epoch and best setting are chosen by the true labels of the validation
songs, as in the paper. Results go to results/grid_search.json.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import product

import numpy as np
import torch

from crowdprism.datasets import load_dataset
from crowdprism.networks import GeometricHead, build_network, make_annotator_layer
from crowdprism.networks.annotator_layer import diagonal_confusions, identity_diagonal
from crowdprism.seeding import stream, torch_stream
from crowdprism.training import FlatAnnotations, InputScaling, TensorItems, Trainer, TrainingSettings, predict_log_probs
from crowdprism.training.stacked import StackedModel, StackedTrainer
from measured import store

LEARNING_RATES = (0.01, 0.001)
STRENGTHS = (1e-2, 1e-3, 1e-4)
TRIALS = range(5)
N_TRAIN = 595
TARGET = 3.0


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="for both ways")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    grid = Grid(options.epochs)
    seconds: dict[str, list[float]] = {"one by one": [], "stacked": []}
    accuracy: dict[str, list[float]] = {}
    for _ in range(options.repeats):
        for way, train in (("stacked", grid.train_stacked), ("one by one", grid.train_one_by_one)):
            begun = time.perf_counter()
            accuracy[way] = train()
            seconds[way].append(time.perf_counter() - begun)
    ratio = statistics.median(a / b for a, b in zip(seconds["one by one"], seconds["stacked"], strict=True))
    for way, times in seconds.items():
        found = np.array(accuracy[way])
        print(
            f"{way:12s} {statistics.median(times):6.2f} s for {len(TRIALS) * 6} models; selected models: test accuracy "
            f"{found.mean():.2%}, standard error {found.std(ddof=1) / len(found) ** 0.5:.2%}"
        )
    print(f"one by one / stacked: {ratio:.2f} (target at least {TARGET})")
    record = {"threads": options.threads, "epochs": options.epochs, "seconds": seconds, "accuracy": accuracy}
    store("grid_search", {**record, "ratio": ratio, "target": TARGET})


class Grid:
    """The data and the thirty models."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        data = load_dataset("music")
        shuffled = stream(0, "split").permutation(data.splits["train"])
        self.train, self.valid = np.sort(shuffled[:N_TRAIN]), np.sort(shuffled[N_TRAIN:])
        self.test = data.splits["test"]
        self.truth = np.asarray(data.gold)
        features = torch.from_numpy(np.asarray(data.features, dtype=np.float32))
        scaling = InputScaling.of(features[self.train])
        self.items, self.valid_items, self.test_items = (
            TensorItems(features[songs], scaling, torch.device("cpu")) for songs in (self.train, self.valid, self.test)
        )
        annotations = data.annotations.align_items(data.annotations.items[self.train])
        self.flat = FlatAnnotations.of(annotations)
        self.n_classes, self.n_annotators = annotations.n_classes, annotations.n_annotators

    def models(self) -> list[StackedModel]:
        """Fresh models: for each trial all settings."""
        found = []
        for trial, rate, strength in product(TRIALS, LEARNING_RATES, STRENGTHS):
            settings = TrainingSettings(
                epochs=self.epochs,
                batch_size=100,
                schedule="none",
                learning_rate=rate,
                annotator_learning_rate=rate,
                weight_decay=1e-4,
                annotator_weight_decay=1e-4,
                keep_best=True,
                seed=trial,
            )
            network = build_network(
                "music", self.items.shape, self.n_classes, generator=torch_stream(trial, "weights", 0)
            )
            start = diagonal_confusions(self.n_annotators, self.n_classes, identity_diagonal(self.n_classes))
            head = GeometricHead(make_annotator_layer("free", start), regularizer="F", strength=strength)
            found.append(StackedModel(network, head, settings))
        return found

    def train_stacked(self) -> list[float]:
        """All models as one program; test accuracy of the selected model of each trial."""
        models, truth = self.models(), self.truth[self.valid]

        def measure(class_probs: np.ndarray, confusions: np.ndarray) -> float:
            return float((class_probs.argmax(axis=-1) == truth).mean())

        trainer = StackedTrainer(models, self.items, self.flat, measure=measure, valid_items=self.valid_items)
        trainer.run()
        return self.selected(models, np.array([outcome.best_value for outcome in trainer.outcomes()]))

    def train_one_by_one(self) -> list[float]:
        """The same, model after model."""
        models, truth = self.models(), self.truth[self.valid]
        figures = []
        for model in models:

            def validate(network: torch.nn.Module = model.network) -> float:
                best = predict_log_probs(network, self.valid_items).argmax(dim=-1).numpy()
                return float((best == truth).mean())

            trainer = Trainer(model.network, model.head, self.items, self.flat, model.settings, validate=validate)
            figures.append(trainer.run().best_value or 0.0)
        return self.selected(models, np.array(figures))

    def selected(self, models: list[StackedModel], figures: np.ndarray) -> list[float]:
        """Of each trial the setting with the best validation figure; its test accuracy."""
        by_trial = figures.reshape(len(TRIALS), -1)
        chosen = by_trial.argmax(axis=1) + np.arange(len(TRIALS)) * by_trial.shape[1]
        truth = self.truth[self.test]
        return [
            float((predict_log_probs(models[place].network, self.test_items).argmax(dim=-1).numpy() == truth).mean())
            for place in chosen
        ]


if __name__ == "__main__":
    main()
