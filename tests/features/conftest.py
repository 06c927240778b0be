"""A cache of their own for all tests of features, and a folder of small images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    Image = pytest.importorskip("PIL.Image", reason="images need Pillow")
    (tmp_path / "photos").mkdir()
    for place in range(6):
        pixels = np.zeros((40, 60, 3), np.uint8)
        pixels[:, 20:40, place % 2] = 200
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{place}.png")
    return tmp_path / "photos"
