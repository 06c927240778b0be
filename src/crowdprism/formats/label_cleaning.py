"""Answers that are no label, and class names that differ only in spelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdprism.annotations.building import rows_of
from crowdprism.annotations.names import encode
from crowdprism.errors import InvalidAnnotationsError, some
from crowdprism.formats.raw_annotations import RawAnnotations

N_GROUPS_SHOWN = 3
SEPARATORS = ("|", ";")
COLUMNS = ("item", "annotator", "label")


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
        names = [name for name, out in zip(names, skipped, strict=True) if not out]
    groups = spellings(names)
    if groups and fold:
        counts = dict(zip(distinct.tolist(), np.bincount(codes, minlength=len(distinct)).tolist(), strict=True))
        join_spellings(raw, {name: max(group, key=counts.__getitem__) for group in groups for name in group})
    elif groups:
        shown = "; ".join(some(group) for group in groups[:N_GROUPS_SHOWN])
        raw.notes.append(f"classes that differ only in case or spaces: {shown}. --fold-classes joins them")
    several = [name for name in names if isinstance(name, str) and any(one in name for one in SEPARATORS)]
    if "several labels chosen" in raw.skipped:
        raw.notes.append("answers with several choices were skipped. --multi reads them")
    elif several:
        raw.notes.append(f"labels such as {several[0]!r} look like several choices. --multi reads them as such")


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
    """Replace names by the spelling that stands for them, in labels and gold."""
    for column in ("label", "gold_label"):
        values = getattr(raw, column)
        listed = values.to_list() if hasattr(values, "to_list") else list(values)
        setattr(raw, column, [canonical.get(value, value) for value in listed])
    joined = {target: [name for name in canonical if canonical[name] == target] for target in canonical.values()}
    raw.notes.append("joined " + "; ".join(f"{some(group)} as {target!r}" for target, group in joined.items()))
