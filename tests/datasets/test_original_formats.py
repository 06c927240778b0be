"""Public files, in the formats of their authors, become the same data sets."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crowdprism import load_dataset
from crowdprism.datasets import catalogue, dataset
from crowdprism.datasets.catalogue import Download
from crowdprism.datasets.original_formats import read_cifar10_binary, read_idx
from crowdprism.errors import UnreadableFileError

RANDOM = np.random.default_rng(0)


def idx(array: np.ndarray) -> bytes:
    return gzip.compress(struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes())


def tar_gz(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def serve(site, monkeypatch, tmp_path: Path, name: str, files: dict[str, bytes], **sizes: object) -> None:
    """Let the catalogue's addresses of a set point to the local server."""
    site.files |= files
    downloads = tuple(
        Download((site.url(file),), file, f"sha256:{hashlib.sha256(content).hexdigest()}")
        for file, content in files.items()
    )
    entry = replace(catalogue()[name], downloads=downloads, **sizes)  # type: ignore[arg-type]
    monkeypatch.setattr(dataset, "find_entry", lambda asked: entry)
    monkeypatch.delenv("CROWDPRISM_DATA", raising=False)
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path))


def test_mnist_is_fetched_and_read_from_idx_files(site, monkeypatch, tmp_path: Path) -> None:
    images = RANDOM.integers(256, size=(14, 28, 28)).astype(np.uint8)
    labels = RANDOM.integers(10, size=14).astype(np.uint8)
    files = {
        "train-images-idx3-ubyte.gz": idx(images[:10]),
        "train-labels-idx1-ubyte.gz": idx(labels[:10]),
        "t10k-images-idx3-ubyte.gz": idx(images[10:]),
        "t10k-labels-idx1-ubyte.gz": idx(labels[10:]),
    }
    serve(site, monkeypatch, tmp_path, "mnist", files, n_items=14, splits={"train": 10, "test": 4})
    mnist = load_dataset("mnist")
    assert len(site.ranges_asked) == 4
    assert np.array_equal(mnist.images, images)
    assert np.array_equal(mnist.gold, labels)
    assert np.array_equal(mnist.part("test").features, images[10:].reshape(4, -1).astype(np.float32) / np.float32(255))
    assert np.array_equal(load_dataset("mnist", fetch=False).images, images)
    assert len(site.ranges_asked) == 4  # found in the cache the second time


def test_cifar10_is_read_from_its_binary_archive_in_order(tmp_path: Path) -> None:
    images = RANDOM.integers(256, size=(12, 32, 32, 3)).astype(np.uint8)
    labels = RANDOM.integers(10, size=12).astype(np.uint8)
    records = np.hstack([labels[:, None], images.transpose(0, 3, 1, 2).reshape(12, -1)])
    names = ["test_batch.bin", *(f"data_batch_{number}.bin" for number in (3, 1, 2, 5, 4))]
    place = {"test_batch.bin": 5} | {f"data_batch_{number}.bin": number - 1 for number in range(1, 6)}
    content = {f"cifar-10-batches-bin/{n}": records[2 * place[n] : 2 * place[n] + 2].tobytes() for n in names}
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(tar_gz({"cifar-10-batches-bin/readme.html": b"hello", **content}))
    found, classes = read_cifar10_binary(path)
    assert np.array_equal(found, images)
    assert np.array_equal(classes, labels)


def test_labelme_is_fetched_and_its_empty_annotators_are_left_out(site, monkeypatch, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="photographs need Pillow")
    answers = "2 -1 -1\n-1 -1 0\n2 -1 7\n"
    shades = {"street_a.jpg": 10, "coast_b.jpg": 60, "forest_c.jpg": 110, "street_d.jpg": 160, "coast_e.jpg": 210}
    photographs = {}
    for name, shade in shades.items():
        buffer = io.BytesIO()
        image.fromarray(np.full((8, 8, 3), shade, np.uint8)).save(buffer, "JPEG")
        photographs[f"LabelMe/x/{name}"] = buffer.getvalue()
    texts = {
        "answers.txt": answers,
        "labels_train.txt": "2\n0\n7\n",
        "labels_valid.txt": "1\n",
        "labels_test.txt": "3\n",
        "filenames_train.txt": "street_a.jpg\ncoast_b.jpg\nforest_c.jpg\n",
        "filenames_valid.txt": "street_d.jpg\n",
        "filenames_test.txt": "coast_e.jpg\n",
    }
    content = {f"LabelMe/{name}": text.encode() for name, text in texts.items()} | dict(reversed(photographs.items()))
    serve(site, monkeypatch, tmp_path, "labelme", {"labelme.tar.gz": tar_gz(content)}, n_items=5)
    labelme = load_dataset("labelme")
    a = labelme.annotations
    assert (a.n_items, a.n_annotators, a.n_annotations) == (5, 2, 4)
    assert a.classes[a.label].tolist() == ["tallbuilding", "highway", "tallbuilding", "opencountry"]
    assert a.annotators[a.annotator].tolist() == [0, 1, 0, 1]
    assert labelme.gold.tolist() == [2, 0, 7, 1, 3]
    assert {split: items.tolist() for split, items in labelme.splits.items()} == {
        "train": [0, 1, 2],
        "valid": [3],
        "test": [4],
    }
    assert np.allclose(labelme.images.mean(axis=(1, 2, 3)), list(shades.values()), atol=3)
    assert labelme.part("valid", features="images").features.shape == (1, 8, 8, 3)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"not gzip", "gzip"),
        (gzip.compress(b"\0\0"), "begin"),
        (gzip.compress(b"\0\0\x0d\x01" + bytes(8)), "begin"),
        (gzip.compress(b"\0\0\x08\x03\0\0"), "header"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x09abc"), "3 values, not the 9"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x09abcdefghi")[:-9], "ended"),
    ],
    ids=["not packed", "two bytes", "other numbers", "half a header", "too few values", "cut"],
)
def test_a_damaged_idx_file_is_refused_with_the_reason(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(UnreadableFileError, match=told):
        read_idx(path)


def test_an_archive_that_lacks_a_batch_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(tar_gz({"data_batch_1.bin": bytes(3073)}))
    with pytest.raises(UnreadableFileError, match=r"5 of 6 batches are missing, the first is data_batch_2\.bin"):
        read_cifar10_binary(path)


def test_a_labelme_archive_without_answers_is_refused(site, monkeypatch, tmp_path: Path) -> None:
    archive = tar_gz({"LabelMe/labels_train.txt": b"1\n"})
    serve(site, monkeypatch, tmp_path, "labelme", {"labelme.tar.gz": archive})
    with pytest.raises(UnreadableFileError, match=r"it lacks answers\.txt"):
        load_dataset("labelme").annotations  # noqa: B018
