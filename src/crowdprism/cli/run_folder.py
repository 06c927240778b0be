"""The folder that `aggregate` and `train` write: the result, tables, report and log."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from math import nan
from pathlib import Path
from typing import Any

import crowdprism as cp
from crowdprism.cli.screen import command_line, log_text
from crowdprism.errors import CrowdprismError, InvalidParameterError
from crowdprism.files import locked, new_token, remove_leftovers, replacing_file

REPORT = "report.html"
# Parameters of commands by which they name what they read and write.
ANNOTATIONS = ("files", "source")
READ = (*ANNOTATIONS, "run", "gold_file", "answers", "features", "content", "truth")
WRITTEN = ("output", "file", "target", "page", "gold_out")
FILE_ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".html", ".parquet", ".xlsx", ".txt", ".npz")


@dataclass(frozen=True)
class Run:
    result: cp.FitResult
    annotations: cp.Annotations
    classifier: Any = None
    recipe: Any = None
    with_report: bool = True
    about: Mapping[str, Any] = field(default_factory=dict)  # the annotation files, for the report


@dataclass(frozen=True)
class Written:
    """What was written of a run: the files for people, and why the report is missing if it is."""

    names: tuple[str, ...] = ()
    report_failed: str = ""

    def sentence(self, output: Path) -> str:
        return f"wrote {', '.join(str(output / name) for name in self.names)} and the result"


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


def require_apart(given: Mapping[str, Any]) -> None:
    """Raise, before a command begins, if a path that it writes is one that it reads, or is written twice."""
    written: dict[Any, str] = {}
    for name in WRITTEN:
        path = None if isinstance(given.get(name), float) else given.get(name)  # `suggest --target` is an accuracy
        if path and written.setdefault(leads_to(path), path) is not path:
            raise InvalidParameterError(f"{path} would be written twice. Give each output a name of its own.")
        if path and name != "output":  # which may be a folder
            require_writable(Path(path))
    for name in READ:
        paths = given.get(name) or ()
        for path in [paths] if isinstance(paths, (str, Path)) else paths:
            # Only where a file would be replaced can a folder or pattern hold an output.
            holds_many = name in ANNOTATIONS and any(map(os.path.isfile, written.values()))
            for file in files_of(path) if holds_many else [path]:
                if leads_to(file) in written:
                    raise InvalidParameterError(f"{file} is an input; choose another name for the output.")


def leads_to(path: str | Path) -> Any:
    """Identity of the file at a path: equal for all spellings of the path and links to it."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def files_of(path: str | Path) -> list[Any]:
    """The annotation files that a folder or pattern stands for; other paths stand for themselves."""
    from crowdprism.formats.documents import expand

    with suppress(CrowdprismError):  # it is a run folder, or nothing matches
        return [path, *(file for file, _ in expand(os.fspath(path)))]
    return [path]


def require_writable(path: Path) -> None:
    """Raise, before the work, if a file cannot be written there, or only over a part of a run or a store."""
    from crowdprism.results.manifest import FOLDERS, MANIFEST
    from crowdprism.results.replacing import RUN_FILES

    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise InvalidParameterError(f"{path} exists and is no regular file; choose another name.")
    above, over = path.parent, path.parent.parent
    in_part = above.name in FOLDERS or above.name.startswith("files-")  # of labels in parts, and of stores
    for folder, is_part in ((above, path.name in (*RUN_FILES, MANIFEST)), (over, in_part)):
        if is_part and path.exists() and (folder / MANIFEST).exists():
            raise InvalidParameterError(f"{path} belongs to the run or store in {folder}; choose another name.")
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
        save_csv(fresh / labels, label_columns(run.result, run.annotations))
    save_csv(fresh / "annotators.csv", annotator_columns(run.result))
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


def label_columns(result: cp.FitResult, annotations: cp.Annotations | None = None) -> dict[str, Sequence[Any]]:
    """Items, labels, confidence, mean of ordered classes, probability; with annotations their number and agreement."""
    import numpy as np

    columns: dict[str, Sequence[Any]] = {"item": result.items.tolist(), "label": result.labels().tolist()}
    if result.confidence is not None:
        columns["confidence"] = rounded(result.confidence)
    if result.annotations is not None and result.annotations.classes_ordered:
        from crowdprism.annotations.summary import class_scores

        columns["expected_score"] = rounded(result.class_probabilities @ class_scores(result.annotations))
    columns["probability"] = rounded(result.class_probabilities.max(axis=1))
    if annotations is None:
        return columns
    best, counts = np.argmax(result.class_probabilities, axis=1), annotations.labels_per_item
    agreeing = np.bincount(annotations.item, weights=annotations.label == best[annotations.item], minlength=len(best))
    share = np.divide(agreeing, counts, out=np.full(len(best), np.nan), where=counts > 0)
    return {**columns, "annotations": counts.tolist(), "agreement": rounded(share)}


def annotator_columns(result: cp.FitResult) -> dict[str, Sequence[Any]]:
    columns = result.annotator_columns()
    return {name: rounded(values) if values.dtype.kind == "f" else values.tolist() for name, values in columns.items()}


def rounded(values: Any) -> list[float | None]:
    """Round to six digits; unknown values become None, which is an empty cell."""
    import numpy as np

    return [None if value != value else round(value, 6) for value in np.asarray(values, dtype=float).tolist()]


def cells_of(frame: Any) -> dict[str, list[Any]]:
    return {one.name: rounded(one.fill_null(nan)) if one.dtype.is_float() else one.to_list() for one in frame}


def save_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns as CSV in which no cell can run as a formula, to a file that appears complete or not at all."""
    from crowdprism.formats.text_tables import write_csv

    with replacing_file(path) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
        write_csv(file, columns)
