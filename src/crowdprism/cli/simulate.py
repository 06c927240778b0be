"""`crowdprism simulate`: annotations by simulated annotators with known confusions, to try methods on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import typer

import crowdprism as cp
from crowdprism.cli.screen import print_table, remark
from crowdprism.errors import InvalidParameterError, UnreadableFileError, some

N_ITEMS = 1000
MACHINE_PROBABILITY = 0.1  # that a machine annotator labels an item
MACHINE_POOL = 10_000  # most items that machine annotators are trained on


class Truth(NamedTuple):
    codes: Any  # (n_items,) position of the true class in `classes`
    classes: list[Any]
    items: list[Any]


def simulate(
    target: Path = typer.Argument(..., help="File to write; its ending selects the format."),
    *,
    truth: Path | None = typer.Option(None, help="CSV file with the true class of each item, instead of random items."),
    dataset: str | None = typer.Option(None, help="Data set whose training items are labelled."),
    items: int | None = typer.Option(None, help="Number of items: random, or the first of the data set."),
    annotators: int = typer.Option(20, help="Number of annotators."),
    classes: int = typer.Option(3, help="Number of classes of random items."),
    family: str = typer.Option("class-wise", help="Family of annotators; `list` lists all."),
    level: float | None = typer.Option(None, help="Parameter of the family; see `--family list`."),
    pattern: str = typer.Option("per-item", help="Which annotators label which items; `list` lists all."),
    amount: float | None = typer.Option(None, help="Parameter of the pattern, such as labels per item."),
    copiers: int = typer.Option(0, help="How many annotators copy from others."),
    machines: int | None = typer.Option(None, help="Use machines trained on --dataset: 1 with experts, 2 without."),
    item: str = typer.Option("item", help="Column of --truth with the item ids."),
    label: str = typer.Option("label", help="Column of --truth with the true classes."),
    seed: int = typer.Option(0, help="Random seed of true classes, annotators and labels."),
) -> None:
    """Simulate annotations; the true classes are written as gold.

    Example: `crowdprism simulate labels.csv --items 500 --family hammer-spammer --level 0.3 --amount 5`
    """
    from crowdprism import simulate as crowd
    from crowdprism.formats.write import write_annotations

    if "list" in (family, pattern):
        choices = crowd.FAMILIES if family == "list" else crowd.PATTERNS
        rows = [(name, one.meaning or "no parameter", one.default) for name, one in choices.items()]
        print_table("", ("name", "meaning of its parameter", "default"), rows)
        return
    if truth is not None and dataset is not None:
        raise InvalidParameterError("Give --truth or --dataset, not both.")
    if items is not None and items < 1:
        raise InvalidParameterError(f"--items must be at least 1, not {items}.")
    if machines is not None:
        made = label_by_machines(dataset, machines, items, annotators, amount, seed)
    else:
        if truth is not None:
            known = read_truth(truth, item=item, label=label)
        elif dataset is not None:
            known = truth_of_dataset(dataset, items)
        else:
            known = random_truth(N_ITEMS if items is None else items, classes, seed)
        confusions = crowd.build_family(family, annotators, len(known.classes), level=level, seed=seed)
        pairs = crowd.build_pattern(pattern, len(known.codes), annotators, amount=amount, seed=seed)
        made = crowd.simulate_annotations(
            known.codes, confusions, pairs, seed=seed, classes=known.classes, items=known.items
        )
    if copiers:
        made = crowd.copy_annotators(made, crowd.random_copies(made.annotators.tolist(), copiers, seed=seed))
    write_annotations(made, target)
    accuracy = made.summary().label_accuracy
    remark(f"wrote {made.n_annotations} annotations of {made.n_items} items to {target}; {accuracy:.1%} are correct")


def random_truth(n_items: int, n_classes: int, seed: int) -> Truth:
    from crowdprism.seeding import stream

    if n_classes < 2:
        raise InvalidParameterError(f"--classes must be at least 2, not {n_classes}.")
    codes = stream(seed, "truth").integers(n_classes, size=n_items)
    return Truth(codes, list(range(n_classes)), list(range(n_items)))


def truth_of_dataset(dataset: str, n_items: int | None) -> Truth:
    """The training items of a data set whose true class is known."""
    import numpy as np

    loaded = cp.load_dataset(dataset)
    known = np.flatnonzero(~np.ma.getmaskarray(loaded.gold))
    chosen = np.intersect1d(loaded.splits["train"], known)[:n_items]
    return Truth(np.asarray(loaded.gold[chosen]).astype(np.int64), list(loaded.classes), chosen.tolist())


def read_truth(path: Path, *, item: str, label: str) -> Truth:
    import polars as pl

    from crowdprism.annotations.names import encode
    from crowdprism.formats.text_tables import columns_as_written

    try:
        rows = columns_as_written(pl.read_csv(path, infer_schema_length=None))
    except pl.exceptions.PolarsError as error:
        raise UnreadableFileError(f"{path} cannot be read as CSV: {error}") from error
    missing = [name for name in (item, label) if name not in rows.columns]
    if missing:
        raise InvalidParameterError(
            f"{path} has no column {missing[0]!r}; it has {some(rows.columns)}. "
            "Name the columns with --item and --label."
        )
    unknown = rows[label].null_count() + rows[item].null_count()
    if unknown:
        raise InvalidParameterError(f"{path} has {unknown} empty cells in {item!r} or {label!r}. Fill or drop them.")
    repeated = len(rows) - rows[item].n_unique()
    if repeated:
        raise InvalidParameterError(f"{path} has {repeated} items more than once in {item!r}. List each once.")
    names, codes = encode(rows[label].to_list())
    return Truth(codes, names.tolist(), rows[item].to_list())


def label_by_machines(
    dataset: str | None, case: int, n_items: int | None, n_annotators: int, probability: float | None, seed: int
) -> cp.Annotations:
    """Annotations by trained machine annotators; their accuracies are printed on standard error."""
    import numpy as np

    from crowdprism.simulate import machine_annotations

    if dataset is None:
        raise InvalidParameterError("--machines needs the images of a --dataset, such as mnist.")
    if case not in (1, 2):
        raise InvalidParameterError(f"--machines is 1 (with experts) or 2 (without), not {case}.")
    loaded = cp.load_dataset(dataset)
    train = loaded.splits["train"]
    n_items = min(N_ITEMS, len(train) // 2) if n_items is None else n_items
    made = machine_annotations(
        loaded.images[train],
        np.asarray(loaded.gold[train]),
        n_items=n_items,
        n_annotators=n_annotators,
        case=1 if case == 1 else 2,
        probability=MACHINE_PROBABILITY if probability is None else probability,
        pool_size=min(MACHINE_POOL, len(train) - n_items),
        seed=seed,
        published_for=loaded.name,
    )
    remark(str(made.report))
    return made.annotations
