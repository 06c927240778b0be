"""Files and tables in memory as documents: unpacked, decoded and parsed once, whatever their name says."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.annotations.frames import columns_of_frame
from crowdprism.errors import InvalidParameterError, UnreadableFileError, some
from crowdprism.files import TOKEN
from crowdprism.formats import text_tables
from crowdprism.formats.binary_files import arrays_of, read_parquet
from crowdprism.formats.json_text import JsonLines, Schema, parse_json, require_shape
from crowdprism.formats.raw_annotations import ReadingOptions
from crowdprism.formats.text_tables import decode, read_table
from crowdprism.formats.unpacking import PACKINGS, data_ending, packing_of, read_bytes, unpack, unzip

Source = Any  # a path, paths or a table in memory
FoundFile = tuple[Path, bool]  # a file, and whether it comes from a folder: then it may not hold annotations at all
Container = Literal["table", "json", "json lines", "parquet", "npy", "npz", "zip"]
HEAD_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 22  # a table whose first line is longer than this is no table
N_SAMPLE = 50
STORE_PART = re.compile(rf"files-{TOKEN}")  # a folder with the shards of a store
ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".manifest", ".parquet", ".npy", ".npz", ".zip")
MAGIC: dict[bytes, Container] = {b"PAR1": "parquet", b"\x93NUMPY": "npy", b"PK\x03\x04": "zip"}
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF8 = ("utf-8", "utf8", "utf-8-sig", "ascii")

NO_OPTIONS = ReadingOptions()


class Document:
    """One file (or member of an archive): the container is recognized by content, and parts are parsed when needed."""

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
        return Path(self.name).name.split(".")[0]

    @cached_property
    def data(self) -> bytes:
        packed = self._data if self._data is not None else read_bytes(Path(str(self.path)), self.options.max_size)
        if not packed.strip():
            raise UnreadableFileError(f"{self.name} is empty. Export it again, or pass another file.")
        if packing_of(packed) == "zstd" and not self._is_utf8:
            raise UnreadableFileError(f"{self.name}: zstd files are read in UTF-8 only. Unpack it first.")
        return unpack(packed, self.name, self.options.max_size)

    @cached_property
    def container(self) -> Container:
        head = self.data[:HEAD_BYTES]
        for magic, container in MAGIC.items():
            if head.startswith(magic):
                return "npz" if container == "zip" and b".npy" in head[:256] else container
        if b"\0" in head[:1024] and self._is_utf8 and head[:2] not in UTF16_MARKS:
            raise UnreadableFileError(
                f"{self.name} is a binary file of unknown kind. Readable are text tables, JSON, Parquet, .npy, .npz "
                "and zip archives of these.",
                remedy="For text that is not UTF-8, pass its encoding, such as {encoding:'utf-16'}.",
            )
        start = self.head_text.lstrip("\ufeff \t\r\n")[:1]
        if not start and not self.text.strip():
            raise UnreadableFileError(f"{self.name} holds nothing but white space. Export it again.")
        if start in ("{", "["):
            return "json lines" if isinstance(self.json, JsonLines) else "json"
        return "table"

    @property
    def _is_utf8(self) -> bool:
        return self.encoding.lower().replace("_", "-") in UTF8

    @cached_property
    def head_text(self) -> str:
        """The first characters; one that is cut at the end is left out, other undecodable bytes are an error."""
        head = self.data[:HEAD_BYTES]
        if head[:2] in UTF16_MARKS and self._is_utf8:
            raise UnreadableFileError(f"{self.name} is not UTF-8 but utf-16.", remedy="Pass {encoding:'utf-16'}.")
        try:
            return head.decode(self.encoding)
        except UnicodeDecodeError as error:
            if error.start >= len(head) - 4 and len(self.data) > HEAD_BYTES:
                return head[: error.start].decode(self.encoding)
            return decode(self.data, self.name, self.encoding)

    @cached_property
    def text(self) -> str:
        return decode(self.data, self.name, self.encoding).removeprefix("\ufeff")

    @cached_property
    def json(self) -> Any:
        return parse_json(self.text, self.name)

    @property
    def is_records(self) -> bool:
        """Whether this is a list of JSON values, the first of which is an object."""
        is_list = self.container in ("json", "json lines") and isinstance(self.json, list)
        return is_list and bool(self.json) and isinstance(self.json[0], dict)

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        if self.container in ("table", "parquet"):
            return self.frame.to_dicts()
        if self.container not in ("json", "json lines"):
            raise UnreadableFileError(f"{self.name} is a {self.container} file, which has no records. Name its format.")
        found = self.json if isinstance(self.json, list) else [self.json]
        odd = next((place for place, record in enumerate(found) if not isinstance(record, dict)), None)
        if odd is not None:
            raise UnreadableFileError(
                f"{self.name}: entry {odd} is not an object but {some([found[odd]])[:200]}. "
                "Expected one JSON object per annotation or item."
            )
        return found

    def records_as(self, schema: Schema) -> list[dict[str, Any]]:
        """The records, after every one was found to have the shape that the schema declares."""
        require_shape(self.records, schema, self.place)
        return self.records

    @cached_property
    def table(self) -> text_tables.TableText:
        return text_tables.table_text(self.data if self._is_utf8 else self.text.encode())

    @cached_property
    def sample(self) -> tuple[str, list[list[str]]]:  # what separates cells, and the first rows
        data = self.table.data
        head = data[:HEAD_BYTES]
        if b"\n" not in head and len(data) > HEAD_BYTES:
            head = data[:MAX_LINE_BYTES]
            if b"\n" not in head and len(data) > MAX_LINE_BYTES:
                raise UnreadableFileError(
                    f"{self.name} has no line break in its first {MAX_LINE_BYTES >> 20} MB and is no JSON: "
                    "this is no table. Check that the file is the export itself."
                )
        if len(head) < len(data):
            head = head[: head.rfind(b"\n") + 1]  # the last line may be cut
        return text_tables.sample_rows(decode(head, self.name), self.name)

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns of a table, or the keys of the first records."""
        if self.container == "table":
            return text_tables.column_names(self.sample[1][0])
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
            return read_parquet(self.data, self.name, self.options.max_size)
        if self.container == "table":
            return read_table(self.table, self.sample[0], self.name)
        # Keys beyond the first records are no columns: a hostile file could have a new one in each record.
        columns = dict.fromkeys([*self.columns, *self.asked.values()])
        found = {key: [record.get(key) for record in self.records] for key in columns}
        return pl.DataFrame({key: typed_series(key, values) for key, values in found.items()})

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return arrays_of(self.data, self.name, is_archive=self.container == "npz", max_size=self.options.max_size)

    def place(self, row: int) -> str:
        if self.container == "table":
            return f"{self.name} line {row + 1 + self.table.first_line}"
        return f"{self.name} line {row + 1}" if self.container == "json lines" else f"{self.name} entry {row}"

    def require_columns(self, *names: str) -> None:
        """Stop where a column or field that is needed is not there, and list those that are."""
        absent = [name for name in names if name not in self.columns]
        if absent:
            raise UnreadableFileError(f"{self.name} has no column {absent[0]!r}; it has {some(self.columns, 15)}.")

    def lacks_field(self, place: int, record: dict[str, Any], field: str) -> UnreadableFileError:
        return UnreadableFileError(
            f"{self.place(place)} has no field {field!r}; it has {some(list(record), 10)}.",
            remedy="Choose another with {item}",
        )

    def only(self, found: list[str], role: str, what: str) -> str:
        """The one column or question there is; several are an error that lists them."""
        if len(found) == 1:
            return found[0]
        listed = f": {some(found, 12)}" if found else f" among its columns {some(self.columns, 15)}"
        raise UnreadableFileError(f"{self.name} has {len(found)} {what}{listed}.", remedy=f"Choose one with {{{role}}}")

    def seen(self) -> str:
        if self.container in ("npy", "npz", "zip"):
            return f"a {self.container} file"
        what = "columns" if self.container in ("table", "parquet") else "first keys"
        return f"a {self.container} file with {what} {some(self.columns, 12) if self.columns else '(none)'}"


