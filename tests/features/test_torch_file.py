"""Old torch files are read as data; nothing in them runs."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from crowdprism.errors import UnreadableFileError
from crowdprism.features.torch_file import MAGIC, PROTOCOL, read_torch_file


def save_old(tensors: object, path: Path) -> Path:
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    return path


def test_tensors_come_out_as_they_went_in(tmp_path: Path) -> None:
    tensors = {
        "weight": torch.arange(12.0).reshape(3, 4),
        "turned": torch.arange(12.0).reshape(3, 4).t(),
        "part": torch.arange(10.0)[3:5],
        "counter": torch.tensor(7),
    }
    read = read_torch_file(save_old(tensors, tmp_path / "x.pth"))
    assert set(read) == set(tensors)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(read[name], tensor.numpy())


class Harm:
    """What an attacker would put into a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.mark),)


def test_a_file_that_would_run_code_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    with path.open("wb") as file:
        for part in (MAGIC, PROTOCOL, {}, {"weight": Harm(tmp_path / "harm")}, []):
            pickle.dump(part, file, protocol=2)
    with pytest.raises(UnreadableFileError, match="asks to call"):
        read_torch_file(path)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02.", b"hello"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"x\.pth"):
        read_torch_file(tmp_path / "x.pth")


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = save_old({"weight": torch.arange(12.0)}, tmp_path / "x.pth")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(UnreadableFileError, match=r"x\.pth"):
        read_torch_file(path)


def test_a_tensor_that_reaches_beyond_its_numbers_is_refused() -> None:
    from crowdprism.features.torch_file import Storage, View, array_of

    numbers = {"0": np.arange(6.0, dtype="<f4")}
    storage = Storage("0", "<f4")
    assert array_of(View(storage, 1, (2, 2), (1, 2)), numbers).tolist() == [[1, 3], [2, 4]]
    for offset, shape, strides in [(3, (2, 2), (1, 3)), (-1, (2,), (1,)), (0, (7,), (1,)), (0, (2,), (-1,))]:
        with pytest.raises(UnreadableFileError, match="beyond"):
            array_of(View(storage, offset, shape, strides), numbers)
