"""`crowdprism train` and `crowdprism predict`: a classifier from annotations and features, and labels of new items."""

from __future__ import annotations

import io
import os
from contextlib import ExitStack, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import crowdprism as cp
from crowdprism.cli import options, run_folder
from crowdprism.cli.aggregate import WithReport, deliver
from crowdprism.cli.questions import describe_source
from crowdprism.cli.run_folder import Run, Written
from crowdprism.cli.screen import command_line, exit_interrupted, print_csv, print_json, remark, to_records
from crowdprism.errors import InvalidParameterError

if TYPE_CHECKING:
    from crowdprism.features import Features

DEFAULT_METHOD = "geocrowdnet-f"
NO_FEATURES = (
    "A classifier needs features of the items. Pass --features with a file (.npy, .npz, .csv, .tsv, .parquet) or a "
    "folder of images, or --text-column with a column of texts. To combine labels without features, run: crowdprism "
    "aggregate"
)


def train(
    files: options.Files,
    *,
    features: options.FeatureOptions,
    output: Path | None = typer.Option(None, "--output", "-o", help="Run folder for classifier, tables, report.html."),
    method: str = options.method_option(DEFAULT_METHOD, options.classifier_names),
    network: str = typer.Option("auto", help="Name of the network; chosen by the features by default."),
    epochs: int | None = typer.Option(None, help="Passes over the data."),
    onwards: Path | None = typer.Option(
        None, "--continue", help="Continue training the classifier of this run folder, with its method and network."
    ),
    resume: bool = typer.Option(False, "--resume", help="Continue an interrupted training with the same --output."),
    checkpoint: Path | None = typer.Option(None, help="Folder for the last epoch's state; default: OUTPUT.checkpoint."),
    report: WithReport = True,
    force: options.Force = False,
    reading: options.ReadingOptions,
    voices: options.VoiceOptions,
    seed: int = typer.Option(0, help="Random seed; the same seed gives the same classifier."),
    device: options.DeviceOptions,
    json: options.AsJson = False,
) -> None:
    """Train a classifier on features and annotations, without any true labels.

    Example: `crowdprism train export.json --features photos/ -o run/`; in four processes: `torchrun --nproc-per-node 4
    -m crowdprism train ...`
    """
    if not features.given:
        raise InvalidParameterError(f"{NO_FEATURES} {' '.join(map(str, files))}")
    place = checkpoint or (None if output is None or onwards else Path(f"{output}.checkpoint"))
    inputs = [*files, features.features, reading.gold_file]
    with ExitStack() as on_exit:
        helps = joined(device.device, on_exit)
        fresh = on_exit.enter_context(
            run_folder.run_target(None if helps else output, kind="classifier", force=force, inputs=inputs)
        )
        resume = goes_on(output, place, resume=resume, helps=helps)
        annotations, account = reading.read_with_report(files)
        found, annotations = features.load(annotations, files, account)
        device.apply(torch=True)
        settings: dict[str, Any] = {"network": network, "random_state": seed, "device": device.device}
        settings |= {} if epochs is None else {"epochs": epochs}
        settings |= {} if place is None else {"checkpoint": place, "resume": resume}
        model = cp.make_classifier(method, **settings) if onwards is None else load_trained(onwards)
        method = model.name if onwards else method
        voices.apply(model, annotations)
        values = found.features.values
        remark(f"training {method} on {len(values)} items of shape {tuple(values.shape[1:])}")
        if onwards is None:
            model.fit(values, annotations)
        else:
            model.partial_fit(values, annotations, epochs=epochs or model.epochs)
        if helps:
            return
        about = describe_source(model.result_, files, account)
        run = Run(model.result_, annotations, model, found.recipe, with_report=report, about=about)
        written = Written() if fresh is None else run_folder.write_run(fresh, run)
    if place is not None and checkpoint is None and not model.interrupted_:
        from crowdprism.training.checkpoint import remove_checkpoints

        remove_checkpoints(place)
    deliver(run, output, written, as_json=json)
    if model.interrupted_:
        kept = "the labels above are those so far." if output is None else f"{output} holds what was learned so far."
        again = command_line() if "--resume" in command_line() else f"{command_line()} --resume"
        exit_interrupted(kept if place is None else f"{kept}\nContinue with: {again}")


