"""What rankings, and ratings on a continuous scale, say: in sentences and as pages."""

from __future__ import annotations

import numpy as np

from crowdprism.errors import counted
from crowdprism.report.tables_page import PageTable, Span, tables_page
from crowdprism.scoring.gaussian_ratings import RatingResult
from crowdprism.scoring.ranking import Ranking

MAX_MATRIX = 20  # items whose win probabilities are shown
MAX_ROWS = 200
N_SURPRISES = 20
N_TO_ASK = 10
DOUBTFUL = 0.5  # a judge whose answers were careful less often than this is named


def ranking_lines(ranking: Ranking) -> list[str]:
    names, order = ranking.items.tolist(), ranking.order
    lines = []
    if len(order) > 1:
        lines.append(str(ranking.difference(names[order[0]], names[order[1]])))
    tied = int((ranking.rank_interval()[:, 0] == 1).sum())
    if tied > 1:
        lines.append(f"{tied} items may be the best.")
    if ranking.position is not None:
        clear = ranking.position.low > 0.5 or ranking.position.high < 0.5
        effect = "Position matters" if clear else "Position makes no clear difference"
        lines.append(
            f"{effect}: between equal items the left one wins {ranking.position}. Scores are corrected for it."
        )
    if ranking.tie_share > 0:
        lines.append(f"Judges find equal items equal in {ranking.tie_share:.0%} of comparisons.")
    if ranking.reliability is not None:
        low = np.flatnonzero(ranking.reliability < DOUBTFUL)
        worst = low[np.argsort(ranking.reliability[low], kind="stable")]
        listed = ", ".join(str(ranking.judges[at]) for at in worst[:5])
        if listed:
            lines.append(f"Judges whose answers say little about the items: {listed}.")
    found = ranking.differing_items()
    if ranking.groups:
        said = [f"{group} finds {item} {'better' if gap > 0 else 'worse'}" for item, group, gap, _ in found[:3]]
        lines.append(
            f"Groups of judges differ: {'; '.join(said)}." if said else "Groups of judges do not clearly differ."
        )
    return [*lines, *ranking.warnings]


def ranking_page(ranking: Ranking) -> str:
    columns = ranking.columns()
    rows = [
        [item, at, f"{low} to {high}", Span(a, score, b), score, n, wins / max(n, 1)]
        for item, at, low, high, score, a, b, n, wins in zip(
            *(columns[name].tolist() for name in
              ("item", "rank", "rank_low", "rank_high", "score", "low", "high", "comparisons", "wins")),
            strict=True,
        )
    ]  # fmt: skip
    tables = [
        PageTable(
            "Items, best first. Score is the log of strength; the bar is its 95 % interval; places are those that "
            "differences to the others leave open",
            ["item", "rank", "possible places", "score", "", "comparisons", "share won"],
            rows[:MAX_ROWS],
        ),
        _matrix(ranking),
        _judges(ranking),
        PageTable(
            "Disagreements: pairs whose votes contradict the ranking",
            ["first", "second", "first won", "of", "standard deviations"],
            [list(row) for row in ranking.surprises[:N_SURPRISES]],
        ),
        PageTable(
            "Items that a group of judges scores otherwise than the other groups",
            ["item", "group", "difference", "standard error"],
            [list(row) for row in ranking.differing_items()],
        ),
        PageTable("Pairs to ask next", ["first", "second", "expected gain (nats)"], ranking.pairs_to_ask(N_TO_ASK)),
    ]
    return tables_page(
        f"{counted(len(ranking.items), 'item')} from {counted(ranking.n_comparisons, 'comparison')}",
        eyebrow="Ranking",
        lines=ranking_lines(ranking),
        tables=tables,
        foot="Bradley-Terry model with ties.",
    )


def _matrix(ranking: Ranking) -> PageTable:
    best = ranking.order[:MAX_MATRIX]
    names = [str(name) for name in ranking.items[best].tolist()]
    wins = ranking.win_probabilities(best)
    rows = [
        [name, *("" if at == other else f"{wins[at, other]:.0%}" for other in range(len(best)))]
        for at, name in enumerate(names)
    ]
    return PageTable("How often the item of the row wins against that of the column, ties left out", ["", *names], rows)


def _judges(ranking: Ranking) -> PageTable:
    careful = np.full(len(ranking.judges), np.nan) if ranking.reliability is None else ranking.reliability
    order = np.lexsort((ranking.agreement, careful))[:MAX_ROWS]
    rows = [
        [ranking.judges[at], int(ranking.judge_counts[at]), float(careful[at]), float(ranking.agreement[at]),
         float(ranking.left_share[at])]
        for at in order
    ]  # fmt: skip
    return PageTable(
        "Judges, least reliable first: how likely an answer was careful, how often the preferred item has the higher "
        "score, how often the left item was preferred",
        ["judge", "comparisons", "reliability", "agreement", "left"],
        rows,
    )


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
