"""Answers that are no label, and class names that differ only in spelling."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdprism.annotations.building import rows_of
from crowdprism.annotations.names import encode, plain
from crowdprism.errors import InvalidAnnotationsError, some
from crowdprism.formats.raw_annotations import RawAnnotations

N_GROUPS_SHOWN = 3
SEPARATORS = ("|", ";")
COLUMNS = ("item", "annotator", "label")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def clean_labels(raw: RawAnnotations, place: str, *, skip: Sequence[str] = (), fold: bool = False) -> None:
    """Leave out answers that are no label, join spellings of a class, and note what looks like a mistake."""
    try:
        distinct, codes = encode(raw.label)
    except TypeError:
        return  # lists and the like, which the checks refuse with their place
    names = distinct.tolist()
    if skip:
        wanted = {folded(name) for name in skip}
        skipped = np.array([folded(name) in wanted for name in names], dtype=bool)
        leave_out(raw, skipped[codes], place, some([name for name, out in zip(names, skipped, strict=True) if out]))
        codes = codes[~skipped[codes]]
        names = [name for name, out in zip(names, skipped, strict=True) if not out]
    groups = spellings(names)
    if groups and fold:
        counts = dict(zip(distinct.tolist(), np.bincount(codes, minlength=len(distinct)).tolist(), strict=True))
        join_spellings(raw, {name: max(group, key=counts.__getitem__) for group in groups for name in group})
    elif groups:
        shown = "; ".join(some(group) for group in groups[:N_GROUPS_SHOWN])
        raw.notes.append(f"classes that differ only in case or spaces: {shown}. --fold-classes joins them")
    texts = [name for name in names if isinstance(name, str)]
    several = {name for name in texts if any(one in name for one in SEPARATORS)}
    numbers = {name for name in texts if NUMBER.fullmatch(name.strip())}
    if "several labels chosen" in raw.skipped:
        raw.notes.append("answers with several choices were skipped. --multi reads them")
    elif several:
        rows = np.flatnonzero(among(distinct, several)[codes])
        raw.notes.append(f"{first_of(raw, rows)} look like several choices. --multi reads them as such")
    elif numbers and len(numbers) < len(texts):
        number = among(distinct, numbers)[codes]
        kind, odd = ("no numbers", ~number) if number.mean() > 0.5 else ("numbers", number)
        rows = np.flatnonzero(odd)
        raw.notes.append(f"{first_of(raw, rows)} are {kind}, unlike the others. --skip-label leaves answers out")


def among(distinct: Any, wanted: set[str]) -> Any:
    return np.array([name in wanted for name in distinct.tolist()], dtype=bool)


def first_of(raw: RawAnnotations, rows: Any) -> str:
    """How many labels are in these rows, and where the first is."""
    label, annotator, item = (plain(values[int(rows[0])]) for values in (raw.label, raw.annotator, raw.item))
    return f"{len(rows)} of {len(raw.label)} labels (first: {label!r} by annotator {annotator!r} on item {item!r})"


def folded(name: Any) -> str:
    return " ".join(str(name).split()).casefold()


def spellings(names: Sequence[Any]) -> list[list[Any]]:
    """Groups of names that are equal but for case and spaces, in the order of names."""
    groups: dict[str, list[Any]] = {}
    for name in names:
        if isinstance(name, str):
            groups.setdefault(folded(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def leave_out(raw: RawAnnotations, out: Any, place: str, named: str) -> None:
    if not out.any():
        raw.notes.append("no answer is one of those to skip")
        return
    if out.all():
        raise InvalidAnnotationsError(
            f"{place}: all {len(out)} answers are to be skipped ({named}); nothing is left.",
            remedy="Leave out {skip_label}, or use {abstain} to learn from who is unsure.",
        )
    kept = np.flatnonzero(~out)
    for column in COLUMNS:
        setattr(raw, column, rows_of(getattr(raw, column), kept))
    raw.numbers = {role: rows_of(values, kept) for role, values in raw.numbers.items()}
    raw.skip(f"answered {named}", place, int(out.sum()))


def join_spellings(raw: RawAnnotations, canonical: dict[Any, Any]) -> None:
    for column in ("label", "gold_label"):
        values = getattr(raw, column)
        listed = values.to_list() if hasattr(values, "to_list") else list(values)
        setattr(raw, column, [canonical.get(value, value) for value in listed])
    joined = {target: [name for name in canonical if canonical[name] == target] for target in canonical.values()}
    raw.notes.append("joined " + "; ".join(f"{some(group)} as {target!r}" for target, group in joined.items()))
