"""Figures of a table: published and measured means with spreads, and true and estimated confusion matrices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdprism.errors import MissingDependencyError
from crowdprism.experiments.fits import Row
from crowdprism.experiments.spec import Cell, Method
from crowdprism.experiments.table_results import TableResult
from crowdprism.files import replacing_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED, OWN = "#a63f03", "#0b4f94"  # distinct with any common colour blindness
FOLDER = "figures"
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
    return [save(figure, folder / FOLDER / name) for name, figure in drawn.items()]


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
