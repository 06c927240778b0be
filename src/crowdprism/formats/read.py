"""`read_annotations`: find files, tell their format, read, merge, check, and give an account of it."""

from __future__ import annotations

import csv
import logging
import zipfile
import zlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from crowdprism.annotations.building import as_numbers, gold_by_item, require_known_repeats
from crowdprism.annotations.checks import check_known, require
from crowdprism.annotations.container import Annotations, Repeats
from crowdprism.annotations.frames import REQUIRED, SYNONYMS, find_columns, is_frame
from crowdprism.annotations.names import encode, name_array, plain, positions
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, UnreadableFileError
from crowdprism.formats import label_studio, platforms, raw_annotations, tables, wide_tables
from crowdprism.formats import labelling_tools as tools
from crowdprism.formats.documents import Document, Source, find_files, frame_document, is_hugging_face, open_documents
from crowdprism.formats.raw_annotations import RawAnnotations, ReadingOptions, ReadingReport


@dataclass(frozen=True)
class Format:
    """One format: what it is, how its content is recognised, and its reader."""

    description: str
    matches: Callable[[Document], bool]
    read: Callable[[Document], RawAnnotations]


def table_with(*columns: str) -> Callable[[Document], bool]:
    return lambda document: document.container == "table" and set(columns) <= set(document.columns)


def named_layout(name: str) -> Format:
    layout = tables.NAMED_LAYOUTS[name]
    needed = {layout[role] for role in REQUIRED}
    return Format(
        f"long table with columns {', '.join(layout.values())}",
        lambda document: not document.asked and tables.is_tabular(document) and needed <= set(document.columns),
        lambda document: tables.read(document, {**layout, **document.asked}),
    )


# In the order in which they are tried: what is most particular first.
FORMATS: dict[str, Format] = {
    "numpy": Format(".npy or .npz: a matrix, or three arrays", wide_tables.matches_arrays, wide_tables.read_arrays),
    "label-studio": Format("Label Studio JSON", label_studio.matches_json, label_studio.read_json),
    "label-studio-min": Format("Label Studio JSON_MIN, CSV or TSV", label_studio.matches_min, label_studio.read_min),
    "prodigy": Format("Prodigy db-out JSON lines", tools.matches_prodigy, tools.read_prodigy),
    "argilla": Format("Argilla records, nested", tools.matches_argilla, partial(tools.read_argilla, nested=True)),
    "argilla-flat": Format("Argilla, flattened", tools.matches_flat_argilla, partial(tools.read_argilla, nested=False)),
    "ground-truth": Format("SageMaker Ground Truth responses", platforms.matches_responses, platforms.read_responses),
    "ground-truth-requests": Format(
        "SageMaker Ground Truth consolidation requests", platforms.matches_requests, platforms.read_requests
    ),
    "ground-truth-manifest": Format(
        "SageMaker Ground Truth manifest (consolidated labels)", platforms.matches_manifest, platforms.read_manifest
    ),
    "mturk": Format("Mechanical Turk batch results", table_with("HITId", "WorkerId"), platforms.read_mturk),
    "appen": Format("Appen full report of judgments", table_with("_unit_id", "_worker_id"), platforms.read_appen),
    "toloka": Format("Toloka assignments TSV", platforms.matches_toloka, platforms.read_toloka),
    "peerannot": Format("JSON {item: {annotator: label}}", tools.matches_peerannot, tools.read_peerannot),
    "cifar10h": Format(
        "CIFAR-10H raw answers", table_with("annotator_id", "chosen_label", "is_attn_check"), tables.read_cifar10h
    ),
    **{name: named_layout(name) for name in tables.NAMED_LAYOUTS},
    "ticks": Format("table with a 0/1 column for each choice", wide_tables.matches_ticks, wide_tables.read_ticks),
    "long": Format("table or records with item, annotator and label", tables.matches, tables.read),
    "doccano": Format("doccano, one file per annotator (or a zip)", tools.matches_doccano, tools.read_doccano),
    "matrix": Format("numbers without header, items x annotators", wide_tables.matches_matrix, wide_tables.read_matrix),
    "wide": Format("table, a row per item and a column per annotator", wide_tables.matches_wide, wide_tables.read_wide),
}


