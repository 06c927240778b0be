"""The commands of `crowdprism`, each a short function in a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from crowdprism import __version__
from crowdprism.cli.aggregate import aggregate
from crowdprism.cli.compare import compare
from crowdprism.cli.convert import convert
from crowdprism.cli.datasets import app as datasets
from crowdprism.cli.demo import demo
from crowdprism.cli.diagnose import diagnose
from crowdprism.cli.info import info
from crowdprism.cli.interruption import interruptible
from crowdprism.cli.predict import predict
from crowdprism.cli.report import report
from crowdprism.cli.reproduce import reproduce
from crowdprism.cli.simulate import simulate
from crowdprism.cli.suggest import suggest
from crowdprism.cli.train import train

app = typer.Typer(
    name="crowdprism",
    help="Labels from many unreliable people in; corrected labels and an honest account of every annotator out.",
    epilog="Exit codes: 0 done; 1 a mistake of ours; 2 wrong usage or bad input, nothing was written; 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"crowdprism {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only results and errors.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell when each step was done, and where an error arose.")
    ] = False,
) -> None:
    """Options that come before the command."""
    from crowdprism.cli.screen import set_quiet, set_verbose
    from crowdprism.progress import set_progress

    set_quiet(quiet)
    if quiet:
        set_progress(False)
    set_verbose(verbose)


COMMANDS = (
    demo,
    aggregate,
    train,
    predict,
    compare,
    info,
    diagnose,
    suggest,
    convert,
    report,
    simulate,
    reproduce,
)
for command in COMMANDS:
    app.command()(interruptible(command))
app.add_typer(datasets)
