"""Our steps under crowd-kit's rules, to tell what sets the two apart; used by truth_inference.py, not by the library.

Where a method of crowd-kit differs from ours by a rule (or a mistake) rather than by its algorithm, the functions here
take that rule into our own steps. If the accuracies then agree, the rule is the whole difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdprism.aggregators import mace, mmsr
from crowdprism.aggregators.dawid_skene import ConfusionModel
from crowdprism.aggregators.expectation import ConfusionPass, VotePass
from crowdprism.aggregators.glad import GladEvidence, GladModel
from crowdprism.aggregators.majority_vote import vote_totals
from crowdprism.aggregators.sources import Cells, cells_of
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import co_label_entries

SMALLEST_COUNT = 1e-10  # crowd-kit raises counts and class shares to this


@dataclass(frozen=True)
class Appearance:
    """Place of each annotator and of each class in the order in which the rows first name them."""

    annotator: np.ndarray  # (n_annotators,)
    label: np.ndarray  # (n_classes,)


def dawid_skene(annotations: Annotations, *, iterations: int) -> np.ndarray:
    """Dawid-Skene with small counts raised: a confusion row without counts is then even over the labels the annotator
    used, where ours is even over all classes."""
    evidence = ConfusionPass(annotations)
    cells = evidence.cells
    expectation = evidence.count_votes()
    for _ in range(iterations):
        counts = np.where(cells.total[:, None] > 0, np.maximum(expectation.counts, SMALLEST_COUNT), 0.0)
        likelihood = counts / cells.by_cell(cells.sum_by_annotator(counts))
        prior = np.maximum(expectation.class_totals / expectation.class_totals.sum(), SMALLEST_COUNT)
        expectation = evidence.expect(ConfusionModel(likelihood, prior))
    return expectation.kept


# -- MACE ---------------------------------------------------------------------------------------------------


def mace_start(cells: Cells, seen: Appearance, seed: int) -> mace.MaceModel:
    """crowd-kit's random start: two draws from one seed, laid out in the order of appearance."""
    knows = draws(seed, (cells.n_annotators, 2))[seen.annotator]
    habit = draws(seed, (cells.n_annotators, cells.n_classes))[seen.annotator][:, seen.label]
    habit_of_cell = habit[cells.annotator_of, cells.label_of]
    return mace.MaceModel(cells, np.zeros(cells.n_cells), knows[:, 1], knows[:, 0], habit_of_cell)


def draws(seed: int, shape: tuple[int, int]) -> np.ndarray:
    """Uniform between 1 and 2.5, rows divided by their sums."""
    numbers = 1.0 + 1.5 * np.random.RandomState(seed).uniform(size=shape)
    return numbers / numbers.sum(axis=1, keepdims=True)


def mixed(model: mace.MaceModel, known: np.ndarray, cells: Cells, priors: Any, seen: Appearance) -> mace.MaceModel:
    """Give each annotator the habit of the one whose name stands, sorted, where theirs stands by appearance; the same
    for labels. crowd-kit sorts the habits by name and reads them by appearance."""
    from scipy.special import digamma

    counts = np.full((cells.n_annotators, cells.n_classes), priors.habit)
    counts[cells.annotator_of, cells.label_of] += np.maximum(cells.total - known, 0.0)
    habits = np.exp(digamma(counts) - digamma(counts.sum(axis=1, keepdims=True)))
    read = habits[seen.annotator][:, seen.label]
    return replace(model, habit=read[cells.annotator_of, cells.label_of])


def mace_probabilities(
    annotations: Annotations, seen: Appearance, *, seed: int = 0, iterations: int = 50, mix: bool = True
) -> np.ndarray:
    """MACE from crowd-kit's start, with its habits mixed up or not."""
    cells = cells_of(annotations)
    evidence = VotePass(annotations, by_cell=True)
    priors = mace.MacePriors(0.5, 0.5, 10.0)
    model = mace_start(cells, seen, seed)
    for _ in range(iterations):
        known = model.known_of(evidence.expect(model, keep=False).counts)
        model = mace.maximize_variational(known, cells, priors)
        if mix:
            model = mixed(model, known, cells, priors, seen)
    return evidence.expect(model).kept


# -- MMSR ---------------------------------------------------------------------------------------------------


def agreements(annotations: Annotations) -> np.ndarray:
    """(n_annotators, n_annotators) chance-corrected agreement; NaN where a pair shares no item."""
    entries = co_label_entries(annotations)
    table = np.full((annotations.n_annotators,) * 2, np.nan)
    values = (annotations.n_classes * entries.agreeing() / entries.common() - 1) / (annotations.n_classes - 1)
    table[entries.first, entries.second] = values
    table[entries.second, entries.first] = values
    return table


def largest_ratios(
    table: np.ndarray, n_items: int, start: np.ndarray, *, iterations: int, tolerance: float
) -> np.ndarray:
    """What crowd-kit's trimming does where an annotator has fewer than two partners and it should trim -1 of them: of
    all ratios only the largest is kept."""
    size = np.abs(table)
    known = ~np.isnan(size)
    u, v = start, start
    for _ in range(iterations):
        old = (u, v)
        v = kept_ratio(np.max(size / u[:, None], axis=0, initial=-np.inf, where=known), v, n_items)
        u = kept_ratio(np.max(size / v[None], axis=1, initial=-np.inf, where=known), u, n_items)
        if mmsr.rank_one_change(*old, u - old[0], v - old[1]) < tolerance:
            break
    return u * np.sqrt(np.linalg.norm(v) / np.linalg.norm(u))


