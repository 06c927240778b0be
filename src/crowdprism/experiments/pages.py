"""A table as a Markdown page, a CSV file and figures, published and measured numbers side by side."""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdprism.errors import MissingDependencyError
from crowdprism.experiments.fits import Measured, Row, TableResult, difference, distance_from_published, rank_agreement
from crowdprism.experiments.spec import Cell, Deviation, Method
from crowdprism.files import replacing_file, write_whole
from crowdprism.results.fit_result import installed_versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


UNKNOWN_SPREAD = 1.0  # allowed instead of a spread that was not published, unless ours is larger
DISTANCE = (
    "*Distance* is measured minus published in standard errors of the difference of the two means (the published one "
    "from its spread over five trials)."
)
REDUCED = "This budget changes the task: the numbers are not comparable with the published ones, only their order is."
SHORTFALL = f"Where no spread was published, the larger of ours and {UNKNOWN_SPREAD} is used. Variants are left out."
PAIRED = "Both methods saw the same items, crowds and seeds; the standard error is that of the paired differences."
SECONDS = (
    "Processor seconds of one fit on one thread, median over trials. Older rows hold wall-clock seconds, taken while "
    "other programs ran."
)
MOST_COLUMNS = 6  # of a table on a page, besides the method
PACKAGES = ("python", "crowdprism", "torch", "numpy", "scikit-learn")
OWN_COLUMNS = ("mean", "spread", "standard_error", "trials", "distance")
COLUMNS = ("study", "budget", "cell", "method", "published_mean", "published_spread", *OWN_COLUMNS)


def write_page(result: TableResult, folder: str | os.PathLike[str]) -> list[Path]:
    """Write NAME.md, NAME.csv and, if matplotlib is installed, figures; return the paths."""
    target, name = Path(folder), result.study.name
    try:
        figures = write_figures(result, target)
    except MissingDependencyError:
        figures = []
    page = markdown(result, [path.relative_to(target) for path in figures])
    texts = {f"{name}.md": page, f"{name}.csv": as_csv(result)}
    return [*(write_whole(target / file, text) for file, text in texts.items()), *figures]


def markdown(result: TableResult, figures: Sequence[Path] = ()) -> str:
    """The whole page; a section without content is left out."""
    study, budget = result.study, result.plan.budget
    unit = " in %" if study.figure == "accuracy" else ""
    empty = [cell.title for cell in result.plan.cells if cell not in result.measured_cells]
    parts = [
        f"# {study.name}: {study.title}",
        f"{study.source}. Written by `crowdprism reproduce {study.name} --budget {budget.name}`.",
        " ".join(study.text.split()),
        f"**Reduced in this budget:** {' '.join(budget.reduces.split())}",
        "## Measured beside published",
        f"Mean ± population standard deviation over trials{unit}; in brackets the number of trials if it is not "
        f"the {len(budget.seeds)} of the budget. {DISTANCE if budget.comparable else REDUCED}",
        *main_tables(result),
        f"Columns not measured: {'; '.join(empty)}." if empty else "",
        *(f"![{study.title}]({path.as_posix()})" for path in figures),
        *shortfall_section(result),
        *section("Paired differences", PAIRED, pair_table(result)),
        *section("Order of methods, published against measured", "", rank_table(result)),
        *section("Failed", "", "\n".join(failure_lines(result))),
        *section("Known deviations", "", "\n".join(deviation_lines(result))),
        *section("Seconds per fit", SECONDS, time_table(result)),
        *section("Machine, versions, seeds", "", provenance(result)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(title: str, text: str, content: str) -> list[str]:
    return [f"## {title}", text, content] if content else []


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    listed = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *listed]) if listed else ""


def main_tables(result: TableResult) -> Iterator[str]:
    """Tables of at most `MOST_COLUMNS` columns; variants that were not run are left out."""
    shown = ("published", "measured", "distance") if result.plan.budget.comparable else ("published", "measured")
    cells, several = result.measured_cells, MOST_COLUMNS // len(shown)
    for first in range(0, max(1, len(cells)), several):
        some = cells[first : first + several]
        lines = [
            [method.title, *(text for cell in some for text in texts_of(result, cell, method)[: len(shown)])]
            for method in result.plan.methods
            if not method.variant_of or any(result.measured(cell.name, method.name) for cell in some)
        ]
        yield table(["method", *(f"{cell.title}: {what}" for cell in some for what in shown)], lines)


def texts_of(result: TableResult, cell: Cell, method: Method) -> tuple[str, str, str]:
    """Published number, measured number and signed distance in standard errors (empty if unknown), as text."""
    ours, published = result.both(cell, method)
    found, theirs = distance_from_published(ours, published), "-"
    if published is not None:
        spread = "" if published.spread is None else f" ± {published.spread:.{digits(result)}f}"
        theirs = f"{published.mean:.{digits(result)}f}{spread}"
    return theirs, measured_text(ours, result), "" if found is None else f"{found:+.1f}"


