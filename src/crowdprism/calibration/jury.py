"""Can I trust this jury? Judges, such as language models, measured against gold or people.

Judges are annotators. What is measured needs a reference for some items: gold, or else the majority of the annotators
who are named as humans (items on which they tie have none). Intervals come from a bootstrap over the items of the
reference, so that errors that judges share count as shared; the accuracy of a judge has the interval of Clopper and
Pearson.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.majority_vote import decide
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import known_positions, plain
from crowdprism.calibration import jury_measures as measures
from crowdprism.calibration.alternative_annotator import AlternativeTest, alternative_annotator_test
from crowdprism.calibration.jury_measures import FloatArray, Table
from crowdprism.diagnostics.co_labelling import beyond_chance
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError
from crowdprism.results.intervals import beta_interval, require_level
from crowdprism.seeding import stream

MIN_REFERENCE = 10


@dataclass(frozen=True)
class Figure:
    """A figure with its interval; all NaN where it cannot be known."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Judge:
    """One judge against the reference."""

    name: Any
    n: int  # items of the reference that the judge labelled
    accuracy: Figure
    kappa: Figure  # Cohen's: agreement beyond chance
    over_use: Mapping[Any, Figure]  # by class: how much more often it is named than true, as a share of the items
    adds: Figure  # accuracy of the vote of all judges minus that of the vote without this one


@dataclass(frozen=True)
class JuryReport:
    """What is known of a jury."""

    classes: tuple[Any, ...]
    reference: str  # what the judges are compared with
    n_reference: int  # items with a reference
    n_items: int
    judges: tuple[Judge, ...]
    correlation: FloatArray  # (judge, judge) of errors; NaN where it cannot be known
    n_independent: Figure  # how many judges whose errors have nothing in common are worth as much
    vote: Figure  # accuracy of the majority vote of all judges; a tie of k classes counts 1/k
    panel: tuple[Any, ...]  # recommended judges
    panel_accuracy: float  # of the votes of panels chosen like it, on items kept out of the choice
    voted: Mapping[Any, float]  # share of each class among the votes on all items
    prevalence: Mapping[Any, Figure]  # that share corrected for the errors of the vote
    replaces: Mapping[Any, AlternativeTest]  # by judge; empty with fewer than two humans
    level: float


def measure_jury(
    annotations: Annotations, *, humans: Iterable[Any] = (), epsilon: float = 0.2, level: float = 0.95, seed: int = 0
) -> JuryReport:
    """Measure judges against gold, or against people.

    Parameters
    ----------
    annotations
        Labels of the judges (and humans), with gold where it is known. Of repeated labels the last counts.
    humans
        Annotators who are people: they are compared with, not judged. Without gold their majority is the reference.
    epsilon
        By how much a judge may fall short of a person and still replace them, in the alternative annotator test: its
        authors advise 0.2 for experts, 0.15 for trained people and 0.1 for crowd workers.

    Examples
    --------
    >>> from crowdprism.simulate import each_with_probability, one_coin, simulate_annotations
    >>> truth = np.arange(400) % 2
    >>> everything = each_with_probability(400, 3, probability=1.0, seed=0)
    >>> labels = simulate_annotations(truth, one_coin(np.array([0.9, 0.8, 0.7]), 2), everything, seed=0)
    >>> report = measure_jury(labels.with_gold(list(enumerate(truth.tolist()))))
    >>> [round(judge.accuracy.value, 1) for judge in report.judges], round(report.n_independent.value)
    ([0.9, 0.8, 0.7], 3)
    """
    require_level(level)
    table, people, names = split_table(annotations, [plain(name) for name in humans])
    truth, reference = reference_of(annotations, people)
    known = np.flatnonzero((truth >= 0) & (table >= 0).any(axis=1))
    require_shared(known, table, names, truth)
    sample = Sample(table[known], truth[known], annotations.classes.tolist(), level, seed)
    correlations, pairs = measures.error_correlations(sample.weights, sample.labels, sample.truth)
    correlation = np.eye(len(names))
    correlation[pairs[:, 0], pairs[:, 1]] = correlation[pairs[:, 1], pairs[:, 0]] = correlations[0]
    panel, panel_accuracy = measures.chosen_panel(sample.labels, sample.truth, sample.n_classes, seed)
    voted, prevalence = sample.prevalence(table, seed)
    return JuryReport(
        classes=tuple(sample.classes),
        reference=reference,
        n_reference=len(known),
        n_items=annotations.n_items,
        judges=tuple(sample.judge(at, name) for at, name in enumerate(names)),
        correlation=correlation,
        n_independent=sample.figure(measures.effective_number(correlations, len(names))),
        vote=sample.mean(measures.vote_scores(sample.labels, sample.truth, sample.n_classes)),
        panel=tuple(names[at] for at in panel),
        panel_accuracy=panel_accuracy,
        voted=voted,
        prevalence=prevalence,
        replaces={
            name: alternative_annotator_test(table[:, at], people, epsilon=epsilon)
            for at, name in enumerate(names)
            if people.shape[1] >= 2
        },
        level=level,
    )


