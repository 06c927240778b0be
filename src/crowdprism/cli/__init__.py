"""The command line: parse, dispatch, exit codes. Run `crowdprism --help`.

Exit codes: 0 done; 1 a mistake of ours (please report it); 2 wrong usage or bad input, nothing was written;
130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import sys
from typing import Any

from crowdprism.cli.exit_codes import BAD_INPUT, INTERRUPTED

COMMON = ("-q", "--quiet", "-v", "--verbose")  # options of all commands

__all__ = ["BAD_INPUT", "INTERRUPTED", "main"]


def main() -> None:
    """Run the command line and exit."""
    try:
        code = exit_code()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        say_unless_told()
    sys.exit(code)


def say_unless_told() -> None:
    """Answer a Ctrl-C that came before the command itself could."""
    from crowdprism.cli.interruption import NOTHING_KEPT
    from crowdprism.cli.screen import interruption_told, say_interrupted

    if not interruption_told():
        say_interrupted(NOTHING_KEPT)


def exit_code() -> int:
    """Run the command that was typed; what went wrong is said, not raised."""
    import warnings

    from crowdprism.cli.app import app
    from crowdprism.cli.screen import say_error, say_warning
    from crowdprism.errors import CrowdprismError

    warnings.showwarning = say_warning
    try:
        return int(app(args=common_first(sys.argv[1:]), standalone_mode=False) or 0)
    except CrowdprismError as error:
        say_error(in_words_of_the_command(str(error)))
    except BrokenPipeError:  # the reader of a pipe, such as head, had enough
        sys.stderr.close()
        return 0
    except OSError as error:
        say_error(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
    except Exception as error:
        if not hasattr(error, "format_message"):  # wrong usage; the class differs between versions of typer
            raise
        say_error(wrong_usage(error))
    return BAD_INPUT


def common_first(words: list[str]) -> list[str]:
    """The words with -q and -v before the command, wherever they were typed; behind `--` all stays.

    Examples
    --------
    >>> common_first(["aggregate", "labels.csv", "-q"])
    ['-q', 'aggregate', 'labels.csv']
    """
    end = words.index("--") if "--" in words else len(words)
    common = [word for word in words[:end] if word in COMMON]
    return common + [word for word in words[:end] if word not in COMMON] + words[end:]


def in_words_of_the_command(message: str) -> str:
    """The message with the options of the command that was asked for."""
    from crowdprism.cli.wording import in_options

    return in_options(message, [parameter.name for parameter in parameters_of(sys.argv[1:])])


def parameters_of(words: list[str]) -> list[Any]:
    """Parameters of the command that the words name; none where they name none."""
    import typer.main

    from crowdprism.cli.app import app

    command: Any = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    return list(command.params)


def wrong_usage(error: Any) -> str:
    """What is wrong with the words of the command line, and where help is."""
    from crowdprism.cli.wording import unknown_option

    context = getattr(error, "ctx", None)
    wrong = getattr(error, "option_name", None)
    if wrong is not None and context is not None:
        message = unknown_option(wrong, context.command.params)
    else:
        message = error.format_message()
    if message.startswith("Missing argument 'files'"):
        message = "Missing annotation files: name one or more, or - for standard input."
    return f"{message}\nTry: {context.command_path if context is not None else 'crowdprism'} --help"
