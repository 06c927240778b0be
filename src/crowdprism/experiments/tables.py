"""A table as Markdown and CSV, published and measured side by side."""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

from crowdprism.errors import MissingDependencyError
from crowdprism.experiments.shortfalls import shortfall_parts, time_parts
from crowdprism.experiments.spec import Cell, Published
from crowdprism.experiments.summary import (
    Measured,
    TableResult,
    difference,
    distance_from_published,
    rank_agreement,
)
from crowdprism.files import replacing_file
from crowdprism.results.fit_result import installed_versions

DISTANCE = (
    "*Distance* is measured minus published in standard errors of the difference of the two means (the published one "
    "from its spread over five trials)."
)
MOST_COLUMNS = 6  # of a table on a page, besides the method
ORDER_ONLY = "This budget changes the task, so numbers are not comparable with the published ones; their order is."
PACKAGES = ("python", "crowdprism", "torch", "numpy", "scikit-learn")
COLUMNS = (
    "study",
    "budget",
    "cell",
    "method",
    "published_mean",
    "published_spread",
    "mean",
    "spread",
    "standard_error",
    "trials",
    "distance",
)


def write_page(result: TableResult, folder: str | os.PathLike[str]) -> list[Path]:
    """Write NAME.md and NAME.csv and, where matplotlib is installed, figures; return the paths."""
    from crowdprism.experiments.figures import write_figures

    target = Path(folder)
    name = result.study.name
    try:
        figures = write_figures(result, target)
    except MissingDependencyError:
        figures = []
    texts = {
        f"{name}.md": markdown(result, [path.relative_to(target) for path in figures]),
        f"{name}.csv": as_csv(result),
    }
    for file, text in texts.items():
        with replacing_file(target / file) as fresh:
            fresh.write_text(text, encoding="utf-8")
    return [*(target / file for file in texts), *figures]


