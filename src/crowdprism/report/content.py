"""What the report says, from a FitResult and its annotations; pure, without HTML."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.notebook import display_name, visible
from crowdprism.annotations.pairs import co_label_entries
from crowdprism.diagnostics.agreement import AgreementReport, agreement
from crowdprism.diagnostics.annotator_accounts import class_prior_of
from crowdprism.diagnostics.calibration import calibration
from crowdprism.diagnostics.co_labelling import CoLabellingGraph
from crowdprism.diagnostics.label_evidence import matching
from crowdprism.errors import CrowdprismWarning, counted
from crowdprism.report import report_records as records
from crowdprism.report.annotator_rows import build_annotators, crowd_confusion, judge, labels_per_annotator
from crowdprism.report.report_records import Figure, ReportContent, ReportOptions
from crowdprism.report.review_items import UNCERTAIN, build_review
from crowdprism.report.verdict import build_verdict, examined, labelled, next_steps
from crowdprism.results import FitResult

MOST_CURVES = 6
MOST_STEPS = 300
N_CERTAINTY_BINS = 20
LEAST_GOLD = 20  # with fewer gold labels a reliability curve is noise
MOST_PAIR_NAMES = 20
LEAST_SHARED = 5
NOT_OF_THE_FIT = ("checkpoint", "resume", "callbacks", "n_workers")  # they change where and how, not what is learned
MOST_NODES = 40
MOST_EDGES = 160
MOST_PARTS = 5
N_LAYOUT_STEPS = 150
NEAREST = 1e-3


def build_content(
    result: FitResult, annotations: Annotations | None = None, options: ReportOptions | None = None
) -> ReportContent:
    """Everything that the report says, from the result and, if given, the annotations it was learned from."""
    options = options or ReportOptions()
    annotations = None if annotations is None else matching(result, annotations)
    result = with_account(result, annotations)
    agreed = measured_agreement(annotations)
    judged = judge(result, annotations)
    table = build_annotators(result, annotations, judged, agreed)
    graph = None if agreed is None else agreed.graph
    checks = () if annotations is None else examined(result, annotations, graph, options.examine)
    verdict = build_verdict(result, annotations, agreed, table, checks)
    review = build_review(result, annotations, options)
    return ReportContent(
        method=result.method,
        source=display_name(options.source) if options.source else "",
        steps=tuple(next_steps(result, review, table, verdict, options.source)),
        sizes=sizes(result, annotations),
        classes=tuple(display_name(name) for name in result.classes),
        verdict=verdict,
        figures=first_figures(result, annotations),
        certainty=certainty(result, labelled(result, annotations)),
        chance=float(np.max(class_prior_of(result))) if result.n_items else 0.0,
        class_rows=class_rows(result, annotations),
        annotators=table,
        crowd=crowd_confusion(result, annotations),
        review=review,
        curves=curves(result),
        reliability=reliability(result, annotations),
        graph=None if annotations is None or agreed is None else build_graph(annotations, agreed.graph),
        agreement=None if annotations is None or agreed is None else agreement_section(annotations, agreed),
        checks=checks,
        comparison=comparison_table(options.comparison, options.comparison_note),
        appendix=appendix(result, options.command),
    )


def with_account(result: FitResult, annotations: Annotations | None) -> FitResult:
    """The result with an account by these annotations, where it has none or they have other gold."""
    if annotations is None:
        return result
    n_gold = 0 if annotations.gold is None else int(annotations.gold.count())
    if result.account is not None and result.account.n_gold == n_gold:
        return result if result.annotations is not None else replace(result, annotations=annotations)
    return replace(result, annotations=annotations, saved_account=None)


def measured_agreement(annotations: Annotations | None) -> AgreementReport | None:
    """Agreement, if any item has two labels; its warning becomes a finding."""
    if annotations is None or not (annotations.labels_per_item > 1).any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdprismWarning)
        return agreement(annotations)


def sizes(result: FitResult, annotations: Annotations | None) -> str:
    n_labels = labels_per_annotator(result, annotations)
    begin = "" if n_labels is None else f"{counted(int(n_labels.sum()), 'annotation')} of "
    items, annotators = counted(result.n_items, "item"), counted(result.n_annotators, "annotator")
    return f"{begin}{items} by {annotators}, {counted(result.n_classes, 'class', 'classes')}"


def first_figures(result: FitResult, annotations: Annotations | None) -> tuple[Figure, ...]:
    found = []
    if result.account is not None and result.n_items:
        expected = result.account.expected_accuracy
        source = f"{result.account.n_gold:,} gold answers" if result.account.n_gold else "what other crowds reached"
        remark = f"{expected.low:.0%} to {expected.high:.0%}, by {source}"
        found.append(Figure("labels expected to be right", f"{expected.value:.0%}", remark))
        confidence = result.account.confidence[labelled(result, annotations)]
        doubtful = int((confidence < UNCERTAIN).sum())
        found.append(Figure(f"items of confidence below {UNCERTAIN:.0%}", f"{doubtful:,}", f"of {len(confidence):,}"))
    accuracy = result.annotator_accuracy
    known = np.empty(0) if accuracy is None else accuracy[np.isfinite(accuracy)]
    if len(known):
        low, middle, high = np.quantile(known, [0, 0.5, 1])
        found.append(Figure("median annotator accuracy", f"{middle:.0%}", f"from {low:.0%} to {high:.0%}"))
    if annotations is None:
        return tuple(found)
    n_labelled = int((annotations.labels_per_item > 0).sum())
    if n_labelled:
        mean, without = annotations.n_annotations / n_labelled, annotations.n_items - n_labelled
        most = f"at most {int(annotations.labels_per_item.max())}"
        remark = f"{most}; {without:,} items have none" if without else most
        found.append(Figure("labels per item", f"{mean:.1f}", remark))
    best = np.argmax(result.class_probabilities, axis=1)
    if annotations.gold is not None:
        unaided = np.argmax(result.blind.class_probabilities, axis=1)
        judged_items = np.ma.compressed((annotations.gold == unaided)[annotations.labels_per_item > 0])
        if len(judged_items):
            share, hidden = f"{judged_items.mean():.1%}", " whose gold was hidden" if result.n_known else ""
            found.insert(0, Figure("right against gold", share, f"on {len(judged_items):,} items{hidden}"))
    if annotations.n_annotations:
        kept = float((annotations.label == best[annotations.item]).mean())
        found.append(Figure("given labels kept", f"{kept:.0%}", "the others differ from the label of their item"))
    return tuple(found)


def certainty(result: FitResult, shown: NDArray[Any]) -> tuple[int, ...]:
    """Number of items by the confidence of their label, in equal bins; empty if it is unknown."""
    if result.confidence is None:
        return ()
    place = np.minimum((result.confidence[shown] * N_CERTAINTY_BINS).astype(int), N_CERTAINTY_BINS - 1)
    return tuple(np.bincount(place, minlength=N_CERTAINTY_BINS).tolist())


def class_rows(result: FitResult, annotations: Annotations | None) -> tuple[records.ClassRow, ...]:
    best = np.bincount(np.argmax(result.class_probabilities, axis=1), minlength=result.n_classes)
    given = None if annotations is None else np.bincount(annotations.label, minlength=result.n_classes)
    return tuple(
        records.ClassRow(
            name=display_name(name),
            n_items=int(best[code]),
            item_share=float(best[code] / max(result.n_items, 1)),
            label_share=None if given is None else float(given[code] / max(given.sum(), 1)),
        )
        for code, name in enumerate(result.classes)
    )


def curves(result: FitResult) -> tuple[records.Curve, ...]:
    """The histories of the fit with at least two finite numbers, thinned if long."""
    found = []
    for name, values in result.history.items():
        finite = np.flatnonzero(np.isfinite(np.asarray(values, dtype=float)))
        if len(finite) < 2 or name == "stage":  # which round an iteration belongs to
            continue
        chosen = finite[np.unique(np.linspace(0, len(finite) - 1, min(len(finite), MOST_STEPS)).astype(int))]
        kept = [float(values[at]) for at in chosen]
        found.append(records.Curve(display_name(name).replace("_", " "), chosen.tolist(), kept))
    return tuple(found[:MOST_CURVES])


def reliability(result: FitResult, annotations: Annotations | None) -> records.Reliability | None:
    """How often labels of each of the model's probabilities are right, if enough gold is known."""
    if annotations is None or annotations.gold is None:
        return None
    gold = annotations.gold[annotations.labels_per_item > 0]
    if gold.count() < LEAST_GOLD:
        return None
    measured = calibration(result.blind.class_probabilities[labelled(result, annotations)], gold)
    full = np.flatnonzero(measured.curve.count)
    columns = (measured.curve.confidence, measured.curve.accuracy, measured.curve.count)
    bins = list(zip(*(column[full].tolist() for column in columns), strict=True))
    return records.Reliability(bins, measured.expected_calibration_error)


