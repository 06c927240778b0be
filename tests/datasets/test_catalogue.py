"""The catalogue is complete and forgiving about names."""

from __future__ import annotations

import pytest

from crowdprism import load_dataset
from crowdprism.datasets import catalogue, find_entry
from crowdprism.errors import InvalidParameterError

IMAGES = ["mnist", "fashion_mnist", "cifar10"]


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


def test_an_unknown_name_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(InvalidParameterError, match="Did you mean music"):
        load_dataset("musik")


def test_a_set_is_found_by_the_name_of_its_collection_too() -> None:
    assert find_entry("truth_inference/rte").name == "rte"
