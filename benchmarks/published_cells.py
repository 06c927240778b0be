"""The 193 published numbers beside ours: counts and tables of docs/reproduction.md, from the stored rows.

    python benchmarks/published_cells.py [--check]

Writes docs/results/published.md, one line per published number, and renews the blocks of docs/reproduction.md between
`<!-- name arguments -->` and `<!-- end -->`:

- `counts`: how many numbers were run, agree, are open, or are apart and why;
- `cells T1 column column`: the ten methods, published, measured and distance;
- `pairs T1 column column`: paired differences.

With `before` as first argument, a block shows rows of the protocol before it was mended. Otherwise a column is shown in
the mended protocol if all its methods have at least two trials in it, and else as before, which its heading says.
`--check` writes nothing and fails if a page would change.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from crowdprism.experiments import Cell, Method, Study, TableResult, load_study, make_plan, summarize
from crowdprism.experiments.fits import FAILED, Measured, RowStore, difference, distance_from_published

HERE = Path(__file__).parent
ROWS = HERE / "results" / "experiments" / "rows.jsonl"
DOCS = HERE.parent / "docs"
PAGE, EVERY = DOCS / "reproduction.md", DOCS / "results" / "published.md"
TABLES = ("T1", "T2", "T3", "T4", "T5", "T6", "confusions")
BY_ORDER = ("T3", "confusions")  # other features and another network: not compared by value
AGREES, APART = 2.0, 4.0  # standard errors
FEWEST_TRIALS = 2
MEND = "equal_epochs"  # the parameter by which fits of the mended protocol are known
BLOCK = re.compile(r"(<!-- (counts|cells|pairs)([^>]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

PORTS = "mistakes of the ports of MBEM, CoNAL and NN-DSEM, of whose switches T1 shows the effect"
LOADER = "test loader of LabelMe, which divides by items that it does not count"
NOT_IN_REFERENCE = "the reference does not give it on our annotations either"
NETWORK = "LeNet-5 instead of ResNet-18 on Fashion-MNIST"
UNKNOWN = "not known"


@dataclass(frozen=True)
class Number:
    """A published number and ours."""

    study: Study
    cell: Cell
    method: Method
    ours: Measured | None
    protocol: str

    @property
    def published(self) -> Any:
        return self.study.published_for(self.cell.name, self.method.name)

    @property
    def distance(self) -> float | None:
        return None if self.study.name in BY_ORDER else distance_from_published(self.ours, self.published)

    @property
    def verdict(self) -> str:
        if self.ours is None:
            return "not run"
        if self.distance is None:
            return "by order" if self.study.name in BY_ORDER else "one trial"
        return "agrees" if abs(self.distance) < AGREES else "open" if abs(self.distance) <= APART else "apart"

    @property
    def cause(self) -> tuple[str, bool]:
        """Why it is apart, and whether that was tested."""
        name, column, higher = self.method.name, self.cell.name, (self.distance or 0) > 0
        machine = not column.startswith(("labelme", "music"))
        if machine and higher and name in ("mbem", "conal"):
            return PORTS, True
        if machine and higher and name == "nn-dsem" and column.endswith("-5"):  # 59 % of the items have no label
            return PORTS, True
        if column == "labelme" and name not in ("geocrowdnet-f", "max-mig", "conal"):
            return LOADER, True
        if name == "geocrowdnet-w" and column.startswith("mnist-case1"):
            return NOT_IN_REFERENCE, True
        return (NETWORK, False) if column.startswith("fashion") and not higher else (UNKNOWN, False)


@cache
def rows() -> Mapping[str, Any]:
    return RowStore(ROWS).read()


def before_the_mends(study: Study) -> Study:
    """The study as it was when its first rows were made: fits of it have other keys."""

    def without(parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in parameters.items() if name != MEND}

    methods = tuple(replace(method, parameters=without(method.parameters)) for method in study.methods)
    return replace(study, parameters=without(study.parameters), methods=methods)


@cache
def table(name: str, protocol: str) -> TableResult:
    study = load_study(name)
    if protocol == "before":
        study = before_the_mends(study)
    return summarize(make_plan(study, "cpu", variants=True), rows())


@cache
def protocol_of(name: str, column: str) -> str:
    """Mended, if all usual methods have enough trials; else before."""
    found = table(name, "mended")
    usual = [found.measured(column, method.name) for method in found.plan.methods if not method.variant_of]
    return "mended" if all(one and one.n_trials >= FEWEST_TRIALS for one in usual) else "before"


def numbers() -> Iterator[Number]:
    """Every published number, in the order of the tables."""
    for name in TABLES:
        study = load_study(name)
        for cell in study.cells:
            protocol = protocol_of(name, cell.name)
            for method in study.methods:
                if method.variant_of or not study.published_for(cell.name, method.name):
                    continue
                # What was never run before the mends counts as run even where the mended column is too small to show.
                both = [(table(name, one).measured(cell.name, method.name), one) for one in (protocol, "mended")]
                yield Number(study, cell, method, *next((found for found in both if found[0]), both[0]))


# -- text ---------------------------------------------------------------------------------------------------


def lines_of(heads: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *lines]) + "\n"


def with_spread(one: Any, places: int = 1) -> str:
    spread = "" if one.spread is None else f" ± {one.spread:.{places}f}"
    trials = f" ({one.n_trials})" if isinstance(one, Measured) else ""
    return f"{one.mean:.{places}f}{spread}{trials}"


def texts(number: Number) -> list[str]:
    """Published, measured, distance."""
    places = 3 if number.study.figure != "accuracy" else 1
    ours = "not run" if number.ours is None else with_spread(number.ours, places)
    distance = "" if number.distance is None else f"{number.distance:+.1f}"
    return [with_spread(number.published, places), ours, distance]


def counts() -> str:
    every = list(numbers())
    by_value = [one for one in every if one.verdict in ("agrees", "open", "apart")]
    run, once = [one for one in every if one.ours is not None], [one for one in every if one.verdict == "one trial"]
    apart = {
        tested: [one for one in by_value if one.verdict == "apart" and one.cause[1] == tested] for tested in (1, 0)
    }

    def listed(counted: Counter[str]) -> str:
        return ": " + ", ".join(f"{name} {n}" for name, n in counted.most_common()) if counted else ""

    def causes(some: list[Number]) -> str:
        known = Counter(one.cause[0] for one in some)
        unknown = listed(Counter(f"{one.method.title} in {one.study.name}" for one in some if one.cause[0] == UNKNOWN))
        return listed(known) + (f" ({unknown[2:]})" if unknown else "")

    def tables(some: list[Number]) -> str:
        return listed(Counter(one.study.name for one in some))

    old = [one for one in run if one.protocol == "before"]
    lines = [
        [
            "training runs stored",
            f"{len(rows())}, {sum(row['status'] == FAILED for row in rows().values())} of them failed",
        ],
        ["published numbers", str(len(every))],
        ["run here", f"{len(run)}{tables(run)}"],
        ["not run", f"{len(every) - len(run)}{tables([one for one in every if one.ours is None])}"],
        ["of those run, by the protocol before the mends", f"{len(old)}{tables(old)}"],
        ["run in one trial only, not compared", f"{len(once)}{tables(once)}"],
        ["compared by value", f"{len(by_value)}{tables(by_value)}"],
        [f"agree: less than {AGREES:.0f} standard errors apart", str(sum(one.verdict == "agrees" for one in by_value))],
        [f"open: {AGREES:.0f} to {APART:.0f}", str(sum(one.verdict == "open" for one in by_value))],
        ["apart, with a tested cause", f"{len(apart[1])}{causes(apart[1])}"],
        ["apart, cause not tested or not known", f"{len(apart[0])}{causes(apart[0])}"],
    ]
    return lines_of(["", "numbers"], lines)


def cells_block(name: str, columns: list[str], forced: str) -> str:
    study = load_study(name)
    protocols = [forced or protocol_of(name, column) for column in columns]
    heads, lines = ["method"], []
    for column, protocol in zip(columns, protocols, strict=True):
        told = "" if protocol == "mended" else ", before the mends"
        heads += [f"{study.cell(column).title}{told}: published", "measured", "distance"]
    for method in study.methods:
        if method.variant_of:
            continue
        line = [method.title]
        for column, protocol in zip(columns, protocols, strict=True):
            ours = table(name, protocol).measured(column, method.name)
            line += texts(Number(study, study.cell(column), method, ours, protocol))
        lines.append(line)
    return lines_of(heads, lines)


def pairs_block(name: str, columns: list[str], forced: str) -> str:
    study, lines = load_study(name), []
    for column in columns:
        protocol = forced or protocol_of(name, column)
        found = table(name, protocol)
        for one, other in study.pairs:
            gap = difference(found.measured(column, one), found.measured(column, other))
            if gap is None:
                continue
            error = gap.standard_error
            told = f" ± {error:.1f} ({gap.mean / error:+.1f} s.e., {gap.n_trials})" if error else f" ({gap.n_trials})"
            first, second = (study.published_for(column, each) for each in (one, other))
            published = f"{first.mean - second.mean:+.1f}" if first and second and first is not second else "-"
            title = study.cell(column).title + ("" if protocol == "mended" else ", before the mends")
            names = f"{study.method(one).title} - {study.method(other).title}"
            lines.append([title, names, published, f"{gap.mean:+.1f}{told}"])
    return lines_of(["column", "difference", "published", "measured ± standard error (s.e., trials)"], lines)


def block(match: re.Match[str]) -> str:
    """A block of the page with its content made anew."""
    kind, words = match[2], match[3].split()
    forced = "before" if words[:1] == ["before"] else ""
    words = words[1:] if forced else words
    made = {"cells": cells_block, "pairs": pairs_block}
    text = counts() if kind == "counts" else made[kind](words[0], words[1:], forced)
    return f"{match[1]}\n{text}\n{match[5]}"


def every_number() -> str:
    """One line per published number."""
    lines = []
    for one in numbers():
        why = f"{one.cause[0]}{'' if one.cause[1] or one.cause[0] == UNKNOWN else ' (not tested)'}"
        verdict = f"apart: {why}" if one.verdict == "apart" else one.verdict
        protocol = one.protocol if one.ours else ""
        lines.append([one.study.name, one.cell.title, one.method.title, *texts(one), protocol, verdict])
    heads = ["table", "column", "method", "published", "measured (trials)", "distance", "protocol", "verdict"]
    return (
        "# Every published number beside ours\n\nWritten by `benchmarks/published_cells.py` from the stored rows; "
        "[reproduction](../reproduction.md) explains words and protocols.\n\n" + lines_of(heads, lines)
    )


def main() -> None:
    """Renew both pages, or check that they are as the rows say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    pages = {PAGE: BLOCK.sub(block, PAGE.read_text(encoding="utf-8")), EVERY: every_number()}
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if check and stale:
        sys.exit(f"Not as the rows say: {', '.join(path.name for path in stale)}. Run benchmarks/published_cells.py.")
    for path in stale:
        path.write_text(pages[path], encoding="utf-8")
    print(counts())


if __name__ == "__main__":
    main()
