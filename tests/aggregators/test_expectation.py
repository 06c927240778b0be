"""The compiled passes equal their SciPy form, keep their bounds, and give the same bits whoever runs them and how."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from crowdprism.aggregators import AGGREGATORS, blocks, em, make_aggregator
from crowdprism.aggregators.expectation import ConfusionPass, VotePass
from crowdprism.annotations import Annotations

ROOT = Path(__file__).parents[2]
N_ITEMS, N_CLASSES = 40, 3
NEEDS_COMPILED = pytest.mark.skipif(blocks._expectation is None, reason="no compiled expectation step here")
QUICK = {
    "ebcc": {"n_subtypes": 2, "n_restarts": 2, "max_iter": 20},
    "mace": {"n_restarts": 2},
    "kos": {"iterations": 5},
}


def crowd(
    n_items: int = N_ITEMS,
    n_annotators: int = 6,
    n_classes: int = N_CLASSES,
    *,
    per_item: int = 12,
    weighted: bool = False,
) -> Annotations:
    """Some items with many labels, the last without any; weights, where there are any, of 0 too."""
    rng = np.random.default_rng(3)
    item = np.repeat(np.arange(n_items), rng.integers(1, per_item, n_items))
    truth = rng.integers(0, n_classes, n_items)
    right = rng.random(len(item)) < 0.65
    label = np.where(right, truth[item], rng.integers(0, n_classes, len(item)))
    annotator = rng.integers(0, n_annotators, len(item))
    weight = rng.choice([0.0, 0.3, 1.0, 2.0], len(item)) if weighted else None
    names = {"classes": range(n_classes), "item_names": range(n_items + 1), "annotator_names": range(n_annotators + 1)}
    return Annotations.from_triplets(item, annotator, label, weight=weight, **names)


def confusion_model(pass_: ConfusionPass) -> Any:
    rng = np.random.default_rng(0)
    shape = (pass_.cells.n_cells, pass_.columns)
    return SimpleNamespace(likelihood=rng.random(shape) ** 3, class_prior=rng.dirichlet(np.ones(pass_.columns)))


def vote_model(annotations: Annotations, spread: float = 2.0) -> Any:
    rng = np.random.default_rng(0)
    odds, prior = rng.normal(1, spread, annotations.n_annotators), rng.dirichlet(np.ones(annotations.n_classes))
    return SimpleNamespace(log_odds=odds, class_prior=prior)


def in_scipy(run: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "COMPILED", False)
        return run()


def require_equal(fast: em.Expectation, slow: em.Expectation) -> None:
    assert fast.log_likelihood == pytest.approx(slow.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(fast.counts, slow.counts, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fast.class_totals, slow.class_totals, rtol=1e-12, atol=1e-12)
    if slow.class_probabilities is not None:
        np.testing.assert_allclose(fast.kept, slow.kept, rtol=1e-12, atol=1e-12)


@NEEDS_COMPILED
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("columns", [None, 2 * N_CLASSES], ids=["classes", "subtypes"])
def test_the_compiled_confusion_pass_equals_its_scipy_form(
    weighted: bool, columns: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ConfusionPass(crowd(weighted=weighted), columns=columns)
    given = np.random.default_rng(1).dirichlet(np.ones(one.columns), N_ITEMS + 1)
    model = confusion_model(one)
    runs = [lambda: one.expect(model), lambda: one.hardened().expect(model), lambda: one.count(given)]
    if columns is None:
        runs.append(one.count_votes)
    for run in runs:
        require_equal(run(), in_scipy(run, monkeypatch))


@NEEDS_COMPILED
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("spread", [2.0, 200.0], ids=["moderate odds", "odds beyond every double"])
def test_the_compiled_vote_pass_equals_its_scipy_form(
    weighted: bool, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = crowd(weighted=weighted)
    one, model = VotePass(a), vote_model(a, spread)
    given = np.random.default_rng(1).dirichlet(np.ones(N_CLASSES), N_ITEMS + 1)
    for run in (lambda: one.expect(model), one.count_votes, lambda: one.count(given)):
        require_equal(run(), in_scipy(run, monkeypatch))


def test_scipy_form_equals_the_sums_in_plain_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    a = crowd(weighted=True)
    one = ConfusionPass(a)
    model = confusion_model(one)
    found = in_scipy(lambda: one.expect(model), monkeypatch)
    counts, log_likelihood = np.zeros_like(found.counts), 0.0
    for item in range(a.n_items):
        own = range(a.item_start[item], a.item_start[item + 1])
        joint = [
            float(model.class_prior[k])
            * np.prod([float(model.likelihood[one.cells.cell[j], k]) ** float(a.weight[j]) for j in own])
            for k in range(N_CLASSES)
        ]
        log_likelihood += np.log(sum(joint))
        for j in own:
            counts[one.cells.cell[j]] += a.weight[j] * np.array(joint) / sum(joint)
    assert found.log_likelihood == pytest.approx(log_likelihood)
    np.testing.assert_allclose(found.counts, counts, atol=1e-9)


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=NEEDS_COMPILED), False])
def test_long_products_of_small_and_mixed_factors_do_not_underflow(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "COMPILED", compiled)
    one = ConfusionPass(Annotations.from_dense(np.tile([[0, 1]], (2, 200))))
    for right, wrong in ((1e-25, 1e-30), (1e-6, 1e-30), (1e-17, 1e-18)):
        likelihood = np.where(one.cells.label_of[:, None] == np.arange(2), right, wrong)
        model = SimpleNamespace(likelihood=likelihood, class_prior=np.array([0.4, 0.6]))
        found = one.expect(model)
        assert found.log_likelihood == pytest.approx(400 * (np.log(right) + np.log(wrong)), rel=1e-9)
        np.testing.assert_allclose(found.kept, [[0.4, 0.6], [0.4, 0.6]], atol=1e-9)


def test_more_classes_than_16_bits_hold_are_counted() -> None:
    a = Annotations.from_triplets([0, 0, 1], list("abb"), [0, 39_999, 5], classes=range(40_000))
    model = SimpleNamespace(log_odds=np.array([9.0, 12.0]), class_prior=np.full(40_000, 1 / 40_000))
    found = VotePass(a).expect(model)
    assert found.kept[0].argmax() == 39_999
    assert found.counts.sum() == pytest.approx(found.kept[0, [0, 39_999]].sum() + found.kept[1, 5])


def test_groups_depend_on_the_data_alone_and_hold_every_item_once() -> None:
    a = crowd(n_items=20_000)
    groups = em.group_bounds(a.item_start, 18)
    assert 1 < len(groups) <= em.MAX_GROUPS
    assert [item for first, last in groups for item in range(first, last)] == list(range(a.n_items))
    assert em.group_bounds(crowd().item_start, 18) == [(0, N_ITEMS + 1)]


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=NEEDS_COMPILED), False])
def test_no_number_of_threads_changes_a_bit_of_a_pass(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "COMPILED", compiled)
    a = crowd(n_items=20_000)
    confusion, vote = ConfusionPass(a), VotePass(a)
    found = []
    for threads in ("1", "2", "64"):
        monkeypatch.setenv("CROWDPRISM_THREADS", threads)
        found.append(
            [confusion.expect(confusion_model(confusion)), vote.expect(vote_model(a)), confusion.count_votes()]
        )
    monkeypatch.setattr(em, "MAX_COUNT_BYTES", 0)  # one group at a time
    found.append([confusion.expect(confusion_model(confusion)), vote.expect(vote_model(a)), confusion.count_votes()])
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert one.log_likelihood == other.log_likelihood
            np.testing.assert_array_equal(one.counts, other.counts)
            np.testing.assert_array_equal(one.class_totals, other.class_totals)


SAME_BITS = """
import hashlib, sys, warnings
import numpy as np
from crowdprism.aggregators import AGGREGATORS, make_aggregator
from crowdprism.annotations import Annotations
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
item = np.repeat(np.arange(8000), 5)
truth = rng.integers(0, 12, 8000)
label = np.where(rng.random(len(item)) < 0.7, truth[item], rng.integers(0, 12, len(item)))
a = Annotations.from_triplets(item, rng.integers(0, 30, len(item)), label)
quick = {"ebcc": {"n_subtypes": 3, "n_restarts": 1, "max_iter": 9}, "mace": {"n_restarts": 2}, "glad": {"max_iter": 9}}
quick |= {"multidimensional": {"max_iter": 3}, "belief-propagation": {"max_iter": 2}, "blind-moments": {"max_iter": 2}}
for name in AGGREGATORS:
    result = make_aggregator(name, **quick.get(name, {})).fit(a).result_
    parts = [result.class_probabilities, result.confusions, result.skills]
    print(name, hashlib.sha256(b"".join(part.tobytes() for part in parts if part is not None)).hexdigest())
