"""Five annotations, and tables of them, for the tests of readers."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from crowdprism.annotations import Annotations

# (item, annotator, label): three items, three annotators, an item with one annotation.
TRIPLETS = [(7, 3, "cat"), (7, 5, "dog"), (8, 3, "dog"), (8, 4, "dog"), (9, 5, "cat")]


def triplets(a: Annotations) -> list[tuple[Any, Any, Any]]:
    return list(
        zip(a.items[a.item].tolist(), a.annotators[a.annotator].tolist(), a.classes[a.label].tolist(), strict=True)
    )


def write_table(path: Path, header: list[str], rows: list[list[Any]], delimiter: str = ",", quoting: int = 0) -> Path:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writerows([header, *rows])
    path.write_text(buffer.getvalue(), encoding="utf-8")
    return path
