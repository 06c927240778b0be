"""A progress bar with the time left.

The bar appears on standard error if that is a terminal and the work takes longer than `PATIENCE_SECONDS`, so short
work prints nothing and pipes stay clean.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 1.0
_enabled: bool | None = None  # None: decide by the terminal
_open_bars = 0  # a bar inside another is hidden, because two would overwrite each other


def set_progress(enabled: bool | None) -> None:
    """Show progress bars always (True), never (False), or only on a terminal (None, the default)."""
    global _enabled
    _enabled = enabled


class Bar:
    """What `progress` yields: call `advance` after each step."""

    def __init__(self, description: str, total: int | None) -> None:
        self.description = description
        self.total = total
        self.done = 0
        self._begun = time.monotonic()
        self._wanted = (sys.stderr.isatty() if _enabled is None else _enabled) and not _open_bars
        self._display: _Display | None = None

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Count steps as done; `note`, such as the current loss, replaces the previous note."""
        self.done += steps
        if not self._wanted:
            return
        if self._display is None:
            if time.monotonic() - self._begun < PATIENCE_SECONDS:
                return
            self._display = _Display(self.description, self.total)
        self._display.update(self.done, note)

    def close(self) -> None:
        """Remove the bar."""
        if self._display is not None:
            self._display.stop()


class _Display:
    """The rich widget of a `Bar`; rich is imported when a bar is first shown."""

    def __init__(self, description: str, total: int | None) -> None:
        from rich import progress as rich_progress
        from rich.console import Console

        self._progress = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TimeRemainingColumn(),
            rich_progress.TextColumn("{task.fields[note]}"),
            console=Console(stderr=True, force_terminal=_enabled),
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task(description, total=total, note="")

    def update(self, done: int, note: str) -> None:
        self._progress.update(self._task, completed=done, note=note)

    def stop(self) -> None:
        self._progress.stop()


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Bar]:
    """Show a bar with elapsed and remaining time while the block runs; a bar inside another is hidden.

    Examples
    --------
    >>> with progress("reading", total=2) as bar:
    ...     for _ in range(2):
    ...         bar.advance()
    >>> bar.done
    2
    """
    global _open_bars
    bar = Bar(description, total)
    _open_bars += 1
    try:
        yield bar
    finally:
        _open_bars -= 1
        bar.close()
