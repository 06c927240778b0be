"""Text tables: rows and cells as Python's csv module finds them, read by polars where nothing is doubtful.

A line feed ends a row (with or without a carriage return before it), and nothing else does. A carriage return elsewhere
is content inside quotes and an error outside: other programs would see a new row there.

Cells are written so that no spreadsheet runs them as a formula, and are read back as they were. The rule:
a quote `'` goes before a text that begins with `=`, `+`, `-` or `@` (full-width ones too), also after blanks,
control characters or quotes; numbers such as -3 stay. A table in which any cell or column name was changed in this way
has a last, empty column `crowdprism_escaped`. Only in tables with this column does reading take the quotes away again,
so that a name that begins with `'=` in a file of another program stays what it is.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, NamedTuple

import numpy as np
import polars as pl

from crowdprism.errors import UnreadableFileError, some

MARKER = "crowdprism_escaped"
BLANK = r"[\s\x00-\x20\x7f-\xa0\u200b-\u200f\u2028\u2029\u2060\ufeff]"
FORMULA = rf"^'*{BLANK}*[=+\-@\uff1d\uff0b\uff0d\uff20]"
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
# Characters for which a cell is enclosed in double quotes; some programs end lines at more of them than we do.
SPLITS = r"[\",\t\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|^\s|\s$"
_FORMULA, _NUMBER, _SPLITS = re.compile(FORMULA), re.compile(NUMBER, re.ASCII), re.compile(SPLITS)


def inert(text: str) -> str:
    """Put a quote before text that a spreadsheet would run as a formula."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.match(text) else text


def as_written(cell: str) -> str:
    """Undo `inert`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def write_csv(file: IO[str], columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns as CSV with inert cells; None is an empty cell."""
    plain = [list(columns), *(["" if cell is None else str(cell) for cell in cells] for cells in columns.values())]
    names, *texts = ([inert(text) for text in one] if is_odd(one) else one for one in plain)
    if [names, *texts] != plain:
        names = [*names, MARKER]
        texts.append([""] * len(texts[0]))
    names, *texts = ([quoted(text) for text in one] if is_odd(one) else one for one in (names, *texts))
    file.write(",".join(names) + "\n")
    file.writelines(",".join(row) + "\n" for row in zip(*texts, strict=True))


def is_odd(texts: Sequence[str]) -> bool:
    """Whether any text may need a quote before it or around it."""
    odd = rf"{FORMULA}|{SPLITS}|\x1f"  # which is a blank for Python, but not for polars
    return bool(pl.Series(texts, dtype=pl.String).str.contains(odd).any())


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _SPLITS.search(text) else text


def frame_csv(frame: pl.DataFrame, separator: str = ",") -> bytes:
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    risky = pl.col(texts).str.contains(FORMULA) & ~pl.col(texts).str.contains(NUMBER)
    safe = frame.with_columns(pl.when(risky).then("'" + pl.col(texts)).otherwise(pl.col(texts)).name.keep())
    safe = safe.rename({name: inert(name) for name in frame.columns})
    if not safe.equals(frame) or safe.columns != frame.columns:
        safe = safe.with_columns(pl.lit(None, dtype=pl.String).alias(MARKER))
    odd = any(frame[name].str.contains(SPLITS).any() for name in texts)
    return safe.write_csv(separator=separator, quote_style="non_numeric" if odd else "necessary").encode()


def rows_as_written(rows: list[list[str]]) -> list[list[str]]:
    """The first rows of a table, header included, without what `inert` added."""
    if not rows or MARKER not in rows[0]:
        return rows
    place = rows[0].index(MARKER)
    return [[as_written(cell) for at, cell in enumerate(row) if at != place] for row in rows]


