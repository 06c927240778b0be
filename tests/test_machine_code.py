"""Machine code kept on disk: the same numbers, without numba, and never code that is not whole or not ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from crowdprism import machine_code
from crowdprism.aggregators import kernels
from crowdprism.machine_code import Kernels, functions_of_numba, passed, stored

COUNT = {"count": "i8 u4 f4 f8 n n n n f8 f8"}
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere numba runs its code itself")


def counted(count: object) -> np.ndarray:
    """Two items, three annotations of the cells 0, 1, 1."""
    counts, totals = np.zeros((2, 2)), np.zeros(3)
    given = np.array([[0.25, 0.75], [1.0, 0.0]])
    start, cell = np.array([0, 2, 3]), np.array([0, 1, 1], dtype=np.uint32)
    count("count", start, cell, kernels.NO_WEIGHT, given, 2, False, 0, 2, counts, totals)  # type: ignore[operator]
    return np.vstack([counts, totals[:2]])


@LINUX
def test_kept_code_is_used_by_a_process_that_never_loads_numba() -> None:
    kernels.KERNELS.load()  # makes and keeps the code where it is not kept yet
    program = (
        "import sys, numpy as np; from crowdprism.aggregators.cells import cells_of; "
        "from crowdprism.aggregators.expectation import ExpectationStep; "
        "from crowdprism.annotations.container import Annotations; "
        "step = ExpectationStep(cells_of(Annotations.from_dense([[0, 0], [1, -1]])), compiled=True); "
        "print(step.count_votes().class_totals.tolist(), 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "[1.0, 1.0] False"


def test_numba_runs_the_same_code_where_it_cannot_be_kept() -> None:
    loaded = functions_of_numba(kernels.KERNELS.module, {"count": tuple(COUNT["count"].split())})
    types = machine_code.argument_types(tuple(COUNT["count"].split()))
    by_numba = counted(lambda name, *given: loaded.functions[name](*passed(name, given, types)))
    np.testing.assert_array_equal(by_numba, [[0.25, 0.75], [1.25, 0.75], [1.25, 0.75]])
    np.testing.assert_array_equal(counted(kernels.KERNELS), by_numba)


def test_code_that_is_not_whole_is_not_used(tmp_path: Path) -> None:
    machine_code.store(tmp_path / "code.o", b"abcdef")
    assert stored(tmp_path / "code.o") == b"abcdef"
    content = (tmp_path / "code.o").read_bytes()
    (tmp_path / "code.o").write_bytes(content[:-1])
    assert stored(tmp_path / "code.o") is None
    assert stored(tmp_path / "absent.o") is None


@LINUX
def test_code_that_cannot_be_kept_works_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(Kernels, "_path", lambda self: tmp_path / "file" / "code.o")
    fresh = Kernels(kernels.KERNELS.module, COUNT)
    np.testing.assert_array_equal(counted(fresh), counted(kernels.KERNELS))
    assert not (tmp_path / "file" / "code.o").exists()


@LINUX
def test_code_that_calls_python_is_left_to_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "EVERYWHERE", set())
    signatures = {"count_votes": tuple(kernels.KERNELS.signatures["count_votes"])}  # calls malloc and free
    with pytest.raises(machine_code.NotAloneError):
        machine_code.object_code(kernels.KERNELS.module, signatures)


@LINUX
def test_an_older_llvmlite_leaves_the_code_to_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(*given: object) -> None:
        raise AttributeError("no JITLibraryBuilder")

    kernels.KERNELS.load()
    monkeypatch.setattr(machine_code, "link", lacks)
    np.testing.assert_array_equal(counted(Kernels(kernels.KERNELS.module, COUNT)), counted(kernels.KERNELS))


@LINUX
def test_another_signature_or_processor_needs_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Kernels(kernels.KERNELS.module, COUNT)._path()
    assert Kernels(kernels.KERNELS.module, {"count": COUNT["count"].replace("i8", "i4")})._path() != here
    monkeypatch.setattr(machine_code, "processor", lambda: ("another", "+features"))
    assert Kernels(kernels.KERNELS.module, COUNT)._path() != here


def test_arrays_of_the_wrong_type_never_reach_the_code() -> None:
    with pytest.raises(AssertionError, match="argument 0: int32 in place of contiguous int64"):
        passed("count", (np.zeros(3, dtype=np.int32),), (np.dtype(np.int64),))
    with pytest.raises(AssertionError, match="argument 0"):
        passed("count", (np.zeros((4, 4))[:, :2],), (np.dtype(np.float64),))
