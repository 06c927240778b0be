"""Sets with features and annotations, human and simulated, each as (X, annotations with gold, X_test, truth there)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crowdprism as cp
from crowdprism.simulate import one_coin, pair_flip, per_item, simulate_annotations

Part = tuple[NDArray[Any], cp.Annotations, NDArray[Any], NDArray[Any]]  # X, annotations, X_test, true classes there


def own_split(name: str, features: str | None = None, n_items: int | None = None) -> Callable[[int], Part]:
    """A set with a test split; `n_items` of its training items by seed, or all."""

    def load(seed: int) -> Part:
        data = cp.load_dataset(name)
        train, test = (data.part(split, features=features) for split in ("train", "test"))
        chosen = np.arange(len(train.features))
        if n_items is not None:
            chosen = np.sort(np.random.default_rng(seed).choice(len(chosen), n_items, replace=False))
        assert train.annotations is not None
        return train.features[chosen], train.annotations[chosen], test.features, np.asarray(test.gold)

    return load


def drawn_split(name: str, n_items: int | None = None, labels: int | None = None) -> Callable[[int], Part]:
    """A set without a test split: three quarters of its items, or `n_items`, to train; `labels` per item, or all."""

    def load(seed: int) -> Part:
        random = np.random.default_rng(seed)
        part = cp.load_dataset(name).part("train")
        assert part.annotations is not None
        a = part.annotations
        order = random.permutation(np.flatnonzero((a.labels_per_item > 0) & ~np.ma.getmaskarray(part.gold)))
        n = 3 * len(order) // 4 if n_items is None else n_items
        train, test = np.sort(order[:n]), np.sort(order[n : n + 4000])
        shown = a[train]
        if labels is not None:
            mixed = random.permutation(shown.n_annotations)
            rank = np.argsort(np.argsort(shown.item[mixed], kind="stable"), kind="stable")
            first = np.concatenate([[0], np.cumsum(shown.labels_per_item)])[:-1]
            keep = np.zeros(shown.n_annotations, dtype=bool)
            keep[mixed] = rank - first[shown.item[mixed]] < labels
            shown = shown.select(keep)
        return part.features[train], shown, part.features[test], np.asarray(part.gold[test])

    return load


def simulated(kind: str) -> Callable[[int], Part]:
    """Simulated crowds on MNIST's or Fashion-MNIST's pixels in 60 principal components."""

    def load(seed: int) -> Part:
        from sklearn.decomposition import PCA

        random = np.random.default_rng(seed)
        data = cp.load_dataset("fashion_mnist" if kind == "pairs" else "mnist")
        train, test = data.part("train"), data.part("test")
        gold = np.asarray(train.gold)
        shares = np.full(10, 0.1)
        if kind == "longtail":
            shares = 0.6 ** np.arange(10) / (0.6 ** np.arange(10)).sum()
        chosen = np.concatenate(
            [random.choice(np.flatnonzero(gold == k), round(1500 * shares[k]), replace=False) for k in range(10)]
        )
        reducer = PCA(60, random_state=seed).fit(train.features[random.choice(len(gold), 5000, replace=False)] / 255.0)
        truth = gold[chosen]
        if kind == "pairs":
            crowd = np.concatenate([pair_flip(1, 10, flip=flip) for flip in random.uniform(0.1, 0.45, 30)])
        else:
            crowd = one_coin(random.uniform(0.3, 0.9, 30), 10)
        asked = per_item(len(truth), 30, labels=1 if kind == "one" else 3, seed=seed)
        shown = simulate_annotations(truth, crowd, asked, seed=seed, classes=range(10))
        X, X_test = (
            reducer.transform(part / 255.0).astype(np.float32)
            for part in (train.features[chosen], test.features[:4000])
        )
        return X, shown, X_test, np.asarray(test.gold[:4000])

    return load


SETS: dict[str, Callable[[int], Part]] = {
    "labelme_vgg": own_split("labelme", "vgg16_avg"),
    "labelme_eff": own_split("labelme", "efficientnet_lite0"),
    "music": own_split("music"),
    "sentiment": own_split("sentiment_polarity", n_items=1500),
    "amazon": own_split("amazon_isbook"),
    "movie": drawn_split("movie_reviews"),
    "cifar10s": drawn_split("cifar10s"),
    "cifar10h": drawn_split("cifar10h", labels=3),
    "cifar10n": drawn_split("cifar10n", n_items=1500),
    "sim_longtail": simulated("longtail"),
    "sim_one_label": simulated("one"),
    "sim_pair_flips": simulated("pairs"),
}
