"""Colours of the page, light and dark, chosen so that text on them stays readable.

Blue means right and orange means wrong. People with any common colour blindness can distinguish the two, and each ramp
gets steadily darker (lighter in the dark theme), so it also works in black and white.
"""

from __future__ import annotations

from dataclasses import dataclass

N_STEPS = 11  # heat-map steps: 0 %, 10 %, ..., 100 %
READABLE_CONTRAST = 4.5  # WCAG 2.2, success criterion 1.4.3, level AA

Color = tuple[int, int, int]


@dataclass(frozen=True)
class Theme:
    """Colours by role; heat maps run from `card` to `right` on the diagonal and to `wrong` off it."""

    paper: str
    card: str
    ink: str
    muted: str
    line: str
    right: str
    wrong: str
    good: str


LIGHT = Theme("#f6f6f3", "#ffffff", "#1c2330", "#566070", "#dcdfe4", right="#0b4f94", wrong="#a63f03", good="#17694a")
DARK = Theme("#11151b", "#191f28", "#e7eaf0", "#a4adbb", "#343c49", right="#8cc4ff", wrong="#ffb27a", good="#7ad3ac")


def parse(color: str) -> Color:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def luminance(color: str) -> float:
    """Relative luminance as WCAG defines it.

    Examples
    --------
    >>> luminance("#000000"), luminance("#ffffff")
    (0.0, 1.0)
    """
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (channel / 255 for channel in parse(color))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, 1 to 21, as WCAG defines it.

    Examples
    --------
    >>> round(contrast("#000000", "#ffffff"))
    21
    """
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def mix(start: str, end: str, share: float) -> str:
    """The colour `share` of the way from start to end."""
    pairs = zip(parse(start), parse(end), strict=True)
    return "#" + "".join(f"{round(low + (high - low) * share):02x}" for low, high in pairs)


def ramp(theme: Theme, end: str) -> list[tuple[str, str]]:
    """(background, text) for each step of a heat map."""
    backgrounds = [mix(theme.card, end, step / (N_STEPS - 1)) for step in range(N_STEPS)]
    return [(color, text_on(color, theme)) for color in backgrounds]


def text_on(background: str, theme: Theme) -> str:
    """The ink or card colour of the theme if readable; else black or white, one of which always is."""
    for text in (theme.ink, theme.card):
        if contrast(background, text) >= READABLE_CONTRAST:
            return text
    return max(("#000000", "#ffffff"), key=lambda text: contrast(background, text))


def variables(theme: Theme) -> str:
    plain = [f"--{role}:{color}" for role, color in vars(theme).items()]
    heat = [
        f"--{name}{step}:{background};--{name}{step}t:{text}"
        for name, end in (("r", theme.right), ("w", theme.wrong))
        for step, (background, text) in enumerate(ramp(theme, end))
    ]
    return ";".join([*plain, *heat])


def heat_rules() -> str:
    """CSS classes r0..r10 (right, on the diagonal) and w0..w10 (wrong, off it)."""
    return "".join(
        f".{name}{step}{{background:var(--{name}{step});color:var(--{name}{step}t)}}"
        for name in "rw"
        for step in range(N_STEPS)
    )
