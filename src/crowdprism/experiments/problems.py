"""From `Data` and a seed to arrays: items, annotations, validation and test. Crowds are kept in the cache folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import positions
from crowdprism.datasets import Dataset, load_dataset
from crowdprism.files import cache_folder, replacing_file
from crowdprism.errors import InvalidParameterError
from crowdprism.experiments.fits import key_of, without_none
from crowdprism.experiments.spec import Data
from crowdprism.results.confusion import true_confusions
from crowdprism.seeding import stream

IMAGES = "images"
CACHE_VERSION = 1  # raise when the way crowds are made changes, so that old files are not used


@dataclass(frozen=True, eq=False)
class Problem:
    """What one trial trains and tests on.

    Attributes
    ----------
    validation
        `X_valid` and `y_valid` of `fit`, or nothing.
    truth
        (n_annotators, true class, given label): the confusions that labels were drawn from, else those counted
        against the true classes of the training items; in the order of the annotations' annotators.
    """

    X: NDArray[Any]
    y: Annotations
    validation: Mapping[str, Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    truth: NDArray[np.float64]
    label_accuracy: float
    unlabelled: float


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labels of a simulated crowd: positions of the items in the train split, triplets, and the drawn confusions."""

    items: NDArray[np.int64]
    item: NDArray[np.int64]
    annotator: NDArray[np.int64]
    label: NDArray[np.int64]
    confusions: NDArray[np.float64] | None = None


@lru_cache(maxsize=2)
def opened(name: str) -> Dataset:
    """A data set, read once per process."""
    return load_dataset(name)


