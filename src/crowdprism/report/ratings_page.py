"""What ratings on a continuous scale say, in sentences and as a page."""

from __future__ import annotations

import numpy as np

from crowdprism.errors import counted
from crowdprism.report.tables_page import PageTable, Span, tables_page
from crowdprism.scoring.gaussian_ratings import RatingResult

MAX_ROWS = 200


def rating_lines(result: RatingResult) -> list[str]:
    width = float(np.median(result.interval[:, 1] - result.interval[:, 0])) / 2
    lines = [
        f"{result.icc:.0%} of the variance of a single rating comes from the items (intraclass correlation).",
        f"Half of the scores are known within {width:.3g} or better.",
    ]
    biased = np.flatnonzero((result.bias_interval[:, 0] > 0) | (result.bias_interval[:, 1] < 0))
    if len(biased):
        most = biased[np.argmax(np.abs(result.bias[biased]))]
        lines.append(
            f"{len(biased)} of {len(result.bias)} annotators rate clearly higher or lower than the crowd, most "
            f"{result.annotators[most]} ({result.bias[most]:+.3g}). Scores are corrected for it."
        )
    return [*lines, *result.warnings]


def ratings_page(result: RatingResult) -> str:
    order = np.argsort(-result.scores, kind="stable")[:MAX_ROWS]
    people = np.argsort(-result.spread, kind="stable")[:MAX_ROWS]
    score, bias = result.interval.tolist(), result.bias_interval.tolist()
    tables = [
        PageTable(
            "Items, highest first; the bar is the 95 % interval",
            ["item", "score", "", "ratings"],
            [
                [result.items[at], float(result.scores[at]), Span(score[at][0], float(result.scores[at]), score[at][1]),
                 int(result.ratings_per_item[at])]
                for at in order
            ],
        ),
        PageTable(
            "Annotators, least precise first: bias with its 95 % interval, and spread",
            ["annotator", "ratings", "bias", "", "spread"],
            [
                [result.annotators[at], int(result.ratings_per_annotator[at]), float(result.bias[at]),
                 Span(bias[at][0], float(result.bias[at]), bias[at][1]), float(result.spread[at])]
                for at in people
            ],
        ),
    ]  # fmt: skip
    return tables_page(
        f"{counted(len(result.items), 'item')} rated by {counted(len(result.annotators), 'annotator')}",
        eyebrow="Ratings",
        lines=rating_lines(result),
        tables=tables,
    )
