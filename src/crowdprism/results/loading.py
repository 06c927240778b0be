"""Reading and checking a saved result, `result.json` and `arrays.npz`: no pickle, and sizes before memory."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any, NotRequired, TypedDict

import msgspec
import numpy as np
from msgspec import Meta
from numpy.lib import format as npy
from numpy.typing import NDArray

from crowdprism.annotations.names import names_from_json
from crowdprism.errors import ResultFormatError
from crowdprism.results.confusion import MAX_TABLE_BYTES, normalize_rows
from crowdprism.results.intervals import ANNOTATOR_LEVEL, Account, Estimate
from crowdprism.results.manifest import RunFiles, require_schema

SCHEMA_VERSION = 1
RESULT_FILE, ARRAYS_FILE = "result.json", "arrays.npz"
TOLERANCE = 1e-3  # of a sum of probabilities; single precision and many classes stay far below it

# Shape of each array by the lengths of names: items, annotators, classes.
ARRAYS: dict[str, tuple[str, ...]] = {
    "class_probabilities": ("items", "classes"),
    "confusions": ("annotators", "classes", "classes"),
    "skills": ("annotators",),
    "class_prior": ("classes",),
    "confusion_posterior": ("annotators", "classes", "classes"),
    "labels_per_annotator": ("annotators",),
}
ACCOUNT_SHAPES: dict[str, tuple[str, ...]] = {
    "confidence": ("items",),
    "annotator_accuracy": ("annotators",),
    "annotator_interval": ("annotators", "ends"),
}
# Tables above this size are saved as whole steps of 1 / STEPS, zipped: a thousandth of the bytes with many classes.
LARGE_TABLE = 2**24  # bytes
STEPS = 2**32 - 1
PACKED = ("class_probabilities", "confusions", "confusion_posterior")
TOTALS = "posterior_totals"  # (n_annotators, n_classes) sums of the rows of a packed posterior
SUM_TO_ONE = ("class_probabilities", "confusions", "class_prior")
NOT_NEGATIVE = (*SUM_TO_ONE, *ACCOUNT_SHAPES, "confusion_posterior", "labels_per_annotator")
MAY_BE_UNKNOWN = ("annotator_accuracy", "annotator_interval")  # NaN for annotators without annotations
Places = list[Annotated[int, Meta(ge=0)]]  # of names


class SavedAccount(TypedDict):
    expected_accuracy: Estimate
    n_gold: Annotated[int, Meta(ge=0)]
    n_more: int
    half_width_after: Annotated[float, Meta(ge=0, le=1)]


class SavedResult(TypedDict):
    """`result.json`; older versions did not write all of it."""

    method: str
    parameters: dict[str, Any]
    history: dict[str, list[float]]
    seed: int | None
    versions: dict[str, str]
    warnings: tuple[str, ...]
    items: dict[str, Any]  # names are checked by `names_from_json`
    annotators: dict[str, Any]
    classes: dict[str, Any]
    uses_features: NotRequired[bool]
    known_items: NotRequired[Places]
    voices: NotRequired[list[Places]]
    account: NotRequired[SavedAccount | None]


def fields_of(files: RunFiles, prefix: str = "") -> dict[str, Any]:
    """The checked fields of the `FitResult` among the files of a run."""
    if prefix + RESULT_FILE not in files:
        raise ResultFormatError(
            f"{files.folder} holds no saved result (no result.json). Pass a folder written by `crowdprism aggregate`, "
            "`crowdprism train` or the `save` method."
        )
    record = files.read_json(prefix + RESULT_FILE)
    require_schema(record, SCHEMA_VERSION, files.folder)
    fields: dict[str, Any] = dict(msgspec.convert(record, SavedResult))
    names = {role: names_from_json(fields[role]) for role in ("items", "annotators", "classes")}
    known = fields.pop("known_items", [])
    voices = [names["annotators"][places].tolist() for places in fields.pop("voices", [])]
    sizes = {**{role: len(values) for role, values in names.items()}, "ends": 2}
    roles_of = {**ARRAYS, **ACCOUNT_SHAPES, TOTALS: ("annotators", "classes")}
    shapes = {name: tuple(sizes[role] for role in roles) for name, roles in roles_of.items()}
    arrays = unpacked(read_arrays(files, prefix + ARRAYS_FILE, lambda found: require_shapes(found, shapes)))
    for name, values in arrays.items():
        require_values(name, values)
    account = account_from(fields.pop("account", None), {name: arrays.pop(name, None) for name in ACCOUNT_SHAPES})
    if any(place >= len(names["items"]) for place in known):
        raise ValueError("known items that do not exist")
    more = {"known_items": np.array(known, dtype=np.int64), "voices": tuple(map(tuple, voices))}
    more |= {"saved_account": account, "saved_versions": fields.pop("versions")}
    return {**fields, **names, **arrays, **more}


def account_from(numbers: SavedAccount | None, arrays: Mapping[str, Any]) -> Account | None:
    if numbers is None:
        return None
    if any(values is None for values in arrays.values()):
        raise KeyError("arrays of the account")
    expected = numbers["expected_accuracy"]
    if not 0 <= expected.low <= expected.value <= expected.high <= 1:
        raise ValueError(f"the account expects {expected}")
    return Account(confidence=arrays["confidence"], annotators=partial(saved_annotators, arrays), **numbers)


def saved_annotators(arrays: Mapping[str, Any], level: float) -> tuple[NDArray[Any], NDArray[Any]]:
    assert level == ANNOTATOR_LEVEL
    return arrays["annotator_accuracy"], arrays["annotator_interval"]


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as .npz, large tables of shares packed."""
    written = dict(arrays)
    for name in PACKED:
        if name in arrays and arrays[name].nbytes > LARGE_TABLE:
            steps = np.empty(arrays[name].shape, dtype=np.uint32)
            for place, rows in enumerate(arrays[name]):  # one at a time, to save memory
                steps[place] = np.rint(normalize_rows(rows) * STEPS)
            written[name] = steps
    if written.get("confusion_posterior") is not arrays.get("confusion_posterior"):
        written[TOTALS] = arrays["confusion_posterior"].sum(axis=-1)
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in written.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            member.compress_type = zipfile.ZIP_STORED if values is arrays.get(name) else zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as file:
                npy.write_array(file, values, allow_pickle=False)