def digits(result: TableResult) -> int:
    return 2 if result.study.figure == "accuracy" else 3


def measured_text(ours: Measured | None, result: TableResult) -> str:
    """Mean and spread, with the number of trials if some are missing."""
    places = digits(result)
    if ours is None or ours.n_trials == 1:
        return "not measured" if ours is None else f"{ours.mean:.{places}f} (1 trial)"
    short = "" if ours.n_trials == len(result.plan.budget.seeds) else f" ({ours.n_trials} trials)"
    return f"{ours.mean:.{places}f} ± {ours.spread:.{places}f}{short}"


def shortfall_section(result: TableResult) -> list[str]:
    """Methods whose mean is below the published one by more than its spread, and whether the reason is known."""
    if result.study.figure != "accuracy" or not result.plan.budget.comparable or not result.study.published:
        return []
    lines = []
    for cell, method, ours, published in result.entries():
        if ours is None or published is None or method.variant_of:
            continue
        spread = max(ours.spread, UNKNOWN_SPREAD) if published.spread is None else published.spread
        if ours.mean < published.mean - spread:
            explained = any(concerns(one, cell, method) for one in result.study.deviations)
            reason = "the reason is among the known deviations" if explained else "no reason is known"
            lines.append(
                f"- {method.title}, {cell.title}: {ours.mean:.2f} ({ours.n_trials} trials) against "
                f"{published.mean:.2f} - {spread:.2f}; {reason}."
            )
    return section("Below the published mean by more than its spread", SHORTFALL, "\n".join(lines or ["- none"]))


def concerns(deviation: Deviation, cell: Cell, method: Method) -> bool:
    """Whether a deviation is about this method or column in particular; one about everything explains nothing."""
    return (
        bool(deviation.methods or deviation.cells)
        and (not deviation.methods or method.name in deviation.methods)
        and (not deviation.cells or cell.name in deviation.cells)
    )


def pair_table(result: TableResult) -> str:
    study, places = result.study, digits(result)
    lines = []
    for cell in result.plan.cells:
        for one, other in study.pairs:
            found = difference(result.measured(cell.name, one), result.measured(cell.name, other))
            if found is None:
                continue
            first, second = (study.published_for(cell.name, name) for name in (one, other))
            gap = f"{first.mean - second.mean:+.{places}f}" if first and second and first is not second else "-"
            error = "" if found.standard_error is None else f" ± {found.standard_error:.{places}f}"
            in_errors = f"{found.mean / found.standard_error:+.1f}" if found.standard_error else ""
            names = f"{study.method(one).title} - {study.method(other).title}"
            lines.append([cell.title, names, gap, f"{found.mean:+.{places}f}{error}", in_errors, str(found.n_trials)])
    heads = ("column", "difference", "published", "measured ± standard error", "in standard errors", "trials")
    return table(heads, lines)


def rank_table(result: TableResult) -> str:
    found = [(cell.title, rank_agreement(result, cell)) for cell in result.plan.cells]
    lines = [[title, f"{ranks[0]:.2f}", str(ranks[1])] for title, ranks in found if ranks is not None]
    return table(["column", "Spearman's correlation", "methods"], lines)


def failure_lines(result: TableResult) -> Iterator[str]:
    for (cell, method), found in result.cells.items():
        if found.failed:
            titles = f"{result.study.method(method).title}, {result.study.cell(cell).title}"
            yield f"- {titles}: {len(found.failed)} fits failed; the first with {found.failed[0]}"


def deviation_lines(result: TableResult) -> Iterator[str]:
    cells = {cell.name for cell in result.plan.cells}
    methods = {method.name for method in result.plan.methods}
    for one in result.study.deviations:
        if (not one.cells or cells & set(one.cells)) and (not one.methods or methods & set(one.methods)):
            yield f"- {' '.join(one.text.split())}"


def time_table(result: TableResult) -> str:
    cells = result.plan.cells
    lines = []
    for method in result.plan.methods:
        found = [result.measured(cell.name, method.name) for cell in cells]
        if any(found):
            medians = (one and np.median([row["seconds"] for row in one.rows]) for one in found)
            lines.append([method.title, *("" if one is None else f"{one:.1f}" for one in medians)])
    return table(["method", *(cell.title for cell in cells)], lines)


def provenance(result: TableResult) -> str:
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = installed_versions()
    packages = ", ".join(f"{name} {versions[name]}" for name in PACKAGES if name in versions)
    seeds = ", ".join(map(str, result.plan.budget.seeds))
    return f"{model}, {cores} cores, one thread per fit; {packages}. Seeds {seeds}."