def joined(device: str, on_exit: ExitStack) -> bool:
    """Join the processes started by `torchrun`; True in all but the first, which alone prints and writes."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return False
    from crowdprism.training.distributed import process_group

    processes = on_exit.enter_context(process_group(device))
    if processes.rank:
        on_exit.enter_context(redirect_stderr(io.StringIO()))
    return processes.rank > 0


def goes_on(output: Path | None, place: Path | None, *, resume: bool, helps: bool) -> bool:
    """Whether to go on from the state of an earlier training; without `resume`, its states are removed."""
    if place is None:
        if resume:
            raise InvalidParameterError("--resume continues a training with the same --output; name it with -o.")
        return False
    if not resume and not place.is_dir():
        return False
    from crowdprism.training.checkpoint import has_checkpoint, remove_checkpoints  # loads torch

    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0:  # torchrun lost a process and began again
        return has_checkpoint(place)
    if not resume and not helps:
        remove_checkpoints(place)
    elif resume and not has_checkpoint(place):
        from crowdprism.results.manifest import RunFiles, read_manifest

        files = RunFiles(output, read_manifest(output)) if output is not None else ()
        raise InvalidParameterError(
            f"There is nothing to resume: the run in {output} is complete. Leave out --resume to train it again."
            if "classifier.json" in files
            else f"There is nothing to resume: {place} holds no state. Leave out --resume."
        )
    return resume


def predict(
    run: Path = typer.Argument(..., help="Run folder written by `crowdprism train`."),
    *,
    features: Path = typer.Option(..., "--features", "-x", help="New items: features, a folder of images, or a table."),
    file: Path | None = typer.Option(None, "--output", "-o", help="CSV file; standard output by default."),
    probabilities: bool = typer.Option(False, "--probabilities", help="Add the probability of each class."),
    id_column: options.IdColumn = None,
    array: options.ArrayName = None,
    text_column: options.TextColumn = None,
    device: options.DeviceOptions,
    json: options.AsJson = False,
) -> None:
    """Label new items with a trained classifier; columns, images and texts are read as in training.

    Example: `crowdprism predict run/ --features new.npy -o predictions.csv`
    """
    from crowdprism.features import Recipe, item_features

    model = load_trained(run)
    options.require_exists(features)
    device.apply(torch=True)
    found = item_features(features, text_column=text_column, id_column=id_column, array=array, recipe=Recipe.load(run))
    columns = predicted_columns(model, found.features, features, device.device, every_class=probabilities or json)
    if json:
        print_json(to_records(columns))
    elif file is None:
        print_csv(columns)
    else:
        run_folder.save_csv(file, columns)
        remark(f"wrote {file}")


def load_trained(run: Path) -> Any:
    model = cp.load(run)
    if isinstance(model, cp.FitResult):
        raise InvalidParameterError(f"{run} holds labels by {model.method} but no classifier. Run `crowdprism train`.")
    return model


def predicted_columns(
    model: Any, table: Features, source: Path, device: str, *, every_class: bool
) -> dict[str, list[Any]]:
    """Items, labels, how likely each is right, and the model's probabilities."""
    from crowdprism.calibration.account import prediction_confidence
    from crowdprism.training.settings import choose_device

    needed, given = model.predictor_.input_shape, tuple(table.values.shape[1:])
    if len(given) == 2:
        given = (1, *given)  # grey images
    if given != needed:
        raise InvalidParameterError(
            f"{source} has items of shape {given}, but the classifier was trained on items of shape {needed}. Pass the "
            "same columns, in the same order, as in training."
        )
    place = choose_device(device)
    for member in model.predictor_.members:
        member.network.to(place)
    shares = model.predict_proba(table.values)
    columns = {
        "item": table.ids.tolist(),
        "label": model.classes_[shares.argmax(axis=1)].tolist(),
        "confidence": run_folder.rounded(prediction_confidence(shares)),
        "probability": run_folder.rounded(shares.max(axis=1)),
    }
    if every_class:
        pairs = zip(model.classes_, shares.T, strict=True)
        columns |= {f"probability of {name}": run_folder.rounded(share) for name, share in pairs}
    return columns
