"""`crowdprism train`: from features and annotations to a classifier, corrected labels and rated annotators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdprism.cli.reading import AnnotatorColumn, AsJson, Files, Format, GoldColumn, ItemColumn, LabelColumn, read

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations
    from crowdprism.readers.features import Features

DEFAULT_METHOD = "geocrowdnet-f"

FeatureFile = Annotated[
    Path | None, typer.Option("--features", "-x", help="Features by item: .npy, .npz, .csv, .tsv or .parquet.")
]
IdColumn = Annotated[str | None, typer.Option("--id-column", help="Column of the feature table with the item ids.")]
ArrayName = Annotated[str | None, typer.Option("--array", help="Array of an .npz file that holds the features.")]


def train(
    files: Files,
    features: FeatureFile = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for classifier, labels.csv and annotators.csv.")
    ] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", help="Name of the method; `list` names them all.")
    ] = DEFAULT_METHOD,
    network: Annotated[str, typer.Option(help="Network, by name; by the shape of the features by default.")] = "auto",
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
    id_column: IdColumn = None,
    array: ArrayName = None,
    format: Format = "auto",
    item: ItemColumn = None,
    annotator: AnnotatorColumn = None,
    label: LabelColumn = None,
    gold: GoldColumn = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same classifier.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Processor threads; all by default.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder for a checkpoint after each epoch; a run found there is resumed.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Train a classifier on features and annotations, without one clean label.

    Example: `crowdprism train labels.csv --features features.npy -o run/`
    """
    from crowdprism.classifiers import CLASSIFIERS, make_classifier
    from crowdprism.cli.aggregate import deliver
    from crowdprism.errors import InvalidParameterError

    if method == "list":
        typer.echo("\n".join(sorted(CLASSIFIERS)))
        return
    if features is None:
        raise InvalidParameterError(
            "A classifier needs features of the items: pass --features FILE (.npy, .npz, .csv, .tsv or .parquet). "
            "Without features, `crowdprism aggregate` combines the labels alone."
        )
    if threads is not None:
        from crowdprism.training import use_threads

        use_threads(threads)
    chosen: dict[str, Any] = {"network": network, "random_state": seed, "device": device}
    chosen |= {"epochs": epochs} if epochs is not None else {}
    chosen |= {"checkpoint": checkpoint} if checkpoint is not None else {}
    model = make_classifier(method, **chosen)
    annotations = read(files, format, item=item, annotator=annotator, label=label, gold=gold)
    table, annotations = matched(features, annotations, id_column=id_column, array=array)
    model.fit(table.values, annotations)
    deliver(model.result_, annotations, output, as_json=json, classifier=model)


def matched(
    path: Path, annotations: Annotations, *, id_column: str | None, array: str | None
) -> tuple[Features, Annotations]:
    """Read features and bring the annotations into their order; tell where ids do not match."""
    import warnings

    from crowdprism.cli.screen import remark
    from crowdprism.errors import AlignmentWarning
    from crowdprism.readers.features import read_features

    table = read_features(path, id_column=id_column, array=array)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AlignmentWarning)
        aligned = annotations.align_items(table.ids)
    for warning in caught:
        remark(f"note: {warning.message}")
    return table, aligned