def unpacked(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Arrays as they were before `write_arrays`; packed ones to 2.3e-10."""
    totals = arrays.pop(TOTALS, None)
    for name in PACKED:
        if name in arrays and arrays[name].dtype == np.uint32:
            arrays[name] = normalize_rows(arrays[name])
    if totals is not None:
        arrays["confusion_posterior"] = arrays["confusion_posterior"] * totals[..., None]
    return arrays


def read_arrays(
    files: RunFiles, name: str, check: Callable[[Mapping[str, tuple[int, ...]]], None]
) -> dict[str, NDArray[Any]]:
    """Read the arrays of an .npz file; `check` sees their shapes before any of them takes memory."""
    with files.open(name) as file, zipfile.ZipFile(file) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        shapes = {}
        for array, member in members.items():
            packed = array in (*PACKED, TOTALS) and member.file_size <= MAX_TABLE_BYTES
            if not packed and (member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size):
                raise ValueError(f"{member.filename} in {name} is compressed, which crowdprism never does")
            with archive.open(member) as stream:
                shapes[array] = stored_shape(stream, member.file_size)
        check(shapes)
        files.verify(name, file)
        arrays = {}
        for array, member in members.items():
            with archive.open(member) as stream:
                arrays[array] = npy.read_array(stream, allow_pickle=False)
        return arrays


def stored_shape(stream: IO[bytes], n_bytes: int) -> tuple[int, ...]:
    """The shape that the header of an array states, after checking that this many bytes follow it."""
    version = npy.read_magic(stream)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, kind = read_header(stream)
    if kind.hasobject or kind.kind not in "biufU":
        raise ValueError(f"an array of type {kind}")
    stated = math.prod(shape) * kind.itemsize
    if stated != n_bytes - stream.tell():
        raise ValueError(f"an array of shape {shape} needs {stated} bytes, but {n_bytes - stream.tell()} follow")
    return shape


def require_shapes(found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> None:
    if "class_probabilities" not in found:
        raise KeyError("class_probabilities")
    for name, shape in found.items():
        if shape != expected.get(name):
            raise ValueError(f"{name} has shape {shape}; the names of the run need {expected.get(name)}")


def require_values(name: str, values: NDArray[Any]) -> None:
    """Check that an array holds finite numbers, probabilities where it should."""
    if values.dtype.kind not in "iuf":
        raise TypeError(f"{name} is of type {values.dtype}")
    unknown = np.isnan(values) if name in MAY_BE_UNKNOWN else False
    if not (np.isfinite(values) | unknown).all():
        raise ValueError(f"{name} holds values that are not finite")
    if name in NOT_NEGATIVE and (values < 0).any():
        raise ValueError(f"{name} holds negative values")
    if name in ACCOUNT_SHAPES and (values > 1).any():
        raise ValueError(f"{name} holds shares above one")
    if name == "annotator_interval" and (values[:, 0] > values[:, 1]).any():
        raise ValueError(f"{name} holds intervals that end before they begin")
    if name in SUM_TO_ONE and (np.abs(values.sum(axis=-1) - 1) > TOLERANCE).any():
        raise ValueError(f"{name} holds rows that do not sum to one")