def as_csv(result: TableResult) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cell, method, ours, published in result.entries():
        if ours is None and published is None:
            continue
        own = (ours.mean, ours.spread, ours.standard_error, ours.n_trials) if ours else (None, None, None, 0)
        distance = distance_from_published(ours, published)
        numbers = (published and published.mean, published and published.spread, *own, distance)
        shown = ["" if one is None else f"{one:.6g}" if isinstance(one, float) else one for one in numbers]
        writer.writerow([result.study.name, result.plan.budget.name, cell.name, method.name, *shown])
    return text.getvalue()


PUBLISHED, OWN = "#a63f03", "#0b4f94"  # distinct with any common colour blindness
PANEL_WIDTH, LINE_HEIGHT, HEAD_HEIGHT, NAMES_WIDTH = 2.6, 0.3, 1.1, 2.4
MATRIX_SIDE = 1.5


def new_figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError('Plots need matplotlib: pip install "crowdprism[plots]".') from error
    return Figure(figsize=(width, height), layout="constrained")


def write_figures(result: TableResult, folder: Path) -> list[Path]:
    """Draw the figures of a table into folder/figures; return the paths."""
    drawn: dict[str, Figure] = {}
    if result.measured_cells:
        drawn[f"{result.study.name}.svg"] = table_figure(result)
    for cell in result.plan.cells if result.study.keep_confusions else ():
        found = {method.title: result.measured(cell.name, method.name) for method in result.plan.methods}
        rows = {name: [row for row in one.rows if "confusions" in row] for name, one in found.items() if one}
        first = {name: own[0] for name, own in rows.items() if own}
        if first:
            drawn[f"{result.study.name}_{cell.name}.svg"] = confusion_figure(first, cell.title)
    return [save(figure, folder / "figures" / name) for name, figure in drawn.items()]


def save(figure: Figure, path: Path) -> Path:
    from matplotlib import rc_context

    with replacing_file(path, suffix=".svg") as fresh, rc_context({"svg.hashsalt": path.name}):
        figure.savefig(fresh, format="svg", metadata={"Date": None})
    return path


def table_figure(result: TableResult) -> Figure:
    """One panel per column: a point with a bar of one spread for each method, published above measured."""
    cells = result.measured_cells
    methods = [m for m in result.plan.methods if any(result.measured(cell.name, m.name) for cell in cells)]
    figure = new_figure(NAMES_WIDTH + PANEL_WIDTH * len(cells), HEAD_HEIGHT + LINE_HEIGHT * len(methods))
    panels = figure.subplots(1, len(cells), sharey=True, squeeze=False)[0]
    for panel, cell in zip(panels, cells, strict=True):
        draw_column(panel, result, cell, methods)
    panels[0].set_yticks(range(len(methods)), [method.title for method in methods])
    panels[0].set_ylim(len(methods) - 0.5, -0.5)
    panels[0].legend(loc="lower left", fontsize=7, frameon=False)
    accuracy = result.study.figure == "accuracy"
    figure.supxlabel("test accuracy, %" if accuracy else "error of the confusion matrices", fontsize=9)
    return figure


def draw_column(panel: Any, result: TableResult, cell: Cell, methods: list[Method]) -> None:
    for place, method in enumerate(methods):
        ours, published = result.both(cell, method)
        looks = [(published, "published", -0.15, "D", 4, PUBLISHED), (ours, "measured", 0.15, "o", 4.5, OWN)]
        for found, name, shift, fmt, ms, color in looks:
            if found is not None:
                style = {"fmt": fmt, "ms": ms, "color": color, "lw": 1.2, "label": None if place else name}
                panel.errorbar(found.mean, place + shift, xerr=found.spread, **style)
    panel.set_title(cell.title, fontsize=8, wrap=True)
    panel.grid(axis="x", lw=0.4, color="0.85")
    panel.tick_params(labelsize=8)


def confusion_figure(rows: dict[str, Row], title: str) -> Figure:
    """Heat maps: one line for the truth, one per method with its error; one column per annotator."""
    truth = np.array(next(iter(rows.values()))["true_confusions"])
    lines = {"truth": truth}
    for name, row in rows.items():
        lines[f"{name}\nerror {row['confusion_error']['relative_l1']:.3f}"] = np.array(row["confusions"])
    figure = new_figure(0.9 + MATRIX_SIDE * len(truth), 0.6 + MATRIX_SIDE * len(lines))
    panels = figure.subplots(len(lines), len(truth), squeeze=False)
    for line, (own, (name, matrices)) in enumerate(zip(panels, lines.items(), strict=True)):
        for annotator, (panel, matrix) in enumerate(zip(own, matrices, strict=True)):
            picture = panel.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
            panel.set_xticks([])
            panel.set_yticks([])
            if line == 0:
                panel.set_title(f"annotator {annotator}", fontsize=8)
        own[0].set_ylabel(name, fontsize=8)
    figure.colorbar(picture, ax=panels, shrink=0.4, label="probability of the given label (rows: true class)")
    figure.suptitle(title, fontsize=9)
    return figure
