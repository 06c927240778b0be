"""Study: every aggregator on fifteen public sets with gold, beside crowd-kit; writes docs/results/truth_inference.md.

    python benchmarks/truth_inference.py --peer /path/to/python-with-crowd-kit [--seconds 120]

The sets are read from the folder `truth_inference` of CROWDPRISM_DATA. crowd-kit may need other versions of packages
than this project, so it runs in its own Python, named by `--peer` or CROWDPRISM_PEER_PYTHON; without one, its
figures stay those of the last run that had one. All figures are kept in benchmarks/results/truth_inference.json;
`--page-only` writes the page from them again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "truth_inference.json"
PAGE = HERE.parent / "docs" / "results" / "truth_inference.md"
DIGITS = 10  # probabilities that agree to so many digits are tied
CLOSE = 0.3  # points; a larger difference from crowd-kit under the same settings is explained
SEED = 0
RATINGS = "adult"  # the set whose classes are steps of one scale, from harmless to explicit
PEER_BYTES = 5 * 1024**3  # crowd-kit may not take more memory than that


@dataclass(frozen=True)
class Twin:
    """A method of crowd-kit, the parameters with which ours does the same, and the rule that still sets them apart."""

    theirs: str
    method: str
    params: dict[str, Any] = field(default_factory=dict)
    their_params: dict[str, Any] = field(default_factory=dict)
    same_iterations: bool = False  # as many EM iterations as crowd-kit made before it stopped
    in_order: bool = False  # annotators and labels are renamed to their order of appearance first
    rule: str = ""  # what crowd-kit does differently; `under_rule` takes it into our steps
    note: str = ""

    @property
    def label(self) -> str:
        """What the pair is called."""
        return f"{self.theirs} (names in order)" if self.in_order else self.theirs


MACE_SETTINGS = {"habit_prior": 10.0, "tolerance": 0.0}
TWINS = [
    Twin("MajorityVote", "majority-vote", {"dependence": None}, note="Ties are split on both sides."),
    Twin(
        "Wawa",
        "weighted-vote",
        {"ties": "lowest", "dependence": None},
        note="By default ours counts tied answers by equal parts; crowd-kit takes the lowest label.",
    ),
    Twin(
        "ZeroBasedSkill",
        "weighted-vote",
        {"iterations": 100, "tolerance": 0.0, "ties": "lowest", "dependence": None},
        note="As for Wawa.",
    ),
    Twin(
        "DawidSkene",
        "dawid-skene",
        {"prior_strength": 0.0, "prior": "crowd", "dependence": None, "tolerance": 0.0},
        {"n_iter": 100},
        same_iterations=True,
        rule="Counts below 1e-10 are raised to it, so that a confusion row without any count is even over the labels "
        "that the annotator used; ours is even over all classes.",
        note="As many iterations as crowd-kit makes, which stops when its bound falls: after two on five sets.",
    ),
    Twin(
        "OneCoinDawidSkene",
        "one-coin",
        {"prior_strength": 0.0, "class_prior": "estimate", "tolerance": 0.0},
        {"n_iter": 100},
        same_iterations=True,
        note="As many iterations as crowd-kit makes. On bluebird the estimated class prior misleads both; our default "
        "keeps it uniform.",
    ),
    Twin("KOS", "kos", {"start": "normal"}, note="crowd-kit takes two classes only."),
    Twin(
        "MMSR",
        "mmsr",
        rule="Who is against the majority is told from the bare signs of agreements, and a pair without a shared item "
        "counts as disagreeing; where someone has fewer than two partners, only the largest ratio of each annotator is "
        "kept, and zero is raised; votes are divided by their sum, which turns the answer around where it is negative.",
    ),
    Twin(
        "MACE",
        "mace",
        MACE_SETTINGS,
        rule="The habits are sorted by name but read in order of appearance, so that annotators and labels get each "
        "other's; all restarts are one and the same random start.",
    ),
    Twin(
        "MACE",
        "mace",
        MACE_SETTINGS,
        {"n_restarts": 1},
        in_order=True,
        rule="One random start; ours begins with the vote, and takes the best of ten.",
        note="Annotators, items and labels are renamed to their order of appearance for crowd-kit, which hides the "
        "mistake of the row above.",
    ),
    Twin(
        "GLAD",
        "glad",
        rule="The M step ends after 25 steps of conjugate gradients or at a loose tolerance, and EM where the expected "
        "log joint falls, which on relevance is early, and there early is better.",
    ),
]


# -- measuring ----------------------------------------------------------------------------------------------


def split_accuracy(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Share of right items; where classes tie for the highest probability, each counts by an equal part."""
    rounded = np.round(probabilities, DIGITS)
    best = rounded == rounded.max(axis=1, keepdims=True)
    known = truth >= 0  # a true class that no annotator ever gave cannot be found
    right = np.where(known, best[np.arange(len(truth)), np.maximum(truth, 0)], False)
    return float((right / best.sum(axis=1)).mean())


