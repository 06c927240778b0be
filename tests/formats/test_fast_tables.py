"""The quick way through large plain tables gives the same annotations, bit for bit, or leaves the table alone."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crowdprism.annotations import Annotations, annotation_kernels
from crowdprism.annotations import sorting as annotation_sorting
from crowdprism.annotations.sorting import sort_many
from crowdprism.errors import UnreadableFileError
from crowdprism.formats import fast_tables, read_annotations
from crowdprism.formats import read as reading
from crowdprism.formats.fast_tables import order_of_rows, read_plain, runs_of_ones

COLUMNS = ["item", "annotator", "label"]
ROLES = {name: name for name in COLUMNS}
QUICK = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
CELL = st.one_of(
    st.text(
        st.characters(codec="utf-8", exclude_characters="\r\n\0", exclude_categories=["Cs"]), min_size=1, max_size=20
    ),
    st.integers(-20, 20).map(str),
    st.sampled_from(
        ["item_0001", "item_0002", "a-very-long-name-that-needs-more-than-four-words-of-bytes", "07", "1.0"]
    ),
)


def table_text(rows: list[tuple[str, ...]], quoting: int, line_end: str = "\n") -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=quoting, lineterminator=line_end)
    writer.writerows([COLUMNS, *rows])
    return buffer.getvalue()


def quick(path: Path, packing: str = "") -> Annotations | None:
    return read_plain(path, packing=packing, delimiter=",", columns=COLUMNS, roles=ROLES)


def require_same(quick_result: Annotations, general: Annotations) -> None:
    assert quick_result == general
    for name in ("item_start", "annotator", "label", "items", "annotators", "classes"):
        assert getattr(quick_result, name).dtype == getattr(general, name).dtype


@QUICK
@given(
    st.lists(st.tuples(CELL, CELL, CELL), min_size=2, max_size=60),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_table_is_read_as_by_the_general_reader_or_not_at_all(
    tmp_path: Path, rows: list[tuple[str, ...]], quoting: int, line_end: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(table_text(rows, quoting, line_end).encode())
    found = quick(path)
    if found is not None:
        require_same(found, read_annotations(path))


@pytest.mark.parametrize(("block", "threads"), [(1 << 10, 2), (1 << 10, 3), (1 << 24, 2)])
@pytest.mark.parametrize("kind", ["text", "numbers", "long text"])
def test_blocks_and_threads_do_not_show_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, threads: int, kind: str
) -> None:
    monkeypatch.setattr(fast_tables, "BLOCK_BYTES", block)
    monkeypatch.setattr(fast_tables, "N_THREADS", threads)
    draws = np.random.default_rng(0)
    prefix = {"text": "item_", "numbers": "", "long text": "https://example.org/a/rather/long/path/"}[kind]
    ending = "/and/much/more/than/that.jpg" if kind == "long text" else ""
    items = [f"{prefix}{number}{ending}" for number in draws.integers(-50, 500, 5000)]
    rows = list(
        zip(
            items,
            map(str, draws.integers(0, 30, 5000)),
            draws.choice(["cat", "dog", "émeu"], 5000).tolist(),
            strict=True,
        )
    )
    path = tmp_path / "x.csv"
    path.write_text(table_text(rows, csv.QUOTE_MINIMAL), encoding="utf-8")
    found = quick(path)
    assert found is not None
    require_same(found, read_annotations(path))
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    again = quick(packed, "gzip")
    assert again == found


def test_a_half_without_rows_changes_nothing(tmp_path: Path) -> None:
    head, rows = b"item,annotator,label\n", b"1,a,x\n2,b,y\n"
    plain, with_lines = tmp_path / "plain.csv", tmp_path / "lines.csv"
    plain.write_bytes(head + rows)
    for content in (head + b"\n" * 100 + rows, head + rows + b"\n" * 100):
        with_lines.write_bytes(content)
        assert quick(with_lines) == quick(plain) is not None


def test_large_files_take_the_quick_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.csv"
    path.write_text("other,label,item,annotator\n-,x,1,a\n-,y,2,b\n")
    expected = read_annotations(path)
    taken = []
    original = read_plain

    def noted(*arguments: Any, **options: Any) -> Any:
        taken.append(options["roles"])
        return original(*arguments, **options)

    monkeypatch.setattr(reading, "LARGE_FILE_BYTES", 0)
    monkeypatch.setattr(fast_tables, "read_plain", noted)
    assert read_annotations(path) == expected
    assert taken == [{"item": "item", "annotator": "annotator", "label": "label"}]


@pytest.mark.parametrize(
    "content",
    [
        b"item,annotator,label\n1,a,x\n2,b\n",
        b"item,annotator,label\n1,a,x\n2,b,y,z\n",
        b"item,annotator,label\n1,a,x\n2,b,\n",
        b'item,annotator,label\n1,a,x\n2,b,"two\nlines"\n',
        b'item,annotator,label\n1,a,x\n2,b,"say ""no"""\n',
        b"item,annotator,label\n1,a,x\n2,b,caf\xe9\n",
        b"item,annotator,label\n1,a,x\n2,b,x\n",
        b"item,annotator,label\n",
        b"item,annotator,label\n1,a,nan\n2,b,x\n",
    ],
)
def test_anything_unusual_is_left_to_the_general_reader(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    assert quick(path) is None


def test_errors_of_large_files_are_those_of_the_general_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGE_FILE_BYTES", 0)
    path = tmp_path / "x.csv"
    path.write_bytes(b"item,annotator,label\n1,a,x\n2,b,\n")
    with pytest.raises(UnreadableFileError, match="1 of 2 labels in column 'label' are missing"):
        read_annotations(path)
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(b"item,annotator,label\n" + b"1,a,x\n2,b,y\n" * 1000)[:-9])
    with pytest.raises(UnreadableFileError, match="truncated gzip"):
        read_annotations(packed)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere numba runs its code itself")
