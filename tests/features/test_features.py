"""Features from images and texts, with and without the optional packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from crowdprism.errors import InvalidParameterError
from crowdprism.features import Recipe, item_features


def test_a_model_of_numbers_takes_no_images(photos: Path) -> None:
    with pytest.raises(InvalidParameterError, match="trained on a file of numbers"):
        item_features(photos, recipe=Recipe())
