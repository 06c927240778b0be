"""What the commands show: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

LEAST_NAME_WIDTH = 18  # names up to this length are never cut
_quiet = False
_verbose = False
_begun = time.monotonic()
_interruption_told = False
_said: list[str] = []  # for the log of a run, whether shown or not


def set_quiet(quiet: bool) -> None:
    """Leave out remarks on standard error; errors and results still show."""
    global _quiet
    _quiet = quiet


def set_verbose(verbose: bool) -> None:
    """Put the time since the start before each remark, and show where errors arose."""
    global _verbose
    _verbose = verbose


def console(*, stderr: bool = False) -> Console:
    """A rich console that honours NO_COLOR and plain pipes."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def note_for_log(text: str) -> None:
    """Keep a line for the log of the run, with the time of day."""
    _said.append(f"{datetime.now():%H:%M:%S} {text}")


def log_text() -> str:
    """All that was said so far."""
    return "".join(f"{line}\n" for line in _said)


def remark(text: str) -> None:
    """Tell the person at the terminal something that is not the result."""
    note_for_log(text)
    if not _quiet:
        when = f"{time.monotonic() - _begun:6.2f} s  " if _verbose else ""
        console(stderr=True).print(f"{when}{text}", markup=False)


def say_error(text: str) -> None:
    """Tell what went wrong; names from data are shown as they are, never as markup."""
    from rich.text import Text

    if _verbose and sys.exc_info()[0] is not None:
        import traceback

        console(stderr=True).print(traceback.format_exc(), markup=False)
    console(stderr=True).print(Text("error: ", style="bold red") + Text(text))


def say_interrupted(kept: str) -> None:
    """After Ctrl-C, tell what was kept and how to go on."""
    global _interruption_told
    _interruption_told = True
    say_error(f"interrupted; {kept}")


def interruption_told() -> bool:
    """Whether the person already knows."""
    return _interruption_told


def say_warning(message: Warning | str, *place: object, **more: object) -> None:
    """Show a Python warning as a sentence, without the place in our code that raised it."""
    note_for_log(f"warning: {message}")
    if not _quiet:
        from rich.text import Text

        console(stderr=True).print(Text("warning: ", style="bold yellow") + Text(str(message)))


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a compact table on standard output; numbers to the right, names as plain text."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    listed = [list(row) for row in rows]
    table = Table(title=Text(title, style="bold") if title else None, box=box.SIMPLE_HEAD, title_justify="left")
    for place, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(row[place], (int, float)) or row[place] is None for row in listed)
        longest = max((len(shown(row[place])) for row in listed), default=0)
        table.add_column(
            column, justify="right" if numeric else "left", min_width=min(longest, LEAST_NAME_WIDTH) or None
        )
    for row in listed:
        table.add_row(*(Text(shown(cell)) for cell in row))
    console().print(table)


def shown(cell: Any) -> str:
    """A cell as text: fractions with three digits, absent values as a dash."""
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def show_json(record: Any) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(record, ensure_ascii=False, indent=2, default=str) + "\n")
