"""Appen (CrowdFlower): the full report with one row per judgment; test questions carry their answer in X_gold."""

from __future__ import annotations

import polars as pl

from crowdprism.annotations.column_roles import find_columns
from crowdprism.formats import tables
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations

UNIT, WORKER, GOLDEN, TAINTED = "_unit_id", "_worker_id", "_golden", "_tainted"
GOLD_ENDING = "_gold"
TRUE = ("true", "1", "yes")


def matches(document: Document) -> bool:
    return document.container == "table" and {UNIT, WORKER} <= set(document.columns)


def read(document: Document) -> RawAnnotations:
    """Read judgments: answers of test questions become gold, tainted judgments are skipped."""
    label = document.asked.get("label") or only_question(document)
    given = {"item": UNIT, "annotator": WORKER, "label": label, **document.asked}
    given.setdefault("gold", f"{label}{GOLD_ENDING}")
    if given["gold"] not in document.columns:
        del given["gold"]
    frame = document.frame
    none = pl.repeat(False, frame.height, eager=True)
    skips = TAINTED in frame.columns and not document.options.include_rejected
    tainted = frame[TAINTED].str.to_lowercase().is_in(TRUE) if skips else none
    several = frame[given["gold"]].str.contains("\n") if "gold" in given else none
    if several.any():  # any of several answers counts as right, which is no true class
        document.frame = frame.with_columns(
            pl.when(several).then(pl.lit("")).otherwise(given["gold"]).alias(given["gold"])
        )
    document.frame = document.frame.filter(~tainted)
    raw = tables.read(document, given)
    if "gold" not in given:
        raw.columns.pop("gold", None)  # _golden says whether a unit is a test question, not its class
        raw.gold_item, raw.gold_label = [], []
    raw.n_rows += int(tainted.sum())
    if tainted.any():
        raw.skip("tainted", document.place(int(tainted.arg_true()[0])), int(tainted.sum()))
    if several.any():
        units = frame.filter(several)[UNIT].n_unique()
        raw.notes.append(f"{units} test questions accept several answers; they are not used as gold")
    return raw


def only_question(document: Document) -> str:
    """The one column that has a column of gold beside it, or a usual name; several are an error that lists them."""
    columns = document.columns
    asked = [name for name in columns if f"{name}{GOLD_ENDING}" in columns]
    if not asked:
        found = find_columns([name for name in columns if not name.startswith("_")]).get("label")
        asked = [found] if found else []
    return document.only(asked, "label", "questions")
