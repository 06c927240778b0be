"""A page to answer on, from writing it to reading the answers, in a real browser."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: test)")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: apt-get install chromium, or set CHROMIUM")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
HOSTILE = "<img src=x onerror='window.hacked = 1'></script>=cmd|' /C calc'!A0"
N_ITEMS, N_ASKED = 120, 12
PIXEL = bytes.fromhex(  # the smallest PNG
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02"
    "0000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)


def truth(item: int) -> str:
    return "=cat" if item % 2 else "dog"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels and content of items with hostile names, texts and addresses, and the page made of them."""
    place = tmp_path_factory.mktemp("audit")
    random = np.random.default_rng(0)
    with (place / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "annotator", "label"])
        for item in range(N_ITEMS):
            for person in range(4):
                label = truth(item) if random.random() > 0.1 * (person + 1) else truth(item + 1)
                writer.writerow([f"{HOSTILE} {item}", f"p{person}", label])
    (place / "dot.png").write_bytes(PIXEL)
    with (place / "items.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "text", "picture", "source"])
        for item in range(N_ITEMS):
            address = "javascript:window.hacked=1" if item % 2 else f"https://example.org/{item}?<script>"
            writer.writerow([f"{HOSTILE} {item}", f"text of {item} {HOSTILE}", "dot.png", address])
    made = crowdprism(place, "audit", "labels.csv", "--page", "audit.html", "-n", N_ASKED, "--content", "items.csv")
    assert made.returncode == 0, made.stderr
    return place


def crowdprism(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "crowdprism", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def visit(browser, folder: Path):
    """Open the page in a browser of its own; it must stay silent and ask nothing of any server."""
    opened, troubles, requests = [], [], []

    def open_page(name: str = "audit.html", **options):
        context = browser.new_context(accept_downloads=True, **options)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto((folder / name).as_uri())
        opened.append(context)
        return page

    yield open_page
    for context in opened:
        assert context.pages[0].evaluate("window.hacked") is None
        context.close()
    assert troubles == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def asked(page) -> int:
    """The number of the item that is shown, from its text."""
    return int(page.locator("#shown p").first.inner_text().split()[2])


def answer_all(page, *, by_key: bool) -> None:
    """Answer every item as the truth says: classes are =cat (1) and dog (2)."""
    while page.locator("#question").is_visible():
        right = 1 if truth(asked(page)) == "=cat" else 2
        if by_key:
            page.keyboard.press(str(right))
        else:
            page.locator("#choices button").nth(right - 1).tap()


def saved(page, folder: Path) -> Path:
    with page.expect_download() as download:
        page.keyboard.press("d")
    download.value.save_as(folder / "answers.csv")
    return folder / "answers.csv"


def test_answers_by_keyboard_alone_are_read_as_the_audit(visit, folder: Path) -> None:
    page = visit()
    answer_all(page, by_key=True)
    assert page.locator("#done").is_visible()
    assert "--answers answers.csv" in page.locator("#done code").inner_text()
    path = saved(page, folder)
    found = crowdprism(folder, "audit", "labels.csv", "--answers", path, "--json")
    assert found.returncode == 0, found.stderr
    record = json.loads(found.stdout)
    assert record["answered"] == record["asked"] == N_ASKED
    assert record["accuracy"]["value"] > 0.7


def test_votes_are_hidden_until_answered(visit) -> None:
    page = visit()
    page.wait_for_selector("#question")
    assert "Others said" not in page.inner_text("body")
    page.keyboard.press("1")
    assert "Your last answer: =cat. Others said:" in page.inner_text("#before")


def test_skip_and_undo_return_to_the_item(visit) -> None:
    page = visit()
    first = asked(page)
    page.keyboard.press("s")
    second = asked(page)
    assert second != first
    page.keyboard.press("2")
    page.keyboard.press("u")
    assert asked(page) == second
    for _ in range(N_ASKED - 1):
        page.keyboard.press("1")
    assert asked(page) == first, "skipped items come again at the end"
    assert "left" in page.inner_text("#count")


def test_answers_stay_when_the_page_is_opened_again(visit) -> None:
    page = visit()
    page.keyboard.press("1")
    page.keyboard.press("2")
    page.reload()
    assert page.inner_text("#count").startswith(f"2 of {N_ASKED} answered")


def test_it_works_on_a_phone(visit, folder: Path) -> None:
    page = visit(**PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    sizes = [button.bounding_box() for button in page.locator("#choices button").all()]
    assert all(box["height"] >= 44 for box in sizes)
    answer_all(page, by_key=False)
    with page.expect_download() as download:
        page.locator("#save").tap()
    rows = list(csv.DictReader(Path(download.value.path()).read_text(encoding="utf-8").splitlines()))
    assert len(rows) == N_ASKED
    assert {row["answer"] for row in rows} == {"'=cat", "dog"}, "no spreadsheet runs an answer as a formula"


def test_hostile_content_is_text_and_addresses_are_links_only(visit) -> None:
    page = visit()
    for _ in range(N_ASKED):
        item = asked(page)
        links = page.locator("#shown a").all()
        assert len(links) == (0 if item % 2 else 1), "javascript: is no address"
        assert all(link.get_attribute("rel") == "noopener noreferrer" for link in links)
        assert page.locator("#shown img").evaluate("image => image.naturalWidth") == 1, "local images are in the page"
        page.keyboard.press("1")


def test_no_barrier_is_serious(visit) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra: test)")
    for options in ({}, PHONE, {"color_scheme": "dark"}):
        found = axe.Axe().run(visit(**options)).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []


def test_many_classes_are_found_by_typing(visit, folder: Path) -> None:
    with (folder / "many.csv").open("w", encoding="utf-8") as file:
        file.write("item,annotator,label,text\n")
        file.writelines(f"{i},p{p},class {(i + p) % 20},hello {i}\n" for i in range(60) for p in range(3))
    made = crowdprism(folder, "audit", "many.csv", "--page", "many.html", "-n", "12", "--seed", "1")
    assert made.returncode == 0, made.stderr
    page = visit("many.html")
    assert page.inner_text("#shown").startswith("text"), "a column of the annotation file is shown"
    page.keyboard.press("/")
    page.keyboard.type("class 17")
    page.keyboard.press("Enter")
    assert "Your last answer: class 17." in page.inner_text("#before")


def test_suggestions_are_written_as_the_same_page(visit, folder: Path) -> None:
    lines = (folder / "labels.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    thin = [lines[0], *(line for place, line in enumerate(lines[1:]) if place % 4 < 2 or place < 160)]
    (folder / "thin.csv").write_text("".join(thin), encoding="utf-8")
    made = crowdprism(folder, "suggest", "thin.csv", "-b", "5", "--page", "next.html", "--content", "items.csv")
    assert made.returncode == 0, made.stderr
    page = visit("next.html")
    assert "items to label next" in page.inner_text("h1")
    page.keyboard.press("1")
    assert page.inner_text("#count").startswith("1 of")
