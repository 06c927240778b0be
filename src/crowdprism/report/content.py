"""From a FitResult (and the annotations) to what the report says; pure, without HTML."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import same_names
from crowdprism.diagnostics.agreement import AgreementReport, agreement
from crowdprism.diagnostics.calibration import calibration
from crowdprism.errors import CrowdprismWarning, InvalidParameterError, some
from crowdprism.report.annotator_rows import Judged, build_annotators, chance_level, crowd_confusion, judge
from crowdprism.report.graph_layout import build_graph, pair_counts
from crowdprism.report.names_shown import shown_name, visible
from crowdprism.report.report_records import (
    Agreement,
    Appendix,
    Check,
    ClassRow,
    Comparison,
    Curve,
    Figure,
    PairTable,
    Reliability,
    ReportContent,
)
from crowdprism.report.review_items import build_review
from crowdprism.report.verdict import build_verdict, examined, labelled
from crowdprism.results import FitResult

MOST_CURVES = 6
MOST_STEPS = 300
N_CERTAINTY_BINS = 20
LEAST_GOLD = 20  # with fewer gold labels a reliability curve is noise
MOST_PAIR_NAMES = 20
LEAST_SHARED = 5
NOT_OF_THE_FIT = ("checkpoint", "resume", "callbacks", "n_workers")  # they change where and how, not what is learned
MOST_EXAMINED_CLASSES = 20  # the geometry of more classes takes tens of seconds


def build_content(
    result: FitResult,
    annotations: Annotations | None = None,
    *,
    comparison: Sequence[Mapping[str, Any]] = (),
    comparison_note: str = "",
    command: str = "",
    examine: bool | None = None,
) -> ReportContent:
    """All that the report says, from what was learned and, where given, the annotations it was learned from.

    Examples
    --------
    >>> from crowdprism import Annotations, make_aggregator
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]])
    >>> content = build_content(make_aggregator("dawid-skene").fit(a).result_, a)
    >>> content.sizes
    '12 annotations of 4 items by 3 annotators, 2 classes'
    """
    if annotations is not None:
        annotations = matching(result, annotations)
    agreed = measured_agreement(annotations)
    judged = judge(result, annotations)
    table = build_annotators(result, annotations, judged)
    checks = identifiability_checks(result, annotations, examine)
    return ReportContent(
        method=result.method,
        sizes=sizes(result, annotations),
        classes=tuple(shown_name(name) for name in result.classes),
        verdict=build_verdict(result, annotations, agreed, table, checks),
        figures=first_figures(result, annotations, judged),
        certainty=certainty(labelled(result, annotations)),
        chance=chance_level(result) if result.n_items else 0.0,
        class_rows=class_rows(result, annotations),
        annotators=table,
        crowd=crowd_confusion(result, annotations),
        review=build_review(result, annotations),
        curves=curves(result),
        reliability=reliability(result, annotations),
        graph=None if annotations is None or agreed is None else build_graph(annotations, agreed.graph),
        agreement=None if annotations is None or agreed is None else agreement_section(annotations, agreed),
        checks=checks,
        comparison=comparison_table(comparison, comparison_note),
        appendix=appendix(result, command),
    )


def identifiability_checks(
    result: FitResult, annotations: Annotations | None, examine: bool | None
) -> tuple[Check, ...]:
    """Whether the labels determine what was learned; None examines where that is quick."""
    if annotations is None or not result.n_items or examine is False:
        return ()
    if examine is None and result.n_classes > MOST_EXAMINED_CLASSES:
        text = f"Not examined, because it takes long with {result.n_classes} classes."
        return (Check("identifiability", "note", text, "`crowdprism diagnose` does it."),)
    return examined(result, annotations)


def matching(result: FitResult, annotations: Annotations) -> Annotations:
    """The annotations in the order of the result; an error where they are not those it was learned from."""
    for role in ("annotators", "classes"):
        ours, theirs = getattr(result, role), getattr(annotations, role)
        if not same_names(ours, theirs):
            raise InvalidParameterError(
                f"The annotations are not those of this result: it has {len(ours)} {role} ({some(ours.tolist())}), "
                f"they have {len(theirs)} ({some(theirs.tolist())}). Pass the annotations it was fitted to."
            )
    if same_names(result.items, annotations.items):
        return annotations
    with warnings.catch_warnings():
        warnings.simplefilter("error", CrowdprismWarning)
        try:
            return annotations.align_items(result.items)
        except CrowdprismWarning as partly:
            raise InvalidParameterError(f"The annotations are not those of this result: {partly}") from partly


def measured_agreement(annotations: Annotations | None) -> AgreementReport | None:
    """Agreement, where two people labelled the same item; what it warns of becomes a finding."""
    if annotations is None or not (annotations.labels_per_item > 1).any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdprismWarning)
        return agreement(annotations)


def sizes(result: FitResult, annotations: Annotations | None) -> str:
    """One line: how much was labelled by whom."""
    n_annotations = None if annotations is None else annotations.n_annotations
    if n_annotations is None and result.labels_per_annotator is not None:
        n_annotations = int(result.labels_per_annotator.sum())
    begin = "" if n_annotations is None else f"{n_annotations:,} annotations of "
    return f"{begin}{result.n_items:,} items by {result.n_annotators:,} annotators, {result.n_classes:,} classes"


def first_figures(result: FitResult, annotations: Annotations | None, judged: Judged) -> tuple[Figure, ...]:
    """The numbers to look at first."""
    top = labelled(result, annotations).max(axis=1)
    found = []
    if len(top):
        found.append(Figure("labels expected to be right", f"{top.mean():.1%}", "by the method's own probabilities"))
        found.append(Figure("items below 90%", f"{int((top < 0.9).sum()):,}", f"of {len(top):,}"))
    known = np.empty(0) if judged.accuracy is None else judged.accuracy[np.isfinite(judged.accuracy)]
    if len(known):
        low, middle, high = np.quantile(known, [0, 0.5, 1])
        found.append(Figure("median annotator accuracy", f"{middle:.0%}", f"from {low:.0%} to {high:.0%}"))
    if annotations is None:
        return tuple(found)
    if annotations.n_items:
        mean = annotations.n_annotations / annotations.n_items
        found.append(Figure("labels per item", f"{mean:.1f}", f"at most {int(annotations.labels_per_item.max())}"))
    best = np.argmax(result.class_probabilities, axis=1)
    if annotations.gold is not None:
        judged_items = np.ma.compressed((annotations.gold == best)[annotations.labels_per_item > 0])
        if len(judged_items):
            share = f"{judged_items.mean():.1%}"
            found.insert(0, Figure("right against gold", share, f"on {len(judged_items):,} items"))
    if annotations.n_annotations:
        kept = float((annotations.label == best[annotations.item]).mean())
        found.append(Figure("given labels that stand", f"{kept:.0%}", "the others were outvoted or discounted"))
    return tuple(found)


def certainty(class_probabilities: NDArray[Any]) -> tuple[int, ...]:
    """How many items have a label of which probability, in equal bins."""
    top = class_probabilities.max(axis=1)
    place = np.minimum((top * N_CERTAINTY_BINS).astype(int), N_CERTAINTY_BINS - 1)
    return tuple(np.bincount(place, minlength=N_CERTAINTY_BINS).tolist())


def class_rows(result: FitResult, annotations: Annotations | None) -> tuple[ClassRow, ...]:
    """One row per class."""
    best = np.bincount(np.argmax(result.class_probabilities, axis=1), minlength=result.n_classes)
    given = None if annotations is None else np.bincount(annotations.label, minlength=result.n_classes)
    return tuple(
        ClassRow(
            name=shown_name(name),
            n_items=int(best[code]),
            item_share=float(best[code] / max(result.n_items, 1)),
            label_share=None if given is None else float(given[code] / max(given.sum(), 1)),
        )
        for code, name in enumerate(result.classes)
    )


def curves(result: FitResult) -> tuple[Curve, ...]:
    """The histories of the fit that have at least two finite numbers, thinned where long."""
    found = []
    for name, values in result.history.items():
        finite = np.flatnonzero(np.isfinite(np.asarray(values, dtype=float)))
        if len(finite) < 2:
            continue
        chosen = finite[np.unique(np.linspace(0, len(finite) - 1, min(len(finite), MOST_STEPS)).astype(int))]
        found.append(Curve(shown_name(name).replace("_", " "), chosen.tolist(), [float(values[at]) for at in chosen]))
    return tuple(found[:MOST_CURVES])


def reliability(result: FitResult, annotations: Annotations | None) -> Reliability | None:
    """How often labels of each probability are right, where gold is known."""
    if annotations is None or annotations.gold is None:
        return None
    gold = annotations.gold[annotations.labels_per_item > 0]
    if gold.count() < LEAST_GOLD:
        return None
    measured = calibration(labelled(result, annotations), gold)
    full = np.flatnonzero(measured.curve.count)
    return Reliability(
        probability=measured.curve.confidence[full].tolist(),
        accuracy=measured.curve.accuracy[full].tolist(),
        count=measured.curve.count[full].tolist(),
        expected_error=measured.expected_calibration_error,
    )


def agreement_section(annotations: Annotations, agreed: AgreementReport) -> Agreement:
    """Coefficients in words, and who agrees with whom."""
    figures = (
        Figure("equal labels", shown_share(agreed.raw), "of two annotators on one item"),
        Figure("Krippendorff's alpha", shown_number(agreed.alpha), "0 is chance, 1 is full agreement"),
        Figure("Fleiss' kappa", shown_number(agreed.fleiss), "0 is chance, 1 is full agreement"),
        Figure("Gwet's AC1", shown_number(agreed.ac1), "steadier where one class is much more frequent"),
    )
    return Agreement(figures, pair_table(annotations))


def shown_number(value: float) -> str:
    """Two digits, or a dash where the number is not defined."""
    return "–" if np.isnan(value) else f"{value:.2f}"  # noqa: RUF001


def shown_share(value: float) -> str:
    """A percentage, or a dash where it is not defined."""
    return "–" if np.isnan(value) else f"{value:.0%}"  # noqa: RUF001


def pair_table(annotations: Annotations) -> PairTable | None:
    """Share of equal labels between the busiest annotators."""
    busiest = np.argsort(-annotations.labels_per_annotator, kind="stable")[:MOST_PAIR_NAMES]
    common, agreeing = pair_counts(annotations, busiest)
    enough = common >= LEAST_SHARED
    if not enough.any():
        return None
    share = agreeing / np.maximum(common, 1)
    shown = [
        [float(value) if there else None for value, there in zip(row, known, strict=True)]
        for row, known in zip(share, enough, strict=True)
    ]
    note = f"The {len(busiest)} busiest annotators; empty where two share fewer than {LEAST_SHARED} items."
    return PairTable([shown_name(annotations.annotators[code]) for code in busiest], shown, note)


def comparison_table(rows: Sequence[Mapping[str, Any]], note: str = "") -> Comparison | None:
    """Methods side by side, in the order given."""
    if not rows:
        return None
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    shown = tuple(tuple(shown_cell(row.get(name)) for name in columns) for row in rows)
    return Comparison(tuple(shown_name(name) for name in columns), shown, visible(note) or "In order of merit.")


def shown_cell(value: Any) -> str:
    """A cell as text: fractions with three digits, absent values as a dash."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "–"  # noqa: RUF001
    return f"{value:.3f}" if isinstance(value, float) else shown_name(value)


def appendix(result: FitResult, command: str) -> Appendix:
    """What is needed to repeat the fit."""
    said = {name: value for name, value in result.parameters.items() if name not in NOT_OF_THE_FIT}
    given = ", ".join(f"{name}={value!r}" for name, value in said.items())
    aggregates = "X" not in result.parameters and not any(name in result.parameters for name in ("network", "epochs"))
    maker = "make_aggregator" if aggregates else "make_classifier"
    call = f'cp.{maker}("{result.method}"{", " + given if given else ""})'
    fit = ".fit(annotations)" if aggregates else ".fit(X, annotations)"
    return Appendix(
        python=f"import crowdprism as cp\n\nresult = {visible(call)}{fit}.result_",
        command=visible(command),
        seed="none" if result.seed is None else str(result.seed),
        parameters={str(name): shown_name(repr(value)) for name, value in result.parameters.items()},
        versions=result.versions,
        warnings=tuple(visible(text) for text in result.warnings),
    )
