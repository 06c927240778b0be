"""Long tables: one row per annotation, whatever the columns are called."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import NUMBERS, RawAnnotations, ReadingOptions

# Names as they occur in exports, compared without case and punctuation; the first that a table has is taken.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "item": (
        "item", "itemid", "task", "taskid", "example", "exampleid", "object", "objectid", "unit", "unitid", "instance",
        "instanceid", "sample", "sampleid", "question", "questionid", "document", "documentid", "docid", "image",
        "imageid", "imagefilename", "filename", "file", "text", "sentence", "tweetid", "dataid", "id", "index",
    ),
    "annotator": (
        "annotator", "annotatorid", "worker", "workerid", "performer", "rater", "raterid", "labeler", "labelerid",
        "labeller", "labellerid", "coder", "coderid", "judge", "judgeid", "user", "userid", "username", "participant",
        "participantid", "person", "contributor", "contributorid", "expert", "source", "completedby", "email",
    ),
    "label": (
        "label", "answer", "response", "value", "annotation", "judgment", "judgement", "class", "category", "choice",
        "chosenlabel", "givenlabel", "vote", "rating", "verdict", "decision", "output", "classification",
    ),
    "weight": ("weight",),
    "duration": ("duration", "times", "durations", "seconds", "leadtime", "timespentinseconds", "worktimeinseconds"),
    "timestamp": ("timestamp", "createdat", "submittedat", "submittime", "submissiontime", "datetime"),
    "gold": ("gold", "goldlabel", "truth", "truelabel", "groundtruth", "trueclass", "golden"),
}  # fmt: skip
REQUIRED = ("item", "annotator", "label")
# Exports that are long tables under their own column names.
NAMED_LAYOUTS: dict[str, dict[str, str]] = {
    "netease-crowd": {"item": "taskId", "annotator": "workerId", "label": "answer", "gold": "truth"},
    "spark-crowd": {"item": "example", "annotator": "annotator", "label": "value"},
    "crowd-kit": {"item": "task", "annotator": "worker", "label": "label"},
    "cleanlab": {"item": "task", "annotator": "annotator", "label": "label"},
}
UNFINISHED = ("rejected", "cancelled", "canceled", "draft", "discarded", "skipped", "expired", "returned")
MISSING_LABELS = ("", "nan", "na", "<na>", "null", "#n/a")


def simplified(name: str) -> str:
    """A column name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find_columns(columns: list[str], given: dict[str, str] | None = None) -> dict[str, str]:
    """Map roles to columns: as given, else by name."""
    given = dict(given or {})
    free = {simplified(column): column for column in reversed(columns) if column not in given.values()}
    for role, names in SYNONYMS.items():
        if role not in given:
            name = next((name for name in names if name in free), None)
            if name is not None:
                given[role] = free.pop(name)
    return {role: given[role] for role in SYNONYMS if role in given}


def matches_layout(document: Document, layout: dict[str, str]) -> bool:
    """Tell whether a table has exactly the columns that a layout needs."""
    return is_tabular(document) and all(layout[role] in document.columns for role in REQUIRED)


def is_tabular(document: Document) -> bool:
    """Tell whether a document is a table or a list of flat records."""
    return document.container in ("table", "parquet", "json lines") or (
        document.container == "json" and isinstance(document.json, list)
    )


def matches(document: Document, options: ReadingOptions) -> bool:
    """Tell whether item, annotator and label columns are there (the annotator may come from the file name)."""
    if not is_tabular(document):
        return False
    needed = [role for role in REQUIRED if not (role == "annotator" and options.annotator_from)]
    named = {role: column for role, column in options.columns.items() if column in document.columns}
    found = find_columns(document.columns, named)
    return all(role in found or role in options.columns for role in needed)


def read_layout(name: str) -> Any:
    """Return the reader of a named layout."""

    def read_named(document: Document, options: ReadingOptions) -> RawAnnotations:
        return read(document, options, {**NAMED_LAYOUTS[name], **options.columns})

    return read_named


def read(document: Document, options: ReadingOptions, given: dict[str, str] | None = None) -> RawAnnotations:
    """Read a long table."""
    columns = find_columns(document.columns, dict(given if given is not None else options.columns))
    columns = {role: column for role, column in columns.items() if role in REQUIRED or column in document.columns}
    if options.annotator_from:
        columns.pop("annotator", None)
    require_columns(document, columns, options)
    frame = document.frame
    raw = RawAnnotations(columns, is_text=document.container == "table")
    raw.n_rows = frame.height
    kept = finished_rows(document, frame, raw, options)
    kept = labelled_rows(document, frame, kept, raw, options)
    frame = frame.filter(kept) if not kept.all() else frame
    raw.item, raw.label = column_of(frame[columns["item"]]), column_of(frame[columns["label"]])
    if "annotator" in columns:
        raw.annotator = column_of(frame[columns["annotator"]])
    else:
        raw.annotator = [document.stem] * frame.height
        raw.columns["annotator"] = "(file name)"
    for role in NUMBERS:
        if role in columns:
            raw.numbers[role] = numbers_of(document, frame[columns[role]], role)
    if "gold" in columns:
        take_gold(frame, columns, raw)
    return raw