def agreement_section(annotations: Annotations, agreed: AgreementReport) -> records.Agreement:
    """Coefficients in words, and who agrees with whom."""
    scale = "0 is chance, 1 is full agreement"
    figures = (
        Figure("equal labels", f"{agreed.raw:.0%}", "of two annotators on one item"),
        Figure("Krippendorff's alpha", format_cell(agreed.alpha, digits=2), scale),
        Figure("Fleiss' kappa", format_cell(agreed.fleiss, digits=2), scale),
        Figure("Gwet's AC1", format_cell(agreed.ac1, digits=2), "more stable if one class is much more frequent"),
    )
    return records.Agreement(figures, pair_table(annotations))


def pair_table(annotations: Annotations) -> records.PairTable | None:
    """Share of equal labels between the annotators with most labels."""
    chosen = np.argsort(-annotations.labels_per_annotator, kind="stable")[:MOST_PAIR_NAMES]
    common, agreeing = pair_counts(annotations, chosen)
    enough = common >= LEAST_SHARED
    if not enough.any():
        return None
    share = np.ma.array(agreeing / np.maximum(common, 1), mask=~enough).tolist()  # None where masked
    note = f"The {len(chosen)} annotators with most labels; empty if two share fewer than {LEAST_SHARED} items."
    return records.PairTable([display_name(annotations.annotators[code]) for code in chosen], share, note)


