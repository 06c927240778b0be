"""Features and annotations as users give them: kinds, matching by name, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from crowdprism.annotations import Annotations
from crowdprism.classifiers import GeoCrowdNet, inputs, make_classifier
from crowdprism.classifiers.inputs import (
    annotations_of,
    as_features,
    make_scaling,
    matched,
    n_items_of,
    plain_seed,
    with_unlabelled,
)
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, NotFittedError
from crowdprism.training.batches import MappedFeatures

sys.path.insert(0, str(Path(__file__).parent))
from crowds import quick, small

pytestmark = pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")


def test_a_dataset_gives_the_same_model_as_an_array() -> None:
    problem = small()
    array = quick().fit(problem.X, problem.annotations)
    stream = quick().fit(TensorDataset(torch.from_numpy(problem.X)), problem.annotations)
    assert np.allclose(array.predict_proba(problem.X), stream.predict_proba(problem.X), atol=1e-6)


def test_unlabelled_items_and_items_without_annotations_enter_the_volume_term_only() -> None:
    problem = small()
    extra = problem.X_test[:100]
    model = quick(regularizer="F", warm_start=0.0).fit(problem.X, problem.annotations, X_unlabelled=extra)
    assert model.result_.n_items == 300
    table = np.vstack([problem.annotations.to_dense(), np.full((100, 5), -1)])
    joined = quick(regularizer="F", warm_start=0.0, standardize=False)
    with_rows = joined.fit(np.vstack([problem.X, extra]), table)
    unlabelled = quick(regularizer="F", warm_start=0.0, standardize=False)
    unlabelled.fit(problem.X, problem.annotations, X_unlabelled=extra)
    assert np.allclose(with_rows.predict_proba(extra), unlabelled.predict_proba(extra), atol=1e-6)


def test_images_find_their_network() -> None:
    images = np.zeros((30, 28, 28), dtype=np.uint8)
    truth = np.arange(30) % 3
    images[np.arange(30), 5 + 6 * truth, 10:20] = 255
    model = GeoCrowdNet(epochs=12, learning_rate=0.01, shift=1, regularizer=None, input_noise=0.0, temperature=1.0).fit(
        images, truth
    )
    assert type(model.predictor_.members[0].network).__name__ == "LeNet5"
    assert (model.predict(images) == truth).mean() > 0.9


def test_one_annotator_one_item_of_each_class_and_a_batch_of_one_work() -> None:
    model = quick(batch_size=1, epochs=2).fit(np.eye(2), [[0], [1]])
    assert model.predict_proba(np.eye(2)).shape == (2, 2)


def test_a_class_that_nobody_chose_stays_a_class() -> None:
    annotations = Annotations.from_dense(np.arange(40)[:, None] % 2, classes=[0, 1, 2])
    model = quick(regularizer=None).fit(np.eye(2)[np.arange(40) % 2], annotations)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(np.eye(2)).shape == (2, 3)


def test_rows_of_a_data_frame_are_matched_by_name() -> None:
    problem = small()
    names = [f"item {i}" for i in range(300)]
    table = Annotations.from_dense(problem.annotations.to_dense(), item_names=names)
    frame = pd.DataFrame(problem.X, index=names).add_prefix("x")
    shuffled = frame.sample(frac=1, random_state=0)
    model = quick(epochs=2).fit(shuffled, table)
    assert model.result_.items.tolist() == shuffled.index.tolist()


def test_features_that_are_not_finite_are_refused_with_the_first_place() -> None:
    X = np.zeros((4, 3))
    X[2, 1] = np.nan
    X[3, 0] = np.inf
    with pytest.raises(InvalidParameterError, match=r"2 of 12, in 2 items; the first is nan at row 2, column 1"):
        quick().fit(X, [[0], [1], [0], [1]])


def test_different_items_are_named() -> None:
    annotations = Annotations.from_triplets(["a", "b"], ["ann", "ann"], [0, 1])
    with pytest.raises(InvalidAnnotationsError, match="X has 3 rows but the annotations have 2 items"):
        quick().fit(np.eye(3), annotations)
    with pytest.raises(InvalidAnnotationsError, match=r"1 rows of X are no items of the annotations \('c'\)"):
        quick().fit(np.eye(2), annotations, items=["a", "c"])
    with pytest.raises(InvalidAnnotationsError, match=r"items have no row in X \('b'\)"):
        quick().fit(pd.DataFrame(np.eye(2), index=["a", "c"]).add_prefix("x"), annotations)


def test_no_annotation_at_all_and_a_single_class_are_refused() -> None:
    annotations = Annotations.from_dense([[0], [1]])
    with pytest.raises(InvalidAnnotationsError, match="no annotation at all"):
        quick().fit(np.eye(2), annotations.select(np.zeros(2, dtype=bool)))
    with pytest.raises((InvalidAnnotationsError, ValueError), match="class"):
        quick().fit(np.eye(2), [[0], [0]])


def test_unknown_classes_and_unfitted_models_are_refused() -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        quick().predict(np.eye(2))
    model = quick(epochs=1).fit(np.eye(2), [[0], [1]])
    with pytest.raises(InvalidAnnotationsError, match="unknown to this model: 7"):
        model.label_posterior(np.eye(2), Annotations.from_dense([[0], [7]]))
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.eye(3))


def test_wrong_channels_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="1 or 3 channels, but items have 2"):
        GeoCrowdNet(network="lenet5").fit(np.zeros((4, 2, 28, 28)), [[0], [1], [0], [1]])


def test_bytes_stay_bytes_and_other_numbers_become_float32() -> None:
    assert as_features(np.zeros((2, 3), dtype=np.uint8)).dtype == torch.uint8
    assert as_features(np.zeros((2, 3), dtype=np.int64)).dtype == torch.float32
    assert as_features(np.array([[1, 2.5]], dtype=object)).tolist() == [[1.0, 2.5]]
    assert as_features(np.zeros((2, 5, 4))).shape == (2, 1, 5, 4)  # grey images get a channel


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), r"at least 2 dimensions .* shape \(3,\)"),
        (np.array([["a", "b"]]), "Encode text as numbers"),
        (np.array([["a", 1]], dtype=object), "must hold numbers"),
        (np.zeros((0, 3)), "no item or no feature"),
        (TensorDataset(torch.zeros(0, 3)), "X has 0 items"),
    ],
)
def test_features_without_numbers_or_items_are_refused(X: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        as_features(X)


def test_a_loader_counts_the_items_of_its_dataset_and_unlabelled_items_are_appended() -> None:
    part = TensorDataset(torch.arange(6.0).view(3, 2))
    assert n_items_of(DataLoader(part, batch_size=2)) == 3
    assert n_items_of(with_unlabelled(DataLoader(part), part)) == 6
    assert with_unlabelled(torch.zeros(2, 1), torch.ones(1, 1, dtype=torch.float64)).tolist() == [[0.0], [0.0], [1.0]]
    with pytest.raises(InvalidParameterError, match="both be arrays, or both be torch Datasets"):
        with_unlabelled(torch.zeros(2, 2), part)


@pytest.mark.parametrize("what", ["X_valid", "X_unlabelled"])
def test_further_items_of_another_shape_are_refused_by_name(what: str) -> None:
    further = {what: torch.zeros(2, 3)} | ({"y_valid": [0, 1]} if what == "X_valid" else {})
    with pytest.raises(InvalidParameterError, match=rf"Items of {what} have shape \(3,\)"):
        quick().fit(np.eye(2), [[0], [1]], **further)


def test_an_index_that_names_no_item_is_ignored() -> None:
    annotations = Annotations.from_triplets(["a", "b"], ["ann", "ann"], [0, 1])
    frame = pd.DataFrame(np.eye(2), index=[17, 4])  # left over from a split
    assert matched(annotations, frame, 2) is annotations


def test_one_column_of_labels_is_one_annotator() -> None:
    annotations = annotations_of(np.array([1.0, 0.0, 1.0]))
    assert (annotations.n_annotators, annotations.classes.tolist(), annotations.label.tolist()) == (
        1,
        [0, 1],
        [1, 0, 1],
    )


def test_a_table_at_prediction_has_the_fitted_annotators_as_columns() -> None:
    problem = small()
    model = quick(epochs=2).fit(problem.X, problem.annotations)
    table = problem.annotations.to_dense()
    assert np.array_equal(
        model.label_posterior(problem.X, table), model.label_posterior(problem.X, problem.annotations)
    )


def test_a_random_state_gives_a_seed_and_a_negative_seed_is_refused() -> None:
    assert plain_seed(None) == 0
    assert plain_seed(np.int64(7)) == 7
    assert plain_seed(np.random.RandomState(0)) == plain_seed(np.random.RandomState(0))
    with pytest.raises(ValueError, match=r"seed|random_state"):
        plain_seed(-1)


def test_a_dataset_is_standardized_as_the_array_is() -> None:
    values = 5 + 100 * np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    dataset = TensorDataset(torch.from_numpy(values))
    found, expected = (make_scaling(one, standardize=True) for one in (dataset, torch.from_numpy(values)))
    torch.testing.assert_close(found.shift, expected.shift)
    torch.testing.assert_close(found.scale, expected.scale)
    assert make_scaling(dataset, standardize=False).scale == 1


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Features on disk that count as larger than memory."""
    monkeypatch.setattr(inputs, "IN_MEMORY_BYTES", 64)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(60, 4)))
    return np.load(tmp_path / "x.npy", mmap_mode="r")