"""


def test_every_aggregator_gives_the_same_bits_with_one_thread_and_with_two() -> None:
    """Threads of ours, and those of the linear algebra libraries, which read their number when a process begins."""
    found = []
    for threads in ("1", "2"):
        names = ("CROWDPRISM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        command = [sys.executable, "-c", SAME_BITS]
        found.append(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    assert len(found[0].splitlines()) == len(AGGREGATORS)
    assert found[0].splitlines() == found[1].splitlines()


@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "mace", "glad", "ebcc"])
def test_fits_in_threads_equal_fits_one_after_another(name: str) -> None:
    crowds = [crowd(n_items=4000 + 500 * place, per_item=10) for place in range(4)]

    def fitted(a: Annotations) -> np.ndarray:
        return (
            make_aggregator(name, **{**QUICK.get(name, {}), "max_iter": 5, "tolerance": 0.0})
            .fit(a)
            .result_.class_probabilities
        )

    in_turn = [fitted(a) for a in crowds]
    with ThreadPoolExecutor(4) as pool:
        for one, other in zip(in_turn, pool.map(fitted, crowds), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fit_after_a_fork_ends_and_equals_that_of_its_parent() -> None:
    program = (
        "import os, sys, numpy as np; from crowdprism.aggregators import make_aggregator; "
        "from crowdprism.annotations import Annotations; r = np.random.default_rng(0); n = 200_000; "
        "a = Annotations.from_triplets(np.arange(n) // 5, r.integers(0, 20, n), r.integers(0, 3, n)); "
        "fit = lambda: make_aggregator('dawid-skene', max_iter=3, tolerance=0.0).fit(a).result_.class_probabilities; "
        "before = fit(); child = os.fork(); "
        "child or os._exit(0 if np.array_equal(fit(), before) else 3); "
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    environment = {**os.environ, "CROWDPRISM_THREADS": "2"}
    assert subprocess.run([sys.executable, "-c", program], env=environment, timeout=120, check=False).returncode == 0


def test_a_fit_writes_nothing_into_the_installed_package(tmp_path: Path) -> None:
    """A fit neither needs nor leaves a cache beside the code, so a read-only install is as fast as any."""
    copied = tmp_path / "crowdprism"
    shutil.copytree(ROOT / "src" / "crowdprism", copied, ignore=shutil.ignore_patterns("__pycache__"))
    before = sorted(path.relative_to(copied) for path in copied.rglob("*"))
    program = (
        "import crowdprism as cp, numpy as np; r = np.random.default_rng(0); n = 300_000; "
        "a = cp.Annotations.from_triplets(np.arange(n) // 5, r.integers(0, 20, n), r.integers(0, 3, n)); "
        "[cp.make_aggregator(m, max_iter=2, tolerance=0.0).fit(a) for m in ('dawid-skene', 'one-coin', 'glad')]; "
        "print(cp.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    for path in (copied, *copied.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd="/")
    finally:
        for path in (copied, *copied.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert done.stdout.startswith(str(tmp_path))
    assert sorted(path.relative_to(copied) for path in copied.rglob("*")) == before


def test_a_missing_compiled_step_is_reported_once_and_only_for_large_data(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(blocks, "COMPILED", False)
    blocks.report_missing_compiler.cache_clear()
    a = crowd()
    make_aggregator("dawid-skene").fit(a)
    assert not caplog.records
    monkeypatch.setattr(blocks, "LARGE", 10)
    for _ in range(2):
        make_aggregator("dawid-skene").fit(a)
    assert ["SciPy runs instead" in record.getMessage() for record in caplog.records] == [True]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The compiled passes built anew, with bounds checks."""
    pytest.importorskip("Cython", reason="Cython is not installed")
    compiler = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no C compiler {compiler!r}")
    folder = tmp_path_factory.mktemp("checked")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    source = folder / "src" / "crowdprism" / "aggregators"
    source.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "crowdprism" / "aggregators" / "_expectation.pyx", source)
    environment = {**os.environ, "CROWDPRISM_BOUNDSCHECK": "1"}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(folder / "built")]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    (found,) = (folder / "built").rglob("_expectation*")
    spec = importlib.util.spec_from_file_location("_expectation", found)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_with_bounds_checks_no_pass_leaves_its_arrays_and_nothing_changes(
    checked: ModuleType, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = crowd(weighted=weighted)
    confusion, vote = ConfusionPass(a), VotePass(a)
    model, odds = confusion_model(confusion), vote_model(a)
    runs = [
        lambda: confusion.expect(model),
        lambda: confusion.expect(model, keep=False),
        lambda: confusion.hardened().expect(model),
        confusion.count_votes,
        lambda: vote.expect(odds),
        lambda: vote.expect(odds, keep=False),
        vote.count_votes,
    ]
    slow = [in_scipy(run, monkeypatch) for run in runs]
    monkeypatch.setattr(blocks, "_expectation", checked)
    monkeypatch.setattr(blocks, "COMPILED", True)
    for run, expected in zip(runs, slow, strict=True):
        require_equal(run(), em.Expectation(expected.log_likelihood, expected.counts, expected.class_totals))


def test_bounds_checks_catch_a_cell_that_is_not_there(checked: ModuleType) -> None:
    start, cell = np.array([0, 2]), np.array([0, 9], dtype=np.uint32)
    table, prior, rows = np.full((2, 2), 0.5), np.full(2, 0.5), np.empty((1, 2))
    sums = np.zeros((2, 2)), np.zeros(2), np.array([0.0, 1.0])
    with pytest.raises(IndexError):
        checked.confusion(start, None, 2, cell, None, table, prior, 0, 1, 0, False, rows, *sums)
