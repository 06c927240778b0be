"""Data frames in and out (through narwhals), dense and CSR tables out; columns are found by their usual names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations.building import gold_by_item
from crowdprism.annotations.names import plain
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, MissingDependencyError, some

if TYPE_CHECKING:
    import narwhals as nw

    from crowdprism.annotations.container import Annotations

# Names as they occur in exports, compared without case and punctuation; the first that a table has is taken.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "item": (
        "item", "itemid", "task", "taskid", "example", "exampleid", "object", "objectid", "unit", "unitid", "instance",
        "instanceid", "sample", "sampleid", "question", "questionid", "document", "documentid", "docid", "image",
        "imageid", "imagefilename", "filename", "file", "text", "sentence", "tweetid", "dataid", "id", "index",
    ),
    "annotator": (
        "annotator", "annotatorid", "worker", "workerid", "performer", "rater", "raterid", "labeler", "labelerid",
        "labeller", "labellerid", "coder", "coderid", "judge", "judgeid", "user", "userid", "username", "participant",
        "participantid", "person", "contributor", "contributorid", "expert", "source", "completedby", "email",
    ),
    "label": (
        "label", "answer", "response", "value", "annotation", "judgment", "judgement", "class", "category", "choice",
        "chosenlabel", "givenlabel", "vote", "rating", "verdict", "decision", "output", "classification",
    ),
    "weight": ("weight",),
    "duration": ("duration", "times", "durations", "seconds", "leadtime", "timespentinseconds", "worktimeinseconds"),
    "timestamp": ("timestamp", "createdat", "submittedat", "submittime", "submissiontime", "datetime"),
    "gold": ("gold", "goldlabel", "truth", "truelabel", "groundtruth", "trueclass", "golden"),
}  # fmt: skip
REQUIRED = ("item", "annotator", "label")


def simplified(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find_columns(
    columns: list[str], given: dict[str, str] | None = None, synonyms: dict[str, tuple[str, ...]] = SYNONYMS
) -> dict[str, str]:
    """Map roles to columns: as given, else by name."""
    given = dict(given or {})
    free = {simplified(column): column for column in reversed(columns) if column not in given.values()}
    for role, names in synonyms.items():
        if role not in given:
            name = next((name for name in names if name in free), None)
            if name is not None:
                given[role] = free.pop(name)
    return {role: given[role] for role in synonyms if role in given}


FRAME_KINDS = ("polars", "pandas", "pyarrow", "datasets")
# What every kind of frame has a column type for; other names (tuples, uuids, ...) are written as text.
PLAIN_NAMES = (str, int, float, bool, bytes, date, datetime, timedelta, Decimal)


def is_frame(table: Any) -> bool:
    """Tell whether this is a data frame of pandas, polars, pyarrow or another library that narwhals knows."""
    package = type(table).__module__.split(".")[0]
    return package in ("pandas", "polars", "pyarrow", "modin", "cudf") and hasattr(table, "columns")


def annotations_of_frame(cls: type[Annotations], frame: Any) -> Annotations:
    """A long frame, by the names of its columns, or an items x annotators frame of class codes; else an error."""
    names = [str(name) for name in getattr(frame, "column_names", frame.columns)]
    found = find_columns(names)
    if all(role in found for role in REQUIRED):
        return build_from_frame(cls, frame, found, classes=None, repeats="keep")
    if found:
        taken = ", ".join(f"{column!r} as {role}" for role, column in found.items())
        raise InvalidAnnotationsError(
            f"The frame has {taken}, but no column for "
            f"{' and '.join(role for role in REQUIRED if role not in found)}; its columns are {some(names, 10)}.",
            remedy="Use Annotations.from_frame with {item}, {annotator}, {label}; for a row per item and a column per "
            "annotator, crowdprism.read_annotations(frame, 'wide').",
        )
    columns, _ = columns_of_frame(frame, dict(zip(names, names, strict=True)))
    text = [name for name, values in columns.items() if not all(map(is_code, values))]
    if text:
        raise InvalidAnnotationsError(
            f"The frame is neither long (columns item, annotator, label) nor a table of class codes: "
            f"{len(text)} of {len(names)} columns hold something else; the first is {text[0]!r}. Use "
            "Annotations.from_frame for long frames, crowdprism.read_annotations(frame, 'wide') for class names."
        )
    return cls.from_dense(frame)


def is_code(value: Any) -> bool:
    if value is None or value != value:
        return True
    return isinstance(value, (int, float, np.number)) and float(value).is_integer()


def build_from_frame(
    cls: type[Annotations], frame: Any, roles: Mapping[str, str | None], *, classes: Any, repeats: Any
) -> Annotations:
    """Do the work of `Annotations.from_frame`; `roles` names the column of each role."""
    columns, kind = columns_of_frame(frame, roles)
    items, annotators, labels = (columns.pop(role) for role in REQUIRED)
    gold = gold_by_item(items, columns.pop("gold")) if "gold" in columns else None
    built = cls.from_triplets(items, annotators, labels, classes=classes, gold=gold, repeats=repeats, **columns)
    return replace(built, frame_kind=kind)


def columns_of_frame(frame: Any, roles: Mapping[str, str | None]) -> tuple[dict[str, Any], str]:
    """The column of each role that is named, with None (never NaN) for missing, and the kind of the frame."""
    import narwhals as nw

    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InvalidAnnotationsError(
            f"{type(frame).__name__} is not a data frame that crowdprism knows. Pass a pandas, polars or pyarrow "
            "table (collect lazy frames first), or use Annotations.from_triplets."
        ) from error
    wanted = {role: column for role, column in roles.items() if column is not None}
    absent = [f"{column!r} (for {role})" for role, column in wanted.items() if column not in table.columns]
    if absent:
        raise InvalidAnnotationsError(
            f"The frame has no column {', '.join(absent)}; its columns are {some(table.columns, 20)}.",
            remedy="Name the right ones, for example {item:'task'}, {annotator:'worker'}.",
        )
    return {role: column_values(table[column]) for role, column in wanted.items()}, table.implementation.value


def column_values(series: nw.Series[Any]) -> Any:
    """Return numbers as a NumPy array, text as a polars column, anything else as a list with None for missing."""
    import narwhals as nw

    if series.dtype in (nw.String, nw.Categorical, nw.Enum):
        return text_column(series)
    if (series.dtype.is_numeric() or series.dtype == nw.Datetime) and not series.null_count():
        values = series.to_numpy()
        if not (values.dtype.kind == "f" and np.isnan(values).any()):
            return values
    return [None if value is not None and value != value else value for value in series.to_list()]


def text_column(series: nw.Series[Any]) -> Any:
    """Return a column of text as a polars column: that is the form in which many ids are encoded fast."""
    import polars as pl

    native = series.to_native()
    if isinstance(native, pl.Series):
        return native.cast(pl.String)
    try:
        return pl.Series(series.to_list(), dtype=pl.String)
    except TypeError:  # a categorical of numbers
        return series.to_list()


def long_frame(annotations: Annotations, kind: str) -> Any:
    a = annotations
    columns = {"item": a.items[a.item], "annotator": a.annotators[a.annotator], "label": a.classes[a.label]}
    numbers = {"weight": a.weight, "duration": a.duration, "timestamp": a.timestamp}
    return frame_of_columns(columns | {name: values for name, values in numbers.items() if values is not None}, kind)


def frame_of_columns(columns: Mapping[str, Any], kind: str) -> Any:
    """Build a frame of the asked kind from arrays; names that frames have no type for become text."""
    import narwhals as nw

    if kind not in FRAME_KINDS:
        raise InvalidParameterError(f"Unknown kind of data frame {kind!r}; known are {', '.join(FRAME_KINDS)}.")
    lists = {name: frame_values(np.asarray(values), kind) for name, values in columns.items()}
    try:
        if kind == "datasets":
            from datasets import Dataset

            return Dataset.from_dict({name: list(values) for name, values in lists.items()})
        return nw.from_dict(lists, backend=kind).to_native()  # type: ignore[arg-type]
    except ModuleNotFoundError as error:
        raise MissingDependencyError(f"{kind} is not installed; install it or pass another kind.") from error


def frame_values(values: np.ndarray, kind: str) -> Any:
    if values.dtype != object:
        return values
    listed = values.tolist()
    kinds = set(map(type, listed))
    if kind == "pandas" or (all(issubclass(found, PLAIN_NAMES) for found in kinds) and kinds != {int}):
        return listed  # an array of objects that are all int holds numbers of more than 64 bits
    return [name if isinstance(name, str) else str(name) for name in listed]


def dense_table(annotations: Annotations, missing: int) -> NDArray[Any]:
    if 0 <= missing < annotations.n_classes:
        raise InvalidParameterError(
            f"missing={missing} is also the code of class {plain(annotations.classes[missing])!r}. Choose another."
        )
    table = np.full((annotations.n_items, annotations.n_annotators), missing, dtype=annotations.label.dtype)
    table[annotations.item, annotations.annotator] = annotations.label
    return table


def dict_array(annotations: Annotations) -> NDArray[Any]:
    a = annotations
    array = np.empty(a.n_items, dtype=object)
    given = list(zip(a.annotators[a.annotator].tolist(), a.classes[a.label].tolist(), strict=True))
    array[:] = [dict(given[start:end]) for start, end in itertools.pairwise(a.item_start.tolist())]
    return array


def csr_table(annotations: Annotations) -> Any:
    from scipy.sparse import csr_array

    last = np.ones(annotations.n_annotations, dtype=bool)
    last[:-1] = (np.diff(annotations.item) != 0) | (np.diff(annotations.annotator) != 0)
    a = annotations if last.all() else annotations.select(last)
    parts = (a.label.copy(), a.annotator.copy(), a.item_start.copy())  # scipy may sort in place
    return csr_array(parts, shape=(a.n_items, a.n_annotators))
