"""The report begins with what to do."""

from __future__ import annotations

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.report.content import build_content
from crowdprism.report.report_records import ReportOptions


@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_steps_name_items_people_and_the_command_to_run() -> None:
    random = np.random.default_rng(0)
    truth = random.integers(2, size=300)
    votes = np.repeat(truth[:, None], 5, axis=1)
    votes[:, :3] ^= random.random((300, 3)) < 0.25
    votes[:, 3] = random.integers(2, size=300)  # guesses
    a = cp.Annotations.from_dense(votes, annotator_names=["ann", "bob", "cy", "dan", "eve"])
    result = cp.make_aggregator("dawid-skene").fit(a).result_
    steps = build_content(result, a, ReportOptions(source="reviews.csv")).steps
    assert "crowdprism audit reviews.csv" in steps[0].command
    assert steps[0].command.endswith("--page audit.html")
    assert any(step.link == "#items" for step in steps)
    assert any("Talk to dan" in step.text for step in steps)


def test_training_that_was_interrupted_is_named() -> None:
    from dataclasses import replace

    a = cp.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]])
    result = cp.make_aggregator("majority-vote").fit(a).result_
    told = replace(result, warnings=("Training was interrupted: labels are unfinished.",))
    shown = build_content(told, a)
    assert any("interrupted" in finding.sentence for finding in shown.verdict.findings)


def test_items_without_labels_do_not_lower_the_labels_per_item() -> None:
    a = cp.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [-1, -1, -1], [-1, -1, -1]])
    shown = build_content(cp.make_aggregator("majority-vote").fit(a).result_, a)
    (figure,) = [figure for figure in shown.figures if figure.name == "labels per item"]
    assert figure.value == "3.0"
    assert "2 items have none" in figure.remark
