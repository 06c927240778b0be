"""Files as documents: found, unpacked, decoded and parsed once, whatever their name says."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from crowdprism.errors import UnreadableFileError, some
from crowdprism.formats.raw_annotations import ReadingOptions

Container = Literal["table", "json", "json lines", "parquet", "npy", "npz", "zip"]
HEAD_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 22  # a table whose first line is longer than this is no table
LARGE_JSON_BYTES = 1 << 24
N_SAMPLE = 50
ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".manifest", ".parquet", ".npy", ".npz", ".zip")
PACKINGS = (".gz", ".zst")
PICKLES = (".pt", ".pth", ".pkl", ".pickle")
DELIMITERS = (",", "\t", ";", "|")
MAGIC: dict[bytes, Container] = {b"PAR1": "parquet", b"\x93NUMPY": "npy", b"PK\x03\x04": "zip"}
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

NO_OPTIONS = ReadingOptions()


class Document:
    """One file (or member of an archive): its container is told by content, its parts are parsed when asked for."""

    def __init__(
        self, name: str, *, path: Path | None = None, data: bytes | None = None, options: ReadingOptions = NO_OPTIONS
    ):
        self.name = name
        self.path = path
        self._data = data
        self.options = options
        self.asked = options.columns  # the columns or fields that the caller named, by role
        self.encoding = options.encoding

    @property
    def stem(self) -> str:
        """File name without folder and endings."""
        return Path(self.name).name.split(".")[0]

    @cached_property
    def packed_head(self) -> bytes:
        """The first bytes as stored."""
        return self._read(HEAD_BYTES)

    def _read(self, size: int, *, start: int = 0) -> bytes:
        """Some bytes as stored."""
        if self._data is not None:
            return self._data[start : start + size]
        with open(str(self.path), "rb") as file:
            file.seek(start)
            return file.read(size)

    @property
    def packing(self) -> str:
        """`gzip`, `zstd` or nothing."""
        return "gzip" if self.packed_head[:2] == GZIP else "zstd" if self.packed_head[:4] == ZSTD else ""

    @cached_property
    def data(self) -> bytes:
        """The whole content, unpacked."""
        packed = self._data if self._data is not None else Path(str(self.path)).read_bytes()
        return unpack(packed, self.packing, self.name)

    @cached_property
    def head(self) -> bytes:
        """The first unpacked bytes."""
        if not self.packing:
            return self.packed_head
        if self.packing == "gzip":
            return zlib.decompressobj(wbits=31).decompress(self.packed_head, HEAD_BYTES)
        return self.data[:HEAD_BYTES]

    @cached_property
    def container(self) -> Container:
        """What kind of file it is, by its content."""
        if not self.packed_head.strip():
            raise UnreadableFileError(f"{self.name} is empty. Export it again, or pass another file.")
        for magic, container in MAGIC.items():
            if self.head.startswith(magic):
                return "npz" if container == "zip" and b".npy" in self.head[:256] else container
        if b"\0" in self.head[:1024] and is_utf8(self.encoding) and self.head[:2] not in BYTE_ORDER_MARKS:
            raise UnreadableFileError(
                f"{self.name} is a binary file of unknown kind. Readable are text tables, JSON, Parquet, .npy, .npz "
                "and zip archives of these.",
                remedy="For text that is not UTF-8, pass its encoding, such as {encoding:'utf-16'}.",
            )
        start = self.head_text.lstrip("\ufeff \t\r\n")[:1]
        if not start and not self.head.strip():
            raise UnreadableFileError(f"{self.name} holds nothing but white space. Export it again.")
        if start in ("{", "["):
            return "json lines" if isinstance(self.json, JsonLines) else "json"
        return "table"

    @cached_property
    def head_text(self) -> str:
        """The first characters; a character cut at the end is left out, other undecodable bytes are an error."""
        for mark, encoding in BYTE_ORDER_MARKS.items():
            if self.head.startswith(mark) and self.encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
                raise UnreadableFileError(
                    f"{self.name} is not UTF-8 but {encoding}.", remedy=f"Pass {{encoding:{encoding!r}}}."
                )
        try:
            return self.head.decode(self.encoding)
        except UnicodeDecodeError as error:
            if error.start >= len(self.head) - 4 and len(self.head) >= HEAD_BYTES:
                return self.head[: error.start].decode(self.encoding)
            raise undecodable(self.name, self.head, error) from error

    @cached_property
    def text(self) -> str:
        """The whole content as text."""
        try:
            return self.data.decode(self.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise undecodable(self.name, self.data, error) from error

    @cached_property
    def json(self) -> Any:
        """The parsed JSON document, or `JsonLines`."""
        self._require_json_end()
        try:
            found = json.loads(self.text)
            if isinstance(found, dict) and not all(isinstance(value, dict) for value in found.values()):
                return JsonLines([found])  # a single record
            return found
        except RecursionError as error:
            raise UnreadableFileError(f"{self.name} nests JSON too deeply to be an export.") from error
        except json.JSONDecodeError as error:
            start = self.text.lstrip()
            if error.msg == "Extra data" or (
                start[:1] == "{" and error.lineno > 1 and is_json(start.split("\n", 1)[0])
            ):
                return JsonLines(json_lines(self.text, self.name))
            raise broken_json(self.name, self.text, error) from error

    def _require_json_end(self) -> None:
        """Stop at once where a large file does not end as JSON does: parsing it would take long to find out."""
        if self.path is None or self.packing or self.path.stat().st_size < LARGE_JSON_BYTES:
            return
        size = self.path.stat().st_size
        tail = self._read(HEAD_BYTES, start=size - HEAD_BYTES).rstrip()
        if tail[-1:] not in (b"]", b"}"):
            raise UnreadableFileError(
                f"{self.name} is cut off: it begins as JSON but its last characters (of {size}) are "
                f"{tail[-20:].decode(self.encoding, errors='replace')!r}. Export or copy it again; nothing was read."
            )

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The records of a JSON list, of JSON lines or of a table."""
        if self.container in ("table", "parquet"):
            return self.frame.to_dicts()
        found = self.json if isinstance(self.json, list) else [self.json]
        odd = next((place for place, record in enumerate(found) if not isinstance(record, dict)), None)
        if odd is not None:
            raise UnreadableFileError(
                f"{self.name}: entry {odd} is not an object but {some([found[odd]])}. "
                "Expected one JSON object per annotation or item."
            )
        return found

    @cached_property
    def sample_rows(self) -> list[list[str]]:
        """The first rows of a text table, header included."""
        text = self.head_text.removeprefix("\ufeff")
        if "\n" not in text and "\r" not in text and len(self.head) >= HEAD_BYTES:
            text = self._long_first_line()
        lines = text.splitlines()
        if len(lines) > 1 and len(self.head) >= HEAD_BYTES:
            lines = lines[:-1]  # may be cut
        return [row for row in csv.reader(lines[:N_SAMPLE], delimiter=self.delimiter_of(lines)) if row]

    def _long_first_line(self) -> str:
        start = self.data[:MAX_LINE_BYTES] if self.packing else self._read(MAX_LINE_BYTES)
        if b"\n" not in start:
            raise UnreadableFileError(
                f"{self.name} has no line break in its first {MAX_LINE_BYTES >> 20} MB and is no JSON: "
                "this is no table. Check that the file is the export itself."
            )
        return start.decode(self.encoding, errors="replace")

    @cached_property
    def delimiter(self) -> str:
        """What separates the cells of a text table."""
        return self.delimiter_of(self.head_text.splitlines())

    @staticmethod
    def delimiter_of(lines: list[str]) -> str:
        """The delimiter that gives most cells in the first line, the same number in the next lines preferred."""

        def quality(delimiter: str) -> tuple[bool, int]:
            rows = [row for row in csv.reader(lines[:N_SAMPLE], delimiter=delimiter) if row]
            sizes = [len(row) for row in rows]
            return len(set(sizes)) == 1 and sizes[0] > 1, sizes[0] if sizes else 0

        best = max(DELIMITERS, key=quality)
        return best if quality(best)[1] > 1 else " " if lines and len(lines[0].split(" ")) > 1 else ","

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns of a table, or the keys of the first records."""
        if self.container == "table":
            return [cell.strip() for cell in self.sample_rows[0]]
        if self.container == "parquet":
            return self.frame.columns
        if self.container in ("json", "json lines") and isinstance(self.json, list):
            first = [record for record in self.json[:N_SAMPLE] if isinstance(record, dict)]
            return list(dict.fromkeys(key for record in first for key in record))
        return list(self.json) if self.container == "json" and isinstance(self.json, dict) else []

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The table; cells of a text table are text, an empty cell is an empty text."""
        if self.container == "parquet":
            try:
                return pl.read_parquet(io.BytesIO(self.data) if self.path is None or self.packing else self.path)
            except (pl.exceptions.PolarsError, OSError) as error:
                raise UnreadableFileError(f"{self.name} is a damaged or truncated Parquet file ({error}).") from error
        if self.container == "table":
            return text_frame(self)
        keys = dict.fromkeys(key for record in self.records for key in record)
        return pl.DataFrame({key: typed_series(key, [record.get(key) for record in self.records]) for key in keys})

    def place(self, row: int) -> str:
        """Where a record stands, for messages."""
        unit = {"table": f"line {row + 2}", "json lines": f"line {row + 1}"}.get(self.container, f"entry {row}")
        return f"{self.name} {unit}"

    def seen(self) -> str:
        """What the document looks like, for messages."""
        if self.container in ("npy", "npz", "zip"):
            return f"a {self.container} file"
        what = "columns" if self.container in ("table", "parquet") else "first keys"
        return f"a {self.container} file with {what} {some(self.columns, 12) if self.columns else '(none)'}"


