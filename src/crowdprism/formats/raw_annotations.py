"""What every reader hands over: raw columns, what was skipped, and how fields were mapped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from crowdprism.errors import InvalidAnnotationsError
from crowdprism.formats.reading_report import Skipped

NUMBERS = ("weight", "duration", "timestamp")
WHOLE_NUMBER = r"^(?:0|-?[1-9][0-9]{0,17})$"  # as Python writes it; "007" stays text, and 18 digits fit int64
WHOLE_FLOAT = r"^(?:0|-?[1-9][0-9]{0,17})\.0$"  # what pandas makes of whole numbers where some are missing


@dataclass(frozen=True)
class ReadingOptions:
    """What the caller said about a file."""

    columns: Mapping[str, str] = field(default_factory=dict)
    include_rejected: bool = False
    skip_missing: bool = False
    annotator_from: str | None = None
    missing: Sequence[Any] | None = None
    encoding: str = "utf-8"


class RawAnnotations:
    """Rows as a file gives them, collected one by one or as whole columns.

    `is_text` says that the file has no types (CSV): ids that all look like whole numbers are then whole numbers.
    """

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
        self.skipped: dict[str, Skipped] = {}
        self.notes: list[str] = []
        self.content: dict[Any, Any] = {}

    def add(self, item: Any, annotator: Any, label: Any, **numbers: Any) -> None:
        """Add one annotation; every call names the same numbers."""
        self.item.append(item)
        self.annotator.append(annotator)
        self.label.append(label)
        for name, value in numbers.items():
            self.numbers.setdefault(name, []).append(value)

    def skip(self, reason: str, place: str, count: int = 1) -> None:
        """Count rows that are left out."""
        before = self.skipped.get(reason)
        self.skipped[reason] = Skipped(count, place) if before is None else Skipped(before.count + count, before.first)

    def add_gold(self, item: Any, label: Any) -> None:
        """Note the true class of an item."""
        self.gold_item.append(item)
        self.gold_label.append(label)

    def see_content(self, item: Any, content: Any, place: str) -> None:
        """Remember what an id stands for: projects number their items from 1 each, and would be mixed up."""
        known = self.content.setdefault(item, (content, place))
        require_same_content(item, known, (content, place))


def require_same_content(item: Any, first: tuple[Any, str], second: tuple[Any, str]) -> None:
    """Stop where one id stands for two different things."""
    if first[0] != second[0]:
        raise InvalidAnnotationsError(
            f"Item id {item!r} stands for different content in {first[1]} and in {second[1]}: the projects number "
            "their items apart. Pass item=... with a field that is the same everywhere, such as the file name or text."
        )


def merged(parts: Sequence[RawAnnotations]) -> RawAnnotations:
    """Put the rows of several files together."""
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
        for item, seen in part.content.items():
            require_same_content(item, whole.content.setdefault(item, seen), seen)
    return whole


def joined(columns: Sequence[Any]) -> Any:
    """Columns end to end; polars columns stay polars where all are."""
    if all(isinstance(column, pl.Series) for column in columns):
        return pl.concat([column.cast(pl.String) for column in columns]) if len(columns) > 1 else columns[0]
    return [value for column in columns for value in (column.to_list() if isinstance(column, pl.Series) else column)]


def type_text(raw: RawAnnotations, *, classes_are_text: bool = False) -> None:
    """Turn ids of a file without types into whole numbers where every one of them is written as one.

    Items go with the items of gold, and labels with gold labels, so that they stay comparable.
    """
    if not raw.is_text:
        return
    raw.item, raw.gold_item, raw.item_names = whole_numbers_together(raw.item, raw.gold_item, raw.item_names)
    raw.annotator, raw.annotator_names = whole_numbers_together(raw.annotator, raw.annotator_names)
    if not classes_are_text:
        raw.label, raw.gold_label = whole_numbers_together(raw.label, raw.gold_label)


def whole_numbers_together(*columns: Any) -> list[Any]:
    """Return the columns as whole numbers if all their texts are written as such, else as they came."""
    try:
        texts = [None if column is None else as_text_series(column) for column in columns]
    except TypeError:  # already typed, as the positions of a matrix
        return list(columns)
    distinct = [text.unique() for text in texts if text is not None and len(text)]
    if not distinct:
        return list(columns)
    kind = whole_number_form(distinct)
    if kind is None:
        return [column if text is None else text for text, column in zip(texts, columns, strict=True)]
    return [None if text is None else to_whole_numbers(text, kind) for text in texts]


def as_text_series(column: Any) -> pl.Series:
    """A column of text as a polars column."""
    return column if isinstance(column, pl.Series) else pl.Series(column, dtype=pl.String)


def whole_number_form(columns: Iterable[pl.Series]) -> str | None:
    """Return which way of writing whole numbers all texts share, if any."""
    columns = list(columns)
    for form in (WHOLE_NUMBER, WHOLE_FLOAT):
        if all(column.str.contains(form).all(ignore_nulls=False) for column in columns):
            return form
    return None


def to_whole_numbers(text: pl.Series, form: str) -> Any:
    """Cast texts that are known to be whole numbers."""
    if form == WHOLE_FLOAT:
        text = text.str.strip_suffix(".0")
    return text.cast(pl.Int64).to_numpy()
