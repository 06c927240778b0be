"""Wide tables, 0/1 columns, and NumPy files: a matrix, three columns, or what `write_annotations` stored."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.annotations.building import triplets_of_dense
from crowdprism.annotations.frames import REQUIRED, SYNONYMS, find_columns, simplified
from crowdprism.annotations.names import names_from_json
from crowdprism.errors import ResultFormatError, UnreadableFileError, some
from crowdprism.formats import text_tables
from crowdprism.formats.documents import Document
from crowdprism.formats.json_text import StoredNames, parse_json, require_shape
from crowdprism.formats.raw_annotations import NUMBERS, RawAnnotations
from crowdprism.formats.tables import column_of, markers_of, sample_cells

MISSING_CELLS = ("", "-1", "-1.0", "nan", "none", "na", "<na>", "null", "?")  # of wide tables
MAX_CLASSES_TO_GUESS = 50  # a table with more distinct cells in its first rows is taken for text, not for labels
UNNAMED = ("", "unnamed0", "column1", "index", "id")
MOST_CELLS = 1 << 20  # bytes of the first line that show whether it is a row of numbers
NO_ANNOTATORS = (*SYNONYMS["item"], "note", "notes", "comment", "comments", "remark", "remarks", "url", "link", "date")
FEW_VALUES = 8  # a column with no more distinct values may hold labels, whatever others hold
TICKED, NOT_TICKED = ("1", "1.0", "true", "yes", "x"), ("0", "0.0", "false", "no", "")
LABEL_SHARE = 0.5  # of the cells of an annotator's column, at least, that hold a value which another column has too


def matches_matrix(document: Document) -> bool:
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
    if document.options.annotators:
        return True
    names = [simplified(column) for column in document.columns]
    if any(name in SYNONYMS["annotator"] or name in SYNONYMS["label"] for name in names):
        return False
    first = item_column(document)
    other = [place for place, name in enumerate(document.columns) if name in (first, gold_column(document))]
    cells = [cell for row in sample_cells(document) for place, cell in enumerate(row) if place not in other]
    values = {cell.strip().lower() for cell in cells} - set(MISSING_CELLS)
    return 1 <= len(values) <= MAX_CLASSES_TO_GUESS and (first is not None or all(map(is_number, values)))


def item_column(document: Document) -> str | None:
    """The column that names items: as asked, else the first one if its name says so or it has none."""
    if "item" in document.asked:
        return document.asked["item"]
    first = next(iter(document.columns), "")
    return first if simplified(first) in UNNAMED or simplified(first) in SYNONYMS["item"] else None


def gold_column(document: Document) -> str | None:
    known = (column for column in document.columns if simplified(column) in SYNONYMS["gold"])
    return document.asked.get("gold") or next(known, None)


def read_wide(document: Document) -> RawAnnotations:
    """Read a wide table; columns that hold no labels, such as texts and notes, are left out and listed."""
    frame = document.frame
    first, gold = item_column(document), gold_column(document)
    document.require_columns(*filter(None, (first, gold, *(document.options.annotators or ()))))
    free = [column for column in frame.columns if column not in (first, gold)]
    markers = markers_of(document, MISSING_CELLS)
    texts = {column: text_cells(frame[column]) for column in free}
    annotators = list(document.options.annotators or label_columns(texts, markers))
    items = list(range(frame.height)) if first is None else frame[first].to_list()
    cells = np.empty((frame.height, len(annotators)), dtype=object)
    for place, column in enumerate(annotators):
        cells[:, place] = texts[column].to_list()
    raw = labelled_cells(cells, items, annotators, markers)
    raw.columns = {"item": first or "(row number)", "annotator": "(column names)", "label": "(cells)"}
    left_out = [column for column in free if column not in annotators]
    if left_out:
        raw.notes.append(
            f"{len(annotators)} columns are annotators: {some(annotators, 10)}; left out: {some(left_out, 10)}. The "
            "columns can be chosen with --annotators."
        )
    if gold:
        raw.columns["gold"] = gold
        known = [cell is not None and cell.strip().lower() not in markers for cell in text_cells(frame[gold])]
        raw.gold_item = [item for item, is_known in zip(items, known, strict=True) if is_known]
        raw.gold_label = text_cells(frame[gold]).filter(pl.Series(known)).to_list()
    raw.n_rows = frame.height
    return raw


def text_cells(column: pl.Series) -> pl.Series:
    if column.dtype == pl.Object:
        return pl.Series(column.name, [None if cell is None else str(cell) for cell in column], dtype=pl.String)
    return column.cast(pl.String)


def label_columns(texts: dict[str, pl.Series], markers: tuple[str, ...]) -> list[str]:
    """Columns that look like labels: few values, or values shared with other columns; all if fewer than two do."""
    counts = {column: Counter(dict(cells.drop_nulls().value_counts().iter_rows())) for column, cells in texts.items()}
    for column, counted in counts.items():
        counts[column] = Counter({cell: n for cell, n in counted.items() if cell.strip().lower() not in markers})
    columns_with = Counter(cell for counted in counts.values() for cell in counted)
    labels = {cell for cell, n in columns_with.items() if n > 1}
    found = [
        column
        for column, counted in counts.items()
        if simplified(column) not in NO_ANNOTATORS
        and (
            len(counted) <= max(len(labels), FEW_VALUES)
            or sum(n for cell, n in counted.items() if cell in labels) >= LABEL_SHARE * sum(counted.values())
        )
    ]
    return found if len(found) > 1 else list(texts)


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


def guess_annotators(document: Document) -> dict[str, str]:
    """How to read a table whose columns are partly annotators: the options to pass, or nothing."""
    rows = [dict(zip(document.columns, row, strict=False)) for row in sample_cells(document)]
    other = (item_column(document), gold_column(document))
    free = [column for column in document.columns if column not in other]
    texts = {column: pl.Series(column, [row.get(column, "") for row in rows], dtype=pl.String) for column in free}
    found = label_columns(texts, MISSING_CELLS) if texts else []
    if item_column(document) is None or not 2 <= len(found) < len(free):
        return {}
    return {"format": "wide", "annotators": ",".join(found)}


def lowered(column: pl.Series) -> pl.Series:
    return text_cells(column).fill_null("").str.strip_chars().str.to_lowercase()


def tick_columns(document: Document) -> list[str]:
    """Columns of a table, besides item and annotator, that hold nothing but ticks."""
    roles = find_columns(document.columns, dict(document.asked))
    others = [column for column in document.columns if column not in roles.values() and simplified(column) != "status"]
    return [column for column in others if lowered(document.frame[column]).is_in([*TICKED, *NOT_TICKED]).all()]


def matches_ticks(document: Document) -> bool:
    """Tell whether several choices are read and there is a 0/1 column for each, and no column of labels."""
    if not document.options.multi or document.container not in ("table", "parquet"):
        return False
    roles = find_columns(document.columns, dict(document.asked))
    return {"item", "annotator"} <= set(roles) and "label" not in roles and bool(tick_columns(document))


def read_ticks(document: Document) -> RawAnnotations:
    """Read a row per answer and a 0/1 column per choice."""
    roles = find_columns(document.columns, dict(document.asked))
    choices = tick_columns(document)
    if not {"item", "annotator"} <= set(roles) or not choices:
        raise UnreadableFileError(f"{document.name} has no 0/1 columns; it has {some(document.columns, 15)}.")
    for column in [one for one in document.columns if one not in (*choices, *roles.values())]:
        cells = lowered(document.frame[column])
        stray = (~cells.is_in([*TICKED, *NOT_TICKED])).arg_true()
        # A column that mostly says 0 or 1, but not always: leaving it out would lose a choice unseen.
        if len(stray) and cells.is_in([one for one in (*TICKED, *NOT_TICKED) if one]).sum() > cells.len() / 2:
            raise UnreadableFileError(
                f"{document.name}: {len(stray)} of {cells.len()} cells of column {column!r} are neither 0 nor 1; the "
                f"first is {cells[stray[0]]!r} in row {stray[0]} (from 0). Correct them, or leave the column out."
            )
    columns = {"item": roles["item"], "annotator": roles["annotator"], "label": ", ".join(choices)}
    raw = RawAnnotations(columns, is_text=document.container == "table")
    raw.item, raw.annotator = (column_of(document.frame[roles[role]]) for role in ("item", "annotator"))
    ticked = [lowered(document.frame[column]).is_in(TICKED).to_list() for column in choices]
    raw.label = [[name for name, one in zip(choices, row, strict=True) if one] for row in zip(*ticked, strict=True)]
    raw.n_rows, raw.classes = document.frame.height, choices
    return raw


MATRIX_NAMES = ("annotations", "answers", "labels", "votes", "crowd_labels", "label", "arr_0")
NAMES_MEMBER = "crowdprism_names"


def matches_arrays(document: Document) -> bool:
    wanted = (NAMES_MEMBER, *MATRIX_NAMES, document.asked.get("label"))
    is_known = document.container == "npz" and any(name in document.arrays for name in wanted)
    return is_known or document.container == "npy"


def read_arrays(document: Document) -> RawAnnotations:
    if document.container not in ("npy", "npz"):
        raise UnreadableFileError(f"{document.name} is {document.seen()} and no NumPy file. Leave the format out.")
    loaded = document.arrays
    if document.container == "npy":
        return from_matrix(document, loaded[""], "(the array)")
    if NAMES_MEMBER in loaded:
        return from_stored(document, loaded)
    are_there = all(column in loaded for column in document.asked.values())
    columns = find_columns(list(loaded), dict(document.asked))
    if are_there and all(role in columns and loaded[columns[role]].ndim == 1 for role in REQUIRED):
        return from_columns(document, loaded, columns)
    matrix = next((name for name in (document.asked.get("label"), *MATRIX_NAMES) if name in loaded), None)
    if not are_there or matrix is None or loaded[matrix].ndim != 2:
        there = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in loaded.items())
        raise UnreadableFileError(
            f"{document.name} holds neither a matrix of labels nor item, annotator and label arrays; it has {there}.",
            remedy="Name the matrix with {label}, or the three arrays with {item}, {annotator}, {label}",
        )
    raw = from_matrix(document, loaded[matrix], matrix)
    gold = columns.get("gold")
    if gold is not None:
        require_same_length(document, {matrix: loaded[matrix][:, 0], gold: loaded[gold]})
        raw.columns["gold"] = gold
        raw.gold_item, raw.gold_label = raw.item_names, loaded[gold].tolist()
    return raw


def require_same_length(document: Document, arrays: dict[str, NDArray[Any]]) -> None:
    if len({array.shape for array in arrays.values()}) > 1 or any(array.ndim != 1 for array in arrays.values()):
        listed = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise UnreadableFileError(f"{document.name}: arrays have different shapes: {listed}. Save it again.")


def from_matrix(document: Document, matrix: NDArray[Any], name: str) -> RawAnnotations:
    """A matrix items x annotators; -1 and NaN are no annotation."""
    if matrix.ndim != 2:
        raise UnreadableFileError(f"{document.name} has the shape {list(matrix.shape)}; save items x annotators.")
    marker = document.options.missing[0] if document.options.missing else -1 if matrix.dtype.kind in "iuf" else ""
    items, annotators, labels, shape = triplets_of_dense(matrix, marker)
    raw = RawAnnotations({"item": "(row)", "annotator": "(column)", "label": name}, is_text=False)
    raw.item, raw.annotator, raw.label = items, annotators, labels
    raw.item_names, raw.annotator_names, raw.n_rows = list(range(shape[0])), list(range(shape[1])), shape[0]
    raw.n_answers = len(items)  # a cell without label is no answer
    return raw


def from_columns(document: Document, loaded: dict[str, NDArray[Any]], columns: dict[str, str]) -> RawAnnotations:
    raw = RawAnnotations(columns, is_text=False)
    roles = [role for role in (*REQUIRED, *NUMBERS) if role in columns]
    require_same_length(document, {columns[role]: loaded[columns[role]] for role in roles})
    raw.item, raw.annotator, raw.label = (loaded[columns[role]] for role in REQUIRED)
    raw.numbers = {role: loaded[columns[role]] for role in NUMBERS if role in columns}
    raw.n_rows = len(raw.label)
    if "gold" in columns and loaded[columns["gold"]].shape == raw.item.shape:
        raw.gold_item, raw.gold_label = raw.item.tolist(), loaded[columns["gold"]].tolist()
    return raw


def from_stored(document: Document, loaded: dict[str, NDArray[Any]]) -> RawAnnotations:
    """What `write_annotations` stored, names and their types included."""
    names = stored_names(document, loaded[NAMES_MEMBER])
    absent = [name for name in ("item_start", "annotator", "label") if name not in loaded]
    if absent:
        raise UnreadableFileError(f"{document.name} is incomplete: it has no array {absent[0]!r}. Write it again.")
    start = loaded["item_start"]
    require_same_length(document, {name: loaded[name] for name in ("annotator", "label", *NUMBERS) if name in loaded})
    require_codes(document, "item_start", start, len(loaded["label"]) + 1, len(names["items"]) + 1)
    per_item: NDArray[np.int64] = np.subtract(start[1:], start[:-1], dtype=np.int64)
    if start[0] != 0 or start[-1] != len(loaded["label"]) or (per_item < 0).any():
        raise UnreadableFileError(f"{document.name} is damaged: item_start does not divide the labels into items.")
    item = np.repeat(np.arange(len(names["items"])), per_item)
    require_codes(document, "annotator", loaded["annotator"], len(names["annotators"]))
    require_codes(document, "label", loaded["label"], len(names["classes"]))
    raw = RawAnnotations({"item": "items", "annotator": "annotator", "label": "label"}, is_text=False)
    raw.item, raw.annotator = names["items"][item], names["annotators"][loaded["annotator"]]
    raw.label, raw.n_rows = names["classes"][loaded["label"]], len(item)
    raw.numbers = {name: loaded[name] for name in NUMBERS if name in loaded}
    raw.keeps_order = True
    raw.item_names, raw.annotator_names, raw.classes = (found.tolist() for found in names.values())
    if "gold" in loaded:
        require_codes(document, "gold", loaded["gold"], len(names["classes"]), len(names["items"]))
        mask = loaded.get("gold_mask", np.zeros(0, dtype=bool))
        require_same_length(document, {"gold": loaded["gold"], "gold_mask": mask})
        known = ~mask.astype(bool)
        raw.gold_item = names["items"][known].tolist()
        raw.gold_label = names["classes"][loaded["gold"][known]].tolist()
    return raw


def stored_names(document: Document, stored: NDArray[Any]) -> dict[str, NDArray[Any]]:
    found = parse_json(stored.tobytes().decode(errors="replace"), document.name)
    require_shape([found], dict[str, StoredNames], lambda _: f"{document.name}, {NAMES_MEMBER}")
    try:
        return {role: names_from_json(found[role]) for role in ("items", "annotators", "classes")}
    except (ResultFormatError, KeyError) as error:
        raise UnreadableFileError(f"{document.name}: {NAMES_MEMBER} is damaged ({error}). Write it again.") from error


def require_codes(document: Document, name: str, codes: NDArray[Any], n_codes: int, length: int | None = None) -> None:
    """Stop at codes that are no whole numbers below `n_codes`, or too few of them."""
    is_list = codes.ndim == 1 and codes.dtype.kind in "iu" and (length is None or len(codes) == length)
    if not is_list or int(codes.min()) < 0 or int(codes.max()) >= n_codes:
        raise UnreadableFileError(
            f"{document.name} is damaged: {name} ({codes.dtype} of shape {list(codes.shape)}) does not fit the names; "
            f"expected whole numbers from 0 to {n_codes - 1}. Write it again."
        )
