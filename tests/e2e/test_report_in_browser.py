"""The report as people meet it: opened from disk in a real browser, used by mouse and keyboard."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.simulate import demo_annotations

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: test)")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: apt-get install chromium, or set CHROMIUM")
# The sandbox needs rights that containers lack; the rest keeps the browser from calling home.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror='window.hacked = 1'>",
    "\"quoted\" 'single' `tick` ${window.hacked = 1}",
    "=cmd|' /C calc'!A0",
    "evil\u202egnp.exe",
    "&amp; &#x3c; \u2028 line",
    "{{ 7 * 7 }} {% raw %}",
]
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    digits = np.arange(600) % 10
    crowd = demo_annotations(digits, seed=1)
    result = cp.make_aggregator("dawid-skene").fit(crowd).result_
    comparison = [{"method": "dawid-skene", "held-out": -0.5}, {"method": "majority-vote", "held-out": -0.7}]
    result.report(folder / "crowd.html", crowd, comparison=comparison, command="crowdprism aggregate labels.csv")
    random = np.random.default_rng(0)
    votes = np.where(random.random((60, 7)) < 0.6, random.integers(7, size=(60, 1)), random.integers(7, size=(60, 7)))
    item, annotator = np.divmod(np.arange(votes.size), len(HOSTILE))
    hostile = cp.Annotations.from_triplets(
        [f"{HOSTILE[row % len(HOSTILE)]} {row}" for row in item],
        [HOSTILE[column] for column in annotator],
        [f"{HOSTILE[vote]} class" for vote in votes.reshape(-1)],
    )
    cp.make_aggregator("dawid-skene").fit(hostile).result_.report(folder / "hostile.html", hostile)
    return {"crowd": folder / "crowd.html", "hostile": folder / "hostile.html"}


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


class Visit:
    """An open page that notes every console message, error and request."""

    def __init__(self, browser, path: Path, **options) -> None:
        self.page = browser.new_page(**options)
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def column(self, table: str, place: int) -> list[str]:
        cells = self.page.locator(f'[data-table="{table}"] tbody tr > :nth-child({place})')
        return [text.strip() for text in cells.all_inner_texts()]


@pytest.fixture
def visit(browser, pages):
    opened = []

    def open_page(name: str = "crowd", **options) -> Visit:
        opened.append(Visit(browser, pages[name], **options))
        return opened[-1]

    yield open_page
    for one in opened:
        assert one.troubles == [], "the console stays silent"
        local = [url for url in one.requests if not url.startswith(("file://", "data:"))]
        assert local == [], "nothing is asked of any server"
        assert len([url for url in one.requests if url.startswith("file://")]) == 1, "one file is all it needs"
        one.page.close()


def accuracies(texts: list[str]) -> list[float]:
    return [float(text.rstrip("%")) for text in texts]


def test_annotators_begin_with_the_least_accurate_and_sort_both_ways(visit) -> None:
    seen = visit()
    shown = accuracies(seen.column("annotators", 3))
    assert len(shown) == 25
    assert shown == sorted(shown)
    button = seen.page.locator('[data-table="annotators"] th button', has_text="accuracy")
    button.click()
    assert seen.page.locator('[data-table="annotators"] th[aria-sort="descending"]').count() == 1
    turned = accuracies(seen.column("annotators", 3))
    assert turned == sorted(turned, reverse=True)
    assert turned[0] > shown[-1]


def test_names_sort_as_people_count(visit) -> None:
    seen = visit()
    seen.page.locator('[data-table="annotators"] th button', has_text="annotator").click()
    names = seen.column("annotators", 1)
    assert names[:2] == ["adversary-01", "expert-01"]


def test_a_search_leaves_only_what_was_asked_for(visit) -> None:
    seen = visit()
    seen.page.get_by_label("Search annotators").fill("expert")
    names = seen.column("annotators", 1)
    assert len(names) == 8
    assert all(name.startswith("expert") for name in names)
    seen.page.get_by_label("Search annotators").fill("nobody of this name")
    assert seen.column("annotators", 1) == []
    assert "no annotators found" in seen.page.locator('[data-table="annotators"] .pager').inner_text()


def test_the_next_page_shows_the_rest(visit) -> None:
    seen = visit()
    first = seen.column("annotators", 1)
    seen.page.locator('[data-table="annotators"]').get_by_role("button", name="Next").click()
    rest = seen.column("annotators", 1)
    assert len(rest) == 15
    assert not set(first) & set(rest)


def test_a_click_opens_the_matrix_and_escape_closes_it(visit) -> None:
    seen = visit()
    seen.page.locator("button.open").first.click()
    dialog = seen.page.locator("dialog")
    assert dialog.is_visible()
    cells = dialog.locator("table.heat tbody td")
    assert cells.count() == 100
    first_row = [int(text) for text in cells.all_inner_texts()[:10]]
    assert abs(sum(first_row) - 100) <= 5, "a row sums to 100, but for rounding"
    seen.page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_everything_works_by_keyboard_alone(visit) -> None:
    seen = visit()
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.className") == "skip"
    seen.page.locator("button.open").first.focus()
    seen.page.keyboard.press("Enter")
    assert seen.page.locator("dialog").is_visible()
    seen.page.keyboard.press("Escape")
    assert seen.page.evaluate("document.activeElement.className") == "open", "focus returns to where it was"


def test_the_theme_switches_and_follows_the_system(visit) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(color_scheme="light"), visit(color_scheme="dark")
    light_color, dark_color = light.page.evaluate(background), dark.page.evaluate(background)
    assert light_color != dark_color
    button = light.page.locator("#theme")
    button.click()
    assert light.page.evaluate(background) == light_color
    button.click()
    assert button.inner_text() == "Theme: dark"
    assert light.page.evaluate(background) == dark_color


def test_charts_change_with_the_theme(visit) -> None:
    ink = "getComputedStyle(document.querySelector('.chart text')).fill"
    assert visit(color_scheme="light").page.evaluate(ink) != visit(color_scheme="dark").page.evaluate(ink)


@pytest.mark.parametrize("name", ["crowd", "hostile"])
def test_a_phone_needs_no_sideways_scrolling(visit, name: str) -> None:
    seen = visit(name, viewport={"width": 375, "height": 800})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 375


def test_a_phone_shows_remarks_under_the_names(visit) -> None:
    seen = visit(viewport={"width": 375, "height": 800})
    table = seen.page.locator('[data-table="annotators"]')
    assert table.evaluate("place => place.querySelector('.scroll').scrollWidth <= place.clientWidth")
    assert table.get_by_text("no better than guessing").first.is_visible()


def test_hostile_names_are_shown_as_text_and_run_nothing(visit) -> None:
    seen = visit("hostile")
    assert seen.page.evaluate("window.hacked") is None
    names = seen.column("annotators", 1)
    assert "<script>window.hacked = 1</script>" in names
    assert "=cmd|' /C calc'!A0" in names
    assert "evil⟨U+202E⟩gnp.exe" in names, "marks that turn text around are spelt out"
    assert "{{ 7 * 7 }} {% raw %}" in names
    assert seen.page.locator("img").count() == 0
    for row in range(len(HOSTILE)):
        seen.page.locator("button.open").nth(row).click()
        assert seen.page.locator("dialog table.heat").is_visible()
        seen.page.keyboard.press("Escape")
    assert seen.page.evaluate("window.hacked") is None


def test_a_script_smuggled_into_the_page_is_refused(browser, pages, tmp_path: Path) -> None:
    page = pages["crowd"].read_text(encoding="utf-8").replace("</main>", "<script>window.hacked = 1</script></main>")
    tampered = tmp_path / "tampered.html"
    tampered.write_text(page, encoding="utf-8")
    seen = Visit(browser, tampered)
    assert seen.page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in trouble for trouble in seen.troubles)
    seen.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["crowd", "hostile"])
def test_axe_finds_no_serious_breach(visit, name: str, scheme: str) -> None:
    axe_core = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing")
    seen = visit(name, color_scheme=scheme, bypass_csp=True)
    seen.page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    found = [axe_core.Axe().run(seen.page)]
    seen.page.locator("button.open").first.click()
    found.append(axe_core.Axe().run(seen.page))
    breaches = [
        (breach["id"], breach["impact"], [node["html"][:120] for node in breach["nodes"][:3]])
        for result in found
        for breach in result.response["violations"]
        if breach["impact"] in SERIOUS
    ]
    assert breaches == []


def test_it_prints_without_its_controls(visit) -> None:
    seen = visit()
    seen.page.emulate_media(media="print")
    assert not seen.page.locator("header.top").is_visible()
    assert not seen.page.get_by_label("Search annotators").is_visible()
    assert seen.page.locator('[data-table="annotators"] table').is_visible()
