"""Votes over a store: majority vote and weighted vote, as passes over all items."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from crowdprism.aggregators.base import NO_ROOM
from crowdprism.aggregators.em import Expectation, FloatArray
from crowdprism.aggregators.majority_vote import (
    HALVE_STEP_EVERY,
    NO_MATRICES,
    TIE_DIGITS,
    MajorityVote,
    WeightedVote,
    decide,
    vote_shares,
)
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.results.confusion import confusions_fit, normalize_rows
from crowdprism.shards.passes import ShardedPass, StoredAnnotations


def parts_of_vote(method: MajorityVote | WeightedVote, data: StoredAnnotations) -> dict[str, Any]:
    """What a vote learns, as parts of its result."""
    return majority_vote(method, data) if isinstance(method, MajorityVote) else weighted_vote(method, data)


def majority_vote(method: MajorityVote, data: StoredAnnotations) -> dict[str, Any]:
    """What `MajorityVote` learns, as parts of a result."""
    if method.voting == "hard" and method.ties == "random":
        raise InvalidParameterError(
            "Random ties need all items in memory. Out of core, use ties='split' or 'lowest'.", parameter="ties"
        )
    evidence = passes_of(data)
    prior = evidence.count_votes().class_shares()
    answers = partial(answered, None, method.ties if method.voting == "hard" else None, prior)
    final = evidence.count_rows(answers, keep=True)
    confusions = confusions_of(evidence, final)
    return {
        "class_probabilities": final.kept,
        "confusions": confusions,
        "class_prior": prior,
        "seed": method.random_state,
        "warnings": (NO_MATRICES,) if confusions is None else (),
    }


def weighted_vote(method: WeightedVote, data: StoredAnnotations) -> dict[str, Any]:
    """What `WeightedVote` learns, as parts of a result."""
    by_annotator = data.vote_pass(by_cell=False)
    skills, step, changes = np.ones(data.n_annotators), 1.0, []
    for iteration in range(1, method.iterations + 1):
        if iteration % HALVE_STEP_EVERY == 0:
            step /= 2
        right = by_annotator.count_rows(partial(answered, skills, method.ties, None)).counts
        chance, total = 1 / data.n_classes, by_annotator.total
        change = step * (np.where(total > 0, right / np.where(total > 0, total, 1.0), chance) - skills)
        skills = skills + change
        changes.append(float(np.abs(change).max(initial=0.0)))
        if changes[-1] <= method.tolerance:
            break
    evidence = passes_of(data)
    uniform = np.full(data.n_classes, 1 / data.n_classes)
    prior = evidence.count_rows(partial(answered, skills, None, uniform)).class_shares()
    final = evidence.count_rows(partial(answered, skills, None, prior), keep=True)
    confusions = confusions_of(evidence, final)
    return {
        "class_probabilities": final.kept,
        "confusions": confusions,
        "skills": skills,
        "class_prior": prior,
        "history": {"largest_skill_change": changes},
        "warnings": (NO_ROOM,) if confusions is None else (),
    }


def answered(
    skills: FloatArray | None,  # (n_annotators,) or None where every annotator counts the same
    ties: Any,  # rule of `decide` for one class per item, or None for shares of votes
    prior: FloatArray | None,  # (n_classes,) of items without votes
    part: Any,  # the pass of a block
    first: int,
    last: int,
) -> FloatArray:
    """(items, n_classes) what annotators say of the items of a block, each counting by their skill."""
    votes = votes_of(part.block, first, last, skills)
    votes = votes if skills is None else np.round(votes, TIE_DIGITS)
    uniform = np.full(votes.shape[1], 1 / votes.shape[1])
    answers = vote_shares(votes, uniform) if ties is None else decide(votes, ties)
    return answers if prior is None else np.where(part.annotated(first, last)[:, None], answers, prior)


def votes_of(block: Annotations, first: int, last: int, skills: FloatArray | None) -> FloatArray:
    """(items, n_classes) sum of the weights, times skills, of the annotations of a block's items."""
    start = block.item_start[first : last + 1]
    own = slice(int(start[0]), int(start[-1]))
    place = np.repeat(np.arange(last - first), np.diff(start)) * block.n_classes + block.label[own]
    weight: Any = None if block.weight is None else block.weight[own]
    if skills is not None:
        weight = (1.0 if weight is None else weight) * skills[block.annotator[own]]
    return np.bincount(place, weight, (last - first) * block.n_classes).astype(float).reshape(last - first, -1)


def passes_of(data: StoredAnnotations) -> ShardedPass:
    """Passes with counts of confusions where these fit in memory, else by annotator."""
    fits = confusions_fit(data.n_annotators, data.n_classes)
    found = data.confusion_pass(data.n_classes) if fits else data.vote_pass(by_cell=False)
    assert isinstance(found, ShardedPass)
    return found


def confusions_of(evidence: Any, final: Expectation) -> FloatArray | None:
    """(n_annotators, true class, given label) from expected counts, where there are any."""
    if final.counts.ndim == 1:
        return None
    return np.asarray(normalize_rows(evidence.cells.dense(final.counts)), dtype=np.float64)
