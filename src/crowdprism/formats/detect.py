"""Every format that can be read: its name, how it is recognised, how it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from crowdprism.annotations.column_roles import REQUIRED, find_columns
from crowdprism.errors import UnreadableFileError
from crowdprism.formats import arrays, ground_truth, label_studio, platforms, tables, wide_tables
from crowdprism.formats import labelling_tools as tools
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations


@dataclass(frozen=True)
class Format:
    """One format: what it is, how its content is recognised, and its reader."""

    description: str
    matches: Callable[[Document], bool]
    read: Callable[[Document], RawAnnotations]


def named_layout(name: str) -> Format:
    layout = tables.NAMED_LAYOUTS[name]
    return Format(
        f"long table with columns {', '.join(layout.values())}",
        lambda document: (
            not document.asked
            and tables.is_tabular(document)
            and all(layout[role] in document.columns for role in REQUIRED)
        ),
        lambda document: tables.read(document, {**layout, **document.asked}),
    )


# In the order in which they are tried: what is most particular first.
FORMATS: dict[str, Format] = {
    "numpy": Format(".npy or .npz: a matrix, or item, annotator and label arrays", arrays.matches, arrays.read),
    "label-studio": Format("Label Studio JSON", label_studio.matches_json, label_studio.read_json),
    "label-studio-min": Format("Label Studio JSON_MIN, CSV or TSV", label_studio.matches_min, label_studio.read_min),
    "prodigy": Format("Prodigy db-out JSON lines", tools.matches_prodigy, tools.read_prodigy),
    "argilla": Format("Argilla records, nested", tools.matches_argilla, partial(tools.read_argilla, nested=True)),
    "argilla-flat": Format(
        "Argilla records, flattened", tools.matches_flat_argilla, partial(tools.read_argilla, nested=False)
    ),
    "ground-truth": Format(
        "SageMaker Ground Truth worker responses", ground_truth.matches_responses, ground_truth.read_responses
    ),
    "ground-truth-requests": Format(
        "SageMaker Ground Truth consolidation requests", ground_truth.matches_requests, ground_truth.read_requests
    ),
    "ground-truth-manifest": Format(
        "SageMaker Ground Truth output manifest (consolidated labels)",
        ground_truth.matches_manifest,
        ground_truth.read_manifest,
    ),
    "mturk": Format("Mechanical Turk batch results", platforms.matches_mturk, platforms.read_mturk),
    "appen": Format("Appen full report of judgments", platforms.matches_appen, platforms.read_appen),
    "toloka": Format("Toloka assignments TSV", platforms.matches_toloka, platforms.read_toloka),
    "peerannot": Format(
        "JSON {item: {annotator: label}}, as peerannot's answers.json", tools.matches_peerannot, tools.read_peerannot
    ),
    "cifar10h": Format("CIFAR-10H raw answers", tables.matches_cifar10h, tables.read_cifar10h),
    **{name: named_layout(name) for name in tables.NAMED_LAYOUTS},
    "ticks": Format("table with a 0/1 column for each choice", wide_tables.matches_ticks, wide_tables.read_ticks),
    "long": Format("table or records with item, annotator and label", tables.matches, tables.read),
    "doccano": Format("doccano, one file per annotator (or a zip)", tools.matches_doccano, tools.read_doccano),
    "matrix": Format(
        "numbers without header, rows items, columns annotators", wide_tables.matches_matrix, wide_tables.read_matrix
    ),
    "wide": Format(
        "table with a row per item and a column per annotator", wide_tables.matches_wide, wide_tables.read_wide
    ),
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
        remedy = f"Name it with {', '.join(f'{{{role}}}' for role in absent)}"
        if absent == ["annotator"]:
            remedy += ", or pass {annotator_from:'filename'} if each file is one annotator"
    guess = wide_tables.guess_annotators(document) or tables.guess_columns(document) if is_tabular else {}
    known = f"Known formats are {', '.join(FORMATS)} (described in crowdprism.formats.FORMATS)."
    return UnreadableFileError(problem, remedy=f"{remedy}. {known}", suggestion=guess)
