"""What a notebook shows of a result or of annotations: a small table, themed by the notebook itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from crowdprism.annotations import Annotations
from crowdprism.report.names_shown import shown_name, visible
from crowdprism.results import FitResult

N_SHOWN = 5
# Only positions and weights: colours are left to the notebook, light or dark.
CELL = "padding:.15em .8em .15em 0;text-align:{side};font-variant-numeric:tabular-nums"


def result_html(result: FitResult) -> str:
    """A result at a glance: sizes, the least certain labels, the least accurate annotators.

    Examples
    --------
    >>> import crowdprism as cp
    >>> html = result_html(cp.make_aggregator("majority-vote").fit([[0, 1], [1, 1]]).result_)
    >>> "majority-vote" in html, "<script" in html
    (True, False)
    """
    top = result.class_probabilities.max(axis=1)
    doubtful = np.argsort(top, kind="stable")[:N_SHOWN]
    labels = result.labels()
    sizes = f"{result.n_items:,} items, {result.n_annotators:,} annotators, {result.n_classes:,} classes"
    parts = [
        heading(f"{result.method}: {sizes}"),
        *(f"<p>{escape(visible(text))}</p>" for text in result.warnings),
        table(
            "Least certain labels",
            ("item", "label", "probability"),
            ((result.items[at], labels[at], f"{top[at]:.1%}") for at in doubtful),
        ),
    ]
    accuracy = result.annotator_accuracy
    if accuracy is not None:
        lowest = np.argsort(accuracy, kind="stable")[:N_SHOWN]
        parts.append(
            table(
                "Least accurate annotators",
                ("annotator", "accuracy"),
                ((result.annotators[at], f"{accuracy[at]:.1%}") for at in lowest),
            )
        )
    parts.append("<p><small><code>.report(path, annotations)</code> writes the whole story as a page.</small></p>")
    return f"<div>{''.join(parts)}</div>"


def annotations_html(annotations: Annotations) -> str:
    """Annotations at a glance: sizes and label shares.

    Examples
    --------
    >>> html = annotations_html(Annotations.from_triplets(["<b>"], ["ann"], ["<script>"], classes=["<script>", "dog"]))
    >>> "<script>" in html, "&lt;script&gt;" in html
    (False, True)
    """
    a = annotations
    given = np.bincount(a.label, minlength=a.n_classes)
    most = np.argsort(-given, kind="stable")[: 2 * N_SHOWN]
    sizes = f"{a.n_annotations:,} annotations of {a.n_items:,} items by {a.n_annotators:,} annotators"
    rows = ((a.classes[at], f"{given[at]:,}", f"{given[at] / max(a.n_annotations, 1):.1%}") for at in most)
    more = f" (the {len(most)} most frequent of {a.n_classes:,})" if len(most) < a.n_classes else ""
    return f"<div>{heading(sizes)}{table(f'Labels given{more}', ('class', 'labels', 'share'), rows)}</div>"


def heading(text: str) -> str:
    """A line in bold."""
    return f"<p><strong>{escape(text)}</strong></p>"


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with escaped cells; names are cut where they are endless."""
    head = "".join(f'<th scope="col" style="{CELL.format(side="left")}">{escape(name)}</th>' for name in columns)
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{CELL.format(side="left")}">{escape(shown_name(cell))}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
