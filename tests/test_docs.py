"""The documentation tells the truth: its examples run, its commands exist, its links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from crowdprism.aggregators import AGGREGATORS

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def page_name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", [page for page in PAGES if ">>>" in page.read_text(encoding="utf-8")], ids=page_name)
@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_examples_of_a_page_run_as_shown(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON_BLOCK.findall(path.read_text(encoding="utf-8"))
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, path.name, str(path), 0)
    said: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=said.append)
    assert not outcome.failed, "".join(said)


def commands() -> list[tuple[str, str]]:
    lines = [
        (path.name, line)
        for path in PAGES
        for block in CONSOLE_BLOCK.findall(path.read_text(encoding="utf-8"))
        for line in block.splitlines()
    ]
    return [(name, line.removeprefix("$ ")) for name, line in lines if line.startswith("$ ")]


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_of_the_pages_exist_with_their_options(page: str, line: str) -> None:
    import typer.main

    from crowdprism.cli.app import app

    _, name, *words = line.split()
    command = typer.main.get_command(app).get_command(None, name)
    assert command is not None, f"{page}: {line}"
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-") and word != "-"} <= options


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_reference_lists_what_a_classifier_can_do() -> None:
    from crowdprism.classifiers.base import CrowdClassifier

    listed = re.search(r"members: \[(.*)\]", (ROOT / "docs/reference/classifiers.md").read_text(encoding="utf-8"))
    assert listed is not None
    members = set(listed[1].split(", "))
    assert all(hasattr(CrowdClassifier, name) for name in members)
    used = {"fit", "partial_fit", "predict", "predict_proba", "label_posterior", "to_module", "export_onnx", "save"}
    assert used <= members


def test_the_page_for_users_of_crowd_kit_names_methods_that_both_have() -> None:
    page = (ROOT / "docs/coming-from.md").read_text(encoding="utf-8")
    theirs, ours = next(line.split("|")[1:3] for line in page.splitlines() if "`OneCoinDawidSkene`" in line)
    names = re.findall(r"`([^`]+)`", ours)
    assert len(names) == len(re.findall(r"`([^`]+)`", theirs))
    assert set(names) <= set(AGGREGATORS)
    assert "ZenCrowd" not in page


def test_every_test_that_keeps_an_attack_mended_exists() -> None:
    named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", (ROOT / "tests" / "ATTACKS.md").read_text(encoding="utf-8"))
    assert len(named) > 30
    for file, test in named:
        assert (ROOT / file).exists(), file
        assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
