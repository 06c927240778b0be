"""The report as people meet it: opened from disk in a real browser, used by mouse and keyboard."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.calibration.jury import measure_jury
from crowdprism.formats.item_content import ItemContent
from crowdprism.report.ranking_page import ranking_page
from crowdprism.report.tables_page import jury_page
from crowdprism.scoring import Comparisons, rank
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
    "<svg onload='window.hacked = 1'><style>*{display:none}</style>",
    "</style></title></textarea><iframe srcdoc='<script>parent.hacked = 1</script>'>",
    "--><a href='javascript:window.hacked = 1' style='position:fixed;inset:0'>x</a><!--",
    "]]><details open ontoggle=window.hacked=1><math><mtext>\x00",
    "\uff1cscript\uff1ewindow.hacked = 1\uff1c/script\uff1e \r=1+1",
]
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    digits = np.arange(600) % 10
    crowd = demo_annotations(digits, seed=1)
    result = cp.make_aggregator("dawid-skene", use_gold=False).fit(crowd).result_
    comparison = [{"method": "dawid-skene", "held-out": -0.5}, {"method": "majority-vote", "held-out": -0.7}]
    result.report(folder / "crowd.html", crowd, comparison=comparison, command="crowdprism aggregate labels.csv")
    random = np.random.default_rng(0)
    n = len(HOSTILE)
    votes = np.where(random.random((60, n)) < 0.6, random.integers(n, size=(60, 1)), random.integers(n, size=(60, n)))
    item, annotator = np.divmod(np.arange(votes.size), len(HOSTILE))
    hostile = cp.Annotations.from_triplets(
        [f"{HOSTILE[row % len(HOSTILE)]} {row}" for row in item],
        [HOSTILE[column] for column in annotator],
        [f"{HOSTILE[vote]} class" for vote in votes.reshape(-1)],
    )
    hostile_run = cp.make_aggregator("dawid-skene", use_gold=False).fit(hostile).result_
    comparison = [{"method": name, "held-out": -0.5} for name in HOSTILE]
    hostile_run.report(folder / "hostile.html", hostile, comparison=comparison, command=HOSTILE[0])
    gold = dict(zip(hostile.items.tolist(), hostile_run.labels().tolist(), strict=True))
    (folder / "jury.html").write_text(jury_page(measure_jury(hostile.with_gold(gold))), encoding="utf-8")
    duels = [("mild", "strong", ("right", "left", "right")[row % 3], HOSTILE[0]) for row in range(30)]
    (folder / "ranking.html").write_text(
        ranking_page(rank(Comparisons.from_columns(*zip(*duels, strict=True)))), encoding="utf-8"
    )
    return {name: folder / f"{name}.html" for name in ("crowd", "hostile", "jury", "ranking")}


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


def test_a_matrix_of_ten_classes_is_whole_on_a_phone(visit) -> None:
    seen = visit(viewport={"width": 390, "height": 844})
    assert seen.page.evaluate(
        "(box => box.scrollWidth <= box.clientWidth)(document.querySelector('#confusion .scroll'))"
    )


def test_tables_stay_tables_on_printed_pages_of_a4(visit) -> None:
    seen = visit(viewport={"width": 688, "height": 1000})
    seen.page.emulate_media(media="print")
    assert seen.page.evaluate("getComputedStyle(document.querySelector('.table tbody tr')).display") == "table-row"
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 688


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


def test_hostile_judges_and_classes_are_text_on_the_page_of_a_jury(visit) -> None:
    seen = visit("jury")
    assert seen.page.evaluate("window.hacked") is None
    assert seen.page.locator("img, iframe, svg[onload], a[href^=javascript], details, script").count() == 0
    shown = seen.page.locator("body").inner_text()
    for name in (*HOSTILE[:4], "evil⟨U+202E⟩gnp.exe", HOSTILE[6], HOSTILE[8], f"{HOSTILE[7]} class"):
        assert name in shown


def test_a_style_smuggled_into_the_page_is_refused(browser, pages, tmp_path: Path) -> None:
    for name in ("crowd", "jury"):
        tampered = tmp_path / f"{name}.html"
        page = pages[name].read_text(encoding="utf-8")
        tampered.write_text(page.replace("</main>", "<style>body{display:none}</style></main>"), encoding="utf-8")
        seen = Visit(browser, tampered)
        assert seen.page.locator("body").is_visible()
        assert any("Content Security Policy" in trouble for trouble in seen.troubles)
        seen.page.close()


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


SECTIONS = ("overview", "annotators", "confusion", "items", "agreement", "specialists", "comparison", "appendix")


@pytest.mark.parametrize("name", ["crowd", "hostile"])
def test_no_section_is_cut_on_a_phone(visit, name: str) -> None:
    page = visit(name, viewport={"width": 390, "height": 844}).page
    for details in page.locator("details").all():
        details.evaluate("element => { element.open = true; }")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    shown = [section for section in SECTIONS if page.locator(f"#{section}").count()]
    assert len(shown) >= 6
    for section in shown:
        wide = page.locator(f"#{section}").evaluate(
            "section => [...section.querySelectorAll('.table *, .tiles *, .findings *, .steps *, p, h2')]"
            ".filter(one => one.getBoundingClientRect().right > 391).map(one => one.className || one.tagName)"
        )
        assert wide == [], section


@pytest.mark.parametrize("name", ["ranking", "jury"])
def test_headings_are_whole_and_wide_rows_are_blocks_on_a_phone(visit, name: str) -> None:
    page = visit(name, viewport={"width": 390, "height": 844}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    cut = "all => all.filter(one => one.getBoundingClientRect().right > 391).map(one => one.textContent)"
    assert page.locator("h1, h2, p, li, .table *").evaluate_all(cut) == []
    # Only matrices are swiped, and the keyboard reaches them.
    assert page.locator(".scroll:not([tabindex])").count() == 0


def test_an_item_with_its_text_is_no_narrow_column(browser, tmp_path: Path) -> None:
    crowd = demo_annotations(np.arange(60) % 10, seed=1)
    texts = {name: {"text": "A text of several words that should not stand one above the other."} for name in range(60)}
    result = cp.make_aggregator("dawid-skene", use_gold=False).fit(crowd).result_
    result.report(tmp_path / "texts.html", crowd, content=ItemContent(("text",), texts))
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.goto((tmp_path / "texts.html").as_uri())
    assert page.locator(".snippet").first.bounding_box()["width"] > 180
    page.close()


def test_printing_shows_every_annotator_and_names_on_every_page(visit) -> None:
    page = visit().page
    page.evaluate(
        "window.addEventListener('beforeprint', () => { window.printed ="
        " document.querySelectorAll('[data-table=\"annotators\"] tbody tr').length; })"
    )
    page.pdf()
    assert page.evaluate("window.printed") == 40
    assert page.locator('[data-table="annotators"] tbody tr').count() == 25, "the screen is as before"
    page.emulate_media(media="print")
    heads = page.locator('[data-table="annotators"] thead th .printed').all()
    assert all(head.is_visible() for head in heads)
    assert {"annotator", "labels", "accuracy"} <= {head.inner_text() for head in heads}


def test_all_annotators_are_shown_on_request(visit) -> None:
    page = visit().page
    page.locator('[data-table="annotators"] .pager button', has_text="Show all").click()
    assert page.locator('[data-table="annotators"] tbody tr').count() == 40


def test_an_item_shows_its_content_and_who_said_what_and_can_be_saved(browser, tmp_path: Path) -> None:
    from crowdprism.formats.item_content import ItemContent

    votes = {f"{HOSTILE[0]} {i}": {"ann": "a", "bob": "ab"[i % 2], "cy": "b"} for i in range(40)}
    annotations = cp.Annotations.from_dicts(votes)
    texts = {item: {"text": f"{HOSTILE[1]} {item}", "page": f"https://example.org/{HOSTILE[0]}"} for item in votes}
    content = ItemContent(("text", "page"), texts)
    result = cp.make_aggregator("majority-vote").fit(annotations).result_
    result.report(tmp_path / "r.html", annotations, content=content, source=HOSTILE[0])
    seen = Visit(browser, tmp_path / "r.html")
    page = seen.page
    assert page.locator("h1").inner_text() == HOSTILE[0]
    assert HOSTILE[1] in page.locator('[data-table="items"] .snippet').first.inner_text()
    page.locator('[data-table="items"] button.open').first.click()
    told = page.locator("#detail").inner_text()
    assert HOSTILE[1] in told
    assert "Who said what" in told
    assert "ann" in told
    page.keyboard.press("Escape")
    for button, ending in (("items-csv", "csv"), ("items-tasks", "json")):
        with page.expect_download() as download:
            page.locator(f"#{button}").click()
        saved = Path(download.value.path()).read_text(encoding="utf-8")
        assert download.value.suggested_filename.endswith(ending)
        assert HOSTILE[1].replace('"', '\\"' if ending == "json" else '""') in saved or ending == "csv"
    assert page.evaluate("window.hacked") is None
    assert seen.troubles == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    page.close()