def kept_ratio(largest: np.ndarray, current: np.ndarray, n_items: int) -> np.ndarray:
    """Annotators without a partner keep what they have; zero becomes a small number."""
    return np.where(np.isinf(largest), current, np.where(largest == 0, 1 / np.sqrt(n_items), largest))


def unweighted_signs(table: np.ndarray, n_classes: int) -> np.ndarray:
    """+1 or -1 per annotator from the sign of every agreement, however few items are behind it; a pair without a shared
    item, and every annotator with themselves, count as disagreeing."""
    from scipy.sparse import block_array, coo_array, diags_array
    from scipy.sparse.linalg import eigsh

    signs = np.sign(np.where(np.isnan(table), -1 / (n_classes - 1), table))
    n = len(signs)
    first, second = np.nonzero(np.triu(signs == 1))
    middle = np.arange(len(first))  # an agreeing pair is joined over a node of its own
    ends = np.concatenate([first, second])
    joined = coo_array((np.ones(len(ends)), (np.tile(middle, 2), ends)), shape=(len(first), n))
    graph = block_array([[coo_array(signs == -1).astype(float), joined.T], [joined, None]], format="csr")
    scale = diags_array(1 / np.sqrt(graph.sum(axis=1)))
    _, vectors = eigsh(scale @ graph @ scale, k=1, which="SA", tol=1e-12, v0=np.ones(graph.shape[0]))
    side = np.sign(vectors[:n, 0])
    return side * np.sign(side.sum())


def mmsr_probabilities(annotations: Annotations, seen: Appearance, *, seed: int = 0) -> np.ndarray:
    """Weighted votes of MMSR with crowd-kit's trimming and signs, divided by their sum as there."""
    table = agreements(annotations)
    shared = ~np.isnan(table)
    trim = int(shared.sum(axis=0).min()) // 2 - 1
    if trim < 0:
        start = np.random.RandomState(seed).uniform(size=len(table))[seen.annotator]
        size = largest_ratios(table, annotations.n_items, start, iterations=10_000, tolerance=1e-10)
    else:
        row, column = np.nonzero(shared)
        everyone = np.full(len(table), trim)
        size, _ = mmsr.robust_rank_one(
            np.abs(table[row, column]), row, column, everyone, iterations=10_000, tolerance=1e-10
        )
    skills = size * unweighted_signs(table, annotations.n_classes)
    accuracies = mmsr.accuracies_of_skills(skills, annotations.n_classes, annotations.n_items)
    odds = np.log((annotations.n_classes - 1) * accuracies / (1 - accuracies))
    votes = vote_totals(annotations, odds[annotations.annotator])
    return votes / votes.sum(axis=1, keepdims=True)  # where the sum is negative, this turns the order around


# -- GLAD ---------------------------------------------------------------------------------------------------


def expected_log_joint(point: np.ndarray, annotations: Annotations, right: np.ndarray) -> tuple[float, np.ndarray]:
    """What an M step of GLAD raises, and its slope, both negated; `point` is abilities, then log eases."""
    ability, log_ease = np.split(point, [annotations.n_annotators])
    ease = np.exp(log_ease)[annotations.item]
    own = ability[annotations.annotator]
    logit = own * ease
    others = np.log(annotations.n_classes - 1)
    value = (right * logit - np.logaddexp(0.0, logit) - (1 - right) * others).sum()
    pull = right - 1 / (1 + np.exp(-logit))
    by_ability = np.bincount(annotations.annotator, pull * ease, len(ability)) - (ability - 1)
    by_ease = np.bincount(annotations.item, pull * logit, len(log_ease)) - (log_ease - 1)
    value -= 0.5 * np.square(point - 1).sum() + 0.5 * len(point) * np.log(2 * np.pi)
    return -float(value), -np.concatenate([by_ability, by_ease])


def glad_probabilities(annotations: Annotations, *, iterations: int = 100, tolerance: float = 1e-5) -> np.ndarray:
    """GLAD with crowd-kit's M step, at most 25 steps of conjugate gradients to a loose tolerance, and its end: where
    the expected log joint per annotation and class gains too little, or falls."""
    from scipy.optimize import minimize

    evidence = GladEvidence(annotations)
    point = np.ones(annotations.n_annotators + annotations.n_items)
    probabilities, last = None, -np.inf
    for _ in range(iterations):
        ability, log_ease = np.split(point, [annotations.n_annotators])
        model = GladModel(ability, log_ease)
        probabilities = evidence.expect(model, keep=True).kept
        given = annotations, evidence.expect(model, keep=False).kept
        options = {"maxiter": 25}
        found = minimize(expected_log_joint, point, given, method="CG", jac=True, tol=1e-2, options=options)
        point, value = found.x, -found.fun / (annotations.n_annotations * annotations.n_classes)
        if value - last < tolerance:
            break
        last = value
    assert probabilities is not None
    return probabilities
