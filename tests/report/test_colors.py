"""Colours that everyone can read."""

from __future__ import annotations

import re

import pytest

from crowdprism.report.page import asset

READABLE_CONTRAST = 4.5  # WCAG 2.2, success criterion 1.4.3, level AA
THEMES = [dict(re.findall(r"--(\w+):(#\w{6})", block)) for block in asset("colors.css").split(":root")[1:]]


def luminance(color: str) -> float:
    """Relative luminance as WCAG defines it."""
    shares = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark", "dark on request"])
def test_all_text_is_readable_on_its_background(theme: dict[str, str]) -> None:
    for ramp in "rw":
        for step in range(11):
            assert contrast(theme[f"{ramp}{step}"], theme[f"{ramp}{step}t"]) >= READABLE_CONTRAST
    for text in ("ink", "muted", "right", "wrong", "good"):
        for background in ("card", "paper"):
            assert contrast(theme[text], theme[background]) >= READABLE_CONTRAST


def test_black_and_white_have_the_largest_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_the_dark_theme_is_the_same_by_preference_and_on_request() -> None:
    assert THEMES[1] == THEMES[2] != THEMES[0]


def test_roles_have_colours_of_their_own_so_that_charts_can_be_recoloured() -> None:
    for theme in THEMES:
        roles = [color for name, color in theme.items() if not re.fullmatch(r"[rw]\d+t?", name)]
        assert len(set(roles)) == len(roles) == 8
