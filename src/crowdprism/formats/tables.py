"""Tables: long (one row per annotation) and wide (a row per item, a column per annotator), whatever their columns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl

from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats import text_tables
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import NUMBERS, RawAnnotations

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
MISSING_CELLS = ("", "-1", "-1.0", "nan", "none", "na", "<na>", "null", "?")  # of wide tables
MAX_CLASSES_TO_GUESS = 50  # a table with more distinct cells in its first rows is taken for text, not for labels
UNNAMED = ("", "unnamed0", "column1", "index", "id")
CIFAR10H_ITEMS = ("cifar10_test_test_idx", "image_filename", "item", "image_id", "image")
MILLISECONDS = 1000.0
MOST_CELLS = 1 << 20  # bytes of the first line that show whether it is a row of numbers


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


def matches(document: Document) -> bool:
    """Tell whether item, annotator and label columns are there (the annotator may come from the file name)."""
    if not is_tabular(document):
        return False
    needed = [role for role in REQUIRED if not (role == "annotator" and document.options.annotator_from)]
    named = {role: column for role, column in document.asked.items() if column in document.columns}
    found = find_columns(document.columns, named)
    return all(role in found or role in document.asked for role in needed)


def read(document: Document, given: dict[str, str] | None = None) -> RawAnnotations:
    """Read a long table."""
    columns = find_columns(document.columns, dict(given if given is not None else document.asked))
    columns = {role: column for role, column in columns.items() if role in REQUIRED or column in document.columns}
    if document.options.annotator_from:
        columns.pop("annotator", None)
    require_columns(document, columns)
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
            raw.numbers[role] = numbers_of(document, frame[columns[role]], role)
    if "gold" in columns:
        take_gold(frame, columns, raw)
    return raw


def require_columns(document: Document, columns: dict[str, str]) -> None:
    """Stop where a column that is needed is not there, and list those that are."""
    needed = [role for role in REQUIRED if not (role == "annotator" and document.options.annotator_from)]
    asked = [f"{column!r} (for {role})" for role, column in document.asked.items() if column not in document.columns]
    absent = asked or [f"for {role}" for role in needed if role not in columns]
    if absent:
        raise UnreadableFileError(
            f"{document.name} has no column {', '.join(absent)}. Its columns are {some(document.columns, 20)}.",
            remedy="Name the right ones, for example {item:'task'}, {annotator:'worker'}, {label:'answer'}.",
        )


def finished_rows(document: Document, frame: pl.DataFrame, raw: RawAnnotations) -> pl.Series:
    """Mask of the rows whose status (if there is one) does not say that they do not count."""
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
        if role not in raw.columns:
            continue
        absent = missing_cells(frame[raw.columns[role]], markers_of(document, MISSING_LABELS)) & kept
        if not absent.any():
            continue
        count, first = int(absent.sum()), document.place(int(absent.arg_true()[0]))
        if not document.options.skip_missing:
            raise UnreadableFileError(
                f"{count} of {frame.height} {role}s in column {raw.columns[role]!r} are missing; the first is at "
                f"{first}.",
                remedy="Pass {skip_missing:True} to leave such rows out, or complete the file.",
            )
        raw.skip(f"no {role}", first, count)
        kept = kept & ~absent
    return kept


def markers_of(document: Document, default: tuple[str, ...]) -> tuple[str, ...]:
    """What stands for a missing cell, in lower case."""
    given = document.options.missing
    return default if given is None else ("", *(str(marker).lower() for marker in given))


def missing_cells(column: pl.Series, markers: tuple[str, ...]) -> pl.Series:
    """Mask of the cells that hold nothing."""
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
    raw.gold_item, raw.gold_label = column_of(known[columns["item"]]), column_of(known[columns["gold"]])


def matches_cifar10h(document: Document) -> bool:
    """Tell whether these are raw answers with attention checks."""
    return document.container == "table" and {"annotator_id", "chosen_label", "is_attn_check"} <= set(document.columns)


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
        raw.numbers["duration"] = raw.numbers["duration"] / MILLISECONDS
    return raw


def matches_matrix(document: Document) -> bool:
    """Tell whether this is a text of numbers without header, such as `answers.txt`."""
    if document.container != "table":
        return False
    cells = cells_of(document.table.data.partition(b"\n")[0][:MOST_CELLS].decode(errors="replace"))
    # 0, 1, 2, ... in the first line are the names of columns, not labels.
    return all(map(is_number, cells)) and not (len(cells) > 2 and cells == [str(n) for n in range(len(cells))])


def cells_of(line: str) -> list[str]:
    """The cells of a line of numbers, delimited by white space, comma or semicolon."""
    delimiter = next((one for one in ",;\t" if one in line), None)
    return [cell.strip() for cell in line.strip("\r\n").split(delimiter)] if delimiter else line.split() or ["?"]


def is_number(cell: str) -> bool:
    """Tell whether a cell is a number (NaN included)."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def read_matrix(document: Document) -> RawAnnotations:
    """Read a matrix of class codes; items and annotators are numbered from 0."""
    text = text_tables.decode(document.table.data, document.name)
    if "\r" in text.replace("\r\n", "\n"):
        raise UnreadableFileError(f"{document.name} has a carriage return within a row. End lines with a line feed.")
    rows = [cells_of(line) for line in text.split("\n") if line.strip()]
    odd = next((place for place, row in enumerate(rows) if len(row) != len(rows[0])), None)
    if odd is not None:
        raise UnreadableFileError(
            f"{document.name}: row {odd + 1} has {len(rows[odd])} cells where the first has {len(rows[0])}. "
            "Every row of a matrix is an item and has a cell for each annotator (-1 for none)."
        )
    cells = np.array(rows, dtype=object)
    items, annotators = list(range(len(rows))), list(range(cells.shape[1]))
    raw = labelled_cells(cells, items, annotators, markers_of(document, MISSING_CELLS))
    raw.columns = {"item": "(row number)", "annotator": "(column number)", "label": "(cells)"}
    raw.n_rows = len(rows)
    return raw


