"""Checkpoints: one folder per epoch with tensors (safetensors) and a record (JSON), put in place by one rename.

Whatever moment a run is killed at, the newest complete folder is the state at the end of an epoch. All random
streams depend on seed, member and epoch alone, so they need no state of their own, and a resumed run ends with the
same bits as one that was never interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from crowdprism.errors import CheckpointMismatchError, ResultFormatError
from crowdprism.files import new_token, open_regular

PREFIX, WRITING = "epoch-", ".writing."
RECORD_FILE, TENSORS_FILE = "state.json", "state.safetensors"
COMPLETE = "complete"  # a file that says that the run is complete and its checkpoints are being removed
SCHEMA = 3  # 2: all of Adam's state is torch's or RowAdam's; 3: a digest


class CheckpointFolder:
    """Where a run keeps its newest state; the fingerprint (settings, data, shapes) must be equal to resume."""

    def __init__(self, folder: str | os.PathLike[str], fingerprint: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.fingerprint = json.loads(json.dumps(fingerprint))  # as it will be read back

    def save(self, epoch: int, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> Path:
        """Write the state after `epoch` epochs; older checkpoints are removed once the new one stands."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self.folder / f"{PREFIX}{epoch:06d}"
        for leftover in self.folder.glob(f"{WRITING}*"):  # of a run that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        fresh = self.folder / f"{WRITING}{new_token()}"
        fresh.mkdir()
        try:
            plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
            content = safetensors.torch.save(plain)
            (fresh / TENSORS_FILE).write_bytes(content)
            record = {"schema": SCHEMA, "fingerprint": self.fingerprint, **record}
            text = json.dumps(record | {"digest": _digest(content, record)})
            (fresh / RECORD_FILE).write_text(text, encoding="utf-8")
            for path in fresh.iterdir():  # the bytes are on disk before the folder takes its final name
                with open(path, "rb") as handle:
                    os.fsync(handle.fileno())
            if target.exists():
                _discard(target)
            os.replace(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        for old in self._complete():
            if old != target:
                _discard(old)
        return target

    def latest(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Read the newest checkpoint, or return None where there is none; one of another run is an error."""
        complete = self._complete()
        if not complete:
            return None
        newest = complete[-1]
        try:
            with open_regular(newest / RECORD_FILE) as file:
                record = json.loads(file.read())
            self._compare({"schema": record["schema"], **record["fingerprint"]})
            with open_regular(newest / TENSORS_FILE) as file:
                content = file.read()
            if record.pop("digest") != _digest(content, record):
                raise ValueError("its digest is that of another state")
            tensors = safetensors.torch.load(content)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
            raise ResultFormatError(
                f"The checkpoint {newest} is damaged: {type(error).__name__}: {error}. Remove it to start again."
            ) from error
        return tensors, record

    def clear(self) -> None:
        for path in self._complete():
            _discard(path)

    def _complete(self) -> list[Path]:
        """Complete checkpoints, oldest first; a folder that was still being written does not count."""
        return sorted(self.folder.glob(f"{PREFIX}*"))

    def _compare(self, stored: Mapping[str, Any]) -> None:
        own = {"schema": SCHEMA, **self.fingerprint}
        differing = [name for name in sorted(set(stored) | set(own)) if stored.get(name) != own.get(name)]
        if differing:
            told = "; ".join(f"{name} was {stored.get(name)!r}, now {own.get(name)!r}" for name in differing)
            raise CheckpointMismatchError(
                f"The checkpoint in {self.folder} belongs to another run: {told}.",
                remedy="Use the same settings and data, another folder, or {resume:False} to start again.",
            )


def _digest(tensors: bytes, record: Mapping[str, Any]) -> str:
    """SHA-256 of a state, so that a damaged one is not trained on."""
    return hashlib.sha256(tensors + json.dumps(record, sort_keys=True).encode()).hexdigest()


def has_checkpoint(folder: Path) -> bool:
    """Tell whether there is a state to go on from in the folder of all heads; not if the run is complete."""
    return any(folder.glob(f"*/{PREFIX}*")) and not (folder / COMPLETE).exists()


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a complete run; a mark goes first, so that half a state is never resumed from."""
    if not folder.is_dir():
        return
    (folder / COMPLETE).touch()
    for head in folder.glob("head-*"):
        for path in (*head.glob(f"{PREFIX}*"), *head.glob(f"{WRITING}*")):
            _discard(path)
        with suppress(OSError):  # it holds files of others
            head.rmdir()
    (folder / COMPLETE).unlink()
    with suppress(OSError):
        folder.rmdir()


def _discard(folder: Path) -> None:
    """Remove a checkpoint; by one rename it no longer counts, so that half of one is never read."""
    hidden = folder.with_name(f"{WRITING}{new_token()}")
    os.replace(folder, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def optimizer_tensors(optimizer: Any) -> dict[str, Tensor]:
    """Return a torch optimiser's state as named tensors; its groups follow from the settings."""
    state = optimizer.state_dict()["state"]
    return {f"{place}.{name}": value for place, entries in state.items() for name, value in entries.items()}


def load_optimizer(optimizer: Any, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        place, entry = name.split(".", 1)
        state.setdefault(int(place), {})[entry] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