def pair_counts(annotations: Annotations, chosen: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(chosen, chosen) items shared, and those of them with equal labels."""
    position = np.full(annotations.n_annotators, -1)
    position[chosen] = np.arange(len(chosen))
    among_them = annotations.select(position[annotations.annotator] >= 0)
    entries = co_label_entries(replace(among_them, weight=None))
    common, agreeing = np.zeros((2, len(chosen), len(chosen)))
    first, second = position[entries.first], position[entries.second]
    common[first, second] = common[second, first] = entries.common()
    agreeing[first, second] = agreeing[second, first] = entries.agreeing()
    return common, agreeing


def build_graph(annotations: Annotations, groups: CoLabellingGraph) -> records.Graph:
    """Place the annotators with most labels near those with whom they share items."""
    chosen = np.argsort(-annotations.labels_per_annotator, kind="stable")[:MOST_NODES]
    shared, _ = pair_counts(annotations, chosen)
    place = spring_layout(shared)
    first, second = np.nonzero(np.triu(shared, 1))
    strongest = np.argsort(-shared[first, second], kind="stable")[:MOST_EDGES]
    notes = []
    if len(chosen) < annotations.n_annotators:
        notes.append(f"The graph shows the {len(chosen)} of {annotations.n_annotators} annotators with most labels.")
    if len(strongest) < len(first):
        notes.append(f"Lines show the {len(strongest)} of {len(first)} pairs that share most items.")
    sizes_of = (groups.n_annotators, groups.n_items, groups.n_annotations)
    return records.Graph(
        names=[display_name(annotations.annotators[row]) for row in chosen],
        x=place[:, 0].tolist(),
        y=place[:, 1].tolist(),
        n_labels=annotations.labels_per_annotator[chosen].tolist(),
        edges=[(int(a), int(b), int(shared[a, b])) for a, b in zip(first[strongest], second[strongest], strict=True)],
        parts=list(zip(*(size[:MOST_PARTS].tolist() for size in sizes_of), strict=True)),
        n_parts=groups.n_parts,
        note=" ".join(notes),
    )


def spring_layout(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 2) places by attraction along edges and repulsion (Fruchterman and Reingold 1991), beginning on a circle."""
    n = len(weights)
    angle = 2 * np.pi * np.arange(n) / max(n, 1)
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    pull = weights / max(float(weights.max(initial=0.0)), 1.0)
    ideal = 1.5 / np.sqrt(max(n, 1))
    for step in range(N_LAYOUT_STEPS):
        apart = place[:, None] - place[None]
        distance = np.maximum(np.linalg.norm(apart, axis=2, keepdims=True), NEAREST)
        force = apart / distance * (ideal**2 / distance - pull[..., None] * distance**2 / ideal)
        move = force.sum(axis=1) - 0.5 * place  # the last term keeps unconnected parts in the picture
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), NEAREST)
        place = place + move / length * np.minimum(length, 0.2 * (1 - step / N_LAYOUT_STEPS))
    spread = np.abs(place).max(initial=NEAREST)
    return np.asarray(place / spread)


def comparison_table(rows: Sequence[Mapping[str, Any]], note: str = "") -> records.Comparison | None:
    if not rows:
        return None
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    cells = tuple(tuple(format_cell(row.get(name)) for name in columns) for row in rows)
    return records.Comparison(tuple(map(display_name, columns)), cells, visible(note) or "The best method first.")


def format_cell(value: Any, *, digits: int = 3) -> str:
    """A value as text; a dash if it is unknown."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "–"  # noqa: RUF001
    return f"{value:.{digits}f}" if isinstance(value, float) else display_name(value)


def appendix(result: FitResult, command: str) -> records.Appendix:
    said = {name: value for name, value in result.parameters.items() if name not in NOT_OF_THE_FIT}
    given = ", ".join(f"{name}={value!r}" for name, value in said.items())
    aggregates = "X" not in result.parameters and not any(name in result.parameters for name in ("network", "epochs"))
    maker = "make_aggregator" if aggregates else "make_classifier"
    call = f'cp.{maker}("{result.method}"{", " + given if given else ""})'
    fit = ".fit(annotations)" if aggregates else ".fit(X, annotations)"
    return records.Appendix(
        python=f"import crowdprism as cp\n\nresult = {visible(call)}{fit}.result_",
        command=visible(command),
        seed="none" if result.seed is None else str(result.seed),
        parameters={str(name): display_name(repr(value)) for name, value in result.parameters.items()},
        versions=result.versions,
    )
