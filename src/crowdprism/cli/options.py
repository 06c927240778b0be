"""Options shared by commands, as groups; `expand_groups` turns each group into one option per field."""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

import crowdprism as cp
from crowdprism.cli.screen import remark
from crowdprism.errors import InvalidParameterError, UnreadableFileError

if TYPE_CHECKING:
    from crowdprism.features import ItemFeatures
    from crowdprism.formats.raw_annotations import ReadingReport

READING_NAMES = ("skip_missing", "include_rejected", "annotator_from", "encoding")
TRUTH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
ReadingOption = functools.partial(typer.Option, rich_help_panel="Reading annotations")
FeatureOption = functools.partial(typer.Option, rich_help_panel="Features of the items")
VoiceOption = functools.partial(typer.Option, rich_help_panel="Annotators who answer as one")
StoreOption = functools.partial(typer.Option, rich_help_panel="Stores larger than memory")
DeviceOption = functools.partial(typer.Option, rich_help_panel="Device and threads")

Files = Annotated[list[Path], typer.Argument(help="Annotation files in any format (merged); - is standard input.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a run of another kind, or with files changed by hand.")]
TextColumn = Annotated[
    str | None, FeatureOption("--text-column", "-t", help="Column of texts, in --features or the annotation files.")
]
IdColumn = Annotated[str | None, FeatureOption("--id-column", help="Column of the feature table with the item ids.")]
ArrayName = Annotated[str | None, FeatureOption("--array", help="Array of an .npz file with the features.")]


def listing(names: Callable[[], Iterable[str]]) -> Any:
    """Arguments for `typer.Option`: the value `list` prints the names and ends, even if files are missing."""

    def print_names(value: Any) -> Any:
        if value == "list":
            typer.echo("\n".join(names()))
            raise typer.Exit
        return value

    return {"callback": print_names, "is_eager": True}


def method_option(default: str, names: Callable[[], Iterable[str]]) -> Any:
    return typer.Option(default, "--method", "-m", help="Name of the method; pass `list` to see all.", **listing(names))


def aggregator_names() -> list[str]:
    from crowdprism.aggregators import AGGREGATORS, ORDERED

    return sorted([*AGGREGATORS, *ORDERED])


def classifier_names() -> list[str]:
    from crowdprism.classifiers import CLASSIFIERS

    return sorted(CLASSIFIERS)


