"""Commands, wrong usage, and errors of the library in the words of the command line."""

from __future__ import annotations

import ast
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import crowdprism
from crowdprism.cli import INTERRUPTED
from crowdprism.cli.app import COMMANDS, OptionNames, error_message, load_command
from crowdprism.cli.datasets import list_datasets
from crowdprism.errors import InvalidParameterError, UnreadableFileError


def test_every_command_has_help_with_an_example(run) -> None:
    assert run("--help").code == 0
    for name in COMMANDS:
        shown = run(name, "--help")
        assert shown.code == 0
        assert "Example" in shown.out, name


def test_only_the_command_that_was_called_is_imported() -> None:
    code = (
        "import sys, atexit; from crowdprism.cli import main; sys.argv[1:] = ['convert', '--help']\n"
        "loaded = lambda: sorted(name.removeprefix('crowdprism.cli.') for name in sys.modules)\n"
        "atexit.register(lambda: print('loaded', *loaded(), file=sys.stderr)); main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(done.stderr.split())
    assert {"convert", "options"} <= loaded
    assert not loaded & {*(module for module, _ in COMMANDS.values()), "numpy", "polars", "torch"} - {"convert"}


def test_the_list_of_commands_loads_no_command_and_no_large_library() -> None:
    code = (
        "import sys, atexit; from crowdprism.cli import main; sys.argv[1:] = ['--help']\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    commands = {f"crowdprism.cli.{module}" for module, _ in COMMANDS.values()}
    assert not set(done.stderr.split()) & {*commands, "numpy", "polars", "torch", "sklearn", "rich"}


def test_the_list_says_of_each_command_what_its_help_begins_with() -> None:
    for name, (module, about) in COMMANDS.items():
        command = getattr(import_module(f"crowdprism.cli.{module}"), name)
        command = list_datasets if name == "datasets" else command
        first = command.__doc__.split()[:2]
        assert about.split()[:2] == first, name


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("train", "labels.csv", "--feature", "x.npy"), "--features or -x"),
        (("aggregate", "labels.csv", "--outptu", "run"), "--output or -o"),
        (("aggregate", "labels.csv", "--Method", "mace"), "--method or -m"),
        (("train", "labels.csv", "--id_column", "x"), "--id-column"),
        (("compare", "labels.csv", "-s", "3"), "--seeds"),
    ],
)
def test_a_wrong_option_gets_the_nearest_in_both_spellings(words: tuple[str, ...], told: str, failed) -> None:
    said = failed(*words)
    assert told in said
    assert f"Try: crowdprism {words[0]} --help" in said


def test_a_wrong_command_gets_the_nearest(failed) -> None:
    assert "aggregate" in failed("agregate", "labels.csv")


def test_a_wrong_value_names_the_option(failed) -> None:
    assert "--seed" in failed("aggregate", "labels.csv", "--seed", "many")


def test_a_forgotten_file_is_asked_for(failed) -> None:
    assert "Missing annotation files" in failed("aggregate")


def test_a_wrong_column_is_answered_in_options_not_in_python(failed) -> None:
    said = failed("aggregate", "labels.csv", "--item", "picture")
    assert "--item" in said
    assert "item=" not in said


def test_a_folder_without_a_run_is_explained_in_commands(small_folder: Path, failed) -> None:
    said = failed("report", ".")
    assert "crowdprism aggregate" in said
    assert "save()" not in said


@pytest.fixture
def names() -> OptionNames:
    return OptionNames(load_command("train").params)


@pytest.mark.parametrize(
    ("remedy", "in_python", "on_the_command_line"),
    [
        ("Choose one with {label}", "Choose one with label=...", "Choose one with --label ..."),
        ("Use {network:'mlp'}.", "Use network='mlp'.", "Use --network mlp."),
        ("Pass {skip_missing:True}.", "Pass skip_missing=True.", "Pass --reading skip_missing=yes."),
        ("Pass {encoding:'utf-16'}.", "Pass encoding='utf-16'.", "Pass --reading encoding=utf-16."),
        (
            "Or {resume:False} to start again.",
            "Or resume=False to start again.",
            "Or leave out --resume to start again.",
        ),
        ("Try {batch_size:8}.", "Try batch_size=8.", "Try batch_size=8 (in Python)."),
    ],
)
def test_a_remedy_names_parameters_in_python_and_options_on_the_command_line(
    remedy: str, in_python: str, on_the_command_line: str, names: OptionNames
) -> None:
    error = UnreadableFileError("x.csv is {odd}.", remedy=remedy)
    assert str(error) == f"x.csv is {{odd}}. {in_python}"
    error.name_parameter = names
    assert str(error) == f"x.csv is {{odd}}. {on_the_command_line}"


