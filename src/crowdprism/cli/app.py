"""The `crowdprism` program: loads and runs a command, and turns errors into messages and exit codes."""

from __future__ import annotations

import difflib
import os
import shlex
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from crowdprism import __version__
from crowdprism.cli import screen
from crowdprism.cli.options import READING_NAMES, expand_groups
from crowdprism.cli.screen import command_line
from crowdprism.errors import CrowdprismError
from crowdprism.progress import set_progress

COMMANDS = {  # module of this package, and what `crowdprism --help` says of the command without loading the module
    "demo": ("compare", "Compare methods on handwritten digits labelled by simulated annotators."),
    "aggregate": ("aggregate", "Combine the labels of annotators into one label per item, and rate the annotators."),
    "train": ("train", "Train a classifier on features and annotations, without any true labels."),
    "predict": ("train", "Label new items with a trained classifier."),
    "compare": ("compare", "Compare many methods on your annotations, with or without gold, and recommend one."),
    "info": ("convert", "Describe annotation files: their content, and how far annotators agree."),
    "diagnose": ("diagnose", "Check whether a result can be trusted, and which annotators and items to look at."),
    "suggest": ("diagnose", "Choose which items to label next, and which annotators to ask."),
    "audit": ("audit_command", "Measure how right labels are: draw items, have them answered, and read the answers."),
    "jury": ("audit_command", "Measure judges, such as language models, against gold or people."),
    "rank": ("rank_command", 'Rank items by answers to "which of these two is better?".'),
    "rate": ("rank_command", "Score items from ratings that are numbers."),
    "convert": ("convert", "Convert an annotation file, or the labels of a run to tasks of an annotation tool."),
    "shard": ("shard_command", "Sort tables that do not fit in memory into a store."),
    "report": ("report", "Write the result of a run as one HTML page that opens offline."),
    "simulate": ("simulate", "Simulate annotations; the true classes are written as gold."),
    "reproduce": ("reproduce", "Run a published experiment and compare it with the published numbers."),
    "datasets": ("datasets", "List data sets, describe one, or download one that is public."),
}
ANYWHERE = ("-q", "--quiet", "-v", "--verbose")  # options that may come before or after the command
HELP: dict[str, Any] = {"context_settings": {"help_option_names": ["-h", "--help"]}}


class Command(TyperCommand):
    """A command that answers Ctrl-C with a sentence and names its own options in errors of the library."""

    def invoke(self, ctx: Any) -> Any:
        from crowdprism.cli.run_folder import require_apart

        try:
            require_apart(ctx.params)
            return super().invoke(ctx)
        except KeyboardInterrupt:  # commands that keep something catch Ctrl-C themselves
            screen.exit_interrupted(screen.NOTHING_KEPT)
        except CrowdprismError as error:
            error.name_parameter = OptionNames(self.params, lists_classes=ctx.params.get("order") is not None)
            error.command = command_line()
            raise


class OptionNames:
    """Writes parameters of the library as options of one command."""

    def __init__(self, parameters: Sequence[Any], *, lists_classes: bool = False) -> None:
        self._options = {parameter.name: parameter for parameter in parameters if parameter.opts[0].startswith("-")}
        if lists_classes:  # --order lists the classes, and so does `classes` in Python
            self._options["classes"] = self._options["order"]

    def __call__(self, name: str, value: str) -> str:
        """Write a parameter with a value; without a value, only the name of the option."""
        value = value.strip("'\"")
        if name in READING_NAMES and "more" in self._options:
            return f"--reading {name}={'yes' if value == 'True' else value}"
        option = self._options.get(name)
        if option is None:
            return f"{name}={value} (in Python)" if value else name
        long = str(max(option.opts, key=len))
        if getattr(option, "is_flag", False):
            return f"leave out {long}" if value == "False" else long
        return f"{long} {value if value in ('', '...') else shlex.quote(value)}".rstrip()