def detect_format(document: Document) -> str | None:
    return next((name for name, form in FORMATS.items() if form.matches(document)), None)


def unknown_format(document: Document) -> UnreadableFileError:
    seen = document.seen()
    if document.container == "npz":
        seen = f"an npz file with arrays {', '.join(document.arrays)}"
    is_tabular = tables.is_tabular(document)
    found = find_columns(document.columns) if is_tabular else {}
    problem = f"{document.name} is in no known format: it is {seen}."
    remedy = "If it has a row per annotation, name the columns with {item}, {annotator}, {label}"
    if document.container == "table":
        remedy += ". If the first line is not a header, add one, such as item,annotator,label"
    absent = [role for role in REQUIRED if role not in found]
    if found and absent:
        taken = ", ".join(f"{column!r} as {role}" for role, column in found.items())
        problem += f" It has {taken}, but no column for {' and '.join(absent)}."
        remedy = f"Name {'it' if len(absent) == 1 else 'them'} with {', '.join(f'{{{role}}}' for role in absent)}"
        if absent == ["annotator"]:
            remedy += ", or pass {annotator_from:'filename'} if each file is one annotator"
    guess = wide_tables.guess_annotators(document) or tables.guess_columns(document) if is_tabular else {}
    known = f"Known formats are {', '.join(FORMATS)} (described in crowdprism.formats.FORMATS)."
    return UnreadableFileError(problem, remedy=remedy if guess else f"{remedy}. {known}", suggestion=guess)


logger = logging.getLogger("crowdprism")
# What libraries raise on damaged content, and nothing that a mistake of our own would raise.
FOREIGN_ERRORS = (
    pl.exceptions.PolarsError, pl.exceptions.PanicException, zipfile.BadZipFile, zlib.error, csv.Error, UnicodeError,
    RecursionError, MemoryError, OverflowError,
)  # fmt: skip


def read_annotations(
    source: Source,
    format: str = "auto",
    *,
    item: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    duration: str | None = None,
    timestamp: str | None = None,
    gold: str | None = None,
    classes: Sequence[Hashable] | None = None,
    repeats: Repeats = "keep",
    include_rejected: bool = False,
    skip_missing: bool = False,
    annotator_from: str | None = None,
    annotators: Sequence[str] | None = None,
    missing: Sequence[Any] | None = None,
    encoding: str = "utf-8",
    max_size: int | str | None = None,
    skip_label: Sequence[str] = (),
    fold_classes: bool = False,
    classes_ordered: bool = False,
) -> Annotations:
    """Read annotations from whatever a tool exported.

    The format is recognized by content, not by the file's name; what was detected, how columns were mapped and what
    was skipped is logged (logger `crowdprism`, level INFO). `read_annotations_with_report` returns that account.

    Parameters
    ----------
    source
        A path, a glob such as `"exports/*.json"`, a folder, or a list of these. Several files are merged: the same
        name is the same item or annotator. Also a data frame of pandas, polars or pyarrow, or a `datasets.Dataset`.
    format
        A name from `crowdprism.formats.FORMATS`, or `"auto"`.
    item, annotator, label, weight, duration, timestamp, gold
        Names of columns or fields, where the reader should not choose. For exports with several questions, `label`
        chooses the question.
    classes
        All classes in the order wanted; by default those that occur, sorted.
    repeats
        As in `Annotations.from_triplets`.
    include_rejected
        Also take what is marked as rejected, cancelled, draft and the like.
    skip_missing
        Leave out rows without item, annotator or label (they are counted) instead of stopping.
    annotator_from
        `"filename"`: each file is the work of one annotator, who is named by the file.
    annotators
        Columns of a wide table that are annotators; by default those that hold labels.
    missing
        What stands for "no label" in a cell; by default an empty cell, NaN and the like, in wide tables also -1.
    encoding
        Of text files.
    max_size
        Most bytes of one file or archive, unpacked, such as `"8GB"`. By default 4 GB or a quarter of the memory,
        whichever is less, and for packed files above 256 MB at most 100 times the packed size.
    skip_label
        Answers that are no label, such as `["unsure", "N/A"]`; they are left out and counted.
    fold_classes
        Join classes that differ only in case and spaces under the most frequent spelling.
    classes_ordered
        Whether `classes` run from low to high, as ratings do.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "labels.csv")
    ...     _ = path.write_text("task,worker,label\\n1,ann,cat\\n1,bob,dog\\n2,ann,cat\\n")
    ...     read_annotations(path)
    Annotations(3 annotations of 2 items by 2 annotators, 2 classes: 'cat', 'dog')
    """
    return read_annotations_with_report(**locals())[0]  # every parameter as it came


