"""`crowdprism rank` and `crowdprism rate`: scores of items from comparisons of two, and from ratings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from crowdprism.cli.options import AsJson, Files, ReadingOption, ReadingOptions, split_names, standard_input_as_file
from crowdprism.cli.screen import print_json, print_lines, print_records, print_table, remark, to_records
from crowdprism.errors import InvalidParameterError, counted
from crowdprism.files import write_whole

if TYPE_CHECKING:
    from crowdprism.scoring import Comparisons, Ranking

N_SHOWN = 30
N_RATED = 20


def rank(
    files: list[Path] = typer.Argument(..., help="Tables or exports of comparisons, merged; - reads standard input."),
    *,
    file: Path | None = typer.Option(None, "--output", "-o", help="HTML page."),
    different: str | None = typer.Option(None, metavar="A,B", help="Tell whether these two items really differ."),
    ask: int = typer.Option(5, min=0, help="How many pairs to suggest for the next comparisons."),
    left: str | None = ReadingOption(None, help="Column with the item shown first."),
    right: str | None = ReadingOption(None, help="Column with the item shown second."),
    winner: str | None = ReadingOption(None, help="Column with the better item: its name, left, right or tie."),
    judge: str | None = ReadingOption(None, "--judge", "--annotator", help="Column with who compared."),
    group: str | None = ReadingOption(None, help="Column with the group of the judge."),
    gold: str | None = ReadingOption(None, help="Column with the winner where it is known."),
    gold_file: Path | None = ReadingOption(None, help="Table of known winners, with columns left, right and winner."),
    skip_label: str | None = ReadingOption(None, help="Answers that name no winner, such as unsure,N/A; left out."),
    skip_missing: bool = ReadingOption(False, "--skip-missing", help="Leave out comparisons without a winner."),
    max_size: str | None = ReadingOption(None, help="Most bytes of one file, such as 8GB."),
    position_bias: bool = typer.Option(True, "--position/--no-position", help="Correct for a preference for the left."),
    reliability: bool = typer.Option(True, "--reliability/--no-reliability", help="Let careless judges count less."),
    json: AsJson = False,
) -> None:
    """Rank items by answers to "which of these two is better?", with intervals.

    Example: `crowdprism rank pairs.csv -o ranking.html`
    """
    from crowdprism.formats.comparison_files import read_comparisons
    from crowdprism.formats.raw_annotations import folded
    from crowdprism.scoring import Comparisons
    from crowdprism.scoring import rank as rank_items

    columns: dict[str, Any] = {"left": left, "right": right, "winner": winner, "judge": judge, "group": group}
    with standard_input_as_file(files) as paths:
        found = read_comparisons(paths, max_size=max_size, gold=gold, **columns)
    for line in found.lines:
        remark(line)
    if skip_label is not None:
        no_winner = set(map(folded, split_names(skip_label)))
        found.columns["winner"] = [None if folded(one) in no_winner else one for one in found.columns["winner"]]
    data = Comparisons.from_columns(**found.columns, skip_missing=skip_missing or skip_label is not None)
    if data.n_skipped:
        remark(f"left out {counted(data.n_skipped, 'comparison')} without a winner")
    if gold_file is not None:
        data = add_gold(data, gold_file, max_size)
    position_bias = position_bias and found.knows_position
    ranking = rank_items(data, position_bias=position_bias, reliability=None if reliability else False)
    pair = None if different is None else ranking.difference(*two_names(different, ranking))
    if json:
        print_json(to_record(ranking, pair, ask))
    else:
        print_ranking(ranking, pair, ask)
    if file is not None:
        from crowdprism.report.ranking_page import ranking_page

        remark(f"wrote {write_whole(file, ranking_page(ranking))}")


def add_gold(data: Comparisons, path: Path, max_size: str | None) -> Comparisons:
    """Add the known winners of a file; pairs with an item that nobody compared are counted."""
    from crowdprism.formats.comparison_files import read_comparisons
    from crowdprism.formats.gold_file import Spelling

    columns = read_comparisons(path, max_size=max_size).columns
    spelled = [list(map(Spelling(data.items), columns[role])) for role in ("left", "right", "winner")]
    own = set(data.items.tolist())
    rows = [row for row in zip(*spelled, strict=True) if own.issuperset(row[:2])]
    data = data.with_gold(*([row[at] for row in rows] for at in range(3)))
    unknown = len(spelled[0]) - len(rows)
    left_out = f"; left out {counted(unknown, 'row')} with an item that nobody compared" if unknown else ""
    remark(f"{path}: known winners of {counted(len(data.known), 'pair')}{left_out}")
    return data


def two_names(text: str, ranking: Ranking) -> list[Any]:
    """The two items of A,B, whose own names may be numbers."""
    from crowdprism.formats.gold_file import Spelling

    names = list(map(Spelling(ranking.items), split_names(text)))
    if len(names) != 2:
        raise InvalidParameterError(f"--different takes two items, such as A,B, not {text!r}.")
    return names


def judge_columns(ranking: Ranking) -> dict[str, Any]:
    """Judges in the order of their names; reliability only where it was estimated."""
    columns = {"judge": ranking.judges, "comparisons": ranking.judge_counts, "agreement": ranking.agreement}
    columns["left"] = ranking.left_share
    if ranking.known_answers.any():
        columns |= {"known": ranking.known_answers, "known_right": ranking.known_right}
    return columns if ranking.reliability is None else {**columns, "reliability": ranking.reliability}


def to_record(ranking: Ranking, pair: Any, ask: int) -> dict[str, Any]:
    return {
        "comparisons": ranking.n_comparisons,
        "items": to_records(ranking.columns()),
        "win_probabilities": ranking.win_probabilities(ranking.order) if ranking.covariance.ndim == 2 else None,
        "left_wins": None if ranking.position is None else asdict(ranking.position),
        "tie_share": ranking.tie_share,
        "gold_accuracy": None if ranking.gold_accuracy is None else asdict(ranking.gold_accuracy),
        "judges": to_records(judge_columns(ranking)),
        "difference": None if pair is None else {**asdict(pair), "clear": pair.clear},
        "disagreements": ranking.surprises,
        "groups": {
            name: to_records({key: one.columns()[key] for key in ("item", "score", "low", "high")})
            for name, one in ranking.groups.items()
        },
        "group_differences": ranking.differing_items(),
        "ask_next": [[first, second] for first, second, _ in ranking.pairs_to_ask(ask)],
        "warnings": ranking.warnings,
    }


def print_ranking(ranking: Ranking, pair: Any, ask: int) -> None:
    from crowdprism.report.ranking_page import ranking_lines

    print_lines(*([str(pair)] if pair is not None else ranking_lines(ranking)))
    print_records("Items, best first", to_records(ranking.columns(), slice(N_SHOWN)))
    if len(ranking.items) > N_SHOWN:
        print(f"... and {len(ranking.items) - N_SHOWN} more; --json lists all.")
    if ranking.reliability is not None:
        lowest = ranking.reliability.argsort(kind="stable")[:10]
        print_records("Judges, least reliable first", to_records(judge_columns(ranking), lowest))
    if ask:
        print_table("Pairs to ask next", ("first", "second"), [row[:2] for row in ranking.pairs_to_ask(ask)])


def rate(
    files: Files,
    *,
    file: Path | None = typer.Option(None, "--output", "-o", help="HTML page."),
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Score items from ratings that are numbers, with a bias and a spread for every annotator, and intervals.

    Example: `crowdprism rate scores.csv -o scores.html`
    """
    from crowdprism.report.ranking_page import rating_lines, ratings_page
    from crowdprism.scoring import rate as rate_items

    result = rate_items(reading.read(files))
    items, people = to_records(result.item_columns()), to_records(result.annotator_columns())
    if json:
        print_json({"icc": result.icc, "items": items, "annotators": people, "warnings": result.warnings})
    else:
        print_lines(*rating_lines(result))
        best = sorted(items, key=lambda row: -row["score"])[:N_RATED]
        print_records("Items with the highest scores", best)
        print_records("Annotators, least precise first", sorted(people, key=lambda row: -row["spread"])[:N_RATED])
    if file is not None:
        remark(f"wrote {write_whole(file, ratings_page(result))}")
