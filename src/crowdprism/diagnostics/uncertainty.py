"""Intervals for confusions and accuracies, given class probabilities of the items.

Draws from the posterior of all confusions by data augmentation (Gibbs sampling): true classes given confusions,
confusions given true classes. Confusion rows scatter around a matrix with one accuracy per annotator; that accuracy
and how far rows scatter in this crowd are drawn too, so that annotators with few labels borrow neither too much nor
too little. It treats the class probabilities from features as known; where they come from a network that
was fitted to the same annotations, soften them first (`calibration.fit_temperature`) or predict them out of sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.diagnostics.label_evidence import FLOOR, FloatArray, counts_of, require_confusions, require_same_names
from crowdprism.errors import InvalidParameterError, UnsuitableDataError, some
from crowdprism.progress import progress
from crowdprism.results import FitResult
from crowdprism.seeding import stream

N_DRAWS = 400
N_WARM_UP = 60
MIN_LABELS = 5  # fewer labels leave intervals that span nearly everything
N_FIRST_STEPS = 10  # of expectation and maximisation, to start near the answer
ACCURACIES = np.linspace(0.0125, 0.9875, 40)
STRENGTHS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])  # pseudo-labels per row
CENTRE_EVERY = 4  # sweeps between draws of accuracies and strength, which take the longest


@dataclass(frozen=True)
class Intervals:
    """Credible intervals; NaN for annotators with too few annotations.

    Attributes
    ----------
    confusion_low, confusion_high
        (n_annotators, true class, given label)
    accuracy, accuracy_low, accuracy_high
        (n_annotators,) posterior mean and interval of the probability that a label is right.
    enough
        (n_annotators,) whether the annotator has enough annotations for an interval.
    level
        Probability that an interval holds the true value.
    remarks
        What was left out, and why.
    """

    confusion_low: FloatArray
    confusion_high: FloatArray
    accuracy: FloatArray
    accuracy_low: FloatArray
    accuracy_high: FloatArray
    enough: NDArray[np.bool_]
    level: float
    remarks: tuple[str, ...] = ()


def annotator_intervals(
    annotations: Annotations,
    class_probabilities: Any,
    *,
    class_prior: Any = None,
    level: float = 0.95,
    n_draws: int = N_DRAWS,
    min_labels: int = MIN_LABELS,
    start: Any = None,
    seed: int = 0,
) -> Intervals:
    """Credible intervals for every annotator's confusion matrix and accuracy.

    Parameters
    ----------
    class_probabilities
        (n_items, n_classes) from features alone, such as `model.predict_proba(X)`, or the class prior in every row.
        Not the posterior given the annotations, which would count them twice; `result_intervals` takes that.
    class_prior
        (n_classes,) weights of the classes in the accuracy; by default the mean of `class_probabilities`.
    min_labels
        Annotators with fewer annotations get no interval.
    start
        (n_annotators, true class, given label) confusions to begin from. Needed where the class probabilities do not
        tell the classes apart, such as a bare prior: the classes could come out in any order.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0]] * 30 + [[1, 1]] * 30)
    >>> found = annotator_intervals(a, np.repeat(np.eye(2), 30, axis=0))
    >>> bool(found.accuracy_low[0] > 0.9), bool(found.accuracy_high[0] <= 1)
    (True, True)
    """
    shares = np.asarray(class_probabilities, dtype=float)
    if shares.shape != (annotations.n_items, annotations.n_classes):
        raise InvalidParameterError(
            f"class_probabilities must be ({annotations.n_items}, {annotations.n_classes}), not {shares.shape}."
        )
    if not 0 < level < 1:
        raise InvalidParameterError(f"The level must lie between 0 and 1, not {level}.")
    counts = annotations.labels_per_annotator
    enough = counts >= min_labels
    if not enough.any():
        raise UnsuitableDataError(
            f"No annotator has {min_labels} annotations (the most is {counts.max(initial=0)}); intervals would span "
            "nearly everything. Collect more annotations per annotator, or lower min_labels."
        )
    prior = shares.mean(axis=0) if class_prior is None else np.asarray(class_prior, dtype=float)
    drawn = draw_confusions(annotations, shares, start=start, n_draws=n_draws, seed=seed)
    return summarize(drawn, prior, enough, counts, level=level, min_labels=min_labels, names=annotations.annotators)


def result_intervals(result: FitResult, annotations: Annotations, **options: Any) -> Intervals:
    """As `annotator_intervals`, for a result whose class probabilities already contain the annotations.

    All annotations are divided out of the class probabilities first, which leaves what features or prior say.
    """
    require_same_names(result, annotations)
    confusions = np.maximum(require_confusions(result, "An interval"), FLOOR)
    log = np.log(np.maximum(np.asarray(result.class_probabilities, dtype=float), FLOOR))
    log -= item_sums(annotations, np.log(confusions)[annotations.annotator, :, annotations.label])
    log -= log.max(axis=1, keepdims=True)
    shares = np.exp(log)
    options.setdefault("class_prior", result.class_prior)
    options.setdefault("start", result.confusions)
    return annotator_intervals(annotations, shares / shares.sum(axis=1, keepdims=True), **options)


def item_sums(annotations: Annotations, values: FloatArray) -> FloatArray:
    """Sums over each item's annotations: (n_annotations, n_classes) -> (n_items, n_classes)."""
    columns = [np.bincount(annotations.item, column, annotations.n_items) for column in values.T]
    return np.stack(columns, axis=1)


