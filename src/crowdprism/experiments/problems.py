"""From `Data` and a seed to arrays: items, annotations, validation and test. Machine crowds are kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import name_array, positions
from crowdprism.datasets import load_dataset
from crowdprism.errors import InvalidParameterError
from crowdprism.experiments.fits import key_of
from crowdprism.experiments.spec import Data, without_none
from crowdprism.files import cache_folder, replacing_file
from crowdprism.results.confusion import true_confusions
from crowdprism.seeding import stream
from crowdprism.simulate import build_family, build_pattern, machine_annotations, simulate_annotations

CACHE_VERSION = 3  # raise when crowds are made in another way, so that old files are not used


@dataclass(frozen=True, eq=False)
class Problem:
    """The arrays of one trial; `truth` are the confusions that labels were drawn from, else those counted on gold."""

    X: NDArray[Any]
    y: Annotations
    validation: Mapping[str, Any]  # X_valid and y_valid of fit, or empty
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    truth: NDArray[np.float64]
    label_accuracy: float
    unlabelled: float


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labels of a simulated crowd: positions of the items in the train split, triplets, and confusions if drawn."""

    items: NDArray[np.int64]
    item: NDArray[np.int64]
    annotator: NDArray[np.int64]
    label: NDArray[np.int64]
    confusions: NDArray[np.float64] | None = None


open_dataset = lru_cache(maxsize=2)(load_dataset)