def test_the_classes_are_listed_by_order_where_that_was_given() -> None:
    error = UnreadableFileError("1 label is unknown.", remedy="Add it to {classes}")
    error.name_parameter = OptionNames(load_command("aggregate").params)
    assert str(error).endswith("classes=... (in Python)")
    error.name_parameter = OptionNames(load_command("aggregate").params, lists_classes=True)
    assert str(error).endswith("Add it to --order ...")


def test_messages_of_the_library_name_parameters_only_in_remedies() -> None:
    """A keyword spelled out in a message would be Python on the command line too."""
    spelled = re.compile(r"(?<![\w.{])[a-z_]+=(\.\.\.|True\b|False\b|\[\.\.\.\])")
    found = []
    for path in Path(crowdprism.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("Error"):
                texts = [
                    node for argument in call.args for node in ast.walk(argument) if isinstance(node, ast.Constant)
                ]
                found += [(path.name, call.lineno) for text in texts if spelled.search(str(text.value))]
    assert not found


def test_a_wrong_parameter_is_named_as_its_option(names: OptionNames) -> None:
    error = InvalidParameterError("epochs must be a whole number of at least 1, not 0.", parameter="epochs")
    assert error_message(error) == str(error)
    error.name_parameter = names
    assert error_message(error) == f"--epochs: {error}"


def test_quiet_works_before_and_after_the_command(crowd_folder: Path, run) -> None:
    assert run("-q", "aggregate", "labels.csv")[2] == ""
    assert run("aggregate", "labels.csv", "-q")[2] == ""


def test_a_signal_ends_the_command_with_a_sentence_and_code_130(crowd_folder: Path) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "crowdprism", "aggregate", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stdin is not None
    waiting.stdin.write("item,annotator,label\n" * 50_000)  # more than a pipe holds: when this ends, it is reading
    waiting.stdin.flush()
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == INTERRUPTED, said
    assert "nothing was written" in said


@pytest.mark.parametrize(
    "words",
    ["-q aggregate labels.csv", "info labels.csv", "info labels.csv 2>&1", "diagnose labels.csv", "info --help"],
)
def test_a_reader_that_had_enough_is_no_error(words: str, crowd_folder: Path) -> None:
    command = (
        f"{sys.executable} -m crowdprism {words} | true"  # which reads nothing, and ends before anything is written
    )
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    request = {
        "bash": {"COMP_WORDS": "crowdprism agg", "COMP_CWORD": "1"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "crowdprism agg"},
        "fish": {"_TYPER_COMPLETE_ARGS": "crowdprism agg", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    environment = {**os.environ, "_CROWDPRISM_COMPLETE": f"complete_{shell}", **request}
    command = Path(sys.executable).with_name("crowdprism")
    if not command.exists():
        pytest.skip("the command is not installed beside this Python")
    done = subprocess.run([command], capture_output=True, text=True, env=environment, timeout=120)
    assert "aggregate" in done.stdout


def test_the_bare_command_prints_help(run) -> None:
    shown = run()
    assert shown.code == 0
    assert "aggregate" in shown.out
    assert shown.err == ""


def test_an_unknown_column_is_answered_with_a_command_to_run(small_folder: Path, failed) -> None:
    (small_folder / "odd.csv").write_text("picture,who said,verdict\na,x,1\na,y,2\nb,x,1\nc,y,2\nd,y,1\n")
    told = failed("aggregate", "odd.csv")
    assert told.endswith("Try: crowdprism aggregate odd.csv --item picture --annotator 'who said' --label verdict")
    done = subprocess.run(
        [sys.executable, "-m", "crowdprism", *shlex.split(told.rpartition("crowdprism ")[2])], capture_output=True
    )
    assert done.returncode == 0, done.stderr
