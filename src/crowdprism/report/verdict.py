"""Can the result be trusted? Findings with reasons, and the verdict of the gravest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.diagnostics.agreement import AgreementReport
from crowdprism.diagnostics.identifiability import examine
from crowdprism.report.annotator_rows import ADVERSE, CARELESS, COPIES, FEW_LABELS
from crowdprism.report.names_shown import visible
from crowdprism.report.report_records import AnnotatorTable, Check, Finding, Level, Verdict
from crowdprism.results import FitResult

GRAVITY: dict[Level, int] = {"good": 0, "note": 1, "caution": 2, "warning": 3}
LEVEL_OF: dict[str, Level] = {"good": "good", "caution": "caution", "bad": "warning", "impossible": "note"}
DECISIVE = ("class order", "rank of confusions", "rank of class probabilities")  # broken, they make labels meaningless
WORST_CASE = ("error bound", "conditions of Theorem 1")  # hardly ever met, so no reason for distrust
HEADLINES: dict[Level, str] = {
    "good": "Nothing speaks against these labels",
    "note": "Nothing speaks against these labels",
    "caution": "Use these labels with care",
    "warning": "Do not rely on these labels yet",
}
# Krippendorff (2004) asks for 0.8 to rely on raw labels and 0.667 for tentative conclusions. Aggregation tolerates far
# less, because it averages; near zero, though, there is nothing to average.
HARDLY_ANY_AGREEMENT, SOME_AGREEMENT = 0.1, 0.4
THIN_SHARE = 0.5  # where more items than this have a single label, most labels rest on one person's word
UNSURE_SHARE = 0.2
SURE = 0.9
N_NAMES = 3


def build_verdict(
    result: FitResult,
    annotations: Annotations | None,
    agreement: AgreementReport | None,
    annotators: AnnotatorTable,
    checks: tuple[Check, ...] = (),
) -> Verdict:
    """Collect every finding; the gravest gives the headline."""
    shown = labelled(result, annotations)
    findings = [*from_checks(checks), *from_labels(shown)]
    if annotations is not None and agreement is not None:
        findings += [*from_agreement(agreement), *from_coverage(agreement), *from_gold(result, annotations)]
    findings += [*from_annotators(annotators), *(Finding("caution", visible(text)) for text in result.warnings)]
    if annotations is None:
        findings.append(
            Finding(
                "note",
                "The annotations were not given to this report, so agreement and coverage could not be judged.",
                "Pass them: result.report(path, annotations=annotations).",
            )
        )
    findings.sort(key=lambda finding: -GRAVITY[finding.level])
    level = findings[0].level if findings else "note"
    return Verdict(level, HEADLINES[level], tuple(findings))


def examined(result: FitResult, annotations: Annotations) -> tuple[Check, ...]:
    """Whether the labels determine what was learned, condition by condition."""
    return tuple(
        Check(
            name=finding.name,
            level=LEVEL_OF[finding.verdict] if finding.name not in WORST_CASE else "note",
            text=visible(finding.sentence),
            help=visible(f"What would help: {finding.remedy}") if finding.remedy else "",
        )
        for finding in examine(result, annotations)
    )


def from_checks(checks: tuple[Check, ...]) -> list[Finding]:
    """What the conditions say in short: those that are clearly broken, or that none is."""
    broken = [check for check in checks if check.level == "warning" and check.name != "co-labelling"]
    decisive = [Finding("warning", check.text, check.help) for check in broken if check.name in DECISIVE]
    thin = [check.name.removeprefix("scattering of ") for check in broken if check.name not in DECISIVE]
    if thin:
        text = f"The {' and the '.join(thin)} are not varied enough to determine everything beyond doubt."
        decisive.append(Finding("caution", text, "See Identifiability."))
    if decisive:
        return decisive
    if any(check.level == "good" for check in checks):
        return [Finding("good", "Crowd and items are varied enough to tell classes apart.", "See Identifiability.")]
    return []


def labelled(result: FitResult, annotations: Annotations | None) -> NDArray[Any]:
    """(items with annotations, n_classes) class probabilities; of all items where annotations are not given.

    Items that nobody labelled have the method's prior or prediction, which says nothing about the crowd.
    """
    if annotations is None:
        return result.class_probabilities
    return np.asarray(result.class_probabilities[annotations.labels_per_item > 0])


def from_labels(class_probabilities: NDArray[Any]) -> list[Finding]:
    """How certain the labels are, by the method's own account."""
    top = class_probabilities.max(axis=1)
    unsure = float((top < SURE).mean()) if len(top) else 0.0
    text = f"{1 - unsure:.0%} of the labels have a probability of {SURE:.0%} or more, by the method's own account."
    if unsure > UNSURE_SHARE:
        return [Finding("caution", text, "More labels for the uncertain items would settle most of them.")]
    return [Finding("good", text)]


