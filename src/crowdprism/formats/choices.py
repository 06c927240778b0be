"""`read_choices`: answers with several choices per item, from the same files as other annotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from crowdprism.annotations.choice_sets import MultiLabelAnnotations
from crowdprism.annotations.container import Repeats
from crowdprism.formats.documents import Source
from crowdprism.formats.raw_annotations import ReadingOptions, ReadingReport, split, type_text
from crowdprism.formats.read import decoding, read_files


def read_choices(source: Source, **options: Any) -> MultiLabelAnnotations:
    """Read answers with several choices: lists of tools' exports, `a|b` in a label column, or 0/1 columns.

    Parameters are those of `read_choices_with_report`. A choice that was not ticked counts as "no", also where nothing
    was ticked.

    Examples
    --------
    >>> import polars as pl
    >>> read_choices(pl.DataFrame({"item": [1, 1], "annotator": ["ann", "bob"], "label": ["news|sport", ""]}))
    MultiLabelAnnotations(2 answers on 1 item by 2 annotators, 2 choices: 'news', 'sport')
    """
    return read_choices_with_report(source, **options)[0]


def read_choices_with_report(
    source: Source,
    format: str = "auto",
    *,
    separator: str = "|",
    classes: Sequence[Any] | None = None,
    repeats: Repeats = "keep",
    **more: Any,
) -> tuple[MultiLabelAnnotations, ReadingReport]:
    """As `read_choices`, with an account; `classes` lists all choices, and `more` is as in `read_annotations`."""
    raw, report = read_files(source, format, ReadingOptions.of(multi=True, **more))
    with decoding(report.files[0]):
        type_text(raw, classes_are_text=True)
        chosen = [split(cell, separator) for cell in raw.label]
        true = {item: split(cell, separator) for item, cell in zip(raw.gold_item, raw.gold_label, strict=True)}
        choices = raw.classes if classes is None else classes
        annotations = MultiLabelAnnotations.from_triplets(
            raw.item, raw.annotator, chosen, choices=choices, gold=true or None, repeats=repeats
        )
    empty = sum(not one for one in chosen)
    if empty:
        raw.notes.append(f"{empty} answers tick nothing, which counts as no to every choice")
    return annotations, replace(report, n_annotations=annotations.sets.n_annotations, notes=tuple(raw.notes))
