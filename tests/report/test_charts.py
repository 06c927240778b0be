"""Charts: what they say to screen readers, how many marks they draw, and in which colours."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.report.charts import Scale, annotator_chart, certainty_chart, curve_chart, draw_all, text
from crowdprism.report.content import build_content
from crowdprism.report.page import asset
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
    assert svg.count("<circle") == 40


def test_a_point_stands_where_its_numbers_are(shown: ReportContent) -> None:
    rows = tuple(row._replace(n_labels=10 * (at + 1), accuracy=at / 39) for at, row in enumerate(shown.annotators.rows))
    svg = annotator_chart(replace(shown, annotators=replace(shown.annotators, rows=rows)))
    places = np.array(re.findall(r'<circle cx="([^"]*)" cy="([^"]*)"', svg), dtype=float)
    assert np.all(np.diff(places, axis=0) * [1, -1] > 0), "more labels stand further right, higher accuracy higher up"
    assert places[0, 1] == 0
    assert places[-1, 1] == -200


def test_bars_are_as_high_as_their_counts() -> None:
    heights = re.findall(r'<rect [^>]* height="([^"]*)"', certainty_chart((10, 0, 5, 20)))
    assert [float(height) for height in heights] == [100, 50, 200]


def test_ticks_are_round_numbers_within_the_scale() -> None:
    assert Scale(-431.25, -431.2, 0, 1).ticks() == [-431.25, -431.24, -431.23, -431.22, -431.21, -431.2]
    assert Scale(0, 1, 0, 1).ticks(2) == [0, 0.5, 1]
    assert Scale(7, 7, 0, 1).ticks(2) == [7]
    assert Scale(3, 90, 0, 1, logarithmic=True).ticks() == [5, 10, 20, 50]


def test_logarithmic_scales_place_equal_ratios_at_equal_distances() -> None:
    scale = Scale(1, 10000, 0, 100, logarithmic=True)
    assert [round(scale(value)) for value in (1, 10, 100, 1000, 10000)] == [0, 25, 50, 75, 100]


def test_charts_use_only_colours_of_the_themes(shown: ReportContent) -> None:
    colours = {colour for svg in draw_all(shown).values() for colour in re.findall(r'(?:fill|stroke)="([^"]*)"', svg)}
    assert colours - {"none"} <= {f"var(--{role})" for role in re.findall(r"--(\w+):", asset("colors.css"))}


def test_charts_announce_themselves_once_and_hold_no_other_role(shown: ReportContent) -> None:
    for svg in draw_all(shown).values():
        assert svg.count("role=") == svg.count("aria-label=") == 1


def test_texts_from_data_are_escaped() -> None:
    assert text(0, 0, 'a "b" <c>').endswith(">a &quot;b&quot; &lt;c&gt;</text>")
