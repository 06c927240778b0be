"""Checkpoints: a run killed at any moment and resumed ends with the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from crowdprism.errors import CheckpointMismatchError, ResultFormatError, TrainingError
from crowdprism.training.checkpoint import CheckpointFolder

sys.path.insert(0, str(Path(__file__).parents[1] / "torture"))
from killing import killed_before

N_KILLS = 5
# One interpreter imports everything once; each run is a fork of it, killed with SIGKILL like any process.
SCRIPT = """
import sys, time
import numpy as np
import torch
torch.set_num_threads(1)
from killing import killed_after, killed_before
from crowdprism.classifiers import GeoCrowdNet

random = np.random.default_rng(0)
truth = np.arange(240) % 3
X = np.eye(3)[truth] + 0.5 * random.normal(size=(240, 3))
table = np.where(random.random((240, 6)) < 0.3, (truth[:, None] + random.integers(0, 2, (240, 6))) % 3, -1)
table[:3, 0] = [0, 1, 2]

def fit(name):
    model = GeoCrowdNet(
        epochs=15, batch_size=24, input_noise=0.1, mixup=0.3, optimizer="radam", schedule="one-cycle", regularizer="W",
        temperature=1.0, annotator_updates="touched", confusion_form="free", selection="annotations", n_heads=2,
        checkpoint=f"{sys.argv[1]}/{name}",
    )
    model.fit(X, table).save(f"{sys.argv[1]}/{name}-model")

begun = time.monotonic()
killed_before(-1, lambda: fit("whole"))
took = time.monotonic() - begun
shares = np.random.default_rng(7).uniform(0.05, 0.3, int(sys.argv[2]))
n_killed = sum(killed_after(share * took, lambda: fit("killed")) for share in shares)
killed_before(-1, lambda: fit("killed"))
print(n_killed)
"""


def test_a_run_killed_at_random_moments_and_resumed_ends_with_identical_bits(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path), str(N_KILLS)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1] / "torture")},
    )
    assert int(done.stdout.split()[-1]) >= 3, "too many runs ended before they were killed"
    first, second = (load_file(tmp_path / f"{name}-model" / "weights.safetensors") for name in ("whole", "killed"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_checkpoint_of_another_run_is_refused_with_what_differs(tmp_path: Path) -> None:
    CheckpointFolder(tmp_path, {"epochs": 5, "seed": 0}).save(1, {"a": torch.zeros(2)}, {})
    with pytest.raises(CheckpointMismatchError, match="epochs was 5, now 9"):
        CheckpointFolder(tmp_path, {"epochs": 9, "seed": 0}).latest()


def test_only_the_newest_checkpoint_is_kept_and_unfinished_ones_do_not_count(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, {})
    for epoch in (1, 2, 10):
        folder.save(epoch, {"a": torch.full((2,), float(epoch))}, {"epoch": epoch})
    (tmp_path / ".writing.xyz").mkdir()  # what a kill in the middle of writing leaves
    stored = folder.latest()
    assert stored is not None
    assert (stored[1]["epoch"], stored[0]["a"].tolist()) == (10, [10.0, 10.0])
    assert len(list(tmp_path.glob("epoch-*"))) == 1


def test_a_damaged_checkpoint_says_so(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, {})
    path = folder.save(1, {"a": torch.zeros(2)}, {})
    (path / "state.safetensors").write_bytes(b"cut")
    with pytest.raises(ResultFormatError, match="damaged"):
        folder.latest()


def test_one_changed_bit_of_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, {})
    path = folder.save(1, {"a": torch.zeros(2)}, {"losses": [0.5]})
    for name in ("state.safetensors", "state.json"):
        content = (path / name).read_bytes()
        for place in range(len(content)):
            (path / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises((ResultFormatError, CheckpointMismatchError)):
                folder.latest()
        (path / name).write_bytes(content)
    found = folder.latest()
    assert found is not None
    assert found[1]["losses"] == [0.5]


def test_the_last_good_checkpoint_stays_when_the_loss_breaks(tmp_path: Path) -> None:
    from crowdprism.classifiers import GeoCrowdNet

    X = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0)
    table = np.repeat([[0, 0], [1, 1]], 20, axis=0)

    def spoil(record: object) -> None:
        if getattr(record, "epoch", 0) == 2:
            for table_ in spoiled:
                table_.fill_(torch.nan)

    spoiled: list[torch.Tensor] = []
    model = GeoCrowdNet(
        epochs=6, checkpoint=tmp_path, callbacks=[spoil], network="linear", input_noise=0.0, temperature=1.0
    )
    make_head = model._make_head

    def catch(problem: object) -> object:
        head = make_head(problem)  # type: ignore[arg-type]
        spoiled.append(head.layer.table.values.data)  # type: ignore[attr-defined]
        return head

    model._make_head = catch  # type: ignore[method-assign,assignment]
    with pytest.raises(TrainingError, match=r"epoch 4.*checkpoint of the last good epoch stays"):
        model.fit(X, table)
    assert [path.name for path in (tmp_path / "head-0").iterdir()] == ["epoch-000003"]


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    from crowdprism.classifiers import GeoCrowdNet

    X = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0)
    table = np.repeat([[0, 0], [1, 1]], 20, axis=0)
    seen: list[object] = []
    settings = {
        "epochs": 3,
        "checkpoint": tmp_path,
        "network": "linear",
        "input_noise": 0.0,
        "temperature": 1.0,
        "callbacks": [seen.append],
    }
    first = GeoCrowdNet(**settings).fit(X, table)
    again = GeoCrowdNet(**settings).fit(X, table)
    assert len(seen) == 3
    assert np.array_equal(first.predict_proba(X), again.predict_proba(X))
    with pytest.raises(CheckpointMismatchError, match="learning_rate"):
        GeoCrowdNet(**settings, learning_rate=0.5).fit(X, table)
    GeoCrowdNet(**settings, learning_rate=0.5, resume=False).fit(X, table)
    assert len(seen) == 6


@pytest.mark.skipif(os.name != "posix", reason="needs fork or FIFOs")
def test_a_checkpoint_killed_while_it_is_removed_is_not_read_in_half(tmp_path: Path) -> None:
    from crowdprism.training.checkpoint import has_checkpoint, remove_checkpoints

    call, killed = 0, True
    while killed:
        call += 1
        place = tmp_path / str(call)
        folders = [CheckpointFolder(place / f"head-{head}", {}) for head in range(2)]
        for folder in folders:
            folder.save(1, {"a": torch.zeros(2)}, {})
        assert has_checkpoint(place)
        killed = killed_before(call, lambda place=place: remove_checkpoints(place))
        if call > 1:
            assert not has_checkpoint(place)
        for folder in folders:
            stored = folder.latest()
            assert stored is None or stored[0]["a"].tolist() == [0.0, 0.0]
        remove_checkpoints(place)
        assert not place.exists()
    assert call > 6


@pytest.mark.skipif(os.name != "posix", reason="needs fork or FIFOs")
def test_a_forged_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, {})
    path = folder.save(1, {"a": torch.zeros(2)}, {})
    for text in ("[" * 200_000, "5", '{"schema": 3, "fingerprint": 5}', "{}"):
        (path / "state.json").write_text(text)
        with pytest.raises(ResultFormatError, match="damaged"):
            folder.latest()
    (path / "state.json").unlink()
    os.mkfifo(path / "state.json")
    with pytest.raises(ResultFormatError, match="damaged"):
        folder.latest()
