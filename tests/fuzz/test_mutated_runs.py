"""A damaged run loads as it was or is refused; a forged one is valid or refused (more: benchmarks/fuzz_runs.py)."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fuzz_runs import RUNS, attempt

N_MUTANTS = 12  # of each run
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and timers of POSIX")


@pytest.mark.parametrize("how", ["damaged", "forged"])
@pytest.mark.parametrize("method", RUNS)
def test_a_mutated_run_loads_as_it_was_or_is_refused(method: str, how: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index in range(1, N_MUTANTS):
            folder = tmp_path / str(index)
            folder.mkdir()
            ended, where = attempt(f"{method} {how}", 0, index, folder, seconds=None)
            assert ended in ("read", "refused"), f"{where} ({index})"
