"""Every data set of the catalogue holds what the catalogue says."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crowdprism import load_dataset
from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.datasets import catalogue, find_entry
from crowdprism.errors import InvalidParameterError, MissingDatasetError, UnreadableFileError

needs_data = pytest.mark.skipif(
    not os.environ.get("CROWDPRISM_DATA"), reason="CROWDPRISM_DATA names no folder with the data sets"
)
EMBEDDED = [name for name, entry in catalogue().items() if entry.kind == "embedded"]
ANNOTATED = [name for name, entry in catalogue().items() if entry.n_annotations and entry.kind == "files"]
IMAGES = ["mnist", "fashion_mnist", "cifar10"]
IN_PER_CENT = 100


def shares_right(annotations: Annotations) -> tuple[float, float, float]:
    """Per cent right of annotations, of annotators on average, of the majority vote with ties split evenly."""
    judged = ~np.ma.getmaskarray(annotations.gold)[annotations.item]
    right = (np.asarray(annotations.gold)[annotations.item] == annotations.label)[judged]
    who = annotations.annotator[judged]
    counts = np.bincount(who, minlength=annotations.n_annotators)
    hits = np.bincount(who, weights=right, minlength=annotations.n_annotators)
    votes = np.zeros((annotations.n_items, annotations.n_classes))
    np.add.at(votes, (annotations.item, annotations.label), 1)
    best = votes == votes.max(axis=1, keepdims=True)
    share = best / best.sum(axis=1, keepdims=True)
    known = np.flatnonzero(~np.ma.getmaskarray(annotations.gold) & (annotations.labels_per_item > 0))
    vote = share[known, np.asarray(annotations.gold)[known]].mean()
    return IN_PER_CENT * right.mean(), IN_PER_CENT * (hits[counts > 0] / counts[counts > 0]).mean(), IN_PER_CENT * vote


@pytest.mark.parametrize("name", [*EMBEDDED, *(pytest.param(name, marks=needs_data) for name in ANNOTATED)])
def test_an_annotated_set_has_the_counts_and_accuracies_of_the_catalogue(name: str) -> None:
    dataset = load_dataset(name, fetch=False)
    entry, a = dataset.entry, dataset.annotations
    summary = a.summary()
    assert (a.n_items, a.n_annotators, a.n_annotations) == (entry.n_items, entry.n_annotators, entry.n_annotations)
    assert tuple(a.classes.tolist()) == entry.classes
    assert int((a.labels_per_item > 0).sum()) == entry.n_annotated
    assert summary.n_gold == entry.n_gold
    assert np.array_equal(np.ma.getmaskarray(dataset.gold), np.ma.getmaskarray(a.gold))
    assert np.array_equal(dataset.gold.compressed(), a.gold.compressed())
    if name != "cifar10s":  # the catalogue counts the sources that publish repeats as such
        assert summary.n_repeats == entry.n_repeats
    if entry.label_accuracy is not None:
        published = (entry.label_accuracy, entry.annotator_accuracy, entry.majority_vote)
        assert shares_right(a) == pytest.approx(published, abs=0.0501)


@pytest.mark.parametrize("name", [*EMBEDDED, *(pytest.param(name, marks=needs_data) for name in [*ANNOTATED, *IMAGES])])
def test_splits_are_disjoint_and_of_the_published_sizes_and_only_train_is_annotated(name: str) -> None:
    dataset = load_dataset(name, fetch=False)
    assert {split: len(items) for split, items in dataset.splits.items()} == dataset.entry.splits
    everything = np.concatenate(list(dataset.splits.values()))
    assert sorted(everything.tolist()) == list(range(dataset.n_items))
    if dataset.has_annotations:
        train = dataset.splits["train"]
        assert dataset.annotations[train].n_annotations == dataset.annotations.n_annotations


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


@needs_data
def test_the_files_are_those_of_the_catalogue() -> None:
    from crowdprism.datasets.load import damaged_files

    root = Path(os.environ["CROWDPRISM_DATA"])
    for name in ("labelme", "music", "rte"):
        assert damaged_files(find_entry(name), root / find_entry(name).folder) == []


def test_all_that_is_promised_is_in_the_catalogue() -> None:
    truth_inference = [entry.name for entry in catalogue().values() if entry.folder.startswith("truth_inference/")]
    assert len(truth_inference) == 15
    assert {name for name, entry in catalogue().items() if entry.can_be_fetched} == {*IMAGES, "labelme"}
    for entry in catalogue().values():
        assert entry.what
        assert entry.licence
        assert entry.citation
        assert entry.origin
        assert sum(entry.splits.values()) == entry.n_items


def test_digits_are_labelled_by_the_demo_crowd_and_can_be_aggregated() -> None:
    digits = load_dataset("digits")
    train = digits.part("train")
    assert digits.images.shape == (1797, 8, 8)
    assert (digits.images.max(), digits.features.max()) == (255, 1)
    assert train.annotations is not None
    result = make_aggregator("majority-vote").fit(train.annotations).result_
    assert (result.labels() == train.gold).mean() > 0.6


def test_the_labels_of_the_simulated_set_follow_its_confusions() -> None:
    simulated = load_dataset("simulated")
    a, confusions = simulated.annotations, simulated.extra("confusions")
    truth = np.asarray(simulated.gold)[a.item]
    expected = confusions[a.annotator, truth, truth].mean()
    assert a.summary().label_accuracy == pytest.approx(expected, abs=0.04)
    assert simulated.annotations == load_dataset("simulated").annotations


def test_an_unknown_name_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(InvalidParameterError, match="Did you mean music"):
        load_dataset("musik")


def test_a_missing_set_says_where_it_was_looked_for_and_how_to_get_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CROWDPRISM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MissingDatasetError) as told:
        load_dataset("music")
    for part in (
        str(tmp_path / "data" / "music"),
        str(tmp_path / "cache"),
        "cannot be fetched",
        "GitHub",
        "CROWDPRISM_DATA",
    ):
        assert part in str(told.value)
    with pytest.raises(MissingDatasetError, match="crowdprism datasets fetch mnist"):
        load_dataset("mnist", fetch=False)
    monkeypatch.delenv("CROWDPRISM_DATA")
    with pytest.raises(FileNotFoundError, match="CROWDPRISM_DATA is not set"):
        load_dataset("rte")


def test_an_incomplete_folder_names_the_first_missing_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CROWDPRISM_DATA", str(tmp_path))
    (tmp_path / "music").mkdir()
    (tmp_path / "music" / "annotations.csv.gz").write_bytes(b"")
    with pytest.raises(MissingDatasetError, match=r"3 of the 4 files .* the first is features.npz"):
        load_dataset("music")


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


def test_what_a_set_does_not_have_is_an_error_that_says_what_it_has() -> None:
    digits = load_dataset("digits")
    for mistake, offered in (
        (lambda: digits.feature_set("vgg"), "pixels"),
        (lambda: digits.part("valid"), "train, test"),
        (lambda: digits.texts, "pixels, images"),
        (lambda: digits.extra("counts"), "none"),
    ):
        with pytest.raises(InvalidParameterError, match=offered):
            mistake()