def frame_as_written(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of text whose first row is the header, without what `inert` added."""
    header = list(frame.row(0)) if frame.height else []
    if MARKER not in header:
        return frame
    return without_quotes(frame.drop(frame.columns[header.index(MARKER)]))


def columns_as_written(frame: pl.DataFrame) -> pl.DataFrame:
    """A table with named columns, without what `inert` added."""
    if MARKER not in frame.columns:
        return frame
    plain = without_quotes(frame.drop(MARKER))
    return plain.rename({name: as_written(name) for name in plain.columns})


def without_quotes(frame: pl.DataFrame) -> pl.DataFrame:
    """Undo `inert` in every cell of text."""
    return frame.with_columns(pl.col(pl.String).str.replace(f"^'({FORMULA.removeprefix('^')})", "$1"))


N_SAMPLE = 50
DELIMITERS = (",", "\t", ";", "|")
BLANK_LINES = re.compile(rb"(?:[ \t]*\r?\n)*")
MOST_COLUMNS = 50_000  # more take minutes
QUOTE, LINE_END = ord('"'), ord("\n")


# What decides how a column writes decimals; "1,234" alone could be either.
EU_NUMBER, US_NUMBER = r"^[+-]?\d{1,3}(\.\d{3})*,\d+$", r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$"
ONLY_EU, ONLY_US = r"^[+-]?(0,\d+|\d+,(\d{1,2}|\d{4,})|[\d.]*\.\d{3},\d+)$", r"^[+-]?\d{1,3}(,\d{3})+\.\d+$|,\d{3},"


def text_numbers(column: pl.Series) -> pl.Series:
    """A column of text as numbers, also those with decimal commas or with commas between thousands; else missing."""
    text = column.str.strip_chars()
    found = text.cast(pl.Float64, strict=False)
    other = text.filter(found.is_null() & text.str.len_bytes().gt(0))
    if not len(other):
        return found
    if other.str.contains(EU_NUMBER + r"|^[+-]?\d+,\d+$").all() and other.str.contains(ONLY_EU).any():
        plain = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        plain = plain.zip_with(text.str.contains(",", literal=True).fill_null(False), text)
        return plain.cast(pl.Float64, strict=False)
    if other.str.contains(US_NUMBER).all() and other.str.contains(ONLY_US).any():
        return text.str.replace_all(",", "", literal=True).cast(pl.Float64, strict=False)
    return found


class TableText(NamedTuple):
    """A text table in UTF-8 that begins with its header, and the number of the header's line in the file."""

    data: bytes
    first_line: int


def table_text(data: bytes) -> TableText:
    """Leave out a byte order mark and blank lines at the start."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    found = BLANK_LINES.match(data)
    start = found.end() if found else 0
    return TableText(data[start:], data.count(b"\n", 0, start) + 1)


def sample_rows(text: str, name: str) -> tuple[str, list[list[str]]]:
    """The delimiter that gives most cells in the first row, preferably as many in the next, and the first rows."""
    lines = text.split("\n", N_SAMPLE)[:N_SAMPLE]
    samples = {delimiter: first_rows(lines, delimiter) for delimiter in (*DELIMITERS, " ")}

    def quality(delimiter: str) -> tuple[bool, int]:
        sizes = [len(row) for row in samples[delimiter]]
        return len(set(sizes)) == 1 and sizes[0] > 1, sizes[0] if sizes else 0

    best = max(DELIMITERS, key=quality)
    if quality(best)[1] <= 1:
        best = " " if len(lines[0].split(" ")) > 1 else ","
    if not samples[best]:
        list(csv_rows(text, best, name, 1))
        raise UnreadableFileError(f"{name} holds no table. Check that the file is the export itself.")
    if len(samples[best][0]) > MOST_COLUMNS:
        raise UnreadableFileError(
            f"{name} has {len(samples[best][0])} columns, more than the {MOST_COLUMNS} that are read. Write a long "
            "table, with a row per annotation."
        )
    return best, rows_as_written(samples[best])


def first_rows(lines: list[str], delimiter: str) -> list[list[str]]:
    """Rows of the first lines, up to the first that cannot be parsed."""
    rows: list[list[str]] = []
    with suppress(csv.Error):  # reported with its place when the whole table is read
        rows.extend(row for row in csv.reader((f"{line}\n" for line in lines), delimiter=delimiter) if row)
    return rows


def column_names(header: list[str]) -> list[str]:
    """Names without white space around them; a repeated name gets an ending."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for name in map(str.strip, header):
        found = name
        while found in names[-1:] or seen[found]:
            found = f"{name}_duplicated_{seen[name] - 1}"
            seen[name] += 1
        seen[found] += 1
        names.append(found)
    return names


def read_table(table: TableText, delimiter: str, name: str) -> pl.DataFrame:
    """Read a table, every cell as text; rows without any content are no rows."""
    data, first_line = table
    frame = parse_regular(data, delimiter) if is_regular(data, delimiter) else None
    if frame is None:
        columns = zip(*csv_rows(decode(data, name), delimiter, name, first_line), strict=True)
        frame = pl.DataFrame([pl.Series(str(place), cells, dtype=pl.String) for place, cells in enumerate(columns)])
    frame = frame_as_written(frame.with_columns(pl.all().fill_null("")))
    names = column_names(list(frame.row(0)))
    frame = frame.slice(1).rename(dict(zip(frame.columns, names, strict=True)))
    if not frame.height:
        raise UnreadableFileError(f"{name} has a header ({some(names, 12)}) but no rows. Check the export's filter.")
    blank = frame.select(pl.all_horizontal(pl.all() == "")).to_series()
    return frame.filter(~blank) if blank.any() else frame


def is_regular(data: bytes, delimiter: str) -> bool:
    """Tell whether quotes enclose whole cells and carriage returns end lines, so that all parsers agree."""
    if QUOTE not in data and data.count(b"\r") == data.count(b"\r\n"):
        return True
    sign = re.escape(delimiter.encode())
    cell = rb'(?:"(?:[^"]++|"")*+"|[^"\r\n' + sign + rb"]*+)"
    return re.fullmatch(rb"(?:" + cell + rb"(?:" + sign + rb"|\r?\n|\Z))*+", data) is not None


def parse_regular(data: bytes, delimiter: str) -> pl.DataFrame | None:
    """Read by polars, and compare the number of rows with the line ends; None where polars finds fault."""
    try:
        frame = pl.read_csv(data, separator=delimiter, has_header=False, infer_schema=False)
    except pl.exceptions.PolarsError:  # more cells than the header has, or bytes that are not UTF-8
        return None
    return frame if frame.height == n_rows(data) else None


def n_rows(data: bytes) -> int:
    """Rows of a regular table: line ends outside quotes, and a last row without one."""
    if QUOTE not in data:
        return data.count(b"\n") + (not data.endswith(b"\n"))
    signs = np.frombuffer(data, dtype=np.uint8)
    quotes, ends = np.flatnonzero(signs == QUOTE), np.flatnonzero(signs == LINE_END)
    return int((np.searchsorted(quotes, ends) % 2 == 0).sum()) + (not data.endswith(b"\n"))


def decode(data: bytes, name: str, encoding: str = "utf-8") -> str:
    """Text of bytes; an error names the first byte that cannot be decoded."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableFileError(
            f"{name} is not {error.encoding}: byte 0x{data[error.start]:02x} in line {line} (byte {error.start} of the "
            "file) cannot be decoded.",
            remedy="Pass the right encoding, for example {encoding:'cp1252'} or {encoding:'latin-1'}.",
        ) from error


def csv_rows(text: str, delimiter: str, name: str, first_line: int) -> Iterator[list[str]]:
    """Rows by Python's csv module; too many cells or a misplaced quote or carriage return is an error with its line."""
    rows = csv.reader((f"{line}\n" for line in text.split("\n")), delimiter=delimiter, strict=True)
    width = 0
    try:
        for row in rows:
            width = width or len(row)
            if len(row) > width:
                raise UnreadableFileError(
                    f"{name}: line {rows.line_num + first_line - 1} has {len(row)} cells where the header has {width}. "
                    "Check quotes and delimiters in that line. Nothing was read."
                )
            yield row + [""] * (width - len(row))
    except csv.Error as error:
        why = "a carriage return within a row" if "new-line character" in str(error) else str(error)
        raise UnreadableFileError(
            f"{name} cannot be read as a table: {why} in line {rows.line_num + first_line - 1}. Put cells with quotes "
            "or line ends in quotes, and end lines with a line feed. Nothing was read."
        ) from error
