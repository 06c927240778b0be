"""Run the tests in another order: `PYTHONPATH=tests python -m pytest -p random_order --order-seed 1`.

Files are shuffled, and the tests within each file; fixtures of a file are then still made once.
"""

from __future__ import annotations

import random
from collections import defaultdict

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the seed of the order."""
    parser.addoption("--order-seed", type=int, default=0, help="seed of the order of tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle."""
    draw = random.Random(config.getoption("--order-seed"))
    by_file: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        by_file[str(item.path)].append(item)
    files = sorted(by_file)
    draw.shuffle(files)
    for file in files:
        draw.shuffle(by_file[file])
    items[:] = [item for file in files for item in by_file[file]]
