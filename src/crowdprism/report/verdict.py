"""Can the labels be trusted? Findings, and a verdict of three levels: confirmed by gold, unconfirmed, unreliable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.one_voice import describe_voices
from crowdprism.annotations import Annotations
from crowdprism.annotations.notebook import visible
from crowdprism.diagnostics.agreement import AgreementReport
from crowdprism.diagnostics.co_labelling import CoLabellingGraph, coverage
from crowdprism.diagnostics.findings import SEVERITIES, Finding, Severity, worst
from crowdprism.diagnostics.identifiability import examine
from crowdprism.errors import counted
from crowdprism.report.annotator_rows import ADVERSE, CARELESS, FEW_LABELS
from crowdprism.report.report_records import AnnotatorTable, Level, Review, Step, Verdict
from crowdprism.results import FitResult

DECISIVE = ("class order", "rank of confusions", "rank of class probabilities")  # if they fail, labels mean nothing
WORST_CASE = ("error bound", "conditions of Theorem 1")  # hardly ever met, so no reason for distrust
# Krippendorff (2004) asks for 0.8 to rely on raw labels and 0.667 for tentative conclusions. Aggregation needs far less
# because it averages; near zero, however, there is nothing to average.
HARDLY_ANY_AGREEMENT, SOME_AGREEMENT = 0.1, 0.4
THIN_SHARE, MOSTLY_THIN = 0.2, 0.5  # of the items have a single label
SMALL_SHARE, LARGE_SHARE = 0.05, 0.25  # of the labels concerned: below a note, between a caution, above a warning
ENOUGH_GOLD = 20
MOST_EXAMINED_CLASSES = 20  # with more, the geometry takes tens of seconds
NARROW = 0.2  # width of the interval of expected accuracy that gold has to reach: about 40 answers
N_NAMES = 3
MOST_NAMED = 5  # in what to do next
THIN = ("coverage", "co-labelling")  # findings that more labels answer


def build_verdict(
    result: FitResult,
    annotations: Annotations | None,
    agreement: AgreementReport | None,
    annotators: AnnotatorTable,
    checks: Sequence[Finding] = (),
) -> Verdict:
    """All findings, the most serious first, and a level: confirmed by gold, else unreliable if any is a warning."""
    found = [from_account(result), *from_checks(checks)]
    if annotations is not None:
        found += [*from_gold(result, annotations), *from_coverage(annotations)]
    if agreement is not None:
        found += from_agreement(agreement)
    found += [*from_copies(result, annotators), *from_annotators(annotators), *from_fit(result)]
    if annotations is None:
        sentence = "Agreement and coverage were not checked, because the report was made without the annotations."
        found.append(Finding("annotations", "note", sentence, "Pass them: result.report(path, annotations)."))
    serious = {finding.name for finding in found if finding.severity == "warning"}
    level: Level = "unreliable" if serious else "unconfirmed"
    if is_confirmed(result) and "gold" not in serious:
        level = "confirmed"
    if level == "confirmed":  # gold has seen what these warn of
        found = [replace(one, severity="caution") if one.severity == "warning" else one for one in found]
    found.sort(key=lambda finding: -SEVERITIES.index(finding.severity))
    return Verdict(level, worst(found), headline(level, worst(found), result), scope_of(found), tuple(found))


def is_confirmed(result: FitResult) -> bool:
    """Whether gold tells how many labels are right, within `NARROW`."""
    account = result.account
    if account is None or account.n_gold < ENOUGH_GOLD:
        return False
    return account.expected_accuracy.high - account.expected_accuracy.low <= NARROW


def headline(level: Level, severity: Severity, result: FitResult) -> str:
    if level == "unreliable":
        return "Do not rely on these labels yet"
    expected = "" if result.account is None else f": {result.account.expected_accuracy}"
    if level == "confirmed":
        return f"Confirmed by gold{expected} of the labels are right"
    checked = "Consistent, but not confirmed" if severity in ("good", "note") else "Not confirmed; use with care"
    return f"{checked}{expected} expected right" if expected else checked


def by_share(share: float) -> Severity:
    """How serious a problem is that concerns this share of the labels."""
    if share < SMALL_SHARE:
        return "note"
    return "caution" if share < LARGE_SHARE else "warning"


def scope_of(findings: Sequence[Finding]) -> str:
    """Which checks were made; without gold, that they cannot show how many labels are right."""
    checked = dict.fromkeys(finding.name for finding in findings if finding.severity != "note")
    text = f"Checked: {', '.join(checked)}." if checked else "Nothing could be checked."
    if "gold" in checked:
        return text
    return f"{text} Without gold (known true classes), these checks cannot show how many labels are right."


def examined(
    result: FitResult, annotations: Annotations, graph: CoLabellingGraph | None, wanted: bool | None
) -> tuple[Finding, ...]:
    """Whether the annotations determine what was learned, condition by condition; if it is quick, unless `wanted`."""
    if not result.n_items or wanted is False:
        return ()
    if wanted is None and result.n_classes > MOST_EXAMINED_CLASSES:
        sentence = f"Not checked, because it takes long with {result.n_classes} classes."
        return (Finding("identifiability", "note", sentence, "Run `crowdprism diagnose` to check it."),)
    found = examine(result, annotations, graph=graph)
    shown = [replace(one, sentence=visible(one.sentence), remedy=visible(one.remedy)) for one in found]
    return tuple(replace(one, severity="note") if one.name in WORST_CASE else one for one in shown)


def from_checks(checks: Sequence[Finding]) -> list[Finding]:
    """Summarize the conditions of identifiability: the failing ones, or one finding that none fails."""
    failed = [check for check in checks if check.severity == "warning" and check.name != "co-labelling"]
    found = [check for check in failed if check.name in DECISIVE]
    for place, check in enumerate(found):
        if check.name == "class order" and check.value is not None:  # the share of items in swapped classes
            found[place] = replace(check, severity=by_share(check.value))
    thin = [check.name.removeprefix("scattering of ") for check in failed if check.name not in DECISIVE]
    if thin:
        sentence = f"The {' and the '.join(thin)} are not varied enough to determine the result uniquely."
        found.append(Finding("identifiability", "caution", sentence, 'See "For specialists".'))
    if found or not any(check.severity == "good" for check in checks):
        return found
    sentence = "Annotators and items are varied enough to tell the classes apart."
    return [Finding("identifiability", "good", sentence, 'See "For specialists".')]


def labelled(result: FitResult, annotations: Annotations | None) -> NDArray[Any]:
    """(n_items,) whether an item has labels; without, its label is a prior or prediction, which says nothing here."""
    return np.ones(result.n_items, dtype=bool) if annotations is None else annotations.labels_per_item > 0


def from_account(result: FitResult) -> Finding:
    account = result.account
    if account is None:
        sentence = "How many labels are right was not estimated: this needs the annotations or a newly saved result."
        return Finding("expected accuracy", "note", sentence)
    advice = account.advice()
    remedy = f"{advice} Ask for them with crowdprism audit." if advice else ""
    severity: Severity = "good" if is_confirmed(result) else "note"
    return Finding("expected accuracy", severity, account.sentence(), remedy, account.expected_accuracy.value)


def from_agreement(agreement: AgreementReport) -> Iterator[Finding]:
    """Whether annotators agree beyond chance, and whether all of them can be compared."""
    graph = agreement.graph
    if not graph.connected:
        outside = 1 - float(graph.n_annotations[0] / graph.n_annotations.sum())
        sentence = f"{graph} Accuracies of different groups are not comparable; {outside:.1%} of the labels are outside"
        remedy = "Let some annotators label items of another group."
        yield Finding("co-labelling", by_share(outside), f"{sentence} the largest group.", remedy, outside)
    if np.isnan(agreement.alpha):
        return
    alpha = f"Krippendorff's alpha is {agreement.alpha:.2f}"
    if agreement.alpha < HARDLY_ANY_AGREEMENT:
        remedy = "Check the instructions, and label a few items yourself, before collecting more."
        sentence = f"{alpha}: annotators agree hardly more than by chance."
        yield Finding("agreement", "warning", sentence, remedy)
    elif agreement.alpha < SOME_AGREEMENT:
        sentence = f"{alpha}: annotators often disagree, so labels depend on which annotators the method trusts."
        yield Finding("agreement", "caution", sentence, "See Agreement.")
    else:
        yield Finding("agreement", "good", f"{alpha}: annotators agree well beyond chance.")


def from_coverage(annotations: Annotations) -> Iterator[Finding]:
    """Whether items have enough labels, of enough people, to compare annotators."""
    covered = coverage(annotations)
    if covered.n_unlabelled:
        sentence = f"{covered.n_unlabelled} of {covered.n_items} items have no label from any annotator."
        yield Finding("coverage", "note", sentence)
    if int((annotations.labels_per_annotator > 0).sum()) == 1:
        sentence = "One annotator gave all labels, so nothing shows how good they are."
        yield Finding("coverage", "warning", sentence, "Ask a second annotator, or check some items.")
        return
    n_labelled = max(covered.n_items - covered.n_unlabelled, 1)
    single, shared = covered.n_single / n_labelled, covered.n_shared / n_labelled
    if single > THIN_SHARE:
        sentence = f"{single:.0%} of the items have only one label, which cannot be compared with another."
        remedy = "A second label on a tenth of the items is enough to compare annotators."
        yield Finding("coverage", "warning" if single > MOSTLY_THIN else "caution", sentence, remedy, single)
    elif covered.n_shared:
        sentence = f"{shared:.0%} of the items have two labels or more, so annotators can be compared."
        yield Finding("coverage", "good", sentence)


def from_gold(result: FitResult, annotations: Annotations) -> Iterator[Finding]:
    if annotations.gold is None:
        return
    known = ~np.ma.getmaskarray(annotations.gold) & (annotations.labels_per_item > 0)
    n_gold = int(known.sum())
    if not n_gold:
        return
    truth = annotations.gold.data[known]
    accuracy = float((np.argmax(result.blind.class_probabilities[known], axis=1) == truth).mean())
    chance = float(np.bincount(truth).max() / n_gold)
    hidden = " if their gold is hidden" if result.n_known else ""
    sentence = f"Of {n_gold:,} items with gold, {accuracy:.1%} have the right label{hidden}."
    if n_gold < ENOUGH_GOLD:
        remedy = f"With {ENOUGH_GOLD - n_gold} more, gold tells how right all labels are."
        yield Finding("gold", "note", sentence, remedy, accuracy)
    elif accuracy <= chance < 1:
        sentence += f" Naming the most frequent class for every item would give {chance:.1%}."
        yield Finding("gold", "warning", sentence, "Check the instructions and the gold labels.", accuracy, chance)
    else:
        yield Finding("gold", "good", sentence, "", accuracy, chance)


def from_copies(result: FitResult, table: AnnotatorTable) -> Iterator[Finding]:
    """Annotators who answer as one: their labels are one voice, however many there are."""
    if result.voices:
        counted = {name for group in result.voices for name in group}
        chosen = np.array([name in counted for name in result.annotators.tolist()], dtype=bool)
        weight = np.ones(result.n_annotators) if result.labels_per_annotator is None else result.labels_per_annotator
        share = float(weight[chosen].sum() / max(weight.sum(), 1))
        voices = visible(describe_voices(result.voices, result.n_annotators))
        remedy = "Labels alone cannot show who copied whom: ask them, or state who is one voice."
        yield Finding("copies", by_share(share), f"{voices} They gave {share:.0%} of the labels.", remedy, share)
    if table.copies:
        names = [name for group in table.copies for name in group]
        sentence = (
            f"{len(names)} of {table.n_annotators} annotators agree more with each other than skill explains "
            f"({first_names(names)}); they gave {table.copied_share:.0%} of the labels, and may be one voice."
        )
        remedy = "Check whether they copied or share a source."
        yield Finding("copies", by_share(table.copied_share), sentence, remedy, table.copied_share)


def from_annotators(table: AnnotatorTable) -> Iterator[Finding]:
    """Annotators who are careless or adverse, and those with too few labels to judge."""
    kinds = [
        (CARELESS, "no better than guessing", "The method already discounts them; ask others for new labels."),
        (ADVERSE, "giving labels against the truth", "Ask whether they misread the instructions."),
    ]
    n_labels = sum(row.n_labels or 0 for row in table.rows)
    for kind, what, remedy in kinds:
        rows = [row for row in table.rows if any(remark.startswith(kind) for remark in row.remarks)]
        if rows:
            share = sum(row.n_labels or 0 for row in rows) / max(n_labels, 1)
            verb, names = "is" if len(rows) == 1 else "are", first_names([row.name for row in rows])
            sentence = f"{len(rows)} of {table.n_annotators} annotators {verb} {what}: {names}."
            sentence += f" They gave {share:.0%} of the labels."
            yield Finding("annotators", by_share(share / 2), sentence, remedy, share)  # half: they are discounted
    few = sum(row.n_labels is not None and row.n_labels < FEW_LABELS for row in table.rows)
    if few:
        sentence = f"{counted(few, 'annotator')} gave fewer than {FEW_LABELS} labels, too few to judge them."
        yield Finding("annotators", "note", sentence)


def from_fit(result: FitResult) -> list[Finding]:
    """What the method warned of; voices have a finding of their own."""
    known = describe_voices(result.voices, result.n_annotators) if result.voices else None
    return [Finding("fit", "caution", visible(text)) for text in result.warnings if text != known]


def first_names(names: Sequence[str], most: int = N_NAMES) -> str:
    first = ", ".join(names[:most])
    return first if len(names) <= most else f"{first} and {len(names) - most} more"


def next_steps(
    result: FitResult, review: Review, table: AnnotatorTable, verdict: Verdict, source: str
) -> Iterator[Step]:
    """At most four things to do, the most useful first."""
    account = result.account
    if account is not None and account.advice():
        n = account.n_more
        text = f"Answer {counted(n, 'item')} yourself, so that you know how right the labels are."
        yield Step(text, command=f"crowdprism audit {visible(source) or 'labels.csv'} -n {n} --page audit.html")
    if review.n_suspect:
        text = f"Check the {counted(review.n_suspect, 'item')} that have a reason for doubt."
        yield Step(text, link="#items", link_text="Items to review")
    odd = [row.name for row in table.rows if {CARELESS, ADVERSE} & set(row.remarks)]
    if odd:
        text = f"Talk to {first_names(odd, MOST_NAMED)}: their labels look like guesses or contradict the others."
        yield Step(text, link="#annotators", link_text="Annotators")
    if any(one.name in THIN and one.severity in ("warning", "caution") for one in verdict.findings):
        text = "Ask for labels that connect annotators and items."
        yield Step(text, command=f"crowdprism suggest {visible(source) or 'labels.csv'} -o next.csv")
