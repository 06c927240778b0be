"""Machine annotators: classifiers trained on a few items each, which then label items they have not seen.

Follows the experiments on MNIST and Fashion-MNIST of Ibrahim, Nguyen and Fu (ICLR 2023). Torch and scikit-learn
are imported when an annotator is trained.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.progress import progress
from crowdprism.seeding import stream
from crowdprism.simulate.labelling import annotations_of_labels, check_true_classes
from crowdprism.simulate.machine_annotators import (
    EXPERT_SIZE,
    PUBLISHED_ACCURACIES,
    SMALL_SIZES,
    AccuracyReport,
    Case,
    MachineAnnotator,
    machine_list,
)
from crowdprism.simulate.machine_networks import Predictor, train_network
from crowdprism.simulate.machine_svm import train_svm
from crowdprism.simulate.observation import Pairs, each_with_probability

POOL_SIZE = 10_000
OBSERVED_SHARE = 0.1
N_ITEMS_FOR_ACCURACY = 2000  # a standard error of at most 1.1 points
SMALLEST_IMAGE = 6  # two 3 x 3 convolutions and a pooling step need as much


@dataclass(frozen=True)
class MachineCrowd:
    """Trained annotators; build one with `machine_crowd`.

    Attributes
    ----------
    annotators
        What each is.
    n_train
        (n_annotators,) number of items each was trained on.
    """

    annotators: tuple[MachineAnnotator, ...]
    n_train: tuple[int, ...]
    n_classes: int
    mean: float
    deviation: float
    predictors: tuple[Predictor, ...]

    @property
    def names(self) -> list[str]:
        """One name per annotator, such as `03-fcnn-10`."""
        return [f"{place:02d}-{annotator.name}" for place, annotator in enumerate(self.annotators)]

    def predict(self, features: Any, place: int) -> NDArray[np.int64]:
        """(n_items,) labels that the annotator at `place` gives to items."""
        return self.predictors[place](normalised(np.asarray(features), self.mean, self.deviation))

    def annotate(
        self, features: Any, true_classes: Any, pairs: Pairs, *, classes: Sequence[Hashable] | None = None
    ) -> Annotations:
        """The labels of the observed pairs; each annotator looks only at the items that it labels."""
        truth = check_true_classes(true_classes, self.n_classes)
        values = np.asarray(features)
        item, annotator = pairs
        label = np.empty(len(item), dtype=np.int64)
        for place in range(len(self.predictors)):
            rows = np.flatnonzero(annotator == place)
            if len(rows):
                label[rows] = self.predict(values[item[rows]], place)
        return annotations_of_labels(
            truth, label, pairs, n_classes=self.n_classes, classes=classes, annotators=self.names
        )

    def accuracies(self, features: Any, true_classes: Any) -> NDArray[np.float64]:
        """(n_annotators,) share of these items that each annotator labels rightly."""
        truth = np.asarray(true_classes)
        values = normalised(np.asarray(features), self.mean, self.deviation)
        return np.array([(predictor(values) == truth).mean() for predictor in self.predictors])


def machine_crowd(
    features: Any,
    true_classes: Any,
    annotators: Sequence[MachineAnnotator],
    *,
    n_classes: int | None = None,
    lr_label_bug: bool = False,
    seed: int = 0,
) -> MachineCrowd:
    """Train machine annotators on a pool of items with their true classes.

    Parameters
    ----------
    features
        The pool: (n_items, n_features), or images (n_items, height, width[, channels]), which a CNN needs. All
        are normalised by the pool's one mean and deviation, as is usual for MNIST.
    annotators
        What to train, as from `machine_list`.
    lr_label_bug
        Repeat a mistake of the reference code, which takes the features of logistic regression's sub-sample but
        the labels of the pool's first items; it explains published accuracies near 3 %. Off by default.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdprism.seeding import stream
    >>> truth = np.arange(600) % 3
    >>> clouds = np.eye(3)[truth] * 4 + stream(0, "doc").normal(size=(600, 3))
    >>> crowd = machine_crowd(clouds, truth, [MachineAnnotator("knn", 5), MachineAnnotator("svm", "linear")])
    >>> bool((crowd.accuracies(clouds, truth) > 0.9).all())
    True
    """
    values = np.asarray(features)
    known = n_classes or int(np.max(true_classes)) + 1
    truth = check_true_classes(true_classes, known)
    if len(values) != len(truth):
        raise InvalidParameterError(f"The pool has {len(values)} rows of features but {len(truth)} true classes.")
    mean, deviation = float(values.mean()), float(values.std()) or 1.0
    pool = normalised(values, mean, deviation)
    predictors, sizes = [], []
    with progress("training annotators", len(annotators)) as bar:
        for place, annotator in enumerate(annotators):
            chosen = training_items(annotator, len(pool), seed, place)
            labels = truth[: len(chosen)] if lr_label_bug and annotator.kind == "logistic" else truth[chosen]
            predictors.append(_train(annotator, pool[chosen], labels, n_classes=known, seed=seed, place=place))
            sizes.append(len(chosen))
            bar.advance(note=annotator.name)
    return MachineCrowd(tuple(annotators), tuple(sizes), known, mean, deviation, tuple(predictors))


def normalised(features: NDArray[Any], mean: float, deviation: float) -> NDArray[np.float32]:
    """Centred and scaled, as float32; images get their channel axis in front."""
    values = (features.astype(np.float32) - np.float32(mean)) / np.float32(deviation)
    if values.ndim == 3:
        return values[:, None]
    return np.moveaxis(values, -1, 1) if values.ndim == 4 else values


def training_items(annotator: MachineAnnotator, n_pool: int, seed: Any, place: int) -> NDArray[np.int64]:
    """Which items of the pool an annotator is trained on; a stream of its own, so that no other changes it."""
    random = stream(seed, "machine training items", place)
    size = int(random.choice(SMALL_SIZES))
    if annotator.n_train is not None:
        size = annotator.n_train
    if annotator.expert:
        size = min(EXPERT_SIZE, n_pool)
    if size > n_pool:
        raise InvalidParameterError(
            f"Annotator {place} ({annotator.name}) is trained on {size} items, but the pool has only {n_pool}. "
            "Set more items aside for the annotators."
        )
    return random.choice(n_pool, size=size, replace=False)


def _train(
    annotator: MachineAnnotator,
    features: NDArray[np.float32],
    labels: NDArray[np.int64],
    *,
    n_classes: int,
    seed: Any,
    place: int,
) -> Predictor:
    if annotator.kind == "svm":
        return train_svm(flat(features), labels, kernel=str(annotator.setting))
    if annotator.kind == "knn":
        return train_neighbours(features, labels, int(annotator.setting))
    if annotator.kind not in ("logistic", "fcnn", "cnn"):
        raise InvalidParameterError(
            f"There is no machine annotator of kind {annotator.kind!r}; there are svm, knn, logistic, fcnn, cnn."
        )
    if annotator.kind == "cnn" and (features.ndim != 4 or min(features.shape[2:]) < SMALLEST_IMAGE):
        raise InvalidParameterError(
            f"A CNN annotator needs images of at least {SMALLEST_IMAGE} x {SMALLEST_IMAGE} pixels, "
            f"(n_items, height, width[, channels]), but items have shape {features.shape[1:]}. "
            "Choose annotators without cnn."
        )
    return train_network(
        annotator.kind,
        features,
        labels,
        n_classes=n_classes,
        epochs=int(annotator.setting),
        until_expert=annotator.expert,
        seed=seed,
        index=place,
    )


def flat(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """One row of numbers per item."""
    return features.reshape(len(features), -1)


def train_neighbours(features: NDArray[np.float32], labels: NDArray[np.int64], n_neighbours: int) -> Predictor:
    """The most common class among the nearest training items."""
    from sklearn.neighbors import KNeighborsClassifier

    if not 1 <= n_neighbours <= len(labels):
        raise InvalidParameterError(
            f"The number of neighbours must lie between 1 and the {len(labels)} training items, not {n_neighbours}."
        )
    model = KNeighborsClassifier(n_neighbours, algorithm="brute").fit(flat(features), labels)
    return lambda items: np.asarray(model.predict(flat(items)), dtype=np.int64)


@dataclass(frozen=True)
class MachineAnnotations:
    """What `machine_annotations` made.

    Attributes
    ----------
    annotations
        Labels of the chosen items, named by their position in the data, with gold.
    items
        (n_items,) positions of the labelled items in the data; none of them trained an annotator.
    report
        Accuracies of the annotators beside the published range.
    """

    annotations: Annotations
    items: NDArray[np.int64]
    crowd: MachineCrowd
    report: AccuracyReport


def machine_annotations(
    features: Any,
    true_classes: Any,
    *,
    n_items: int,
    n_annotators: int,
    case: Case,
    probability: float = OBSERVED_SHARE,
    pool_size: int = POOL_SIZE,
    lr_label_bug: bool = False,
    seed: int = 0,
    crowd_seed: int | None = None,
    n_classes: int | None = None,
    published_for: str = "mnist",
) -> MachineAnnotations:
    """Set items aside, train machine annotators on them, and let these label other items, each pair by chance.

    Parameters
    ----------
    features, true_classes
        All items, such as the training images of MNIST.
    n_items
        How many items get labelled, drawn from those not set aside.
    case
        1 with experts, 2 without; see `machine_list`.
    probability
        Chance of each (item, annotator) pair to be observed.
    pool_size
        How many items are set aside to train annotators on.
    crowd_seed
        Seed of pool and annotators, by default `seed`; fix it to keep one crowd over several trials, as the
        reference code does.

    Examples
    --------
    >>> from crowdprism import load_dataset
    >>> digits = load_dataset("digits")
    >>> made = machine_annotations(
    ...     digits.images, digits.gold, n_items=500, n_annotators=3, case=2, pool_size=800, probability=0.5
    ... )
    >>> made.annotations.n_items, made.annotations.n_annotators
    (500, 3)
    """
    values, truth = np.asarray(features), np.asarray(true_classes)
    known = n_classes or int(truth.max()) + 1
    if pool_size + n_items > len(values):
        raise InvalidParameterError(
            f"{pool_size} items for the annotators and {n_items} to label are more than the {len(values)} there are."
        )
    of_crowd = seed if crowd_seed is None else crowd_seed
    order = stream(of_crowd, "machine pool").permutation(len(values))
    pool, others = order[:pool_size], order[pool_size:]
    chosen = np.sort(stream(seed, "machine items").choice(others, size=n_items, replace=False))
    listed = machine_list(n_annotators, case=case, seed=of_crowd)
    crowd = machine_crowd(values[pool], truth[pool], listed, n_classes=known, lr_label_bug=lr_label_bug, seed=of_crowd)
    pairs = each_with_probability(n_items, n_annotators, probability=probability, seed=seed)
    annotations = crowd.annotate(values[chosen], truth[chosen], pairs)
    measured = chosen[:: max(1, n_items // N_ITEMS_FOR_ACCURACY)][:N_ITEMS_FOR_ACCURACY]
    report = AccuracyReport(
        tuple(crowd.names),
        crowd.accuracies(values[measured], truth[measured]),
        PUBLISHED_ACCURACIES.get((published_for, case, n_annotators)),
    )
    return MachineAnnotations(annotations, chosen, crowd, report)
