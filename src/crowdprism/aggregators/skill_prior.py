"""A prior for confusion matrices that is centred at each annotator's own skill.

One number, the annotator's own skill, describes somebody with few labels better than the crowd's common matrix does. So
the diagonal of a confusion row is held near that skill, shaped by how hard the class is for everybody; errors are held
near the directions of the crowd's errors, and the class prior near its first estimate. Centres are renewed in a few
rounds, and EM climbs within each round. Constants were chosen on simulated crowds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.blocks import rows_of
from crowdprism.aggregators.em import Expectation, FloatArray, Sums
from crowdprism.aggregators.expectation import FLOOR, ConfusionPass
from crowdprism.aggregators.sources import Cells
from crowdprism.annotations import Annotations

ROUNDS = 3  # more rounds drift
STRENGTH = 12.0  # pseudo-annotations per row, for being right and again for the direction of errors
CLASS_STRENGTH = 3.0  # weight of the anchored class prior against the items themselves
POOLED_STRENGTH = 4.0  # pseudo-annotations behind the crowd's class effects and error directions
SKILL_WITHOUT_PAIRS, WEIGHT_WITHOUT_PAIRS = 0.7, 4.0
LEAST_ABOVE_CHANCE, LARGEST_SKILL = 0.05, 0.98
LEAST_WEIGHT, LARGEST_WEIGHT = 2.0, 20.0
LEAST_SQUARED_CONTRAST = 1e-3
LEAST_OTHERS = 1e-6  # weight of other annotators' labels on an item that counts as a comparison


@dataclass(frozen=True)
class CrowdSkill:
    """Mean probability of a right label, and how many labels of an annotator it outweighs."""

    mean: float
    weight: float


@dataclass(frozen=True, eq=False)
class SkillPrior:
    """Centres that stay fixed during one climb."""

    right: FloatArray  # (n_annotators, true class) probability of a right label
    direction: FloatArray  # (true class, given label) where errors go; rows sum to one, the diagonal is 0
    class_shares: FloatArray  # (n_classes,) where the class prior is anchored
    class_weight: float  # items' worth of that anchor


@dataclass(frozen=True, eq=False)
class SkillModel:
    """Confusion entries by cell (n_cells, true class), class prior, log density of the prior, right shares."""

    likelihood: FloatArray
    class_prior: FloatArray
    penalty: float
    right: FloatArray  # (n_annotators, true class)


def crowd_skill(evidence: ConfusionPass) -> CrowdSkill | None:
    """Estimate skills from how often annotators agree on items; None where no item has labels of two annotators.

    Two of skill p agree with probability p^2 + (1-p)^2 / (K-1). How far they differ is the variance component of a
    one-way random-effects model of agreement.
    """
    c = 1.0 / max(evidence.n_classes - 1, 1)
    shape = (2, evidence.cells.n_annotators)
    found = evidence.source.sum_blocks(evidence.groups, _add_agreement, counts_shape=shape)
    (weight, total), squares = found.counts, float(found.class_totals[0])
    if not weight.any():
        return None
    mean = total.sum() / weight.sum()
    root = np.sqrt(max(c * c - (1 + c) * (c - mean), 0.0))
    skill = float(np.clip((c + root) / (1 + c), 1.0 / evidence.n_classes + LEAST_ABOVE_CHANCE, LARGEST_SKILL))
    return CrowdSkill(skill, _skill_weight(weight, total, squares, skill=skill, contrast=skill - (1 - skill) * c))


def _add_agreement(annotations: Annotations, first: int, last: int, sums: Sums, _: int) -> None:
    """Add each annotator's comparisons and agreement (share of others' labels on the item that are equal)."""
    rows = rows_of(annotations, first, last)
    item, annotator, label = rows.item, rows.annotator, rows.label
    weight = None if rows.weight is None else rows.weight.astype(np.float64)
    place = item * annotations.n_classes + label
    votes = np.bincount(place, weight, (last - first) * annotations.n_classes)
    others, equal = votes.reshape(-1, annotations.n_classes).sum(axis=1)[item], votes[place]
    mine: Any = 1.0 if weight is None else weight
    mine_equal = mine
    if ((annotator[1:] == annotator[:-1]) & (item[1:] == item[:-1])).any():  # sorted by item, annotator, label
        person = _runs(item, annotator)
        answer = _runs(person, label)
        mine, mine_equal = np.bincount(person, weight)[person], np.bincount(answer, weight)[answer]
    others, equal = others - mine, equal - mine_equal
    paired = others > LEAST_OTHERS
    counted = np.ones(int(paired.sum())) if weight is None else weight[paired]
    agreement = equal[paired] / others[paired]
    np.add.at(sums.counts[0], annotator[paired], counted)
    np.add.at(sums.counts[1], annotator[paired], counted * agreement)
    sums.totals[0] = np.cumsum(np.concatenate([sums.totals, counted * agreement**2]))[-1]  # added one by one


def _runs(*keys: NDArray[np.integer]) -> NDArray[np.int64]:
    """Number each run of equal neighbours."""
    new = np.zeros(len(keys[0]), dtype=bool)
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.cumsum(new)


def _skill_weight(weight: FloatArray, total: FloatArray, squares: float, *, skill: float, contrast: float) -> float:
    """How many labels the crowd's skill outweighs: large where annotators hardly differ."""
    size = weight[weight > 0]
    n_people, n_labels = len(size), float(size.sum())
    if n_people < 2 or n_labels <= n_people:
        return WEIGHT_WITHOUT_PAIRS
    means = total[weight > 0] / size
    between = float(size @ (means - total.sum() / n_labels) ** 2) / (n_people - 1)
    within = (squares - float(size @ means**2)) / (n_labels - n_people)
    typical_size = (n_labels - float(size @ size) / n_labels) / (n_people - 1)
    variance = max(between - within, 0.0) / typical_size / max(contrast**2, LEAST_SQUARED_CONTRAST)
    if variance == 0.0:
        return LARGEST_WEIGHT
    return float(np.clip(skill * (1 - skill) / variance - 1, LEAST_WEIGHT, LARGEST_WEIGHT))