def read(folder: Path) -> tuple[Any, np.ndarray, np.ndarray]:
    """Annotations, positions of the items with gold, and their true class codes."""
    import polars as pl

    from crowdprism.annotations import Annotations
    from crowdprism.annotations.names import positions

    rows = pl.read_csv(folder / "annotations.csv.gz")
    gold = pl.read_csv(folder / "gold.csv.gz")
    annotations = Annotations.from_triplets(*(rows[name].to_numpy() for name in ("item", "annotator", "label")))
    place = positions(annotations.items, gold["item"].to_list())
    truth = positions(annotations.classes, gold["label"].to_list())
    return annotations, place, truth


def ours(method: str, params: dict[str, Any], annotations: Any, place: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Accuracy and seconds of one fit, or why the method refused."""
    from crowdprism.aggregators import make_aggregator
    from crowdprism.errors import UnsuitableDataError

    begun = time.process_time()
    try:
        result = make_aggregator(method, **params).fit(annotations).result_
    except UnsuitableDataError as refusal:
        return {"refused": str(refusal)}
    seconds = time.process_time() - begun
    accuracy = split_accuracy(result.class_probabilities[place], truth)
    return {"seconds": seconds, "accuracy": accuracy, "warnings": list(result.warnings)}


def measure_ours(data: Path, sets: list[str]) -> dict[str, Any]:
    """Every method of the registry at its defaults on every set."""
    from crowdprism.aggregators import AGGREGATORS

    found: dict[str, Any] = {name: {} for name in AGGREGATORS}
    shapes: dict[str, Any] = {}
    for name in sets:
        annotations, place, truth = read(data / name)
        shapes[name] = {
            "items": annotations.n_items,
            "annotators": annotations.n_annotators,
            "classes": annotations.n_classes,
            "annotations": annotations.n_annotations,
            "gold": len(truth),
        }
        for method in AGGREGATORS:
            if not found[method]:
                ours(method, {}, annotations, place, truth)  # loads what the method needs; not counted
            found[method][name] = ours(method, {}, annotations, place, truth)
            print(f"{name} {method} {found[method][name].get('accuracy', 'refused')}", flush=True)
    return {"sets": shapes, "ours": found, "ours_versions": versions(("crowdprism", "numpy", "scipy"))}


def measure_ordered(data: Path) -> dict[str, Any]:
    """Methods for ordered classes on the set of ratings."""
    from crowdprism.aggregators import ORDERED

    return {"ordered": {method: ours(method, {}, *read(data / RATINGS)) for method in ORDERED}}


def appearance(folder: Path, annotations: Any) -> Any:
    """In which order the rows of a set first name annotators and classes."""
    import polars as pl

    import peer_rules
    from crowdprism.annotations.names import positions

    rows = pl.read_csv(folder / "annotations.csv.gz")

    def places(names: Any, column: str) -> np.ndarray:
        seen = rows[column].unique(maintain_order=True).to_list()
        place = np.empty(len(names), dtype=np.int64)
        place[positions(names, seen)] = np.arange(len(seen))
        return place

    return peer_rules.Appearance(places(annotations.annotators, "annotator"), places(annotations.classes, "label"))


def under_rule(twin: Twin, annotations: Any, seen: Any, theirs: dict[str, Any]) -> np.ndarray:
    """Class probabilities of our steps with crowd-kit's rule."""
    import peer_rules

    if twin.theirs == "DawidSkene":
        return peer_rules.dawid_skene(annotations, iterations=theirs["iterations"])
    if twin.theirs == "GLAD":
        return peer_rules.glad_probabilities(annotations)
    if twin.theirs == "MMSR":
        return peer_rules.mmsr_probabilities(annotations, seen)
    return peer_rules.mace_probabilities(annotations, seen, mix=not twin.in_order)


def measure_twins(data: Path, sets: list[str], peer: dict[str, Any]) -> dict[str, Any]:
    """Our methods with crowd-kit's settings, where crowd-kit has a result, and under its rule where it has one."""
    found: dict[str, Any] = {twin.label: {} for twin in TWINS}
    for name in sets:
        annotations, place, truth = read(data / name)
        for twin in TWINS:
            theirs = peer.get(twin.label, {}).get(name, {})
            if "accuracy" not in theirs:
                continue
            params = dict(twin.params)
            if twin.same_iterations:  # ours ends with one more E step than M steps, crowd-kit with as many
                params["max_iter"] = max(theirs["iterations"] - 1, 1)
            one = ours(twin.method, params, annotations, place, truth)
            if twin.rule:
                probabilities = under_rule(twin, annotations, appearance(data / name, annotations), theirs)
                one["under_rule"] = split_accuracy(probabilities[place], truth)
            found[twin.label][name] = one
            print(f"{name} like {twin.label} {one} theirs {theirs['accuracy']}", flush=True)
    return {"twins": found}


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Installed versions of Python and packages."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """The processor's name and the number of cores."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = models[0].split(":", 1)[1].strip() if models else name
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


# -- crowd-kit, in its own Python ---------------------------------------------------------------------------


class OutOfTimeError(Exception):
    """The time allowed for one fit is over."""


def stop(signum: int, frame: Any) -> None:
    """Called by the alarm clock."""
    raise OutOfTimeError


def peer_fit(twin: Twin, answers: Any, gold: Any, seconds: int) -> dict[str, Any]:
    """Accuracy of crowd-kit's labels as given and with ties split, and seconds; or why there is none."""
    from crowdkit import aggregation

    method = getattr(aggregation, twin.theirs)(**twin.their_params)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    begun = time.process_time()
    try:
        labels = method.fit_predict(answers)
        taken = time.process_time() - begun
    except OutOfTimeError:
        return {"failed": f"not done after {seconds} s of the processor"}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error)[:120]}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    found: dict[str, Any] = {"seconds": taken, "accuracy": float((labels.reindex(gold.index) == gold).mean())}
    probabilities = getattr(method, "probas_", None)
    if probabilities is not None:
        rows = probabilities.reindex(gold.index).fillna(0.0)
        found["split_accuracy"] = split_accuracy(rows.to_numpy(), rows.columns.get_indexer(gold))
    if twin.same_iterations:
        found["iterations"] = len(method.loss_history_)
    return found