def test_a_process_that_reads_a_large_plain_table_never_loads_numba(tmp_path: Path) -> None:
    annotation_kernels.KERNELS.load()  # makes and keeps the code where it is not kept yet
    path = tmp_path / "x.csv"
    path.write_text("item,annotator,label\n" + "b,1,x\na,2,y\n" * 1000)
    program = (
        "import sys; from crowdprism.formats import reading, fast_tables; reading.LARGE_FILE_BYTES = 0; "
        "taken = []; original = fast_tables.read_plain; "
        "fast_tables.read_plain = lambda *given, **options: taken.append(1) or original(*given, **options); "
        f"a = reading.read_annotations({str(path)!r}); "
        "print(a.n_annotations, taken, 'llvmlite' in sys.modules, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2000 [1] True False"


@pytest.mark.parametrize("label_dtype", [np.int16, np.int32])
@pytest.mark.parametrize("wide", [np.int32, np.int64])
@pytest.mark.parametrize("n_items", [1, 2, 40, 2000])
def test_counting_sort_agrees_with_lexsort(
    n_items: int, wide: Any, label_dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = np.random.default_rng(n_items)
    item, annotator, label = (draws.integers(0, size, 3000).astype(np.int32) for size in (n_items, 50, 5))
    ranks = [draws.permutation(size).astype(np.int32) for size in (n_items, 50, 5)]
    if wide is np.int64:
        monkeypatch.setattr(annotation_sorting, "INT32_MAX", 100)
    start, sorted_annotator, sorted_label = sort_many(
        item,
        annotator,
        label,
        item_rank=ranks[0],
        annotator_rank=ranks[1],
        label_rank=ranks[2],
        label_dtype=label_dtype,
    )
    assert start.dtype == wide
    assert sorted_label.dtype == label_dtype
    order = np.lexsort([ranks[2][label], ranks[1][annotator], ranks[0][item]])
    assert (sorted_annotator == ranks[1][annotator][order]).all()
    assert (sorted_label == ranks[2][label][order]).all()
    assert (np.diff(start) == np.bincount(ranks[0][item], minlength=n_items)).all()


@pytest.mark.parametrize("varying", [[0x0F0F0F], [2**64 - 1], [0x8000000000000001, 0xFF00], [2**64 - 1, 1], [0]])
def test_rows_are_ordered_by_their_words_whether_or_not_they_can_be_packed(
    varying: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_tables, "PACKED_TOGETHER", 7)
    draws = np.random.default_rng(0).integers(0, 2**64, (100, len(varying)), dtype=np.uint64)
    keys = np.unique((draws & np.array(varying, dtype=np.uint64)) | np.uint64(0x30000), axis=0)
    keys = keys[np.random.default_rng(1).permutation(len(keys))]
    np.testing.assert_array_equal(order_of_rows(keys), np.lexsort(keys.T[::-1]))


@given(st.integers(0, 2**64 - 1))
def test_runs_of_ones_make_up_the_number(bits: int) -> None:
    runs = runs_of_ones(bits)
    assert sum(((1 << width) - 1) << low for low, width in runs) == bits
    assert all(low > below + width for (low, _), (below, width) in pairwise(runs))
