"""Mutated run folders: every one must load as it was, load as something valid, or be refused by an error of ours.

    python benchmarks/fuzz_runs.py 100000 --seed 1 --processes 2

Small runs (a vote, Dawid-Skene, classifiers) are saved once. Of each mutant one file is changed: bytes, JSON values,
shapes, types and values of arrays and tensors, headers; or it is missing, empty, another run's, a folder, a pipe or a
link. A **damaged** run keeps its manifest, so it must be refused or give exactly the saved run. A **forged** run has
a manifest that fits the changed file; what loads must then be valid (sizes, finite values, probabilities) and usable:
labels, tables, predictions, saving and loading again, and for some the report.
`--only NAME --index I` repeats one mutant and prints what happened.
"""

from __future__ import annotations

import io
import json
import os
import random
import struct
import sys
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz_files import mutate, mutate_bytes, mutate_tree
from fuzz_workers import SECONDS_ALLOWED, Program, ending_of, main, time_limit

RUNS = ("majority-vote", "dawid-skene", "geocrowdnet-f", "nn-mv", "conal")
MEMORY_ALLOWED = 1 << 40  # address space: the engine that draws charts reserves much of it and uses little
REPORTS = 50  # one in so many valid runs is also written as a page
ODD_NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 2.0, 1e300, 0.0)
FOLDERS = ("missing", "empty", "folder", "pipe", "link to a device", "link to the file", "of another run")
Run = dict[str, bytes]


@cache
def saved_runs() -> dict[str, Run]:
    """The files of small runs by method."""
    from crowdprism.aggregators import AGGREGATORS, make_aggregator
    from crowdprism.classifiers import make_classifier
    from crowdprism.comparison.contract import sample_data

    data = sample_data(n_items=12, n_annotators=5, labels=3)
    runs = {}
    small: dict[str, Any] = {"epochs": 1, "network_options": {"hidden": (4,)}}
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in RUNS:
            folder = Path(place, name)
            if name in AGGREGATORS:
                make_aggregator(name).fit(data.annotations).result_.save(folder)
            else:
                make_classifier(name, **small).fit(data.features, data.annotations).save(folder)
            runs[name] = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    return runs


def changed_values(values: np.ndarray, draw: random.Random) -> np.ndarray:
    """The array with another type, shape, order or one value changed."""
    kind = draw.randrange(7)
    if kind == 0:
        return values.astype(draw.choice(["i1", "i8", "f2", "f4", "U3", "?", "c16", "M8[s]"]))
    if kind == 1:
        return values[..., : draw.randrange(values.shape[-1] + 1)] if values.ndim else values
    if kind == 2:
        return np.concatenate([values, values]) if values.ndim else values
    if kind == 3:
        return values.reshape(-1)
    if kind == 4:
        return values[::-1]
    values = values.copy()
    if values.size:
        with np.errstate(all="ignore"):
            values.flat[draw.randrange(values.size)] = np.asarray(draw.choice(ODD_NUMBERS)).astype(values.dtype)
    return values