def read_annotations_with_report(
    source: Source,
    format: str = "auto",
    *,
    classes: Sequence[Hashable] | None = None,
    repeats: Repeats = "keep",
    skip_label: Sequence[str] = (),
    fold_classes: bool = False,
    classes_ordered: bool = False,
    **more: Any,
) -> tuple[Annotations, ReadingReport]:
    """As `read_annotations`, with the same parameters, and return the account of the reading as well.

    Examples
    --------
    >>> frame = pl.DataFrame({"task": [1, 1], "worker": ["ann", "bob"], "label": ["cat", "dog"]})
    >>> annotations, report = read_annotations_with_report(frame)
    >>> report.format, dict(report.columns)
    ('crowd-kit', {'item': 'task', 'annotator': 'worker', 'label': 'label'})
    """
    options = ReadingOptions.of(**more)
    require_known_repeats(repeats)
    raw, report = read_files(source, format, options)
    first = report.files[0]
    with decoding(first):
        raw_annotations.clean_labels(raw, first, skip=skip_label, fold=fold_classes)
        leave_out_unreadable(raw, options)
        annotations = replace(build(raw, first, classes, repeats), classes_ordered=classes_ordered)
    if repeats in ("first", "last") and annotations.n_annotations < len(raw.label):
        again = "answered again later" if repeats == "last" else "answered before"
        raw.skip(again, first, len(raw.label) - annotations.n_annotations)
    report = replace(report, n_annotations=annotations.n_annotations, notes=tuple(raw.notes))
    for line in report.lines():
        logger.info(line)
    return annotations, report


