"""Study: GeoCrowdNet on human labels under both protocols; writes docs/results/geocrowdnet.md.

    CROWDPRISM_DATA=... python benchmarks/geocrowdnet_study.py [--processes 2] [--report-only]

Every fit is one line of results/geocrowdnet.jsonl, so an interrupted study goes on where it stopped. Five seeds. Two
protocols, never mixed: `clean` chooses epoch and grid point by true labels of validation items, `none` sees no true
label at all and takes the last epoch.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product
from typing import Any

import numpy as np

from crowdprism.files import replacing_file
from crowdprism.results.fit_result import installed_versions
from measured import RESULTS, machine
from resumable import Job, Row, measure

PAGE = RESULTS.parent.parent / "docs" / "results" / "geocrowdnet.md"
SEEDS = range(5)
N_FOLDS = 5
PAPER_GRID = [{"learning_rate": r, "strength": s} for r, s in product((0.01, 0.001), (1e-2, 1e-3, 1e-4))]
STRONG_F = {
    "regularizer": "F",
    "loss": "ccem",
    "strength": 0.1,
    "epochs": 60,
    "warm_start": 1 / 6,
    "weight_decay": 1e-2,
}
AUTO = {
    "regularizer": "F",
    "strength": 0.1,
    "evidence_temper": 1.0,
    "weight_decay": "auto",
    "input_noise": "auto",
    "n_heads": 5,
}
PLAIN = {"standardize": True, "input_noise": 0.0, "temperature": 1.0}  # what a row does not leave to the data
PAPER = {"mode": "paper", "schedule": "none", "epochs": 100, "batch_size": 100, "network": "music"}

# Section -> (data set, protocol, target in %, settings; several settings are a grid that clean labels choose from).
ROWS: dict[str, tuple[str, str, float | None, list[dict[str, Any]]]] = {
    "LabelMe, F 0.1 after 10 of 60 epochs": ("labelme", "clean", 87.0, [STRONG_F]),
    "LabelMe, F 0.1 after 10 of 60 epochs, last": ("labelme", "none", 86.0, [STRONG_F]),
    "LabelMe, defaults": ("labelme", "none", None, [{"regularizer": "F"}]),
    "LabelMe, no regulariser": ("labelme", "none", None, [{"regularizer": None}]),
    "LabelMe, W": ("labelme", "none", None, [{"regularizer": "W"}]),
    "LabelMe, auto settings, five heads": ("labelme", "none", 88.5, [AUTO]),
    "Music, F as published": ("music", "clean", 67.1, [{**PAPER, "regularizer": "F", **g} for g in PAPER_GRID]),
    "Music, W as published": ("music", "clean", 66.5, [{**PAPER, "regularizer": "W", **g} for g in PAPER_GRID]),
    "Music, no regulariser as published": (
        "music", "clean", 65.9, [{**PAPER, "regularizer": None, "learning_rate": rate} for rate in (0.01, 0.001)]
    ),
    "Music, defaults": ("music", "none", 70.0, [{"regularizer": "F"}]),
    "Music, no regulariser": ("music", "none", None, [{"regularizer": None}]),
    "Music, W": ("music", "none", None, [{"regularizer": "W"}]),
    "Music, auto settings, five heads": ("music", "none", 73.5, [AUTO]),
    "movie_reviews, no regulariser": ("movie_reviews", "none", None, [{"regularizer": None}]),
    "movie_reviews, F": ("movie_reviews", "none", None, [{"regularizer": "F"}]),
    "movie_reviews, regularizer='auto'": ("movie_reviews", "none", None, [{"regularizer": "auto"}]),
}  # fmt: skip


def jobs() -> list[Job]:
    """Every fit, seed by seed; for movie_reviews a seed is a fold."""
    return [
        {"row": row, "seed": seed, "settings": settings}
        for seed in SEEDS
        for row, (_, _, _, grid) in ROWS.items()
        for settings in grid
    ]


def run(job: Job) -> Row:
    """Fit once and measure on the test items and on the annotated ones."""
    import torch

    from crowdprism import load_dataset, make_aggregator
    from crowdprism.classifiers import GeoCrowdNet

    torch.set_num_threads(1)
    dataset, protocol, _, _ = ROWS[job["row"]]
    data = split(load_dataset(dataset), protocol, job["seed"])
    settings = PLAIN | job["settings"] | ({"selection": "clean"} if protocol == "clean" else {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = time.perf_counter()
        model = GeoCrowdNet(random_state=job["seed"], **settings)
        model.fit(data["X"], data["y"], **data["validation"])
        seconds = time.perf_counter() - begun
    truth = data["gold"]
    own = model.predict_proba(data["X"]).argmax(axis=1)
    aggregated = make_aggregator("dawid-skene").fit(data["y"]).result_
    best = model.histories_[0].get("validation")
    return {
        "job": job,
        "test": percent(model.predict_proba(data["X_test"]).argmax(axis=1) == data["gold_test"]),
        "valid": None if best is None else round(100 * max(best), 2),
        "posterior": percent(model.result_.class_probabilities.argmax(axis=1) == truth),
        "classifier": percent(own == truth),
        "dawid_skene": percent(aggregated.class_probabilities.argmax(axis=1) == truth),
        "imbalance_warning": any("imbalanced" in str(warning.message) for warning in caught),
        "chosen": model.chosen_settings_,
        "seconds": round(seconds, 1),
    }


def percent(right: Any) -> float:
    """Share of true entries in %."""
    return round(100 * float(np.mean(right)), 2)


def split(data: Any, protocol: str, seed: int) -> dict[str, Any]:
    """Training, validation and test parts of a data set; movie_reviews has no split and is cut into folds."""
    if data.name == "movie_reviews":
        items = np.asarray(data.feature_items)
        order = np.random.default_rng(0).permutation(len(items))
        fold = np.arange(len(items)) % N_FOLDS == seed
        train, test = np.sort(order[~fold]), np.sort(order[fold])
        annotations = data.annotations[items]
        gold = np.asarray(annotations.gold)
        X = np.asarray(data.features, dtype=np.float32)
        return {
            "X": X[train], "y": annotations[train].with_gold(None), "gold": gold[train],
            "X_test": X[test], "gold_test": gold[test], "validation": {},
        }  # fmt: skip
    features = "vgg16_avg" if data.name == "labelme" else None
    train, test = (data.part(name, features=features) for name in ("train", "test"))
    X, y, gold = train.features, train.annotations, np.asarray(train.gold)
    validation: dict[str, Any] = {}
    if protocol == "clean" and data.name == "labelme":
        valid = data.part("valid", features=features)
        validation = {"X_valid": valid.features, "y_valid": y.classes[np.asarray(valid.gold)]}
    elif protocol == "clean":
        order = np.random.default_rng(seed).permutation(len(X))
        kept, held = np.sort(order[:595]), np.sort(order[595:])
        validation = {"X_valid": X[held], "y_valid": y.classes[gold[held]]}
        X, y, gold = X[kept], y[kept], gold[kept]
    test_part = {"X_test": test.features, "gold_test": np.asarray(test.gold)}
    return {"X": X, "y": y.with_gold(None), "gold": gold, "validation": validation, **test_part}


def selected(rows: list[Row], name: str) -> list[Row]:
    """Of each seed the row that validation chose (the last among equals, as published); all seeds must be complete."""
    grid = ROWS[name][3]
    chosen = []
    for seed in SEEDS:
        points = [row for row in rows if row["job"]["row"] == name and row["job"]["seed"] == seed]
        if len(points) == len(grid):
            chosen.append(max(reversed(points), key=lambda row: row["valid"] or 0.0))
    return chosen


def cell(values: list[float]) -> str:
    """Mean and population standard deviation."""
    return f"{np.mean(values):.1f} ± {np.std(values):.1f}"


def page(rows: list[Row]) -> str:
    """The whole page."""
    versions = installed_versions()
    lines = [
        "# GeoCrowdNet on human labels",
        "",
        "Test accuracy in %, mean ± population standard deviation over five seeds (movie_reviews: five folds). "
        f"Written by `benchmarks/geocrowdnet_study.py` on {machine()['processor']}, Python {versions['python']}, "
        f"torch {versions['torch']}; one thread per fit.",
        "",
        "LabelMe has VGG-16 features averaged over positions; the published number uses features by position of "
        "augmented images, so the two are not directly comparable. *clean*: epoch and grid point are chosen by true "
        "labels of validation items (LabelMe 500; Music 105 of 700, drawn anew per seed). *none*: no true label is "
        "seen, last epoch.",
        "",
        "| setting | labels seen | test | target | label posterior | classifier alone | Dawid-Skene | s per fit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (_, protocol, target, _) in ROWS.items():
        chosen = selected(rows, name)
        if not chosen:
            lines.append(f"| {name} | {protocol} | not measured | {target or '-'} | | | | |")
            continue
        columns = {part: [row[part] for row in chosen] for part in ("test", "posterior", "classifier", "dawid_skene")}
        seconds = np.median([row["seconds"] for row in chosen])
        short = "" if len(chosen) == len(SEEDS) else f" ({len(chosen)} seeds)"
        lines.append(
            f"| {name} | {protocol} | {cell(columns['test'])}{short} | {target or '-'} | {cell(columns['posterior'])} "
            f"| {cell(columns['classifier'])} | {cell(columns['dawid_skene'])} | {seconds:.1f} |"
        )
    warned = [row["imbalance_warning"] for row in rows if row["job"]["row"] == "movie_reviews, F"]
    lines += [
        "",
        "Label posterior, classifier alone and Dawid-Skene: share of the annotated training items whose label is "
        "right, by features and annotations together, by features alone, and by annotations alone.",
        "",
        "movie_reviews is imbalanced by its gold labels (7, 35 and 58 %), less so by what annotators say. The warning "
        f"that F draws predictions towards balance was given in {sum(warned)} of {len(warned)} fits.",
        "",
        "Settings chosen by held-out annotations: "
        + "; ".join(
            f"{row['job']['row'].split(',')[0]} seed {row['job']['seed']}: "
            + ", ".join(f"{name} {value:g}" for name, value in row["chosen"].items())
            for row in rows
            if row["chosen"]
        )
        + ".",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--report-only", action="store_true", help="write the page from the rows that are there")
    options = parser.parse_args()
    planned = jobs()
    rows = measure(
        [] if options.report_only else planned, run, RESULTS / "geocrowdnet.jsonl", processes=options.processes
    )
    if options.report_only:
        from resumable import key_of, read_rows

        found = read_rows(RESULTS / "geocrowdnet.jsonl")
        rows = [found[key_of(job)] for job in planned if key_of(job) in found]
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(PAGE) as fresh:
        fresh.write_text(page(rows), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