def matches_wide(document: Document) -> bool:
    """Tell whether the columns look like annotators: cells from few values, the first column naming items."""
    if document.container not in ("table", "parquet") or len(document.columns) < 3:
        return False
    names = [simplified(column) for column in document.columns]
    if any(name in SYNONYMS["annotator"] or name in SYNONYMS["label"] for name in names):
        return False
    first = item_column(document)
    start = [document.columns.index(first)] if first in document.columns else []
    cells = [cell for row in sample_cells(document) for place, cell in enumerate(row) if place not in start]
    values = {cell.strip().lower() for cell in cells} - set(MISSING_CELLS)
    if first is not None:
        return 1 <= len(values) <= MAX_CLASSES_TO_GUESS
    return bool(values) and len(values) <= MAX_CLASSES_TO_GUESS and all(is_number(value) for value in values)


def sample_cells(document: Document) -> list[list[str]]:
    """Cells of the first rows as text."""
    if document.container == "table":
        return document.sample_rows[1:]
    return [["" if cell is None else str(cell) for cell in row] for row in document.frame.head(50).rows()]


def item_column(document: Document) -> str | None:
    """The column that names items: as asked, else the first one if its name says so or it has none."""
    if "item" in document.asked:
        return document.asked["item"]
    first = next(iter(document.columns), "")
    return first if simplified(first) in UNNAMED or simplified(first) in SYNONYMS["item"] else None


def read_wide(document: Document) -> RawAnnotations:
    """Read a wide table."""
    frame = document.frame
    first = item_column(document)
    gold = document.asked.get("gold")
    absent = [column for column in (first, gold) if column is not None and column not in frame.columns]
    if absent:
        raise UnreadableFileError(f"{document.name} has no column {absent[0]!r}; it has {some(frame.columns, 15)}.")
    annotators = [column for column in frame.columns if column not in (first, gold)]
    items = list(range(frame.height)) if first is None else frame[first].to_list()
    cells = np.empty((frame.height, len(annotators)), dtype=object)
    for place, column in enumerate(annotators):
        cells[:, place] = frame[column].cast(pl.String).to_list()
    raw = labelled_cells(cells, items, annotators, markers_of(document, MISSING_CELLS))
    raw.columns = {"item": first or "(row number)", "annotator": "(column names)", "label": "(cells)"}
    if gold:
        raw.gold_item, raw.gold_label = items, frame[gold].cast(pl.String).to_list()
    raw.n_rows = frame.height
    return raw


def labelled_cells(cells: Any, items: list[Any], annotators: list[Any], markers: tuple[str, ...]) -> RawAnnotations:
    """Rows of the cells that hold a label; every item and annotator is kept."""
    raw = RawAnnotations({}, is_text=True)
    distinct = {cell: cell is None or cell.strip().lower() in markers for cell in set(cells.reshape(-1).tolist())}
    present = np.array([not distinct[cell] for cell in cells.reshape(-1).tolist()], dtype=bool).reshape(cells.shape)
    row, column = np.nonzero(present)
    raw.item = [items[place] for place in row]
    raw.annotator = [annotators[place] for place in column]
    raw.label = cells[row, column].tolist()
    raw.item_names, raw.annotator_names, raw.n_answers = items, annotators, int(present.sum())
    return raw
