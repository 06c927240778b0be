"""What every reader hands over: raw columns, what was skipped, how fields were mapped; and the report made of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import polars as pl

from crowdprism.annotations.building import rows_of
from crowdprism.annotations.names import encode, plain
from crowdprism.errors import InvalidAnnotationsError, LostInformationWarning, UnreadableFileError, some
from crowdprism.formats.text_tables import text_numbers
from crowdprism.formats.unpacking import size_in_bytes

NUMBERS = ("weight", "duration", "timestamp")
WHOLE_NUMBER = r"^(?:0|-?[1-9][0-9]{0,17})$"  # as Python writes it; "007" stays text, and 18 digits fit int64
WHOLE_FLOAT = r"^(?:0|-?[1-9][0-9]{0,17})\.0$"  # what pandas makes of whole numbers where some are missing
SEPARATORS = ("|", ";")  # of several choices in a cell
N_GROUPS_SHOWN = 3
N_FIRST = 1000  # rows that settle for nearly every column of text that it is not one of whole numbers


@dataclass(frozen=True)
class ReadingOptions:
    """What the caller said about a file."""

    columns: Mapping[str, str] = field(default_factory=dict)
    include_rejected: bool = False
    skip_missing: bool = False
    annotator_from: str | None = None
    annotators: Sequence[str] | None = None
    missing: Sequence[Any] | None = None
    encoding: str = "utf-8"
    max_size: int | None = None
    multi: bool = False  # an answer may hold several choices, as a list, or none

    @classmethod
    def of(cls, *, multi: bool = False, max_size: int | str | None = None, **given: Any) -> Self:
        """Options by the names that `read_annotations` gives them; every other name is the role of a column."""
        named = {one.name: given.pop(one.name) for one in fields(cls)[1:] if one.name in given}
        columns = {role: column for role, column in given.items() if column is not None}
        return cls(columns, **named, max_size=size_in_bytes(max_size), multi=multi)


@dataclass(frozen=True)
class Skipped:
    """Rows left out for one reason: how many, and where the first one stands."""

    count: int
    first: str

    def __str__(self) -> str:
        return f"{self.count} (first: {self.first})"


@dataclass(frozen=True)
class ReadingReport:
    """What a reading did: format, columns, skipped rows; `str()` gives a readable account.

    Attributes
    ----------
    format
        Name of the format that was detected or asked for.
    columns
        Which column or field served as item, annotator, label and so on.
    files, left_out_files
        The files read, and files of a folder that were not read, with the reason.
    n_rows, n_annotations
        Rows or records looked at, skipped ones included, and the annotations that came of them.
    skipped
        Rows left out, by reason.
    notes
        What else the user should know, such as information that the export does not hold.

    Examples
    --------
    >>> print(ReadingReport("long", {"item": "task"}, ("a.csv",), 3, 2, {"draft": Skipped(1, "a.csv line 4")}))
    a.csv: read as long; 2 annotations from 3 rows
      item <- task
      skipped, draft: 1 (first: a.csv line 4)
    """

    format: str
    columns: Mapping[str, str]
    files: tuple[str, ...]
    n_rows: int
    n_annotations: int
    skipped: Mapping[str, Skipped] = field(default_factory=dict)
    left_out_files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def n_skipped(self) -> int:
        """Number of rows left out, all reasons together."""
        return sum(skip.count for skip in self.skipped.values())

    def lines(self) -> list[str]:
        where = self.files[0] if len(self.files) == 1 else f"{len(self.files)} files ({self.files[0]}, ...)"
        return [
            f"{where}: read as {self.format}; {self.n_annotations} annotations from {self.n_rows} rows",
            *(f"  {role} <- {column}" for role, column in self.columns.items()),
            *(f"  skipped, {reason}: {skip}" for reason, skip in self.skipped.items()),
            *(f"  not read: {name} ({reason})" for name, reason in self.left_out_files.items()),
            *(f"  note: {note}" for note in self.notes),
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines())


class RawAnnotations:
    """Rows as a file gives them; `is_text` (CSV): ids that all look like whole numbers become whole numbers."""

    def __init__(self, columns: Mapping[str, str], *, is_text: bool) -> None:
        self.columns = dict(columns)
        self.is_text = is_text
        self.item: Any = []
        self.annotator: Any = []
        self.label: Any = []
        self.numbers: dict[str, Any] = {}
        self.gold_item: Any = []
        self.gold_label: Any = []
        self.item_names: Any = None
        self.annotator_names: Any = None
        self.classes: Any = None
        self.keeps_order = False  # True where the file says the order of names, as our own npz does
        self.n_rows = 0
        self.n_answers: int | None = None  # where a row can hold several answers, or none
        self.n_gold_rows = 0  # rows that gave the true class and no annotation
        self.skipped: dict[str, Skipped] = {}
        self.notes: list[str] = []
        self.content: dict[Any, tuple[Any, str]] = {}

    def add(self, item: Any, annotator: Any, label: Any, **numbers: Any) -> None:
        """Add one annotation; every call names the same numbers."""
        self.item.append(item)
        self.annotator.append(annotator)
        self.label.append(label)
        for name, value in numbers.items():
            self.numbers.setdefault(name, []).append(value)

    def add_gold(self, item: Any, label: Any) -> None:
        self.gold_item.append(item)
        self.gold_label.append(label)

    def skip(self, reason: str, place: str, count: int = 1) -> None:
        before = self.skipped.get(reason)
        self.skipped[reason] = Skipped(count, place) if before is None else Skipped(before.count + count, before.first)

    def warn_of_loss(self, lost: str) -> None:
        """Say what the export does not hold, in the report and as a warning."""
        self.notes.append(lost)
        warnings.warn(lost, LostInformationWarning, stacklevel=3)

    def require_all_counted(self, name: str) -> None:
        """Raise an internal error if an answer was lost: each is an annotation, gold, or skipped for a reason."""
        n_answers = self.n_rows if self.n_answers is None else self.n_answers
        n_skipped = sum(skip.count for skip in self.skipped.values())
        counted = len(self.label) + n_skipped + self.n_gold_rows
        if n_answers != counted or not len(self.item) == len(self.annotator) == len(self.label):
            raise UnreadableFileError(
                f"{name}: internal error, the answers do not add up: {n_answers} in the file, {len(self.label)} "
                f"annotations, {n_skipped} skipped, {self.n_gold_rows} gold. Please report it with the file."
            )

    def is_answer(self, label: Any, place: str, options: ReadingOptions, reason: str = "no label") -> bool:
        """Tell whether there is one label, or any number if several choices are read; skip the record if not."""
        if options.multi or not (label is None or isinstance(label, list)):
            return True
        self.skip("several labels chosen" if label else reason, place)
        return False

    def see_content(self, item: Any, content: Any, place: str) -> None:
        """Raise if an id has other content than before: merged projects may each number their items from 1."""
        first, first_place = self.content.setdefault(item, (content, place))
        same = first == content
        if isinstance(content, dict) and isinstance(first, dict):  # fields of which some may be answers
            common = first.keys() & content.keys()
            same = not common or any(first[name] == content[name] for name in common)
        if not same:
            raise InvalidAnnotationsError(
                f"Item id {item!r} stands for different content in {first_place} and in {place}: the projects number "
                "their items apart.",
                remedy="Choose a field that is the same everywhere, such as the file name or text, with {item}",
            )


def merged(parts: Sequence[RawAnnotations]) -> RawAnnotations:
    if len(parts) == 1:
        return parts[0]
    whole = RawAnnotations(parts[0].columns, is_text=all(part.is_text for part in parts))
    if not whole.is_text and any(part.is_text for part in parts):
        for part in parts:
            type_text(part)
    for name in ("item", "annotator", "label", "gold_item", "gold_label"):
        setattr(whole, name, joined([getattr(part, name) for part in parts]))
    for name in NUMBERS:
        if any(name in part.numbers for part in parts):
            default = 1.0 if name == "weight" else None
            whole.numbers[name] = joined([part.numbers.get(name, [default] * len(part.label)) for part in parts])
    for name in ("item_names", "annotator_names", "classes"):
        given = [getattr(part, name) for part in parts]
        if all(names is not None for names in given):
            setattr(whole, name, list(dict.fromkeys(one for names in given for one in names)))
    for part in parts:
        whole.n_rows += part.n_rows
        whole.notes += [note for note in part.notes if note not in whole.notes]
        for reason, skip in part.skipped.items():
            whole.skip(reason, skip.first, skip.count)
        for item, (content, place) in part.content.items():
            whole.see_content(item, content, place)
    return whole


def joined(columns: Sequence[Any]) -> Any:
    """Columns end to end; polars columns stay polars where all are."""
    if all(isinstance(column, pl.Series) for column in columns):
        return pl.concat([column.cast(pl.String) for column in columns])
    return [value for column in columns for value in (column.to_list() if isinstance(column, pl.Series) else column)]


def type_text(raw: RawAnnotations, *, classes_are_text: bool = False) -> None:
    """Turn ids from a text file into whole numbers if all are written so; gold is typed with items and labels."""
    if not raw.is_text:
        return
    raw.item, raw.gold_item, raw.item_names = whole_numbers_together(raw.item, raw.gold_item, raw.item_names)
    raw.annotator, raw.annotator_names = whole_numbers_together(raw.annotator, raw.annotator_names)
    if not classes_are_text:
        raw.label, raw.gold_label = whole_numbers_together(raw.label, raw.gold_label)


def whole_numbers_together(*columns: Any) -> list[Any]:
    """Return the columns as whole numbers if all their texts are written as such, else as they came."""
    try:
        texts = [column if column is None else pl.Series(column, dtype=pl.String) for column in columns]
    except TypeError:  # already typed, as the positions of a matrix
        return list(columns)
    present = [text for text in texts if text is not None and len(text)]
    if not present:
        return list(columns)
    if all_match(present, WHOLE_NUMBER):
        return [text if text is None else text.cast(pl.Int64).to_numpy() for text in texts]
    if all_match(present, WHOLE_FLOAT):
        return [text if text is None else text.str.strip_suffix(".0").cast(pl.Int64).to_numpy() for text in texts]
    return [column if text is None else text for text, column in zip(texts, columns, strict=True)]


def all_match(columns: Sequence[pl.Series], form: str) -> bool:
    """Whether every text matches a pattern; the first rows are checked first, to fail early."""
    parts = (*(column.head(N_FIRST) for column in columns), *columns)
    return all(part.str.contains(form).all(ignore_nulls=False) for part in parts)


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
        raw.notes.append(f"classes that differ only in case or spaces: {shown}. --fold-classes joins them.")
    texts = [name if isinstance(name, str) else "" for name in distinct.tolist()]
    several = np.array([any(one in name for one in SEPARATORS) for name in texts], dtype=bool)[codes]
    number = text_numbers(pl.Series(texts, dtype=pl.String)).is_not_null().to_numpy()[codes]
    if "several labels chosen" in raw.skipped:
        raw.notes.append("answers with several choices were skipped; `crowdprism aggregate --multi` reads them.")
    elif several.any():
        raw.notes.append(f"{first_of(raw, several)} look like several choices; `aggregate --multi` reads them so.")
    elif number.any() and not number.all():
        kind, odd = ("no numbers", ~number) if number.mean() > 0.5 else ("numbers", number)
        raw.notes.append(f"{first_of(raw, odd)} are {kind}, unlike the others; --skip-label leaves answers out.")


def split(cell: Any, separator: str) -> list[Any]:
    """The choices in a cell: a list as it is, text by the separator, nothing for None."""
    if isinstance(cell, str):
        return [part.strip() for part in cell.split(separator) if part.strip()]
    return [] if cell is None else list(cell) if isinstance(cell, list) else [cell]


def first_of(raw: RawAnnotations, rows: Any) -> str:
    first, n_rows = int(np.argmax(rows)), int(rows.sum())
    label, annotator, item = (plain(values[first]) for values in (raw.label, raw.annotator, raw.item))
    return f"{n_rows} of {len(raw.label)} labels (first: {label!r} by annotator {annotator!r} on item {item!r})"


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
    for column in ("item", "annotator", "label"):
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
