"""`crowdprism diagnose`: can the result be trusted, which annotators, which items?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdprism.cli.aggregate import DEFAULT_METHOD
from crowdprism.cli.reading_options import (
    AnnotatorColumn,
    AsJson,
    Files,
    Format,
    GoldColumn,
    ItemColumn,
    LabelColumn,
    Reading,
    read,
)

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations
    from crowdprism.diagnostics.annotator_accounts import AnnotatorReport
    from crowdprism.diagnostics.findings import Findings
    from crowdprism.diagnostics.item_accounts import ItemReport
    from crowdprism.results import FitResult

Run = Annotated[
    Path | None, typer.Option("--run", "-r", help="Folder of a result fitted on these annotations; else --method.")
]
Method = Annotated[
    str, typer.Option("--method", "-m", help="Method to fit where no --run is given; `aggregate -m list` names them.")
]
N_SHOWN = 10
SURE_COLUMNS = ("annotator", "kind", "annotations", "accuracy", "low", "high", "over-used label")


def diagnose(
    files: Files,
    run: Run = None,
    method: Method = DEFAULT_METHOD,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for findings.csv, annotators.csv and items.csv.")
    ] = None,
    format: Format = "auto",
    item: ItemColumn = None,
    annotator: AnnotatorColumn = None,
    label: LabelColumn = None,
    gold: GoldColumn = None,
    reading: Reading = None,
    json: AsJson = False,
) -> None:
    """Tell whether a result can be trusted, and which annotators and items to look at.

    Example: `crowdprism diagnose labels.csv --run run/`
    """
    from crowdprism.cli.screen import remark, show_json
    from crowdprism.diagnostics.annotator_accounts import annotator_report
    from crowdprism.diagnostics.identifiability import examine
    from crowdprism.diagnostics.item_accounts import item_report

    annotations = read(files, format, item=item, annotator=annotator, label=label, gold=gold, reading=reading)
    result, annotations = fitted(annotations, run, method)
    findings = examine(result, annotations)
    people, items = annotator_report(result, annotations), item_report(result, annotations)
    if output is not None:
        write_diagnosis(output, findings, people, items)
    if json:
        show_json(record_of(result, findings, people, items, annotations))
    else:
        tell(result, findings, people, items, annotations)
    if output is not None:
        remark(f"wrote findings.csv, annotators.csv and items.csv to {output}")


def fitted(annotations: Annotations, run: Path | None, method: str) -> tuple[FitResult, Annotations]:
    """The saved result with the annotations in its order of names, or a fresh fit."""
    from crowdprism.aggregators import make_aggregator
    from crowdprism.results import FitResult

    if run is None:
        return make_aggregator(method).fit(annotations).result_, annotations
    result = FitResult.load(run)
    return result, in_order_of(result, annotations)


def in_order_of(result: FitResult, annotations: Annotations) -> Annotations:
    """The same annotations with items, annotators and classes in the result's order; unknown names are an error."""
    import numpy as np

    from crowdprism.annotations.container import EXTRAS, Annotations

    gold = None
    if annotations.gold is not None:
        known = np.flatnonzero(~np.ma.getmaskarray(annotations.gold))
        codes = np.asarray(np.ma.getdata(annotations.gold))[known]
        gold = dict(zip(annotations.items[known].tolist(), annotations.classes[codes].tolist(), strict=True))
    return Annotations.from_triplets(
        annotations.items[annotations.item],
        annotations.annotators[annotations.annotator],
        annotations.classes[annotations.label],
        classes=result.classes.tolist(),
        item_names=result.items.tolist(),
        annotator_names=result.annotators.tolist(),
        gold=gold,
        **{name: getattr(annotations, name) for name in EXTRAS},
    )


def suspects(people: AnnotatorReport) -> list[int]:
    """Positions of careless and adverse annotators, the surest first."""
    import numpy as np

    odd = np.flatnonzero((people.kind == "careless") | (people.kind == "adverse"))
    return [int(place) for place in odd[np.argsort(people.quality[odd], kind="stable")]]


