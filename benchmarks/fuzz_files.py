"""Mutated annotation files: every one must be read whole or refused by an error of ours.

    python benchmarks/fuzz_files.py 100000 --seed 1 --processes 2
    python benchmarks/fuzz_files.py --tables 10000 --seed 1

The first line mutates the samples of `format_samples.py` (bytes flipped, cut, lines doubled or dropped, JSON values
swapped for others, odd text inserted) and reads each file in a worker process under a limit of time and of memory. It
counts by sample: files read, files refused, foreign exceptions, hangs, crashes, files whose rows do not add up, and the
peak of memory. The second line writes random tables as CSV, TSV, Parquet, data frame and JSON lines and counts those
that are not read alike.
Everything follows from the seed: `--only NAME --index I` repeats one file and prints what happened.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from crowdprism.annotations import Annotations
from crowdprism.formats.write import write_npz
from format_samples import TRIPLETS, Sample, format_samples, odd_samples, table
from fuzz_workers import SECONDS_ALLOWED, Program, ending_of, main, time_limit

MAX_SIZE = 64 << 20
LONG_FORMATS = ("long", "crowd-kit", "netease-crowd", "spark-crowd", "cleanlab")
ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 5, 2**63, 2**100, -(2**63) - 1, 1e308, 0.5, float("nan"), float("inf"), "", " ", "x",
    "-1", "nan", [], {}, [[]], [[[[]]]], {"id": 1}, ["a", "b"], [None], "\x00", "\u2028", "\ud800", "e\u0301",
    "\U0001f600", "a\rb", "2026-13-45", "9999-12-31T23:59:59+23:59", "0001-01-01T00:00:00-23:59", "1" * 400, "[" * 50,
    '{"labels": 5}',
]  # fmt: skip
ODD_BYTES = [
    b"\r", b"\n", b"\n\n", b"\r\n", b'"', b'""', b",", b"\t", b";", b"\x00", b"\xff", b"\xef\xbb\xbf",
    b"\xed\xa0\x80", b"\xe2\x80\xa8", b"NaN", b"-1", b"1e999", b"9" * 30, b"9" * 5000, b"[" * 2000, b"{", b"}",
    b"]", b"null", b"\\ud800", b" ", b"\x1c", b"\x0b",
]  # fmt: skip
ODD_TEXTS = [
    "a", "b", "x y", " padded ", 'say "no"', '"', "a,b", "a\tb", "a;b", "two\nlines", "a\rb", "\rb", "b\r", "a\r\nb",
    "07", "-0", "1.0", "1e5", "é", "e\u0301", "日本", "\U0001f600", "\u2028", "\x0b", "\x1c", "\ufeff", "=1+1", "-",
    "+1", "'", "#", "none", "?", "\\", "{}", "[1]", "0x1F", "item",
]  # fmt: skip
MISSING = ["", " ", "nan", "NA", "null"]


def mutate_bytes(data: bytes, draw: random.Random) -> bytes:
    """Change some bytes: flip, insert, delete, double or cut."""
    if not data:
        return draw.choice(ODD_BYTES)
    at, kind = draw.randrange(len(data)), draw.randrange(8)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + draw.randbytes(draw.choice([1, 1, 2, 4, 8])) + data[at + draw.choice([0, 1, 4]) :]
    if kind == 2:
        return data[:at]
    if kind == 3:
        return data[:at] + data[at + draw.randrange(1, 40) :]
    if kind == 4:
        return data[:at] + draw.choice(ODD_BYTES) + data[at:]
    if kind == 5:
        end = at + draw.randrange(1, 60)
        return data[:end] + data[at:end] + data[end:]
    if kind == 6:
        lines = data.split(b"\n")
        line = draw.randrange(len(lines))
        lines[line : line + 1] = [lines[line]] * draw.choice([0, 0, 2, 2, 5])
        return b"\n".join(lines)
    other = draw.randrange(len(data))
    return data[: min(at, other)] + data[max(at, other) :] + data[min(at, other) : max(at, other)]


def mutate_tree(tree: Any, draw: random.Random) -> Any:
    """Replace, drop or move one value of parsed JSON."""
    places: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
        places += [(node, key) for key in keys]
        waiting += [node[key] for key in keys]
    if not places:
        return draw.choice(ODD_VALUES)
    node, key = draw.choice(places)
    kind = draw.randrange(5)
    if kind == 0:
        del node[key]
    elif kind == 1:
        other, place = draw.choice(places)
        node[key] = json.loads(json.dumps(other[place]))
    elif kind == 2:
        node[key] = draw.choice([[node[key]], {"x": node[key]}, str(node[key])])
    else:
        node[key] = draw.choice(ODD_VALUES)
    return tree


def mutate(name: str, data: bytes, draw: random.Random) -> bytes:
    """Change a file in one to four places; JSON as a tree half of the time."""
    if name.endswith((".gz", ".zip", ".npz")) and draw.random() < 0.6:
        return mutate_inside(name, data, draw)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        if name.endswith((".json", ".jsonl", ".manifest")) and draw.random() < 0.6:
            try:
                data = changed_json(data, draw)
                continue
            except (ValueError, RecursionError):
                pass
        data = mutate_bytes(data, draw)
    return data


def mutate_inside(name: str, data: bytes, draw: random.Random) -> bytes:
    """Change what a packed file holds, and pack it again."""
    try:
        if name.endswith(".gz"):
            return gzip.compress(mutate(name.removesuffix(".gz"), gzip.decompress(data), draw), 1)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {member: archive.read(member) for member in archive.namelist()}
    except (EOFError, zipfile.BadZipFile):
        return mutate_bytes(data, draw)
    chosen = draw.choice(list(members))
    members[chosen] = mutate(chosen, members[chosen], draw)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return buffer.getvalue()


def changed_json(data: bytes, draw: random.Random) -> bytes:
    """Change a value of a JSON document, or of one of its lines."""
    lines = data.split(b"\n")
    try:
        return json.dumps(mutate_tree(json.loads(data), draw)).encode()
    except ValueError:
        line = draw.randrange(len(lines))
        lines[line] = json.dumps(mutate_tree(json.loads(lines[line]), draw)).encode()
        return b"\n".join(lines)


@cache
def samples() -> list[Sample]:
    """Small samples of every format, our own .npz among them; large ones would measure the copying."""
    buffer = io.BytesIO()
    write_npz(
        Annotations.from_triplets(*zip(*TRIPLETS, strict=True), gold={7: "cat"}, weight=[0.5] * len(TRIPLETS)), buffer
    )
    stored = Sample("stored annotations", {"a.npz": buffer.getvalue()}, "numpy")
    appen = table(["_unit_id", "_worker_id", "kind", "kind_gold"], [(*one, "cat") for one in TRIPLETS])
    everything = (stored, Sample("appen", {"a.csv": appen}, "appen"), *format_samples(), *odd_samples())
    return [sample for sample in everything if sum(map(len, sample.files.values())) < 1 << 16]


def mutated_sample(sample: Sample, seed: int, index: int) -> dict[str, bytes]:
    """The files of a sample, one of them changed."""
    draw = random.Random(f"{seed}/{sample.name}/{index}")
    files = dict(sample.files)
    chosen = draw.choice(list(files))
    files[chosen] = mutate(chosen, files[chosen], draw)
    return files


def rows_by_csv(data: bytes) -> int | None:
    """Rows with any content below the header, by Python's csv module; None where it finds fault."""
    try:
        lines = data.decode("utf-8-sig").split("\n")
        rows = [row for row in csv.reader((line + "\n" for line in lines), strict=True) if any(row)]
    except (csv.Error, UnicodeDecodeError):
        return None
    return len(rows) - 1 if rows and len(rows[0]) > 1 else None