@lru_cache(maxsize=4)
def arrays_of(name: str, split: str, features: str | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Features of a split (images with channels first) and true classes."""
    part = open_dataset(name).part(split, features=features)
    values = part.features
    if features == "images":
        values = values[:, None] if values.ndim == 3 else np.moveaxis(values, -1, 1)
    return values, np.asarray(part.gold, dtype=np.int64)


@lru_cache(maxsize=2)
def make_problem(data: Data, seed: int) -> Problem:
    """The problem of one trial; the same data and seed give the same problem."""
    X, gold = arrays_of(data.dataset, "train", data.features)
    X_test, gold_test = arrays_of(data.dataset, "test", data.features)
    y, chosen, drawn = annotated(data, seed)
    X, gold = X[chosen], gold[chosen]
    validation: dict[str, Any] = {}
    if data.valid == "drawn":
        if data.n_valid is None or not 0 < data.n_valid < len(X):
            needed = f"n_valid between 1 and the {len(X)} items"
            raise InvalidParameterError(f'valid = "drawn" needs {needed}, not {data.n_valid}.')
        # numpy's own generator, not a named stream: the stored rows on human labels were drawn this way
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
        y=y.with_gold(None),  # what is measured must not be learned
        validation=validation,
        X_test=X_test,
        y_test=y.classes[gold_test],
        truth=truth,
        label_accuracy=float(np.mean(y.label == gold[y.item])),
        unlabelled=float(np.mean(y.labels_per_item == 0)),
    )


def annotated(data: Data, seed: int) -> tuple[Annotations, NDArray[np.int64], NDArray[np.float64] | None]:
    """Annotations with gold, the positions of their items in the train split, and the confusions if drawn."""
    dataset = open_dataset(data.dataset)
    if data.crowd.kind == "human":
        everything = dataset.part("train", features=data.features).annotations
        assert everything is not None
        chosen = draw_items(everything.n_items, data.n_items, seed)
        return (everything if data.n_items is None else everything[chosen]), chosen, None
    gold = np.asarray(dataset.gold[dataset.splits["train"]], dtype=np.int64)
    if data.crowd.kind == "gold":
        chosen = draw_items(len(gold), data.n_items, seed)
        labelled = Labelled(chosen, np.arange(len(chosen)), np.zeros_like(chosen), gold[chosen])
    else:
        labelled = simulated(data, seed)
    y = Annotations.from_triplets(
        *(labelled.item, labelled.annotator, labelled.label),
        classes=range(dataset.n_classes),
        item_names=range(len(labelled.items)),
        gold=dict(enumerate(gold[labelled.items].tolist())),
    )
    return replace(y, classes=name_array(dataset.classes)), labelled.items, labelled.confusions


def draw_items(n_there: int, n_wanted: int | None, seed: int) -> NDArray[np.int64]:
    if n_wanted is None:
        return np.arange(n_there)
    if not 0 < n_wanted <= n_there:
        raise InvalidParameterError(f"n_items must be between 1 and the {n_there} items there are, not {n_wanted}.")
    return np.sort(stream(seed, "experiment items").choice(n_there, size=n_wanted, replace=False))


def simulated(data: Data, seed: int) -> Labelled:
    """Labels of a family or of machine annotators; the latter take long to train and are kept in the cache."""
    if data.crowd.kind == "family":
        return labels_of_family(data, seed)
    path = crowd_file(data, seed)
    if not path.exists():
        made = labels_of_machines(data, seed)
        with replacing_file(path, suffix=".npz") as fresh:
            np.savez_compressed(fresh, items=made.items, item=made.item, annotator=made.annotator, label=made.label)
    with np.load(path, allow_pickle=False) as kept:
        return Labelled(kept["items"], kept["item"], kept["annotator"], kept["label"])


def crowd_file(data: Data, seed: int) -> Path:
    """The cache file of a machine crowd; its name depends on everything that the labels depend on."""
    content: dict[str, Any] = {"dataset": data.dataset, "n_items": data.n_items, "seed": seed, "version": CACHE_VERSION}
    content["crowd"] = without_none(asdict(data.crowd))
    name = hashlib.sha256(key_of(content).encode()).hexdigest()[:20]
    return cache_folder() / "experiments" / "crowds" / f"{data.dataset}-{name}.npz"


def labels_of_machines(data: Data, seed: int) -> Labelled:
    """Train the annotators and let them label; see `crowdprism.simulate.machine_annotations`."""
    crowd, dataset = data.crowd, open_dataset(data.dataset)
    train = dataset.splits["train"]
    if crowd.n_annotators is None or crowd.case not in (1, 2) or data.n_items is None:
        raise InvalidParameterError("A machine crowd needs n_annotators, case (1 or 2) and the data's n_items.")
    options = {"probability": crowd.probability, "pool_size": crowd.pool_size, "lr_label_bug": crowd.lr_label_bug}
    made = machine_annotations(
        dataset.images[train],
        np.asarray(dataset.gold[train]),
        n_items=data.n_items,
        n_annotators=crowd.n_annotators,
        case=crowd.case,  # type: ignore[arg-type]
        seed=seed,
        n_classes=dataset.n_classes,
        **without_none(options),
    )
    return labelled_by(made.annotations, made.items)


def labels_of_family(data: Data, seed: int) -> Labelled:
    crowd, dataset = data.crowd, open_dataset(data.dataset)
    gold = np.asarray(dataset.gold[dataset.splits["train"]], dtype=np.int64)
    if crowd.n_annotators is None or crowd.family is None or crowd.pattern is None:
        raise InvalidParameterError("A crowd of a family needs n_annotators, family and pattern.")
    chosen = draw_items(len(gold), data.n_items, seed)
    confusions = build_family(crowd.family, crowd.n_annotators, dataset.n_classes, level=crowd.level, seed=seed)
    pairs = build_pattern(crowd.pattern, len(chosen), crowd.n_annotators, amount=crowd.amount, seed=seed)
    return labelled_by(simulate_annotations(gold[chosen], confusions, pairs, seed=seed), chosen, confusions)


def labelled_by(y: Annotations, items: NDArray[np.int64], confusions: NDArray[np.float64] | None = None) -> Labelled:
    item, annotator, label = (codes.astype(np.int64) for codes in (y.item, y.annotator, y.label))
    return Labelled(items, item, annotator, label, confusions)
