"""True classes from a file: a table with an item and a label column, or a Label Studio export of answered tasks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from crowdprism.annotations.checks import check_hashable, require
from crowdprism.annotations.frames import SYNONYMS, simplified
from crowdprism.annotations.names import NameArray
from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats import label_studio
from crowdprism.formats.documents import Document, missing_file, open_documents
from crowdprism.formats.json_text import LabelStudioTask
from crowdprism.formats.raw_annotations import ReadingOptions, folded
from crowdprism.formats.read import decoding
from crowdprism.formats.tables import MISSING_LABELS

LABEL_NAMES = (*SYNONYMS["gold"], *SYNONYMS["label"])
AUDIT = "audit"  # column or field that names the audit a question belongs to


class GoldFile(NamedTuple):
    """Item and class of each row, how many rows have no class yet, and the audits that the rows belong to."""

    pairs: tuple[tuple[Any, Any], ...]
    n_blank: int
    audits: tuple[str, ...]


def read_gold(
    path: str | Path, items: NameArray, classes: NameArray, *, max_size: int | str | None = None, fold: bool = False
) -> GoldFile:
    """Read true classes from the usual columns or the first two; `fold` ignores case and spaces of classes."""
    source = Path(path)
    if not source.exists():
        raise UnreadableFileError(missing_file(source))
    rows: list[tuple[Any, Any]] = []
    audits: list[str] = []
    with decoding(str(source)):
        documents = open_documents(source, ReadingOptions.of(max_size=max_size))
    for document in documents:
        with decoding(document.name):
            found, named = tasks(document) if label_studio.matches_json(document) else table(document, items)
        rows += found
        audits += [str(one) for one in named if one]
    require_hashable(rows, str(source))
    known_item, known_class = Spelling(items), Spelling(classes, fold=fold)
    labelled = [(item, label) for item, label in rows if not is_blank(label)]
    pairs = tuple((known_item(item), known_class(label)) for item, label in labelled)
    return GoldFile(pairs, len(rows) - len(labelled), tuple(dict.fromkeys(audits)))


def require_hashable(rows: list[tuple[Any, Any]], name: str) -> None:
    require([check_hashable([item for item, _ in rows], "item")], where=name)
    require([check_hashable([label for _, label in rows], "gold label")], where=name)


def is_blank(label: Any) -> bool:
    return label is None or label != label or (isinstance(label, str) and label.strip().lower() in MISSING_LABELS)


class Spelling:
    """Finds the name that a cell of a file means, else returns the cell: spreadsheets change how names are written."""

    def __init__(self, names: NameArray, *, fold: bool = False) -> None:
        self._known = set(names.tolist())
        self._by_text = {str(name): name for name in reversed(names.tolist())}
        self._folded = {folded(name): name for name in reversed(names.tolist())} if fold else {}

    def __call__(self, cell: Any) -> Any:
        if cell in self._known:
            return cell
        text = str(cell).strip()
        # 7.0 is what pandas makes of 7 in a column with gaps; a quote keeps spreadsheets from running a formula.
        for spelling in (text, text.removesuffix(".0"), text.removeprefix("'")):
            if spelling in self._by_text:
                return self._by_text[spelling]
        return self._folded.get(folded(cell), cell)


def tasks(document: Document) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Answers of an annotated Label Studio project whose tasks name the item, as `crowdprism audit` writes them."""
    records = document.records_as(LabelStudioTask)
    named = [record.get("data", {}).get(AUDIT) for record in records]
    has_item = all("item" in record.get("data", {}) for record in records)
    options = ReadingOptions(columns={"item": "item"} if has_item else {})
    raw = label_studio.read_json(Document(document.name, data=document.data, options=options))
    require_hashable([(record["data"]["item"], None) for record in records if has_item], document.name)
    answers = [*zip(raw.gold_item, raw.gold_label, strict=True), *zip(raw.item, raw.label, strict=True)]
    require_hashable(answers, document.name)
    answered = {item for item, _ in answers}
    blank = [record["data"]["item"] for record in records if has_item and record["data"]["item"] not in answered]
    return [*answers, *((item, None) for item in blank)], named


def table(document: Document, items: NameArray) -> tuple[list[tuple[Any, Any]], list[Any]]:
    if document.container in ("npy", "npz", "zip"):
        raise UnreadableFileError(f"{document.name} is no table. Pass gold as CSV, TSV, Parquet or JSON records.")
    frame = document.frame
    columns = frame.columns
    if len(columns) < 2:
        raise UnreadableFileError(f"{document.name} has only {some(columns)}. Gold needs two columns: item,label.")
    item, label = column_for(columns, SYNONYMS["item"]), column_for(columns, LABEL_NAMES)
    rows: list[tuple[Any, Any]] = []
    if item is None and label is None and Spelling(items)(columns[0]) in set(items.tolist()):
        rows.append((columns[0], columns[1]))  # no header: the first line is gold too
    item = item or next(name for name in columns if name != label)
    label = label or next(name for name in columns if name != item)
    rows += zip(frame[item].to_list(), frame[label].to_list(), strict=True)
    return rows, frame[AUDIT].to_list() if AUDIT in columns else []


def column_for(columns: list[str], names: Iterable[str]) -> str | None:
    known = {simplified(column): column for column in reversed(columns)}
    return next((known[name] for name in names if name in known), None)