def expand_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with one parameter per field of each group, which passes the groups on to the command."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if not is_dataclass(hints[name]):
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        groups[name] = hints[name]
        types = get_type_hints(hints[name], include_extras=True)
        parameters += [
            inspect.Parameter(field.name, parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
            for field in fields(hints[name])
        ]

    @functools.wraps(command)
    def expanded(**given: Any) -> Any:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        return command(**given)

    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return expanded


@dataclass(frozen=True)
class ReadingOptions:
    format: str = ReadingOption("auto", "--format", "-f", help="Format of the files; detected by default.")
    item: str | None = ReadingOption(None, help="Column with the item ids.")
    annotator: str | None = ReadingOption(None, help="Column with the annotator ids.")
    label: str | None = ReadingOption(None, help="Column with the labels.")
    gold: str | None = ReadingOption(None, help="Column with the true classes, where known.")
    annotators: str | None = ReadingOption(None, help="Columns of a wide table that are annotators, such as ann,bob.")
    gold_file: Path | None = ReadingOption(None, help="Table of true classes, with an item and a label column.")
    max_size: str | None = ReadingOption(None, help="Largest file to read, such as 8GB; default: 4GB or 1/4 of memory.")
    order: str | None = ReadingOption(None, help="For ratings: classes from low to high, such as low,medium,high.")
    skip_label: str | None = ReadingOption(None, help="Answers that are no label and are left out: unsure,N/A.")
    fold_classes: bool = ReadingOption(False, "--fold-classes", help="Join classes that differ only in case or spaces.")
    repeats: str = ReadingOption("keep", help="Several answers by one annotator to an item: keep, first, last, error.")
    more: list[str] | None = ReadingOption(
        None,
        "--reading",
        metavar="NAME=VALUE",
        help="Further options: skip_missing=yes, include_rejected=yes, annotator_from=filename, encoding=utf-16.",
    )

    def read(self, files: Sequence[Path]) -> cp.Annotations:
        return self.read_with_report(files)[0]

    def read_with_report(self, files: Sequence[Path]) -> tuple[cp.Annotations, ReadingReport]:
        """Read annotations, report on standard error what was found, and return the report too."""
        from crowdprism.formats import read_annotations_with_report

        with standard_input_as_file(files) as paths:
            annotations, report = read_annotations_with_report(paths, **self.chosen())
        remark(str(report))
        return self.add_gold(annotations), report

    def chosen(self) -> dict[str, Any]:
        """What was chosen, as parameters of the readers."""
        columns = {"item": self.item, "annotator": self.annotator, "label": self.label, "gold": self.gold}
        chosen: dict[str, Any] = {role: column for role, column in columns.items() if column is not None}
        chosen |= dict(parse_reading_option(text) for text in self.more or ())
        lists = {"annotators": self.annotators, "classes": self.order, "skip_label": self.skip_label}
        chosen |= {name: split_names(text) for name, text in lists.items() if text is not None}
        chosen |= {"classes_ordered": True} if self.order is not None else {}
        chosen |= {"fold_classes": True} if self.fold_classes else {}
        return chosen | {"format": self.format, "max_size": self.max_size, "repeats": self.repeats}

    def add_gold(self, annotations: cp.Annotations) -> cp.Annotations:
        """Add the true classes of --gold-file and report how many there are."""
        if self.gold_file is None:
            return annotations
        from crowdprism.formats.gold_file import read_gold

        names = annotations.items, annotations.classes
        found = read_gold(self.gold_file, *names, max_size=self.max_size, fold=self.fold_classes)
        if not found.pairs:
            raise UnreadableFileError(f"{self.gold_file} has no label in its {found.n_blank} rows. Fill them in.")
        with alignment_as_notes():
            known = annotations.with_gold(list(found.pairs))
        blank = f"; {found.n_blank} rows have no label" if found.n_blank else ""
        remark(f"{self.gold_file}: gold of {len(known.gold_by_name())} items{blank}")
        return known


def split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_reading_option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if name not in READING_NAMES or not value:
        raise InvalidParameterError(f"--reading takes NAME=VALUE with one of {', '.join(READING_NAMES)}, not {text!r}.")
    return name, TRUTH.get(value.lower(), value)


@contextmanager
def standard_input_as_file(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Replace `-` by a temporary file with the content of standard input."""
    import tempfile

    if Path("-") not in files:
        yield list(files)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "standard-input"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)  # piece by piece: the reader then checks its size
        yield [copy if path == Path("-") else path for path in files]


@contextmanager
def alignment_as_notes() -> Iterator[None]:
    """Print warnings about ids that do not match as notes."""
    import warnings

    from crowdprism.errors import AlignmentWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AlignmentWarning)
        yield
    for warning in caught:
        remark(f"note: {warning.message}")


@dataclass(frozen=True)
class ThreadOptions:
    threads: int | None = DeviceOption(None, help="Processor threads; all by default.")

    def apply(self, *, torch: bool = False) -> None:
        """Limit the threads of this process; with `torch`, those of torch too, which loads it."""
        if self.threads is None:
            return
        if self.threads < 1:
            raise InvalidParameterError(f"--threads must be at least 1, not {self.threads}.")
        os.environ["CROWDPRISM_THREADS"] = str(self.threads)
        if torch or "torch" in sys.modules:
            from crowdprism.training import use_threads

            use_threads(self.threads)


@dataclass(frozen=True)
class VoiceOptions:
    one_voice: list[str] | None = VoiceOption(
        None, metavar="NAMES", help="Annotators to count as one, separated by commas. Repeat for more groups."
    )
    dependence: str = VoiceOption("auto", help="auto: find annotators who answer as one; none: count every annotator.")

    def apply(self, method: Any, annotations: Any) -> None:
        """Set `dependence` of a method, which may lack it; on a store, annotations are None."""
        if self.dependence not in ("auto", "none"):
            raise InvalidParameterError(f"--dependence takes auto or none, not {self.dependence!r}.")
        if self.one_voice and self.dependence == "none":
            raise InvalidParameterError("--one-voice and --dependence none contradict each other. Leave out one.")
        if self.one_voice and annotations is None:
            raise InvalidParameterError("--one-voice does not work on a store: leave it out, or pass files.")
        if not self.one_voice and self.dependence == "auto":
            return
        if "dependence" not in method.get_params():
            raise InvalidParameterError(f"{method.name} counts every annotator: omit --one-voice and --dependence.")
        method.set_params(dependence=split_voices(self.one_voice, annotations) if self.one_voice else None)


def split_voices(texts: Sequence[str], annotations: cp.Annotations) -> list[list[Any]]:
    """Turn texts such as `ann,bob` into groups of annotators, by their own names, which may be numbers."""
    from crowdprism.aggregators.one_voice import given_groups
    from crowdprism.formats.gold_file import Spelling

    groups = [list(map(Spelling(annotations.annotators), split_names(text))) for text in texts]
    try:
        given_groups(groups, annotations)
    except InvalidParameterError as error:
        raise InvalidParameterError(error.problem, parameter="one_voice", remedy=error.remedy) from error
    return groups


@dataclass(frozen=True)
class DeviceOptions(ThreadOptions):
    device: str = DeviceOption("auto", help="Where torch computes: auto, cpu, cuda or mps.")


@dataclass(frozen=True)
class FeatureOptions:
    features: Path | None = FeatureOption(
        None, "--features", "-x", help="Features by item (.npy, .npz, .csv, .tsv, .parquet), or folder of images."
    )
    text_column: TextColumn = None
    embedding: str = FeatureOption(
        "auto",
        help="How to embed images (efficientnet-lite0, colours-and-edges, timm:NAME) or texts (minilm, words, "
        "sentence-transformers:NAME).",
    )
    id_column: IdColumn = None
    array: ArrayName = None

    @property
    def given(self) -> bool:
        return self.features is not None or self.text_column is not None

    def load(
        self, annotations: cp.Annotations, files: Sequence[Path], report: ReadingReport
    ) -> tuple[ItemFeatures, cp.Annotations]:
        """Return the features and the annotations in the same order; report what was chosen and what does not match."""
        found = self._item_features(annotations, files, report)
        for text in found.remarks:
            remark(f"note: {text}")
        with alignment_as_notes():
            return found, annotations.align_items(found.features.ids)

    def _item_features(self, annotations: cp.Annotations, files: Sequence[Path], report: ReadingReport) -> ItemFeatures:
        from crowdprism.features import item_features, text_features
        from crowdprism.features.text_embeddings import task_data, texts_of_annotation_files

        if self.features is None:
            assert self.text_column is not None
            texts = texts_of_annotation_files(files, self.text_column, report.columns.get("item", "item"))
            texts = {name: texts[name] for name in annotations.items.tolist() if name in texts}
            return text_features(texts, embedding=self.embedding, text_column=self.text_column)
        require_exists(self.features)
        known = task_data(files) if self.features.is_dir() else {}
        return item_features(
            self.features,
            items=annotations.items.tolist(),
            other_names={item: [one for one in data.values() if isinstance(one, str)] for item, data in known.items()},
            text_column=self.text_column,
            embedding=self.embedding,
            id_column=self.id_column,
            array=self.array,
        )


def require_exists(path: Path) -> None:
    if not path.exists():
        from crowdprism.formats.documents import missing_file

        raise UnreadableFileError(missing_file(path))
