"""Fit every method in several ways (threads, fork, spawn, joblib, DataLoader) and print the digests as JSON.

    python tests/torture/every_method.py plain threads fork

The same method on the same data gives the same digest in every way; tests/torture/test_one_behaviour.py compares them.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np

from crowdprism.aggregators import AGGREGATORS, make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.classifiers import CLASSIFIERS, make_classifier
from crowdprism.comparison.contract import sample_data

METHODS = [f"{name} (aggregator)" for name in AGGREGATORS] + list(CLASSIFIERS)
LINEAR = ("raykar", "gaussian-process")  # methods without a network to choose
SMALL: dict[str, Any] = {"epochs": 2, "batch_size": 16, "network_options": {"hidden": (8,)}}


def digest(method: str) -> str:
    """Fit a method to a small crowd with names of text, and hash all that was learned."""
    warnings.simplefilter("ignore")
    data = sample_data(n_items=90, n_annotators=6)
    columns = (data.annotations.item, data.annotations.annotator, data.annotations.label)
    crowd = Annotations.from_triplets(*([f"name {code:02}" for code in column] for column in columns))
    name = method.removesuffix(" (aggregator)")
    if name != method:
        result = make_aggregator(name).fit(crowd).result_
    else:
        options = {key: value for key, value in SMALL.items() if name not in LINEAR or key != "network_options"}
        result = make_classifier(name, **options).fit(data.features, crowd).result_
    parts = (result.class_probabilities, result.confusions, result.skills, result.class_prior)
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(part).tobytes() for part in parts if part is not None)
    ).hexdigest()


def in_turn(methods: Iterable[str]) -> list[str]:
    """One after the other."""
    return [digest(method) for method in methods]


def in_threads(methods: Iterable[str]) -> list[str]:
    """Two at once in one process."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(digest, methods))


def in_process(start: str) -> Callable[[list[str]], list[str]]:
    """In a process that was started in this way."""

    def fit_there(methods: list[str]) -> list[str]:
        with ProcessPoolExecutor(1, multiprocessing.get_context(start)) as pool:
            return pool.submit(in_turn, methods).result(timeout=300)

    return fit_there


def by_joblib(methods: list[str]) -> list[str]:
    """In workers of joblib, as scikit-learn's searches start them."""
    from joblib import Parallel, delayed

    (found,) = Parallel(n_jobs=2, backend="loky")(delayed(in_turn)(part) for part in [methods])
    return list(found)


def by_data_loader(methods: list[str]) -> list[str]:
    """In a worker of torch's DataLoader."""
    from torch.utils.data import DataLoader

    class Fits:
        def __len__(self) -> int:
            return len(methods)

        def __getitem__(self, place: int) -> str:
            return digest(methods[place])

    return [found for (found,) in DataLoader(Fits(), num_workers=1)]  # type: ignore[arg-type]


WAYS: dict[str, Callable[[list[str]], list[str]]] = {
    "plain": in_turn,
    "threads": in_threads,
    "fork": in_process("fork"),
    "spawn": in_process("spawn"),
    "joblib": by_joblib,
    "data loader": by_data_loader,
}


def main(words: list[str]) -> None:
    """Fit every method in the first way, and in all others; with --shared, each in one of the others."""
    first, *others = [word for word in words if word != "--shared"]
    step = len(others) if "--shared" in words else 1
    parts = {first: METHODS} | {way: METHODS[place % step :: step] for place, way in enumerate(others)}
    json.dump({way: dict(zip(part, WAYS[way](part), strict=True)) for way, part in parts.items()}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