class JsonLines(list[Any]):
    """Records that stood one per line."""


def typed_series(name: str, values: list[Any]) -> pl.Series:
    """A column of JSON values; values of mixed types stay as they are, for the checks to see."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        try:
            return pl.Series(name, values)
        except OverflowError:  # whole numbers beyond 64 bits
            pass
    return pl.Series(name, values, dtype=pl.Object)


def unpack(packed: bytes, packing: str, name: str) -> bytes:
    """Decompress; a file that ends too early is an error, not a shorter file."""
    if not packing:
        return packed
    if packing == "gzip":
        try:
            return gzip.decompress(packed)
        except (EOFError, OSError, zlib.error) as error:
            raise UnreadableFileError(
                f"{name} is a damaged or truncated gzip file ({error}). Copy or export it again; nothing was read."
            ) from error
    try:
        lines = pl.read_csv(
            packed, has_header=False, separator="\x01", quote_char=None, infer_schema=False, new_columns=["line"]
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableFileError(
            f"{name} is a damaged or truncated zstd file ({error}). Copy or export it again; nothing was read."
        ) from error
    return "\n".join(lines["line"].fill_null("").to_list()).encode()


def undecodable(name: str, data: bytes, error: UnicodeDecodeError) -> UnreadableFileError:
    """Say which byte in which line cannot be decoded."""
    line = data.count(b"\n", 0, error.start) + 1
    return UnreadableFileError(
        f"{name} is not {error.encoding}: byte 0x{data[error.start]:02x} in line {line} (byte {error.start} of the "
        "file) cannot be decoded.",
        remedy="Pass the right encoding, for example {encoding:'cp1252'} or {encoding:'latin-1'}.",
    )


def broken_json(name: str, text: str, error: json.JSONDecodeError) -> UnreadableFileError:
    """Say where JSON breaks off."""
    cut = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated")
    why = "the file seems cut off there; export or copy it again" if cut else "correct the file or export it again"
    return UnreadableFileError(
        f"{name} is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno} (character {error.pos}); "
        f"{why}. Nothing was read."
    )


def is_json(text: str) -> bool:
    """Tell whether this is one whole JSON value."""
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def json_lines(text: str, name: str) -> Iterator[Any]:
    """Parse one JSON value per line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise UnreadableFileError(
                f"{name} is not valid JSON lines: {error.msg} in line {number}, column {error.colno}. "
                "If it is the last line, the file was cut off; export or copy it again. Nothing was read."
            ) from error


