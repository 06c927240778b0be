"""Names are shown so that nothing hides in them, and tables escape what they hold."""

from __future__ import annotations

from crowdprism.annotations import Annotations
from crowdprism.annotations.notebook import LONGEST_NAME, annotations_html, display_name, html_table, visible


def test_marks_that_hide_or_reorder_text_are_spelt_out() -> None:
    assert visible("plain é 日本") == "plain é 日本"
    assert visible("a\u202eb\x00c\u200b") == "a⟨U+202E⟩b⟨U+0000⟩c⟨U+200B⟩"
    assert visible("\ud800") == "⟨U+D800⟩"
    assert display_name("") == "(empty)"


def test_the_middle_of_a_long_name_is_left_out() -> None:
    shown = display_name("a" * 200 + "z" * 200)
    assert len(shown) == LONGEST_NAME
    assert shown.startswith("aaa")
    assert shown.endswith("zzz")
    assert "…" in shown


def test_cells_and_titles_are_escaped() -> None:
    page = html_table("<t>", ("<h>",), [("<img src=x>",)])
    assert "<t>" not in page
    assert "<h>" not in page
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page


def test_the_most_frequent_of_many_classes_are_shown() -> None:
    a = Annotations.from_triplets(range(12), ["ann"] * 12, [*range(11), 10], classes=range(40))
    page = annotations_html(a)
    assert "the 10 most frequent of 40" in page
    assert page.index(">10<") < page.index(">0<")
