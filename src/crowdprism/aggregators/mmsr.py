"""MMSR: annotators' skills from a robust rank-one factorisation of their agreement (Ma and Olshevsky 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import NO_ROOM, Aggregator
from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.majority_vote import vote_totals
from crowdprism.aggregators.one_coin import confusions_of
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import co_label_entries
from crowdprism.errors import UnsuitableDataError
from crowdprism.parameters import Allowed, Whole
from crowdprism.progress import progress
from crowdprism.results import FitResult

SIGN_ROUNDS = 100  # power iterations that decide who is on the side of the majority
SMALLEST_FACTOR = 1e-6  # agreements are divided by factors; one that is zero would give infinite ratios


def trimmed_means(
    ratios: NDArray[Any],  # (n_entries,)
    owner: NDArray[Any],  # (n_entries,) whom each ratio speaks of, sorted
    current: NDArray[Any],  # (n_owners,)
    trim: NDArray[Any],  # (n_owners,) how many may be removed at either end
) -> FloatArray:
    """Mean of an owner's ratios without up to `trim` of the largest above and smallest below `current`; else that."""
    n_owners = len(current)
    count = np.bincount(owner, minlength=n_owners)
    if not trim.any():  # nothing to remove, so nothing to sort
        sums = np.bincount(owner, weights=ratios, minlength=n_owners)
        return np.where(count > 0, sums / np.maximum(count, 1), current)
    order = np.lexsort([ratios, owner])
    ratios = ratios[order]
    start = np.cumsum(count) - count
    rank = np.arange(len(ratios)) - start[owner]
    below = np.bincount(owner, weights=ratios < current[owner], minlength=n_owners)
    above = np.bincount(owner, weights=ratios > current[owner], minlength=n_owners)
    low, high = np.minimum(below, trim), np.minimum(above, trim)
    kept = (rank >= low[owner]) & (rank < (count - high)[owner])
    n_kept = np.bincount(owner[kept], minlength=n_owners)
    sums = np.bincount(owner[kept], weights=ratios[kept], minlength=n_owners)
    return np.where(n_kept > 0, sums / np.maximum(n_kept, 1), current)


def rank_one_change(u: NDArray[Any], v: NDArray[Any], du: NDArray[Any], dv: NDArray[Any]) -> float:
    """Frobenius norm of (u + du)(v + dv)' - u v', without forming the annotators x annotators matrix."""

    def dot(one: NDArray[Any], other: NDArray[Any]) -> float:
        return float((one * other).sum())  # not `@`, whose order of sums may follow the number of threads

    grown = v + dv
    square = dot(du, du) * dot(grown, grown) + 2 * dot(du, u) * dot(grown, dv) + dot(u, u) * dot(dv, dv)
    return float(np.sqrt(max(square, 0.0)))


def robust_rank_one(
    target: NDArray[Any],  # (n_entries,) magnitude of agreement beyond chance, at least 0
    row: NDArray[Any],  # (n_entries,) sorted; every pair occurs both ways
    column: NDArray[Any],  # (n_entries,)
    trim: NDArray[Any],  # (n_annotators,)
    *,
    iterations: int,
    tolerance: float,
) -> tuple[FloatArray, list[float]]:
    """Return s with `target` about s[row] * s[column], by alternating trimmed means, and the change per round."""
    u = np.where(np.bincount(row, minlength=len(trim)) > 0, 0.5, 0.0)  # the same for all who share items with anyone
    v = u.copy()
    changes: list[float] = []
    with progress("MMSR", total=iterations) as bar:
        for _ in range(iterations):
            old_u, old_v = u, v
            v = trimmed_means(target / np.maximum(u[column], SMALLEST_FACTOR), row, v, trim)
            u = trimmed_means(target / np.maximum(v[column], SMALLEST_FACTOR), row, u, trim)
            changes.append(rank_one_change(old_u, old_v, u - old_u, v - old_v))
            bar.advance(note=f"change {changes[-1]:.1e}")
            if changes[-1] < tolerance:
                break
    size, other_size = np.sqrt(np.square(u).sum()), np.sqrt(np.square(v).sum())
    return (u * np.sqrt(other_size / size) if size > 0 else u), changes


def majority_signs(agreement: NDArray[Any], row: NDArray[Any], column: NDArray[Any], n: int) -> FloatArray:
    """(n_annotators,) -1 for annotators against the majority, else 1, by power iteration on the graph of agreement."""
    total = np.bincount(row, weights=np.abs(agreement), minlength=n)
    side = np.ones(n)
    for _ in range(SIGN_ROUNDS):
        pull = np.bincount(row, weights=agreement * side[column], minlength=n)
        side = (side + pull / np.where(total > 0, total, 1.0)) / 2
    return np.where(side < 0, -1.0, 1.0)


