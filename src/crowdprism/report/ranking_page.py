"""What rankings, and ratings on a continuous scale, say: in sentences and as pages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crowdprism.errors import counted
from crowdprism.report.tables_page import PageTable, table_of, tables_page
from crowdprism.scoring.gaussian_ratings import RatingResult
from crowdprism.scoring.ranking import Ranking

MAX_MATRIX = 20  # items whose win probabilities are shown
MAX_ROWS = 200
N_SURPRISES = 20
N_TO_ASK = 10
DOUBTFUL = 0.5  # a judge whose answers were careful less often than this is named


def ranking_lines(ranking: Ranking) -> Iterator[str]:
    names, order = ranking.items.tolist(), ranking.order
    if len(order) > 1:
        yield str(ranking.difference(names[order[0]], names[order[1]]))
    tied = int((ranking.rank_interval()[:, 0] == 1).sum())
    if tied > 1:
        yield f"{tied} items may be the best."
    if ranking.position is not None:
        clear = ranking.position.low > 0.5 or ranking.position.high < 0.5
        effect = "Position matters" if clear else "Position makes no clear difference"
        yield f"{effect}: between equal items the left one wins {ranking.position}. Scores are corrected for it."
    if ranking.tie_share > 0:
        yield f"Judges find equal items equal in {ranking.tie_share:.0%} of comparisons."
    if ranking.reliability is not None:
        low = np.flatnonzero(ranking.reliability < DOUBTFUL)
        worst = low[np.argsort(ranking.reliability[low], kind="stable")]
        if len(worst):
            listed = ", ".join(map(str, ranking.judges[worst[:5]]))
            yield f"Judges whose answers say little about the items: {listed}."
    if ranking.gold_accuracy is not None:
        yield f"Without gold, the ranking puts the known winner first in {ranking.gold_accuracy} of known pairs."
    answers, right = ranking.known_answers, ranking.known_right
    if answers.any():
        least = int(np.argmin((right + 1) / (answers + 2)))
        yield (
            f"Judges gave the known answer in {right.sum() / answers.sum():.0%} of {answers.sum()} cases, "
            f"{ranking.judges[least]} in {right[least]} of {answers[least]}."
        )
    if ranking.groups:
        found = ranking.differing_items()[:3]
        said = [f"{group} finds {item} {'better' if gap > 0 else 'worse'}" for item, group, gap, _ in found]
        yield f"Groups of judges differ: {'; '.join(said)}." if said else "Groups of judges do not clearly differ."
    yield from ranking.warnings


def ranking_page(ranking: Ranking) -> str:
    best = ranking.columns()
    items = {
        "item": best["item"],
        "rank": best["rank"],
        "possible places": [f"{low} to {high}" for low, high in zip(best["rank_low"], best["rank_high"], strict=True)],
        "score": np.column_stack([best["low"], best["score"], best["high"]]),
        "": best["score"],
        "comparisons": best["comparisons"],
        "share won": best["wins"] / np.maximum(best["comparisons"], 1),
    }
    tables = [
        table_of(
            "Items, best first: score is the log of strength; the bar is its 95 % interval; a place is "
            "possible if the differences to other items allow it",
            items,
            slice(MAX_ROWS),
        ),
        _matrix(ranking),
        _judges(ranking),
        PageTable(
            "Disagreements: pairs whose votes contradict the ranking",
            ["first", "second", "first won", "of", "standard deviations"],
            ranking.surprises[:N_SURPRISES],
        ),
        PageTable(
            "Groups that differ: items that a group of judges scores unlike the other groups",
            ["item", "group", "difference", "standard error"],
            ranking.differing_items(),
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
    return PageTable("Who wins: how often the item of the row beats that of the column, no ties", ["", *names], rows)


def _judges(ranking: Ranking) -> PageTable:
    careful = np.full(len(ranking.judges), np.nan) if ranking.reliability is None else ranking.reliability
    caption = (
        "Judges, least reliable first: how likely an answer was careful, how often the preferred item has the higher "
        "score, how often the left item was preferred"
    )
    columns = {"judge": ranking.judges, "comparisons": ranking.judge_counts, "reliability": careful}
    columns |= {"agreement": ranking.agreement, "left": ranking.left_share}
    if ranking.known_answers.any():
        caption += "; answers on pairs with a known winner, and how many were right"
        columns |= {"known": ranking.known_answers, "right": ranking.known_right}
    return table_of(caption, columns, np.lexsort((ranking.agreement, careful))[:MAX_ROWS])


def rating_lines(result: RatingResult) -> Iterator[str]:
    width = float(np.median(result.interval[:, 1] - result.interval[:, 0])) / 2
    yield f"{result.icc:.0%} of the variance of a single rating comes from the items (intraclass correlation)."
    yield f"Half of the scores are known within {width:.3g} or better."
    biased = np.flatnonzero((result.bias_interval[:, 0] > 0) | (result.bias_interval[:, 1] < 0))
    if len(biased):
        most = biased[np.argmax(np.abs(result.bias[biased]))]
        yield (
            f"{len(biased)} of {len(result.bias)} annotators rate clearly higher or lower than the crowd, most "
            f"{result.annotators[most]} ({result.bias[most]:+.3g}). Scores are corrected for it."
        )
    yield from result.warnings


def ratings_page(result: RatingResult) -> str:
    score = np.column_stack([result.interval[:, 0], result.scores, result.interval[:, 1]])
    bias = np.column_stack([result.bias_interval[:, 0], result.bias, result.bias_interval[:, 1]])
    people = {"annotator": result.annotators, "ratings": result.ratings_per_annotator, "bias": result.bias}
    tables = [
        table_of(
            "Items, highest first: the bar is the 95 % interval",
            {"item": result.items, "score": result.scores, "": score, "ratings": result.ratings_per_item},
            np.argsort(-result.scores, kind="stable")[:MAX_ROWS],
        ),
        table_of(
            "Annotators, least precise first: bias with its 95 % interval, and spread",
            {**people, "": bias, "spread": result.spread},
            np.argsort(-result.spread, kind="stable")[:MAX_ROWS],
        ),
    ]
    return tables_page(
        f"{counted(len(result.items), 'item')} rated by {counted(len(result.annotators), 'annotator')}",
        eyebrow="Ratings",
        lines=rating_lines(result),
        tables=tables,
    )