def markdown(result: TableResult, figures: Sequence[Path] = ()) -> str:
    """The whole page."""
    study, budget = result.study, result.plan.budget
    unit = " in %" if study.figure == "accuracy" else ""
    parts = [
        f"# {study.name}: {study.title}",
        f"{study.source}. Written by `crowdprism reproduce {study.name} --budget {budget.name}`.",
        " ".join(study.text.split()),
        f"**Reduced in this budget:** {' '.join(budget.reduces.split())}",
        "## Measured beside published",
        f"Mean ± population standard deviation over trials{unit}; in brackets the number of trials where it is not "
        f"the {len(budget.seeds)} of the budget. {DISTANCE if budget.comparable else ORDER_ONLY}",
        *tables(result),
        unmeasured(result),
        *(f"![{study.title}]({path.as_posix()})" for path in figures),
        *shortfall_parts(result),
        *pair_parts(result),
        *rank_parts(result),
        *failure_parts(result),
        *deviation_parts(result),
        *time_parts(result),
        "## Machine, versions, seeds",
        provenance(result),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def tables(result: TableResult) -> Iterator[str]:
    """Markdown tables of a width that can be read: for each column published, measured, distance."""
    cells = [cell for cell in result.plan.cells if any(result.measured(cell.name, m.name) for m in result.plan.methods)]
    shown = ("published", "measured", "distance") if result.plan.budget.comparable else ("published", "measured")
    several = MOST_COLUMNS // len(shown)
    for first in range(0, max(1, len(cells)), several):
        yield "\n".join(table_lines(result, cells[first : first + several], shown))


def table_lines(result: TableResult, cells: Sequence[Cell], shown: Sequence[str]) -> Iterator[str]:
    """One Markdown table; variants of a method that were not run there are left out."""
    heads = [f"{cell.title}: {what}" for cell in cells for what in shown]
    yield f"| method | {' | '.join(heads)} |"
    yield "|---" * (1 + len(heads)) + "|"
    for method in result.plan.methods:
        entries: list[str] = []
        for cell in cells:
            ours, published = (
                result.measured(cell.name, method.name),
                result.study.published_for(cell.name, method.name),
            )
            texts = (published_text(published, result), measured_text(ours, result), distance_text(ours, published))
            entries += texts[: len(shown)]
        if not method.variant_of or any(result.measured(cell.name, method.name) for cell in cells):
            yield f"| {method.title} | {' | '.join(entries)} |"


def unmeasured(result: TableResult) -> str:
    """Which columns have no number yet."""
    empty = [
        cell.title
        for cell in result.plan.cells
        if not any(result.measured(cell.name, method.name) for method in result.plan.methods)
    ]
    return f"Columns not measured: {'; '.join(empty)}." if empty else ""


def digits(result: TableResult) -> int:
    """Decimal places of the figure."""
    return 2 if result.study.figure == "accuracy" else 3


def published_text(published: Published | None, result: TableResult) -> str:
    """A published number as printed."""
    if published is None:
        return "-"
    spread = "" if published.spread is None else f" ± {published.spread:.{digits(result)}f}"
    return f"{published.mean:.{digits(result)}f}{spread}"


def measured_text(ours: Measured | None, result: TableResult) -> str:
    """Mean, spread and, where trials are missing, how many there are."""
    if ours is None:
        return "not measured"
    places = digits(result)
    if ours.n_trials == 1:
        return f"{ours.mean:.{places}f} (1 trial)"
    short = "" if ours.n_trials == len(result.plan.budget.seeds) else f" ({ours.n_trials} trials)"
    return f"{ours.mean:.{places}f} ± {ours.spread:.{places}f}{short}"


def distance_text(ours: Measured | None, published: Published | None) -> str:
    """Signed number of standard errors."""
    if ours is None or published is None:
        return ""
    found = distance_from_published(ours, published)
    return "" if found is None else f"{found:+.1f}"


def pair_parts(result: TableResult) -> list[str]:
    """Paired differences that the study asks for."""
    asked = [(cell, one, other) for cell in result.plan.cells for one, other in result.study.pairs]
    lines = [line for cell, one, other in asked if (line := pair_line(result, cell, one, other))]
    if not lines:
        return []
    head = [
        "| column | difference | published | measured ± standard error | in standard errors | trials |",
        "|---|---|---|---|---|---|",
    ]
    told = "Both methods saw the same items, crowds and seeds; the standard error is that of the paired differences."
    return ["## Paired differences", told, "\n".join([*head, *lines])]


def pair_line(result: TableResult, cell: Cell, one: str, other: str) -> str:
    """One difference as a line of Markdown, or nothing where no trial has both."""
    study, places = result.study, digits(result)
    ours, others = result.measured(cell.name, one), result.measured(cell.name, other)
    found = difference(ours, others) if ours and others else None
    if found is None:
        return ""
    first, second = (study.published_for(cell.name, name) for name in (one, other))
    gap = f"{first.mean - second.mean:+.{places}f}" if first and second and first is not second else "-"
    error = "" if found.standard_error is None else f" ± {found.standard_error:.{places}f}"
    in_errors = "" if found.in_standard_errors is None else f"{found.in_standard_errors:+.1f}"
    entries = (
        cell.title,
        f"{study.method(one).title} - {study.method(other).title}",
        gap,
        f"{found.mean:+.{places}f}{error}",
        in_errors,
        str(found.n_trials),
    )
    return f"| {' | '.join(entries)} |"


def rank_parts(result: TableResult) -> list[str]:
    """Agreement of orders, column by column."""
    lines = []
    for cell in result.plan.cells:
        found = rank_agreement(result, cell.name)
        if found is not None:
            lines.append(f"| {cell.title} | {found[0]:.2f} | {found[1]} |")
    if not lines:
        return []
    head = ["| column | Spearman's correlation | methods |", "|---|---|---|"]
    return ["## Order of methods, published against measured", "\n".join([*head, *lines])]


def failure_parts(result: TableResult) -> list[str]:
    """What failed, with reasons."""
    lines = [
        f"- {result.study.method(method).title}, {result.study.cell(cell).title}: {len(found.failed)} fits failed; "
        f"the first with {found.failed[0]}"
        for (cell, method), found in result.cells.items()
        if found.failed
    ]
    return ["## Failed", "\n".join(lines)] if lines else []


def deviation_parts(result: TableResult) -> list[str]:
    """Known deviations of what was run."""
    cells = {cell.name for cell in result.plan.cells}
    methods = {method.name for method in result.plan.methods}
    told = [
        f"- {' '.join(one.text.split())}"
        for one in result.study.deviations
        if (not one.cells or cells & set(one.cells)) and (not one.methods or methods & set(one.methods))
    ]
    return ["## Known deviations", "\n".join(told)] if told else []


def provenance(result: TableResult) -> str:
    """Machine, versions and seeds in a few sentences."""
    versions = installed_versions()
    told = ", ".join(f"{name} {versions[name]}" for name in PACKAGES if name in versions)
    return f"{processor()}, one thread per fit; {told}. Seeds {', '.join(map(str, result.plan.budget.seeds))}."


def processor() -> str:
    """The processor's name and the number of cores, as far as the system tells."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores"


def as_csv(result: TableResult) -> str:
    """One line per column and method."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cell in result.plan.cells:
        for method in result.plan.methods:
            ours, published = (
                result.measured(cell.name, method.name),
                result.study.published_for(cell.name, method.name),
            )
            if ours is None and published is None:
                continue
            own = (ours.mean, ours.spread, ours.standard_error, ours.n_trials) if ours else (None, None, None, 0)
            distance = distance_from_published(ours, published) if ours and published else None
            numbers = (published and published.mean, published and published.spread, *own, distance)
            shown = ["" if one is None else f"{one:.6g}" if isinstance(one, float) else one for one in numbers]
            writer.writerow([result.study.name, result.plan.budget.name, cell.name, method.name, *shown])
    return text.getvalue()
