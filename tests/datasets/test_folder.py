"""Data sets of the common folder layout hold what was published."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crowdprism import load_dataset
from crowdprism.datasets import catalogue, find_entry
from crowdprism.errors import InvalidParameterError, UnreadableFileError

needs_data = pytest.mark.skipif(
    not os.environ.get("CROWDPRISM_DATA"), reason="CROWDPRISM_DATA names no folder with the data sets"
)
ANNOTATED = [name for name, entry in catalogue().items() if entry.n_annotations and entry.kind == "files"]


@needs_data
@pytest.mark.parametrize("name", [name for name in ANNOTATED if "cifar10" not in name])
def test_features_and_texts_have_a_row_for_each_of_their_items(name: str) -> None:
    dataset = load_dataset(name, fetch=False)
    assert dataset.feature_sets == dataset.entry.features
    for feature_set in dataset.feature_sets:
        values = dataset.feature_set(feature_set)
        assert values.dtype == np.float32
        assert len(values) == len(dataset.feature_items)
        assert np.isfinite(values).all()
    if dataset.entry.texts:
        assert {len(column) for column in dataset.texts.values()} == {len(dataset.feature_items)}


@needs_data
def test_labelme_is_as_published() -> None:
    labelme = load_dataset("labelme")
    assert labelme.features.shape == (2688, 512)
    assert labelme.feature_set("efficientnet_lite0").shape == (2688, 1280)
    a = labelme.part("train").annotations
    assert a is not None
    assert a.labels_per_item.mean() == pytest.approx(2.547)
    assert labelme.classes[0] == "highway"
    assert {split: len(labelme.splits[split]) for split in labelme.splits} == {
        "train": 1000,
        "valid": 500,
        "test": 1188,
    }


@needs_data
def test_music_is_as_published() -> None:
    music = load_dataset("music")
    assert music.features.shape == (1000, 124)
    train = music.part("train").annotations
    assert train is not None
    assert (train.labels_per_item.min(), train.labels_per_item.max()) == (1, 7)
    assert (train.labels_per_annotator.min(), train.labels_per_annotator.max()) == (2, 368)
    assert list(music.classes) == sorted(music.classes)
    assert np.array_equal(music.part("test").features, music.features[700:])


@needs_data
def test_movie_reviews_has_features_of_1007_items_and_a_part_holds_only_these() -> None:
    movies = load_dataset("movie_reviews")
    part = movies.part("train")
    assert np.array_equal(part.features, movies.features)
    assert part.features.shape == (1007, 300)
    assert part.annotations is not None
    assert part.annotations.items.tolist() == part.items.tolist() == movies.feature_items.tolist()


@needs_data
def test_cifar_annotations_refer_to_the_images_of_cifar10() -> None:
    cifar10, cifar10n = load_dataset("cifar10"), load_dataset("cifar10n")
    assert np.array_equal(cifar10.gold[:50_000], cifar10n.gold)
    for name in ("cifar10h", "cifar10s"):
        dataset = load_dataset(name)
        rows = 50_000 + dataset.annotations.items.astype(int)
        assert np.array_equal(cifar10.gold[rows], dataset.gold)
        assert np.array_equal(cifar10.features[rows], dataset.features)
    noise = [100 * (cifar10n.gold != cifar10n.annotations.to_dense()[:, column]).mean() for column in range(3)]
    assert noise == pytest.approx([17.23, 18.12, 17.64], abs=0.01)
    assert load_dataset("cifar10h").extra("counts").sum() == 511_400 - 400


@needs_data
def test_cifar_images_have_the_known_means() -> None:
    images = load_dataset("cifar10").images
    assert images.shape == (60_000, 32, 32, 3)
    assert images[:50_000].mean(axis=(0, 1, 2)) / 255 == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.002)


@needs_data
@pytest.mark.parametrize(("name", "mean"), [("mnist", 0.1307), ("fashion_mnist", 0.2860)])
def test_small_images_have_the_known_means(name: str, mean: float) -> None:
    dataset = load_dataset(name)
    assert dataset.images.shape == (70_000, 28, 28)
    assert dataset.images[:60_000].mean() / 255 == pytest.approx(mean, abs=1e-4)
    assert np.bincount(dataset.gold[60_000:]).sum() == 10_000
    with pytest.raises(InvalidParameterError, match="simulate"):
        dataset.annotations  # noqa: B018


def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CROWDPRISM_DATA", str(tmp_path))
    (tmp_path / "music").mkdir()
    for file in find_entry("music").files:
        (tmp_path / "music" / file).write_bytes(b"not what it was")
    music = load_dataset("music")
    with pytest.raises(UnreadableFileError, match=r"features\.npz"):
        music.features  # noqa: B018
    with pytest.raises(UnreadableFileError, match=r"csv\.gz"):
        music.annotations  # noqa: B018
