"""What the report says, as plain records: no HTML, no charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["good", "note", "caution", "warning"]


@dataclass(frozen=True)
class Finding:
    """One reason to trust the result or not, in a sentence, with what would help."""

    level: Level
    text: str
    help: str = ""


@dataclass(frozen=True)
class Check:
    """One condition under which the labels determine what was learned, and whether it holds here."""

    name: str
    level: Level
    text: str
    help: str


@dataclass(frozen=True)
class Verdict:
    """Can it be trusted? The answer of the gravest finding, and all findings."""

    level: Level
    headline: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Figure:
    """A number to look at first."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class ClassRow:
    """One class: share of items it got, and share of given labels."""

    name: str
    n_items: int
    item_share: float
    label_share: float | None


@dataclass(frozen=True)
class AnnotatorRow:
    """One annotator: accuracy with interval, and as the method fitted it. Absent figures are None."""

    name: str
    n_labels: int | None
    accuracy: float | None
    low: float | None
    high: float | None
    fitted: float | None
    skill: float | None
    agreement: float | None
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Confusion:
    """A large entry of a confusion matrix: `given` said where `true` is right."""

    true: int
    given: int
    percent: int


@dataclass(frozen=True)
class AnnotatorTable:
    """The annotators shown, of `n_annotators` in all.

    `matrices[row]` holds whole percents (true class, given label), `confusions[row]` only the largest mistakes, where
    there are too many classes for matrices; None where it was left out to keep the page small.
    """

    rows: tuple[AnnotatorRow, ...]
    n_annotators: int
    matrices: tuple[Sequence[Sequence[int]] | None, ...]
    confusions: tuple[Sequence[Confusion] | None, ...]
    remark_counts: tuple[tuple[str, int], ...]  # the commonest remarks, and on how many of the rows
    by_others: bool  # whether accuracies are judged by the other annotators, or are the method's own
    note: str


@dataclass(frozen=True)
class CrowdConfusion:
    """The mean confusion of the crowd, each annotator counting by the labels given; whole percents."""

    matrix: Sequence[Sequence[int]] | None
    largest: tuple[Confusion, ...]


@dataclass(frozen=True)
class ReviewRow:
    """One item that a person should look at."""

    item: str
    label: str
    probability: float
    second: str
    given: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Review:
    """The items most worth a look, of `n_suspect` that have a reason."""

    rows: tuple[ReviewRow, ...]
    n_suspect: int
    note: str


@dataclass(frozen=True)
class Curve:
    """A named sequence of the fit, one number per step; long ones are thinned."""

    name: str
    steps: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True)
class Reliability:
    """Mean probability and share right per bin, and how far they are apart on average."""

    probability: Sequence[float]
    accuracy: Sequence[float]
    count: Sequence[int]
    expected_error: float


@dataclass(frozen=True)
class Graph:
    """Annotators placed on a plane, near those with whom they share items."""

    names: Sequence[str]
    x: Sequence[float]
    y: Sequence[float]
    n_labels: Sequence[int]
    edges: Sequence[tuple[int, int, int]]  # first, second, items shared
    parts: Sequence[tuple[int, int, int]]  # annotators, items, annotations of each connected part
    n_parts: int
    note: str


@dataclass(frozen=True)
class PairTable:
    """Share of equal labels between the busiest annotators; None where they share too few items."""

    names: Sequence[str]
    agreement: Sequence[Sequence[float | None]]
    note: str


@dataclass(frozen=True)
class Agreement:
    """Coefficients of agreement with what each means, and pairs."""

    coefficients: tuple[Figure, ...]
    pairs: PairTable | None


@dataclass(frozen=True)
class Comparison:
    """Methods side by side, already in the order of merit."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


@dataclass(frozen=True)
class Appendix:
    """What is needed to repeat the fit."""

    python: str
    command: str
    seed: str
    parameters: Mapping[str, Any]
    versions: Mapping[str, str]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ReportContent:
    """All that the page shows. Sections without content are None."""

    method: str
    sizes: str
    classes: tuple[str, ...]
    verdict: Verdict
    figures: tuple[Figure, ...]
    certainty: tuple[int, ...]  # items by probability of their label, in equal bins from 0 to 1
    chance: float  # accuracy of always naming the most frequent class
    class_rows: tuple[ClassRow, ...]
    annotators: AnnotatorTable
    crowd: CrowdConfusion | None
    review: Review
    curves: tuple[Curve, ...]
    reliability: Reliability | None
    graph: Graph | None
    agreement: Agreement | None
    checks: tuple[Check, ...]
    comparison: Comparison | None
    appendix: Appendix