def peer_data(folder: Path, *, in_order: bool) -> tuple[Any, Any]:
    """Answers and gold as crowd-kit wants them; `in_order` renames everything to its order of appearance."""
    import pandas as pd

    answers = pd.read_csv(folder / "annotations.csv.gz")
    answers = answers.rename(columns={"item": "task", "annotator": "worker"})[["task", "worker", "label"]]
    gold = pd.read_csv(folder / "gold.csv.gz").set_index("item")["label"]
    if in_order:
        answers["worker"] = pd.factorize(answers["worker"])[0]
        answers["label"], labels = pd.factorize(answers["label"])
        answers["task"], tasks = pd.factorize(answers["task"])
        gold = pd.Series(labels.get_indexer(gold), index=tasks.get_indexer(gold.index))
    return answers, gold


def peer_worker(data: Path, cells: list[str], seconds: int) -> None:
    """Print one JSON line per cell, each a method of crowd-kit and a set."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_AS, (PEER_BYTES, PEER_BYTES))
    print(json.dumps({"versions": versions(("crowd-kit", "numpy", "pandas", "scikit-learn"))}), flush=True)
    by_label = {twin.label: twin for twin in TWINS}
    for cell in cells:
        label, name = cell.split("/")
        answers, gold = peer_data(data / name, in_order=by_label[label].in_order)
        found = peer_fit(by_label[label], answers, gold, seconds)
        print(json.dumps({"set": name, "method": label, **found}), flush=True)


def measure_peer(python: str, data: Path, cells: list[str], seconds: int, figures: dict[str, Any]) -> None:
    """Run cells of crowd-kit in its own Python; each figure is kept as soon as it is there."""
    command = [
        python,
        str(Path(__file__).resolve()),
        "--worker",
        "--data",
        str(data),
        "--seconds",
        str(seconds),
        *cells,
    ]
    figures["peer_seconds_allowed"] = seconds
    peer = figures.setdefault("peer", {})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            print(f"crowd-kit {line.strip()}", flush=True)
            record = json.loads(line)
            if "versions" in record:
                figures["peer_versions"] = record["versions"]
            else:
                peer.setdefault(record.pop("method"), {})[record.pop("set")] = record
                keep(RESULTS, json.dumps(figures, indent=1) + "\n")
    if worker.returncode:
        sys.exit(f"crowd-kit's Python {python} ended with code {worker.returncode}.")


def main() -> None:
    """Measure, keep the figures, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=os.environ.get("CROWDPRISM_PEER_PYTHON"), help="Python that has crowd-kit")
    parser.add_argument("--data", type=Path, help="folder with the sets; by default CROWDPRISM_DATA/truth_inference")
    parser.add_argument("--seconds", type=int, default=120, help="time allowed for one fit of crowd-kit")
    parser.add_argument("--methods", help="only these methods of crowd-kit, with commas; others keep their figures")
    parser.add_argument("--keep-ours", action="store_true", help="keep the figures of our methods at their defaults")
    parser.add_argument("--missing", action="store_true", help="of crowd-kit only what has no result yet")
    parser.add_argument("--page-only", action="store_true", help="write the page from the figures kept")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("sets", nargs="*", help="only these sets (the page is then of these only)")
    options = parser.parse_args()
    if options.page_only:
        write_page(json.loads(RESULTS.read_text(encoding="utf-8")))
        return
    data = options.data or Path(os.environ["CROWDPRISM_DATA"]) / "truth_inference"
    sets = options.sets or sorted(folder.name for folder in data.iterdir() if (folder / "gold.csv.gz").exists())
    labels = options.methods.split(",") if options.methods else [twin.label for twin in TWINS]
    if options.worker:
        peer_worker(data, options.sets, options.seconds)
        return
    warnings.simplefilter("ignore")
    figures: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if not options.keep_ours:
        figures |= measure_ours(data, sets) | {"machine": machine()}
    if options.peer:
        known = figures.get("peer", {}) if options.missing else {}
        cells = [f"{label}/{name}" for label in labels for name in sets]
        cells = [cell for cell in cells if "accuracy" not in at(known, *cell.split("/"))]
        measure_peer(options.peer, data, cells, options.seconds, figures)
    figures |= measure_ordered(data) | measure_twins(data, sets, figures.get("peer", {}))
    keep(RESULTS, json.dumps(figures, indent=1) + "\n")
    write_page(figures)


