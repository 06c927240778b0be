"""Charts, written in Vega-Lite and drawn to SVG as the report is built.

The page then holds finished pictures: no charting library to load, nothing to run, and they print. Colours are those of
the light theme; a style sheet exchanges them on dark paper (`palette.chart_rules`).
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from crowdprism.errors import MissingDependencyError
from crowdprism.report.palette import LIGHT
from crowdprism.report.report_records import ClassRow, Curve, Graph, PairTable, Reliability, ReportContent

Spec = dict[str, Any]

WIDTH, HEIGHT = 340, 200  # fits a phone unshrunk
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
MOST_POINTS = 600
MOST_INTERVALS = 80
MOST_NODE_NAMES = 10  # of the busiest; more would cover each other
WIDE_RANGE = 20  # counts that differ by more than this factor are drawn on a logarithmic axis
PERCENT = ".0%"

CONFIG: Spec = {
    "background": None,
    "padding": 4,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": LIGHT.muted,
        "titleColor": LIGHT.muted,
        "gridColor": LIGHT.line,
        "domainColor": LIGHT.line,
        "tickColor": LIGHT.line,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "ticks": False,
        "domain": False,
        "labelPadding": 6,
    },
    "legend": {"labelColor": LIGHT.muted, "titleColor": LIGHT.muted, "labelFontSize": 12, "titleFontWeight": "normal"},
    "mark": {"aria": False},
}


def draw(spec: Spec, *, description: str) -> str:
    """The chart as an SVG element that screen readers announce by its description.

    Examples
    --------
    >>> draw({"data": {"values": []}, "mark": "point"}, description="nothing <yet>")[:37]
    '<svg role="img" aria-label="nothing &'
    """
    try:
        import vl_convert
    except ImportError as error:
        raise MissingDependencyError("Charts need vl-convert-python: pip install vl-convert-python.") from error
    svg: str = vl_convert.vegalite_to_svg({"config": CONFIG, "width": WIDTH, "height": HEIGHT, **spec})
    svg = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", svg)  # one picture, one description
    label = html.escape(description, quote=True)
    return re.sub(r'<svg xmlns="[^"]*" xmlns:xlink="[^"]*"', f'<svg role="img" aria-label="{label}"', svg, count=1)


def draw_all(content: ReportContent) -> dict[str, str]:
    """Every chart that the content allows, by the name the page knows it by."""
    charts: dict[str, str] = {}
    charts["certainty"] = certainty_chart(content.certainty)
    if len(content.class_rows) <= 30:
        charts["classes"] = class_chart(content.class_rows)
    if any(row.accuracy is not None and row.n_labels for row in content.annotators.rows):
        charts["annotators"] = annotator_chart(content)
    for place, curve in enumerate(content.curves):
        charts[f"curve{place}"] = curve_chart(curve)
    if content.reliability is not None:
        charts["reliability"] = reliability_chart(content.reliability)
    if content.graph is not None and content.graph.edges:
        charts["graph"] = graph_chart(content.graph)
    if content.agreement is not None and content.agreement.pairs is not None:
        charts["pairs"] = pair_chart(content.agreement.pairs)
    return charts


def axis(title: str | None, **more: Any) -> Spec:
    """An axis with a title."""
    return {"title": title, **more}


def certainty_chart(counts: tuple[int, ...]) -> str:
    """How many items have a label of which probability."""
    width = 1 / len(counts)
    rows = [{"from": place * width, "to": (place + 1) * width, "n": n} for place, n in enumerate(counts)]
    sure = sum(count for place, count in enumerate(counts) if (place + 1) * width > 0.9 + 1e-9)
    return draw(
        {
            "data": {"values": rows},
            "mark": {"type": "bar", "color": LIGHT.right, "binSpacing": 1},
            "encoding": {
                "x": {
                    "field": "from",
                    "bin": {"binned": True, "step": width},
                    "axis": axis("probability of the label", format=PERCENT, grid=False, tickCount=5),
                    "scale": {"domain": [0, 1]},
                },
                "x2": {"field": "to"},
                "y": {"field": "n", "type": "quantitative", "axis": axis("items", tickCount=4)},
            },
        },
        description=f"Histogram of the probability of labels: {sure} of {sum(counts)} items lie above 90%.",
    )


def class_chart(classes: tuple[ClassRow, ...]) -> str:
    """Share of each class among labels given and among items, as learned."""
    names = distinct([row.name for row in classes])
    rows: list[Spec] = []
    for name, row in zip(names, classes, strict=True):
        rows.append({"class": name, "share": row.item_share, "of": "items"})
        if row.label_share is not None:
            rows.append({"class": name, "share": row.label_share, "of": "given labels"})
    return draw(
        {
            "data": {"values": rows},
            "height": {"step": 9 if len(classes) > 12 else 12},
            "mark": {"type": "bar"},
            "encoding": {
                "y": {"field": "class", "type": "nominal", "sort": names, "axis": axis(None, labelLimit=110)},
                "yOffset": {"field": "of", "sort": ["items", "given labels"]},
                "x": {"field": "share", "type": "quantitative", "axis": axis(None, format=PERCENT, tickCount=5)},
                "color": {
                    "field": "of",
                    "scale": {"domain": ["items", "given labels"], "range": [LIGHT.right, LIGHT.muted]},
                    "legend": {"title": None, "orient": "top"},
                },
            },
        },
        description=f"Bars: share of each of {len(classes)} classes among items and among given labels; table follows.",
    )


def annotator_chart(content: ReportContent) -> str:
    """Accuracy of annotators against how much they labelled."""
    known = [row for row in content.annotators.rows if row.accuracy is not None and row.n_labels]
    shown = known[:: max(1, -(-len(known) // MOST_POINTS))]
    rows = [{"n": row.n_labels, "accuracy": row.accuracy, "low": row.low, "high": row.high} for row in shown]
    counts = [row.n_labels or 1 for row in shown]
    wide = max(counts) > WIDE_RANGE * min(counts)
    x = {
        "field": "n",
        "type": "quantitative",
        "scale": {"type": "log" if wide else "linear", "zero": False, "nice": False, "padding": 8},
        "axis": axis("labels given", grid=False, tickCount=4, format="~s"),
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "point", "filled": True, "size": 28, "opacity": 0.75, "color": LIGHT.right},
            "encoding": {"x": x, "y": {"field": "accuracy", "type": "quantitative"}},
        },
        {
            "data": {"values": [{"chance": content.chance}]},
            "mark": {"type": "rule", "color": LIGHT.wrong, "strokeDash": [4, 3]},
            "encoding": {"y": {"field": "chance", "type": "quantitative"}},
        },
    ]
    if len(shown) <= MOST_INTERVALS and all(row.low is not None for row in shown):
        interval = {"x": x, "y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}
        layers.insert(0, {"mark": {"type": "rule", "opacity": 0.35, "color": LIGHT.right}, "encoding": interval})
    y = {"scale": {"domain": [0, 1]}, "axis": axis("accuracy", format=PERCENT, tickCount=5)}
    return draw(
        {"data": {"values": rows}, "layer": layers, "encoding": {"y": y}},
        description=f"Accuracy against labels given, for {len(shown)} annotators; the dashed line is guessing the most "
        f"frequent class, {content.chance:.0%}.",
    )


def curve_chart(curve: Curve) -> str:
    """A history of the fit."""
    begin, end = curve.values[0], curve.values[-1]
    rows = [{"step": step + 1, "value": value} for step, value in zip(curve.steps, curve.values, strict=True)]
    return draw(
        {
            "data": {"values": rows},
            "height": 140,
            "mark": {"type": "line", "color": LIGHT.right, "strokeWidth": 2},
            "encoding": {
                "x": {
                    "field": "step",
                    "type": "quantitative",
                    "axis": axis("step", grid=False, tickCount=5, format="d"),
                },
                "y": {
                    "field": "value",
                    "type": "quantitative",
                    "scale": {"zero": False},
                    "axis": axis(None, tickCount=4, format=",.4~g"),
                },
            },
        },
        description=f"{curve.name}: from {begin:.4g} to {end:.4g} in {curve.steps[-1] + 1} steps.",
    )


def reliability_chart(bins: Reliability) -> str:
    """Share right against probability."""
    points = zip(bins.probability, bins.accuracy, bins.count, strict=True)
    rows = [{"probability": probability, "accuracy": accuracy, "n": n} for probability, accuracy, n in points]
    percent = {"type": "quantitative", "scale": {"domain": [0, 1]}}
    return draw(
        {
            "layer": [
                {
                    "data": {"values": [{"p": 0}, {"p": 1}]},
                    "mark": {"type": "line", "color": LIGHT.muted, "strokeDash": [4, 3], "strokeWidth": 1},
                    "encoding": {"x": {"field": "p", **percent}, "y": {"field": "p", **percent}},
                },
                {
                    "data": {"values": rows},
                    "mark": {"type": "line", "color": LIGHT.right, "strokeWidth": 2},
                    "encoding": {"x": {"field": "probability", **percent}, "y": {"field": "accuracy", **percent}},
                },
                {
                    "data": {"values": rows},
                    "mark": {"type": "point", "filled": True, "opacity": 1, "color": LIGHT.right},
                    "encoding": {
                        "x": {
                            "field": "probability",
                            **percent,
                            "axis": axis("probability of the label", format=PERCENT, tickCount=5),
                        },
                        "y": {"field": "accuracy", **percent, "axis": axis("share right", format=PERCENT, tickCount=5)},
                        "size": {"field": "n", "type": "quantitative", "scale": {"range": [20, 200]}, "legend": None},
                    },
                },
            ]
        },
        description=f"Reliability curve: probabilities and share right differ by {bins.expected_error:.1%} on average.",
    )


def graph_chart(graph: Graph) -> str:
    """Who shares items with whom."""
    most = max(shared for _, _, shared in graph.edges)
    lines = [
        {"x": graph.x[a], "y": graph.y[a], "x2": graph.x[b], "y2": graph.y[b], "w": shared / most}
        for a, b, shared in graph.edges
    ]
    nodes = [
        {"x": x, "y": y, "name": name if len(name) <= 14 else f"{name[:13]}…", "n": n}
        for x, y, name, n in zip(graph.x, graph.y, graph.names, graph.n_labels, strict=True)
    ]
    place = {"type": "quantitative", "axis": None, "scale": {"domain": [-1.12, 1.12]}}
    here = {"x": {"field": "x", **place}, "y": {"field": "y", **place}}
    return draw(
        {
            "height": WIDTH,
            "layer": [
                {
                    "data": {"values": lines},
                    "mark": {"type": "rule", "color": LIGHT.muted},
                    "encoding": {
                        **here,
                        "x2": {"field": "x2"},
                        "y2": {"field": "y2"},
                        "strokeWidth": {
                            "field": "w",
                            "type": "quantitative",
                            "scale": {"domain": [0, 1], "range": [0.3, 3]},
                            "legend": None,
                        },
                        "opacity": {"value": 0.35},
                    },
                },
                {
                    "data": {"values": nodes},
                    "mark": {"type": "point", "filled": True, "opacity": 1, "color": LIGHT.right},
                    "encoding": {
                        **here,
                        "size": {"field": "n", "type": "quantitative", "scale": {"range": [30, 220]}, "legend": None},
                    },
                },
                {
                    "data": {"values": nodes[:MOST_NODE_NAMES]},
                    "mark": {"type": "text", "dy": -10, "fontSize": 10, "color": LIGHT.ink},
                    "encoding": {**here, "text": {"field": "name"}},
                },
            ],
        },
        description=f"Graph of {len(graph.names)} annotators; lines join those who labelled the same items.",
    )


def pair_chart(pairs: PairTable) -> str:
    """Share of equal labels of every two of the busiest annotators."""
    names = distinct(pairs.names)
    rows = [
        {"first": names[i], "second": names[j], "share": share}
        for i, row in enumerate(pairs.agreement)
        for j, share in enumerate(row)
        if share is not None
    ]
    place = {"type": "nominal", "scale": {"domain": names}}
    shown = {"labelLimit": 90, "grid": False}
    return draw(
        {
            "data": {"values": rows},
            "width": {"step": 15},
            "height": {"step": 15},
            "mark": {"type": "rect", "color": LIGHT.right},
            "encoding": {
                "x": {"field": "first", **place, "axis": axis(None, labelAngle=-90, **shown)},
                "y": {"field": "second", **place, "axis": axis(None, **shown)},
                "opacity": {
                    "field": "share",
                    "type": "quantitative",
                    "scale": {"domain": [0, 1], "range": [0.04, 1]},
                    "legend": {"title": "equal labels", "format": PERCENT, "orient": "top", "values": [0, 0.5, 1]},
                },
            },
        },
        description=f"Share of equal labels between every two of {len(pairs.names)} annotators.",
    )


def distinct(names: Sequence[str]) -> list[str]:
    """Names with a number after those that look like an earlier one, so that a chart keeps them apart.

    Examples
    --------
    >>> distinct(["ann", "7", "7"])
    ['ann', '7', '7 (2)']
    """
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found
