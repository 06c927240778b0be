"""The page to answer on: what its script gets, and that nothing in it can act."""

from __future__ import annotations

from pathlib import Path

import crowdprism as cp
from crowdprism.annotations.names import name_array
from crowdprism.report.answer_page import Questions, page_data, votes_on, write_answer_page

VOTES = cp.Annotations.from_dicts({"x": {"a": "cat", "b": "=dog", "c": "=dog"}, "y": {"a": "cat"}})


def test_votes_are_counted_with_the_most_frequent_first() -> None:
    assert votes_on(VOTES, "x") == [(0, 2), (1, 1)]
    assert votes_on(VOTES, "z") == []
    assert votes_on(None, "x") == []


def test_cells_that_could_run_are_marked_as_in_every_table_of_ours() -> None:
    data = page_data(Questions("t", "n", ["x", "y"], VOTES.classes, VOTES), remote=False)
    assert data["classes"] == ["=dog", "cat"]
    assert data["classCells"] == ["'=dog", "cat"]
    assert data["marker"] == "crowdprism_escaped"
    assert page_data(Questions("t", "n", ["x"], name_array(["cat", "dog"])), remote=False)["marker"] == ""


def test_the_page_allows_nothing_but_its_own_script_and_style(tmp_path: Path) -> None:
    asked = Questions("</title><script>", "n", ["</script><script>alert(1)</script>"], VOTES.classes)
    page = write_answer_page(tmp_path / "p.html", asked).read_text(encoding="utf-8")
    assert page.count("</script>") == 2
    assert "default-src 'none'" in page
    assert "img-src data:;" in page
    remote = write_answer_page(tmp_path / "r.html", asked, remote_images=True).read_text(encoding="utf-8")
    assert "img-src data: https: http:;" in remote