def at(figures: dict[str, Any], label: str, name: str) -> dict[str, Any]:
    """What is known of a cell."""
    return dict(figures.get(label, {}).get(name, {}))


def keep(path: Path, text: str) -> None:
    """Write a file under a temporary name, then put it in place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


# -- the page -----------------------------------------------------------------------------------------------


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table; all columns but the first are numbers."""
    line = "|".join(["---", *["---:"] * (len(header) - 1)])
    return [f"| {' | '.join(header)} |", f"|{line}|", *(f"| {' | '.join(row)} |" for row in rows), ""]


def stand_in(figures: dict[str, Any], method: str) -> list[float]:
    """Accuracy per set in points; where a method refuses a set, that of majority vote."""
    votes = figures["ours"]["majority-vote"]
    return [100 * figures["ours"][method][name].get("accuracy", votes[name]["accuracy"]) for name in figures["sets"]]


def accuracy_table(figures: dict[str, Any]) -> list[str]:
    """Our methods, best mean first."""
    sets = list(figures["sets"])
    ranked = sorted(figures["ours"], key=lambda method: -float(np.mean(stand_in(figures, method))))
    rows = []
    for method in ranked:
        cells = [
            f"{100 * found['accuracy']:.1f}" if "accuracy" in found else "refused"
            for found in (figures["ours"][method][name] for name in sets)
        ]
        rows.append([method, f"**{np.mean(stand_in(figures, method)):.2f}**", *cells])
    return table(["method", "mean", *(name.replace("_", " ") for name in sets)], rows)


