"""`crowdprism info`: what is in these annotation files, and how far people agree."""

from __future__ import annotations

from crowdprism.cli.reading_options import (
    AnnotatorColumn,
    AsJson,
    Files,
    Format,
    GoldColumn,
    ItemColumn,
    LabelColumn,
    Reading,
    read,
)


def info(
    files: Files,
    format: Format = "auto",
    item: ItemColumn = None,
    annotator: AnnotatorColumn = None,
    label: LabelColumn = None,
    gold: GoldColumn = None,
    reading: Reading = None,
    json: AsJson = False,
) -> None:
    """Tell what annotation files contain and how far people agree.

    Example: `crowdprism info labels.csv`
    """
    from dataclasses import asdict

    from crowdprism.cli.screen import console, show_json
    from crowdprism.diagnostics.agreement import agreement

    annotations = read(files, format, item=item, annotator=annotator, label=label, gold=gold, reading=reading)
    summary, agreed = annotations.summary(), agreement(annotations)
    if json:
        show_json({"summary": asdict(summary), "agreement": asdict(agreed)})
        return
    console().print(f"{summary}\n\n{agreed}", markup=False)
