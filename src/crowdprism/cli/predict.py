"""`crowdprism predict`: labels for new items from a trained classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdprism.cli.device_options import Threads, use_threads
from crowdprism.cli.feature_options import ArrayName, IdColumn, TextColumn


def predict(
    run: Annotated[Path, typer.Argument(help="Folder that `crowdprism train` wrote.")],
    features: Annotated[
        Path, typer.Option("--features", "-x", help="New items: a file of features, a folder of images, or a table.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file; standard output by default.")] = None,
    id_column: IdColumn = None,
    array: ArrayName = None,
    text_column: TextColumn = None,
    threads: Threads = None,
) -> None:
    """Label new items with a trained classifier; images and texts are described as they were in training.

    Example: `crowdprism predict run/ --features new.npy -o predictions.csv`
    """
    import sys

    import numpy as np

    from crowdprism import load
    from crowdprism.cli.feature_options import require_there
    from crowdprism.cli.run_folder import require_writable, rounded, write_table
    from crowdprism.errors import InvalidParameterError
    from crowdprism.features import Recipe, item_features
    from crowdprism.files import replacing_file
    from crowdprism.results import FitResult

    if output is not None:
        require_writable(output)
    model = load(run)
    if isinstance(model, FitResult):
        raise InvalidParameterError(
            f"{run} holds the result of {model.method}, which has no classifier. Train one with `crowdprism train`."
        )
    require_there(features)
    use_threads(threads, torch=True)
    found = item_features(features, text_column=text_column, id_column=id_column, array=array, recipe=Recipe.load(run))
    table = found.features
    probabilities = model.predict_proba(table.values)
    best = np.argmax(probabilities, axis=1)
    rows = zip(table.ids.tolist(), model.classes_[best].tolist(), rounded(probabilities.max(axis=1)), strict=True)
    columns = ("item", "label", "probability")
    if output is None:
        write_table(sys.stdout, columns, rows)
        return
    with replacing_file(output) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
        write_table(file, columns, rows)