def one_skill_model(skill: float, cells: Cells) -> SkillModel:
    """Everybody is right with the same probability and errs evenly: the calibrated vote that EM starts from."""
    wrong = (1 - skill) / max(cells.n_classes - 1, 1)
    likelihood = np.where(cells.label_of[:, None] == np.arange(cells.n_classes), skill, wrong)
    right = np.full((cells.n_annotators, cells.n_classes), skill)
    return SkillModel(likelihood, np.full(cells.n_classes, 1.0 / cells.n_classes), 0.0, right)


def centre(expectation: Expectation, cells: Cells, crowd: CrowdSkill) -> SkillPrior:
    """Centres of the next round, from expected counts."""
    n_classes = cells.n_classes
    right, total = right_counts(expectation.counts, cells), cells.sum_by_annotator(expectation.counts)
    pooled_right, pooled_total = right.sum(axis=0), total.sum(axis=0)
    overall = (pooled_right.sum() + 1) / (pooled_total.sum() + 2)
    of_class = (pooled_right + POOLED_STRENGTH * overall) / (pooled_total + POOLED_STRENGTH)
    errors = np.zeros((n_classes, n_classes))
    np.add.at(errors, cells.label_of, expectation.counts)
    errors = errors.T.copy()
    np.fill_diagonal(errors, 0.0)
    n_errors = errors.sum(axis=1, keepdims=True)
    direction = (errors + POOLED_STRENGTH / max(n_classes - 1, 1)) / (n_errors + POOLED_STRENGTH)
    np.fill_diagonal(direction, 0.0)
    n_labels = total.sum(axis=1)
    skill = (right.sum(axis=1) + crowd.weight * overall) / (n_labels + crowd.weight)
    expected = ((total * of_class).sum(axis=1) + crowd.weight * overall) / (n_labels + crowd.weight)
    log_odds = logit(of_class) + (logit(skill) - logit(expected))[:, None]
    n_items = expectation.class_totals.sum()
    return SkillPrior(
        right=1.0 / (1.0 + np.exp(-log_odds)),
        direction=direction,
        class_shares=(expectation.class_totals + 1) / (n_items + n_classes),
        class_weight=CLASS_STRENGTH * float(n_items),
    )


