"""`crowdprism demo`."""

from __future__ import annotations

import json


def test_the_demo_runs_and_finds_the_spammers(run) -> None:
    shown = run("demo", "--json")
    assert shown.err.count("test accuracy") == 4, "a line for each method as it finishes"
    record = json.loads(shown.out)
    by_name = {row["method"]: row for row in record["methods"]}
    assert len(by_name) >= 2
    best = max(row["test accuracy"] for row in record["methods"])
    assert best > 0.85
    suspects = [person["annotator"].rsplit("-", 1)[0] for person in record["unreliable"]]
    assert suspects.count("spammer") == 8
    assert "adversary" in suspects