def typed_series(name: str, values: Any) -> pl.Series:
    """A column as polars holds it; listed values of mixed types stay as they are, for the checks to see."""
    if isinstance(values, (pl.Series, np.ndarray)):
        return pl.Series(name, values)
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1 and kinds <= {str, float, bool}:
        return pl.Series(name, values)
    if kinds == {int} and all(value is None or -(1 << 63) <= value < 1 << 63 for value in values):
        return pl.Series(name, values, dtype=pl.Int64)
    return pl.Series(name, values, dtype=pl.Object)


def open_documents(path: Path, options: ReadingOptions) -> list[Document]:
    """A file as a document, an archive as one for each member."""
    if path.suffix.lower() in (".pt", ".pth", ".pkl", ".pickle"):
        raise UnreadableFileError(
            f"{path} is a pickle, which may run code when opened and is never read. Load it where you trust it and "
            "save the arrays with numpy.savez(...), then read the .npz."
        )
    document = Document(str(path), path=path, options=options)
    if document.container != "zip":
        return [document]
    members = unzip(document.data, str(path), max_size=options.max_size, endings=ENDINGS)
    return [Document(f"{path}/{member}", data=data, options=options) for member, data in members.items()]


def is_hugging_face(source: Any) -> bool:
    """Tell whether this is a `datasets.Dataset`; the package need not be installed."""
    return type(source).__module__.split(".")[0] == "datasets" and hasattr(source, "features")