def maximize(
    expectation: Expectation, cells: Cells, prior: SkillPrior, *, class_prior: FloatArray | None = None
) -> SkillModel:
    """M step: the share of right labels of each row, then where its errors go; the class prior if it is not given."""
    counts = expectation.counts
    n_right, total = right_counts(counts, cells), cells.sum_by_annotator(counts)
    wrong = np.maximum(total - n_right, 0.0)
    right = (n_right + STRENGTH * prior.right) / (total + STRENGTH)
    pseudo = prior.direction.T[cells.label_of]  # (n_cells, true class)
    towards = (counts + STRENGTH * pseudo) / cells.by_cell(wrong + STRENGTH)
    diagonal = np.arange(cells.n_cells), cells.label_of
    towards[diagonal] = 1.0
    likelihood = cells.by_cell(1.0 - right) * towards
    likelihood[diagonal] = right[cells.annotator_of, cells.label_of]
    shares, penalty = class_prior, 0.0
    if shares is None:
        n_items = max(float(expectation.class_totals.sum()), 1.0)
        shares = (expectation.class_totals + prior.class_weight * prior.class_shares) / (n_items + prior.class_weight)
        penalty = prior.class_weight * float(prior.class_shares @ np.log(shares))
    penalty += STRENGTH * float((prior.right * np.log(right) + (1 - prior.right) * np.log1p(-right)).sum())
    penalty += STRENGTH * _direction_density(pseudo, towards, wrong, cells, prior.direction)
    return SkillModel(likelihood, shares, penalty, right)


def _direction_density(
    pseudo: FloatArray, towards: FloatArray, wrong: FloatArray, cells: Cells, direction: FloatArray
) -> float:
    """Sum of e log(share of errors) over all entries; labels without a cell have a closed form."""
    density = float((pseudo * np.log(np.maximum(towards, FLOOR))).sum())
    if cells.complete:
        return density
    log_direction = np.log(np.maximum(direction, FLOOR))
    rest = 1.0 - cells.sum_by_annotator(pseudo)  # mass of labels without a cell
    log_cells = cells.sum_by_annotator(pseudo * log_direction.T[cells.label_of])
    log_rest = (direction * log_direction).sum(axis=1) - log_cells
    return density + float((log_rest + rest * np.log(STRENGTH / (wrong + STRENGTH))).sum())


def right_counts(counts: FloatArray, cells: Cells) -> FloatArray:
    """(n_annotators, true class) expected weight of right labels."""
    right = np.zeros((cells.n_annotators, cells.n_classes))
    right[cells.annotator_of, cells.label_of] = counts[np.arange(cells.n_cells), cells.label_of]
    return right


def full_confusions(counts: FloatArray, cells: Cells, prior: SkillPrior) -> FloatArray:
    """(n_annotators, true class, given label) the outcome of `maximize`, labels without a cell included."""
    table = cells.dense(counts)
    n_right = right_counts(counts, cells)
    total = table.sum(axis=2)
    right = (n_right + STRENGTH * prior.right) / (total + STRENGTH)
    errors = table + STRENGTH * prior.direction
    diagonal = np.arange(cells.n_classes)
    errors[:, diagonal, diagonal] = 0.0
    table = errors * ((1.0 - right) / np.maximum(errors.sum(axis=2), FLOOR))[:, :, None]
    table[:, diagonal, diagonal] = right
    return np.asarray(table)


def unknown_rows(n_classes: int) -> FloatArray:
    """(true class, given label) what is assumed of an annotator of whom nothing is known."""
    wrong = (1.0 - SKILL_WITHOUT_PAIRS) / max(n_classes - 1, 1)
    return np.where(np.eye(n_classes) > 0, SKILL_WITHOUT_PAIRS if n_classes > 1 else 1.0, wrong)


def row_centres(prior: SkillPrior) -> FloatArray:
    """(n_annotators, true class, given label) the confusion rows that the prior is centred at."""
    rows = (1.0 - prior.right)[:, :, None] * prior.direction
    diagonal = np.arange(prior.right.shape[1])
    rows[:, diagonal, diagonal] = prior.right
    return rows


def logit(share: FloatArray) -> FloatArray:
    return np.asarray(np.log(share) - np.log1p(-share))
