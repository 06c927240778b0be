"""Annotators who answer as one voice, counted once.

Copies of one annotator outvote everybody else. A group of them becomes one voice: per item, the answer that most of its
members gave. Methods then see the voice as a single annotator, and what they learn of it is handed back to the members.
`copies` finds such groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.em import FloatArray
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import known_positions, positions
from crowdprism.annotations.pairs import ranked, sums_by
from crowdprism.errors import InvalidParameterError, some
from crowdprism.results import FitResult

Group = NDArray[np.int64]  # codes of annotators, sorted
N_NAMES = 8


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
