"""A page to answer on: one item at a time, classes on the number keys, answers saved as CSV; no server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import NameArray, positions
from crowdprism.annotations.notebook import display_name
from crowdprism.files import write_whole
from crowdprism.formats.item_content import ItemContent
from crowdprism.formats.text_tables import MARKER, inert
from crowdprism.report.page import asset, embedded_json, fill
from crowdprism.report.review_items import votes_at

PIXELS = 1200  # width and height, at most, of an image to judge
NO_IMAGES, REMOTE_IMAGES = "data:", "data: https: http:"


@dataclass(frozen=True)
class Questions:
    """Items to answer, in order, and what is shown of them."""

    title: str
    name: str  # tells these questions from others; saved with the answers
    items: Sequence[Any]
    classes: NameArray
    annotations: Annotations | None = None  # who said what; shown after an answer, never before
    content: ItemContent = ItemContent()  # noqa: RUF009 - frozen
    command: str = ""  # reads the answers; `answers.csv` in it is the file that the page saves


def write_answer_page(path: str | os.PathLike[str], questions: Questions, *, remote_images: bool = False) -> Path:
    """Write one HTML file that opens from disk; it loads nothing unless `remote_images` allows images from the web."""
    from markupsafe import Markup

    page = fill(
        "answer.html.j2",
        script=asset("answer.js"),
        more_style=asset("answer.css"),
        title=display_name(questions.title),
        n_items=len(questions.items),
        command=questions.command,
        data=Markup(embedded_json(page_data(questions, remote_images))),
        image_sources=REMOTE_IMAGES if remote_images else NO_IMAGES,
    )
    return write_whole(path, page)


def page_data(questions: Questions, remote: bool) -> dict[str, Any]:
    """What the script of the page works on. Cells are what it writes into the CSV file, as `inert` makes them."""
    items, classes = [str(item) for item in questions.items], [str(name) for name in questions.classes.tolist()]
    cells, class_cells = [inert(item) for item in items], [inert(name) for name in classes]
    return {
        "name": questions.name,
        "classes": [display_name(name) for name in classes],
        "classCells": class_cells,
        "marker": MARKER if (cells, class_cells) != (items, classes) else "",
        "questions": [
            {
                "item": display_name(item),
                "cell": cell,
                "shown": [list(one) for one in questions.content.shown(item, pixels=PIXELS, remote=remote)],
                "votes": votes_on(questions.annotations, item),
            }
            for item, cell in zip(questions.items, cells, strict=True)
        ],
    }


def votes_on(annotations: Annotations | None, item: Any) -> list[tuple[int, int]]:
    """How often each class was given to an item, most often first."""
    place = -1 if annotations is None else int(positions(annotations.items, [item])[0])
    return [] if annotations is None or place < 0 else votes_at(annotations, place)