@dataclass(eq=False, repr=False)
class MMSR(Aggregator):
    """One skill per annotator from a robust rank-one fit to who agrees with whom, then a log-odds weighted vote.

    Under the one-coin model the chance-corrected agreement of two annotators is the product of their skills
    s = (K p - 1) / (K - 1), with p the probability of a right label, which `result_.skills` has. Trimmed means make the
    fit robust against pairs that collude. Annotators who share no item with anyone get the mean skill of the others;
    `result_.warnings` counts them.

    Parameters
    ----------
    trim
        How many of an annotator's pairs may be left out at either end. None: half the smallest number of pairs
        of any annotator, minus one (the paper's bound), at least 0.
    iterations, tolerance
        Largest number of rounds; they end when the fitted matrix moves by less than `tolerance`.

    Examples
    --------
    >>> MMSR().fit([[0, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 1], [1, 1, 0]]).result_.labels().tolist()
    [0, 1, 0, 1, 0, 1]
    """

    name: ClassVar[str] = "mmsr"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"trim": (Whole(0), None)}
    trim: int | None = None
    iterations: int = 10_000
    tolerance: float = 1e-10

    def _aggregate(self, annotations: Annotations) -> FitResult:
        n_annotators, n_classes = annotations.n_annotators, annotations.n_classes
        entries = co_label_entries(annotations)
        if not entries.n_pairs:
            raise UnsuitableDataError(
                f"MMSR learns skills from items that two annotators share, and no two of the {n_annotators} annotators "
                f"share any of the {annotations.n_items} items. Use majority-vote, or collect a second label for some "
                "items."
            )
        common = entries.common()
        agreement = (n_classes * entries.agreeing() / common - 1) / (n_classes - 1)
        row = np.concatenate([entries.first, entries.second])
        column = np.concatenate([entries.second, entries.first])
        order = np.lexsort([column, row])
        row, column = row[order], column[order]
        agreement, common = np.tile(agreement, 2)[order], np.tile(common, 2)[order]
        partners = np.bincount(row, minlength=n_annotators)
        trim = max(int(partners[partners > 0].min()) // 2 - 1, 0) if self.trim is None else self.trim
        limits: dict[str, Any] = {"iterations": self.iterations, "tolerance": self.tolerance}
        skills, changes = robust_rank_one(np.abs(agreement), row, column, np.full(n_annotators, trim), **limits)
        skills = skills * majority_signs(agreement * common, row, column, n_annotators)
        alone = partners == 0
        skills[alone] = skills[~alone].mean()
        accuracies = accuracies_of_skills(skills, n_classes, annotations.n_items)
        probabilities, prior = one_coin_posterior(annotations, accuracies)
        confusions = confusions_of(accuracies, n_classes)
        note = f"{alone.sum()} annotators share no item with anyone and got the mean skill of the others."
        return self._build_result(
            annotations,
            probabilities,
            confusions=confusions,
            skills=accuracies,
            class_prior=prior,
            history={"matrix_change": changes},
            warnings=(*([note] if alone.any() else []), *([NO_ROOM] if confusions is None else [])),
        )


def accuracies_of_skills(skills: NDArray[Any], n_classes: int, n_items: int) -> FloatArray:
    """Probability of a right label from s = (K p - 1) / (K - 1), kept off its ends as in Ma and Olshevsky (2020)."""
    # With so few items that the two bounds would cross, half the range is left at either side.
    margin = min(1 / np.sqrt(max(n_items, 1)), n_classes / (n_classes - 1) / 4)
    kept = np.clip(skills, -1 / (n_classes - 1) + margin, 1 - margin)
    return np.asarray((kept * (n_classes - 1) + 1) / n_classes)


def one_coin_posterior(annotations: Annotations, accuracies: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Class probabilities by the log-odds weighted vote under equal class shares, and their mean for other items."""
    from scipy.special import softmax

    odds = np.log((annotations.n_classes - 1) * accuracies / (1 - accuracies))
    own = 1.0 if annotations.weight is None else annotations.weight
    probabilities: FloatArray = softmax(vote_totals(annotations, own * odds[annotations.annotator]), axis=1)
    labelled = vote_totals(annotations).sum(axis=1) > 0
    prior = probabilities[labelled].mean(axis=0)
    return np.where(labelled[:, None], probabilities, prior), prior