@cache
def load_command(name: str) -> Any:
    command = getattr(import_module(f"crowdprism.cli.{COMMANDS[name][0]}"), name)
    if not isinstance(command, typer.Typer):
        function, command = command, typer.Typer(add_completion=False, rich_markup_mode="markdown", **HELP)
        command.command(name, cls=Command)(expand_groups(function))
    return typer.main.get_command(command)


class CommandGroup(TyperGroup):
    """The group of all commands; each is imported when it is first called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]

    def get_command(self, ctx: Any, name: str) -> Any:
        return load_command(name) if name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


app = typer.Typer(
    name="crowdprism",
    cls=CommandGroup,
    help="Turn labels from many unreliable annotators into corrected labels, a classifier and a rating of each "
    "annotator.",
    epilog="Exit codes: 0 success; 1 internal error; 2 wrong usage or bad input, nothing was written; 3 the run was "
    "written without its report; 130 interrupted.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the list of commands is plain text, because loading rich takes longer than all the rest
    **HELP,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crowdprism {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Print only results and errors."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Print times of steps and tracebacks of errors."),
) -> None:
    """Options shared by all commands."""
    screen.set_loudness(quiet=quiet, verbose=verbose)
    if quiet:
        set_progress(False)


def run(words: list[str]) -> int:
    """Run the command line and return the exit code; errors of the user are printed, not raised."""
    warnings.showwarning = screen.print_warning
    try:
        return int(app(args=common_first(words or ["--help"]), prog_name="crowdprism", standalone_mode=False) or 0)
    except CrowdprismError as error:
        screen.print_error(error_message(error))
    except (BrokenPipeError, SystemExit) as error:  # the reader of a pipe, such as head, stopped
        if BrokenPipeError not in map(type, (error, error.__context__)):
            raise
        for output in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), output)
        return 0
    except OSError as error:
        screen.print_error(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
    except Exception as error:
        if not hasattr(error, "format_message"):  # wrong usage; the class differs between versions of typer
            raise
        screen.print_error(usage_message(error))
    return screen.BAD_INPUT


def common_first(words: list[str]) -> list[str]:
    """Move -q and -v before the command; words after `--` stay."""
    end = words.index("--") if "--" in words else len(words)
    common = [word for word in words[:end] if word in ANYWHERE]
    return common + [word for word in words[:end] if word not in ANYWHERE] + words[end:]


def error_message(error: CrowdprismError) -> str:
    message = str(error)
    option = error.name_parameter(error.parameter, "") if error.parameter else ""
    return message if option in message else f"{option}: {message}"


def usage_message(error: Any) -> str:
    context = getattr(error, "ctx", None)
    unknown = getattr(error, "option_name", None)
    if unknown is not None and context is not None:
        message = unknown_option(unknown, context.command.params)
    else:
        message = error.format_message()
    if message.startswith("Missing argument 'files'"):
        message = "Missing annotation files: name one or more, or - for standard input."
    return f"{message}\nTry: {context.command_path if context is not None else 'crowdprism'} --help"


def unknown_option(wrong: str, parameters: Sequence[Any]) -> str:
    """Say that there is no such option, and name the closest ones in all their spellings."""
    spellings = {one: parameter.opts for parameter in parameters for one in parameter.opts if one.startswith("-")}
    long = [one for one in spellings if one.startswith("--")]
    plain = f"--{wrong.lstrip('-').replace('_', '-').split('=')[0].lower()}"
    if len(plain) == 3:
        close = [one for one in long if one[2] == plain[2]][:3]
    else:
        close = [plain] if plain in long else difflib.get_close_matches(plain, long, n=3, cutoff=0.6)
    if not close:
        return f"There is no option {wrong}."
    named = dict.fromkeys(" or ".join(sorted(spellings[one], key=len, reverse=True)) for one in close)
    return f"There is no option {wrong}. Did you mean {'; '.join(named)}?"
