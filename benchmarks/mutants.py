"""How many small mistakes in a module its tests notice: random mutants, killed or survived.

    python benchmarks/mutants.py --mutants 60 --seed 0 \
        src/crowdprism/annotations/container.py=tests/annotations src/crowdprism/aggregators/em.py=tests/aggregators

Each argument names a module and, after `=`, the test files or folders that should notice (separated by commas). A
mutant is one change of one place: a comparison flipped, an arithmetic operator swapped, a constant moved by one, a
condition negated, a statement removed, or two arguments swapped. It is applied in a copy of the tree; the working tree
stays untouched. A mutant is killed if the tests fail or take longer than the timeout. Some survivors are harmless, such
as a changed limit of a cache: read them before writing a test.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = ("src", "tests", "pyproject.toml", "setup.py", "README.md", "LICENSE")
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
REMOVABLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Return)


@dataclass(frozen=True)
class Mutant:
    """One change: applied to the node at `place` in the order of `ast.walk`."""

    module: str
    source: str
    place: int
    line: int
    what: str
    apply: Callable[[ast.AST], None]


def mutants_of(module: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a module; type hints, docstrings and messages are left alone."""
    tree = ast.parse(source)
    left_alone = {id(inner) for node in ast.walk(tree) for part in untouched(node) for inner in ast.walk(part)}
    for place, node in enumerate(ast.walk(tree)):
        if id(node) not in left_alone:
            for what, apply in changes(node):
                yield Mutant(module, source, place, getattr(node, "lineno", 0), what, apply)


def untouched(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of a node whose change would mean nothing, or break the module at import."""
    for name in ("annotation", "returns", "decorator_list", "type_params"):
        part = getattr(node, name, None)
        yield from part if isinstance(part, list) else [part] if isinstance(part, ast.AST) else []
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        yield node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node
    if isinstance(node, (ast.JoinedStr, ast.Assert)):
        yield node


def changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    """The possible changes of one node, each with its description."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        new = COMPARISONS[type(node.ops[0])]
        yield f"{type(node.ops[0]).__name__} -> {new.__name__}", lambda n: n.ops.__setitem__(0, new())  # type: ignore[attr-defined]
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in ARITHMETIC:
        other = ARITHMETIC[type(node.op)]
        yield f"{type(node.op).__name__} -> {other.__name__}", lambda n: setattr(n, "op", other())
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        for step in (1, -1):
            value = node.value + step
            yield f"{node.value} -> {value}", lambda n, value=value: setattr(n, "value", value)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} -> {not node.value}", lambda n: setattr(n, "value", not n.value)  # type: ignore[attr-defined]
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield "condition negated", lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))  # type: ignore[attr-defined]
    if (
        isinstance(node, ast.Call)
        and len(node.args) >= 2
        and not any(isinstance(a, ast.Starred) for a in node.args[:2])
    ):
        yield "first two arguments swapped", lambda n: n.args.__setitem__(slice(0, 2), n.args[1::-1])  # type: ignore[attr-defined]
    body = getattr(node, "body", None)
    for at, statement in enumerate(body if isinstance(body, list) and not isinstance(node, ast.Module) else []):
        if isinstance(statement, REMOVABLE) and not isinstance(getattr(statement, "value", None), ast.Constant):
            yield f"removed: {ast.unparse(statement)[:60]!r}", lambda n, at=at: n.body.__setitem__(at, ast.Pass())


def mutated(mutant: Mutant) -> str:
    """The source of the module with the change."""
    tree = ast.parse(mutant.source)
    mutant.apply(list(ast.walk(tree))[mutant.place])
    return ast.unparse(ast.fix_missing_locations(tree))


def tests_pass(tree: Path, tests: list[str], seconds: float) -> bool:
    """Whether the tests pass in a copy of the tree, within a time limit."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        return not subprocess.run(words, cwd=tree, env=environment, capture_output=True, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return False


def copy_tree(folder: Path) -> Path:
    """Copy what the tests need."""
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def main() -> None:
    """Sample mutants, run the tests on each, and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("targets", nargs="+", metavar="MODULE=TESTS")
    parser.add_argument("--mutants", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for the tests of one mutant")
    options = parser.parse_args()
    tests = {module: names.split(",") for module, _, names in (one.partition("=") for one in options.targets)}
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_tree(Path(folder))
        for module, names in tests.items():
            if not tests_pass(tree, names, options.timeout):
                sys.exit(f"The tests of {module} fail, or take too long, without any change.")
        every = [one for module in tests for one in mutants_of(module, (tree / module).read_text(encoding="utf-8"))]
        chosen = random.Random(options.seed).sample(every, min(options.mutants, len(every)))
        n_killed = 0
        for mutant in chosen:
            (tree / mutant.module).write_text(mutated(mutant), encoding="utf-8")
            killed = not tests_pass(tree, tests[mutant.module], options.timeout)
            (tree / mutant.module).write_text(mutant.source, encoding="utf-8")
            n_killed += killed
            print(f"{'killed  ' if killed else 'SURVIVED'} {mutant.module}:{mutant.line}: {mutant.what}", flush=True)
    print(
        f"{n_killed} of {len(chosen)} mutants killed ({n_killed / max(1, len(chosen)):.0%}); {len(every)} are possible."
    )


if __name__ == "__main__":
    main()