def outcome_of(
    sample: Sample, files: dict[str, bytes], folder: Path, seconds: float | None = SECONDS_ALLOWED
) -> tuple[str, str]:
    """Read the files: how it ended, and for what should not happen, where."""
    from crowdprism.formats import read_annotations_with_report

    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    source = folder if len(files) > 1 else folder / next(iter(files))
    options = {"max_size": MAX_SIZE, **sample.options}
    try:
        with time_limit(seconds):
            _, report = read_annotations_with_report(source, **options)
    except BaseException as error:
        return ending_of(error)
    if len(files) == 1 and report.format in LONG_FORMATS and source.suffix in (".csv", ".tsv"):
        expected = rows_by_csv(files[source.name])
        if expected not in (None, report.n_rows):
            return "uncounted rows", f"{expected} rows by the csv module, {report.n_rows} read"
    return "read", ""


def attempt(name: str, seed: int, index: int, folder: Path) -> tuple[str, str]:
    """Read one mutant of the sample of that name."""
    sample = sample_of(name)
    return outcome_of(sample, mutated_sample(sample, seed, index), folder)


def sample_of(name: str) -> Sample:
    """The sample of that name."""
    return next(sample for sample in samples() if sample.name == name)


@dataclass(frozen=True)
class RandomTable:
    """A table by column, and whether some cells are missing."""

    columns: dict[str, list[Any]]
    has_missing: bool