def peer_accuracy(found: dict[str, Any]) -> float:
    """crowd-kit's accuracy in points under the same tie rule where it gives probabilities, else of its labels."""
    return 100 * float(found.get("split_accuracy", found["accuracy"]))


def peer_table(figures: dict[str, Any]) -> list[str]:
    """crowd-kit's methods at the settings compared."""
    sets = list(figures["sets"])
    rows = []
    for label, by_set in figures["peer"].items():
        found = [by_set.get(name, {}) for name in sets]
        cells = [f"{peer_accuracy(one):.1f}" if "accuracy" in one else "-" for one in found]
        done = [peer_accuracy(one) for one in found if "accuracy" in one]
        mean = f"{np.mean(done):.2f}" if len(done) == len(sets) else f"{np.mean(done):.2f} ({len(done)} sets)"
        rows.append([label, mean if done else "-", *cells])
    return table(["crowd-kit", "mean", *(name.replace("_", " ") for name in sets)], rows)


def differences(figures: dict[str, Any], twin: Twin, *, ruled: bool) -> dict[str, float]:
    """Ours minus crowd-kit's in points, by set; `ruled` takes ours under crowd-kit's rule where there is one."""
    key = "under_rule" if ruled and twin.rule else "accuracy"
    return {
        name: 100 * mine[key] - peer_accuracy(figures["peer"][twin.label][name])
        for name, mine in figures["twins"].get(twin.label, {}).items()
        if key in mine
    }


def twin_rows(figures: dict[str, Any]) -> list[list[str]]:
    """One row per method of crowd-kit: how many sets agree, by itself and under its rule, and what the rule is."""
    rows = []
    for twin in TWINS:
        plain, ruled = (differences(figures, twin, ruled=way) for way in (False, True))
        apart = ", ".join(f"{name} {gap:+.1f}" for name, gap in plain.items() if abs(gap) > CLOSE)
        settings = ", ".join(f"{key}={value!r}" for key, value in twin.params.items())
        rows.append(
            [
                twin.label,
                f"`{twin.method}`" + (f" ({settings})" if settings else ""),
                f"{sum(abs(gap) <= CLOSE for gap in plain.values())} of {len(plain)}",
                apart or "none",
                f"{sum(abs(gap) <= CLOSE for gap in ruled.values())} of {len(ruled)}" if twin.rule else "-",
                " ".join(filter(None, [twin.rule, twin.note])),
            ]
        )
    return rows


