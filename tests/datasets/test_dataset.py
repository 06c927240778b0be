"""Data sets by name: on disk, in the cache, and those that need no file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crowdprism import load_dataset
from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.datasets import catalogue, find_entry
from crowdprism.errors import InvalidParameterError, MissingDatasetError

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
def test_the_files_are_those_of_the_catalogue() -> None:
    from crowdprism.datasets.dataset import damaged_files

    root = Path(os.environ["CROWDPRISM_DATA"])
    for name in ("labelme", "music", "rte"):
        assert damaged_files(find_entry(name), root / find_entry(name).folder) == []


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


def test_digits_are_labelled_by_the_demo_crowd_and_can_be_aggregated() -> None:
    digits = load_dataset("digits")
    train = digits.part("train")
    assert digits.images.shape == (1797, 8, 8)
    assert (digits.images.max(), digits.features.max()) == (255, 1)
    assert train.annotations is not None
    result = make_aggregator("majority-vote", use_gold=False).fit(train.annotations).result_
    assert (result.labels() == train.gold).mean() > 0.6


def test_the_labels_of_the_simulated_set_follow_its_confusions() -> None:
    simulated = load_dataset("simulated")
    a, confusions = simulated.annotations, simulated.extra("confusions")
    truth = np.asarray(simulated.gold)[a.item]
    expected = confusions[a.annotator, truth, truth].mean()
    assert a.summary().label_accuracy == pytest.approx(expected, abs=0.04)
    assert simulated.annotations == load_dataset("simulated").annotations