@pytest.mark.parametrize("name", ["conal", "aggnet", "coinnet"])
def test_features_on_disk_train_as_those_in_memory(mapped: np.ndarray, name: str) -> None:
    labels = np.random.default_rng(1).integers(0, 2, (60, 3))
    plain = {"epochs": 2, "input_noise": 0.0, "temperature": 1.0, "learning_rate": 0.05}
    weight = np.arange(60) % 3
    on_disk, in_memory = (
        make_classifier(name, **plain).fit(X, labels, sample_weight=weight) for X in (mapped, np.array(mapped))
    )
    assert isinstance(inputs.read_features(on_disk, mapped), MappedFeatures)
    np.testing.assert_array_equal(on_disk.predict_proba(mapped), in_memory.predict_proba(np.array(mapped)))


def test_only_the_rows_of_a_batch_are_read_from_disk(mapped: np.ndarray) -> None:
    rows = MappedFeatures(mapped).part(np.array([5, 3, 1]))
    assert len(rows) == 3
    np.testing.assert_array_equal(rows[np.array([2, 0])].numpy(), mapped[[1, 5]].astype(np.float32))


def test_features_on_disk_are_checked_a_part_at_a_time(mapped: np.ndarray, tmp_path: Path) -> None:
    spoilt = np.array(mapped)
    spoilt[41, 2] = np.nan
    np.save(tmp_path / "spoilt.npy", spoilt)
    with pytest.raises(InvalidParameterError, match=r"X contains NaN.*row 41, column 2"):
        make_classifier("geocrowdnet").fit(
            np.load(tmp_path / "spoilt.npy", mmap_mode="r"), np.zeros((60, 2), dtype=int)
        )


def test_features_on_disk_of_other_items_than_the_annotations_are_refused(mapped: np.ndarray) -> None:
    with pytest.raises(InvalidAnnotationsError, match="X has 60 rows but the annotations have 50 items"):
        make_classifier("geocrowdnet").fit(mapped, np.arange(100).reshape(50, 2) % 2)
