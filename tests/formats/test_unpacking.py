"""Sizes are checked, not believed: bombs are refused early and without filling memory."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from crowdprism.errors import InvalidParameterError, UnreadableFileError
from crowdprism.formats import read_annotations
from crowdprism.formats.feature_files import read_features
from crowdprism.formats.unpacking import limit_for, size_in_bytes, unpack, zstd_bound

TABLE = b"item,annotator,label\n1,a,x\n2,b,y\n"
MEGABYTE = 1 << 20


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def zstd_zeros(n_blocks: int) -> bytes:
    """A zstd frame of blocks that each stand for 128 kB of zeros in four bytes."""
    header = b"\x28\xb5\x2f\xfd" + bytes([0, 0x38])  # no content size, a window of 128 kB
    size = (MEGABYTE // 8) << 3
    blocks = ((size | 1 << 1 | (block == n_blocks - 1)).to_bytes(3, "little") + b"0" for block in range(n_blocks))
    return header + b"".join(blocks)


def parquet_of_equal_rows() -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({name: pl.repeat(1, 1_000_000, eager=True) for name in ("item", "annotator", "label")}).write_parquet(
        buffer
    )
    return buffer.getvalue()


BOMBS = {
    "bomb.csv.gz": gzip.compress(TABLE + b"\n" * (2 * MEGABYTE)),
    "bomb.json.gz": gzip.compress(b"[" + b" " * (2 * MEGABYTE) + b"]"),
    "bomb.csv.zst": pa.compress(TABLE + b"\n" * (2 * MEGABYTE), codec="zstd", asbytes=True),
    "bomb.zip": zipped("a.csv", TABLE + b"\n" * (2 * MEGABYTE)),
    "nested.zip": zipped("a.csv.gz", gzip.compress(TABLE + b"\n" * (2 * MEGABYTE))),
    "bomb.npz": zipped("label.npy", b"\x93NUMPY" + b"\0" * (2 * MEGABYTE)),
    "bomb.parquet": parquet_of_equal_rows(),
    "large.csv": TABLE + b"\n" * (2 * MEGABYTE),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_unpacks_to_more_than_allowed_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BOMBS[name])
    for reading in (read_annotations, read_features):
        with pytest.raises(UnreadableFileError, match=r"more than 1 MB.*max_size=|features are read from"):
            reading(tmp_path / name, max_size="1MB")


@pytest.mark.parametrize("name", ["bomb.csv.gz", "bomb.csv.zst", "bomb.zip"])
def test_the_same_file_is_read_where_the_caller_allows_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BOMBS[name])
    assert read_annotations(tmp_path / name, max_size="16MB").n_annotations == 2


READ_IN_LITTLE_MEMORY = """
import resource, sys
from crowdprism.errors import UnreadableFileError
from crowdprism.formats import read_annotations
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_annotations(sys.argv[1])
except UnreadableFileError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("name", ["x.csv.gz", "x.csv.zst", "x.zip"])
def test_gigabytes_are_refused_within_300_megabytes(tmp_path: Path, name: str) -> None:
    stated = zipped("a.csv", TABLE)
    place = stated.index(b"PK\x01\x02") + 24  # where the size of the content stands
    content = {
        "x.csv.gz": gzip.compress(b"0" * (16 * MEGABYTE)) * 160,
        "x.csv.zst": zstd_zeros(40_960),
        "x.zip": stated[:place] + (0xF0000000).to_bytes(4, "little") + stated[place + 4 :],
    }[name]
    (tmp_path / name).write_bytes(content)
    command = [sys.executable, "-c", READ_IN_LITTLE_MEMORY, str(tmp_path / name)]
    grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert 0 <= int(grown) < 300 * 1024  # kilobytes


def test_the_bound_of_zstd_is_never_below_the_content() -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 1000, 1 << 17, 1_000_000):
        for content in (rng.bytes(size), b"x" * size, TABLE * (size // 32)):
            assert (
                len(content) <= zstd_bound(pa.compress(content, codec="zstd", asbytes=True)) <= len(content) + (1 << 18)
            )
    assert zstd_bound(zstd_zeros(5)) == 5 * (1 << 17)
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert zstd_bound(skippable + zstd_zeros(5) + skippable) == 5 * (1 << 17)
    with pytest.raises(EOFError, match="no zstd frame"):
        zstd_bound(zstd_zeros(5) + b"garbage")


@pytest.mark.parametrize("content", [TABLE, b"a\r\nb\r\n", b"x\x01y\x01\n\n\n", "é\u2028\n".encode(), b'"\n'])
def test_packed_content_comes_back_byte_by_byte(content: bytes) -> None:
    assert unpack(pa.compress(content, codec="zstd", asbytes=True), "x") == content
    assert unpack(gzip.compress(content[:3]) + gzip.compress(content[3:]) + b"\0" * 9, "x") == content


def test_zstd_of_what_is_no_text_says_so(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 3), dtype=np.int64))
    for name, content in {"x.npy.zst": (tmp_path / "x.npy").read_bytes(), "x.csv.zst": TABLE + b"3,\x02,x\n"}.items():
        (tmp_path / name).write_bytes(pa.compress(content, codec="zstd", asbytes=True))
        with pytest.raises(UnreadableFileError, match=r"no text|UTF-8"):
            read_annotations(tmp_path / name)
    (tmp_path / "y.csv.zst").write_bytes(pa.compress(TABLE + b"3,\x01,x\n", codec="zstd", asbytes=True))
    assert "\x01" in read_annotations(tmp_path / "y.csv.zst").annotators.tolist()


def test_other_than_regular_files_are_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", Path("/dev/zero")):
        with pytest.raises(UnreadableFileError, match="not a regular file"):
            read_annotations(path)


def test_sizes_are_numbers_or_text_with_a_unit() -> None:
    assert size_in_bytes("2GB") == 2 << 30
    assert size_in_bytes("500 kb") == 500 << 10
    assert size_in_bytes(None) is None
    assert limit_for(1000, 7) == 7
    assert limit_for(10, None) == 256 << 20
    assert limit_for(5 << 20, None) == 500 << 20
    for wrong in ("many", "-1", 0, "1TB", "1e9"):
        with pytest.raises(InvalidParameterError, match="max_size"):
            size_in_bytes(wrong)


def test_a_size_may_have_decimals() -> None:
    assert size_in_bytes("1.5 MB") == 1572864
    assert size_in_bytes(10) == 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_small_file_is_read_where_memory_is_short(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,annotator,label\n1,a,x\n1,b,y\n")
    code = (
        "import resource, crowdprism as cp; cp.read_annotations('a.csv')\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)\n"
        "print(cp.read_annotations('a.csv').n_annotations)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "2", done.stderr


def test_any_number_of_gzip_members_is_one_content() -> None:
    members = [gzip.compress(b"%d\n" % place) for place in range(300)]
    assert unpack(b"".join(members), "x") == b"".join(b"%d\n" % place for place in range(300))
    for packed in (b"".join(members)[:-5], b"".join(members) + b"garbage", members[0][:12]):
        with pytest.raises(UnreadableFileError, match="damaged or truncated gzip"):
            unpack(packed, "x")
