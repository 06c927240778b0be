"""`crowdprism convert`: any readable export to any writable one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdprism.cli.reading_options import AnnotatorColumn, Format, GoldColumn, ItemColumn, LabelColumn, Reading, read


def convert(
    source: Annotated[Path, typer.Argument(help="File to read, of any known export. - reads standard input.")],
    target: Annotated[Path, typer.Argument(help="File to write; the ending chooses the format.")],
    format: Format = "auto",
    to: Annotated[str, typer.Option("--to", help="Format to write; by the ending of TARGET by default.")] = "auto",
    item: ItemColumn = None,
    annotator: AnnotatorColumn = None,
    label: LabelColumn = None,
    gold: GoldColumn = None,
    reading: Reading = None,
) -> None:
    """Turn an annotation file of one format into another.

    Example: `crowdprism convert label-studio.json labels.csv`
    """
    from crowdprism.cli.screen import remark
    from crowdprism.formats.write import write_annotations

    annotations = read([source], format, item=item, annotator=annotator, label=label, gold=gold, reading=reading)
    write_annotations(annotations, target, format=to)
    remark(f"wrote {annotations.n_annotations} annotations to {target}")
