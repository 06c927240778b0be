"""`crowdprism info` and `crowdprism convert`: describe annotation files, and write them in another format."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from crowdprism.cli.options import AsJson, Files, ReadingOptions
from crowdprism.cli.screen import console, print_json, remark


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
    source: Annotated[Path, typer.Argument(help="File to read, in any supported format. - reads standard input.")],
    target: Annotated[Path, typer.Argument(help="File to write; its ending selects the format.")],
    *,
    reading: ReadingOptions,
    to: Annotated[str, typer.Option("--to", help="Format to write; by default from the ending of TARGET.")] = "auto",
) -> None:
    """Convert an annotation file to another format.

    Example: `crowdprism convert label-studio.json labels.csv`
    """
    from crowdprism.cli.run_folder import require_writable
    from crowdprism.formats.write import write_annotations

    require_writable(target, inputs=[source, reading.gold_file])
    annotations = reading.read([source])
    write_annotations(annotations, target, format=to)
    remark(f"wrote {annotations.n_annotations} annotations to {target}")
