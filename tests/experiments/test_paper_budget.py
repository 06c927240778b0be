"""The paper budget of every published table runs end to end: all its methods, on a few digits instead of its data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crowdprism.experiments import load_study
from crowdprism.experiments.fits import DONE, Fit, check_parameters, make_plan
from crowdprism.experiments.measuring import measure
from crowdprism.experiments.spec import Crowd, Data

MACHINES = Crowd("machine", n_annotators=5, case=2, probability=0.5, pool_size=700, lr_label_bug=True)
DRAWN = Crowd("family", n_annotators=5, family="one-coin", level=0.8, pattern="per-item", amount=2)
TABLES = ["T1", "T2", "T3", "T4", "T5", "T6"]


def shrunk(fit: Fit) -> Fit:
    """The same fit on 120 digits, with a linear network and two epochs."""
    crowd = MACHINES if fit.data.crowd.kind == "machine" else DRAWN
    data = Data("digits", features="images", n_items=120, valid="drawn", n_valid=20)
    small: dict[str, Any] = {"network": "linear", "epochs": 2, "batch_size": 50}
    return replace(fit, data=replace(data, crowd=crowd), parameters={**fit.parameters, **small})


@pytest.mark.parametrize("table", TABLES)
def test_every_fit_of_the_paper_budget_has_known_parameters(table: str) -> None:
    check_parameters(make_plan(load_study(table), "paper", variants=True).fits)


def test_every_method_of_the_paper_budgets_trains_and_is_measured(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path))
    fits: dict[str, Fit] = {}
    for table in ("T1", "T2", "T3"):  # the others repeat T1 with other numbers of items and annotators
        plan = make_plan(load_study(table), "paper", seeds=[1], variants=table == "T1")
        for (_, method, _), points in plan.points.items():
            fit = shrunk(points[0])
            fits.setdefault(f"{method} {sorted(fit.parameters)}", fit)
    rows = [row for fit in fits.values() for row in measure([fit])]
    assert {row["status"]: row.get("reason") for row in rows} == {DONE: None}
    assert len({row["fit"]["classifier"] for row in rows}) == 10
