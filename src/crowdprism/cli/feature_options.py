"""Options by which commands take features of items, and how these meet the annotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations
    from crowdprism.features import ItemFeatures
    from crowdprism.formats.reading_report import ReadingReport

PANEL = "Features of the items"
FeatureSource = Annotated[
    Path | None,
    typer.Option(
        "--features",
        "-x",
        rich_help_panel=PANEL,
        help="Features by item: .npy, .npz, .csv, .tsv or .parquet, or a folder of images.",
    ),
]
TextColumn = Annotated[
    str | None,
    typer.Option(
        "--text-column",
        "-t",
        rich_help_panel=PANEL,
        help="Column of --features, or of the annotation files, that holds texts.",
    ),
]
Embedding = Annotated[
    str,
    typer.Option(
        rich_help_panel=PANEL,
        help="How images (efficientnet-lite0, colours-and-edges, timm:NAME) or texts (minilm, words, "
        "sentence-transformers:NAME) become numbers.",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id-column", rich_help_panel=PANEL, help="Column of the feature table with the item ids."),
]
ArrayName = Annotated[
    str | None, typer.Option("--array", rich_help_panel=PANEL, help="Array of an .npz file that holds the features.")
]


@dataclass(frozen=True)
class FeatureOptions:
    """What the user said about features."""

    source: Path | None
    text_column: str | None = None
    embedding: str = "auto"
    id_column: str | None = None
    array: str | None = None

    @property
    def given(self) -> bool:
        """Whether there is anything to make features from."""
        return self.source is not None or self.text_column is not None


def features_of(
    options: FeatureOptions, annotations: Annotations, files: Sequence[Path], report: ReadingReport
) -> tuple[ItemFeatures, Annotations]:
    """Features, and the annotations in their order; what was chosen and what does not match is told."""
    import warnings

    from crowdprism.cli.screen import remark
    from crowdprism.errors import AlignmentWarning

    found = described(options, annotations, files, report)
    for text in found.remarks:
        remark(f"note: {text}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AlignmentWarning)
        aligned = annotations.align_items(found.features.ids)
    for warning in caught:
        remark(f"note: {warning.message}")
    return found, aligned


def described(
    options: FeatureOptions, annotations: Annotations, files: Sequence[Path], report: ReadingReport
) -> ItemFeatures:
    """Features of the annotated items, from a file, a folder of images or texts."""
    from crowdprism.features import item_features, text_features
    from crowdprism.features.text_embeddings import task_data, texts_of_annotation_files

    if options.source is None:
        assert options.text_column is not None
        texts = texts_of_annotation_files(files, options.text_column, report.columns.get("item", "item"))
        texts = {name: texts[name] for name in annotations.items.tolist() if name in texts}
        return text_features(texts, embedding=options.embedding, text_column=options.text_column)
    require_there(options.source)
    other_names: dict[Any, list[str]] = {}
    if options.source.is_dir():
        other_names = {
            item: [value for value in shown.values() if isinstance(value, str)]
            for item, shown in task_data(files).items()
        }
    return item_features(
        options.source,
        items=annotations.items.tolist(),
        other_names=other_names,
        text_column=options.text_column,
        embedding=options.embedding,
        id_column=options.id_column,
        array=options.array,
    )


def require_there(path: Path) -> None:
    """Raise where there is no such file, and name those that come close."""
    from crowdprism.errors import UnreadableFileError
    from crowdprism.formats.files import missing_file

    if not path.exists():
        raise UnreadableFileError(missing_file(path))


def as_rows(found: ItemFeatures, annotations: Annotations) -> tuple[ItemFeatures, Annotations]:
    """Only the items that somebody annotated, for comparisons that learn from annotations alone."""
    import numpy as np

    kept = np.flatnonzero(annotations.labels_per_item > 0)
    features = replace(found.features, ids=found.features.ids[kept], values=found.features.values[kept])
    return replace(found, features=features), annotations[kept]
