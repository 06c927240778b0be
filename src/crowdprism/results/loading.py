"""Load whatever was saved: a fitted classifier, or the result of any method."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from crowdprism.results.fit_result import FitResult

CLASSIFIER_FILE = "classifier.json"


def load(folder: str | os.PathLike[str]) -> Any:
    """Return the classifier saved in a folder, or the `FitResult` where only that was saved.

    Examples
    --------
    >>> import tempfile
    >>> import crowdprism as cp
    >>> fitted = cp.make_aggregator("majority-vote").fit([[0, 1], [1, 1]])
    >>> with tempfile.TemporaryDirectory() as there:
    ...     cp.load(fitted.result_.save(f"{there}/run"))
    FitResult(majority-vote: 2 items, 2 annotators, 2 classes)
    """
    if (Path(folder) / CLASSIFIER_FILE).exists():
        # By name, because results must load without torch.
        return import_module("crowdprism.classifiers").load_classifier(folder)
    return FitResult.load(folder)
