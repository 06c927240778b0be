"""Tables in memory are read as their files would be."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crowdprism as cp
from crowdprism.errors import InvalidAnnotationsError

LONG = {
    "task": ["x", "x", "y", "y", "z"],
    "worker": ["ann", "bob", "ann", "bob", "ann"],
    "label": ["cat", "dog", "dog", "dog", "cat"],
    "gold": [None, None, "dog", "dog", None],
}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_read_annotations_takes_frames(make) -> None:
    annotations = cp.read_annotations(make(LONG))
    assert annotations.annotators.tolist() == ["ann", "bob"]
    assert annotations.n_annotations == 5
    assert annotations.gold_by_name() == {"y": "dog"}


def test_a_wide_frame_is_read_as_a_wide_table() -> None:
    frame = pd.DataFrame({"item": [7, 8], "ann": ["a", "b"], "bob": ["b", None], "gold": ["a", ""]})
    annotations = cp.read_annotations(frame)
    assert annotations.annotators.tolist() == ["ann", "bob"]
    assert annotations.items.tolist() == [7, 8]
    assert annotations.gold_by_name() == {7: "a"}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_long_frame_can_be_fitted(make) -> None:
    fitted = cp.make_aggregator("majority-vote").fit(make(LONG))
    assert fitted.result_.items.tolist() == ["x", "y", "z"]
    assert fitted.result_.annotators.tolist() == ["ann", "bob"]


def test_a_frame_of_class_codes_is_a_dense_table() -> None:
    fitted = cp.make_aggregator("majority-vote").fit(pd.DataFrame({"ann": [0, 1], "bob": [0, -1]}))
    assert fitted.result_.n_items == 2


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"item": [1, 2], "label": ["a", "b"], "when": [3, 4]}, "no column for annotator"),
        ({"first": ["a", "b"], "second": ["some text", "b"]}, "neither long .* nor a table of class codes"),
        ({"first": [0.5, 1.0], "second": [1, 0]}, "the first is 'first'"),
    ],
)
def test_a_frame_that_is_neither_is_refused(columns: dict[str, list], told: str) -> None:
    with pytest.raises(InvalidAnnotationsError, match=told):
        cp.make_aggregator("majority-vote").fit(pd.DataFrame(columns))


def test_hugging_face_data_sets_go_in_and_out() -> None:
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face datasets: pip install datasets")
    features = datasets.Features(
        {
            "item": datasets.Value("string"),
            "annotator": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
        }
    )
    rows = {"item": ["x", "x", "y"], "annotator": ["ann", "bob", "ann"], "label": [0, 1, 1]}
    annotations = cp.read_annotations(datasets.Dataset.from_dict(rows, features=features))
    assert annotations.classes.tolist() == ["cat", "dog"]
    back = annotations.to_frame("datasets")
    assert isinstance(back, datasets.Dataset)
    assert cp.read_annotations(back) == annotations
    labels = cp.make_aggregator("majority-vote").fit(annotations).result_.to_frame("datasets")
    assert labels.column_names[:2] == ["item", "label"]
