"""`crowdprism predict`: label new items with a trained classifier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import crowdprism as cp
from crowdprism.cli import run_folder
from crowdprism.cli.options import ArrayName, AsJson, DeviceOptions, IdColumn, TextColumn, require_exists
from crowdprism.cli.screen import print_csv, print_json, to_records
from crowdprism.errors import InvalidParameterError

if TYPE_CHECKING:
    from crowdprism.features import Features


def predict(
    run: Path = typer.Argument(..., help="Run folder written by `crowdprism train`."),
    *,
    features: Path = typer.Option(
        ..., "--features", "-x", help="New items: a file of features, a folder of images, or a table."
    ),
    output: Path | None = typer.Option(None, "--output", "-o", help="CSV file; standard output by default."),
    probabilities: bool = typer.Option(
        False, "--probabilities", help="Add a column with the probability of each class."
    ),
    id_column: IdColumn = None,
    array: ArrayName = None,
    text_column: TextColumn = None,
    device: DeviceOptions,
    json: AsJson = False,
) -> None:
    """Label new items with a trained classifier; columns, images and texts are read as in training.

    Example: `crowdprism predict run/ --features new.npy -o predictions.csv`
    """
    from crowdprism.features import Recipe, item_features

    if output is not None:
        run_folder.require_writable(output, inputs=[features])
    model = cp.load(run)
    if isinstance(model, cp.FitResult):
        raise InvalidParameterError(
            f"{run} holds the result of {model.method}, which has no classifier. Train one with `crowdprism train`."
        )
    require_exists(features)
    device.apply(torch=True)
    found = item_features(features, text_column=text_column, id_column=id_column, array=array, recipe=Recipe.load(run))
    columns = predicted_columns(model, found.features, features, device.device, every_class=probabilities or json)
    if json:
        print_json(to_records(columns))
    elif output is None:
        print_csv(columns)
    else:
        run_folder.save_csv(output, columns)


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
