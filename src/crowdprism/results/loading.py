"""The folder of a saved result: reading and checking `result.json` and `arrays.npz`, without pickle."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from crowdprism.annotations.names import names_from_json
from crowdprism.errors import ResultFormatError

SCHEMA_VERSION = 1
ARRAYS = ("class_probabilities", "confusions", "skills", "class_prior", "confusion_posterior", "labels_per_annotator")


def read_fields(folder: Path) -> dict[str, Any]:
    """The fields of the `FitResult` that was saved in a folder."""
    record = read_record(folder)
    try:
        fields = {name: record[name] for name in ("method", "parameters", "history", "seed", "versions")}
        fields["warnings"] = tuple(record["warnings"])
        fields |= {role: names_from_json(record[role]) for role in ("items", "annotators", "classes")}
        with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in ARRAYS if name in stored.files}
        return {"class_probabilities": arrays.pop("class_probabilities"), **fields, **arrays}
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ResultFormatError(
            f"{folder} is damaged: {type(error).__name__}: {error}. Fit and save it again."
        ) from error


def read_record(folder: Path) -> dict[str, Any]:
    """Read and check `result.json`."""
    path = folder / "result.json"
    if not path.exists():
        raise ResultFormatError(
            f"{folder} holds no saved result (no result.json). Pass a folder written by `crowdprism aggregate`, "
            "`crowdprism train` or the `save` method."
        )
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        schema = record["schema"]
    except (ValueError, KeyError, TypeError) as error:
        raise ResultFormatError(f"{path} is damaged: {error}. Fit and save it again.") from error
    if schema > SCHEMA_VERSION:
        raise ResultFormatError(
            f"{folder} was written by a newer crowdprism ({record.get('versions', {}).get('crowdprism', 'unknown')}; "
            f"schema {schema}, this one reads up to {SCHEMA_VERSION}). Upgrade crowdprism to read it."
        )
    return record
