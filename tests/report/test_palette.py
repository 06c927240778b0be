"""Colours that everyone can read."""

from __future__ import annotations

import pytest

from crowdprism.report.palette import DARK, LIGHT, READABLE_CONTRAST, Theme, contrast, ramp


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_all_text_is_readable_on_its_background(theme: Theme) -> None:
    for end in (theme.right, theme.wrong):
        for background, text in ramp(theme, end):
            assert contrast(background, text) >= READABLE_CONTRAST
    for text in (theme.ink, theme.muted, theme.right, theme.wrong, theme.good):
        for background in (theme.card, theme.paper):
            assert contrast(text, background) >= READABLE_CONTRAST


def test_roles_have_colours_of_their_own_so_that_charts_can_be_recoloured() -> None:
    assert len(set(vars(LIGHT).values())) == len(vars(LIGHT))
