"""The folder that `aggregate` and `train` write: the result, tables, report and log."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crowdprism.cli.screen import command_line, log_text
from crowdprism.errors import InvalidParameterError
from crowdprism.files import locked, new_token, remove_leftovers, replacing_file

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations
    from crowdprism.results import FitResult

REPORT = "report.html"
FILE_ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".html", ".parquet", ".xlsx", ".txt", ".npz")


@dataclass(frozen=True)
class Run:
    """The content of a run folder."""

    result: FitResult
    annotations: Annotations
    classifier: Any = None
    recipe: Any = None
    with_report: bool = True
    about: Mapping[str, Any] = field(default_factory=dict)  # what the report is told about the annotation files


@dataclass(frozen=True)
class Written:
    """What was written of a run: the files for people, and why the report is missing if it is."""

    names: tuple[str, ...] = ()
    report_failed: str = ""


def run_target(
    output: Path | None, *, kind: str, force: bool, inputs: Iterable[Path | None]
) -> AbstractContextManager[Path | None]:
    """`replacing_run` where there is an output; inputs that were not given are None."""
    from crowdprism.results.replacing import replacing_run

    if output is None:
        return nullcontext()
    if output.suffix.lower() in FILE_ENDINGS and not output.is_dir():
        raise InvalidParameterError(
            f"{output} names a file, but what is written here is a folder, with tables, a report and more. Name a "
            f"folder, such as -o {output.with_suffix('')}."
        )
    return replacing_run(output, kind=kind, force=force, inputs=[path for path in inputs if path is not None])


def require_writable(path: Path, inputs: Iterable[Path | None] = ()) -> None:
    """Raise, before the work, if a file cannot be written there, or only over an input or a part of a run."""
    from crowdprism.results.manifest import MANIFEST
    from crowdprism.results.replacing import RUN_FILES

    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise InvalidParameterError(f"{path} exists and is no regular file; choose another name.")
    for given in inputs:
        if given is not None and given.resolve() == path.resolve():
            raise InvalidParameterError(f"{path} is an input of this command; choose another name for the output.")
    if path.name in (*RUN_FILES, MANIFEST) and (path.parent / MANIFEST).exists() and path.exists():
        raise InvalidParameterError(f"{path} belongs to the run in {path.parent}; choose another name.")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    probe = above / f".{path.name}.{new_token()}"
    try:
        remove_leftovers(above / path.name)
        with locked(probe):
            probe.unlink()
    except OSError as error:
        raise InvalidParameterError(
            f"{path} cannot be written: {error.strerror or error} ({above}). Choose another place; nothing was written."
        ) from error


def write_run(fresh: Path, run: Run) -> Written:
    """Write result, tables, report and log into an empty folder."""
    from crowdprism.results.manifest import LABELS

    (run.classifier or run.result).write_into(fresh)
    if run.recipe is not None:
        run.recipe.write_into(fresh)
    labels = LABELS if (fresh / LABELS).exists() else "labels.csv"
    if labels != LABELS:
        with (fresh / labels).open("w", encoding="utf-8", newline="") as file:
            write_labels(file, run.result, run.annotations)
    with (fresh / "annotators.csv").open("w", encoding="utf-8", newline="") as file:
        write_annotators(file, run.result)
    failed = write_page(fresh, run) if run.with_report else ""
    versions = ", ".join(f"{name} {number}" for name, number in run.result.versions.items())
    log = f"{command_line()}\n{datetime.now():%Y-%m-%d %H:%M:%S}, {versions}\n{log_text()}"
    (fresh / "log.txt").write_text(log, encoding="utf-8", errors="backslashreplace")
    names = (labels, "annotators.csv", *((REPORT,) if (fresh / REPORT).exists() else ()))
    return Written(names, failed)


def write_page(fresh: Path, run: Run) -> str:
    """Write the report; if that fails, return the reason, so that the rest of the run is kept."""
    try:
        run.result.report(fresh / REPORT, run.annotations, command=command_line(), **run.about)
    except KeyboardInterrupt:
        return "interrupted"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def write_labels(file: IO[str], result: FitResult, annotations: Annotations) -> None:
    """One row per item: `label_columns`, the number of its labels, and the share of them that agree."""
    import numpy as np

    from crowdprism.formats.inert_cells import write_csv

    best = np.argmax(result.class_probabilities, axis=1)
    counts = annotations.labels_per_item
    agreeing = np.bincount(annotations.item, weights=annotations.label == best[annotations.item], minlength=len(best))
    share = np.divide(agreeing, counts, out=np.full(len(best), np.nan), where=counts > 0)
    write_csv(file, {**label_columns(result), "annotations": counts.tolist(), "agreement": rounded(share)})


def label_columns(result: FitResult) -> dict[str, Sequence[Any]]:
    """Items, labels, how likely each is right (confidence), the mean of ordered classes, the model's probability."""
    columns: dict[str, Sequence[Any]] = {"item": result.items.tolist(), "label": result.labels().tolist()}
    if result.confidence is not None:
        columns["confidence"] = rounded(result.confidence)
    if result.annotations is not None and result.annotations.classes_ordered:
        from crowdprism.annotations.ordering import class_scores

        columns["expected_score"] = rounded(result.class_probabilities @ class_scores(result.annotations))
    return {**columns, "probability": rounded(result.class_probabilities.max(axis=1))}


def write_annotators(file: IO[str], result: FitResult) -> None:
    """One row per annotator."""
    from crowdprism.formats.inert_cells import write_csv

    write_csv(file, annotator_columns(result))


def annotator_columns(result: FitResult) -> dict[str, Sequence[Any]]:
    """Annotators, how many labels each gave, accuracy with its 95 % interval, skill."""
    columns: dict[str, Sequence[Any]] = {"annotator": result.annotators.tolist()}
    if result.labels_per_annotator is not None:
        columns["annotations"] = result.labels_per_annotator.tolist()
    if result.annotator_accuracy is not None:
        columns["accuracy"] = rounded(result.annotator_accuracy)
    interval = result.annotator_accuracy_interval()
    if interval is not None:
        columns |= {"accuracy_low": rounded(interval[:, 0]), "accuracy_high": rounded(interval[:, 1])}
    if result.skills is not None:
        columns["skill"] = rounded(result.skills)
    return columns


def rounded(values: Any) -> list[Any]:
    """Round to six digits; unknown values become empty cells."""
    import numpy as np

    return ["" if value != value else round(value, 6) for value in np.asarray(values, dtype=float).tolist()]


def save_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table to a file that appears complete or not at all."""
    with replacing_file(path) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
        write_table(file, columns, rows)


def write_table(file: IO[str], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as CSV in which no cell can run as a formula in a spreadsheet."""
    from crowdprism.formats.inert_cells import write_csv

    cells: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(columns)
    write_csv(file, dict(zip(columns, cells, strict=True)))
