"""Items for people to look at: what to show of them, as a page to answer on or as tasks of an annotation tool."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import crowdprism as cp
from crowdprism.cli.options import require_exists
from crowdprism.cli.screen import remark

if TYPE_CHECKING:
    from crowdprism.formats.item_content import ItemContent
    from crowdprism.formats.raw_annotations import ReadingReport
    from crowdprism.formats.tool_tasks import TaskList

Page = Annotated[Path | None, typer.Option("--page", help="HTML page to answer on, in any browser, also offline.")]


@dataclass(frozen=True)
class ContentOptions:
    content: Annotated[
        Path | None, typer.Option(help="Table with item ids and texts, images or links; else from the annotations.")
    ] = None
    remote_images: Annotated[bool, typer.Option("--remote-images", help="Let pages load images from the web.")] = False

    def load(
        self, items: Sequence[Any], result: cp.FitResult, files: Sequence[Path] = (), read: ReadingReport | None = None
    ) -> ItemContent:
        """What to show of these items of a result: from --content, else from the annotation files."""
        from crowdprism.formats.item_content import ItemContent, content_of_files, read_content

        if self.content is None:
            if read is None:
                return ItemContent()
            used = {*read.columns.values(), *map(str, result.annotators.tolist())}  # annotators: of wide tables
            return content_of_files(files, items, result.items, item=read.columns.get("item", "item"), used=used)
        require_exists(self.content)
        found = read_content(self.content, result.items)
        missing = [name for name in items if name not in found.by_item]
        if missing:
            remark(f"note: {len(missing)} of {len(items)} items have no content; the first is {missing[0]!r}")
        return found

    def save_page(self, path: Path, items: Sequence[Any], result: cp.FitResult, **about: Any) -> None:
        """Write the page to answer on, and say how to use it; `about` are further fields of `Questions`."""
        from crowdprism.report.answer_page import Questions, write_answer_page

        if not items:
            remark(f"nothing to ask, so {path} was not written")
            return
        named = {"name": f"items-{len(items)}-{zlib.crc32(repr(items).encode()):08x}", **about}
        questions = Questions(items=items, classes=result.classes, **named)
        write_answer_page(path, questions, remote_images=self.remote_images)
        remark(f"wrote {len(items)} items to {path}; open it in a browser, answer, and save answers.csv")
        if questions.command:
            remark(f"then run: {questions.command}")


def save_tasks(path: Path, tasks: TaskList, to: str) -> None:
    from crowdprism.formats.tool_tasks import labelling_interface, write_tasks

    write_tasks(tasks, path, to)
    remark(f"wrote {len(tasks.tasks)} items to {path}")
    if to == "label-studio" or (to == "auto" and path.suffix.lower() == ".json"):
        remark(f"labelling interface: {labelling_interface(tasks)}")


def describe_source(result: cp.FitResult, files: Sequence[Path], reading: ReadingReport | None) -> dict[str, Any]:
    """What a report shows of the annotation files: their names, and the content of items, looked up when needed."""
    names = ["standard input" if path == Path("-") else path.name for path in files]
    source = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names)
    return {"source": source, "content": lambda items: ContentOptions().load(items, result, files, reading)}
