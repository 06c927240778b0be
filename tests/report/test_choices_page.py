from __future__ import annotations

import pytest

from crowdprism.aggregators.multi_label import fit_choices
from crowdprism.annotations.choice_sets import MultiLabelAnnotations
from crowdprism.report.choices_page import annotator_columns, choice_columns, choices_page


def test_the_page_shows_choices_annotators_and_items() -> None:
    chosen = [["<b>news", "sport"], ["<b>news"], ["sport"], [], ["sport"], ["sport"]]
    annotations = MultiLabelAnnotations.from_triplets(list("xxyyzz"), ["ann", "bob"] * 3, chosen)
    page = choices_page(fit_choices(annotations), annotations)
    assert "3 items, 2 choices" in page
    assert "items without any: 0." in page
    assert "&lt;b&gt;news" in page
    assert "<b>news" not in page
    assert "Items to look at" in page


def test_shares_are_those_of_the_answers() -> None:
    annotations = MultiLabelAnnotations.from_triplets(["x"] * 3, ["a", "b", "c"], [["p"], ["p"], ["p", "q"]])
    result = fit_choices(annotations, "majority-vote")
    assert choice_columns(result, annotations)["ticked"] == pytest.approx([1, 1 / 3])
    people = annotator_columns(result, annotations)
    assert people["annotator"].tolist() == ["a", "b", "c"]
    # p applies surely, q with a vote share of one third
    assert people["finds"][0] == pytest.approx(1 / (4 / 3))
    assert people["leaves_out"][2] == pytest.approx(0)
