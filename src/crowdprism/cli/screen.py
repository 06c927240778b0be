"""What the commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import io
import json
import math
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from rich.console import Console

BAD_INPUT = 2
INCOMPLETE = 3
INTERRUPTED = 130  # the convention of shells: 128 plus the number of the signal
NOTHING_KEPT = "nothing was written. Run the same command to start again."
ASCII = ("ascii", "us-ascii", "ansi_x3.4-1968", "646")
MOST_ROWS = 100  # of a table; --json has all
MIN_NAME_WIDTH = 18  # names up to this length are never cut
_quiet = False
_verbose = False
_start = time.monotonic()
_interrupted = False
_log: list[str] = []  # for the log of a run, whether printed or not


def set_loudness(*, quiet: bool = False, verbose: bool = False) -> None:
    """Leave out remarks and warnings; or print the time before each remark, and the traceback of errors."""
    global _quiet, _verbose
    _quiet, _verbose = quiet, verbose


def make_output_printable() -> None:
    """Let any name be printed: in UTF-8 into pipes set to ASCII, escaped where a terminal cannot show it."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        ascii_pipe = stream.encoding.lower() in ASCII and not stream.isatty()
        stream.reconfigure(encoding="utf-8" if ascii_pipe else None, errors="backslashreplace")


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def add_to_log(text: str) -> None:
    _log.append(f"{datetime.now():%H:%M:%S} {text}")


def log_text() -> str:
    return "".join(f"{line}\n" for line in _log)


def printable(text: str) -> str:
    """Text without characters that control a terminal; line ends stay."""
    if text.replace("\n", "").isprintable():
        return text
    from crowdprism.annotations.notebook import visible

    return "\n".join(map(visible, text.split("\n")))


def print_lines(*texts: str) -> None:
    print(printable("\n".join(texts)))


def remark(text: str) -> None:
    """Print something that is not the result."""
    add_to_log(text)
    if not _quiet:
        when = f"{time.monotonic() - _start:6.2f} s  " if _verbose else ""
        print(f"{when}{printable(text)}", file=sys.stderr)


def print_labelled(label: str, style: str, text: str) -> None:
    """Print a message after a coloured word; names from data are never taken as markup."""
    from rich.text import Text

    console(stderr=True).print(Text(f"{label}: ", style=style) + Text(printable(text)))


def print_error(text: str) -> None:
    if _verbose and sys.exc_info()[0] is not None:
        import traceback

        print(traceback.format_exc(), file=sys.stderr)
    print_labelled("error", "bold red", text)


def print_warning(message: Warning | str, *place: object, **more: object) -> None:
    """Print a Python warning as a sentence, without the place in the code that issued it."""
    add_to_log(f"warning: {message}")
    if not _quiet:
        print_labelled("warning", "bold yellow", str(message))


def print_interrupted(kept: str) -> None:
    """After Ctrl-C, print what was kept and how to continue, unless that was already printed."""
    global _interrupted
    if not _interrupted:
        print_error(f"interrupted; {kept}")
    _interrupted = True


def exit_interrupted(kept: str) -> NoReturn:
    """Print what was kept after Ctrl-C and end the command with exit code 130."""
    import typer

    print_interrupted(kept)
    raise typer.Exit(INTERRUPTED) from None


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, most: int = MOST_ROWS) -> None:
    """Print a compact table on standard output, with numbers aligned to the right and the first rows of many."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    every = [list(row) for row in rows]
    listed = every[:most]
    table = Table(title=Text(title, style="bold") if title else None, box=box.SIMPLE_HEAD, title_justify="left")
    for place, column in enumerate(columns):
        cells = [row[place] for row in listed]
        numeric = bool(cells) and all(isinstance(cell, (int, float)) or cell is None for cell in cells)
        longest = max((len(format_cell(cell)) for cell in cells), default=0)
        table.add_column(column, justify="right" if numeric else "left", min_width=min(longest, MIN_NAME_WIDTH) or None)
    for row in listed:
        table.add_row(*(Text(format_cell(cell)) for cell in row))
    console().print(table)
    if len(every) > most:
        print(f"... and {len(every) - most} more; --json prints all.")


def print_csv(columns: Mapping[str, Sequence[Any]]) -> None:
    """Print columns as CSV in which no cell can run as a formula in a spreadsheet."""
    from crowdprism.formats.text_tables import write_csv

    write_csv(sys.stdout, columns)


def to_records(columns: Mapping[str, Any], chosen: Any = slice(None)) -> list[dict[str, Any]]:
    """One mapping per row of columns, or per chosen row."""
    rows = (column[chosen] for column in columns.values())
    lists = (column.tolist() if hasattr(column, "tolist") else column for column in rows)
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def print_records(title: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Print records as a table; their keys are the columns."""
    print_table(title, list(records[0]) if records else (), [list(record.values()) for record in records])


def format_cell(cell: Any) -> str:
    """A cell as text: fractions with three digits, unknown values as a dash."""
    if cell is None or cell != cell:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else printable(str(cell))


def print_json(record: Any) -> None:
    """Print one JSON document on standard output; arrays become lists, and numbers that are not finite null."""
    sys.stdout.write(json.dumps(as_json(record), ensure_ascii=False, indent=2, default=str) + "\n")


def as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): as_json(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(inner) for inner in value]
    if hasattr(value, "tolist"):  # NumPy, of which masked entries become None
        return as_json(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def command_line() -> str:
    """The command line as typed, quoted for a shell."""
    return shlex.join(["crowdprism", *sys.argv[1:]])
