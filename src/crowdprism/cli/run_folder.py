"""The folder that `aggregate` and `train` write: the result, tables, report and log."""

from __future__ import annotations

import csv
import shlex
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crowdprism.cli.screen import log_text, remark
from crowdprism.errors import InvalidParameterError
from crowdprism.files import replacing_file, replacing_folder

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations
    from crowdprism.results import FitResult

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Run:
    """The content of a run folder."""

    result: FitResult
    annotations: Annotations
    classifier: Any = None
    recipe: Any = None
    with_report: bool = True


def require_free(folder: Path) -> None:
    """Raise, before the work begins, if a run cannot be written there or would replace something else."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / "result.json").exists())):
        raise InvalidParameterError(f"{folder} exists and is not a run folder of crowdprism; choose another folder.")
    require_writable(folder)


def require_writable(path: Path) -> None:
    """Raise if nothing can be written at that path."""
    above = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".crowdprism.", dir=above):
            pass
    except OSError as error:
        raise InvalidParameterError(
            f"{path} cannot be written: {error.strerror or error} ({above}). Choose another place; nothing was written."
        ) from error


def write_run(folder: Path, run: Run) -> list[str]:
    """Write result, tables, report and log, replacing an earlier run in one step; return the names of the files."""
    require_free(folder)
    with replacing_folder(folder) as fresh:
        (run.classifier or run.result).write_into(fresh)
        if run.recipe is not None:
            run.recipe.write_into(fresh)
        with (fresh / "labels.csv").open("w", encoding="utf-8", newline="") as file:
            write_labels(file, run.result, run.annotations)
        with (fresh / "annotators.csv").open("w", encoding="utf-8", newline="") as file:
            write_annotators(file, run.result)
        names = ["labels.csv", "annotators.csv"]
        if run.with_report and write_page(fresh, run, folder):
            names.append("report.html")
        versions = ", ".join(f"{name} {number}" for name, number in run.result.versions.items())
        log = f"{command_line()}\n{datetime.now():%Y-%m-%d %H:%M:%S}, {versions}\n{log_text()}"
        (fresh / "log.txt").write_text(log, encoding="utf-8")
    return names


def write_page(fresh: Path, run: Run, folder: Path) -> bool:
    """Write the report; if that fails, keep the rest of the run and print the reason."""
    try:
        run.result.report(fresh / "report.html", run.annotations, command=command_line())
    except (Exception, KeyboardInterrupt) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        remark(f"note: the report was left out ({why}). Run `crowdprism report {folder}` to write it.")
        return False
    return True


def command_line() -> str:
    """The command line as typed, quoted for a shell."""
    return shlex.join(["crowdprism", *sys.argv[1:]])


def write_labels(file: IO[str], result: FitResult, annotations: Annotations) -> None:
    """One row per item: label, its probability, how many labels the item has, what share of them agree."""
    import numpy as np

    best = np.argmax(result.class_probabilities, axis=1)
    counts = annotations.labels_per_item
    agreeing = np.bincount(annotations.item, weights=annotations.label == best[annotations.item], minlength=len(best))
    share = np.divide(agreeing, counts, out=np.full(len(best), np.nan), where=counts > 0)
    write_columns(
        file,
        {
            "item": result.items.tolist(),
            "label": result.classes[best].tolist(),
            "probability": rounded(result.class_probabilities.max(axis=1)),
            "annotations": counts.tolist(),
            "agreement": rounded(share),
        },
    )


def write_annotators(file: IO[str], result: FitResult) -> None:
    """One row per annotator: how many labels, accuracy with its credible interval, or skill."""
    columns: dict[str, Sequence[Any]] = {"annotator": result.annotators.tolist()}
    if result.labels_per_annotator is not None:
        columns["annotations"] = result.labels_per_annotator.tolist()
    if result.annotator_accuracy is not None:
        columns["accuracy"] = rounded(result.annotator_accuracy)
    if result.confusion_posterior is not None:
        low, high = result.annotator_accuracy_interval().T  # type: ignore[union-attr]
        columns |= {"accuracy_low": rounded(low), "accuracy_high": rounded(high)}
    if result.skills is not None:
        columns["skill"] = rounded(result.skills)
    write_columns(file, columns)


def rounded(values: Any) -> list[Any]:
    """Round to six digits; unknown values become empty cells."""
    import numpy as np

    return ["" if value != value else round(value, 6) for value in np.asarray(values, dtype=float).tolist()]


def write_columns(file: IO[str], columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns as `write_table` writes rows; faster, because columns of numbers are written as they are."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    safe = [[harmless(cell) for cell in cells] if str in set(map(type, cells)) else cells for cells in columns.values()]
    writer.writerows(zip(*safe, strict=True))


def save_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table to a file that appears complete or not at all."""
    with replacing_file(path) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
        write_table(file, columns, rows)


def write_table(file: IO[str], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write CSV in which no cell can run as a formula in a spreadsheet."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([harmless(cell) for cell in row] for row in rows)


def harmless(cell: Any) -> Any:
    """Put a quote before text that a spreadsheet would run as a formula; leave numbers alone.

    Examples
    --------
    >>> harmless("=cmd|' /C calc'!A0"), harmless("-3"), harmless("cat")
    ("'=cmd|' /C calc'!A0", '-3', 'cat')
    """
    if isinstance(cell, str) and cell.startswith(FORMULA_STARTS):
        try:
            float(cell)
        except ValueError:
            return f"'{cell}"
    return cell
