"""Ctrl-C: what was kept, and how to go on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import typer

NOTHING_KEPT = "nothing was written. The same command starts again from the beginning."


def interruptible(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same command; Ctrl-C ends it with a sentence and exit code 130.

    Commands that keep something catch Ctrl-C themselves and say what.
    """

    @functools.wraps(command)
    def watched(*words: Any, **options: Any) -> Any:
        try:
            return command(*words, **options)
        except KeyboardInterrupt:
            from crowdprism.cli.exit_codes import INTERRUPTED
            from crowdprism.cli.screen import say_interrupted

            say_interrupted(NOTHING_KEPT)
            raise typer.Exit(INTERRUPTED) from None

    return watched
