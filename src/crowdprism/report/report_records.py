"""What the report says, as plain records: no HTML, no charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from crowdprism.diagnostics.findings import Finding, Severity
from crowdprism.formats.item_content import ItemContent, Shown


@dataclass(frozen=True)
class ReportOptions:
    """What can be chosen for a report."""

    comparison: Sequence[Mapping[str, Any]] = ()  # of methods, best first: one mapping of column to value per method
    comparison_note: str = ""  # below the comparison, such as which method is recommended and why
    command: str = ""  # the command line that made the result, for the appendix
    examine: bool | None = None  # whether annotations determine what was learned; by default with up to 20 classes
    made: datetime | None = None  # time shown on the page; now by default
    source: str = ""  # name of the annotation file or files, for the title and for commands
    # What to show of items, or a function from item names to it.
    content: ItemContent | Callable[[Sequence[Any]], ItemContent] = ItemContent()  # noqa: RUF009 - frozen


Level = Literal["confirmed", "unconfirmed", "unreliable"]  # by gold; consistent at best; do not rely on the labels


class Verdict(NamedTuple):
    """Can the labels be trusted? The level, the highest severity found, what was checked, and all findings."""

    level: Level
    severity: Severity
    headline: str
    scope: str
    findings: tuple[Finding, ...]


class Step(NamedTuple):
    text: str
    command: str = ""
    link: str = ""
    link_text: str = ""


class Figure(NamedTuple):
    name: str
    value: str
    remark: str = ""


class ClassRow(NamedTuple):
    name: str
    n_items: int
    item_share: float
    label_share: float | None


class Story(NamedTuple):
    """What an annotator did, in the order that `page.js` expects."""

    n_agreeing: int  # labels that equal the label found
    seconds: float | None = None  # per label
    early: float | None = None  # share of labels that equal the label found, in the first half by time
    late: float | None = None  # and in the second
    examples: tuple[tuple[str, int, int], ...] = ()  # item, given label, label found; the most certain first


class AnnotatorRow(NamedTuple):
    """One annotator: accuracy with its interval. Unknown numbers are None. In the order of the columns in `page.js`."""

    name: str
    n_labels: int | None
    accuracy: float | None
    low: float | None
    high: float | None
    skill: float | None
    agreement: float | None
    remarks: tuple[str, ...]
    story: Story | None = None


class Confusion(NamedTuple):
    """A large entry of a confusion matrix: items of class `true` that get the label `given`."""

    true: int
    given: int
    percent: int


@dataclass(frozen=True)
class AnnotatorTable:
    """The annotators shown, of `n_annotators` in all."""

    rows: tuple[AnnotatorRow, ...]
    n_annotators: int
    matrices: tuple[Sequence[Sequence[int]] | None, ...]  # by row: percents (true class, given label), if they fit
    confusions: tuple[Sequence[Confusion] | None, ...]  # by row: the largest mistakes, if classes are many
    remark_counts: tuple[tuple[str, int], ...]  # the most common remarks, and the number of rows with them
    by_account: bool  # whether accuracies are those of the result's account, or of the method
    copies: tuple[tuple[str, ...], ...]  # groups who agree with each other beyond what skill explains
    copied_share: float  # share of all labels that these groups gave
    note: str


class CrowdConfusion(NamedTuple):
    matrix: Sequence[Sequence[int]] | None
    largest: tuple[Confusion, ...]


class ReviewRow(NamedTuple):
    """One item that a person should look at, in the order of the columns in `page.js`."""

    item: str
    label: str
    confidence: float | None
    second: str
    given: str
    reasons: tuple[str, ...]
    shown: tuple[Shown, ...] = ()
    who: tuple[tuple[str, str], ...] = ()  # annotator and label, where known


class Review(NamedTuple):
    """The items most worth a look, of `n_suspect` that have a reason for it."""

    rows: tuple[ReviewRow, ...]
    n_suspect: int
    note: str


class Curve(NamedTuple):
    name: str
    steps: Sequence[int]
    values: Sequence[float]


class Reliability(NamedTuple):
    """Mean probability, share of right labels and number of items per bin, and the average difference of the shares."""

    bins: Sequence[tuple[float, float, int]]
    expected_error: float


class Graph(NamedTuple):
    names: Sequence[str]
    x: Sequence[float]
    y: Sequence[float]
    n_labels: Sequence[int]
    edges: Sequence[tuple[int, int, int]]  # first, second, items shared
    parts: Sequence[tuple[int, int, int]]  # annotators, items, annotations of each connected group
    n_parts: int
    note: str


class PairTable(NamedTuple):
    """Share of equal labels between the annotators with most labels; None where they share too few items."""

    names: Sequence[str]
    agreement: Sequence[Sequence[float | None]]
    note: str


class Agreement(NamedTuple):
    coefficients: tuple[Figure, ...]
    pairs: PairTable | None


class Comparison(NamedTuple):
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


class Appendix(NamedTuple):
    python: str
    command: str
    seed: str
    parameters: Mapping[str, Any]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class ReportContent:
    """Everything that the page shows. Sections without content are None."""

    method: str
    source: str
    sizes: str
    steps: tuple[Step, ...]
    classes: tuple[str, ...]
    verdict: Verdict
    figures: tuple[Figure, ...]
    certainty: tuple[int, ...]  # items by confidence of their label, in equal bins from 0 to 1; empty if unknown
    chance: float  # accuracy of always naming the most frequent class
    class_rows: tuple[ClassRow, ...]
    annotators: AnnotatorTable
    crowd: CrowdConfusion | None
    review: Review
    curves: tuple[Curve, ...]
    reliability: Reliability | None
    graph: Graph | None
    agreement: Agreement | None
    checks: tuple[Finding, ...]
    comparison: Comparison | None
    appendix: Appendix