def tell(
    result: FitResult, findings: Findings, people: AnnotatorReport, items: ItemReport, annotations: Annotations
) -> None:
    """Print findings, annotators to look at, gold that is probably wrong, and suspected copies."""
    from crowdprism.cli.screen import console, show_table
    from crowdprism.diagnostics.calibration import calibration_of
    from crowdprism.diagnostics.copying import copying

    console().print(str(findings), markup=False)
    rows = [person_row(people, place) for place in suspects(people)]
    show_table(f"Careless and adverse annotators: {len(rows)} of {result.n_annotators}", SURE_COLUMNS, rows[:N_SHOWN])
    wrong = gold_rows(items, annotations)
    if annotations.gold is not None and annotations.gold.count():
        console().print(f"Against gold: {calibration_of(result, annotations)}.", markup=False)
        title = f"Gold that is probably wrong: {len(wrong)} items"
        show_table(title, ("item", "gold", "found", "probability that gold is right"), wrong[:N_SHOWN])
    copies = copying(annotations)
    if len(copies.z):
        show_table(
            f"Pairs that agree beyond what their confusions explain: {len(copies.z)}",
            ("first", "second", "shared items", "agreements", "expected", "z"),
            [
                (result.annotators[a], result.annotators[b], int(n), int(seen), float(expected), float(z))
                for a, b, n, seen, expected, z in list(
                    zip(
                        copies.first,
                        copies.second,
                        copies.common,
                        copies.agreements,
                        copies.expected,
                        copies.z,
                        strict=True,
                    )
                )[:N_SHOWN]
            ],
        )


def person_row(people: AnnotatorReport, place: int) -> tuple[Any, ...]:
    """One row of the table of annotators."""
    return (
        people.annotators[place],
        people.kind[place],
        int(people.n_labels[place]),
        float(people.quality[place]),
        float(people.quality_low[place]),
        float(people.quality_high[place]),
        people.classes[people.overused[place]] if people.overuse_z[place] > 3 else None,
    )


def gold_rows(items: ItemReport, annotations: Annotations) -> list[tuple[Any, ...]]:
    """Items whose gold is probably wrong, the least probable first."""
    import numpy as np

    if annotations.gold is None:
        return []
    wrong = np.flatnonzero(items.likely_mislabelled)
    wrong = wrong[np.argsort(items.gold_probability[wrong], kind="stable")]
    return [
        (
            items.items[place],
            items.classes[annotations.gold[place]],
            items.classes[items.label[place]],
            float(items.gold_probability[place]),
        )
        for place in wrong
    ]


def record_of(
    result: FitResult, findings: Findings, people: AnnotatorReport, items: ItemReport, annotations: Annotations
) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "method": result.method,
        "verdict": findings.verdict,
        "findings": findings.to_records(),
        "suspects": [dict(zip(SURE_COLUMNS, person_row(people, place), strict=True)) for place in suspects(people)],
        "wrong_gold": [
            dict(zip(("item", "gold", "found", "probability"), row, strict=True))
            for row in gold_rows(items, annotations)
        ],
    }


def write_diagnosis(folder: Path, findings: Findings, people: AnnotatorReport, items: ItemReport) -> None:
    """Write three tables; an earlier diagnosis there is replaced in one step."""
    from crowdprism.cli.run_folder import write_table
    from crowdprism.errors import InvalidParameterError
    from crowdprism.files import replacing_folder

    taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if taken and not (folder / "findings.csv").exists():
        raise InvalidParameterError(f"{folder} exists and is not a diagnosis of crowdprism; choose another folder.")
    with replacing_folder(folder) as fresh:
        for name, table in (("findings", findings), ("annotators", people), ("items", items)):
            frame = table.to_frame()
            with (fresh / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                write_table(
                    file, frame.columns, ([blank_if_unknown(cell) for cell in row] for row in frame.iter_rows())
                )


def blank_if_unknown(cell: Any) -> Any:
    """Unknown numbers become empty cells; six digits are more than the others mean."""
    if isinstance(cell, float):
        return "" if cell != cell else round(cell, 6)
    return "" if cell is None else cell
