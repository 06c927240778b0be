"""Tasks for annotation tools: items with what to show of them, and labels as suggestions that people can check."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from crowdprism.errors import InvalidParameterError
from crowdprism.files import write_whole
from crowdprism.formats.text_tables import write_csv

ITEM = "item"
QUESTION = "label"


@dataclass(frozen=True)
class Task:
    """One item: what to show, the suggested label with its score if there is one, and further fields of the file."""

    item: Any
    content: Mapping[str, str] = field(default_factory=dict)
    label: Any = None
    score: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskList:
    """Tasks with all classes, the columns of their content, and who suggests."""

    tasks: Sequence[Task]
    classes: Sequence[Any]
    columns: Sequence[str] = ()
    model: str = "crowdprism"

    @property
    def shown(self) -> str:
        return self.columns[0] if self.columns else ITEM


def write_tasks(tasks: TaskList, path: str | os.PathLike[str], to: str = "auto") -> Path:
    """Write tasks, labels as suggestions, for `label-studio`, `argilla`, `doccano`, `prodigy` or as `csv`."""
    target = Path(path)
    name = ("label-studio" if target.suffix.lower() == ".json" else "csv") if to == "auto" else to
    if name not in TOOLS:
        raise InvalidParameterError(f"There is no tool {name!r} to write tasks for; there are {', '.join(TOOLS)}.")
    return write_whole(target, TOOLS[name](tasks))


def label_studio_task(task: Task, tasks: TaskList) -> dict[str, Any]:
    """A task whose data name the item, so that an export of the project can be matched to it again."""
    record: dict[str, Any] = {"data": {ITEM: task.item, **task.content, **task.more}}
    if task.label is not None:
        chosen = {"from_name": QUESTION, "to_name": "shown", "type": "choices", "value": {"choices": [str(task.label)]}}
        record["predictions"] = [{"model_version": tasks.model, "score": task.score, "result": [chosen]}]
    return record


def labelling_interface(tasks: TaskList) -> str:
    """The configuration with which Label Studio shows these tasks."""
    first = next((task.content.get(tasks.shown, "") for task in tasks.tasks), "")
    kind = "Image" if first.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp")) else "Text"
    choices = "".join(f"<Choice value={quoteattr(str(name))}/>" for name in tasks.classes)
    return (
        f'<View><{kind} name="shown" value={quoteattr("$" + tasks.shown)}/>'
        f'<Choices name="{QUESTION}" toName="shown">{choices}</Choices></View>'
    )


def argilla_records(tasks: TaskList) -> str:
    """A JSON list of records with suggestions, as `Dataset.records.from_json` reads it."""
    return as_json(
        [
            {
                "id": str(task.item),
                "fields": {name: str(value) for name, value in (task.content or {ITEM: task.item}).items()},
                "metadata": {ITEM: task.item, **task.more},
                "suggestions": {}
                if task.label is None
                else {QUESTION: {"value": str(task.label), "score": task.score, "agent": tasks.model}},
                "responses": {},
            }
            for task in tasks.tasks
        ]
    )


def doccano_lines(tasks: TaskList) -> str:
    return as_lines(
        {
            "id": task.item,
            **task.content,
            "text": task.content.get(tasks.shown, str(task.item)),
            **task.more,
            "label": [] if task.label is None else [str(task.label)],
        }
        for task in tasks.tasks
    )


def prodigy_lines(tasks: TaskList) -> str:
    """JSON lines for the recipes `choice` and `mark`; the suggested option is already accepted."""
    options = [{"id": str(name), "text": str(name)} for name in tasks.classes]
    return as_lines(
        {
            **task.content,
            "text": task.content.get(tasks.shown, str(task.item)),
            ITEM: task.item,
            "options": options,
            "accept": [] if task.label is None else [str(task.label)],
            "meta": {"confidence": task.score, **task.more},
        }
        for task in tasks.tasks
    )


def csv_text(tasks: TaskList) -> str:
    columns: dict[str, list[Any]] = {ITEM: [task.item for task in tasks.tasks]}
    columns |= {name: [task.content.get(name, "") for task in tasks.tasks] for name in tasks.columns}
    columns |= {QUESTION: [task.label for task in tasks.tasks], "confidence": [task.score for task in tasks.tasks]}
    further = dict.fromkeys(name for task in tasks.tasks for name in task.more)
    columns |= {name: [task.more.get(name, "") for task in tasks.tasks] for name in further}
    file = io.StringIO()
    write_csv(file, columns)
    return file.getvalue()


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str) + "\n"


def as_lines(records: Any) -> str:
    return "".join(json.dumps(record, ensure_ascii=False, default=str) + "\n" for record in records)


TOOLS: dict[str, Callable[[TaskList], str]] = {
    "label-studio": lambda tasks: as_json([label_studio_task(task, tasks) for task in tasks.tasks]),
    "argilla": argilla_records,
    "doccano": doccano_lines,
    "prodigy": prodigy_lines,
    "csv": csv_text,
}
