"""`crowdprism datasets`: list, describe and download data sets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from crowdprism.cli.options import AsJson
from crowdprism.cli.screen import exit_interrupted, print_json, print_records, remark
from crowdprism.errors import MissingDatasetError

if TYPE_CHECKING:
    from crowdprism.datasets import DatasetEntry

Name = Annotated[str, typer.Argument(help="Name of a data set.", show_default=False)]
DESCRIBE = "describe"
CAN_BE_FETCHED, NOT_HERE, INCOMPLETE = "can be downloaded", "not here; see origin", "incomplete in the data folder"


class NameOrCommand(TyperGroup):
    """Treats a word that is not a command as the name of a data set to describe."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [DESCRIBE, *args]
        return super().resolve_command(ctx, args)


datasets = typer.Typer(
    name="datasets",
    add_completion=False,
    cls=NameOrCommand,
    invoke_without_command=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@datasets.callback()
def list_datasets(context: typer.Context, json: AsJson = False) -> None:
    """List data sets. With a NAME, describe one; `fetch NAME` downloads one that is public.

    Example: `crowdprism datasets music`
    """
    if context.invoked_subcommand is not None:
        return
    from crowdprism.datasets import catalogue

    entries = list(catalogue().values())
    if json:
        print_json([summary_of(entry) for entry in entries])
        return
    short = {"built in": "built in", CAN_BE_FETCHED: "fetch", NOT_HERE: "no", INCOMPLETE: "in part"}
    rows = [
        {
            "name": entry.name,
            "items": entry.n_items,
            "annotators": entry.n_annotators or None,
            "here": short.get(place_of(entry), "yes"),
            "what": re.split("[,;(:]", entry.what)[0].strip(),
        }
        for entry in entries
    ]
    print_records("", rows)
    remark("`crowdprism datasets NAME` describes one; `crowdprism datasets fetch NAME` downloads one.")


@datasets.command(name=DESCRIBE)
def describe(
    name: Name,
    check: bool = typer.Option(False, "--check", help="Compare the files with their checksums."),
    json: AsJson = False,
) -> None:
    """Describe one data set; the word `describe` can be left out.

    Example: `crowdprism datasets labelme --check`
    """
    from crowdprism.datasets import find_entry

    entry = find_entry(name)
    record = summary_of(entry)
    if check:
        record["check"] = check_files(entry)
    if json:
        print_json(record)
        return
    width = max(len(key) for key in record)
    for key, value in record.items():
        if value not in (None, "", [], {}, 0):
            print(f"{key.replace('_', ' '):>{width}}  {readable(value)}")


@datasets.command()
def fetch(name: Name) -> None:
    """Download a public data set into the cache; an interrupted download continues where it stopped.

    Example: `crowdprism datasets fetch mnist`
    """
    from crowdprism.datasets import fetch_dataset

    try:
        remark(f"downloaded to {fetch_dataset(name)}")
    except KeyboardInterrupt:
        exit_interrupted("what was downloaded is kept. Run the same command to continue.")


def summary_of(entry: DatasetEntry) -> dict[str, Any]:
    has = {"features": bool(entry.features), "images": entry.images, "texts": entry.texts}
    return {
        "name": entry.name,
        "what": entry.what,
        "items": entry.n_items,
        "annotated_items": entry.n_annotated,
        "annotators": entry.n_annotators,
        "annotations": entry.n_annotations,
        "items_with_truth": entry.n_gold,
        "classes": list(entry.classes),
        "splits": dict(entry.splits),
        "label_accuracy_per_cent": entry.label_accuracy,
        "annotator_accuracy_per_cent": entry.annotator_accuracy,
        "majority_vote_per_cent": entry.majority_vote,
        "features": list(entry.features),
        "has": ", ".join(name for name, there in has.items() if there) or "labels only",
        "remarks": entry.remarks,
        "licence": entry.licence,
        "citation": entry.citation,
        "origin": entry.origin,
        "where": place_of(entry),
    }


def place_of(entry: DatasetEntry) -> str:
    """Where the data set is on this computer, or how to get it."""
    from crowdprism.datasets.dataset import files_in_cache, files_in_data_folder

    if entry.kind == "embedded":
        return "built in"
    try:
        found = files_in_data_folder(entry) or files_in_cache(entry)
    except MissingDatasetError:
        return INCOMPLETE
    if found is not None:
        return str(found)
    return CAN_BE_FETCHED if entry.can_be_fetched else NOT_HERE


def check_files(entry: DatasetEntry) -> str:
    from crowdprism.datasets.dataset import damaged_files, files_in_data_folder

    folder = None if entry.kind == "embedded" else files_in_data_folder(entry)
    if folder is None:
        return "no files in a data folder to check"
    damaged = damaged_files(entry, folder)
    return f"differ from the catalogue: {', '.join(damaged)}" if damaged else f"all {len(entry.files)} files match"


def readable(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
