"""Labels from many unreliable people in; a classifier, corrected labels and an account of every annotator out.

>>> import crowdprism as cp
>>> annotations = cp.Annotations.from_triplets(["x", "x", "x"], ["ann", "bob", "cy"], ["cat", "dog", "dog"])
>>> cp.make_aggregator("majority-vote").fit(annotations).result_.labels().tolist()
['dog']

Names are imported when first used, so that `import crowdprism` is quick and loads no torch.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdprism.aggregators import make_aggregator as make_aggregator
    from crowdprism.annotations.container import Annotations as Annotations
    from crowdprism.classifiers import make_classifier as make_classifier
    from crowdprism.comparison import compare as compare
    from crowdprism.comparison.contract import check_method as check_method
    from crowdprism.datasets import load_dataset as load_dataset
    from crowdprism.formats import read_annotations as read_annotations
    from crowdprism.progress import set_progress as set_progress
    from crowdprism.results.fit_result import FitResult as FitResult
    from crowdprism.scoring import rank as rank
    from crowdprism.shards import Shards as Shards
    from crowdprism.shards import aggregate_shards as aggregate_shards
    from crowdprism.shards import shard_files as shard_files

__version__ = "0.1.0"

_HOME = {
    "Annotations": "annotations",
    "FitResult": "results",
    "check_method": "comparison.contract",
    "compare": "comparison",
    "load_dataset": "datasets",
    "make_aggregator": "aggregators",
    "make_classifier": "classifiers",
    "rank": "scoring",
    "read_annotations": "formats",
    "Shards": "shards",
    "aggregate_shards": "shards",
    "shard_files": "shards",
    "set_progress": "progress",
}

__all__ = ["__version__", "load", *_HOME]


def load(folder: str | os.PathLike[str]) -> Any:
    """Return the classifier saved in a folder, or the `FitResult` or `MultiLabelResult` where only that was saved.

    Examples
    --------
    >>> import tempfile
    >>> import crowdprism as cp
    >>> fitted = cp.make_aggregator("majority-vote").fit([[0, 1], [1, 1]])
    >>> with tempfile.TemporaryDirectory() as there:
    ...     cp.load(fitted.result_.save(f"{there}/run"))
    FitResult(majority-vote: 2 items, 2 annotators, 2 classes)
    """
    from crowdprism.results import FitResult
    from crowdprism.results.manifest import RunFiles, read_manifest

    place = Path(folder)
    manifest = read_manifest(place)
    if "classifier.json" in RunFiles(place, manifest) or (manifest is not None and manifest.kind == "classifier"):
        from crowdprism.classifiers import load_classifier  # here, so that results load without torch

        return load_classifier(folder)
    if manifest is not None and manifest.kind == "choices":
        from crowdprism.aggregators.multi_label import MultiLabelResult

        return MultiLabelResult.load(folder)
    return FitResult.load(folder)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name) or _home_of_method(name)
    if home is None:
        raise AttributeError(f"module 'crowdprism' has no attribute {name!r}; it offers {', '.join(sorted(_HOME))}")
    value = getattr(import_module(f"crowdprism.{home}"), name)
    globals()[name] = value
    return value


def _home_of_method(name: str) -> str | None:
    """The room of a method's class, such as `DawidSkene` or `GeoCrowdNet`; only a class of torch loads torch."""
    if name[:1].isupper():
        for room in ("aggregators", "classifiers"):
            if name in import_module(f"crowdprism.{room}").__all__:
                return room
    return None


def __dir__() -> list[str]:
    return sorted(__all__)