def difference_table(figures: dict[str, Any]) -> list[str]:
    """Ours minus crowd-kit's under the same settings and rules, in every cell that crowd-kit has."""
    sets = list(figures["sets"])
    rows = []
    for twin in TWINS:
        gaps = differences(figures, twin, ruled=True)
        rows.append(
            [twin.label, *(f"{gaps[name] + 0.0:.1f}".replace("-0.0", "0.0") if name in gaps else "-" for name in sets)]
        )
    return table(["same settings", *(name.replace("_", " ") for name in sets)], rows)


def peer_failures(figures: dict[str, Any]) -> list[str]:
    """Where crowd-kit gave no result, by reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for label, by_set in figures["peer"].items():
        for name, found in by_set.items():
            if "failed" in found:
                reasons.setdefault((label, found["failed"]), []).append(name)
    return [f"- {label}: {', '.join(names)}: {reason}" for (label, reason), names in reasons.items()]


def seconds_table(first: str, methods: dict[str, Any], sets: list[str]) -> list[str]:
    """Processor seconds per fit."""
    rows = []
    for method, by_set in methods.items():
        cells = [f"{by_set[name]['seconds']:.2f}" if "seconds" in by_set.get(name, {}) else "-" for name in sets]
        rows.append([method, *cells])
    return table([first, *(name.replace("_", " ") for name in sets)], rows)


def refusals(figures: dict[str, Any]) -> list[str]:
    """Each refused set with the method's own words."""
    return [
        f"- `{method}` on {name}: {found['refused']}"
        for method, by_set in figures["ours"].items()
        for name, found in by_set.items()
        if "refused" in found
    ]


def verdict(figures: dict[str, Any]) -> list[str]:
    """The best all-round default, and how it stands to majority vote and to crowd-kit's Dawid-Skene."""
    accepting = [m for m, by_set in figures["ours"].items() if all("accuracy" in found for found in by_set.values())]
    means = {method: float(np.mean(stand_in(figures, method))) for method in figures["ours"]}
    best = max(accepting, key=lambda method: means[method])
    seconds = max(found["seconds"] for found in figures["ours"][best].values())
    lines = [
        f"**Best all-round default: `{best}`.** Of the methods that accept every set it has the highest mean accuracy, "
        f"{means[best]:.2f} %; its slowest fit took {seconds:.1f} s of the processor. "
        "Methods with a higher mean that refuse some "
        f"sets (there the vote stands in): {', '.join(m for m in means if means[m] > means[best]) or 'none'}.",
        "",
        f"`dawid-skene` at its defaults: {means['dawid-skene']:.2f} %; majority vote: {means['majority-vote']:.2f} %.",
    ]
    theirs = figures.get("peer", {}).get("DawidSkene", {})
    done = [name for name in figures["sets"] if "accuracy" in theirs.get(name, {})]
    if done:
        mine = np.mean([100 * figures["ours"]["dawid-skene"][name]["accuracy"] for name in done])
        lines[-1] += (
            f" crowd-kit's DawidSkene on the {len(done)} sets it finished: "
            f"{np.mean([peer_accuracy(theirs[name]) for name in done]):.2f} %, `dawid-skene` on the same: {mine:.2f} %."
        )
    return lines


def near_best(figures: dict[str, Any]) -> int:
    """Number of methods whose mean lies within half a point of the best."""
    means = [float(np.mean(stand_in(figures, method))) for method in figures["ours"]]
    return sum(mean > max(means) - 0.5 for mean in means)


