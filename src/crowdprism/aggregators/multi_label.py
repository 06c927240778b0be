"""Several choices per item: one yes/no fit per choice, in which annotators keep their skill from choice to choice.

A rare choice says little about an annotator. So each annotator's chance of ticking a choice that is there, and of
leaving out one that is not, has a prior centred at what the other choices say of the annotator and the other annotators
say of the choice (added on the logit scale). Centres are renewed in a few rounds of Dawid-Skene.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crowdprism.aggregators import Aggregator, make_aggregator
from crowdprism.aggregators.copies import voices_of
from crowdprism.aggregators.dawid_skene import DawidSkene
from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.one_voice import named
from crowdprism.aggregators.skill_prior import logit
from crowdprism.annotations import Annotations
from crowdprism.annotations.choice_sets import MultiLabelAnnotations
from crowdprism.annotations.names import NameArray, names_from_json, names_to_json, same_names
from crowdprism.progress import progress
from crowdprism.results import FitResult
from crowdprism.results.confusion import confusion_counts
from crowdprism.results.loading import fields_of
from crowdprism.results.manifest import CHOICES, RunFiles, read_run, require_schema

SCHEMA, CHOICES_FILE = 1, "choices.json"
ROUNDS = 2
STRENGTH = 12.0  # answers' worth of the shared prior per annotator, choice and true class
POOLED = 4.0  # answers' worth behind each annotator's and each choice's own rate


@dataclass(frozen=True, eq=False, repr=False)
class MultiLabelResult:
    """What was learned about each choice: a `FitResult` with classes no and yes, by choice.

    Examples
    --------
    >>> m = MultiLabelAnnotations.from_triplets([1, 1, 2, 2], ["a", "b"] * 2, [["x"], ["x", "y"], [], ["y"]])
    >>> result = fit_choices(m)
    >>> result.probabilities.shape, len(result.labels())
    ((2, 2), 2)
    """

    method: str
    choices: NameArray
    results: Mapping[Any, FitResult]

    @property
    def items(self) -> NameArray:
        return self._first.items

    @property
    def annotators(self) -> NameArray:
        return self._first.annotators

    @property
    def _first(self) -> FitResult:
        return next(iter(self.results.values()))

    @property
    def probabilities(self) -> FloatArray:
        """(n_items, n_choices) probability that each choice applies."""
        return np.stack([result.class_probabilities[:, 1] for result in self.results.values()], axis=1)

    def labels(self) -> list[tuple[Any, ...]]:
        """The choices that more likely apply than not, per item."""
        names = self.choices.tolist()
        return [tuple(name for name, yes in zip(names, row, strict=True) if yes) for row in self.probabilities > 0.5]

    @property
    def confidence(self) -> FloatArray | None:
        """(n_items, n_choices) probability that each yes or no is right, as `FitResult.confidence`."""
        found = [one for one in (result.confidence for result in self.results.values()) if one is not None]
        return np.stack(found, axis=1) if len(found) == len(self.choices) else None

    def write_into(self, folder: Path) -> None:
        """Write the files of a run into an existing folder: the choices, and the result of each."""
        record = {"schema": SCHEMA, "method": self.method, "choices": names_to_json(self.choices)}
        (folder / CHOICES_FILE).write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
        (folder / CHOICES).mkdir()
        for place, result in enumerate(self.results.values()):
            result.write_into(folder, prefix=f"{CHOICES}/{place}-")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> MultiLabelResult:
        """Read what `crowdprism aggregate --multi` wrote."""
        return read_run(Path(folder), cls._from)

    @classmethod
    def _from(cls, files: RunFiles) -> MultiLabelResult:
        record = files.read_json(CHOICES_FILE)
        require_schema(record, SCHEMA, files.folder)
        choices = names_from_json(record["choices"])
        results = [FitResult(**fields_of(files, f"{CHOICES}/{place}-")) for place in range(len(choices))]
        names = ("items", "annotators")
        if any(not same_names(getattr(one, name), getattr(results[0], name)) for one in results for name in names):
            raise ValueError("choices of other items or annotators")
        if type(record["method"]) is not str or any(one.n_classes != 2 for one in results):
            raise ValueError("choices are answered by yes and no, by a method with a name")
        return cls(record["method"], choices, dict(zip(choices.tolist(), results, strict=True)))

    def __repr__(self) -> str:
        return f"MultiLabelResult({self.method}: {len(self.items)} items, {len(self.choices)} choices)"


def fit_choices(
    annotations: MultiLabelAnnotations, method: str | Aggregator = "dawid-skene", *, shared_prior: bool = True
) -> MultiLabelResult:
    """Estimate which choices apply to each item.

    Parameters
    ----------
    method
        Name of an aggregator, or one.
    shared_prior
        For Dawid-Skene: let the choices inform each other about annotators. Other methods fit each choice by itself.
    """
    aggregator = make_aggregator(method) if isinstance(method, str) else method
    share = shared_prior and type(aggregator) is DawidSkene and len(annotations.choices) > 1
    if "dependence" in aggregator.get_params() and aggregator.get_params()["dependence"] == "auto":
        voices = named(annotations.sets, voices_of(annotations.sets, "auto").voices)  # whole answers tell copies best
        aggregator.set_params(dependence=[list(names) for names in voices] or None)
    problems, n_rounds = dict(annotations), ROUNDS if share else 0
    with progress("choices", total=n_rounds + 1) as bar:
        results = {choice: aggregator.fit(problem).result_ for choice, problem in problems.items()}
        bar.advance()
        for _ in range(n_rounds):
            centres = shared_centres(problems, results)
            for at, (choice, problem) in enumerate(problems.items()):
                aggregator.set_params(past_result=_prior(problem, centres[:, at]))
                results[choice] = aggregator.fit(problem).result_
            bar.advance()
    if share:
        aggregator.set_params(past_result=None)
    return MultiLabelResult(aggregator.name, annotations.choices, results)


def _prior(problem: Annotations, right: FloatArray) -> FitResult:
    """What is known of annotators before the choice is looked at; right is (n_annotators, true class)."""
    counts = STRENGTH * np.where(np.eye(2, dtype=bool), right[:, :, None], 1 - right[:, :, None])
    return FitResult(
        method="shared prior",
        items=problem.items[:0],
        annotators=problem.annotators,
        classes=problem.classes,
        class_probabilities=np.empty((0, 2)),
        confusion_posterior=counts,
    )


def shared_centres(problems: Mapping[Any, Annotations], results: Mapping[Any, FitResult]) -> FloatArray:
    """(n_annotators, n_choices, true class) expected probability of a right answer.

    Logit of a centre = logit of the choice's rate + (logit of the annotator's rate - logit of what was expected of the
    annotator, given the choices they judged).
    """
    counts = np.stack(
        [confusion_counts(problems[choice], results[choice].class_probabilities) for choice in problems], axis=1
    )  # (annotator, choice, true class, answer)
    right, total = np.diagonal(counts, axis1=2, axis2=3), counts.sum(axis=3)
    overall = (right.sum(axis=(0, 1)) + 1) / (total.sum(axis=(0, 1)) + 2)
    of_choice = (right.sum(axis=0) + POOLED * overall) / (total.sum(axis=0) + POOLED)
    own = (right.sum(axis=1) + POOLED * overall) / (total.sum(axis=1) + POOLED)
    expected = ((total * of_choice).sum(axis=1) + POOLED * overall) / (total.sum(axis=1) + POOLED)
    log_odds = logit(of_choice)[None] + (logit(own) - logit(expected))[:, None]
    return np.asarray(1 / (1 + np.exp(-log_odds)))
