"""The container: its invariants hold for any names, any order of rows and any way of building it."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdprism.annotations import Annotations, as_annotations
from crowdprism.errors import AlignmentWarning, InvalidAnnotationsError, InvalidParameterError

settings.register_profile("quick", deadline=None, max_examples=40)  # compiled code is slow the first time
settings.load_profile("quick")

NAMES = st.one_of(
    st.just(st.integers(-(2**40), 2**40)),
    st.just(st.text(min_size=1, max_size=6)),  # non-ASCII included
    st.just(st.tuples(st.integers(0, 5), st.text(max_size=2))),
    st.just(st.uuids()),
    st.just(st.integers(0, 100).map(np.int64)),
    st.just(st.booleans()),
)


@st.composite
def rows(draw: Any, min_size: int = 2) -> list[tuple[Any, Any, Any]]:
    """Triplets with names of any hashable type and at least two classes."""
    item, annotator = draw(NAMES), draw(NAMES)
    label = draw(st.sampled_from([st.integers(0, 4), st.sampled_from(["yes", "no", "perhaps"])]))
    found = draw(st.lists(st.tuples(item, annotator, label), min_size=min_size, max_size=30))
    first, second = (0, 1) if isinstance(found[0][2], int) else ("yes", "no")
    return [(*found[0][:2], first), (*found[1][:2], second), *found[2:]]


@st.composite
def tables(draw: Any) -> np.ndarray:
    """Items x annotators, -1 for none, at least two classes."""
    n_items, n_annotators = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    cells = draw(st.lists(st.integers(-1, 3), min_size=n_items * n_annotators, max_size=n_items * n_annotators))
    table = np.array(cells).reshape(n_items, n_annotators)
    table[0, :2] = [0, 1]
    return table


def build(triplets: list[tuple[Any, Any, Any]], **options: Any) -> Annotations:
    items, annotators, labels = zip(*triplets, strict=True)
    return Annotations.from_triplets(list(items), list(annotators), list(labels), **options)


def triplets_of(a: Annotations) -> list[tuple[Any, Any, Any]]:
    return list(
        zip(a.items[a.item].tolist(), a.annotators[a.annotator].tolist(), a.classes[a.label].tolist(), strict=True)
    )


def require_invariants(a: Annotations) -> None:
    assert a.item_start[0] == 0
    assert a.item_start[-1] == a.n_annotations
    assert (np.diff(a.item_start) >= 0).all()
    assert a.annotator.dtype == np.int32
    assert a.label.dtype in (np.int16, np.int32)
    key = list(zip(a.item.tolist(), a.annotator.tolist(), a.label.tolist(), strict=True))
    assert key == sorted(key)
    if a.n_annotations:
        assert 0 <= a.annotator.min() <= a.annotator.max() < a.n_annotators
        assert 0 <= a.label.min() <= a.label.max() < a.n_classes
    for array in (a.item_start, a.annotator, a.label, a.items, a.annotators, a.classes):
        assert not array.flags.writeable


# -- properties -----------------------------------------------------------------------------------------------


@given(rows(), st.randoms(use_true_random=False))
def test_the_order_of_rows_never_matters(triplets: list[tuple[Any, Any, Any]], random: Any) -> None:
    shuffled = list(triplets)
    random.shuffle(shuffled)
    assert build(triplets) == build(shuffled)


@given(rows())
def test_what_goes_in_comes_out(triplets: list[tuple[Any, Any, Any]]) -> None:
    a = build(triplets)
    require_invariants(a)
    plain = [tuple(v.item() if isinstance(v, np.generic) else v for v in row) for row in triplets]
    assert sorted(map(repr, triplets_of(a))) == sorted(map(repr, plain))


@given(tables(), st.data())
def test_slicing_then_concatenating_is_identity(table: np.ndarray, data: Any) -> None:
    a = Annotations.from_dense(table)
    cut = data.draw(st.integers(0, len(table)))
    assert a[:cut].concat(a[cut:]) == a


@given(rows())
def test_one_item_at_a_time_then_concatenating_is_identity(triplets: list[tuple[Any, Any, Any]]) -> None:
    a = build(triplets)
    parts = list(a)
    assert parts[0].concat(*parts[1:]) == a


@given(tables())
def test_dense_and_sparse_agree(table: np.ndarray) -> None:
    a = Annotations.from_dense(table)
    codes = {name: code for code, name in enumerate(a.classes.tolist())} | {-1: -1}
    expected = np.vectorize(codes.__getitem__)(table)
    assert (a.to_dense() == expected).all()
    items, annotators = np.nonzero(table >= 0)
    same = Annotations.from_triplets(
        items,
        annotators,
        table[items, annotators],
        item_names=range(table.shape[0]),
        annotator_names=range(table.shape[1]),
    )
    assert same == a
    csr = a.to_csr()
    assert csr.nnz == a.n_annotations
    assert (csr.toarray()[table >= 0] == expected[table >= 0]).all()


@given(tables())
def test_missing_cells_can_be_minus_one_nan_none_or_masked(table: np.ndarray) -> None:
    a = Annotations.from_dense(table)
    with_nan = np.where(table < 0, np.nan, table.astype(float))
    with_none = np.where(table < 0, None, table.astype(object))
    assert Annotations.from_dense(with_nan) == a
    assert Annotations.from_dense(with_none) == a
    assert Annotations.from_dense(np.ma.MaskedArray(table, mask=table < 0), missing=None) == a
    assert as_annotations(table) == a


@given(tables(), st.data())
def test_indexing_agrees_with_numpy(table: np.ndarray, data: Any) -> None:
    a = Annotations.from_dense(table, classes=range(4))
    n_items = len(table)
    index = data.draw(
        st.one_of(
            st.slices(n_items),
            st.integers(-n_items, n_items - 1),
            st.lists(st.integers(-n_items, n_items - 1), max_size=8).map(lambda x: np.array(x, dtype=int)),
            st.lists(st.booleans(), min_size=n_items, max_size=n_items).map(np.array),
        )
    )
    part = a[index]
    require_invariants(part)
    assert (part.to_dense() == np.atleast_2d(table[index])).all()
    assert part.items.tolist() == np.atleast_1d(np.arange(n_items)[index]).tolist()
    assert part.n_annotators == a.n_annotators
    assert part.n_classes == 4


@given(tables())
def test_frames_give_back_the_same_annotations(table: np.ndarray) -> None:
    a = Annotations.from_dense(table)
    annotated = a[a.labels_per_item > 0]
    for kind in ("polars", "pandas", "pyarrow"):
        frame = annotated.to_frame(kind)
        assert type(frame).__module__.startswith(kind)
        again = Annotations.from_frame(frame)
        assert triplets_of(again) == triplets_of(annotated)
        assert type(again.to_frame()) is type(frame)


@given(tables(), st.floats(0.1, 0.9), st.integers(0, 5))
def test_held_out_annotations_and_the_others_make_the_whole(table: np.ndarray, fraction: float, seed: int) -> None:
    a = Annotations.from_dense(table)
    kept, held_out = a.split_annotations(fraction, seed)
    assert held_out.n_annotations == round(fraction * a.n_annotations)
    assert kept.concat(held_out) == a
    assert a.split_annotations(fraction, seed)[1] == held_out


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=3)), min_size=2, max_size=40))
def test_text_columns_of_polars_are_encoded_as_python_would(pairs: list[tuple[str, str]]) -> None:
    items, annotators = map(list, zip(*pairs, strict=True))
    labels = ["x", "y"] * len(pairs)
    columns = {"item": items, "annotator": annotators, "label": labels[: len(pairs)]}
    assert Annotations.from_frame(pl.DataFrame(columns)) == Annotations.from_triplets(*columns.values())


# -- construction ---------------------------------------------------------------------------------------------


def test_ids_of_many_types_are_kept_as_they_are() -> None:
    for ids in ([uuid.UUID(int=2), uuid.UUID(int=1)], [("b", 1), ("a", 2)], ["é", "z"], [2.5, 1.5], [True, False]):
        a = Annotations.from_triplets(ids, ids, [0, 1])
        assert a.items.tolist() == sorted(ids)
        assert [type(name) for name in a.items.tolist()] == [type(name) for name in ids]


def test_numpy_scalars_and_whole_floats_become_plain_ints() -> None:
    a = Annotations.from_triplets([np.int64(3), np.int64(1)], np.array([1.0, 2.0]), [1.0, 0.0])
    assert a.items.tolist() == [1, 3]
    assert a.annotators.tolist() == [1, 2]
    assert a.classes.tolist() == [0, 1]
    assert {type(name) for name in a.items.tolist()} == {int}


def test_huge_unsigned_ids_do_not_wrap_around() -> None:
    ids = np.array([2**63 + 5, 1], dtype=np.uint64)
    assert Annotations.from_triplets(ids, [0, 0], [0, 1]).items.tolist() == [1, 2**63 + 5]


def test_more_than_32767_classes_get_wider_codes() -> None:
    labels = np.arange(40_000)
    a = Annotations.from_triplets(labels, np.zeros_like(labels), labels)
    assert a.label.dtype == np.int32
    assert (a.classes[a.label] == labels).all()


def test_nested_dicts_keep_items_without_annotations() -> None:
    a = Annotations.from_dicts({"y": {}, "x": {"ann": "cat", "bob": "dog"}})
    assert a.items.tolist() == ["x", "y"]
    assert a.labels_per_item.tolist() == [2, 0]


def test_repeats_are_kept_or_the_last_or_an_error() -> None:
    columns = ([1, 1, 1], ["a", "a", "b"], [0, 1, 1])
    assert Annotations.from_triplets(*columns).n_annotations == 3
    last = Annotations.from_triplets(*columns, repeats="last")
    assert triplets_of(last) == [(1, "a", 1), (1, "b", 1)]
    by_time = Annotations.from_triplets(*columns, timestamp=[9, 1, 1], repeats="last")
    assert triplets_of(by_time) == [(1, "a", 0), (1, "b", 1)]
    with pytest.raises(InvalidAnnotationsError, match=r"1 annotations repeat.*annotator 'a' on item 1 in row 1"):
        Annotations.from_triplets(*columns, repeats="error")


def test_gold_adds_classes_that_nobody_chose() -> None:
    a = Annotations.from_triplets([1, 1], ["a", "b"], ["x", "y"], gold={1: "z", 99: "x"})
    assert a.classes.tolist() == ["x", "y", "z"]
    assert a.gold is not None
    assert a.gold.tolist() == [2]


def test_weights_stay_with_their_annotations() -> None:
    a = Annotations.from_triplets([2, 1, 1], ["a", "b", "a"], [0, 1, 1], weight=[1, 2, 3])
    assert a.weight is not None
    assert a.weight.tolist() == [3, 2, 1]
    assert a[1:].concat(a[:1]).weight is not None


def test_timestamps_may_be_dates() -> None:
    import datetime as dt

    when = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None]
    a = Annotations.from_triplets([1, 2], ["a", "a"], [0, 1], timestamp=when)
    assert a.timestamp is not None
    assert a.timestamp[0] == when[0].timestamp()  # type: ignore[union-attr]
    assert np.isnan(a.timestamp[1])
    b = Annotations.from_triplets(
        [1, 2], ["a", "a"], [0, 1], timestamp=np.array(["2026-01-01", "NaT"], dtype="datetime64[s]")
    )
    assert np.array_equal(a.timestamp, b.timestamp, equal_nan=True)  # type: ignore[arg-type]


# -- selection and merging ------------------------------------------------------------------------------------


def test_align_items_follows_the_features_and_says_what_matched() -> None:
    a = Annotations.from_triplets(["x", "y", "z"], ["ann"] * 3, ["cat", "dog", "cat"], gold={"y": "cat"})
    same = a.align_items(["z", "x", "y"])
    assert same.items.tolist() == ["z", "x", "y"]
    assert same.gold is not None
    assert same.gold.tolist() == [None, None, 0]
    with pytest.warns(AlignmentWarning, match=r"2 of 3 ids are annotated items; 1 ids have no annotation.*'w'.*1 ann"):
        part = a.align_items(["w", "y", "x"])
    assert part.labels_per_item.tolist() == [0, 1, 1]
    with pytest.raises(InvalidAnnotationsError, match=r"1 of 3 ids are repeated; the first is 'x' at position 2"):
        a.align_items(["x", "y", "x"])
    with pytest.raises(InvalidAnnotationsError, match=r"None of the 2 ids.*Ids look like 1, 2; items look like 'x'"):
        a.align_items([1, 2])


def test_concat_joins_by_name_and_refuses_mixed_types() -> None:
    a = Annotations.from_triplets(["x"] * 2, ["ann", "bob"], ["cat", "dog"])
    b = Annotations.from_triplets(["y", "x"], ["bob", "cy"], ["dog", "emu"])
    both = a.concat(b)
    assert both.annotators.tolist() == ["ann", "bob", "cy"]
    assert both.classes.tolist() == ["cat", "dog", "emu"]
    assert both.labels_per_item.tolist() == [3, 1]
    with pytest.raises(InvalidAnnotationsError, match="mixed types"):
        a.concat(Annotations.from_triplets([1, 2], ["ann", "bob"], ["cat", "dog"]))


def test_dropping_annotators_takes_their_labels_along() -> None:
    a = Annotations.from_dense([[0, 1], [1, -1]], annotator_names=["ann", "bob"])
    kept = a.drop_annotators(["ann"])
    assert kept.annotators.tolist() == ["bob"]
    assert kept.labels_per_item.tolist() == [1, 0]
    with pytest.raises(InvalidParameterError, match=r"1 of 1 names are not annotators: 'cy'"):
        a.drop_annotators(["cy"])


def test_an_item_without_annotations_is_still_an_item() -> None:
    a = Annotations.from_dense([[0, 1], [-1, -1]])
    assert a[1].n_annotations == 0
    assert a[[]].n_items == 0
    assert a.select(np.zeros(2, dtype=bool)).n_items == 2


def test_csr_and_dense_take_the_last_of_repeats() -> None:
    a = Annotations.from_triplets([1, 1, 2], ["a", "a", "b"], [0, 1, 1])
    assert a.to_csr().toarray().tolist() == [[1, 0], [0, 1]]
    assert a.to_dense().tolist() == [[1, -1], [-1, 1]]
    with pytest.raises(InvalidParameterError, match="missing=0 is also the code of class 0"):
        a.to_dense(missing=0)


def test_scikit_learn_splits_annotations_as_a_target() -> None:
    from sklearn.model_selection import KFold
    from sklearn.utils import indexable

    a = Annotations.from_dense(np.tile([[0, 1, -1]], (10, 1)))
    features = np.arange(20).reshape(10, 2)
    indexable(features, a)
    seen = []
    for train, test in KFold(5).split(features, a):
        assert a[train].n_items == 8
        seen += a[test].items.tolist()
    assert seen == list(range(10))


def test_the_container_stays_small() -> None:
    one_each = Annotations.from_triplets(np.arange(1000), np.arange(1000) % 7, np.arange(1000) % 3)
    assert one_each.nbytes <= 12 * one_each.n_annotations


def test_the_summary_counts_what_is_there() -> None:
    a = Annotations.from_triplets([1, 1, 2, 2], ["a", "a", "b", "a"], ["x", "y", "y", "y"], gold={1: "x"})
    summary = a.summary()
    assert summary.n_repeats == 1
    assert summary.class_shares == {"x": 0.25, "y": 0.75}
    assert summary.label_accuracy == 0.5
    assert "4 annotations of 2 items by 2 annotators" in str(summary)
    assert repr(a) == "Annotations(4 annotations of 2 items by 2 annotators, 2 classes: 'x', 'y')"


# -- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([], [], []), "There is no annotation"),
        (([1], [1, 2], [0, 1]), r"different lengths: item 1, annotator 2, label 2"),
        (([1, 2], [1, 1], [0, None]), r"1 of 2 labels are missing; the first is in row 1"),
        (([1, 2], [1, 1], [0.0, float("nan")]), r"1 of 2 labels are missing; the first is in row 1"),
        (
            ([1, "1"], [1, 1], [0, 1]),
            r"items are of mixed types \(1 int, 1 str\); the first that differs is '1' in row 1",
        ),
        (([1, 2], [1, 1], [[0], [1]]), r"2 of 2 labels are not hashable; the first is \[0\] in row 0"),
        (([1, 2], [1, 1], [(0, [1]), (1, [2])]), r"2 of 2 labels are not hashable"),
        (([1, 2], [1, 1], [0, 0]), "only one class: 0"),
        (("ab", [1, 1], [0, 1]), "must be a sequence of names, not str"),
        ((np.zeros((2, 2)), [1, 1], [0, 1]), "one-dimensional.*from_dense"),
    ],
)
def test_bad_columns_are_refused(columns: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(InvalidAnnotationsError, match=f"(?s){message}"):
        Annotations.from_triplets(*columns)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidAnnotationsError, match=r"(?s)2 problems:.*items are of mixed types.*labels are missing"):
        Annotations.from_triplets([1, "1"], ["a", "b"], [0, None])


def test_labels_outside_the_given_classes_are_counted() -> None:
    with pytest.raises(
        InvalidAnnotationsError, match=r"2 of 3 labels are not among the 2 given; the first is 7 in row 1"
    ):
        Annotations.from_triplets([1, 2, 3], [1, 1, 1], [0, 7, 8], classes=[0, 1])


@pytest.mark.parametrize("bad", [1.5, float("inf")])
def test_fractions_in_a_table_are_refused(bad: float) -> None:
    with pytest.raises(InvalidAnnotationsError, match=rf"1 of 3 labels.*first is {bad} at row 0, column 1"):
        Annotations.from_dense([[0, bad], [1, -1]])


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_weights_must_be_finite_and_not_negative(weight: float) -> None:
    with pytest.raises(InvalidAnnotationsError, match=r"1 of 2 weights.*in row 1"):
        Annotations.from_triplets([1, 2], ["a", "b"], [0, 1], weight=[1.0, weight])


def test_a_frame_without_the_column_lists_those_it_has() -> None:
    with pytest.raises(InvalidAnnotationsError, match=r"no column 'item' \(for item\).*'task', 'worker', 'label'"):
        Annotations.from_frame(pl.DataFrame({"task": [1], "worker": [1], "label": [1]}), annotator="worker")
    with pytest.raises(InvalidAnnotationsError, match="not a data frame"):
        Annotations.from_frame([1, 2])


@pytest.mark.parametrize("index", [7, -8, [0, 9], [True], [[0]], [0.5]])
def test_bad_indexes_are_refused(index: Any) -> None:
    with pytest.raises(IndexError):
        Annotations.from_dense([[0, 1]] * 7)[index]