def draw_confusions(
    annotations: Annotations, shares: FloatArray, *, start: Any = None, n_draws: int, seed: int
) -> FloatArray:
    """Draws from the posterior of the confusions: (n_draws, n_annotators, true class, given label)."""
    random = stream(seed, "intervals")
    log_shares = np.log(np.maximum(shares, FLOOR))
    confusions = first_confusions(annotations, log_shares) if start is None else np.asarray(start, dtype=float)
    accuracy, strength = np.full(len(confusions), 0.5), 4.0
    drawn = np.empty((n_draws, *confusions.shape), dtype=np.float32)
    with progress("intervals", total=N_WARM_UP + n_draws) as bar:
        for step in range(-N_WARM_UP, n_draws):
            truth = draw_classes(annotations, log_shares, confusions, random)
            counts = hard_counts(annotations, truth)
            if step % CENTRE_EVERY == 0:
                accuracy, strength = draw_centre(counts, strength, random)
            rows = random.standard_gamma(counts + strength * coin_matrices(accuracy, counts.shape[1])) + FLOOR
            confusions = rows / rows.sum(axis=2, keepdims=True)
            if step >= 0:
                drawn[step] = confusions
            bar.advance()
    return drawn


def first_confusions(annotations: Annotations, log_shares: FloatArray) -> FloatArray:
    """Some steps of expectation and maximisation with the class probabilities held fixed."""
    shares = np.exp(log_shares)
    for _ in range(N_FIRST_STEPS):
        counts = counts_of(annotations, shares[annotations.item]) + 1 / shares.shape[1]
        confusions = counts / counts.sum(axis=2, keepdims=True)
        log = log_shares + item_sums(annotations, np.log(confusions)[annotations.annotator, :, annotations.label])
        shares = np.exp(log - log.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(confusions)


def coin_matrices(accuracy: FloatArray, n_classes: int) -> FloatArray:
    """Matrices with one accuracy each and even errors: (n_annotators, true class, given label)."""
    wrong = ((1 - accuracy) / (n_classes - 1))[:, None, None]
    return np.where(np.eye(n_classes, dtype=bool), accuracy[:, None, None], wrong)


def centre_likelihood(counts: FloatArray, accuracy: FloatArray, strength: float) -> FloatArray:
    """Log probability of each annotator's counts, rows scattering around one accuracy: (n_annotators,)."""
    from scipy.special import gammaln

    centre = strength * coin_matrices(accuracy, counts.shape[1])
    cells = gammaln(counts + centre) - gammaln(centre)
    rows = gammaln(strength) - gammaln(counts.sum(axis=2) + strength)
    return np.asarray(cells.sum(axis=(1, 2)) + rows.sum(axis=1))


def draw_centre(counts: FloatArray, strength: float, random: np.random.Generator) -> tuple[FloatArray, float]:
    """Each annotator's accuracy, and the crowd's common strength, given counts; confusions are summed out."""
    people = len(counts)
    log = np.stack([centre_likelihood(counts, np.full(people, value), strength) for value in ACCURACIES], axis=1)
    accuracy = ACCURACIES[(log + random.gumbel(size=log.shape)).argmax(axis=1)]
    # Steps of the grid are too coarse for annotators with many labels.
    accuracy = accuracy + random.uniform(-0.5, 0.5, people) * (ACCURACIES[1] - ACCURACIES[0])
    total = np.array([centre_likelihood(counts, accuracy, value).sum() for value in STRENGTHS])
    return accuracy, float(STRENGTHS[(total + random.gumbel(size=len(total))).argmax()])


def draw_classes(
    annotations: Annotations, log_shares: FloatArray, confusions: FloatArray, random: np.random.Generator
) -> NDArray[np.int64]:
    """A true class for each item, given everything else."""
    seen = np.log(np.maximum(confusions, FLOOR))[annotations.annotator, :, annotations.label]
    log = log_shares + item_sums(annotations, seen)
    return np.asarray((log + random.gumbel(size=log.shape)).argmax(axis=1))


def hard_counts(annotations: Annotations, truth: NDArray[np.int64]) -> FloatArray:
    """Counts (annotator, true class, given label) for known true classes."""
    n_annotators, n_classes = annotations.n_annotators, annotations.n_classes
    cell = (annotations.annotator.astype(np.int64) * n_classes + truth[annotations.item]) * n_classes
    counts = np.bincount(cell + annotations.label, minlength=n_annotators * n_classes**2)
    return counts.reshape(n_annotators, n_classes, n_classes).astype(np.float64)


def summarize(
    drawn: FloatArray,
    prior: FloatArray,
    enough: NDArray[np.bool_],
    counts: NDArray[np.int64],
    *,
    level: float,
    min_labels: int,
    names: Any,
) -> Intervals:
    """Quantiles of the draws."""
    tail = (1 - level) / 2
    accuracy = np.einsum("dmkk,k->dm", drawn, prior / prior.sum())
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    accuracy_low, accuracy_high = np.quantile(accuracy, [tail, 1 - tail], axis=0)
    few = np.flatnonzero(~enough)
    remarks: tuple[str, ...] = ()
    if len(few):
        remarks = (
            f"{len(few)} of {len(enough)} annotators have fewer than {min_labels} annotations and get no interval: "
            f"{some(names[few].tolist())}.",
        )
    blank = np.where(enough, 1.0, np.nan)
    return Intervals(
        confusion_low=low * blank[:, None, None],
        confusion_high=high * blank[:, None, None],
        accuracy=accuracy.mean(axis=0),
        accuracy_low=accuracy_low * blank,
        accuracy_high=accuracy_high * blank,
        enough=enough,
        level=level,
        remarks=remarks,
    )
