"""Long tables, one row per annotation, whatever their columns are called."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from crowdprism.annotations.frames import REQUIRED, find_columns
from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats import text_tables
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import NUMBERS, RawAnnotations

# Exports that are long tables under their own column names.
NAMED_LAYOUTS: dict[str, dict[str, str]] = {
    "netease-crowd": {"item": "taskId", "annotator": "workerId", "label": "answer", "gold": "truth"},
    "spark-crowd": {"item": "example", "annotator": "annotator", "label": "value"},
    "crowd-kit": {"item": "task", "annotator": "worker", "label": "label"},
    "cleanlab": {"item": "task", "annotator": "annotator", "label": "label"},
}
UNFINISHED = ("rejected", "cancelled", "canceled", "draft", "discarded", "skipped", "expired", "returned")
DECIMAL = re.compile(r"[+-]?\d+[.,]\d+")
MISSING_LABELS = ("", "nan", "na", "<na>", "null", "#n/a")
CIFAR10H_ITEMS = ("cifar10_test_test_idx", "image_filename", "item", "image_id", "image")


def is_tabular(document: Document) -> bool:
    return document.container in ("table", "parquet", "json lines") or (
        document.container == "json" and isinstance(document.json, list)
    )


def matches(document: Document) -> bool:
    """Tell whether item, annotator and label columns are there (the annotator may come from the file name)."""
    if not is_tabular(document):
        return False
    named = {role: column for role, column in document.asked.items() if column in document.columns}
    found = find_columns(document.columns, named)
    return all(role in found or role in document.asked for role in needed_roles(document))


def read(document: Document, given: dict[str, str] | None = None) -> RawAnnotations:
    columns = find_columns(document.columns, dict(given if given is not None else document.asked))
    columns = {role: column for role, column in columns.items() if role in REQUIRED or column in document.columns}
    if document.options.annotator_from:
        columns.pop("annotator", None)
    wrong = {role: column for role, column in document.asked.items() if column not in document.columns}
    absent = [f"{column!r} (for {role})" for role, column in wrong.items()]
    absent = absent or [f"for {role}" for role in needed_roles(document) if role not in columns]
    if absent:
        guess = {} if {"gold", *NUMBERS} & set(wrong) else guess_columns(document)
        raise UnreadableFileError(
            f"{document.name} has no column {', '.join(absent)}. Its columns are {some(document.columns, 20)}.",
            remedy="" if guess else "Name the right ones, as in {item:'task'}, {annotator:'worker'}, {label:'answer'}.",
            suggestion=guess,
        )
    frame = document.frame
    raw = RawAnnotations(columns, is_text=document.container == "table")
    raw.n_rows = frame.height
    kept = finished_rows(document, frame, raw)
    kept = labelled_rows(document, frame, kept, raw)
    frame = frame.filter(kept) if not kept.all() else frame
    raw.item, raw.label = column_of(frame[columns["item"]]), column_of(frame[columns["label"]])
    if "annotator" in columns:
        raw.annotator = column_of(frame[columns["annotator"]])
    else:
        raw.annotator = [document.stem] * frame.height
        raw.columns["annotator"] = "(file name)"
    for role in NUMBERS:
        if role in columns:
            take_numbers(document, frame[columns[role]], role, raw)
    if "gold" in columns:
        take_gold(document, frame, raw)
    return raw


def needed_roles(document: Document) -> list[str]:
    return [role for role in REQUIRED if not (role == "annotator" and document.options.annotator_from)]


def guess_columns(document: Document) -> dict[str, str]:
    """Columns by name, or else by value: decimals or few values are labels, more are annotators, most are items."""
    named = {role: column for role, column in document.asked.items() if column in document.columns}
    found = find_columns(document.columns, named)
    roles = needed_roles(document)[::-1]
    free = [column for column in document.columns if column not in found.values()]
    absent = [role for role in roles if role not in found]
    if len(free) < len(absent) or len(document.columns) < len(roles):
        return {}
    rows = [dict(zip(document.columns, row, strict=False)) for row in sample_cells(document)]
    values = {column: {row.get(column, "") for row in rows} for column in free}
    rank = {column: (not any(map(DECIMAL.fullmatch, found)), len(found)) for column, found in values.items()}
    by_values = sorted((column for column in reversed(free) if len(values[column]) > 1), key=rank.__getitem__)
    found |= dict(zip(absent, by_values, strict=False))
    return {role: found[role] for role in REQUIRED if role in found} if len(by_values) >= len(absent) else {}


def finished_rows(document: Document, frame: pl.DataFrame, raw: RawAnnotations) -> pl.Series:
    """Mask of the rows whose status counts (not rejected, draft, ...); all rows if there is no status."""
    kept = pl.Series([True]).new_from_index(0, frame.height)
    if "status" not in frame.columns or document.options.include_rejected or frame["status"].dtype != pl.String:
        return kept
    status = frame["status"].str.to_lowercase().fill_null("")
    for reason in UNFINISHED:
        skipped = (status == reason).arg_true()
        if len(skipped):
            raw.skip(f"status {reason}", document.place(int(skipped[0])), len(skipped))
            kept = kept & (status != reason)
    return kept


def labelled_rows(document: Document, frame: pl.DataFrame, kept: pl.Series, raw: RawAnnotations) -> pl.Series:
    """Mask of the rows with item, annotator and label; a row without one is an error unless it may be skipped."""
    for role in REQUIRED:
        if role not in raw.columns or (role == "label" and document.options.multi):
            continue
        absent = missing_cells(frame[raw.columns[role]], markers_of(document, MISSING_LABELS)) & kept
        if not absent.any():
            continue
        count, first = int(absent.sum()), document.place(int(absent.arg_true()[0]))
        written = [text for text in frame[raw.columns[role]].filter(absent).unique().sort().to_list() if text]
        named = f" {some(written)} counts as missing." if written else ""
        if not document.options.skip_missing:
            raise UnreadableFileError(
                f"{count} of {frame.height} {role}s in column {raw.columns[role]!r} are missing; the first is at "
                f"{first}.{named}",
                remedy="Pass {skip_missing:True} to leave such rows out, or complete the file.",
            )
        raw.skip(f"no {role}", first, count)
        raw.notes += [f"{some(written)} counts as a missing {role}"] if written else []
        kept = kept & ~absent
    return kept


def markers_of(document: Document, default: tuple[str, ...]) -> tuple[str, ...]:
    given = document.options.missing
    return default if given is None else ("", *(str(marker).lower() for marker in given))


def missing_cells(column: pl.Series, markers: tuple[str, ...]) -> pl.Series:
    if column.dtype == pl.String:
        # Only distinct short cells are compared: lower-casing millions of ids would take long.
        short = column.filter(column.str.len_bytes() <= max(map(len, markers))).unique()
        empty = short.filter(short.str.strip_chars().str.to_lowercase().is_in(list(markers)))
        return column.is_null() | column.is_in(empty.to_list()).fill_null(True) if len(empty) else column.is_null()
    if column.dtype.is_float():
        return column.is_null() | column.is_nan().fill_null(True)
    return column.is_null()


def column_of(column: pl.Series) -> Any:
    """A column as `Annotations.from_triplets` takes it."""
    if column.dtype == pl.String:
        return column
    if column.dtype in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    return column.to_numpy() if column.dtype.is_numeric() else column.to_list()


def take_numbers(document: Document, column: pl.Series, role: str, raw: RawAnnotations) -> None:
    """Take a column of numbers or times; one that cannot be read is left out with a note, unless it was asked for."""
    if column.dtype != pl.String:
        raw.numbers[role] = column.to_list() if column.dtype == pl.Object else column.to_numpy()
        return
    numbers = text_tables.text_numbers(column)
    broken = (numbers.is_null() & ~missing_cells(column, MISSING_LABELS)).arg_true()
    if len(broken) and role == "timestamp":  # dates, which are read when the annotations are built
        raw.numbers[role] = [None if text == "" else text for text in column.to_list()]
    elif len(broken):
        problem = (
            f"{len(broken)} of {len(column)} values of {role} in column {column.name!r} are no numbers; the first is "
            f"{column[int(broken[0])]!r} at {document.place(int(broken[0]))}."
        )
        if role in document.asked:
            raise UnreadableFileError(f"{problem} Correct them or name another column.")
        raw.columns.pop(role)
        raw.notes.append(f"{problem} The column is not used.")
    else:
        raw.numbers[role] = numbers.fill_null(1.0 if role == "weight" else float("nan")).to_numpy()


def take_gold(document: Document, frame: pl.DataFrame, raw: RawAnnotations) -> None:
    """Take the true classes that a column of the table gives; a column of marks such as true and false gives none."""
    column = raw.columns["gold"]
    known = frame.filter(~missing_cells(frame[column], MISSING_LABELS))
    found, given = distinct_texts(known[column]), distinct_texts(frame[raw.columns["label"]])
    if found and not found & given and "gold" not in document.asked:
        raw.columns.pop("gold")
        raw.notes.append(
            f"column {column!r} is not used as gold: it holds {some(sorted(found))}, which nobody gave as a label"
        )
        return
    raw.gold_item, raw.gold_label = column_of(known[raw.columns["item"]]), column_of(known[column])


def distinct_texts(column: pl.Series) -> set[str]:
    values = column.to_list() if column.dtype == pl.Object else column.unique().to_list()
    return {str(value).removesuffix(".0") for value in values}  # 1.0 is written 1


def read_cifar10h(document: Document) -> RawAnnotations:
    """Read one row per trial; attention checks are skipped, reaction times are milliseconds."""
    item = next((column for column in CIFAR10H_ITEMS if column in document.columns), None)
    given = {"annotator": "annotator_id", "label": "chosen_label"}
    for role, column in (("item", item), ("gold", "true_label"), ("duration", "reaction_time")):
        if column is not None and column in document.columns:
            given[role] = column
    if "is_attn_check" not in document.columns or document.container != "table":
        raise UnreadableFileError(f"{document.name} has no column 'is_attn_check'. Leave the format out.")
    is_check = document.frame["is_attn_check"].str.to_lowercase().is_in(["1", "1.0", "true"])
    checks = is_check.arg_true()
    document.frame = document.frame.filter(~is_check)
    raw = read(document, {**given, **document.asked})
    raw.n_rows += len(checks)
    if len(checks):
        raw.skip("attention check", document.place(int(checks[0])), len(checks))
    if "duration" in raw.numbers and raw.columns.get("duration") == "reaction_time":
        raw.numbers["duration"] = raw.numbers["duration"] / 1000.0  # to seconds
    return raw


def sample_cells(document: Document) -> list[list[str]]:
    if document.container == "table":
        return document.sample[1][1:]
    return [["" if cell is None else str(cell) for cell in row] for row in document.frame.head(50).rows()]
