"""`crowdprism predict`: labels for new items from a trained classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdprism.cli.train import ArrayName, IdColumn


def predict(
    run: Annotated[Path, typer.Argument(help="Folder that `crowdprism train` wrote.")],
    features: Annotated[Path, typer.Option("--features", "-x", help="Features of the new items.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file; standard output by default.")] = None,
    id_column: IdColumn = None,
    array: ArrayName = None,
) -> None:
    """Label new items with a trained classifier.

    Example: `crowdprism predict run/ --features new.npy -o predictions.csv`
    """
    import sys

    import numpy as np

    from crowdprism import load
    from crowdprism.atomic import replacing_file
    from crowdprism.cli.run_folder import rounded, write_table
    from crowdprism.errors import InvalidParameterError
    from crowdprism.fit_result import FitResult
    from crowdprism.readers.features import read_features

    model = load(run)
    if isinstance(model, FitResult):
        raise InvalidParameterError(
            f"{run} holds the result of {model.method}, which has no classifier. Train one with `crowdprism train`."
        )
    table = read_features(features, id_column=id_column, array=array)
    probabilities = model.predict_proba(table.values)
    best = np.argmax(probabilities, axis=1)
    rows = zip(table.ids.tolist(), model.classes_[best].tolist(), rounded(probabilities.max(axis=1)), strict=True)
    columns = ("item", "label", "probability")
    if output is None:
        write_table(sys.stdout, columns, rows)
        return
    with replacing_file(output) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
        write_table(file, columns, rows)
