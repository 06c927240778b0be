"""Machine annotators: classifiers trained on a few items each, which then label items they have not seen.

Follows the experiments on MNIST and Fashion-MNIST of Ibrahim, Nguyen and Fu (ICLR 2023). Torch and scikit-learn
are imported when an annotator is trained.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.progress import progress
from crowdprism.seeding import stream
from crowdprism.simulate.labelling import Pairs, annotations_of_labels, check_true_classes, each_with_probability
from crowdprism.simulate.machine_networks import (
    EXPERT_SIZE,
    KERNELS,
    SMALL_SIZES,
    MachineAnnotator,
    MachineKind,
    Predictor,
    train_annotator,
)

Case = Literal[1, 2]
EXPERT_PROBABILITY = 0.1
POOL_SIZE = 10_000
OBSERVED_SHARE = 0.1
N_ITEMS_FOR_ACCURACY = 2000  # a standard error of at most 1.1 points

ROW_OF_FIVE: tuple[tuple[MachineKind, tuple[str | int, ...]], ...] = (  # settings change from row to row
    ("svm", KERNELS),
    ("cnn", (5, 10, 15, 20)),
    ("knn", (3, 5, 7, 10)),
    ("fcnn", (10, 15, 20, 25)),
    ("logistic", (10,)),
)
# With the number of training items, which the reference code has by place in the list
FIVE_WITHOUT_EXPERTS: tuple[tuple[MachineKind, str | int, int], ...] = (
    *(("svm", "linear", 400), ("logistic", 10, 200), ("knn", 5, 400), ("cnn", 5, 400), ("fcnn", 10, 300)),
)
# The reference's experts are a linear SVM and 5 neighbours. A third, the linear SVM of the fourth row, is ours, so that
# 20 annotators include the three above 90 % that the paper reports.
EXPERT_PLACES = {0, 7, 15}
# Accuracies in Ibrahim, Nguyen and Fu (ICLR 2023), by data set, case and number of annotators
PUBLISHED_ACCURACIES = {
    ("mnist", 1, 15): "3.15 to 95.27 %, 2 above 90 %",
    ("mnist", 1, 20): "3.24 to 95.73 %, 3 above 90 %",
    ("mnist", 2, 5): "15.88 to 82.23 %, 2 below 50 %",
}


def machine_list(
    n_annotators: int, *, case: Case, experts: Literal["listed", "drawn"] = "listed", seed: Any = 0
) -> list[MachineAnnotator]:
    """The annotators of the published experiments on MNIST and Fashion-MNIST, by case and number.

    Rows of five (SVM, CNN, neighbours, hidden layer, logistic regression) with settings that change from row to
    row, as in the reference code for 15 and 20 annotators; further rows continue in the same way. Case 2 with up to
    five annotators has its own list.

    Parameters
    ----------
    case
        1 with experts, 2 without.
    experts
        For case 1: at fixed places as in the reference code (`"listed"`), or each annotator with probability 0.1 as in
        the paper's text (`"drawn"`).

    Examples
    --------
    >>> [annotator.name for annotator in machine_list(5, case=2)]
    ['svm-linear', 'logistic-10', 'knn-5', 'cnn-5', 'fcnn-10']
    >>> [place for place, one in enumerate(machine_list(15, case=1)) if one.expert]
    [0, 7]
    """
    if n_annotators < 1:
        raise InvalidParameterError(f"There must be at least one annotator, not {n_annotators}.")
    if case not in (1, 2):
        raise InvalidParameterError(f"case must be 1 (with experts) or 2 (without), not {case!r}.")
    if experts not in ("listed", "drawn"):
        raise InvalidParameterError(f'experts must be "listed" or "drawn", not {experts!r}.')
    if case == 2 and n_annotators <= len(FIVE_WITHOUT_EXPERTS):
        return [MachineAnnotator(*one) for one in FIVE_WITHOUT_EXPERTS[:n_annotators]]
    listed = []
    for place in range(n_annotators):
        row, column = divmod(place, len(ROW_OF_FIVE))
        kind, settings = ROW_OF_FIVE[column]
        n_train = SMALL_SIZES[row % len(SMALL_SIZES)] if kind == "logistic" else None
        listed.append(MachineAnnotator(kind, settings[row % len(settings)], n_train=n_train))
    if case == 2:
        return listed
    drawn = stream(seed, "machine experts").random(n_annotators) < EXPERT_PROBABILITY
    chosen = EXPERT_PLACES if experts == "listed" else set(np.flatnonzero(drawn).tolist())
    return [replace(one, expert=True, n_train=None) if place in chosen else one for place, one in enumerate(listed)]


@dataclass(frozen=True)
class AccuracyReport:
    """Accuracies of machine annotators (between 0 and 1) beside the published range; `str()` gives a table."""

    names: tuple[str, ...]
    accuracies: NDArray[np.float64]
    published: str | None = None

    def __str__(self) -> str:
        percent = 100 * self.accuracies
        lines = [f"{name:>20} {value:6.2f} %" for name, value in zip(self.names, percent, strict=True)]
        counts = f"{(percent > 90).sum()} above 90 %, {(percent < 50).sum()} below 50 %"
        measured = f"measured {percent.min():.2f} to {percent.max():.2f} %, {counts}"
        published = [] if self.published is None else [f"published {self.published}"]
        return "\n".join([*lines, measured, *published])


@dataclass(frozen=True)
class MachineCrowd:
    """Trained annotators; build one with `machine_crowd`."""

    annotators: tuple[MachineAnnotator, ...]
    n_train: tuple[int, ...]  # items that each was trained on
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
        truth = check_true_classes(true_classes, self.n_classes)
        values, (item, annotator) = np.asarray(features), pairs
        label = np.empty(len(item), dtype=np.int64)
        for place in np.unique(annotator):
            rows = np.flatnonzero(annotator == place)
            label[rows] = self.predict(values[item[rows]], place)
        names: dict[str, Any] = {"classes": classes, "annotators": self.names}
        return annotations_of_labels(truth, label, pairs, n_classes=self.n_classes, **names)

    def accuracies(self, features: Any, true_classes: Any) -> NDArray[np.float64]:
        """(n_annotators,) share of these items that each annotator labels correctly."""
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
        The pool: (n_items, n_features), or images (n_items, height, width[, channels]), which a CNN needs. They are
        normalised by one mean and standard deviation, as is usual for MNIST.
    lr_label_bug
        Repeat a mistake of the reference code, which takes the features of logistic regression's sub-sample but
        the labels of the pool's first items; it explains published accuracies near 3 %.

    Examples
    --------
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
            drawn = int(stream(0, "machine training size", place).choice(SMALL_SIZES))
            size = min(EXPERT_SIZE, len(pool)) if annotator.expert else annotator.n_train or drawn
            if size > len(pool):
                raise InvalidParameterError(
                    f"Annotator {place} ({annotator.name}) is trained on {size} items, but the pool has only "
                    f"{len(pool)}. Set more items aside for the annotators."
                )
            chosen = stream(seed, "machine training items", place).choice(len(pool), size=size, replace=False)
            labels = truth[: len(chosen)] if lr_label_bug and annotator.kind == "logistic" else truth[chosen]
            predictors.append(train_annotator(annotator, pool[chosen], labels, n_classes=known, seed=seed, place=place))
            sizes.append(len(chosen))
            bar.advance(note=annotator.name)
    return MachineCrowd(tuple(annotators), tuple(sizes), known, mean, deviation, tuple(predictors))


def normalised(features: NDArray[Any], mean: float, deviation: float) -> NDArray[np.float32]:
    """Float32; images become (n_items, channels, height, width)."""
    values = (features.astype(np.float32) - np.float32(mean)) / np.float32(deviation)
    if values.ndim == 3:
        return values[:, None]
    return np.moveaxis(values, -1, 1) if values.ndim == 4 else values


@dataclass(frozen=True)
class MachineAnnotations:
    """Result of `machine_annotations`: labels with gold, in the order of `items`."""

    annotations: Annotations
    items: NDArray[np.int64]  # (n_items,) positions in the data; none of these items trained an annotator
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
    """Train machine annotators on some items and let them label others, each pair with a given probability.

    Parameters
    ----------
    n_items, pool_size
        Number of items to label, and of other items that train the annotators.
    case
        1 with experts, 2 without; see `machine_list`.
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
    pool, others = np.split(stream(of_crowd, "machine pool").permutation(len(values)), [pool_size])
    chosen = np.sort(stream(seed, "machine items").choice(others, size=n_items, replace=False))
    listed = machine_list(n_annotators, case=case, seed=of_crowd)
    crowd = machine_crowd(values[pool], truth[pool], listed, n_classes=known, lr_label_bug=lr_label_bug, seed=of_crowd)
    pairs = each_with_probability(n_items, n_annotators, probability=probability, seed=seed)
    annotations = crowd.annotate(values[chosen], truth[chosen], pairs)
    measured = chosen[:: max(1, n_items // N_ITEMS_FOR_ACCURACY)][:N_ITEMS_FOR_ACCURACY]
    accuracies = crowd.accuracies(values[measured], truth[measured])
    published = PUBLISHED_ACCURACIES.get((published_for, case, n_annotators))
    return MachineAnnotations(annotations, chosen, crowd, AccuracyReport(tuple(crowd.names), accuracies, published))
