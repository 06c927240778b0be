"""CSV cells that no spreadsheet runs as a formula, and that are read back as they were.

The rule: a quote `'` goes before a text that begins with `=`, `+`, `-` or `@` (full-width ones too), also after blanks,
control characters or quotes; numbers such as -3 stay. A table in which any cell or column name was changed in this way
has a last, empty column `crowdprism_escaped`. Only in tables with this column does reading take the quotes away again,
so that a name that begins with `'=` in a file of another program stays what it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import IO, Any

import polars as pl

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
