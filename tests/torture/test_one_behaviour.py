"""Every method gives the same bits for any hash seed, in threads, after fork, by spawn, joblib and a DataLoader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "every_method.py"
WAYS = ("threads", "fork", "spawn", "joblib", "data loader")


def run(*ways: str, hash_seed: str) -> dict[str, dict[str, str]]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), *ways]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def plain() -> dict[str, str]:
    return run("plain", hash_seed="1")["plain"]


def different(found: dict[str, dict[str, str]], plain: dict[str, str]) -> list[tuple[str, str]]:
    return [(way, name) for way, bits in found.items() for name, digest in bits.items() if digest != plain[name]]


@pytest.mark.slow  # two minutes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_hash_seed_threads_and_processes_change_no_bit_of_any_method(plain: dict[str, str]) -> None:
    found = run("plain", *WAYS, "--shared", hash_seed="2")  # each method plainly and in one of the ways
    assert found["plain"] == plain
    assert {name for way in WAYS for name in found[way]} == set(plain)
    assert different(found, plain) == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_no_way_changes_any_bit_of_any_method(plain: dict[str, str]) -> None:
    found = run("plain", *WAYS, hash_seed="random")
    assert all(bits.keys() == plain.keys() for bits in found.values())
    assert different(found, plain) == []