@lru_cache(maxsize=4)
def arrays_of(name: str, split: str, features: str | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Features of a split, images with their channels in front, and true classes."""
    part = opened(name).part(split, features=features)
    values = part.features
    if features == IMAGES:
        values = values[:, None] if values.ndim == 3 else np.moveaxis(values, -1, 1)
    return values, np.asarray(part.gold, dtype=np.int64)


@lru_cache(maxsize=2)
def make_problem(data: Data, seed: int) -> Problem:
    """Everything that a trial needs; the same data and seed give the same problem."""
    X, gold = arrays_of(data.dataset, "train", data.features)
    X_test, gold_test = arrays_of(data.dataset, "test", data.features)
    y, chosen, drawn = annotated(data, seed)
    X, gold = X[chosen], gold[chosen]
    validation: dict[str, Any] = {}
    if data.valid == "drawn":
        if data.n_valid is None or not 0 < data.n_valid < len(X):
            raise InvalidParameterError(
                f'valid = "drawn" needs n_valid between 1 and the {len(X)} items, not {data.n_valid}.'
            )
        # numpy's own generator, not a named stream: rows measured on human labels were drawn this way
        order = np.random.default_rng(seed).permutation(len(X))
        held, kept = np.sort(order[: data.n_valid]), np.sort(order[data.n_valid :])
        validation = {"X_valid": X[held], "y_valid": y.classes[gold[held]]}
        X, y, gold = X[kept], y[kept], gold[kept]
    elif data.valid == "split":
        X_valid, gold_valid = arrays_of(data.dataset, "valid", data.features)
        validation = {"X_valid": X_valid, "y_valid": y.classes[gold_valid]}
    truth = true_confusions(y)
    if drawn is not None:
        truth = drawn[positions(np.arange(len(drawn)), y.annotators.tolist())]
    return Problem(
        X=X,
        y=y,
        validation=validation,
        X_test=X_test,
        y_test=y.classes[gold_test],
        truth=truth,
        label_accuracy=float(np.mean(y.label == gold[y.item])),
        unlabelled=float(np.mean(y.labels_per_item == 0)),
    )


def annotated(data: Data, seed: int) -> tuple[Annotations, NDArray[np.int64], NDArray[np.float64] | None]:
    """Annotations with gold, the positions of their items in the train split, and confusions where known."""
    part = opened(data.dataset)
    train = part.splits["train"]
    if data.crowd.kind == "human":
        everything = part.part("train", features=data.features).annotations
        assert everything is not None
        if data.n_items is None:
            return everything, np.arange(everything.n_items), None
        chosen = drawn_items(everything.n_items, data.n_items, seed)
        return everything[chosen], chosen, None
    gold = np.asarray(part.gold[train], dtype=np.int64)
    classes = list(part.classes)
    if data.crowd.kind == "gold":
        chosen = drawn_items(len(gold), data.n_items, seed)
        rows = np.arange(len(chosen))
        labelled = Labelled(chosen, rows, np.zeros_like(rows), gold[chosen])
    else:
        labelled = simulated(data, seed)
    names = [classes[code] for code in labelled.label]
    y = Annotations.from_triplets(
        labelled.item,
        labelled.annotator,
        names,
        classes=classes,
        item_names=list(range(len(labelled.items))),
        gold={place: classes[code] for place, code in enumerate(gold[labelled.items])},
    )
    return y, labelled.items, labelled.confusions


def drawn_items(n_there: int, n_wanted: int | None, seed: int) -> NDArray[np.int64]:
    """Positions of the items of a trial, in order."""
    if n_wanted is None:
        return np.arange(n_there)
    if not 0 < n_wanted <= n_there:
        raise InvalidParameterError(f"n_items must be between 1 and the {n_there} items there are, not {n_wanted}.")
    return np.sort(stream(seed, "experiment items").choice(n_there, size=n_wanted, replace=False))


def simulated(data: Data, seed: int) -> Labelled:
    """Labels of machine annotators or of a family; machine annotators take long to train and are kept in the cache."""
    if data.crowd.kind == "family":
        return labels_of_family(data, seed)
    path = crowd_file(data, seed)
    if not path.exists():
        labelled = labels_of_machines(data, seed)
        with replacing_file(path, suffix=".npz") as fresh:
            np.savez_compressed(
                fresh, items=labelled.items, item=labelled.item, annotator=labelled.annotator, label=labelled.label
            )
    with np.load(path, allow_pickle=False) as kept:
        return Labelled(kept["items"], kept["item"], kept["annotator"], kept["label"])


def crowd_file(data: Data, seed: int) -> Path:
    """Where the labels of a machine crowd are kept; all that they depend on is in the name."""
    told: dict[str, Any] = {"dataset": data.dataset, "n_items": data.n_items, "seed": seed, "version": CACHE_VERSION}
    told["crowd"] = without_none(asdict(data.crowd))
    name = hashlib.sha256(key_of(told).encode()).hexdigest()[:20]
    return cache_folder() / "experiments" / "crowds" / f"{data.dataset}-{name}.npz"


def labels_of_machines(data: Data, seed: int) -> Labelled:
    """Train the annotators and let them label; see `crowdprism.simulate.machine_annotations`."""
    from crowdprism.simulate import machine_annotations

    crowd = data.crowd
    part = opened(data.dataset)
    train = part.splits["train"]
    if crowd.n_annotators is None or crowd.case not in (1, 2) or data.n_items is None:
        raise InvalidParameterError("A machine crowd needs n_annotators, case (1 or 2) and the data's n_items.")
    options = {"probability": crowd.probability, "pool_size": crowd.pool_size, "lr_label_bug": crowd.lr_label_bug}
    made = machine_annotations(
        part.images[train],
        np.asarray(part.gold[train]),
        n_items=data.n_items,
        n_annotators=crowd.n_annotators,
        case=crowd.case,  # type: ignore[arg-type]
        seed=seed,
        n_classes=part.n_classes,
        **{name: value for name, value in options.items() if value is not None},  # type: ignore[arg-type]
    )
    y = made.annotations
    return Labelled(made.items, y.item.astype(np.int64), y.annotator.astype(np.int64), y.label.astype(np.int64))


def labels_of_family(data: Data, seed: int) -> Labelled:
    """Draw confusions, who labels what, and labels."""
    from crowdprism.simulate import build_family, build_pattern, simulate_annotations

    crowd = data.crowd
    part = opened(data.dataset)
    gold = np.asarray(part.gold[part.splits["train"]], dtype=np.int64)
    if crowd.n_annotators is None or crowd.family is None or crowd.pattern is None:
        raise InvalidParameterError("A crowd of a family needs n_annotators, family and pattern.")
    chosen = drawn_items(len(gold), data.n_items, seed)
    confusions = build_family(crowd.family, crowd.n_annotators, part.n_classes, level=crowd.level, seed=seed)
    pairs = build_pattern(crowd.pattern, len(chosen), crowd.n_annotators, amount=crowd.amount, seed=seed)
    y = simulate_annotations(gold[chosen], confusions, pairs, seed=seed)
    return Labelled(
        chosen, y.item.astype(np.int64), y.annotator.astype(np.int64), y.label.astype(np.int64), np.asarray(confusions)
    )
