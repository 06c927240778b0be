"""Charts as finished SVG pictures, in the colours of the page's themes (`assets/colors.css`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from crowdprism.report.report_records import ClassRow, Curve, Graph, PairTable, Reliability, ReportContent

WIDTH, HEIGHT = 340, 200  # of the area inside the axes; fits a phone unshrunk
BELOW, EDGE = 40, 10  # room for the labels of the horizontal axis, and around the rest
LETTER = 6.8  # mean width of a letter
INK, MUTED, LINE, RIGHT, WRONG = (f"var(--{role})" for role in ("ink", "muted", "line", "right", "wrong"))
DASHED = "4 3"
MOST_BARS = 30
MOST_POINTS = 600
MOST_INTERVALS = 80
ALL_NAMED, SOME_NAMED = 16, 10  # nodes: up to so many are all named; of more, these, or names cover each other
LONGEST_NAME = 16  # letters
WIDE_RANGE = 20  # counts that differ by more than this factor are drawn on a logarithmic axis


def draw_all(content: ReportContent) -> dict[str, str]:
    """Every chart that the content allows, by its name in the page."""
    charts: dict[str, str] = {}
    if content.certainty:
        charts["certainty"] = certainty_chart(content.certainty)
    if len(content.class_rows) <= MOST_BARS:
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


class Scale(NamedTuple):
    """Places numbers from `low` to `high` between two pixels, by their logarithms if asked."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(one) if self.logarithmic else one for one in (self.low, self.high, value))
        return self.start + (at - low) / ((high - low) or 1) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers within the scale."""
        if self.logarithmic:
            digits = (1, 2, 5) if self.high < 100 * self.low else (1,)
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [digit * 10.0**power for power in powers for digit in digits]
            return [tick for tick in found if self.low <= tick <= self.high]
        least = (self.high - self.low or 1) / most
        size = 10.0 ** math.floor(math.log10(least))
        step = next(factor * size for factor in (1, 2, 5, 10) if factor * size > 0.999 * least)
        first, last = math.ceil(self.low / step - 1e-6), math.floor(self.high / step + 1e-6)
        return [round(place * step, 12) for place in range(first, last + 1)]


def tag(name: str, content: str = "", **attributes: Any) -> str:
    """An SVG element around SVG; numbers are rounded, and texts of attributes are escaped."""
    texts = {key: f"{round(one, 2):g}" if isinstance(one, float) else str(one) for key, one in attributes.items()}
    written = "".join(f' {key.replace("_", "-")}="{escape(one)}"' for key, one in texts.items())
    return f"<{name}{written}>{content}</{name}>"


def text(x: float, y: float, words: str, **more: Any) -> str:
    return tag("text", escape(words), x=x, y=y, **{"fill": MUTED, **more})


def line(x1: float, y1: float, x2: float, y2: float, color: str, **more: Any) -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=color, **more)


def dot(x: float, y: float, area: float, **more: Any) -> str:
    return tag("circle", cx=x, cy=y, r=math.sqrt(area / math.pi), fill=RIGHT, **more)


def path(points: Sequence[tuple[float, float]]) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return tag("polyline", points=places, fill="none", stroke=RIGHT, stroke_width=2)


def picture(
    parts: Sequence[str], description: str, *, left: float, width: float = WIDTH, height: float, below: float = BELOW
) -> str:
    """The chart as an SVG element that screen readers announce by its description; (0, 0) is where its axes meet."""
    wide, high = round(left + width + EDGE), round(height + below + EDGE)
    box = f"{-round(left)} {-round(height) - EDGE} {wide} {high}"
    about = {"role": "img", "aria_label": description}
    return tag("svg", "".join(parts), **about, width=wide, height=high, viewBox=box, font_size=11)


def axes_chart(
    parts: Sequence[str],
    description: str,
    x: Scale,
    y: Scale,
    *,
    titles: tuple[str, str],
    formats: tuple[Callable[[float], str], Callable[[float], str]],
) -> str:
    """A chart with both axes: lines across at the ticks of the vertical one, numbers, titles."""
    shown = [(formats[1](tick), y(tick)) for tick in y.ticks()]
    left = LETTER * max((len(label) for label, _ in shown), default=0) + (30 if titles[1] else 12)
    grid = [line(0, at, WIDTH, at, LINE) for _, at in shown]
    grid += [text(-6, at + 4, label, text_anchor="end") for label, at in shown]
    grid += [text(x(tick), 16, formats[0](tick), text_anchor="middle") for tick in x.ticks()]
    grid.append(text(WIDTH / 2, 34, titles[0], text_anchor="middle", font_size=12))
    middle = f"translate({12 - left:.0f} {y.end / 2:.0f}) rotate(-90)"
    grid.append(text(0, 0, titles[1], text_anchor="middle", font_size=12, transform=middle))
    return picture([*grid, *parts], description, left=left, height=-y.end)


def percent(share: float) -> str:
    return f"{share:.0%}"


def short(number: float) -> str:
    """A number of few letters."""
    if abs(number) >= 1e6:
        return f"{number / 1e6:g}M"
    return f"{number / 1e3:g}k" if abs(number) >= 1e4 else f"{number:,g}"


def cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def certainty_chart(counts: tuple[int, ...]) -> str:
    x, y = Scale(0, 1, 0, WIDTH), Scale(0, max(max(counts), 1), 0, -HEIGHT)
    width = WIDTH / len(counts)
    bars = [
        tag("rect", x=place * width, y=y(count), width=width - 1, height=-y(count), fill=RIGHT)
        for place, count in enumerate(counts)
        if count
    ]
    sure = sum(count for place, count in enumerate(counts) if (place + 1) / len(counts) > 0.9 + 1e-9)
    description = f"Histogram of the confidence of labels: {sure} of {sum(counts)} items are above 90%."
    return axes_chart(bars, description, x, y, titles=("confidence of the label", "items"), formats=(percent, short))


def class_chart(classes: tuple[ClassRow, ...]) -> str:
    thick = 9 if len(classes) > 12 else 12
    height = len(classes) * (2 * thick + 6)
    most = max((share for row in classes for share in (row.item_share, row.label_share) if share), default=1.0)
    x = Scale(0, most, 0, WIDTH)
    parts = [line(x(tick), -height, x(tick), 0, LINE) for tick in x.ticks()]
    parts += [text(x(tick), 16, percent(tick), text_anchor="middle") for tick in x.ticks()]
    for place, row in enumerate(classes):
        top = -height + place * (2 * thick + 6) + 3
        parts.append(text(-6, top + thick + 4, cut(row.name), text_anchor="end"))
        for at, share, color in ((top, row.item_share, RIGHT), (top + thick, row.label_share, MUTED)):
            parts.append(tag("rect", x=0, y=at, width=x(share or 0), height=thick, fill=color))
    for at, color, name in ((0, RIGHT, "items"), (70, MUTED, "given labels")):
        parts += [tag("rect", x=at, y=24, width=10, height=10, fill=color), text(at + 15, 33, name)]
    description = f"Bars: share of each of {len(classes)} classes among items and among given labels; table follows."
    left = 12 + LETTER * max((len(cut(row.name)) for row in classes), default=0)
    return picture(parts, description, left=left, height=height)


def annotator_chart(content: ReportContent) -> str:
    """Accuracy of annotators against the number of labels they gave."""
    known = [row for row in content.annotators.rows if row.accuracy is not None and row.n_labels]
    drawn = known[:: max(1, -(-len(known) // MOST_POINTS))]
    counts = [row.n_labels or 1 for row in drawn]
    wide = max(counts) > WIDE_RANGE * min(counts)
    x, y = Scale(min(counts), max(counts), EDGE, WIDTH - EDGE, wide), Scale(0, 1, 0, -HEIGHT)
    parts = [line(0, y(content.chance), WIDTH, y(content.chance), WRONG, stroke_dasharray=DASHED)]
    for row, count in zip(drawn, counts, strict=True):
        if len(drawn) <= MOST_INTERVALS and row.low is not None and row.high is not None:
            parts.append(line(x(count), y(row.low), x(count), y(row.high), RIGHT, opacity=0.35))
        parts.append(dot(x(count), y(row.accuracy or 0), 28, opacity=0.75))
    description = (
        f"Accuracy against labels given, for {len(drawn)} annotators; the dashed line is the accuracy of always "
        f"choosing the most frequent class, {content.chance:.0%}."
    )
    return axes_chart(parts, description, x, y, titles=("labels given", "accuracy"), formats=(short, percent))


def curve_chart(curve: Curve) -> str:
    x = Scale(1, curve.steps[-1] + 1, 0, WIDTH)
    y = Scale(min(curve.values), max(curve.values), 0, -140)
    points = [(x(step + 1), y(value)) for step, value in zip(curve.steps, curve.values, strict=True)]
    begin, end = curve.values[0], curve.values[-1]
    description = f"{curve.name}: from {begin:.4g} to {end:.4g} in {curve.steps[-1] + 1} steps."
    return axes_chart([path(points)], description, x, y, titles=("step", ""), formats=(short, short))


def reliability_chart(bins: Reliability) -> str:
    """Share of right labels against probability."""
    x, y = Scale(0, 1, 0, WIDTH), Scale(0, 1, 0, -HEIGHT)
    most = max(count for _, _, count in bins.bins)
    points = [(x(probability), y(share)) for probability, share, _ in bins.bins]
    dots = [dot(x(probability), y(share), 20 + 180 * count / most) for probability, share, count in bins.bins]
    diagonal = line(0, 0, WIDTH, -HEIGHT, MUTED, stroke_dasharray=DASHED)
    description = f"Reliability: probability and share of right labels differ by {bins.expected_error:.1%} on average."
    titles = "the model's probability", "share right"
    return axes_chart([diagonal, path(points), *dots], description, x, y, titles=titles, formats=(percent, percent))


def graph_chart(graph: Graph) -> str:
    x, y = Scale(-1.12, 1.12, 0, WIDTH), Scale(-1.12, 1.12, 0, -WIDTH)
    places = [(x(across), y(up)) for across, up in zip(graph.x, graph.y, strict=True)]
    most = max(shared for _, _, shared in graph.edges)
    parts = [
        line(*places[a], *places[b], MUTED, stroke_width=0.3 + 2.7 * shared / most, opacity=0.35)
        for a, b, shared in graph.edges
    ]
    largest = max(graph.n_labels)
    parts += [dot(*place, 30 + 190 * n / largest) for place, n in zip(places, graph.n_labels, strict=True)]
    named = ALL_NAMED if len(graph.names) <= ALL_NAMED else SOME_NAMED
    for name, (across, down) in list(zip(graph.names, places, strict=True))[:named]:
        parts.append(text(across, down - 10, cut(name), text_anchor="middle", font_size=10, fill=INK))
    description = f"Graph of {len(graph.names)} annotators; lines connect those who labelled the same items."
    return picture(parts, description, left=EDGE, height=WIDTH, below=EDGE)


def square(x: float, y: float, side: int, share: float) -> str:
    return tag("rect", x=x, y=y, width=side, height=side, fill=RIGHT, opacity=0.04 + 0.96 * share)


def pair_chart(pairs: PairTable) -> str:
    """Share of equal labels for all pairs of the annotators with most labels."""
    side, names = 15, [cut(name) for name in pairs.names]
    size = side * len(names)
    parts = []
    for row, (name, shares) in enumerate(zip(names, pairs.agreement, strict=True)):
        middle = (row + 0.5) * side
        parts.append(text(-6, middle - size + 4, name, text_anchor="end"))
        parts.append(text(0, 0, name, text_anchor="end", transform=f"translate({middle + 4} 6) rotate(-90)"))
        for column, share in enumerate(shares):
            if share is not None:
                parts.append(square(column * side, row * side - size, side, share))
    room = 12 + LETTER * max(map(len, names))
    for at, share in ((0, 0.0), (60, 0.5), (120, 1.0)):
        parts += [square(at, room + 8, 12, share), text(at + 17, room + 18, percent(share))]
    description = f"Share of equal labels for all pairs of {len(pairs.names)} annotators."
    return picture(parts, description, left=room, width=max(size, 180), height=size, below=room + 30)
