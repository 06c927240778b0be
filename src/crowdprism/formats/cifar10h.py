"""The raw answers of CIFAR-10H: one row per trial, attention checks among them."""

from __future__ import annotations

from crowdprism.formats import tables
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import RawAnnotations, ReadingOptions

ITEM_COLUMNS = ("cifar10_test_test_idx", "image_filename", "item", "image_id", "image")
MILLISECONDS = 1000.0


def matches(document: Document) -> bool:
    """Tell whether these are raw answers with attention checks."""
    return document.container == "table" and {"annotator_id", "chosen_label", "is_attn_check"} <= set(document.columns)


def read(document: Document, options: ReadingOptions) -> RawAnnotations:
    """Read answers; attention checks are skipped, reaction times are milliseconds."""
    item = next((column for column in ITEM_COLUMNS if column in document.columns), None)
    given = {"annotator": "annotator_id", "label": "chosen_label"}
    for role, column in (("item", item), ("gold", "true_label"), ("duration", "reaction_time")):
        if column in document.columns and column is not None:
            given[role] = column
    is_check = document.frame["is_attn_check"].str.to_lowercase().is_in(["1", "1.0", "true"])
    first = is_check.arg_max()
    skipped = int(is_check.sum())
    document.frame = document.frame.filter(~is_check)
    raw = tables.read(document, options, {**given, **options.columns})
    raw.n_rows += skipped
    if skipped and first is not None:
        raw.skip("attention check", document.place(first), skipped)
    if "duration" in raw.numbers and raw.columns.get("duration") == "reaction_time":
        raw.numbers["duration"] = raw.numbers["duration"] / MILLISECONDS
    return raw