def from_agreement(agreement: AgreementReport) -> list[Finding]:
    """Whether the crowd agrees beyond chance, and whether all can be compared."""
    found = []
    if not agreement.graph.connected:
        found.append(
            Finding(
                "warning",
                f"The crowd falls apart: {agreement.graph}. Accuracies of different groups are not comparable.",
                "Let some annotators label items of another group.",
            )
        )
    if np.isnan(agreement.alpha):
        return found
    text = f"Krippendorff's alpha is {agreement.alpha:.2f}"
    if agreement.alpha < HARDLY_ANY_AGREEMENT:
        found.append(
            Finding(
                "warning",
                f"{text}: annotators agree hardly more than by chance.",
                "Look at the instructions and at a few items yourself before labelling more.",
            )
        )
    elif agreement.alpha < SOME_AGREEMENT:
        found.append(
            Finding(
                "caution", f"{text}: annotators often disagree, so labels rest on who is believed.", "See Agreement."
            )
        )
    else:
        found.append(Finding("good", f"{text}: annotators agree well beyond chance."))
    return found


def from_coverage(agreement: AgreementReport) -> list[Finding]:
    """Whether items have labels enough to compare annotators."""
    covered = agreement.coverage
    if not covered.n_items:
        return []
    found = []
    if covered.n_unlabelled:
        found.append(
            Finding("note", f"{covered.n_unlabelled} of {covered.n_items} items have no label by any annotator.")
        )
    thin = covered.n_single / covered.n_items
    if thin > THIN_SHARE:
        found.append(
            Finding(
                "caution",
                f"{thin:.0%} of the items have one label only; nobody's word on them can be compared.",
                "A second label on a tenth of the items already tells annotators apart.",
            )
        )
    elif covered.n_shared:
        share = covered.n_shared / covered.n_items
        found.append(
            Finding("good", f"{share:.0%} of the items have two labels or more, so annotators can be compared.")
        )
    return found


def from_gold(result: FitResult, annotations: Annotations) -> list[Finding]:
    """How the labels fare where the truth is known."""
    if annotations.gold is None:
        return []
    known = ~np.ma.getmaskarray(annotations.gold) & (annotations.labels_per_item > 0)
    n_gold = int(known.sum())
    if not n_gold:
        return []
    chosen = result.class_probabilities[known]
    accuracy = float((np.argmax(chosen, axis=1) == annotations.gold.data[known]).mean())
    expected = float(chosen.max(axis=1).mean())
    text = f"{accuracy:.1%} of the labels of {n_gold:,} items with gold are right; the method expected {expected:.1%}."
    margin = 2 * np.sqrt(max(accuracy * (1 - accuracy), 1 / n_gold) / n_gold) + 0.01  # two standard errors and a bit
    if expected - accuracy > margin:
        return [Finding("caution", f"{text} Its probabilities are too sure.", "See Calibration.")]
    return [Finding("good", text)]


def from_annotators(table: AnnotatorTable) -> list[Finding]:
    """Who is careless, adverse or a copy, and who labelled too little to tell."""
    discounted = "The method already discounts them; new labels should go to others."
    kinds = {
        CARELESS: ("is", "are", "no better than guessing", discounted),
        ADVERSE: ("answers", "answer", "against the truth", "A misread instruction, perhaps; ask."),
        COPIES: ("agrees", "agree", "with another more than skill explains", "Copied, or from one source? Look."),
    }
    found = []
    for kind, (one, many, rest, help_) in kinds.items():
        names = [row.name for row in table.rows if any(remark.startswith(kind) for remark in row.remarks)]
        if names:
            verb = one if len(names) == 1 else many
            text = f"{len(names)} of {table.n_annotators} annotators {verb} {rest}: {listed(names)}."
            found.append(Finding("note", text, help_))
    few = sum(row.n_labels is not None and row.n_labels < FEW_LABELS for row in table.rows)
    if few:
        found.append(Finding("note", f"{few} annotators gave fewer than {FEW_LABELS} labels; little is known of them."))
    return found


def listed(names: list[str]) -> str:
    """The first few names and how many more there are.

    Examples
    --------
    >>> listed(["ann", "bob", "cy", "di", "eve"])
    'ann, bob, cy and 2 more'
    """
    shown = ", ".join(names[:N_NAMES])
    return shown if len(names) <= N_NAMES else f"{shown} and {len(names) - N_NAMES} more"
