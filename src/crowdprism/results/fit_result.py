"""FitResult: what any method learned; saved as `result.json` (names, parameters, history) and `arrays.npz`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.frames import frame_of_columns
from crowdprism.annotations.gold import classes_by_item, known_classes
from crowdprism.annotations.names import NameArray, Named, names_to_json, positions
from crowdprism.annotations.notebook import html_heading, html_table, visible
from crowdprism.errors import InvalidParameterError
from crowdprism.results import intervals, loading
from crowdprism.results.confusion import annotator_accuracy
from crowdprism.results.intervals import ANNOTATOR_LEVEL, Account, Estimate
from crowdprism.results.manifest import read_run
from crowdprism.results.replacing import replacing_run

N_SHOWN = 5  # rows of each table in a notebook
PACKAGES = ("crowdprism", "numpy", "scipy", "torch", "polars")


@cache
def installed_versions() -> Mapping[str, str]:
    """Versions of Python and of the packages that numbers depend on, without importing them."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True, eq=False)
class FitResult(Named):
    """What a method learned from annotations. Parts that a method does not have are None.

    Attributes
    ----------
    method, parameters
        Registry name and the parameters that reproduce the fit.
    items, annotators, classes
        The user's own names, in the order of the arrays.
    class_probabilities
        (n_items, n_classes) the model's posterior of each true class: right if the model is, and therefore mostly too
        sure. `confidence` says how likely the labels are right.
    confusions
        (n_annotators, true class, given label), rows sum to one.
    skills
        (n_annotators,) one number per annotator for methods without confusions; its meaning is the method's.
    class_prior
        (n_classes,) share of each true class.
    confusion_posterior
        (n_annotators, true class, given label) Dirichlet parameters of the confusion rows, for intervals.
    labels_per_annotator
        (n_annotators,) how many annotations each gave.
    history
        Named sequences, one number per iteration or epoch, such as the objective.
    seed, warnings
        What is needed to repeat the fit, and what the user was warned of.
    voices
        Groups of annotators, by name, who answer as one and were counted once; empty if there are none.
    annotations
        What the result was learned from, where it is at hand; not saved.
    saved_account, saved_versions
        The account and the versions that were saved with a loaded result.
    uses_features
        Whether the method saw features of the items too.
    known_items
        Positions of items whose gold the fit was shown. Their labels are the gold, so nothing can be measured on them.
    """

    method: str
    items: NameArray
    annotators: NameArray
    classes: NameArray
    class_probabilities: NDArray[Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    confusions: NDArray[Any] | None = None
    skills: NDArray[Any] | None = None
    class_prior: NDArray[Any] | None = None
    confusion_posterior: NDArray[Any] | None = None
    labels_per_annotator: NDArray[Any] | None = None
    history: Mapping[str, list[float]] = field(default_factory=dict)
    seed: int | None = None
    warnings: tuple[str, ...] = ()
    voices: tuple[tuple[Any, ...], ...] = ()
    annotations: Annotations | None = field(default=None, repr=False)
    saved_account: Account | None = field(default=None, repr=False)
    saved_versions: Mapping[str, str] | None = field(default=None, repr=False)
    uses_features: bool = False
    known_items: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.known_items is None and self.annotations is not None:
            gold = known_classes(self.annotations) if self.parameters.get("use_gold") else None
            object.__setattr__(self, "known_items", np.flatnonzero(np.empty(0) if gold is None else gold >= 0))

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of Python and of the packages that the fit used."""
        return installed_versions() if self.saved_versions is None else self.saved_versions

    @property
    def n_known(self) -> int:
        """Number of items whose gold the fit was shown."""
        return 0 if self.known_items is None else len(self.known_items)

    @cached_property
    def blind(self) -> FitResult:
        """The same fit without gold, for everything that is measured against gold; itself if gold was not used."""
        if not self.n_known or self.annotations is None:
            return self
        from crowdprism.calibration.account import fit_without_gold  # upward on purpose, as in `account`

        return fit_without_gold(self, self.annotations)

    @cached_property
    def account(self) -> Account | None:
        """How far the result can be believed; None for results without their annotations, or of older versions."""
        if self.saved_account is not None or self.annotations is None:
            return self.saved_account
        from crowdprism.calibration.account import account_of  # upward on purpose: users expect result.confidence

        return account_of(self, self.annotations)

    @property
    def confidence(self) -> NDArray[Any] | None:
        """(n_items,) probability that each item's label is right: by what other crowds reached, and by gold."""
        return None if self.account is None else self.account.confidence

    @property
    def expected_accuracy(self) -> Estimate | None:
        """Expected share of right labels, with its interval."""
        return None if self.account is None else self.account.expected_accuracy

    def labels(self) -> NameArray:
        """The most probable class of each item, by name; ties go to the class that comes first."""
        return np.asarray(self.classes[np.argmax(self.class_probabilities, axis=1)])

    @property
    def annotator_accuracy(self) -> NDArray[Any] | None:
        """(n_annotators,) how often each annotator is right; by the `account`, else by confusions and prior."""
        if self.account is not None:
            return self.account.annotator_accuracy
        return None if self.confusions is None else annotator_accuracy(self.confusions, self._known_prior())

    def _known_prior(self) -> NDArray[Any]:
        return np.full(self.n_classes, 1 / self.n_classes) if self.class_prior is None else self.class_prior

    def confusion_interval(self, level: float = 0.95) -> NDArray[Any] | None:
        """(n_annotators, true class, given label, 2) credible interval of each entry; None without a posterior."""
        posterior = self.confusion_posterior
        return None if posterior is None else intervals.confusion_interval(posterior, level=level)

    def annotator_accuracy_interval(self, level: float = 0.95) -> NDArray[Any] | None:
        """(n_annotators, 2) interval of `annotator_accuracy`; None where there is neither account nor posterior."""
        intervals.require_level(level)
        if self.account is not None and level == ANNOTATOR_LEVEL:
            return self.account.annotator_interval
        if self.annotations is not None:
            from crowdprism.calibration.account import account_of  # upward on purpose, as in `account`

            return account_of(self, self.annotations).annotators(level=level)[1]
        if self.account is not None:
            raise InvalidParameterError(
                f"A loaded result holds the intervals of accuracies at a level of {ANNOTATOR_LEVEL}, not {level}.",
                parameter="level",
            )
        if self.confusion_posterior is None:
            return None
        return intervals.accuracy_interval(self.confusion_posterior, self._known_prior(), level=level)

    def accuracy(self, gold: Any) -> float:
        """Share of items with gold whose most probable class is the gold one.

        Gold is a mapping from item to class, a series, a frame (item, label), pairs, or an array in the order of items.
        Items whose gold was used in the fit are left out, because they are right by construction.
        """
        gold = classes_by_item(self.items, gold)
        place = positions(self.items, list(gold))
        if not (place >= 0).any():
            raise InvalidParameterError("None of the gold items is among the items of this result.")
        used = set() if self.known_items is None else set(self.known_items.tolist())
        labels = self.labels()
        pairs = zip(place.tolist(), gold.values(), strict=True)
        right = [labels[at] == label for at, label in pairs if at >= 0 and at not in used]
        if not right:
            raise InvalidParameterError(
                "The fit was shown the gold of all these items, so they cannot tell how right it is.",
                remedy="Hold some gold back, or fit with {use_gold:False}",
            )
        return float(np.mean(right))

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per item: item, label, posterior probability, confidence. `kind` as in `Annotations.to_frame`."""
        columns = {"item": self.items, "label": self.labels(), "probability": self.class_probabilities.max(axis=1)}
        if self.confidence is not None:
            columns["confidence"] = self.confidence
        return frame_of_columns(columns, kind)

    def annotators_frame(self, kind: str = "polars") -> Any:
        """One row per annotator: `annotator_columns` as a frame. `kind` as in `Annotations.to_frame`."""
        return frame_of_columns(self.annotator_columns(), kind)

    def annotator_columns(self) -> dict[str, NDArray[Any]]:
        """Annotators, how many annotations each gave, accuracy with its 95 % interval, skill; what is known of them."""
        interval = self.annotator_accuracy_interval()
        low, high = (None, None) if interval is None else interval.T
        columns = {
            "annotator": self.annotators,
            "annotations": self.labels_per_annotator,
            "accuracy": self.annotator_accuracy,
            "accuracy_low": low,
            "accuracy_high": high,
            "skill": self.skills,
        }
        return {name: values for name, values in columns.items() if values is not None}

    def report(self, path: str | os.PathLike[str], annotations: Any = None, **options: Any) -> Path:
        """Write what was learned as one HTML page that opens offline; options are those of `crowdprism.report`."""
        from crowdprism.report import write_report  # upward on purpose: users expect result.report(path)

        return write_report(path, self, annotations, **options)

    def _repr_html_(self) -> str:
        return result_html(self)

    def __repr__(self) -> str:
        sizes = f"{self.n_items} items, {self.n_annotators} annotators, {self.n_classes} classes"
        return f"FitResult({self.method}: {sizes})"

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the result as a folder; an existing result there is replaced in one step.

        Other files in the folder stay. A classifier or a diagnosis there, and files of a result that were changed
        since, are replaced only with `force`.
        """
        with replacing_run(folder, kind="result", force=force) as fresh:
            self.write_into(fresh)
        return Path(folder)

    def write_into(self, folder: Path, prefix: str = "") -> None:
        """Write the result's files into an existing folder, not atomically; `save` is the safe way."""
        arrays = {name: getattr(self, name) for name in loading.ARRAYS}
        if self.account is not None:
            arrays |= {name: getattr(self.account, name) for name in loading.ACCOUNT_SHAPES}
        present = {name: values for name, values in arrays.items() if values is not None}
        loading.write_arrays(folder / f"{prefix}{loading.ARRAYS_FILE}", present)
        record = {
            "schema": loading.SCHEMA_VERSION,
            "method": self.method,
            "parameters": json_ready(self.parameters),
            **{role: names_to_json(getattr(self, role)) for role in ("items", "annotators", "classes")},
            "history": {name: [float(value) for value in values] for name, values in self.history.items()},
            "seed": self.seed,
            "versions": dict(self.versions),
            "warnings": list(self.warnings),
            "voices": [positions(self.annotators, list(names)).tolist() for names in self.voices],
            "uses_features": self.uses_features,
            "known_items": [] if self.known_items is None else self.known_items.tolist(),
            "account": None if self.account is None else self.account.numbers(),
        }
        text = json.dumps(record, ensure_ascii=False)
        (folder / f"{prefix}{loading.RESULT_FILE}").write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> FitResult:
        """Read a result that `save` wrote."""
        return cls(**read_run(Path(folder), loading.fields_of))


def result_html(result: FitResult) -> str:
    """What a notebook shows: sizes, how right the labels are, the least certain ones, the least accurate annotators."""
    labels, account = result.labels(), result.account
    top = result.class_probabilities.max(axis=1) if account is None else account.confidence
    doubtful = np.argsort(top, kind="stable")[:N_SHOWN]
    sizes = f"{result.n_items:,} items, {result.n_annotators:,} annotators, {result.n_classes:,} classes"
    said = [*([] if account is None else [account.sentence()]), *result.warnings]
    parts = [html_heading(f"{result.method}: {sizes}"), *(f"<p>{escape(visible(one))}</p>" for one in said)]
    what = "posterior probability" if account is None else "confidence"
    rows = [(result.items[at], labels[at], f"{top[at]:.1%}") for at in doubtful]
    parts.append(html_table("Least certain labels", ("item", "label", what), rows))
    accuracy, interval = result.annotator_accuracy, result.annotator_accuracy_interval()
    if accuracy is not None:
        lowest = np.argsort(accuracy, kind="stable")[:N_SHOWN]
        ranges = [""] * len(accuracy) if interval is None else [f"{low:.0%} to {high:.0%}" for low, high in interval]
        people = [(result.annotators[at], f"{accuracy[at]:.1%}", ranges[at]) for at in lowest]
        parts.append(html_table("Least accurate annotators", ("annotator", "accuracy", "95 % interval"), people))
    parts.append("<p><small><code>.report(path, annotations)</code> writes the whole story as a page.</small></p>")
    return f"<div>{''.join(parts)}</div>"


def json_ready(value: Any) -> Any:
    """Turn parameters into what JSON can hold; objects become their repr."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(inner) for inner in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value) if not isinstance(value, np.ndarray) else f"array of shape {value.shape}"
