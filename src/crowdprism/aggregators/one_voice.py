"""Annotators who answer as one voice, counted once.

Copies of one annotator outvote everybody else. A group of them becomes one voice: per item, the answer that most of its
members gave. Methods then see the voice as a single annotator, and what they learn of it is handed back to the members.
`copies` finds groups who agree too much; one voice are those that make the labels of a sample more likely (`choose`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.em import FloatArray
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import known_positions, positions
from crowdprism.annotations.pairs import ranked, response_matrix, sums_by
from crowdprism.errors import InvalidParameterError, some
from crowdprism.results import FitResult
from crowdprism.results.confusion import normalize_logs, normalize_rows

Group = NDArray[np.int64]  # codes of annotators, sorted
N_NAMES = 8
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
class Merged:
    """Annotations in which each group is one annotator."""

    annotations: Annotations  # the voice stands in the place of its first member; other members have no annotations
    fidelities: FloatArray  # (n_groups,) mean share of members' labels that are the voice's answer
    log_likelihood: float  # of the members' labels given the voices' answers
    channels: tuple[FloatArray, ...]  # of each group (n_members, answer of the voice, given label), rows sum to one


def merge(annotations: Annotations, groups: Sequence[Group]) -> Merged:
    """Replace each group by one voice, which gives each item the label of most members; a tie counts in equal parts."""
    voice = np.full(annotations.n_annotators, -1)
    for number, group in enumerate(groups):
        voice[group] = number
    voice_of = voice[annotations.annotator]
    mine = np.flatnonzero(voice_of >= 0)
    member, label = annotations.annotator[mine], annotations.label[mine]
    weight = np.ones(len(mine)) if annotations.weight is None else annotations.weight[mine].astype(np.float64)
    # A cell is an item that a voice answers.
    cell, place = ranked(
        annotations.item[mine].astype(np.int64) * len(groups) + voice_of[mine], annotations.n_items * len(groups)
    )
    n_classes = annotations.n_classes
    votes = sums_by(place * n_classes + label, weight, len(cell) * n_classes).reshape(-1, n_classes)
    winners = votes == votes.max(axis=1, keepdims=True)
    answer = winners / winners.sum(axis=1, keepdims=True)
    channels, fidelities, log_likelihood = [], [], float(np.log(winners.sum(axis=1)).sum())
    for number, group in enumerate(groups):
        own = np.flatnonzero(voice_of[mine] == number)
        counts = count_labels(np.searchsorted(group, member[own]), label[own], answer[place[own]], len(group))
        channel = counts + np.eye(n_classes)  # a member is faithful until seen otherwise
        channel /= channel.sum(axis=2, keepdims=True)
        channels.append(channel)
        fidelities.append(np.trace(counts.sum(axis=0)) / max(counts.sum(), 1.0))
        log_likelihood += float((counts * np.log(np.maximum(channel, np.finfo(float).tiny))).sum())
    strength = np.zeros(len(cell))
    np.maximum.at(strength, place, weight)
    row, given = np.nonzero(winners)
    voices = (cell[row] // len(groups), np.array([group[0] for group in groups])[cell[row] % len(groups)], given)
    merged = with_answers(annotations, voice_of < 0, voices, (strength[:, None] * answer)[row, given])
    return Merged(merged, np.array(fidelities), log_likelihood, tuple(channels))


def count_labels(member: NDArray[Any], label: NDArray[Any], answer: FloatArray, n_members: int) -> FloatArray:
    """(n_members, answer of the voice, given label) how often a member gave a label where the voice gives an answer."""
    n_classes = answer.shape[1]
    place = member.astype(np.int64) * n_classes + label
    counts = [np.bincount(place, column, n_members * n_classes).reshape(n_members, n_classes) for column in answer.T]
    return np.stack(counts, axis=1)


def with_answers(
    annotations: Annotations,
    kept: NDArray[np.bool_],
    voices: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],  # item, annotator, label
    weight: FloatArray,
) -> Annotations:
    """The kept annotations and the answers of voices, sorted; without weights where all are 1."""
    own = np.ones(int(kept.sum())) if annotations.weight is None else annotations.weight[kept]
    theirs = annotations.item[kept], annotations.annotator[kept], annotations.label[kept]
    item, annotator, label = (np.concatenate([a, b.astype(a.dtype)]) for a, b in zip(theirs, voices, strict=True))
    weight = np.concatenate([own, weight])
    key = (item.astype(np.int64) * annotations.n_annotators + annotator) * annotations.n_classes + label
    order = np.argsort(key, kind="stable")  # quick, since both parts are sorted
    start = np.zeros(annotations.n_items + 1, dtype=annotations.item_start.dtype)
    np.cumsum(np.bincount(item, minlength=annotations.n_items), out=start[1:])
    return replace(
        annotations,
        item_start=start,
        annotator=annotator[order],
        label=label[order],
        weight=None if (weight == 1).all() else weight[order].astype(np.float32),
        duration=None,
        timestamp=None,
    )


def hand_back(result: FitResult, annotations: Annotations, groups: Sequence[Group], merged: Merged) -> FitResult:
    """What was learned of voices, handed to their members: confusion of the voice, then the member's own deviation."""
    parts: dict[str, Any] = {"annotations": annotations, "labels_per_annotator": annotations.labels_per_annotator}
    for name in ("confusions", "confusion_posterior"):
        of_voice = getattr(result, name)
        if of_voice is not None:
            table = np.array(of_voice)
            for group, channel in zip(groups, merged.channels, strict=True):
                table[group] = of_voice[group[0]] @ channel
            parts[name] = table
    if result.skills is not None:
        parts["skills"] = np.array(result.skills)
        for group in groups:
            parts["skills"][group] = result.skills[group[0]]
    return replace(result, voices=named(annotations, groups), **parts)


