"""The sentences and the page about a jury."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from crowdprism import Annotations
from crowdprism.calibration.jury import JuryReport, measure_jury
from crowdprism.report.tables_page import jury_lines, jury_page


@pytest.fixture(scope="module")
def report() -> JuryReport:
    truth = np.arange(200) % 2
    wrong = np.random.default_rng(0).random((200, 3)) > [0.9, 0.8, 0.2]
    labels = Annotations.from_dense(truth[:, None] ^ wrong, annotator_names=["a", "b", "<c>"], classes=[0, 1])
    return measure_jury(labels.with_gold(dict(enumerate(truth.tolist()))))


def test_sentences_name_the_harmful_judge_and_the_panel(report: JuryReport) -> None:
    lines = " ".join(jury_lines(report))
    assert "The vote is better without <c>" in lines
    assert "Recommended panel: a." in lines
    assert "independent ones" in lines


def test_the_same_report_gives_the_same_page(report: JuryReport) -> None:
    made = datetime(2026, 1, 2, 3, 4)
    page = jury_page(report, made=made)
    assert page == jury_page(report, made=made)
    assert "2026-01-02 03:04" in page
    assert "&lt;c&gt;" in page


def test_judges_without_errors_are_of_unknown_number() -> None:
    truth = np.arange(40) % 2
    labels = Annotations.from_dense(np.stack([truth, truth], axis=1))
    report = measure_jury(labels.with_gold(dict(enumerate(truth.tolist()))))
    assert "unknown" in " ".join(jury_lines(report))
    assert "unknown" in jury_page(report)
