"""`crowdprism train`: from features and annotations to a classifier, corrected labels and rated annotators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdprism.cli.aggregate import WithReport
from crowdprism.cli.device_options import Device, Threads, use_threads
from crowdprism.cli.feature_options import ArrayName, Embedding, FeatureOptions, FeatureSource, IdColumn, TextColumn
from crowdprism.cli.reading_options import (
    AnnotatorColumn,
    AsJson,
    Files,
    Format,
    GoldColumn,
    ItemColumn,
    LabelColumn,
    Reading,
    read_with_report,
)

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations

DEFAULT_METHOD = "geocrowdnet-f"
NO_FEATURES = (
    "A classifier needs features of the items. Pass --features with a file (.npy, .npz, .csv, .tsv, .parquet) or a "
    "folder of images, or --text-column with a column of texts. Without features, `crowdprism aggregate` combines the "
    "labels alone"
)


def train(
    files: Files,
    features: FeatureSource = None,
    text_column: TextColumn = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for classifier, labels.csv, annotators.csv and report.html."),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", help="Name of the method; `list` names them all.")
    ] = DEFAULT_METHOD,
    network: Annotated[str, typer.Option(help="Network, by name; by the shape of the features by default.")] = "auto",
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a training into the same --output that was interrupted.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder for the state after each epoch; OUTPUT.checkpoint by default.")
    ] = None,
    report: WithReport = True,
    embedding: Embedding = "auto",
    id_column: IdColumn = None,
    array: ArrayName = None,
    format: Format = "auto",
    item: ItemColumn = None,
    annotator: AnnotatorColumn = None,
    label: LabelColumn = None,
    gold: GoldColumn = None,
    reading: Reading = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same classifier.")] = 0,
    device: Device = "auto",
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Train a classifier on features and annotations, without one clean label.

    Example: `crowdprism train export.json --features photos/ -o run/`
    """
    from crowdprism.cli.aggregate import deliver
    from crowdprism.cli.feature_options import features_of
    from crowdprism.cli.run_folder import Run, require_free
    from crowdprism.errors import InvalidParameterError

    if method == "list":
        from crowdprism.classifiers import CLASSIFIERS

        typer.echo("\n".join(sorted(CLASSIFIERS)))
        return
    options = FeatureOptions(features, text_column, embedding, id_column, array)
    if not options.given:
        raise InvalidParameterError(f"{NO_FEATURES}: crowdprism aggregate {' '.join(map(str, files))}")
    if output is not None:
        require_free(output)
    place = checkpoint or (None if output is None else Path(f"{output}.checkpoint"))
    if resume and place is None:
        raise InvalidParameterError("--resume goes on with a training into the same --output; name it with -o.")
    annotations, account = read_with_report(
        files, format, item=item, annotator=annotator, label=label, gold=gold, reading=reading
    )
    found, annotations = features_of(options, annotations, files, account)
    use_threads(threads, torch=True)
    chosen: dict[str, Any] = {"network": network, "random_state": seed, "device": device}
    chosen |= {"epochs": epochs} if epochs is not None else {}
    model = trained(method, chosen, found.features.values, annotations, place, resume=resume)
    run = Run(model.result_, annotations, classifier=model, recipe=found.recipe, with_report=report)
    deliver(run, output, as_json=json)
    conclude(model, place, keep=checkpoint is not None, written=output)


def trained(
    method: str,
    chosen: dict[str, Any],
    values: Any,
    annotations: Annotations,
    place: Path | None,
    *,
    resume: bool,
) -> Any:
    """The fitted classifier, from the last checkpoint on where that was asked for."""
    from crowdprism.classifiers import make_classifier
    from crowdprism.cli.screen import remark
    from crowdprism.errors import InvalidParameterError

    if resume and place is not None and not place.is_dir():
        raise InvalidParameterError(f"There is nothing to resume: {place} is not there. Leave out --resume.")
    if place is not None:
        chosen = {**chosen, "checkpoint": place, "resume": resume}
    model = make_classifier(method, **chosen)
    remark(f"training {method} on {len(values)} items of shape {tuple(values.shape[1:])}")
    return model.fit(values, annotations)


def conclude(model: Any, place: Path | None, *, keep: bool, written: Path | None) -> None:
    """After Ctrl-C say what was kept and how to go on; after a whole training remove its checkpoints."""
    import shutil

    from crowdprism.cli.exit_codes import INTERRUPTED
    from crowdprism.cli.run_folder import command_line
    from crowdprism.cli.screen import say_interrupted

    if not model.interrupted_:
        if place is not None and not keep:
            shutil.rmtree(place, ignore_errors=True)
        return
    kept = f"{written} holds what was learned so far" if written is not None else "the labels above are those so far"
    again = command_line() if "--resume" in command_line() else f"{command_line()} --resume"
    say_interrupted(f"{kept}." + ("" if place is None else f"\nGo on with: {again}"))
    raise typer.Exit(INTERRUPTED)