def require_columns(document: Document, columns: dict[str, str], options: ReadingOptions) -> None:
    """Stop where a column that is needed is not there, and list those that are."""
    needed = [role for role in REQUIRED if not (role == "annotator" and options.annotator_from)]
    asked = [f"{column!r} (for {role})" for role, column in options.columns.items() if column not in document.columns]
    absent = asked or [f"for {role}" for role in needed if role not in columns]
    if absent:
        raise UnreadableFileError(
            f"{document.name} has no column {', '.join(absent)}. Its columns are {some(document.columns, 20)}. "
            "Name the right ones, for example item='task', annotator='worker', label='answer'."
        )


def finished_rows(document: Document, frame: pl.DataFrame, raw: RawAnnotations, options: ReadingOptions) -> pl.Series:
    """Mask of the rows whose status (if there is one) does not say that they do not count."""
    kept = pl.Series([True]).new_from_index(0, frame.height)
    if "status" not in frame.columns or options.include_rejected or frame["status"].dtype != pl.String:
        return kept
    status = frame["status"].str.to_lowercase().fill_null("")
    for reason in UNFINISHED:
        skipped = (status == reason).arg_true()
        if len(skipped):
            raw.skip(f"status {reason}", document.place(int(skipped[0])), len(skipped))
            kept = kept & (status != reason)
    return kept


def labelled_rows(
    document: Document, frame: pl.DataFrame, kept: pl.Series, raw: RawAnnotations, options: ReadingOptions
) -> pl.Series:
    """Mask of the rows with item, annotator and label; a row without one is an error unless it may be skipped."""
    for role in REQUIRED:
        if role not in raw.columns:
            continue
        absent = missing_cells(frame[raw.columns[role]], markers_of(options)) & kept
        if not absent.any():
            continue
        count, first = int(absent.sum()), document.place(int(absent.arg_true()[0]))
        if not options.skip_missing:
            raise UnreadableFileError(
                f"{count} of {frame.height} {role}s in column {raw.columns[role]!r} are missing; the first is at "
                f"{first}.",
                remedy="Pass {skip_missing:True} to leave such rows out, or complete the file.",
            )
        raw.skip(f"no {role}", first, count)
        kept = kept & ~absent
    return kept


def markers_of(options: ReadingOptions) -> tuple[str, ...]:
    """What stands for a missing cell, in lower case."""
    return MISSING_LABELS if options.missing is None else ("", *(str(marker).lower() for marker in options.missing))


def missing_cells(column: pl.Series, markers: tuple[str, ...]) -> pl.Series:
    """Mask of the cells that hold nothing."""
    if column.dtype == pl.String:
        short = column.str.len_bytes() <= max(map(len, markers))  # lower-casing millions of ids would cost
        if not short.any():
            return column.is_null()
        return column.is_null() | (
            short & column.str.strip_chars().str.to_lowercase().is_in(list(markers)).fill_null(True)
        )
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


def numbers_of(document: Document, column: pl.Series, role: str) -> Any:
    """A column of numbers; text is converted, and text that is no number is an error with its place."""
    if column.dtype != pl.String:
        return column.to_list() if column.dtype == pl.Object else column.to_numpy()
    numbers = column.cast(pl.Float64, strict=False)
    broken = (numbers.is_null() & ~missing_cells(column, MISSING_LABELS)).arg_true()
    if len(broken) and role == "timestamp":
        return [None if text == "" else text for text in column.to_list()]
    if len(broken):
        raise UnreadableFileError(
            f"{len(broken)} of {len(column)} values of {role} in column {column.name!r} are no numbers; the first is "
            f"{column[int(broken[0])]!r} at {document.place(int(broken[0]))}. Correct them or name another column."
        )
    return numbers.fill_null(1.0 if role == "weight" else float("nan")).to_numpy()


def take_gold(frame: pl.DataFrame, columns: dict[str, str], raw: RawAnnotations) -> None:
    """Take the true classes that a column of the table gives."""
    known = frame.filter(~missing_cells(frame[columns["gold"]], MISSING_LABELS))
    raw.gold_item, raw.gold_label = known[columns["item"]].to_list(), known[columns["gold"]].to_list()
