"""`crowdprism info` and `crowdprism convert`: describe annotation files, and write them in another format."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import crowdprism as cp
from crowdprism.cli.options import AsJson, Files, ReadingOptions
from crowdprism.cli.questions import ContentOptions, save_tasks
from crowdprism.cli.screen import print_json, print_lines, remark

if TYPE_CHECKING:
    from crowdprism.diagnostics.agreement import AgreementReport
    from crowdprism.formats.item_content import ItemContent
    from crowdprism.formats.tool_tasks import TaskList

HARDLY_ANY, MODERATE = 0.2, 0.5  # of Krippendorff's alpha


def info(files: Files, *, reading: ReadingOptions, json: AsJson = False) -> None:
    """Describe annotation files: their content, and how far annotators agree.

    Example: `crowdprism info labels.csv`
    """
    from crowdprism.diagnostics.agreement import agreement

    annotations = reading.read(files)
    summary = annotations.summary()
    agreed = agreement(annotations) if (annotations.labels_per_item > 1).any() else None
    if json:
        print_json({"summary": asdict(summary), "agreement": None if agreed is None else asdict(agreed)})
        return
    parts = [verdict_on(agreed), str(summary), *([] if agreed is None else [str(agreed)])]
    print_lines("\n\n".join(parts))


def verdict_on(agreed: AgreementReport | None) -> str:
    """How far annotators agree and whether they can be compared, in one or two plain sentences."""
    if agreed is None:
        return "No item has two labels, so nothing shows how far annotators agree. Ask for second labels on some items."
    alpha = agreed.alpha
    if alpha != alpha:
        words = "All labels are the same, so agreement cannot be measured."
    elif alpha < HARDLY_ANY:
        words = "Annotators agree hardly more than by chance: check the instructions before you use these labels."
    elif alpha < MODERATE:
        words = "Annotators agree, but often differ: labels depend on whom you trust."
    else:
        words = "Annotators agree well beyond chance."
    return words if agreed.graph.connected else f"{words} {agreed.graph} They cannot be compared with each other."


def convert(
    source: Path = typer.Argument(..., help="File in any supported format, or a run folder. - reads standard input."),
    target: Path = typer.Argument(..., help="File to write; its ending selects the format."),
    *,
    reading: ReadingOptions,
    content: ContentOptions,
    to: str = typer.Option(
        "auto", help="Format; by default from the ending. Of a run: label-studio, argilla, doccano, prodigy or csv."
    ),
) -> None:
    """Convert an annotation file to another format, or the labels of a run to tasks of an annotation tool.

    Example: `crowdprism convert label-studio.json labels.csv`, or
    `crowdprism convert run/ tasks.json --to label-studio --content items.csv`
    """
    from crowdprism.formats.write import write_annotations

    if (source / "result.json").exists():
        result = cp.FitResult.load(source)
        save_tasks(target, labels_as_tasks(result, content.load(result.items.tolist(), result)), to)
        return
    annotations = reading.read([source])
    write_annotations(annotations, target, format=to)
    remark(f"wrote {annotations.n_annotations} annotations to {target}")


def labels_as_tasks(result: cp.FitResult, shown: ItemContent) -> TaskList:
    """The labels of a result as suggestions, with the confidence that each is right as score."""
    from crowdprism.formats.tool_tasks import Task, TaskList

    scores = result.class_probabilities.max(axis=1) if result.confidence is None else result.confidence
    rows = zip(result.items.tolist(), result.labels().tolist(), scores.round(6).tolist(), strict=True)
    tasks = [Task(item, shown.by_item.get(item, {}), label, score) for item, label, score in rows]
    return TaskList(tasks, result.classes.tolist(), shown.columns, f"crowdprism {result.method}")
