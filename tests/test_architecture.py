"""The plan of the house, as a test: who may import whom, where torch may live, how quick the door opens."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "crowdprism"

# Imports go downwards. Root modules may use each other; rooms of one level may not.
LEVELS = [
    {"errors", "seeding", "progress", "parameters", "files"},
    {"annotations"},
    {"formats", "results"},
    {"networks", "aggregators", "diagnostics", "simulate"},
    {"calibration", "shards", "scoring"},
    {"training"},
    {"classifiers"},
    {"datasets"},
    {"experiments", "report", "plots", "comparison", "features"},
    {"cli"},
]
LEVEL_OF = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
SIDEWAYS_ALLOWED = {0}
MAY_IMPORT_TORCH = {
    "seeding",
    "networks",
    "simulate",
    "training",
    "classifiers",
    "experiments",
    "comparison",
    "features",
}
# Methods that users type on a lower object and that open an upper room when called.
UPWARD_ON_PURPOSE = {
    ("crowdprism.results.fit_result", "crowdprism.report"),
    ("crowdprism.results.fit_result", "crowdprism.calibration.account"),
    ("crowdprism.annotations.container", "crowdprism.shards"),
}
FILES = sorted(SOURCE.rglob("*.py"))
ROOT_MODULES_AT_MOST = 8
LINES_AT_MOST = 400  # of a module
TESTED_FROM = 80  # lines of a module from which on it has a test file of its own


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in [*FILES, *SOURCE.rglob("*.pyx")]}


def room_of(module: str) -> str | None:
    """The room under crowdprism, or None for the package's own front door and the runner."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] != "__main__" else None


def only_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imported_by_name(call: ast.Call, path: Path) -> set[str]:
    """Modules that `import_module` may import: the name itself, or all that an f-string can mean."""
    name = call.args[0]
    if isinstance(name, ast.Constant):
        return {str(name.value)}
    if isinstance(name, ast.JoinedStr) and isinstance(name.values[0], ast.Constant):
        start = str(name.values[0].value)
        return {module for module in MODULES if module.startswith(start)}
    return set()  # a package of somebody else, named by a variable


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """Modules a file imports when it runs, inside functions too."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if only_for_types(node):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else str(node.module))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found.update(imported_by_name(node, path))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(found)


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_only_go_downwards(path: Path) -> None:
    room = room_of(module_name(path))
    if room is None:
        return
    assert room in LEVEL_OF, f"{room} has no level: add it to LEVELS and to ARCHITECTURE.md"
    for module in imported_modules(path):
        if not module.startswith("crowdprism") or room_of(module) in (None, room):
            continue
        if (module_name(path), module) in UPWARD_ON_PURPOSE:
            continue
        below, above = LEVEL_OF[room_of(module)], LEVEL_OF[room]
        assert below < above or (below == above and above in SIDEWAYS_ALLOWED), f"{room} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_torch_stays_behind_its_wall(path: Path) -> None:
    room = room_of(module_name(path))
    if room not in MAY_IMPORT_TORCH:
        assert not [module for module in imported_modules(path) if module.split(".")[0] == "torch"]


def test_there_are_no_import_cycles() -> None:
    graph = {
        (name := module_name(path)): {
            module
            for module in imported_modules(path)
            if module.startswith("crowdprism.") and (name, module) not in UPWARD_ON_PURPOSE
        }
        for path in FILES
    }
    state: dict[str, str] = {}

    def walk(module: str, trail: tuple[str, ...]) -> None:
        assert state.get(module) != "open", f"cycle: {' -> '.join((*trail, module))}"
        if module in state:
            return
        state[module] = "open"
        for target in graph.get(module, ()):
            if target != module:
                walk(target, (*trail, module))
        state[module] = "done"

    for module in graph:
        walk(module, ())


def test_architecture_page_names_every_room() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = {room_of(module_name(path)) for path in FILES} - {None}
    missing = [room for room in sorted(rooms, key=str) if not re.search(rf"\b{room}\b", page)]
    assert not missing, f"ARCHITECTURE.md does not mention {missing}"


def test_file_names_are_unique_across_rooms() -> None:
    names = [path.stem for path in FILES if path.stem not in ("__init__", "__main__", "base")]
    assert sorted(set(names)) == sorted(names)


def test_the_root_and_every_module_stay_small() -> None:
    assert len([path for path in FILES if path.parent == SOURCE]) <= ROOT_MODULES_AT_MOST
    long = {module_name(path): n for path in FILES if (n := n_lines(path)) > LINES_AT_MOST}
    assert not long


def n_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("path", [p for p in FILES if p.stem not in ("__init__", "__main__")], ids=module_name)
def test_every_module_of_some_size_has_its_test_file(path: Path) -> None:
    own = ROOT / "tests" / path.relative_to(SOURCE).with_name(f"test_{path.stem}.py")
    assert n_lines(path) <= TESTED_FROM or own.exists(), f"{own.relative_to(ROOT)} is missing"


def run_python(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=120
    )
    return done.stdout.strip()


HEAVY = ("torch", "sklearn", "pandas", "matplotlib", "numba")


@pytest.mark.parametrize(
    "work",
    [
        "import crowdprism",
        "import crowdprism; crowdprism.Annotations, crowdprism.read_annotations",
        "import crowdprism; crowdprism.make_aggregator('dawid-skene').fit([[0, 1, 1], [1, 1, 0]]).result_",
        "import crowdprism.diagnostics",
        "import crowdprism.simulate",
        "import crowdprism.cli",
        "import crowdprism.comparison",
        "import crowdprism.features",
    ],
)
def test_light_work_loads_nothing_heavy(work: str) -> None:
    loaded = run_python(f"import sys; {work}; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert loaded == "[]"


def test_labels_are_found_without_loading_scipy_or_rich(tmp_path: Path) -> None:
    from crowdprism.aggregators import blocks

    if not blocks.COMPILED:
        pytest.skip("where nothing was compiled, the E step is SciPy's")
    rows = [f"{item},{who},{(item + (who == 'cy')) % 2}" for item in range(20) for who in ("ann", "bob", "cy")]
    (tmp_path / "labels.csv").write_text("\n".join(["item,annotator,label", *rows]))
    code = f"""
import sys
from crowdprism.cli.app import run
assert run(["-q", "aggregate", {str(tmp_path / "labels.csv")!r}]) == 0
print([name for name in ("scipy", "rich") if name in sys.modules])
"""
    assert run_python(code).endswith("[]")


def test_public_names_exist_and_are_documented() -> None:
    import crowdprism

    for name in crowdprism.__all__:
        value = getattr(crowdprism, name)
        assert name == "__version__" or value.__doc__, f"{name} has no docstring"
    with pytest.raises(AttributeError, match="read_annotations"):
        crowdprism.read_annotation  # noqa: B018


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_no_pickle_no_eval_no_global_seed(path: Path) -> None:
    forbidden = (
        r"pickle\.loads?\(|(?<!safetensors\.)torch\.load\((?!.*weights_only=True)|allow_pickle=True|\beval\(|\bexec\("
        r"|random\.seed\(|torch\.manual_seed\("
    )
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if re.search(forbidden, line) and ".eval()" not in line]
    assert not found
