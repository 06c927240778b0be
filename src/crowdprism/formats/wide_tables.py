"""Wide tables: a row per item, a column per annotator, an empty cell where there is no annotation."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations, ReadingOptions
from crowdprism.formats.tables import SYNONYMS, simplified

MISSING_CELLS = ("", "-1", "-1.0", "nan", "none", "na", "<na>", "null", "?")
MAX_CLASSES_TO_GUESS = 50  # a table with more distinct cells in its first rows is taken for text, not for labels
UNNAMED = ("", "unnamed0", "column1", "index", "id")


def matches_matrix(document: Document) -> bool:
    """Tell whether this is a text of numbers without header, such as `answers.txt`."""
    if document.container != "table":
        return False
    lines = document.head_text.removeprefix("\ufeff").splitlines()
    cells = cells_of(next((line for line in lines if line.strip()), ""))
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


def read_matrix(document: Document, options: ReadingOptions) -> RawAnnotations:
    """Read a matrix of class codes; items and annotators are numbered from 0."""
    rows = [cells_of(line) for line in document.text.splitlines() if line.strip()]
    odd = next((place for place, row in enumerate(rows) if len(row) != len(rows[0])), None)
    if odd is not None:
        raise UnreadableFileError(
            f"{document.name}: row {odd + 1} has {len(rows[odd])} cells where the first has {len(rows[0])}. "
            "Every row of a matrix is an item and has a cell for each annotator (-1 for none)."
        )
    cells = np.array(rows, dtype=object)
    raw = wide(cells, list(range(len(rows))), list(range(cells.shape[1])), markers_of(options))
    raw.columns = {"item": "(row number)", "annotator": "(column number)", "label": "(cells)"}
    raw.label = pl.Series(raw.label, dtype=pl.String)
    raw.n_rows = len(rows)
    return raw


def matches(document: Document, options: ReadingOptions) -> bool:
    """Tell whether the columns look like annotators: cells from few values, the first column naming items."""
    if document.container not in ("table", "parquet") or len(document.columns) < 3:
        return False
    names = [simplified(column) for column in document.columns]
    if any(name in SYNONYMS["annotator"] or name in SYNONYMS["label"] for name in names):
        return False
    first = item_column(document, options)
    start = [document.columns.index(first)] if first is not None else []
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


def item_column(document: Document, options: ReadingOptions) -> str | None:
    """The column that names items: as asked, else the first one if its name says so or it has none."""
    if "item" in options.columns:
        return options.columns["item"]
    first = document.columns[0]
    return first if simplified(first) in UNNAMED or simplified(first) in SYNONYMS["item"] else None


def read(document: Document, options: ReadingOptions) -> RawAnnotations:
    """Read a wide table."""
    frame = document.frame
    first = item_column(document, options)
    if first is not None and document.columns[0] == first:
        first = frame.columns[0]  # a column without name gets one from the table engine
    if first is not None and first not in frame.columns:
        raise UnreadableFileError(f"{document.name} has no column {first!r}. Its columns are {frame.columns}.")
    gold = options.columns.get("gold")
    annotators = [column for column in frame.columns if column not in (first, gold)]
    items = list(range(frame.height)) if first is None else frame[first].to_list()
    cells = np.empty((frame.height, len(annotators)), dtype=object)
    for place, column in enumerate(annotators):
        cells[:, place] = frame[column].cast(pl.String).to_list()
    raw = wide(cells, items, annotators, markers_of(options))
    raw.columns = {"item": first or "(row number)", "annotator": "(column names)", "label": "(cells)"}
    if gold:
        raw.gold_item, raw.gold_label = items, frame[gold].cast(pl.String).to_list()
    raw.n_rows = frame.height
    return raw


def markers_of(options: ReadingOptions) -> tuple[str, ...]:
    """What stands for "no annotation" in a cell, in lower case."""
    return MISSING_CELLS if options.missing is None else ("", *(str(marker).lower() for marker in options.missing))


def wide(cells: Any, items: list[Any], annotators: list[Any], markers: tuple[str, ...]) -> RawAnnotations:
    """Rows of the cells that hold a label; every item and annotator is kept."""
    raw = RawAnnotations({}, is_text=True)
    distinct = {cell: cell is None or cell.strip().lower() in markers for cell in set(cells.reshape(-1).tolist())}
    present = np.array([not distinct[cell] for cell in cells.reshape(-1).tolist()], dtype=bool).reshape(cells.shape)
    row, column = np.nonzero(present)
    raw.item = [items[place] for place in row]
    raw.annotator = [annotators[place] for place in column]
    raw.label = cells[row, column].tolist()
    raw.item_names, raw.annotator_names = items, annotators
    return raw
