"""Tables of annotations, of any size, to a store: by streaming, in memory that does not grow with the tables.

Rows are distributed to buckets of consecutive items, whose bounds come from a sample of the items; then bucket after
bucket is sorted in memory and cut into shards.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from crowdprism.annotations import Annotations, checks
from crowdprism.annotations.building import gold_by_item, gold_codes
from crowdprism.annotations.frames import REQUIRED, find_columns
from crowdprism.annotations.names import NameArray, name_array
from crowdprism.errors import AlignmentWarning, InvalidAnnotationsError, UnreadableFileError, some
from crowdprism.formats.binary_files import damaged_parquet, sizes_of_parquet
from crowdprism.formats.gold_file import read_gold
from crowdprism.formats.raw_annotations import WHOLE_NUMBER
from crowdprism.formats.read import decoding
from crowdprism.formats.tables import MISSING_LABELS, UNFINISHED
from crowdprism.progress import progress
from crowdprism.shards.store import Shards
from crowdprism.shards.writing import StoreWriter, cuts, replacing_store, shard_size

ROLES = (*REQUIRED, "weight", "gold")
TEXT_ENDINGS = {".csv": ",", ".tsv": "\t", ".txt": ","}
LINES_ENDINGS = (".jsonl", ".ndjson")
ROWS_AT_ONCE = 2**21
ROWS_IN_BUCKET = 2**22  # sorted in memory at once
MOST_BUCKETS = 1024
SAMPLED_ITEMS = 2**18  # from which the bounds of buckets come


@dataclass(frozen=True)
class Sharded:
    """A store that was written, and how many rows of the tables were left out for which reason."""

    store: Shards
    n_rows: int
    skipped: Mapping[str, int]


def shard_files(
    files: Iterable[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    gold_file: str | os.PathLike[str] | None = None,
    skip_missing: bool = False,
    force: bool = False,
) -> Sharded:
    """Write tables with one row per annotation (Parquet, CSV, TSV, JSON lines) as a store.

    Parameters
    ----------
    columns
        Columns by role (item, annotator, label, weight, gold), where the reader should not choose.
    gold_file
        Table of true classes, with an item and a label column.
    skip_missing
        Leave out rows without item, annotator or label instead of stopping; they are counted.
    force
        Replace a store that is there.
    """
    paths = [Path(file) for file in files]
    with replacing_store(folder, force=force) as fresh, decoding(some(map(str, paths))):
        space = fresh / "space"
        space.mkdir()
        rows, skipped = typed_rows([one_table(path, dict(columns or {})) for path in paths], space, skip_missing)
        n_rows = int(rows.select(pl.len()).collect().item())
        checks.require([checks.check_any(n_rows)])
        annotators, classes = distinct(rows, "annotator"), distinct(rows, "label", "gold")
        names = name_array(annotators.to_numpy()), name_array(classes.to_numpy())
        checks.require([checks.check_two_classes(names[1])])
        weighted = "weight" in rows.collect_schema().names()
        writer = StoreWriter(fresh, *names, weighted=weighted)
        gold = None if gold_file is None else gold_of_file(gold_file, rows, names[1])
        buckets = fill_buckets(rows, n_rows, annotators, classes, gold, space)
        write_buckets(buckets, writer, size=shard_size(n_rows))
        writer.finish()
        shutil.rmtree(space)
    return Sharded(Shards(folder), n_rows, skipped)


def one_table(path: Path, given: dict[str, str]) -> pl.LazyFrame:
    found = find_file(path)
    absent = [column for column in given.values() if column not in found]
    roles = find_columns(list(found), given)
    missing = [f"for {role}" for role in REQUIRED if role not in roles]
    if absent or missing:
        raise UnreadableFileError(
            f"{path} has no column {', '.join(map(repr, absent)) or ', '.join(missing)}. Its columns are "
            f"{some(list(found), 20)}.",
            remedy="Name the right ones, for example {item:'task'}, {annotator:'worker'}, {label:'answer'}.",
        )
    frame = scan(path)
    if "status" in found and found["status"] == pl.String:
        frame = frame.filter(~pl.col("status").str.to_lowercase().is_in(list(UNFINISHED)).fill_null(False))
    chosen = [pl.col(roles[role]).alias(role) for role in ROLES if role in roles]
    return frame.select(chosen).with_columns(pl.lit(str(path)).alias("file"))


def find_file(path: Path) -> Mapping[str, Any]:
    """The columns of a table and their types; damaged files are errors."""
    if not path.is_file():
        raise UnreadableFileError(f"{path} is not a file.")
    if path.suffix == ".parquet":
        with damaged_parquet(str(path)):
            sizes_of_parquet(path)  # the table engine allocates what the pages state
    with decoding(str(path)):
        return dict(scan(path).collect_schema())


def scan(path: Path) -> pl.LazyFrame:
    if path.suffix == ".parquet":
        return pl.scan_parquet(path)
    if path.suffix in LINES_ENDINGS:
        return pl.scan_ndjson(path)
    if path.suffix in TEXT_ENDINGS:
        return pl.scan_csv(path, separator=TEXT_ENDINGS[path.suffix], infer_schema=False)
    raise UnreadableFileError(
        f"{path} is not a table that can be sharded. Shards are made of .parquet, .csv, .tsv and .jsonl; read other "
        "formats with `crowdprism convert` first."
    )


def typed_rows(tables: Sequence[pl.LazyFrame], space: Path, skip_missing: bool) -> tuple[pl.LazyFrame, dict[str, int]]:
    """All rows with item, annotator and label; ids that are whole numbers in every text become numbers."""
    require_same_types(tables)
    path = space / "rows.parquet"
    pl.concat(tables, how="diagonal").sink_parquet(path, compression="lz4", row_group_size=2**18)
    rows = pl.scan_parquet(path)
    schema = rows.collect_schema()
    absent = {role: is_absent(role, schema[role]) for role in REQUIRED}
    counts = rows.select(**{role: expression.sum() for role, expression in absent.items()}).collect().row(0, named=True)
    skipped = {f"no {role}": count for role, count in counts.items() if count}
    for role in [role for role, count in counts.items() if count and not skip_missing]:
        first = rows.filter(absent[role]).select("file").head(1).collect().item()
        raise UnreadableFileError(
            f"{counts[role]} {role}s are missing; the first is in {first}.",
            remedy="Pass {skip_missing:True} to leave such rows out, or complete the tables.",
        )
    if skipped:  # to a file, because slices of a filtered table would be searched for from its start
        rows.filter(~pl.any_horizontal(*absent.values())).sink_parquet(space / "kept.parquet", compression="lz4")
        rows = pl.scan_parquet(space / "kept.parquet")
    for role in REQUIRED:
        rows = rows.with_columns(as_names(rows, role, schema[role]))
    if "gold" in schema:
        kind = rows.collect_schema()["label"]
        empty = is_absent("gold", schema["gold"])
        if rows.select((~empty & pl.col("gold").cast(kind, strict=False).is_null()).any()).collect().item():
            raise InvalidAnnotationsError("The labels are whole numbers and some gold is not. Correct the gold column.")
        rows = rows.with_columns(pl.when(~empty).then(pl.col("gold").cast(kind, strict=False)).alias("gold"))
    if "weight" in schema:
        rows = rows.with_columns(pl.col("weight").cast(pl.Float32))
        if rows.select((pl.col("weight").is_null() | ~(pl.col("weight") >= 0)).any()).collect().item():
            raise InvalidAnnotationsError("Some weights are missing, negative or no numbers. Correct them.")
    return rows.drop("file"), skipped


def require_same_types(tables: Sequence[pl.LazyFrame]) -> None:
    """Raise if a column is of text in one table and of numbers in another: 7 and "7" would be two names."""
    kinds: dict[str, str] = {}
    for table in tables:
        schema = table.collect_schema()
        file = str(table.select("file").head(1).collect().get_column("file").first()) if kinds else ""
        for role in REQUIRED:
            kind = "text" if schema[role] == pl.String else "numbers"
            known = kinds.setdefault(role, kind)
            if kind != known:
                raise UnreadableFileError(
                    f"{file}: the column of {role}s holds {kind}, and that of a table before it {known}. Give all "
                    "tables the same type."
                )


def is_absent(role: str, kind: Any) -> pl.Expr:
    column = pl.col(role)
    if kind == pl.String:
        return column.fill_null("").str.strip_chars().str.to_lowercase().is_in(list(MISSING_LABELS))
    return column.is_null() | column.is_nan() if kind.is_float() else column.is_null()


def as_names(rows: pl.LazyFrame, role: str, kind: Any) -> pl.Expr:
    """The column as texts or whole numbers, as the readers of annotations in memory have it."""
    column = pl.col(role)
    if kind == pl.String:
        whole = bool(rows.select(column.str.contains(WHOLE_NUMBER).all()).collect().item())
        return column.cast(pl.Int64) if whole else column
    if kind.is_float() and not rows.select((column == column.floor()).all()).collect().item():
        raise InvalidAnnotationsError(f"The {role}s are fractions. Name them by texts or whole numbers.")
    if kind.is_numeric():
        return column.cast(pl.Int64)
    return column.cast(pl.String)


def distinct(rows: pl.LazyFrame, *roles: str) -> pl.Series:
    """Names in columns, of those that are there, sorted."""
    there = [role for role in roles if role in rows.collect_schema().names()]
    names = [rows.select(role).unique().collect(engine="streaming")[role].alias("name") for role in there]
    return pl.concat(names).drop_nulls().unique().sort()


def gold_of_file(path: str | os.PathLike[str], rows: pl.LazyFrame, classes: NameArray) -> pl.DataFrame:
    """Item and position of the true class, of items that are in the table; gold of others is counted in a warning."""
    nothing = name_array([])
    cells = {str(item).strip() for item, _ in read_gold(Path(path), nothing, nothing).pairs}
    spellings = cells | {cell.removesuffix(".0") for cell in cells} | {cell.removeprefix("'") for cell in cells}
    meant = rows.filter(pl.col("item").cast(pl.String).is_in(list(spellings)))
    items = distinct(meant, "item")
    names = name_array(items.to_numpy())
    gold = gold_by_item(*map(list, zip(*read_gold(Path(path), names, classes).pairs, strict=True)))
    n_unknown = len(gold) - len(items)
    if n_unknown == len(gold):
        raise InvalidAnnotationsError(f"None of the {len(gold)} items of {path} is in the tables. Check their names.")
    if n_unknown:
        warnings.warn(f"{n_unknown} of {len(gold)} gold items are not in the tables.", AlignmentWarning, stacklevel=3)
    return pl.DataFrame({"item": items, "file_gold": gold_codes(gold, names, classes).data.astype(np.int32)})


def fill_buckets(
    rows: pl.LazyFrame,
    n_rows: int,
    annotators: pl.Series,
    classes: pl.Series,
    gold: pl.DataFrame | None,  # of `gold_of_file`
    space: Path,
) -> list[list[Path]]:
    """Distribute rows, with codes in place of names, to the files of buckets, which are in the order of items."""
    n_buckets = min(MOST_BUCKETS, -(-n_rows // ROWS_IN_BUCKET))
    bounds = bucket_bounds(rows, n_rows, n_buckets)
    there = rows.collect_schema().names()
    codes = {
        role: pl.DataFrame({role: names, "code": np.arange(len(names), dtype=np.int32)})
        for role, names in (("annotator", annotators), ("label", classes), ("gold", classes))
        if role in there
    }
    buckets: list[list[Path]] = [[] for _ in range(len(bounds) + 1)]
    with progress("distributing rows", total=-(-n_rows // ROWS_AT_ONCE)) as bar:
        for number, first in enumerate(range(0, n_rows, ROWS_AT_ONCE)):
            batch = rows.slice(first, ROWS_AT_ONCE).collect()
            for role, table in codes.items():
                batch = batch.join(table, on=role, how="left", maintain_order="left").drop(role).rename({"code": role})
            if gold is not None:
                batch = batch.join(gold, on="item", how="left", maintain_order="left")
            place = bounds.search_sorted(batch["item"], side="right") if len(bounds) else pl.Series([0] * len(batch))
            for (bucket,), part in batch.with_columns(bucket=place).partition_by("bucket", as_dict=True).items():
                path = space / f"bucket-{bucket:04}-{number:05}.parquet"
                part.drop("bucket").write_parquet(path, compression="lz4", statistics=False)
                buckets[int(bucket)].append(path)
            bar.advance()
    return buckets


def bucket_bounds(rows: pl.LazyFrame, n_rows: int, n_buckets: int) -> pl.Series:
    """Items at which buckets begin, the first bucket aside, from a sample of the items."""
    one_in = max(1, n_rows // SAMPLED_ITEMS)
    chosen = rows.select("item").filter(pl.col("item").hash(0) % one_in == 0)
    items = chosen.unique().collect(engine="streaming")["item"].sort()
    at = np.linspace(0, len(items), n_buckets + 1)[1:-1].astype(np.int64)
    return items.gather(at[at < len(items)]).unique().sort()


def write_buckets(buckets: list[list[Path]], writer: StoreWriter, *, size: int) -> None:
    with progress("sorting and writing shards", total=len(buckets)) as bar:
        for paths in buckets:
            if paths:
                table = pl.concat([pl.read_parquet(path) for path in paths])
                for path in paths:
                    path.unlink()
                annotations = sorted_annotations(table, writer)
                for first, last in cuts(annotations.item_start, size):
                    writer.write(annotations[first:last])
            bar.advance()


def sorted_annotations(table: pl.DataFrame, writer: StoreWriter) -> Annotations:
    """Rows as annotations in the order of the container."""
    order = [name for name in ("item", "annotator", "label", "weight") if name in table.columns]
    table = table.sort(order)
    begins = table["item"].ne_missing(table["item"].shift()).to_numpy()
    items = name_array(table["item"].filter(pl.Series(begins)).to_numpy())
    start = np.append(np.flatnonzero(begins), len(table))
    annotator, label = (table[name].to_numpy() for name in ("annotator", "label"))
    weight = table["weight"].to_numpy() if writer.weighted else None
    people, classes, gold = writer.annotators, writer.classes, gold_of_rows(table)
    return Annotations(start, annotator, label, items, people, classes, weight=weight, gold=gold)


def gold_of_rows(table: pl.DataFrame) -> np.ma.MaskedArray[Any, Any] | None:
    """(n_items,) true class of each item of sorted rows, masked where unknown; two for one item are an error."""
    there = [pl.col(name) for name in ("gold", "file_gold") if name in table.columns]
    if not there:
        return None
    every = pl.concat_list(there).list.explode().drop_nulls()
    found = table.group_by("item", maintain_order=True).agg(gold=every.first(), n=every.n_unique())
    twice = found.filter(pl.col("n") > 1)["item"]
    if len(twice):
        raise InvalidAnnotationsError(
            f"{len(twice)} items have two gold labels; the first is {twice[0]!r}. Correct it."
        )
    return np.ma.MaskedArray(found["gold"].fill_null(0).to_numpy(), mask=found["gold"].is_null().to_numpy())
