"""`crowdprism simulate`: a crowd of known confusions labels items, for trying methods out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations

N_ITEMS, N_ANNOTATORS, N_CLASSES = 1000, 20, 3


def simulate(
    target: Annotated[Path, typer.Argument(help="File to write; the ending chooses the format.")],
    truth: Annotated[
        Path | None, typer.Option("--truth", help="CSV with a true class per item, instead of made-up items.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="Data set whose training items are labelled.")] = None,
    items: Annotated[int | None, typer.Option(help="Number of items; made up, or the first of the data set.")] = None,
    annotators: Annotated[int, typer.Option(help="Number of annotators.")] = N_ANNOTATORS,
    classes: Annotated[int, typer.Option(help="Number of classes of made-up items.")] = N_CLASSES,
    family: Annotated[str, typer.Option(help="Family of annotators; `list` names them all.")] = "class-wise",
    level: Annotated[float | None, typer.Option(help="The family's number; `--family list` tells its meaning.")] = None,
    pattern: Annotated[str, typer.Option(help="Who labels what; `list` names all patterns.")] = "per-item",
    amount: Annotated[float | None, typer.Option(help="The pattern's number, such as labels per item.")] = None,
    copiers: Annotated[int, typer.Option(help="How many annotators copy from others.")] = 0,
    machines: Annotated[
        int | None,
        typer.Option(help="Trained machine annotators on the images of --dataset: case 1 with experts, 2 without."),
    ] = None,
    item: Annotated[str, typer.Option(help="Column of --truth that names the item.")] = "item",
    label: Annotated[str, typer.Option(help="Column of --truth that holds the true class.")] = "label",
    seed: Annotated[int, typer.Option(help="Seed of truth, crowd and labels.")] = 0,
) -> None:
    """Let a simulated crowd label items; the true classes are kept as gold.

    Example: `crowdprism simulate labels.csv --items 500 --family hammer-spammer --level 0.3 --amount 5`
    """
    from crowdprism.cli.screen import remark
    from crowdprism.errors import InvalidParameterError
    from crowdprism.formats.write import write_annotations
    from crowdprism.simulate import FAMILIES, PATTERNS, copy_annotators, random_copies

    if "list" in (family, pattern):
        show_choices(FAMILIES if family == "list" else PATTERNS)
        return
    if truth is not None and dataset is not None:
        raise InvalidParameterError("Give --truth or --dataset, not both.")
    if machines is not None:
        made = by_machines(dataset, machines, items, annotators, 0.1 if amount is None else amount, seed)
    else:
        codes, names, things = true_classes(truth, dataset, items, classes, item=item, label=label, seed=seed)
        made = by_family(codes, names, things, annotators, (family, level), (pattern, amount), seed)
    if copiers:
        made = copy_annotators(made, random_copies(made.annotators.tolist(), copiers, seed=seed))
    write_annotations(made, target)
    accuracy = made.summary().label_accuracy
    remark(f"wrote {made.n_annotations} annotations of {made.n_items} items to {target}; {accuracy:.1%} are right")


def show_choices(table: dict[str, Any]) -> None:
    """Names of families or patterns, what their number means and its default."""
    from crowdprism.cli.screen import show_table

    rows = [
        (name, (getattr(one, "level_means", "") or getattr(one, "amount_means", "")) or "takes no number", one.default)
        for name, one in table.items()
    ]
    show_table("", ("name", "meaning of its number", "default"), rows)


def true_classes(
    truth: Path | None, dataset: str | None, items: int | None, classes: int, *, item: str, label: str, seed: int
) -> tuple[Any, list[Any], list[Any]]:
    """Class codes, class names and item names: read, taken from a data set, or made up."""
    import numpy as np

    from crowdprism.errors import InvalidParameterError
    from crowdprism.seeding import stream

    if items is not None and items < 1:
        raise InvalidParameterError(f"There must be at least one item, not {items}.")
    if truth is not None:
        return read_truth(truth, item=item, label=label)
    if dataset is not None:
        from crowdprism.datasets import load_dataset

        loaded = load_dataset(dataset)
        known = np.flatnonzero(~np.ma.getmaskarray(loaded.gold))
        chosen = np.intersect1d(loaded.splits["train"], known)[:items]
        return np.asarray(loaded.gold[chosen]).astype(np.int64), list(loaded.classes), chosen.tolist()
    if classes < 2:
        raise InvalidParameterError(f"There must be at least two classes, not {classes}.")
    n_items = N_ITEMS if items is None else items
    return stream(seed, "truth").integers(classes, size=n_items), list(range(classes)), list(range(n_items))


def read_truth(path: Path, *, item: str, label: str) -> tuple[Any, list[Any], list[Any]]:
    """The true classes of a CSV file, as codes, class names and item names."""
    import polars as pl

    from crowdprism.annotations.names import encode
    from crowdprism.errors import InvalidParameterError, UnreadableFileError, some

    try:
        rows = pl.read_csv(path, infer_schema_length=None)
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
        raise InvalidParameterError(
            f"{path} has {unknown} empty cells in {item!r} or {label!r}. Fill or drop these rows."
        )
    if rows[item].n_unique() < len(rows):
        raise InvalidParameterError(
            f"{path} names {len(rows) - rows[item].n_unique()} items more than once in {item!r}."
        )
    names, codes = encode(rows[label].to_list())
    return codes, names.tolist(), rows[item].to_list()


def by_family(
    codes: Any,
    names: list[Any],
    things: list[Any],
    n_annotators: int,
    family: tuple[str, float | None],
    pattern: tuple[str, float | None],
    seed: int,
) -> Annotations:
    """Labels by annotators of a family, in a pattern."""
    from crowdprism.simulate import build_family, build_pattern, simulate_annotations

    confusions = build_family(family[0], n_annotators, len(names), level=family[1], seed=seed)
    pairs = build_pattern(pattern[0], len(codes), n_annotators, amount=pattern[1], seed=seed)
    return simulate_annotations(codes, confusions, pairs, seed=seed, classes=names, items=things)


def by_machines(
    dataset: str | None, case: int, items: int | None, n_annotators: int, probability: float, seed: int
) -> Annotations:
    """Labels by trained machine annotators; their accuracies go to standard error."""
    import numpy as np

    from crowdprism.cli.screen import remark
    from crowdprism.errors import InvalidParameterError
    from crowdprism.simulate import machine_annotations

    if dataset is None:
        raise InvalidParameterError("--machines needs the images of a --dataset, such as mnist.")
    if case not in (1, 2):
        raise InvalidParameterError(f"--machines is 1 (with experts) or 2 (without), not {case}.")
    from crowdprism.datasets import load_dataset

    loaded = load_dataset(dataset)
    train = loaded.splits["train"]
    n_items = min(N_ITEMS, len(train) // 2) if items is None else items
    made = machine_annotations(
        loaded.images[train],
        np.asarray(loaded.gold[train]),
        n_items=n_items,
        n_annotators=n_annotators,
        case=1 if case == 1 else 2,
        probability=probability,
        pool_size=min(10_000, len(train) - n_items),
        seed=seed,
        published_for=loaded.name,
    )
    remark(str(made.report))
    return made.annotations
