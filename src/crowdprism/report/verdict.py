"""Can the labels be trusted? Findings, and the verdict of the most serious one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.notebook import visible
from crowdprism.diagnostics.agreement import AgreementReport
from crowdprism.diagnostics.co_labelling import CoLabellingGraph
from crowdprism.diagnostics.findings import SEVERITIES, Finding, Severity, worst
from crowdprism.diagnostics.identifiability import examine
from crowdprism.report.annotator_rows import ADVERSE, CARELESS, COPIES, FEW_LABELS
from crowdprism.report.report_records import AnnotatorTable, Verdict
from crowdprism.results import FitResult

DECISIVE = ("class order", "rank of confusions", "rank of class probabilities")  # if they fail, labels mean nothing
WORST_CASE = ("error bound", "conditions of Theorem 1")  # hardly ever met, so no reason for distrust
HEADLINES: dict[Severity, str] = {
    "good": "No problems found",
    "note": "No problems found",
    "caution": "Use these labels with care",
    "warning": "Do not rely on these labels yet",
}
# Krippendorff (2004) asks for 0.8 to rely on raw labels and 0.667 for tentative conclusions. Aggregation needs far less
# because it averages; near zero, however, there is nothing to average.
HARDLY_ANY_AGREEMENT, SOME_AGREEMENT = 0.1, 0.4
THIN_SHARE = 0.5  # if more items than this have a single label, most labels rest on one annotator
UNSURE_SHARE = 0.2
SURE = 0.9
N_NAMES = 3


def build_verdict(
    result: FitResult,
    annotations: Annotations | None,
    agreement: AgreementReport | None,
    annotators: AnnotatorTable,
    checks: Sequence[Finding] = (),
) -> Verdict:
    """Collect all findings, the most serious first; its severity gives the headline."""
    found = [*from_checks(checks), *from_labels(labelled(result, annotations))]
    if annotations is not None and agreement is not None:
        found += [*from_agreement(agreement), *from_coverage(agreement), *from_gold(result, annotations)]
    found += [*from_annotators(annotators), *(Finding("fit", "caution", visible(text)) for text in result.warnings)]
    if annotations is None:
        sentence = "Agreement and coverage were not checked, because the report was made without the annotations."
        found.append(Finding("annotations", "note", sentence, "Pass them: result.report(path, annotations)."))
    found.sort(key=lambda finding: -SEVERITIES.index(finding.severity))
    severity = worst(found)
    return Verdict(severity, HEADLINES[severity], scope_of(found), tuple(found))


def scope_of(findings: Sequence[Finding]) -> str:
    """Which checks were made, and whether true classes were among what labels were compared with.

    Examples
    --------
    >>> scope_of([Finding("agreement", "good", "..."), Finding("gold", "good", "...")])
    'Checked: agreement, gold.'
    """
    checked = dict.fromkeys(finding.name for finding in findings if finding.severity != "note")
    text = f"Checked: {', '.join(checked)}." if checked else "Nothing could be checked."
    if "gold" in checked:
        return text
    return f"{text} Without gold (known true classes), these checks cannot show how many labels are right."


def examined(result: FitResult, annotations: Annotations, graph: CoLabellingGraph | None) -> tuple[Finding, ...]:
    """Whether the annotations determine what was learned, condition by condition."""
    return tuple(
        replace(
            finding,
            severity="note" if finding.name in WORST_CASE else finding.severity,
            sentence=visible(finding.sentence),
            remedy=visible(finding.remedy),
        )
        for finding in examine(result, annotations, graph=graph)
    )


def from_checks(checks: Sequence[Finding]) -> list[Finding]:
    """Summarize the conditions: those that clearly fail, or that none does."""
    failed = [check for check in checks if check.severity == "warning" and check.name != "co-labelling"]
    found = [check for check in failed if check.name in DECISIVE]
    thin = [check.name.removeprefix("scattering of ") for check in failed if check.name not in DECISIVE]
    if thin:
        sentence = f"The {' and the '.join(thin)} are not varied enough to determine the result uniquely."
        found.append(Finding("identifiability", "caution", sentence, "See Identifiability."))
    if found or not any(check.severity == "good" for check in checks):
        return found
    sentence = "Annotators and items are varied enough to tell the classes apart."
    return [Finding("identifiability", "good", sentence, "See Identifiability.")]


def labelled(result: FitResult, annotations: Annotations | None) -> NDArray[Any]:
    """(items with annotations, n_classes) class probabilities; of all items if annotations are not given.

    Items without labels have the method's prior or prediction, which says nothing about the crowd.
    """
    if annotations is None:
        return result.class_probabilities
    return np.asarray(result.class_probabilities[annotations.labels_per_item > 0])


def from_labels(class_probabilities: NDArray[Any]) -> list[Finding]:
    """How certain the labels are, according to the method."""
    top = class_probabilities.max(axis=1)
    unsure = float((top < SURE).mean()) if len(top) else 0.0
    sentence = f"According to the method, {1 - unsure:.0%} of the labels have a probability of {SURE:.0%} or more."
    if unsure > UNSURE_SHARE:
        return [Finding("certainty", "caution", sentence, "Collect more labels for the uncertain items.")]
    return [Finding("certainty", "good", sentence)]


def from_agreement(agreement: AgreementReport) -> list[Finding]:
    """Whether annotators agree beyond chance, and whether all of them can be compared."""
    found = []
    if not agreement.graph.connected:
        sentence = f"{agreement.graph} Accuracies of different groups are not comparable."
        found.append(Finding("co-labelling", "warning", sentence, "Let some annotators label items of another group."))
    if np.isnan(agreement.alpha):
        return found
    alpha = f"Krippendorff's alpha is {agreement.alpha:.2f}"
    if agreement.alpha < HARDLY_ANY_AGREEMENT:
        sentence = f"{alpha}: annotators agree hardly more than by chance."
        remedy = "Check the instructions, and label a few items yourself, before collecting more."
        found.append(Finding("agreement", "warning", sentence, remedy))
    elif agreement.alpha < SOME_AGREEMENT:
        sentence = f"{alpha}: annotators often disagree, so labels depend on which annotators the method trusts."
        found.append(Finding("agreement", "caution", sentence, "See Agreement."))
    else:
        found.append(Finding("agreement", "good", f"{alpha}: annotators agree well beyond chance."))
    return found


def from_coverage(agreement: AgreementReport) -> list[Finding]:
    """Whether items have enough labels to compare annotators."""
    covered = agreement.coverage
    found = []
    if covered.n_unlabelled:
        sentence = f"{covered.n_unlabelled} of {covered.n_items} items have no label from any annotator."
        found.append(Finding("coverage", "note", sentence))
    single, shared = covered.n_single / covered.n_items, covered.n_shared / covered.n_items
    if single > THIN_SHARE:
        sentence = f"{single:.0%} of the items have only one label, which cannot be compared with another."
        remedy = "A second label on a tenth of the items is enough to compare annotators."
        found.append(Finding("coverage", "caution", sentence, remedy))
    elif covered.n_shared:
        sentence = f"{shared:.0%} of the items have two labels or more, so annotators can be compared."
        found.append(Finding("coverage", "good", sentence))
    return found


def from_gold(result: FitResult, annotations: Annotations) -> list[Finding]:
    """How many labels are right where the true class is known."""
    if annotations.gold is None:
        return []
    known = ~np.ma.getmaskarray(annotations.gold) & (annotations.labels_per_item > 0)
    n_gold = int(known.sum())
    if not n_gold:
        return []
    chosen = result.class_probabilities[known]
    accuracy = float((np.argmax(chosen, axis=1) == annotations.gold.data[known]).mean())
    expected = float(chosen.max(axis=1).mean())
    sentence = f"Of {n_gold:,} items with gold, {accuracy:.1%} have the right label; the method expects {expected:.1%}."
    margin = 2 * np.sqrt(max(accuracy * (1 - accuracy), 1 / n_gold) / n_gold) + 0.01  # two standard errors and a bit
    if expected - accuracy > margin:
        return [Finding("gold", "caution", f"{sentence} Its probabilities are too high.", "See Calibration.")]
    return [Finding("gold", "good", sentence)]


def from_annotators(table: AnnotatorTable) -> list[Finding]:
    """Annotators who are careless, adverse or copy, and those with too few labels to judge."""
    kinds = [
        (CARELESS, "no better than guessing", "The method already discounts them; ask others for new labels."),
        (ADVERSE, "giving labels against the truth", "Ask whether they misread the instructions."),
        (COPIES, "closer to another annotator than skill explains", "Check whether they copied or share a source."),
    ]
    found = []
    for kind, what, remedy in kinds:
        names = [row.name for row in table.rows if any(remark.startswith(kind) for remark in row.remarks)]
        if names:
            verb = "is" if len(names) == 1 else "are"
            sentence = f"{len(names)} of {table.n_annotators} annotators {verb} {what}: {first_names(names)}."
            found.append(Finding("annotators", "note", sentence, remedy))
    few = sum(row.n_labels is not None and row.n_labels < FEW_LABELS for row in table.rows)
    if few:
        sentence = f"{few} annotators gave fewer than {FEW_LABELS} labels, too few to judge them."
        found.append(Finding("annotators", "note", sentence))
    return found


def first_names(names: list[str]) -> str:
    """The first few names and the number of others.

    Examples
    --------
    >>> first_names(["ann", "bob", "cy", "di", "eve"])
    'ann, bob, cy and 2 more'
    """
    first = ", ".join(names[:N_NAMES])
    return first if len(names) <= N_NAMES else f"{first} and {len(names) - N_NAMES} more"
