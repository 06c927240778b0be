"""Several processes against one: the same batches, the same losses, weights equal up to rounding."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import distributed_worker as worker
import numpy as np
import pytest
import torch
from torch import nn

import crowdprism as cp
from crowdprism.classifiers import CLASSIFIERS
from crowdprism.errors import InvalidParameterError
from crowdprism.formats.write import write_annotations
from crowdprism.networks.build import Dropout
from crowdprism.training.distributed import Processes, process_group, processes_here, require_share, shared_layers

KILLED = Path(__file__).with_name("killed_worker.py")
DOUBLE = ("double none", "double F", "double W", "double batch norm")
REFUSED = {name for name in CLASSIFIERS if name.startswith("doctornet")}
REFUSED |= {"annot-mix", "instance-confusions", "gaussian-process"} & set(CLASSIFIERS)
FLOAT = (*CLASSIFIERS, "dropout", "mixup", "chosen")
DISK = "from disk"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of every case with one process and with two, and of some with four."""
    folder = tmp_path_factory.mktemp("trained")
    worker.save_outcomes(str(folder), (*DOUBLE, *FLOAT, DISK))
    worker.in_processes(2, worker.save_outcomes, str(folder), (*DOUBLE, *FLOAT, DISK))
    worker.in_processes(4, worker.save_outcomes, str(folder), DOUBLE)
    return folder


def largest_difference(folder: Path, case: str, n_processes: int) -> float:
    with np.load(folder / f"{case}-1.npz") as alone, np.load(folder / f"{case}-{n_processes}.npz") as together:
        assert "error" not in alone, alone["error"]
        assert "error" not in together, together["error"]
        return max(np.abs(alone[name] - together[name]).max(initial=0.0) for name in alone)


@pytest.mark.parametrize("n_processes", [2, 4])
@pytest.mark.parametrize("case", DOUBLE)
def test_in_double_precision_processes_change_weights_by_rounding_only(
    case: str, n_processes: int, trained: Path
) -> None:
    assert largest_difference(trained, case, n_processes) < 1e-9


@pytest.mark.parametrize("case", sorted(set(FLOAT) - REFUSED))
def test_every_classifier_is_the_same_with_two_processes(case: str, trained: Path) -> None:
    assert largest_difference(trained, case, 2) < 1e-6


def test_each_process_reads_its_own_items_of_a_file_larger_than_memory(trained: Path) -> None:
    with np.load(trained / f"{DISK}-1.npz") as alone, np.load(trained / f"{DISK}-2.npz") as together:
        np.testing.assert_allclose(together["probabilities"], alone["probabilities"], atol=1e-6)
        assert float(alone["read"]) == 1.0
        assert float(together["read"]) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_methods_that_need_more_than_outputs_are_refused_by_name(case: str, trained: Path) -> None:
    with np.load(trained / f"{case}-2.npz") as together:
        name = "doctornet" if case.startswith("doctornet") else case
        assert f"{name} cannot be trained in several processes" in str(together["error"])


def test_a_lost_worker_does_not_change_the_result(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    truth = np.arange(120) % 3
    np.save(tmp_path / "features.npy", np.eye(3, dtype=np.float32)[truth] + random.normal(size=(120, 3), scale=0.5))
    labels = np.where(random.random((120, 4)) < 0.8, truth[:, None], random.integers(0, 3, (120, 4)))
    write_annotations(cp.Annotations.from_dense(labels), tmp_path / "labels.csv")
    train = ["train", "labels.csv", "-x", "features.npy", "-m", "crowdlayer", "--epochs", "3", "--no-report", "-o"]
    worker.in_processes(2, worker.run_command, str(tmp_path), [*train, "whole"])
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "--max-restarts", "1", str(KILLED), *train, "killed"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "died").exists()
    whole, again = (cp.load(tmp_path / name).result_ for name in ("whole", "killed"))
    np.testing.assert_array_equal(whole.class_probabilities, again.class_probabilities)


def test_shares_cover_all_rows_once() -> None:
    for n in (1, 2, 3, 7):
        rows = [row for rank in range(n) for row in range(20)[Processes(rank, n).own(20)]]
        assert rows == list(range(20))


def test_one_process_needs_no_group() -> None:
    assert processes_here() == Processes()
    with process_group("cpu") as processes:
        assert not processes.several


def test_a_process_without_items_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="4 processes share batches of 3 items"):
        require_share(100, 3, Processes(0, 4))


def test_dropout_of_a_share_is_that_of_the_whole_batch() -> None:
    dropout, features = Dropout(0.5), torch.ones(10, 3)
    whole = []
    for rank in range(2):
        dropout.generator = torch.Generator().manual_seed(0)
        processes = Processes(rank, 2)
        with shared_layers(nn.Sequential(dropout), processes, 10):
            whole.append(dropout(features[processes.own(10)]))
    dropout.generator = torch.Generator().manual_seed(0)
    assert torch.equal(torch.cat(whole), dropout(features))