def named(annotations: Annotations, groups: Sequence[Group]) -> tuple[tuple[Any, ...], ...]:
    """Groups by the names of annotators."""
    return tuple(tuple(annotations.annotators[group].tolist()) for group in groups)


def label_shares(annotations: Annotations, voices: Sequence[Sequence[Any]]) -> FloatArray:
    """(n_annotations,) 1 over the number of labels that the annotator's voice gave to the item; 1 without a voice."""
    shares = np.ones(annotations.n_annotations)
    for names in voices:
        members = positions(annotations.annotators, list(names))
        own = np.isin(annotations.annotator, members[members >= 0])
        on_item = np.bincount(annotations.item[own], minlength=annotations.n_items)
        shares[own] = 1.0 / on_item[annotations.item[own]]
    return shares


def given_groups(groups: Any, annotations: Annotations) -> list[Group]:
    """Groups that the user named, as codes; unknown names, names in two groups and groups of one are errors."""

    def require(condition: object, breach: str) -> None:
        if not condition:
            raise InvalidParameterError(breach, parameter="dependence")

    def is_list(part: object) -> bool:
        return isinstance(part, Sequence) and not isinstance(part, str)

    listed = is_list(groups) and all(is_list(names) for names in groups)
    require(listed, f'dependence must be "auto", None or groups of annotator names, not {groups!r}.')
    found: list[Group] = []
    seen: set[int] = set()
    for names in groups:
        given: Any = {"given": "names given as one voice", "parameter": "dependence"}
        members = np.unique(known_positions(annotations.annotators, names, "annotators", **given))
        twice = annotations.annotators[[at for at in members if at in seen]].tolist()
        require(not twice, f"{len(twice)} annotators are given in two voices: {some(twice)}. Join the groups.")
        require(len(members) > 1, f"A voice needs two annotators or more, not {list(names)!r}.")
        seen.update(members.tolist())
        found.append(members.astype(np.int64))
    return found


def describe_voices(voices: Sequence[Sequence[Any]], n_annotators: int) -> str:
    """Who goes with whom, and how many independent voices there are."""
    groups = "; ".join(join_names(names) for names in voices)
    n_voices = n_annotators - sum(len(names) - 1 for names in voices)
    each = " each" if len(voices) > 1 else ""
    return (
        f"{groups} answer as one and are counted once{each}: {n_annotators} annotators are {n_voices} independent "
        f"voice{'' if n_voices == 1 else 's'}."
    )


def join_names(names: Sequence[Any]) -> str:
    """Names in a sentence, the first few of many."""
    texts = [str(name) for name in names[:N_NAMES]]
    if len(names) > N_NAMES:
        return f"{', '.join(texts)} and {len(names) - N_NAMES} more"
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


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
        posterior, reached = normalize_logs(log_joint), log_likelihood
    return SampleFit(log_likelihood, confusions, log_joint)


def n_right(annotations: Annotations, fit: SampleFit) -> int:
    """How many items with gold the fit labels correctly; 0 without gold."""
    if annotations.gold is None:
        return 0
    known = ~np.ma.getmaskarray(annotations.gold)
    return int((fit.log_joint.argmax(axis=1) == annotations.gold.data)[known].sum())


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