def changed_arrays(data: bytes, draw: random.Random) -> bytes:
    """An .npz file with one of its arrays changed, dropped, renamed or doubled; stored, as crowdprism writes it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chosen, kind = draw.choice(list(members)), draw.randrange(6)
    if kind == 0:
        del members[chosen]
    elif kind == 1:
        members[draw.choice(["x.npy", "../x.npy", draw.choice(list(members))])] = members[chosen]
    elif kind == 2:
        members[chosen] = mutate_bytes(members[chosen], draw)
    else:
        buffer = io.BytesIO()
        np.save(buffer, changed_values(np.load(io.BytesIO(members[chosen])), draw))
        members[chosen] = buffer.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", draw.choice([zipfile.ZIP_STORED] * 9 + [zipfile.ZIP_DEFLATED])) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def changed_tensors(data: bytes, draw: random.Random) -> bytes:
    """A safetensors file with its header, one of its tensors or some bytes changed."""
    import safetensors.numpy

    kind = draw.randrange(3)
    if kind == 0:
        return mutate_bytes(data, draw)
    if kind == 1:
        (size,) = struct.unpack("<Q", data[:8])
        header = json.dumps(mutate_tree(json.loads(data[8 : 8 + size]), draw)).encode()
        return struct.pack("<Q", len(header) + draw.choice([0, 0, 0, 1, 2**40])) + header + data[8 + size :]
    tensors = safetensors.numpy.load(data)
    chosen = draw.choice(list(tensors))
    values = changed_values(tensors[chosen], draw)
    if values.dtype.kind in "Mc" or values.dtype.kind == "U":
        return mutate_bytes(data, draw)
    tensors[chosen] = np.ascontiguousarray(values)
    if draw.random() < 0.1:
        tensors["network-9.x"] = tensors.pop(chosen)
    return safetensors.numpy.save(tensors)


def changed_file(name: str, data: bytes, draw: random.Random) -> bytes:
    """A file of a run with one or two changes."""
    if draw.random() < 0.25:
        return mutate_bytes(data, draw)
    for _ in range(draw.choice([1, 1, 2])):
        try:
            if name.endswith(".npz"):
                data = changed_arrays(data, draw)
            elif name.endswith(".safetensors"):
                data = changed_tensors(data, draw)
            else:
                data = mutate(name, data, draw)
        except Exception:  # the first change was thorough
            data = mutate_bytes(data, draw)
    return data


def place_instead(what: str, path: Path, draw: random.Random) -> None:
    """Put something that is no file of this run in its place."""
    path.unlink()
    if what == "empty":
        path.touch()
    elif what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "link to a device":
        path.symlink_to(draw.choice(["/dev/zero", "/dev/stdin", "/dev/full"]))
    elif what == "link to the file":
        path.symlink_to(path.name)
    elif what == "of another run":
        files = saved_runs()[draw.choice(RUNS)]
        path.write_bytes(files.get(path.name, b""))


def rewrite_manifest(folder: Path) -> None:
    """Let the manifest name the files as they are now."""
    from dataclasses import replace

    from crowdprism.results.manifest import MANIFEST, entry_of, parse_manifest

    path = folder / MANIFEST
    manifest = parse_manifest(path.read_bytes(), path)
    files = {name: entry for name in manifest.files if (entry := entry_of(folder / name)) is not None}
    path.write_text(replace(manifest, files=files).to_json())


def mutated_run(name: str, seed: int, index: int, folder: Path) -> str:
    """Write a mutant into a folder; which file was changed."""
    method, how = name.rsplit(" ", 1)
    draw = random.Random(f"{seed}/{name}/{index}")
    files = saved_runs()[method]
    for file, data in files.items():
        (folder / file).write_bytes(data)
    chosen = draw.choice(sorted(file for file in files if how == "damaged" or file != "manifest.json"))
    if draw.random() < 0.1:
        place_instead(draw.choice(FOLDERS), folder / chosen, draw)
    else:
        (folder / chosen).write_bytes(changed_file(chosen, files[chosen], draw))
    if how == "forged":
        rewrite_manifest(folder)
    return chosen


def contents(loaded: Any) -> dict[str, Any]:
    """Everything that a loaded run says, comparable."""
    import torch

    result = loaded if hasattr(loaded, "class_probabilities") else loaded.result_
    said = {name: plain(getattr(result, name)) for name in result.__dataclass_fields__ if name != "annotations"}
    said["accuracy of annotators"] = plain((result.annotator_accuracy, result.annotator_accuracy_interval()))
    said["history"] = plain({name: [float(value) for value in values] for name, values in result.history.items()})
    if loaded is not result:
        said["parameters of the classifier"] = plain(loaded.get_params())
        said["histories"] = plain(loaded.histories_)
        with torch.no_grad():
            said["predictions"] = plain(loaded.predict_proba(inputs_for(loaded)))
    return said


def plain(value: Any) -> str:
    """A text that is equal for equal values."""
    if isinstance(value, tuple):
        return str([plain(one) for one in value])
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tolist()}"
    if hasattr(value, "__dataclass_fields__"):
        inner = {name: getattr(value, name) for name in value.__dataclass_fields__}
        return str({name: plain(one) for name, one in inner.items() if not callable(one)})
    return repr(value)


def inputs_for(model: Any) -> np.ndarray:
    """Some items of the shape that the classifier takes."""
    shape = model.predictor_.input_shape
    return np.linspace(-1, 1, 3 * int(np.prod(shape)), dtype=np.float32).reshape(3, *shape)


@cache
def saved_contents(method: str) -> dict[str, Any]:
    """What the untouched run says."""
    import crowdprism as cp

    with tempfile.TemporaryDirectory() as place:
        for file, data in saved_runs()[method].items():
            Path(place, file).write_bytes(data)
        return contents(cp.load(place))


def fault_of(result: Any) -> str:
    """What is wrong with the numbers of a result; empty if nothing is."""
    sizes = {"items": result.n_items, "annotators": result.n_annotators, "classes": result.n_classes}
    n_items, n_annotators, n_classes = sizes.values()
    if min(n_items, n_classes) < 1:
        return f"sizes {sizes}"
    for name in sizes:
        if len(set(getattr(result, name).tolist())) != sizes[name]:
            return f"{name} are not distinct"
    probabilities = {
        "class_probabilities": (n_items, n_classes),
        "confusions": (n_annotators, n_classes, n_classes),
        "class_prior": (n_classes,),
    }
    for name, shape in probabilities.items():
        values = getattr(result, name)
        if values is not None and not (
            values.shape == shape and (values >= 0).all() and np.allclose(values.sum(axis=-1), 1, atol=2e-3)
        ):
            return f"{name} are no probabilities"
    account = result.account
    if account is None:
        return ""
    low, high = account.annotator_interval.T
    expected = account.expected_accuracy
    shares = [account.confidence, account.annotator_accuracy, low, high, expected.low, expected.value, expected.high]
    for values in shares:
        if not (np.isnan(values) | ((np.asarray(values) >= 0) & (np.asarray(values) <= 1))).all():
            return f"a share of {values}"
    if (low > high).any() or not expected.low <= expected.value <= expected.high or account.n_gold < 0:
        return "an interval that holds nothing"
    return ""


def use(loaded: Any, folder: Path, with_report: bool) -> str:
    """Do with a run what users do; what is wrong, or nothing."""
    import crowdprism as cp

    result = loaded if hasattr(loaded, "class_probabilities") else loaded.result_
    fault = fault_of(result)
    if fault:
        return fault
    result.labels(), result.to_frame(), result.annotators_frame(), result._repr_html_(), repr(loaded)
    result.confusion_interval(), result.annotator_accuracy_interval()
    before = contents(loaded)
    if "predictions" in before:
        predicted = loaded.predict_proba(inputs_for(loaded))
        loaded.predict(inputs_for(loaded))
        if not (np.isfinite(predicted).all() and np.allclose(predicted.sum(axis=1), 1, atol=1e-3)):
            return "predictions are no probabilities"
    if contents(cp.load(loaded.save(folder / "again"))) != before:
        return "another run after saving and loading"
    if with_report:
        result.report(folder / "page.html")
    return ""


def attempt(name: str, seed: int, index: int, folder: Path, seconds: float | None = SECONDS_ALLOWED) -> tuple[str, str]:
    """Load one mutant and look at what came."""
    import crowdprism as cp

    method, how = name.rsplit(" ", 1)
    expected = saved_contents(method)
    mutated_run(name, seed, index, folder)
    loaded = None
    try:
        with time_limit(seconds):
            loaded = cp.load(folder)
            if how == "damaged":
                same = contents(loaded) == expected
                return ("read", "") if same else ("silently wrong", "a damaged run loads as another")
            fault = use(loaded, folder, with_report=index % REPORTS == 0)
            return ("silently wrong", fault) if fault else ("read", "")
    except BaseException as error:
        ended, where = ending_of(error)
        return ended, where if loaded is None or ended != "foreign exception" else f"in use: {where}"


def show(name: str, seed: int, index: int) -> None:
    """Repeat one mutant and print the change and what happened."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = Path(folder, mutated_run(name, seed, index, Path(folder)))
        before = saved_runs()[name.rsplit(" ", 1)[0]][chosen.name]
        after = chosen.read_bytes() if chosen.is_file() and chosen.stat().st_size < 10**6 else b"no file"
        start = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
        print(f"{chosen.name} from byte {start}: {after[max(0, start - 60) : start + 120]!r}")
    with tempfile.TemporaryDirectory() as folder:
        print(*attempt(name, seed, index, Path(folder)), sep="\n")


if __name__ == "__main__":
    names = [f"{method} {how}" for method in RUNS for how in ("damaged", "forged")]
    sys.exit(main(__doc__, {"runs": Program(attempt, names, show, MEMORY_ALLOWED)}))