def random_table(draw: random.Random) -> RandomTable:
    """A long table with columns of whole numbers or of odd text, some with weights, gold or missing cells."""
    n_rows = draw.choice([2, 3, 5, 20])
    columns: dict[str, list[Any]] = {role: random_names(n_rows, draw) for role in ("item", "annotator", "label")}
    if len(set(columns["label"])) < 2:
        columns["label"][:2] = [0, 1] if isinstance(columns["label"][0], int) else ["yes", "no"]
    if draw.random() < 0.3:
        columns["weight"] = [draw.choice([0.0, 0.5, 1.0, 2.25]) for _ in range(n_rows)]
    if draw.random() < 0.3:
        columns["timestamp"] = [draw.choice([0.0, 1767349200.25, 12.0]) for _ in range(n_rows)]
    has_missing = draw.random() < 0.2
    for role in ("item", "annotator", "label") if has_missing else ():
        if isinstance(columns[role][0], str):
            columns[role][draw.randrange(n_rows)] = draw.choice(MISSING)
    order = draw.sample(list(columns), len(columns))
    return RandomTable({name: columns[name] for name in order}, has_missing)


def random_names(n_rows: int, draw: random.Random) -> list[Any]:
    """Whole numbers, or text of which at least one is no number."""
    if draw.random() < 0.3:
        return [draw.choice([-1, 0, 7, 10, 2**40, -(10**17)]) for _ in range(n_rows)]
    names = ["".join(draw.choices(ODD_TEXTS, k=draw.choice([1, 1, 2]))) for _ in range(n_rows)]
    names = [name if name.strip() else "a" for name in names]
    names[0] = "first"
    return names


def forms_of(table: RandomTable, folder: Path) -> dict[str, Path]:
    """The table as files of every kind."""
    rows = list(zip(*table.columns.values(), strict=True))
    has_return = any("\r" in str(cell) for row in rows for cell in row)
    quoting = csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL  # before Python 3.13 a return alone is not quoted
    for ending, delimiter in (("csv", ","), ("tsv", "\t")):
        with open(folder / f"table.{ending}", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=quoting)
            writer.writerows([list(table.columns), *rows])
    pl.DataFrame(table.columns).write_parquet(folder / "table.parquet")
    lines = (json.dumps(dict(zip(table.columns, row, strict=True))) for row in rows)
    (folder / "table.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return {ending: folder / f"table.{ending}" for ending in ("csv", "tsv", "parquet", "jsonl")}


def difference(table: RandomTable, folder: Path) -> str:
    """What differs between the forms of a table; nothing if all give the same annotations (or all the same error)."""
    from crowdprism.errors import CrowdprismError
    from crowdprism.formats import read_annotations_with_report

    found: dict[str, Any] = {}
    for form, path in forms_of(table, folder).items():
        try:
            annotations, report = read_annotations_with_report(path, skip_missing=table.has_missing)
            if report.n_annotations + report.n_skipped != len(table.columns["item"]):
                return f"{form}: rows do not add up"
            found[form] = annotations
        except CrowdprismError as error:
            found[form] = type(error)
    if not table.has_missing:
        extra = {role: role for role in ("weight", "timestamp") if role in table.columns}
        try:
            found["frame"] = Annotations.from_frame(pl.DataFrame(table.columns), **extra)
        except CrowdprismError as error:
            found["frame"] = type(error)
    first = next(iter(found.values()))
    return (
        "; ".join(f"{form}: {one!r}" for form, one in found.items())
        if any(one != first for one in found.values())
        else ""
    )


def attempt_table(name: str, seed: int, index: int, folder: Path) -> tuple[str, str]:
    """Read one random table in every form."""
    table = random_table(random.Random(f"{seed}/{index}"))
    try:
        with time_limit():
            found = difference(table, folder)
    except BaseException as error:
        return ending_of(error)
    return ("silently wrong", f"{table.columns}\n  {found}") if found else ("read", "")


def show_table(name: str, seed: int, index: int) -> None:
    """Repeat one random table and print it and what happened."""
    with tempfile.TemporaryDirectory() as folder:
        print(random_table(random.Random(f"{seed}/{index}")), *attempt_table(name, seed, index, Path(folder)), sep="\n")


def show(name: str, seed: int, index: int) -> None:
    """Repeat one mutant and print the file and what happened."""
    sample = sample_of(name)
    files = mutated_sample(sample, seed, index)
    for path, data in files.items():
        if data != sample.files[path]:
            print(f"{path}: {data!r}")
    with tempfile.TemporaryDirectory() as folder:
        print(*outcome_of(sample, files, Path(folder)), sep="\n")


if __name__ == "__main__":
    programs = {
        "files": Program(attempt, [sample.name for sample in samples()], show),
        "tables": Program(attempt_table, ["tables"], show_table),
    }
    sys.exit(main(__doc__, programs))
