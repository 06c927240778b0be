"""Which groups of annotators who agree too much are one voice: those that make the labels of a sample more likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.one_voice import Group, merge
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import response_matrix
from crowdprism.results.confusion import normalize_rows

MAX_GROUPS = 4  # that are tried in all combinations
LEAST_FIDELITY = 0.95  # less faithful members may be experts: five who are right in 94 % also agree much
LEAST_GAIN, GAIN_PER_ITEM = 10.0, 0.005  # of log likelihood: the larger of both is needed
LEAST_DIFFERENCE = 5.0  # combinations that differ by less, or by the gain per item, are told apart by tightness
LEAST_BEYOND, LEAST_Z = 0.08, 4.0  # agreement of the others beyond the voice, and in standard errors
LABELS_PER_PARAMETER = 10.0  # annotators with few labels hardly overfit
PRIOR_STRENGTH = 4.0  # pseudo-annotations per confusion row
MAX_ITER, TOLERANCE = 60, 1e-5
SMALLEST = 1e-30


@dataclass(frozen=True, eq=False)
class Found:
    """Groups that are one voice, and groups that depend on each other less closely; codes of annotators."""

    voices: tuple[Group, ...] = ()
    looser: tuple[Group, ...] = ()


@dataclass(frozen=True, eq=False)
class SampleFit:
    """Dawid-Skene on a sample: log likelihood, confusions, and log joint probability (n_items, true class)."""

    log_likelihood: float
    confusions: FloatArray  # (n_annotators, true class, given label)
    log_joint: FloatArray


@dataclass(frozen=True, eq=False)
class TightGroup:
    """Annotators connected by pairs with excess agreement, and the mean excess of these pairs."""

    members: Group
    tightness: float


def fit_confusions(annotations: Annotations) -> SampleFit:
    """Fit Dawid-Skene with the crowd's common confusions as prior; gold is not used."""
    n_classes, n_annotators = annotations.n_classes, annotations.n_annotators
    responses = response_matrix(annotations)
    posterior = normalize_rows(responses @ np.tile(np.eye(n_classes), (n_annotators, 1)))
    prior, reached = None, -np.inf
    for _ in range(MAX_ITER):
        counts = (responses.T @ posterior).reshape(n_annotators, n_classes, n_classes).swapaxes(1, 2)
        if prior is None:
            prior = PRIOR_STRENGTH * normalize_rows(counts.sum(axis=0))
        confusions = normalize_rows(counts + prior)
        shares = normalize_rows(posterior.sum(axis=0) + 1.0)
        table = np.log(np.maximum(confusions, SMALLEST)).swapaxes(1, 2).reshape(-1, n_classes)
        log_joint = responses @ table + np.log(shares)
        highest = log_joint.max(axis=1, keepdims=True)
        log_likelihood = float((highest[:, 0] + np.log(np.exp(log_joint - highest).sum(axis=1))).sum())
        if log_likelihood - reached < TOLERANCE * annotations.n_annotations:
            break
        posterior, reached = normalized(log_joint), log_likelihood
    return SampleFit(log_likelihood, confusions, log_joint)


def n_right(annotations: Annotations, fit: SampleFit) -> int:
    """How many items with gold the fit labels correctly; 0 without gold."""
    if annotations.gold is None:
        return 0
    known = ~np.ma.getmaskarray(annotations.gold)
    return int((fit.log_joint.argmax(axis=1) == annotations.gold.data)[known].sum())