def write_page(figures: dict[str, Any]) -> None:
    """Put the figures on the page."""
    sets = list(figures["sets"])
    shapes = [[name, *(f"{value:,}" for value in figures["sets"][name].values())] for name in sets]

    votes, dawid_skene = (figures["ours"][method] for method in ("majority-vote", "dawid-skene"))
    ahead = [name for name in sets if votes[name]["accuracy"] > dawid_skene[name]["accuracy"] + 1e-9]

    def listed(about: dict[str, str]) -> str:
        return ", ".join(f"{package} {number}" for package, number in about.items())

    lines = [
        "# Truth inference: every aggregator on fifteen public sets",
        "",
        "Written by `benchmarks/truth_inference.py`; do not edit. Accuracy is the share of items with gold whose",
        "most probable class is the gold one, in percent. **Ties** are split: where classes share the highest",
        f"probability (to {DIGITS} digits), each counts by an equal part. Every method runs at its defaults, seed",
        f"{SEED}. `mean` is over all sets; where a method refuses a set, majority vote stands in for it.",
        "",
        f"Machine: {figures['machine']}. Ours: {listed(figures['ours_versions'])}.",
        f"crowd-kit, in its last run: {listed(figures.get('peer_versions', {}))}. Seconds may be of a busy machine.",
        "",
        *verdict(figures),
        "",
        f"{near_best(figures)} methods lie within half a point of the best mean, which fifteen sets hardly tell apart.",
        "`fast-dawid-skene`'s prior strength and `mace`'s habit prior were chosen by accuracy on these very sets,",
        "`dawid-skene`'s prior by the likelihood of annotations held out of them.",
        "",
        f"No method is best everywhere: majority vote is ahead of `dawid-skene` on {', '.join(ahead) or 'no set'}.",
        "Most methods with one number per annotator stay far behind confusion matrices on bluebird, trec and",
        "relevance.",
        "trec and relevance share their origin, weather_cf and weather_amt their items: they are not four",
        "independent sets.",
        "",
        "## Accuracy",
        "",
        *accuracy_table(figures),
    ]
    lines += [
        f"For ordered classes, on {RATINGS}: `{method}` {100 * found['accuracy']:.1f}."
        for method, found in figures.get("ordered", {}).items()
    ]
    lines += ["`gold-vote` is given no gold here: it has everyone's confusions from the votes.", ""]
    refused = refusals(figures)
    lines += ["Refusals, in the methods' own words:", "", *refused, ""] if refused else []
    if figures.get("peer"):
        lines += [
            "## Beside crowd-kit",
            "",
            "The same algorithm with the same settings should give the same accuracy. The first table counts the sets",
            f"on which ours, as it comes, and crowd-kit's lie within {CLOSE} points; it names the others (ours minus",
            "theirs).",
            "Where crowd-kit follows another rule, or makes a mistake, `benchmarks/peer_rules.py` takes that rule into",
            "our own steps, and the column `under its rule` counts again: where the two then agree, the rule is what",
            "set them apart. The second table has every difference under the same settings and rules, in points. Ties",
            "in crowd-kit's probabilities are split as in ours. A fit of crowd-kit may take "
            f"{figures['peer_seconds_allowed']} s of the processor",
            f"and {PEER_BYTES // 1024**3} GiB.",
            "",
            *table(
                ["crowd-kit", "ours", f"within {CLOSE}", "further apart", "under its rule", "rule"], twin_rows(figures)
            ),
            *difference_table(figures),
            "The accuracy of crowd-kit itself:",
            "",
            *peer_table(figures),
            "No result of crowd-kit:",
            "",
            *peer_failures(figures),
            "",
        ]
    lines += ["## Processor seconds per fit", "", *seconds_table("ours", figures["ours"], sets)]
    if figures.get("peer"):
        lines += seconds_table("crowd-kit", figures["peer"], sets)
    header = ["set", "items", "annotators", "classes", "annotations", "items with gold"]
    lines += ["## Sets", "", *table(header, shapes)]
    keep(PAGE, "\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
