"""What to do next: items to check, people to talk to, answers to ask for."""

from __future__ import annotations

from crowdprism.annotations.notebook import visible
from crowdprism.errors import counted
from crowdprism.report.annotator_rows import ADVERSE, CARELESS
from crowdprism.report.report_records import AnnotatorTable, Review, Step, Verdict
from crowdprism.report.verdict import first_names
from crowdprism.results import FitResult

MOST_NAMED = 5
THIN = ("coverage", "co-labelling")  # findings that more labels answer


def next_steps(result: FitResult, review: Review, table: AnnotatorTable, verdict: Verdict, source: str) -> list[Step]:
    """At most four things to do, the most useful first."""
    steps = []
    account = result.account
    if account is not None and account.advice():
        n = account.n_more
        text = f"Answer {counted(n, 'item')} yourself, so that you know how right the labels are."
        steps.append(Step(text, command=f"crowdprism audit {visible(source) or 'labels.csv'} -n {n} --page audit.html"))
    if review.n_suspect:
        text = f"Check the {counted(review.n_suspect, 'item')} that have a reason for doubt."
        steps.append(Step(text, link="#items", link_text="Items to review"))
    odd = [row.name for row in table.rows if {CARELESS, ADVERSE} & set(row.remarks)]
    if odd:
        text = f"Talk to {first_names(odd, MOST_NAMED)}: their labels look like guesses or contradict the others."
        steps.append(Step(text, link="#annotators", link_text="Annotators"))
    if any(one.name in THIN and one.severity in ("warning", "caution") for one in verdict.findings):
        text = "Ask for labels that connect annotators and items."
        steps.append(Step(text, command=f"crowdprism suggest {visible(source) or 'labels.csv'} -o next.csv"))
    return steps
