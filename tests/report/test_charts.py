"""Charts: what they say to screen readers, how many marks they draw, and in which colours."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.report.charts import annotator_chart, certainty_chart, curve_chart, distinct, draw, draw_all
from crowdprism.report.content import build_content
from crowdprism.report.palette import LIGHT
from crowdprism.report.report_records import Curve, ReportContent, ReportOptions
from crowdprism.simulate import demo_annotations


@pytest.fixture(scope="module")
def shown() -> ReportContent:
    crowd = demo_annotations(np.arange(300) % 10, seed=1)
    result = cp.make_aggregator("dawid-skene", use_gold=False).fit(crowd).result_
    return build_content(result, crowd, ReportOptions(examine=False))


def description(svg: str) -> str:
    found = re.match(r'<svg role="img" aria-label="([^"]*)"', svg)
    assert found
    return html.unescape(found.group(1))


def test_every_section_with_content_has_its_chart(shown: ReportContent) -> None:
    expected = {"certainty", "classes", "annotators", "curve0", "reliability", "graph", "pairs"}
    assert set(draw_all(shown)) == expected
    bare = replace(shown, curves=(), reliability=None, graph=None, agreement=None)
    assert set(draw_all(bare)) == {"certainty", "classes", "annotators"}


def test_many_classes_have_no_bar_chart(shown: ReportContent) -> None:
    assert "classes" not in draw_all(replace(shown, class_rows=shown.class_rows * 4))


def test_the_histogram_counts_the_items_above_nine_tenths() -> None:
    assert "3 of 10 items" in description(certainty_chart((7, *[0] * 17, 1, 2)))


def test_a_curve_is_described_by_its_ends() -> None:
    svg = curve_chart(Curve("objective", [0, 4, 9], [-3.0, -2.0, -1.5]))
    assert description(svg) == "objective: from -3 to -1.5 in 10 steps."


def test_one_dot_is_drawn_per_annotator(shown: ReportContent) -> None:
    svg = annotator_chart(shown)
    assert "for 40 annotators" in description(svg)
    assert svg.count(f'fill="{LIGHT.right}"') == 40


def test_charts_use_only_colours_that_the_themes_exchange(shown: ReportContent) -> None:
    colours = {colour for svg in draw_all(shown).values() for colour in re.findall(r'(?:fill|stroke)="(#[^"]*)"', svg)}
    assert colours <= set(vars(LIGHT).values())


def test_charts_announce_themselves_once_and_hold_no_other_role() -> None:
    svg = draw(
        {"data": {"values": [{"x": 1}]}, "mark": "point", "encoding": {"x": {"field": "x"}}}, description='a "b" <c>'
    )
    assert svg.count("role=") == 1
    assert 'aria-label="a &quot;b&quot; &lt;c&gt;"' in svg


def test_names_that_look_alike_are_kept_apart_in_charts() -> None:
    assert distinct(["7", "7", "7"]) == ["7", "7 (2)", "7 (3)"]
