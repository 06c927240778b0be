"""Several choices as a 0/1 column each: a row per answer, with its item and annotator."""

from __future__ import annotations

import polars as pl

from crowdprism.annotations.column_roles import find_columns, simplified
from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations
from crowdprism.formats.tables import column_of

TICKED, NOT_TICKED = ("1", "1.0", "true", "yes", "x"), ("0", "0.0", "false", "no", "")


def tick_columns(document: Document) -> list[str]:
    """Columns of a table, besides item and annotator, that hold nothing but ticks."""
    roles = find_columns(document.columns, dict(document.asked))
    others = [column for column in document.columns if column not in roles.values() and simplified(column) != "status"]
    return [column for column in others if texts(document, column).is_in([*TICKED, *NOT_TICKED]).all()]


def texts(document: Document, column: str) -> pl.Series:
    return document.frame[column].cast(pl.String).fill_null("").str.strip_chars().str.to_lowercase()


def matches_ticks(document: Document) -> bool:
    """Tell whether several choices are read and there is a 0/1 column for each, and no column of labels."""
    if not document.options.multi or document.container not in ("table", "parquet"):
        return False
    roles = find_columns(document.columns, dict(document.asked))
    return {"item", "annotator"} <= set(roles) and "label" not in roles and bool(tick_columns(document))


def read_ticks(document: Document) -> RawAnnotations:
    """Read a row per answer and a 0/1 column per choice."""
    roles = find_columns(document.columns, dict(document.asked))
    choices = tick_columns(document)
    if not {"item", "annotator"} <= set(roles) or not choices:
        raise UnreadableFileError(f"{document.name} has no 0/1 columns; it has {some(document.columns, 15)}.")
    raw = RawAnnotations(
        {"item": roles["item"], "annotator": roles["annotator"], "label": ", ".join(choices)},
        is_text=document.container == "table",
    )
    raw.item, raw.annotator = (column_of(document.frame[roles[role]]) for role in ("item", "annotator"))
    ticked = [texts(document, column).is_in(TICKED).to_list() for column in choices]
    raw.label = [[name for name, one in zip(choices, row, strict=True) if one] for row in zip(*ticked, strict=True)]
    raw.n_rows, raw.classes = document.frame.height, choices
    return raw
