"""Charts, written in Vega-Lite and drawn to SVG when the report is built.

The page contains finished pictures: there is no charting library to load, and they print. Colours are those of the
light theme; a style sheet replaces them in the dark theme (`palette.chart_rules`).
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
MOST_NODE_NAMES = 10  # more would cover each other
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
    """Every chart that the content allows, by its name in the page."""
    charts: dict[str, str] = {}
    if content.certainty:
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


def number(field: str, title: str | None = None, *, scale: Spec | None = None, **axis: Any) -> Spec:
    """A channel that shows numbers, with the title and options of its axis."""
    channel: Spec = {"field": field, "type": "quantitative", "axis": {"title": title, **axis}}
    return channel if scale is None else {**channel, "scale": scale}


def certainty_chart(counts: tuple[int, ...]) -> str:
    """Number of items by the confidence of their label."""
    width = 1 / len(counts)
    rows = [{"from": place * width, "to": (place + 1) * width, "n": n} for place, n in enumerate(counts)]
    sure = sum(count for place, count in enumerate(counts) if (place + 1) * width > 0.9 + 1e-9)
    x = {
        "field": "from",
        "bin": {"binned": True, "step": width},
        "axis": {"title": "confidence of the label", "format": PERCENT, "grid": False, "tickCount": 5},
        "scale": {"domain": [0, 1]},
    }
    return draw(
        {
            "data": {"values": rows},
            "mark": {"type": "bar", "color": LIGHT.right, "binSpacing": 1},
            "encoding": {"x": x, "x2": {"field": "to"}, "y": number("n", "items", tickCount=4)},
        },
        description=f"Histogram of the confidence of labels: {sure} of {sum(counts)} items are above 90%.",
    )


def class_chart(classes: tuple[ClassRow, ...]) -> str:
    """Share of each class among items and among given labels."""
    names = distinct([row.name for row in classes])
    kinds = ["items", "given labels"]
    rows: list[Spec] = []
    for name, row in zip(names, classes, strict=True):
        shares = zip(kinds, (row.item_share, row.label_share), strict=True)
        rows += [{"class": name, "share": share, "of": kind} for kind, share in shares if share is not None]
    colors = {"domain": kinds, "range": [LIGHT.right, LIGHT.muted]}
    return draw(
        {
            "data": {"values": rows},
            "height": {"step": 9 if len(classes) > 12 else 12},
            "mark": {"type": "bar"},
            "encoding": {
                "y": {"field": "class", "type": "nominal", "sort": names, "axis": {"title": None, "labelLimit": 110}},
                "yOffset": {"field": "of", "sort": kinds},
                "x": number("share", format=PERCENT, tickCount=5),
                "color": {"field": "of", "scale": colors, "legend": {"title": None, "orient": "top"}},
            },
        },
        description=f"Bars: share of each of {len(classes)} classes among items and among given labels; table follows.",
    )


def annotator_chart(content: ReportContent) -> str:
    """Accuracy of annotators against the number of labels they gave."""
    known = [row for row in content.annotators.rows if row.accuracy is not None and row.n_labels]
    drawn = known[:: max(1, -(-len(known) // MOST_POINTS))]
    rows = [{"n": row.n_labels, "accuracy": row.accuracy, "low": row.low, "high": row.high} for row in drawn]
    counts = [row.n_labels or 1 for row in drawn]
    kind = "log" if max(counts) > WIDE_RANGE * min(counts) else "linear"
    scale = {"type": kind, "zero": False, "nice": False, "padding": 8}
    x = number("n", "labels given", scale=scale, grid=False, tickCount=4, format="~s")
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
    if len(drawn) <= MOST_INTERVALS and all(row.low is not None for row in drawn):
        interval = {"x": x, "y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}
        layers.insert(0, {"mark": {"type": "rule", "opacity": 0.35, "color": LIGHT.right}, "encoding": interval})
    y = {"scale": {"domain": [0, 1]}, "axis": {"title": "accuracy", "format": PERCENT, "tickCount": 5}}
    return draw(
        {"data": {"values": rows}, "layer": layers, "encoding": {"y": y}},
        description=f"Accuracy against labels given, for {len(drawn)} annotators; the dashed line is the accuracy of "
        f"always choosing the most frequent class, {content.chance:.0%}.",
    )


def curve_chart(curve: Curve) -> str:
    """A history of the fit."""
    rows = [{"step": step + 1, "value": value} for step, value in zip(curve.steps, curve.values, strict=True)]
    begin, end = curve.values[0], curve.values[-1]
    return draw(
        {
            "data": {"values": rows},
            "height": 140,
            "mark": {"type": "line", "color": LIGHT.right, "strokeWidth": 2},
            "encoding": {
                "x": number("step", "step", grid=False, tickCount=5, format="d"),
                "y": number("value", scale={"zero": False}, tickCount=4, format=",.4~g"),
            },
        },
        description=f"{curve.name}: from {begin:.4g} to {end:.4g} in {curve.steps[-1] + 1} steps.",
    )


def reliability_chart(bins: Reliability) -> str:
    """Share of right labels against probability."""
    points = zip(bins.probability, bins.accuracy, bins.count, strict=True)
    rows = [{"probability": probability, "accuracy": accuracy, "n": n} for probability, accuracy, n in points]
    ticks: Spec = {"scale": {"domain": [0, 1]}, "format": PERCENT, "tickCount": 5}
    place = {
        "x": number("probability", "the model's probability", **ticks),
        "y": number("accuracy", "share right", **ticks),
    }
    diagonal = {"x": number("p", "probability of the label", **ticks), "y": number("p", "share right", **ticks)}
    size = {"field": "n", "type": "quantitative", "scale": {"range": [20, 200]}, "legend": None}
    return draw(
        {
            "data": {"values": rows},
            "layer": [
                {
                    "data": {"values": [{"p": 0}, {"p": 1}]},
                    "mark": {"type": "line", "color": LIGHT.muted, "strokeDash": [4, 3], "strokeWidth": 1},
                    "encoding": diagonal,
                },
                {"mark": {"type": "line", "color": LIGHT.right, "strokeWidth": 2}, "encoding": place},
                {
                    "mark": {"type": "point", "filled": True, "opacity": 1, "color": LIGHT.right},
                    "encoding": {**place, "size": size},
                },
            ],
        },
        description=f"Reliability curve: probability and share of right labels differ by {bins.expected_error:.1%} on "
        "average.",
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
    thick = {"field": "w", "type": "quantitative", "scale": {"domain": [0, 1], "range": [0.3, 3]}, "legend": None}
    size = {"field": "n", "type": "quantitative", "scale": {"range": [30, 220]}, "legend": None}
    ends = {"x2": {"field": "x2"}, "y2": {"field": "y2"}, "strokeWidth": thick, "opacity": {"value": 0.35}}
    return draw(
        {
            "height": WIDTH,
            "layer": [
                {
                    "data": {"values": lines},
                    "mark": {"type": "rule", "color": LIGHT.muted},
                    "encoding": {**here, **ends},
                },
                {
                    "data": {"values": nodes},
                    "mark": {"type": "point", "filled": True, "opacity": 1, "color": LIGHT.right},
                    "encoding": {**here, "size": size},
                },
                {
                    "data": {"values": nodes[:MOST_NODE_NAMES]},
                    "mark": {"type": "text", "dy": -10, "fontSize": 10, "color": LIGHT.ink},
                    "encoding": {**here, "text": {"field": "name"}},
                },
            ],
        },
        description=f"Graph of {len(graph.names)} annotators; lines connect those who labelled the same items.",
    )


def pair_chart(pairs: PairTable) -> str:
    """Share of equal labels for all pairs of the annotators with most labels."""
    names = distinct(pairs.names)
    rows = [
        {"first": names[i], "second": names[j], "share": share}
        for i, row in enumerate(pairs.agreement)
        for j, share in enumerate(row)
        if share is not None
    ]
    place = {"type": "nominal", "scale": {"domain": names}}
    labels = {"title": None, "labelLimit": 90, "grid": False}
    share = {
        "field": "share",
        "type": "quantitative",
        "scale": {"domain": [0, 1], "range": [0.04, 1]},
        "legend": {"title": "equal labels", "format": PERCENT, "orient": "top", "values": [0, 0.5, 1]},
    }
    return draw(
        {
            "data": {"values": rows},
            "width": {"step": 15},
            "height": {"step": 15},
            "mark": {"type": "rect", "color": LIGHT.right},
            "encoding": {
                "x": {"field": "first", **place, "axis": {**labels, "labelAngle": -90}},
                "y": {"field": "second", **place, "axis": labels},
                "opacity": share,
            },
        },
        description=f"Share of equal labels for all pairs of {len(pairs.names)} annotators.",
    )


def distinct(names: Sequence[str]) -> list[str]:
    """Add a number to names that equal an earlier one, so that a chart keeps them apart."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found
