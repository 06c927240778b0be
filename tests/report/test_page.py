"""The page itself: self-contained, small, safe, readable."""

from __future__ import annotations

import html.parser
import json
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crowdprism as cp
from crowdprism.annotations.notebook import LONGEST_NAME, display_name
from crowdprism.report import report_page, write_report
from crowdprism.report.annotator_rows import MOST_ROWS
from crowdprism.report.page import embedded_json
from crowdprism.simulate import demo_annotations, one_coin, per_item, simulate_annotations

MADE = datetime(2026, 1, 2, 3, 4)
HOSTILE = ["<script>alert(1)</script>", "</script><b>", "\"'`", "=cmd|' /C calc'!A0", "a\u202eb\u2028c", "{{ 7*7 }}"]
MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def page() -> str:
    crowd = demo_annotations(np.arange(300) % 10, seed=1)
    return report_page(cp.make_aggregator("dawid-skene", use_gold=False).fit(crowd).result_, crowd, made=MADE)


class Elements(html.parser.HTMLParser):
    """Tags with their attributes, and void-free nesting."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    for tag, attributes in Elements(page).found:
        for name in ("src", "href", "srcset", "data", "action"):
            value = attributes.get(name) or ""
            assert value.startswith(("#", "data:")) or not value, f"<{tag} {name}={value}>"
    assert not re.search(r"url\(|@import|https?:|//[a-z]", page.replace("// ", "")), "no address at all"


def test_ids_are_unique_and_every_link_leads_somewhere(page: str) -> None:
    elements = Elements(page).found
    ids = [attributes["id"] for _, attributes in elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    for tag, attributes in elements:
        if tag == "a":
            assert attributes["href"][1:] in ids


def test_the_code_to_repeat_a_fit_has_lines(page: str) -> None:
    assert "<code>import crowdprism as cp\n" in page
    assert "U+000A" not in page


def test_the_same_result_gives_the_same_page(page: str) -> None:
    crowd = demo_annotations(np.arange(300) % 10, seed=1)
    assert report_page(cp.make_aggregator("dawid-skene", use_gold=False).fit(crowd).result_, crowd, made=MADE) == page


def test_hostile_names_open_no_tag_and_survive_whole() -> None:
    random = np.random.default_rng(0)
    votes = random.integers(len(HOSTILE), size=(30, len(HOSTILE)))
    item, annotator = np.divmod(np.arange(votes.size), len(HOSTILE))
    a = cp.Annotations.from_triplets(
        [HOSTILE[row % len(HOSTILE)] + str(row) for row in item],
        [HOSTILE[column] for column in annotator],
        [HOSTILE[vote] for vote in votes.reshape(-1)],
    )
    result = cp.make_aggregator("dawid-skene", use_gold=False).fit(a).result_
    page = report_page(result, a, comparison=[{"method": HOSTILE[0], HOSTILE[1]: 1.0}], command=HOSTILE[0])
    tags = [tag for tag, _ in Elements(page).found]
    assert tags.count("script") == 2, "the data and the page's own"
    assert "b" not in [tag for tag, attributes in Elements(page.split("<main", 1)[0]).found]
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
    assert {row[0] for row in data["annotators"]["rows"]} == {display_name(name) for name in HOSTILE}
    assert "\u202e" not in page
    for shown in (result._repr_html_(), a._repr_html_()):
        assert "<script" not in shown
        assert "\u202e" not in shown


@given(st.text())
def test_embedded_json_holds_no_sign_that_html_acts_on_and_reads_back(text: str) -> None:
    embedded = embedded_json({"name": text})
    assert not set(embedded) & set("<>&\u2028\u2029")
    assert json.loads(embedded) == {"name": text}


@given(st.text(st.characters(codec=None)))
def test_any_name_can_be_shown_and_encoded(name: str) -> None:
    shown = display_name(name)
    assert shown
    shown.encode("utf-8")
    assert not set(shown) & set("\u202e\u2066\u2028\n\x00")
    assert len(display_name("x" * (len(name) + LONGEST_NAME + 1))) == LONGEST_NAME


def test_a_large_crowd_stays_small_on_disk(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    truth = random.integers(10, size=20_000)
    n_annotators = MOST_ROWS + 100
    crowd = simulate_annotations(
        truth,
        one_coin(random.uniform(0.4, 0.95, n_annotators), 10),
        per_item(len(truth), n_annotators, labels=3, seed=0),
        seed=0,
        annotators=[f"annotator with a rather long name {code:06d}" for code in range(n_annotators)],
    )
    result = cp.make_aggregator("dawid-skene", use_gold=False).fit(crowd).result_
    path = write_report(tmp_path / "report.html", result, crowd, examine=False)
    assert path.stat().st_size < MOST_BYTES
    assert f"The table shows the {MOST_ROWS} of {n_annotators} annotators with most labels." in path.read_text(
        encoding="utf-8"
    )


def test_a_report_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = cp.make_aggregator("majority-vote", use_gold=False).fit([[0, 1], [1, 1]]).result_
    monkeypatch.setattr("crowdprism.report.page.draw_all", lambda content: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        result.report(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_shows_results_and_annotations_at_a_glance() -> None:
    a = cp.Annotations.from_triplets(["x", "x", "y"], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    shown = cp.make_aggregator("majority-vote", use_gold=False).fit(a).result_._repr_html_()
    for word in ("majority-vote", "ann", "cat", "x"):
        assert word in shown
    assert "3 annotations of 2 items by 2 annotators" in a._repr_html_()


def test_writing_a_report_loads_nothing_heavy(tmp_path: Path) -> None:
    work = f"""
import sys, crowdprism as cp
a = cp.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]])
cp.make_aggregator("dawid-skene", use_gold=False).fit(a).result_.report({str(tmp_path / "report.html")!r}, a)
print([name for name in ("torch", "sklearn", "pandas", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
