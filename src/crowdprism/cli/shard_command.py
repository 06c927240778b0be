"""`crowdprism shard`: tables of any size to a store; and what `aggregate` does with a store."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import crowdprism as cp
from crowdprism.cli.options import AsJson, StoreOption
from crowdprism.cli.run_folder import Run, Written, cells_of, run_target, save_csv, write_run
from crowdprism.cli.screen import print_csv, print_json, print_table, remark
from crowdprism.errors import InvalidParameterError, counted

if TYPE_CHECKING:
    from crowdprism.aggregators import Aggregator


def shard(
    files: list[Path] = typer.Argument(..., help="Tables with one row per annotation: .parquet, .csv, .tsv, .jsonl."),
    *,
    output: Path = typer.Option(..., "--output", "-o", help="Folder of the store."),
    item: str | None = typer.Option(None, help="Column with the item ids."),
    annotator: str | None = typer.Option(None, help="Column with the annotator ids."),
    label: str | None = typer.Option(None, help="Column with the labels."),
    weight: str | None = typer.Option(None, help="Column with the weights."),
    gold: str | None = typer.Option(None, help="Column with the true classes, where known."),
    gold_file: Path | None = typer.Option(None, help="Table of true classes, with an item and a label column."),
    skip_missing: bool = typer.Option(False, "--skip-missing", help="Leave out rows without item, annotator or label."),
    force: bool = typer.Option(False, "--force", help="Replace a store that is there."),
    json: AsJson = False,
) -> None:
    """Sort tables that do not fit in memory into a store, from which `aggregate` works.

    Example: `crowdprism shard labels/*.parquet -o store/`, then `crowdprism aggregate store/ -o run/`
    """
    from crowdprism.shards import shard_files

    asked = {"item": item, "annotator": annotator, "label": label, "weight": weight, "gold": gold}
    columns = {role: column for role, column in asked.items() if column is not None}
    done = shard_files(files, output, columns=columns, gold_file=gold_file, skip_missing=skip_missing, force=force)
    store = done.store
    for reason, count in done.skipped.items():
        remark(f"note: {count} rows were left out: {reason}")
    if json:
        about = {"classes": store.classes.tolist(), "shards": len(store.shards), "skipped": done.skipped}
        print_json(sizes_of(store) | about)
        return
    remark(
        f"{store.n_annotations:,} annotations of {store.n_items:,} items by {store.n_annotators:,} annotators, "
        f"{store.n_classes} classes, {counted(len(store.shards), 'shard')}. Next: crowdprism aggregate {output} -o run/"
    )


def sizes_of(store: cp.Shards) -> dict[str, Any]:
    return {"annotations": store.n_annotations, "items": store.n_items, "annotators": store.n_annotators}


@dataclass(frozen=True)
class StoreOptions:
    engine: str = StoreOption("local", help="Where to work on a store: local (this machine) or spark.")
    master: str | None = StoreOption(None, help="Address of the Spark cluster, such as spark://host:7077.")
    resume: bool = StoreOption(False, "--resume", help="Continue an interrupted run on a store.")

    def require_store(self) -> None:
        """Raise if an option was given that only a store has."""
        if self.engine != "local" or self.master is not None or self.resume:
            raise InvalidParameterError("--engine, --master and --resume need a store. Make one: `crowdprism shard`.")


def holds_store(files: list[Path]) -> bool:
    if len(files) != 1 or not files[0].is_dir():
        return False
    from crowdprism.shards.store import is_store

    return is_store(files[0])


def beyond_memory(annotations: cp.Annotations, aggregator: Aggregator) -> bool:
    """Whether class probabilities of all items would not fit, and the method can work without them."""
    from crowdprism.results.confusion import MAX_TABLE_BYTES

    n_columns = annotations.n_classes * getattr(aggregator, "n_subtypes", 1)
    if 8 * annotations.n_items * n_columns <= MAX_TABLE_BYTES:
        return False
    from crowdprism.shards.store_runs import OUT_OF_CORE

    return aggregator.name in OUT_OF_CORE


@dataclass(frozen=True)
class StoreRun:
    output: Path
    result: cp.FitResult
    store: cp.Shards
    written: Written

    def show(self, *, as_json: bool) -> None:
        self.count_labels(as_json=as_json)
        for text in self.result.warnings:
            remark(f"note: {text}")
        if self.written.report_failed:
            remark(f"note: the report was left out ({self.written.report_failed})")
        remark(self.written.sentence(self.output))

    def count_labels(self, *, as_json: bool) -> None:
        from crowdprism.shards.store_runs import count_labels

        result, store = self.result, self.store
        counts = count_labels(self.output, store.classes)
        if as_json:
            labels = dict(zip(store.classes.tolist(), counts, strict=True))
            print_json({"method": result.method, **sizes_of(store), "labels": labels, "warnings": result.warnings})
        else:
            shares = [count / max(store.n_items, 1) for count in counts]
            rows = zip(store.classes.tolist(), counts, shares, strict=True)
            print_table(f"Labels by {result.method}", ("class", "items", "share of items"), rows)


def aggregate_store(
    aggregator: Aggregator, store: Path, output: Path | None, options: StoreOptions, *, report: bool, force: bool
) -> StoreRun:
    from crowdprism.shards import Shards

    if output is None:
        raise InvalidParameterError("The labels of a store are written to a folder.", remedy="Name it with {output}.")
    with run_target(output, kind="result", force=force, inputs=[store]) as fresh:
        assert fresh is not None
        return fit_out_of_core(fresh, aggregator, Shards(store), output, options, report=report)


def label_out_of_core(
    aggregator: Aggregator, annotations: cp.Annotations, table: Path | None, options: StoreOptions, *, as_json: bool
) -> None:
    """Fit annotations beyond memory where no run is asked for: print the labels, or write them to a table."""
    import polars as pl

    with tempfile.TemporaryDirectory(prefix="crowdprism-") as spare:
        folder = Path(spare, "run")
        folder.mkdir()
        done = fit_out_of_core(folder, aggregator, annotations, folder, options, report=False)
        if as_json:
            done.count_labels(as_json=True)
            return
        columns = cells_of(pl.read_parquet(folder / "labels" / "*.parquet"))
        if table is None:
            print_csv(columns)
        else:
            save_csv(table, columns)
            remark(f"wrote {table}")


def fit_out_of_core(
    fresh: Path, aggregator: Aggregator, source: Any, output: Path, options: StoreOptions, *, report: bool
) -> StoreRun:
    """Fit a method to a store, or to annotations that are written as one first, and write the files of the run."""
    from crowdprism.shards import Shards, write_annotations
    from crowdprism.shards.store_runs import fit_store, working_folder

    with working_folder(output, resume=options.resume) as working:
        if not isinstance(source, Shards):
            remark("note: class probabilities of all items would not fit in memory, so the work is done out of core")
            source = write_annotations(source, working / "store", force=True)
        result = fit_store(aggregator, source, working, fresh, engine=options.engine, master=options.master)
        written = write_run(fresh, Run(result, source.sample, with_report=report))
        return StoreRun(output, result, source, written)