def text_frame(document: Document) -> pl.DataFrame:
    """Read a text table, every cell as text; lines that are wholly empty are no rows."""
    plain = document.path is not None and not document.packing and is_utf8(document.encoding)
    source: Any = document.path if plain else document.data
    if not is_utf8(document.encoding):
        source = document.text.encode()
    try:
        frame = pl.read_csv(source, separator=document.delimiter, infer_schema=False, glob=False)
    except pl.exceptions.PolarsError as error:
        raise unreadable_table(document, error) from error
    frame = frame.with_columns(pl.all().fill_null(""))
    frame = frame.rename({column: column.strip() for column in frame.columns if column != column.strip()})
    if not frame.height:
        raise UnreadableFileError(
            f"{document.name} has a header ({some(frame.columns, 12)}) but no rows. Check the export's filter."
        )
    blank = frame.select(pl.all_horizontal(pl.all() == "")).to_series()
    return frame.filter(~blank) if blank.any() else frame


def is_utf8(encoding: str) -> bool:
    """Tell whether polars can read the encoding itself."""
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig", "ascii")


def unreadable_table(document: Document, error: Exception) -> UnreadableFileError:
    """Find the line that broke the table."""
    text = document.text  # says so if the encoding is to blame
    rows = csv.reader(io.StringIO(text), delimiter=document.delimiter)
    header = next(rows, [])
    for row in rows:
        if row and len(row) != len(header):
            return UnreadableFileError(
                f"{document.name}: line {rows.line_num} has {len(row)} cells where the header has {len(header)}. "
                "Check quotes and delimiters in that line. Nothing was read."
            )
    return UnreadableFileError(f"{document.name} cannot be read as a table: {error}")


def open_documents(path: Path, options: ReadingOptions) -> list[Document]:
    """A file as documents: an archive gives one for each member."""
    if path.suffix.lower() in PICKLES:
        raise UnreadableFileError(
            f"{path} is a pickle, which may run code when opened and is never read. Load it where you trust it and "
            "save the arrays with numpy.savez(...), then read the .npz."
        )
    document = Document(str(path), path=path, options=options)
    if document.container != "zip":
        return [document]
    try:
        with zipfile.ZipFile(io.BytesIO(document.data)) as archive:
            members = [one for one in archive.namelist() if data_ending(one) in ENDINGS and "__MACOSX" not in one]
            return [
                Document(f"{path}/{member}", data=archive.read(member), options=options) for member in sorted(members)
            ]
    except zipfile.BadZipFile as error:
        raise UnreadableFileError(f"{path} is a damaged or truncated zip file ({error}). Export it again.") from error


def data_ending(name: str) -> str:
    """The ending of a file name, that of a packing left out."""
    stem, ending = os.path.splitext(name.lower())
    return os.path.splitext(stem)[1] if ending in PACKINGS else ending
