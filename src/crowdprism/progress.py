"""A progress bar with the time left.

The bar appears on standard error if that is a terminal and the work takes longer than `PATIENCE_SECONDS`, so short
work prints nothing and pipes stay clean.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

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
        self._display: Progress | None = None

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Count steps as done; `note`, such as the current loss, replaces the previous note."""
        self.done += steps
        if self._display is None and self._wanted and time.monotonic() - self._begun >= PATIENCE_SECONDS:
            self._display = self._shown()
        if self._display is not None:
            self._display.update(self._display.task_ids[0], completed=self.done, note=note)

    def _shown(self) -> Progress:
        from rich import progress as rich_progress  # imported when a bar is first shown
        from rich.console import Console

        display = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TimeRemainingColumn(),
            rich_progress.TextColumn("{task.fields[note]}"),
            console=Console(stderr=True, force_terminal=_enabled),
            transient=True,
        )
        display.start()
        display.add_task(self.description, total=self.total, note="")
        return display

    def close(self) -> None:
        if self._display is not None:
            self._display.stop()


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Bar]:
    """Show a bar with elapsed and remaining time while the block runs; a bar inside another is hidden."""
    global _open_bars
    bar = Bar(description, total)
    _open_bars += 1
    try:
        yield bar
    finally:
        _open_bars -= 1
        bar.close()