def require_options(format: str, options: ReadingOptions) -> None:
    """Stop at a misspelt option before any file is opened."""
    if format != "auto" and format not in FORMATS:
        raise InvalidParameterError(f"There is no format {format!r}; there are auto, {', '.join(FORMATS)}.")
    unknown = [role for role in options.columns if role not in SYNONYMS]
    if unknown:
        raise InvalidParameterError(
            f"read_annotations takes no {unknown[0]!r}; "
            f"columns are given as {', '.join(f'{role}=' for role in SYNONYMS)}."
        )
    if options.annotator_from not in (None, "filename"):
        raise InvalidParameterError(f'annotator_from must be "filename" or None, not {options.annotator_from!r}.')
    try:
        b"ab".decode(options.encoding, errors="ignore")
    except (LookupError, UnicodeError) as error:
        raise InvalidParameterError(f"There is no encoding {options.encoding!r}; try 'utf-8' or 'cp1252'.") from error


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Turn what libraries raise while a file is decoded into an error that names the file."""
    try:
        yield
    except FOREIGN_ERRORS as error:
        reason = str(error).split("\n")[0][:300] or type(error).__name__
        if isinstance(error, RecursionError):
            reason = "its values are nested too deeply"
        raise UnreadableFileError(
            f"{name} cannot be read: {reason}. Check the file or export it again; nothing was read."
        ) from error


def open_source(source: Source, options: ReadingOptions) -> Iterator[tuple[Document, bool]]:
    """The documents of files or of a table in memory, and whether each comes from a folder."""
    if is_frame(source) or is_hugging_face(source):
        yield frame_document(source, options), False
        return
    for path, from_folder in find_files(source):
        with decoding(str(path)):
            documents = open_documents(path, options)
        yield from ((document, from_folder) for document in documents)


def read_files(source: Source, format: str, options: ReadingOptions) -> tuple[RawAnnotations, ReadingReport]:
    """Read each document; all must be of one format. The report shares what was skipped with the raw annotations."""
    require_options(format, options)
    parts: list[RawAnnotations] = []
    formats: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for document, from_folder in open_source(source, options):
        with decoding(document.name):
            name = detect_format(document) if format == "auto" else format
            if name is None and from_folder:
                left_out[document.name] = document.seen()
                continue
            if name is None:
                raise unknown_format(document)
            formats[document.name] = name
            parts.append(FORMATS[name].read(document))
        parts[-1].require_all_counted(document.name)
    if not parts:
        raise UnreadableFileError(
            "None of the files is in a known format: "
            + "; ".join(f"{name} is {seen}" for name, seen in list(left_out.items())[:3])
            + f". Known formats are {', '.join(FORMATS)}."
        )
    if len(set(formats.values())) > 1:
        kinds = {kind: name for name, kind in reversed(formats.items())}
        listed = ", ".join(f"{kind} (such as {name})" for kind, name in kinds.items())
        raise UnreadableFileError(
            f"The files are of different formats: {listed}. Convert them to one format with `crowdprism convert`, or "
            "read each and join them with `Annotations.concat`."
        )
    raw, (name, *_) = raw_annotations.merged(parts), formats
    if not len(raw.label) and not raw.skipped:
        raise UnreadableFileError(f"{name} holds no annotation. Check that the export includes the answers.")
    if not len(raw.label):
        reasons = "; ".join(f"{reason}: {skip}" for reason, skip in raw.skipped.items())
        raise UnreadableFileError(
            f"{name} gives no annotation: all of its {raw.n_rows} rows were skipped ({reasons}).",
            remedy="Pass {include_rejected:True} if such rows should count.",
        )
    files, n_annotations = tuple(formats), len(raw.label)
    return raw, ReadingReport(formats[name], raw.columns, files, raw.n_rows, n_annotations, raw.skipped, left_out)


def leave_out_unreadable(raw: RawAnnotations, options: ReadingOptions) -> None:
    """Leave out weights and times that cannot be read, with a note; an error where the caller named the column."""
    for role, values in list(raw.numbers.items()):
        try:
            raw.numbers[role] = as_numbers(values, role)
        except InvalidAnnotationsError as error:
            if role in options.columns:
                raise
            del raw.numbers[role]
            column = raw.columns.pop(role, role)
            raw.notes.append(f"column {column!r} is not used as {role} (rows count from 0): {error.problem}")


def build(raw: RawAnnotations, name: str, classes: Sequence[Hashable] | None, repeats: Repeats) -> Annotations:
    wanted = list(classes) if classes is not None else None
    raw_annotations.type_text(raw, classes_are_text=wanted is not None and all(isinstance(one, str) for one in wanted))
    if wanted is None:
        wanted = raw.classes
    try:
        if wanted is not None:
            require_known_labels(raw, wanted)
        if not raw.keeps_order:
            names = (raw.item_names, raw.annotator_names)
            raw.item_names, raw.annotator_names = (one if one is None else encode(one)[0] for one in names)
        return Annotations.from_triplets(
            raw.item,
            raw.annotator,
            raw.label,
            classes=wanted,
            item_names=raw.item_names,
            annotator_names=raw.annotator_names,
            gold=gold_by_item(raw.gold_item, raw.gold_label) if len(raw.gold_label) else None,
            repeats=repeats,
            **raw.numbers,
        )
    except InvalidAnnotationsError as error:
        rows = " (rows are counted from 0, without the header)" if " row " in str(error) else ""
        raise InvalidAnnotationsError(f"{name}{rows}: {error.problem}", remedy=error.remedy) from error


def require_known_labels(raw: RawAnnotations, classes: Sequence[Hashable]) -> None:
    """Stop at labels outside the given classes, naming the first by item and annotator (rows may have been skipped)."""
    known, (distinct, codes) = name_array(classes), encode(raw.label)

    def place(row: int) -> str:
        return f"by annotator {plain(raw.annotator[row])!r} on item {plain(raw.item[row])!r}"

    remedy = "Add them to {classes}, or correct the labels."
    require([check_known(positions(known, distinct)[codes], raw.label, known, "label", place=place, remedy=remedy)])
