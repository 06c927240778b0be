"""`crowdprism info` and `crowdprism convert`: describe annotation files, and write them in another format."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import crowdprism as cp
from crowdprism.cli.options import AsJson, Files, ReadingOptions
from crowdprism.cli.questions import ContentOptions, save_tasks
from crowdprism.cli.screen import console, print_json, remark

if TYPE_CHECKING:
    from crowdprism.formats.item_content import ItemContent
    from crowdprism.formats.tool_tasks import TaskList
    from crowdprism.results import FitResult

RESULT_FILE = "result.json"


def info(files: Files, *, reading: ReadingOptions, json: AsJson = False) -> None:
    """Describe annotation files: their content, and how far annotators agree.

    Example: `crowdprism info labels.csv`
    """
    from crowdprism.diagnostics.agreement import agreement

    annotations = reading.read(files)
    summary, agreed = annotations.summary(), agreement(annotations)
    if json:
        print_json({"summary": asdict(summary), "agreement": asdict(agreed)})
        return
    console().print(f"{summary}\n\n{agreed}", markup=False)


def convert(
    source: Annotated[
        Path, typer.Argument(help="File to read, in any supported format, or a run folder. - reads standard input.")
    ],
    target: Annotated[Path, typer.Argument(help="File to write; its ending selects the format.")],
    *,
    reading: ReadingOptions,
    content: ContentOptions,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="Format to write; by default from the ending of TARGET. Of a run: label-studio, argilla, doccano, "
            "prodigy or csv.",
        ),
    ] = "auto",
) -> None:
    """Convert an annotation file to another format, or the labels of a run to tasks of an annotation tool.

    Example: `crowdprism convert label-studio.json labels.csv`, or
    `crowdprism convert run/ tasks.json --to label-studio --content items.csv`
    """
    from crowdprism.cli.run_folder import require_writable
    from crowdprism.formats.write import write_annotations

    require_writable(target, inputs=[source, reading.gold_file])
    if (source / RESULT_FILE).exists():
        result = cp.FitResult.load(source)
        save_tasks(target, labels_as_tasks(result, content.load(result.items.tolist(), result)), to)
        return
    annotations = reading.read([source])
    write_annotations(annotations, target, format=to)
    remark(f"wrote {annotations.n_annotations} annotations to {target}")


def labels_as_tasks(result: FitResult, shown: ItemContent) -> TaskList:
    """The labels of a result as suggestions, with the confidence that each is right as score."""
    from crowdprism.formats.tool_tasks import Task, TaskList

    scores = result.class_probabilities.max(axis=1) if result.confidence is None else result.confidence
    rows = zip(result.items.tolist(), result.labels().tolist(), scores.round(6).tolist(), strict=True)
    tasks = [Task(item, shown.by_item.get(item, {}), label, score) for item, label, score in rows]
    return TaskList(tasks, result.classes.tolist(), shown.columns, f"crowdprism {result.method}")
