"""Comparisons of two items from files: tables and records, Label Studio pairwise, Argilla rankings, arena logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import polars as pl

from crowdprism.annotations.frames import SYNONYMS, find_columns
from crowdprism.errors import InvalidParameterError, UnreadableFileError, some
from crowdprism.formats import label_studio, labelling_tools
from crowdprism.formats.documents import Document, Source
from crowdprism.formats.json_text import LabelStudioTask
from crowdprism.formats.raw_annotations import ReadingOptions, joined
from crowdprism.formats.read import decoding, open_source
from crowdprism.formats.tables import column_of

ROLES: dict[str, tuple[str, ...]] = {
    "left": ("left", "itema", "modela", "optiona", "responsea", "answera", "assistanta", "texta", "imagea", "item1",
             "model1", "option1", "first", "text1", "a"),
    "right": ("right", "itemb", "modelb", "optionb", "responseb", "answerb", "assistantb", "textb", "imageb", "item2",
              "model2", "option2", "second", "text2", "b"),
    "winner": ("winner", "preferred", "preference", "better", "selected", "outcome", "result", *SYNONYMS["label"]),
    "judge": SYNONYMS["annotator"],
    "group": (),
    "gold": ("gold", "goldwinner", "knownwinner"),  # a column "truth" may hold a reference answer
}  # fmt: skip
REQUIRED = ("left", "right", "winner")
Row = tuple[Any, Any, Any, Any, Any, Any]  # in the order of ROLES


@dataclass
class RawComparisons:
    """Columns as files give them, None for optional ones that no file has, and the account of the reading."""

    columns: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    knows_position: bool = True  # whether left and right are where items were shown


def read_comparisons(
    source: Source,
    *,
    skip_missing: bool = False,
    include_rejected: bool = False,
    encoding: str = "utf-8",
    max_size: int | str | None = None,
    **columns: str | None,
) -> RawComparisons:
    """Read which of two items was found better.

    Parameters
    ----------
    source
        As in `read_annotations`.
    columns
        Names of the columns or fields `left`, `right`, `winner`, `judge`, `group` and `gold`, where the reader should
        not choose. In Label Studio exports `left` and `right` are fields of the task's data, and `winner` is the
        question, as in Argilla exports.
    """
    unknown = [role for role, column in columns.items() if column is not None and role not in ROLES]
    if unknown:
        raise InvalidParameterError(f"read_comparisons takes no {unknown[0]!r}; columns are {', '.join(ROLES)}.")
    given: dict[str, Any] = {**columns, "skip_missing": skip_missing, "include_rejected": include_rejected}
    options = ReadingOptions.of(**given, encoding=encoding, max_size=max_size)
    parts: list[RawComparisons] = []
    for document, _ in open_source(source, options):
        with decoding(document.name):
            parts.append(read_document(document))
    known = {role: [part.columns[role] for part in parts] for role in ROLES}
    if any(one is not None for one in known["gold"]):  # in some of the files
        sizes = [len(part.columns["left"]) for part in parts]
        known["gold"] = [size * [None] if one is None else one for one, size in zip(known["gold"], sizes, strict=True)]
    return RawComparisons(
        {role: None if any(one is None for one in found) else joined(found) for role, found in known.items()},
        [line for part in parts for line in part.lines],
        all(part.knows_position for part in parts),
    )


def read_document(document: Document) -> RawComparisons:
    if label_studio.matches_json(document):
        return from_rows(document, "label-studio pairwise", pairwise_rows(document))
    if labelling_tools.matches_argilla(document) or labelling_tools.matches_flat_argilla(document):
        return replace(from_rows(document, "argilla ranking", ranking_rows(document)), knows_position=False)
    roles = find_roles(document.columns, dict(document.asked))
    absent = [role for role in REQUIRED if role not in roles]
    if absent:
        raise UnreadableFileError(
            f"{document.name} has no column for {', '.join(absent)}; it is {document.seen()}.",
            remedy="Name the columns with {left}, {right}, {winner}",
        )
    frame = document.frame
    columns = {role: column_of(frame[roles[role]]) if role in roles else None for role in ROLES}
    named = ", ".join(f"{role} <- {column}" for role, column in roles.items())
    return RawComparisons(columns, [f"{document.name}: {frame.height} comparisons; {named}"])


def find_roles(columns: list[str], asked: dict[str, str]) -> dict[str, str]:
    wrong = [column for column in asked.values() if column not in columns]
    if wrong:
        raise UnreadableFileError(f"There is no column {wrong[0]!r}; there are {some(columns, 15)}.")
    return find_columns(columns, asked, ROLES)


def from_rows(document: Document, format: str, rows: Iterable[Row]) -> RawComparisons:
    """Columns from rows; a role without any value is not known."""
    listed = list(rows)
    if not listed:
        raise UnreadableFileError(f"{document.name} holds no comparison. Check that the export includes the answers.")
    found = {role: [row[at] for row in listed] for at, role in enumerate(ROLES)}
    columns = {role: values if any(one is not None for one in values) else None for role, values in found.items()}
    texts = {role: values if values is None else typed(values) for role, values in columns.items()}
    return RawComparisons(texts, [f"{document.name}: read as {format}; {len(listed)} comparisons"])


def typed(values: list[Any]) -> Any:
    if all(type(value) is int for value in values):
        return values
    return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)


def pairwise_rows(document: Document) -> Iterator[Row]:
    """The answers of Label Studio's Pairwise tag; cancelled ones are left out."""
    tasks = document.records_as(LabelStudioTask)
    question = document.asked.get("winner") or label_studio.only_question(document.name, tasks)
    for place, task in enumerate(tasks):
        data = task.get("data", {})
        given = {role: name for role, name in document.asked.items() if role in ("left", "right")}
        roles = find_roles(list(data), given)
        texts = [name for name, value in data.items() if isinstance(value, (str, int))]
        if not {"left", "right"} <= set(roles):
            if len(texts) != 2:
                raise UnreadableFileError(
                    f"{document.name}: task {place} does not show which two of {some(data, 12)} were compared.",
                    remedy="Name them with {left} and {right}",
                )
            roles = dict(zip(("left", "right"), texts, strict=True))
        answers = label_studio.annotations_of(task)
        gold = next((label_studio.label_of(one, question) for one in answers if one.get("ground_truth")), None)
        for annotation in answers:
            cancelled = annotation.get("was_cancelled") and not document.options.include_rejected
            if cancelled or annotation.get("ground_truth"):
                continue
            winner = label_studio.label_of(annotation, question)
            judge = label_studio.person(annotation.get("completed_by"))
            yield data[roles["left"]], data[roles["right"]], winner, judge, data.get(document.asked.get("group")), gold


def ranking_rows(document: Document) -> Iterator[Row]:
    """Every pair of options of each Argilla ranking; equal ranks are ties. The order shown is not exported."""
    nested = labelling_tools.matches_argilla(document)
    for place, _, (value, user, status) in labelling_tools.responses(document, role="winner", nested=nested)[1]:
        if status != "submitted" and not document.options.include_rejected:
            continue
        for one, other in combinations(ranked_options(value, document.place(place)), 2):
            winner = "tie" if one[1] == other[1] else one[0] if one[1] < other[1] else other[0]
            yield one[0], other[0], winner, user, None, None


def ranked_options(value: Any, where: str) -> list[tuple[str, float]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) and {"value", "rank"} <= set(one) for one in value):
        raise UnreadableFileError(f"{where} holds no ranking (a list of value and rank). Choose another question.")
    return sorted((str(one["value"]), one["rank"]) for one in value if isinstance(one["rank"], (int, float)))
