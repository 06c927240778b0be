"""The one record for findings and its scale."""

from __future__ import annotations

import json

import numpy as np
import pytest

from crowdprism.diagnostics.findings import SEVERITIES, Finding, Findings, Severity, worst
from crowdprism.errors import InvalidParameterError

GOOD = Finding("anchors", "good", "Every class has one.", value=0.1, threshold=0.5)
BAD = Finding("class order", "warning", "Two are swapped.", "Align them.", details={"order": [1, 0]})


@pytest.mark.parametrize("severity", SEVERITIES)
def test_every_severity_is_at_least_as_bad_as_those_before_it(severity: Severity) -> None:
    for earlier in SEVERITIES[: SEVERITIES.index(severity) + 1]:
        assert worst([Finding("a", earlier, "."), Finding("b", severity, ".")]) == severity


def test_nothing_checked_is_a_note_and_not_good() -> None:
    assert worst([]) == "note"
    assert Findings(()).severity == "note"


def test_findings_are_shown_one_per_line_with_their_remedy() -> None:
    assert str(Findings((GOOD, BAD))).splitlines() == [
        "[+] anchors: Every class has one.",
        "[!] class order: Two are swapped. Align them.",
    ]


def test_a_finding_is_found_by_name_and_unknown_names_list_the_known() -> None:
    found = Findings((GOOD, BAD))
    assert found["class order"] is BAD
    assert (len(found), list(found)) == (2, [GOOD, BAD])
    with pytest.raises(InvalidParameterError, match="anchors, class order"):
        found["anker"]


def test_records_go_through_json_and_a_frame_has_no_number_where_there_is_none() -> None:
    found = Findings((GOOD, BAD))
    assert json.loads(json.dumps(found.to_records()))[1]["details"] == {"order": [1, 0]}
    frame = found.to_frame()
    assert frame.columns == ["name", "severity", "sentence", "remedy", "value", "threshold"]
    assert frame["severity"].to_list() == ["good", "warning"]
    assert np.isnan(frame["value"][1])
