"""Parquet files whose stated sizes do not fit are refused before any memory is taken."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.binary_files import Thrift, checked_column, read_footer, read_parquet, row_groups

FRAME = pl.DataFrame(
    {
        "number": range(3000),
        "text": [f"x{place % 7}" for place in range(3000)],
        "gaps": [None, 1.5] * 1500,
        "lists": [[1, 2], []] * 1500,
        "records": [{"x": 1, "y": "z"}] * 3000,
        "moment": [datetime(2026, 1, 1)] * 3000,
    }
)


def by_polars(**options: Any) -> bytes:
    buffer = io.BytesIO()
    FRAME.write_parquet(buffer, **options)
    return buffer.getvalue()


def by_pyarrow(**options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(FRAME.to_arrow(), buffer, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        by_polars(),
        by_polars(compression="snappy", row_group_size=700),
        by_polars(compression="uncompressed"),
        by_pyarrow(data_page_version="2.0", write_page_checksum=True, write_page_index=True),
        by_pyarrow(use_dictionary=False, data_page_size=1000, compression="gzip"),
    ],
)
def test_what_polars_and_pyarrow_write_is_read(data: bytes) -> None:
    assert read_parquet(data, "x", None).equals(FRAME)


def test_a_page_that_states_a_negative_number_of_values_is_refused() -> None:
    buffer = io.BytesIO()
    pl.DataFrame({"item": [1, 2]}).write_parquet(buffer)
    data = buffer.getvalue()
    assert data.count(b",\x15\x04") == 1  # two values, where the header of the data page begins
    with pytest.raises(UnreadableFileError, match="negative or impossible"):
        read_parquet(data.replace(b",\x15\x04", b",\x15\x03"), "x", None)  # minus two: the process would be aborted
    with pytest.raises(UnreadableFileError, match="do not add up"):
        read_parquet(data.replace(b",\x15\x04", b",\x15\x06"), "x", None)


@pytest.mark.parametrize("data", [b"PAR1", b"PAR1" + b"\0" * 20, b"PAR1" + b"\xff\xff\xff\x7fPAR1", by_polars()[:-1]])
def test_a_file_without_footer_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableFileError, match="damaged or truncated Parquet"):
        read_parquet(data, "x", None)


def test_more_than_allowed_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(UnreadableFileError, match=r"more than 0 MB.*max_size"):
        read_parquet(by_polars(), "x", 1000)


def test_columns_are_found_with_their_pages() -> None:
    data = by_polars(row_group_size=1000, compression="uncompressed")
    groups = row_groups(read_footer(data))
    assert len(groups) == 3
    assert all(0 < checked_column(data, column) <= len(data) for group in groups for column in group[1])


def test_thrift_values_are_read() -> None:
    # field 1: -3, field 3: true, field 4: "ab", field 20: [1, -1], field 21: {1: 2}
    data = bytes([0x15, 5, 0x21, 0x18, 2]) + b"ab" + bytes([0x09, 40, 0x25, 2, 1, 0x1C, 0x15, 4, 0, 0])
    assert Thrift(data, 0).struct() == {1: -3, 3: True, 4: b"ab", 20: [1, -1], 21: {1: 2}}
    for broken in (data[:-1], b"\x15" + b"\xff" * 20, b"\x1c" * 99, b"\x1b\x05", b"\x19" * 99):
        with pytest.raises(ValueError, match="a header"):
            Thrift(broken, 0).struct()


def test_a_header_of_countless_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte of a list of empty structs would become an object of 64 bytes."""
    monkeypatch.setattr("crowdprism.formats.binary_files.MOST_PARTS", 1000)
    footer = b"\x49\xfc" + b"\x90\x4e" + bytes(10_000) + b"\0"  # field 4, a list of 10,000 structs
    data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(ValueError, match="too long"):
        read_footer(data)
    assert len(read_footer(by_polars())) > 3


def test_a_value_of_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind 11"):
        Thrift(b"\x1b\x00\x00", 0).struct()