def frame_document(source: Any, options: ReadingOptions) -> Document:
    document = Document(f"the {type(source).__name__}", data=b"", options=options)
    document.container = "parquet"
    document.frame = hugging_face_frame(source) if is_hugging_face(source) else polars_frame(source)
    return document


def hugging_face_frame(dataset: Any) -> pl.DataFrame:
    """The columns of a data set; classes are named where the data set knows their names."""
    frame = pl.DataFrame({name: typed_series(name, list(dataset[name])) for name in dataset.column_names})
    for name, feature in dataset.features.items():
        names = getattr(feature, "names", None)
        if names and frame[name].dtype == pl.Int64:
            codes = [names[code] if code is not None and code >= 0 else None for code in frame[name]]
            frame = frame.with_columns(pl.Series(name, codes, dtype=pl.String))
    return frame


def polars_frame(frame: Any) -> pl.DataFrame:
    """Any frame as one of polars; without pyarrow, which pandas would need to convert."""
    if isinstance(frame, pl.DataFrame):
        return frame
    names = [str(name) for name in getattr(frame, "column_names", frame.columns)]  # pyarrow's columns are no names
    if not hasattr(frame, "column_names"):
        frame = frame.rename(columns=dict(zip(frame.columns, names, strict=True)))
    columns, _ = columns_of_frame(frame, dict(zip(names, names, strict=True)))
    return pl.DataFrame({name: typed_series(name, values) for name, values in columns.items()})


def find_files(source: Source) -> list[FoundFile]:
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    elif not isinstance(source, Iterable):
        raise InvalidParameterError(f"Pass a path, a list of paths or a data frame, not {type(source).__name__}.")
    found = [file for one in source for file in expand(os.fspath(one))]
    if not found:
        raise InvalidParameterError("The list of paths is empty. Pass at least one file.")
    return found


def expand(path: str) -> list[FoundFile]:
    if os.path.isdir(path):
        return folder_files(Path(path))
    if os.path.exists(path):
        return [(Path(path), False)]
    if glob.has_magic(path):
        matched = [Path(one) for one in sorted(glob.glob(path, recursive=True)) if os.path.isfile(one)]
        if not matched:
            raise UnreadableFileError(f"No file matches {path}. Check the folder and the pattern.")
        return [(one, False) for one in matched]
    raise UnreadableFileError(missing_file(Path(path)))


def folder_files(folder: Path) -> list[FoundFile]:
    manifest, is_run = folder / "manifest.json", any(STORE_PART.fullmatch(one.name) for one in folder.iterdir())
    if manifest.is_file():
        with manifest.open("rb") as file:
            is_run |= b'"crowdprism_' in file.read(64)
    if is_run:
        raise UnreadableFileError(
            f"{folder} is a run or store that crowdprism wrote. Pass the annotations it was made of; only `aggregate` "
            "takes stores."
        )
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith(".")]
    of_answers = {file.with_name("metadata.json") for file in files if file.name == "answers.json"}
    readable = [file for file in files if data_ending(file.name) in ENDINGS and file not in of_answers]
    if not readable:
        names = ", ".join(file.name for file in files[:5]) or "nothing"
        raise UnreadableFileError(
            f"The folder {folder} has no readable file (it holds {names}). "
            f"Readable endings are {' '.join(ENDINGS)}, also with {' or '.join(PACKINGS)}."
        )
    return [(file, True) for file in readable]


def missing_file(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {folder}, so {path} cannot be read. Check the path (now in {os.getcwd()})."
    close = difflib.get_close_matches(path.name, os.listdir(folder), n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"The folder {folder} holds no file of a similar name."
    return f"There is no file {path}. {hint}"
