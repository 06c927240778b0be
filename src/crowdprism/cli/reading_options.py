"""Options by which every command reads annotations, and the reading itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations
    from crowdprism.formats.reading_report import ReadingReport

PANEL = "How to read the annotations"
Files = Annotated[
    list[Path], typer.Argument(help="Annotation files of any known export; several are merged. - reads standard input.")
]
Format = Annotated[
    str,
    typer.Option(
        "--format", "-f", rich_help_panel=PANEL, help="Name of the export; found from the content by default."
    ),
]
ItemColumn = Annotated[str | None, typer.Option("--item", rich_help_panel=PANEL, help="Column that names the item.")]
AnnotatorColumn = Annotated[
    str | None, typer.Option("--annotator", rich_help_panel=PANEL, help="Column that names the annotator.")
]
LabelColumn = Annotated[str | None, typer.Option("--label", rich_help_panel=PANEL, help="Column that holds the label.")]
GoldColumn = Annotated[
    str | None, typer.Option("--gold", rich_help_panel=PANEL, help="Column that holds the true class, where known.")
]
Reading = Annotated[
    list[str] | None,
    typer.Option(
        "--reading",
        rich_help_panel=PANEL,
        metavar="NAME=VALUE",
        help="More on how to read: skip_missing=yes, include_rejected=yes, annotator_from=filename, encoding=utf-16.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


READING_OPTIONS = ("skip_missing", "include_rejected", "annotator_from", "encoding")
YES, NO = ("yes", "true", "1"), ("no", "false", "0")


def read(files: list[Path], format: str = "auto", **options: Any) -> Annotations:
    """Read annotations and tell on standard error what was found; options as in `read_with_report`."""
    return read_with_report(files, format, **options)[0]


def read_with_report(
    files: list[Path],
    format: str = "auto",
    *,
    item: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    gold: str | None = None,
    reading: list[str] | None = None,
) -> tuple[Annotations, ReadingReport]:
    """Read annotations, tell on standard error what was found, and return the account too."""
    from crowdprism.cli.screen import remark
    from crowdprism.formats import read_annotations_with_report

    given = {"item": item, "annotator": annotator, "label": label, "gold": gold}
    options: dict[str, Any] = {role: column for role, column in given.items() if column is not None}
    options |= dict(reading_option(text) for text in reading or ())
    with from_standard_input(files) as paths:
        annotations, report = read_annotations_with_report(paths, format=format, **options)
    remark(str(report))
    return annotations, report


def reading_option(text: str) -> tuple[str, Any]:
    """`skip_missing=yes` as a name and a value."""
    from crowdprism.errors import InvalidParameterError

    name, _, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if name not in READING_OPTIONS or not value:
        raise InvalidParameterError(
            f"--reading takes NAME=VALUE with one of {', '.join(READING_OPTIONS)}, not {text!r}."
        )
    truth = {**dict.fromkeys(YES, True), **dict.fromkeys(NO, False)}
    return name, truth.get(value.lower(), value)


class from_standard_input:  # noqa: N801 - used as a verb in a with statement
    """Replace `-` by a temporary file that holds standard input."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self._folder: Any = None

    def __enter__(self) -> list[Path]:
        import sys
        import tempfile

        if Path("-") not in self._files:
            return self._files
        self._folder = tempfile.TemporaryDirectory()
        copy = Path(self._folder.name) / "standard-input"
        copy.write_bytes(sys.stdin.buffer.read())
        return [copy if path == Path("-") else path for path in self._files]

    def __exit__(self, *error: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()
