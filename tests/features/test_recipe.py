"""Recipes are kept with a run, and embeddings in the cache."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crowdprism.errors import ResultFormatError
from crowdprism.features import Recipe, image_embeddings, image_features, text_features

TEXTS = {f"t{place}": ("the cat purrs", "a dog barks")[place % 2] + f" {place}" for place in range(20)}


def test_a_second_run_looks_at_no_image(photos: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = image_features(photos, embedding="colours-and-edges")
    monkeypatch.setattr(image_embeddings, "embed_images", lambda *rest: pytest.fail("looked again"))
    again = image_features(photos, embedding="colours-and-edges")
    np.testing.assert_array_equal(first.features.values, again.features.values)
    assert len(os.listdir(own_cache / "embeddings")) == 1


def test_a_changed_image_is_looked_at_again(photos: Path) -> None:
    first = image_features(photos, embedding="colours-and-edges")
    (photos / "0.png").write_bytes((photos / "1.png").read_bytes())
    os.utime(photos / "0.png", ns=(1, 1))
    again = image_features(photos, embedding="colours-and-edges")
    np.testing.assert_array_equal(again.features.values[0], first.features.values[1])


def test_a_recipe_is_kept_with_a_run(tmp_path: Path) -> None:
    found = text_features(TEXTS, embedding="words", text_column="says")
    found.recipe.write_into(tmp_path)
    read = Recipe.load(tmp_path)
    assert (read.kind, read.embedding, read.text_column) == ("texts", "words", "says")
    np.testing.assert_array_equal(read.state["directions"], found.recipe.state["directions"])
    (tmp_path / "features.json").write_text('{"schema": 99, "kind": "texts"}')
    with pytest.raises(ResultFormatError, match="newer crowdprism"):
        Recipe.load(tmp_path)
