"""Which part of the computer a command uses."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

PANEL = "The computer"
Threads = Annotated[
    int | None, typer.Option("--threads", rich_help_panel=PANEL, help="Processor threads; all by default.")
]
Device = Annotated[str, typer.Option("--device", rich_help_panel=PANEL, help="auto, cpu, cuda or mps.")]


def use_threads(count: int | None, *, torch: bool = False) -> None:
    """Let compiled kernels, and with `torch` the networks, use so many threads."""
    if count is None:
        return
    from crowdprism.errors import InvalidParameterError

    if count < 1:
        raise InvalidParameterError(f"--threads must be at least 1, not {count}.")
    os.environ["CROWDPRISM_THREADS"] = str(count)
    if torch or "torch" in sys.modules:
        from crowdprism.training import use_threads as let_torch_use

        let_torch_use(count)