def normalized(log_weights: FloatArray) -> FloatArray:
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def connected_groups(pairs: Any, excess: FloatArray, n_annotators: int) -> list[TightGroup]:
    """Groups that pairs (`first`, `second`) of annotators connect, the largest first, at most `MAX_GROUPS`."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    links = csr_array((np.ones(len(pairs.first)), (pairs.first, pairs.second)), shape=(n_annotators, n_annotators))
    _, group = connected_components(links, directed=False)
    size = np.bincount(group)
    largest = np.argsort(-size, kind="stable")[:MAX_GROUPS]
    return [
        TightGroup(np.flatnonzero(group == number), float(excess[group[pairs.first] == number].mean()))
        for number in largest[size[largest] > 1]
    ]


@dataclass(frozen=True, eq=False)
class Candidate:
    """Some groups taken as voices: penalised gain of log likelihood, and how faithful members of each are."""

    groups: tuple[TightGroup, ...]
    gain: float
    fidelities: FloatArray


def choose(annotations: Annotations, groups: Sequence[TightGroup]) -> Found:
    """Of all combinations of groups, the one to count once: a clear gain, then the tightest of almost equal ones."""
    independent = fit_confusions(annotations)
    sizes = range(1, len(groups) + 1)
    tried = [try_groups(annotations, some, independent) for size in sizes for some in combinations(groups, size)]
    by_size = GAIN_PER_ITEM * annotations.n_items
    best = max(one.gain for one in tried)
    if best < max(LEAST_GAIN, by_size):
        return Found()
    close = [one for one in tried if one.gain > max(best - max(LEAST_DIFFERENCE, by_size), 0.0)]
    chosen = max(close, key=lambda one: min(group.tightness for group in one.groups))
    faithful = list(zip(chosen.groups, chosen.fidelities >= LEAST_FIDELITY, strict=True))
    return Found(*(tuple(group.members for group, voice in faithful if voice == wanted) for wanted in (True, False)))


def try_groups(annotations: Annotations, groups: tuple[TightGroup, ...], independent: SampleFit) -> Candidate:
    """How much likelier labels are if these groups are voices, less what the freedom of that model explains.

    A voice has K(K-1) parameters of its own, and once a group no longer decides the classes, the confusions of
    everybody else on its items adapt to noise as well. The gain is minus infinity where the voice seems right: the
    others do not agree beyond it, or fewer items with gold are labelled correctly.
    """
    members = [group.members for group in groups]
    merged = merge(annotations, members)
    n_parameters = annotations.n_classes * (annotations.n_classes - 1) / 2
    theirs = np.isin(annotations.annotator, np.concatenate(members))
    on_item = np.bincount(annotations.item[theirs], minlength=annotations.n_items) > 0
    others = annotations.annotator[on_item[annotations.item] & ~theirs]
    n_labels = np.bincount(others, minlength=annotations.n_annotators)
    penalty = n_parameters * np.log(max(annotations.n_items, 2)) * len(groups)
    penalty += float(np.minimum(n_parameters, n_labels / LABELS_PER_PARAMETER).sum())
    fit = fit_confusions(merged.annotations)
    gain = fit.log_likelihood + merged.log_likelihood - independent.log_likelihood - penalty
    rest = annotations.select(~theirs)
    beyond = [agreement_beyond(rest, answers_of(merged.annotations, int(group[0]))) for group in members]
    doubted = all(share >= LEAST_BEYOND and z >= LEAST_Z for share, z in beyond)
    if not doubted or n_right(annotations, fit) < n_right(annotations, independent):
        gain = -np.inf
    return Candidate(groups, gain, merged.fidelities)


def answers_of(annotations: Annotations, annotator: int) -> NDArray[np.int64]:
    """(n_items,) the annotator's label, -1 where there is none; the first of several."""
    answers = np.full(annotations.n_items, -1)
    own = np.flatnonzero(annotations.annotator == annotator)[::-1]
    answers[annotations.item[own]] = annotations.label[own]
    return answers


def agreement_beyond(annotations: Annotations, answers: NDArray[np.int64]) -> tuple[float, float]:
    """How far annotators agree with each other on items to which a voice gives the same answer.

    Returns the share of expected disagreement that is missing, and the same in standard errors. If the voice is right,
    labels are independent given its answer, and both are near 0: guessers beside experts. If the voice is often wrong,
    those who know better agree beyond its answers. Residuals of labels (1 for the label given, less the annotator's
    shares of labels where the voice gives that answer) are multiplied over pairs of annotators.
    """
    n_items, n_classes = annotations.n_items, annotations.n_classes
    rows = np.flatnonzero(answers[annotations.item] >= 0)
    item, label = annotations.item[rows], annotations.label[rows]
    cell = annotations.annotator[rows].astype(np.int64) * n_classes + answers[item]
    shape = annotations.n_annotators * n_classes, n_classes
    counts = np.bincount(cell * n_classes + label, minlength=shape[0] * n_classes).reshape(shape)
    expected = normalize_rows(counts.astype(np.float64))[cell]
    beyond = pair_products(np.eye(n_classes)[label] - expected, item, n_items)
    n_labels = np.bincount(item, minlength=n_items)
    disagreement = float((n_labels * (n_labels - 1) - pair_products(expected, item, n_items)).sum())
    total, error = float(beyond.sum()), float(np.sqrt((beyond**2).sum()))
    return total / max(disagreement, SMALLEST), total / max(error, SMALLEST)


def pair_products(vectors: FloatArray, item: NDArray[Any], n_items: int) -> FloatArray:
    """(n_items,) sum of the inner products of all ordered pairs of an item's vectors (n, n_classes)."""
    sums = np.stack([np.bincount(item, column, n_items) for column in vectors.T], axis=1)
    return np.asarray((sums**2).sum(axis=1) - np.bincount(item, (vectors**2).sum(axis=1), n_items))