class Sample:
    """The items of the reference, and bootstrap samples of them; row 0 of `weights` is the items as they are."""

    def __init__(self, labels: Table, truth: NDArray[Any], classes: list[Any], level: float, seed: int) -> None:
        self.labels, self.truth, self.classes, self.level = labels, truth, classes, level
        self.n_classes = len(classes)
        self.weights = np.vstack([np.ones(len(truth)), measures.bootstrap_weights(len(truth), seed)])

    def figure(self, values: FloatArray) -> Figure:
        """The first of the values, with the quantiles of the others."""
        drawn = values[1:][np.isfinite(values[1:])]
        if not np.isfinite(values[0]) or not len(drawn):
            return Figure(float("nan"), float("nan"), float("nan"))
        low, high = np.quantile(drawn, [(1 - self.level) / 2, (1 + self.level) / 2])
        return Figure(float(values[0]), float(min(low, values[0])), float(max(high, values[0])))

    def mean(self, scores: FloatArray) -> Figure:
        return self.figure(self.weights @ scores / self.weights.sum(axis=1))

    def judge(self, at: int, name: Any) -> Judge:
        given = self.labels[:, at] >= 0
        label, truth = self.labels[given, at], self.truth[given]
        right, named, true = measures.class_rates(self.weights[:, given], label, truth, self.n_classes)
        n, n_right = len(label), int((label == truth).sum())
        low = beta_interval(n_right, n - n_right + 1, level=self.level)[0]
        high = beta_interval(n_right + 1, n - n_right, level=self.level)[1]
        voters = (self.labels, np.delete(self.labels, at, axis=1))
        scores = [measures.vote_scores(labels, self.truth, self.n_classes) for labels in voters]
        return Judge(
            name=name,
            n=n,
            accuracy=Figure(n_right / n, float(low), float(high)),
            kappa=self.figure(beyond_chance(right, (named * true).sum(axis=1))),  # Cohen's
            over_use={one: self.figure((named - true)[:, code]) for code, one in enumerate(self.classes)},
            adds=self.mean(scores[0] - scores[1]),
        )

    def prevalence(self, table: Table, seed: int) -> tuple[dict[Any, float], dict[Any, Figure]]:
        """Shares of the classes among the votes on all items, raw and corrected for the errors of the vote."""
        known_votes, all_votes = (
            decide(measures.vote_counts(labels, self.n_classes), "split")
            for labels in (self.labels, table[(table >= 0).any(axis=1)])
        )
        voted = all_votes.mean(axis=0)
        random = stream(seed, "jury prevalence")
        found = []
        for place, weights in enumerate(self.weights):
            confusion = measures.vote_confusion(known_votes, self.truth, weights)
            drawn = voted if not place else random.multinomial(len(all_votes), voted / voted.sum()) / len(all_votes)
            found.append(measures.prevalence_from(drawn, confusion))
        shares = np.array(found)
        corrected = {name: self.figure(shares[:, code]) for code, name in enumerate(self.classes)}
        return dict(zip(self.classes, voted.tolist(), strict=True)), corrected


def split_table(annotations: Annotations, people: list[Any]) -> tuple[Table, Table, list[Any]]:
    """Labels of the judges, labels of the humans, and the names of the judges."""
    place = known_positions(annotations.annotators, people, "annotators", given="humans", parameter="humans")
    table = annotations.to_dense().astype(np.int64)
    judges = np.setdiff1d(np.arange(annotations.n_annotators), place)
    if not len(judges):
        raise InvalidParameterError("Every annotator is a human: there is no judge.", parameter="humans")
    return table[:, judges], table[:, place], annotations.annotators[judges].tolist()


def reference_of(annotations: Annotations, people: Table) -> tuple[NDArray[np.int64], str]:
    """(n_items,) class of each item by gold, else by the majority of the humans; -1 where unknown or tied."""
    if annotations.gold is not None and annotations.gold.count():
        return np.where(np.ma.getmaskarray(annotations.gold), -1, annotations.gold.data).astype(np.int64), "gold"
    if not people.shape[1]:
        raise InvalidAnnotationsError(
            "There is nothing to compare the judges with: no gold, and no humans are named.",
            remedy="Pass {gold_file:gold.csv}, or name the people with {humans}",
        )
    votes = measures.vote_counts(people, annotations.n_classes)
    clear = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) == 1
    count = people.shape[1]
    return np.where(clear, votes.argmax(axis=1), -1), f"the majority of {count} humans" if count > 1 else "one human"


def require_shared(known: NDArray[Any], table: Table, names: list[Any], truth: NDArray[Any]) -> None:
    if len(known) < MIN_REFERENCE:
        raise InvalidAnnotationsError(
            f"Judges and reference share {len(known)} items ({int((truth >= 0).sum())} items have a reference); at "
            f"least {MIN_REFERENCE} are needed. Add gold, or human labels of items that the judges labelled."
        )
    given = (table[known] >= 0).astype(np.int64)
    idle = [name for name, count in zip(names, given.sum(axis=0), strict=True) if not count]
    if idle:
        raise InvalidAnnotationsError(
            f"{len(idle)} of {len(names)} judges labelled no item of the reference; the first is {idle[0]!r}. Leave "
            "them out, or let them label these items."
        )
    apart = np.argwhere(np.triu(given.T @ given == 0, 1))
    if len(apart):
        first, second = (names[at] for at in apart[0])
        raise InvalidAnnotationsError(
            f"{len(apart)} of {len(names) * (len(names) - 1) // 2} pairs of judges have no item of the reference in "
            f"common; the first are {first!r} and {second!r}. Let all judges label the same items, or measure them "
            "apart."
        )
