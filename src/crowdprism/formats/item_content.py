"""What to show of items: texts, images and links, by item id."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from crowdprism.annotations.frames import SYNONYMS
from crowdprism.annotations.names import NameArray
from crowdprism.errors import CrowdprismError
from crowdprism.formats.documents import Document, open_documents
from crowdprism.formats.gold_file import Spelling, column_for
from crowdprism.formats.raw_annotations import ReadingOptions
from crowdprism.formats.read import FOREIGN_ERRORS, decoding

IMAGES = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "gif": "gif", "webp": "webp", "bmp": "bmp", "svg": "svg+xml"}
NESTED = ("data", "fields")  # where tasks of Label Studio and records of Argilla keep what they show
MOST_COLUMNS = 12
MOST_IMAGE_BYTES = 3_000_000  # of one image that is put into a page as it is
MOST_PIXELS = 10**8  # of one image that is made smaller
PILLOW_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")  # whatever its name, a file of another format may run a program


class Shown(NamedTuple):
    """One thing to show of an item: its column, its kind, and the text, address or data of the image."""

    column: str
    kind: Literal["text", "link", "image"]
    value: str


@dataclass(frozen=True)
class ItemContent:
    """What to show of each item; empty if nothing is known."""

    columns: tuple[str, ...] = ()
    by_item: Mapping[Any, Mapping[str, str]] = field(default_factory=dict)
    folder: Path | None = None  # of the file, in which images are looked for

    def shown(self, item: Any, *, pixels: int, remote: bool = False) -> list[Shown]:
        """What to show of one item: images up to this size, those at an address as links unless `remote`."""
        cells = self.by_item.get(item, {})
        return [self._one(column, cells[column], pixels, remote) for column in self.columns if cells.get(column)]

    def _one(self, column: str, value: str, pixels: int, remote: bool) -> Shown:
        is_image = value.split("?")[0].rpartition(".")[2].lower() in IMAGES
        if value.lower().startswith(("http://", "https://")) and not any(map(str.isspace, value)):
            return Shown(column, "image" if is_image and remote else "link", value)
        inline = image_address(self.folder / value, self.folder, pixels) if is_image and self.folder else ""
        return Shown(column, "image", inline) if inline else Shown(column, "text", value)


def read_content(path: Path, items: NameArray) -> ItemContent:
    """What to show of items, from a table with their ids or from tasks of Label Studio."""
    with decoding(str(path)):
        document = open_documents(path, ReadingOptions())[0]
        records = [flat(record) for record in document.records]
    columns = list(dict.fromkeys(name for record in records[:100] for name in record))
    ids = id_column(records, columns, items)
    return content_of_records(records, ids, [name for name in columns if name != ids], items, path.parent)


def id_column(records: Sequence[Mapping[str, Any]], columns: Sequence[str], items: NameArray) -> str:
    """The column that holds most item ids; if none holds any, the one with a usual name for items."""
    known, spelling = set(items.tolist()), Spelling(items)
    named = {
        column: sum(isinstance(cell, (str, int, float)) and spelling(cell) in known for cell in cells)
        for column, cells in ((column, [record.get(column) for record in records]) for column in columns)
    }
    return max(named, key=named.__getitem__) if any(named.values()) else column_for([*columns], SYNONYMS["item"]) or ""


def content_of_files(
    files: Sequence[Path], items: Iterable[Any], names: NameArray, *, item: str, used: Iterable[str]
) -> ItemContent:
    """Content of items: columns with one value per item, except `item` and `used`; empty if a file is unreadable."""
    used, wanted = {item, *used}, set(items)
    found = ItemContent()
    for path in files:
        try:
            for document in open_documents(path, ReadingOptions()) if path.is_file() else ():
                part = content_of_document(document, wanted, names, item, used, path.parent)
                columns = tuple(dict.fromkeys([*found.columns, *part.columns]))
                found = ItemContent(columns, {**found.by_item, **part.by_item}, path.parent)
        except (CrowdprismError, *FOREIGN_ERRORS):
            continue  # the annotations were read; what to show is only a help
    return found


def content_of_document(
    document: Document, wanted: set[Any], names: NameArray, item: str, used: set[str], folder: Path
) -> ItemContent:
    if document.container in ("table", "parquet"):
        free = [name for name in document.columns if name not in used and not name.startswith("_")]
        if not free or item not in document.columns:
            return ItemContent()
        frame, spelling = document.frame, Spelling(names)
        known = [name for name in frame[item].unique().to_list() if spelling(name) in wanted]
        frame = frame.filter(pl.col(item).is_in(known))
        distinct = frame.group_by(item).agg(pl.col(free).n_unique()) if frame.height else None
        kept = [name for name in free if distinct is not None and distinct[name].max() == 1]
        records = frame.select(item, *kept).unique(subset=[item], maintain_order=True).to_dicts()
        return content_of_records(records, item, kept, names, folder)
    if not document.is_records or not any(isinstance(document.json[0].get(name), dict) for name in NESTED):
        return ItemContent()
    records, spelling = [flat(record) for record in document.records], Spelling(names)
    records = [record for record in records if spelling(record.get(item)) in wanted]
    columns = [name for name in (records[0] if records else {}) if name not in used]
    return content_of_records(records, item, columns, names, folder)


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with what its tool shows in nested fields brought to the top; an id stays beside it."""
    inner = next((record[name] for name in NESTED if isinstance(record.get(name), dict)), None)
    return dict(record) if inner is None else {**inner, **({"id": record["id"]} if "id" in record else {})}


def content_of_records(
    records: Sequence[Mapping[str, Any]], ids: str, columns: Sequence[str], items: NameArray, folder: Path
) -> ItemContent:
    spelling, kept = Spelling(items), list(columns)[:MOST_COLUMNS]
    by_item = {
        spelling(record[ids]): {name: str(record[name]) for name in kept if record.get(name) not in (None, "")}
        for record in records
        if isinstance(record.get(ids), (str, int, float))
    }
    return ItemContent(tuple(kept), by_item, folder)


def image_address(path: Path, folder: Path, pixels: int) -> str:
    """An image file as a `data:` address, made smaller if Pillow is installed; empty if it is not in the folder."""
    try:
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            return ""
        kind = IMAGES[path.suffix[1:].lower()]
        if kind != "svg+xml" and find_spec("PIL"):
            from PIL import Image

            made = io.BytesIO()
            with Image.open(path, formats=PILLOW_FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    return ""
                image.thumbnail((pixels, pixels))
                image.convert("RGB").save(made, "JPEG", quality=85)
            kind, data = "jpeg", made.getvalue()
        else:
            data = path.read_bytes() if path.stat().st_size <= MOST_IMAGE_BYTES else b""
    except Exception:  # Pillow raises many kinds for damaged files
        return ""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}" if data else ""
