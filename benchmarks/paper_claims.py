"""Study: two claims of the GeoCrowdNet paper and its predecessor; writes docs/results/claims.md and its figures.

    python benchmarks/paper_claims.py [--seeds 3]

Claim 1 (Ibrahim, Nguyen and Fu 2023): coupled cross-entropy does not need annotators who err independently. Claim 2
(Ibrahim et al. 2019, Theorem 4): the more annotators, the more probably their confusions are sufficiently scattered.
A third figure draws what specialists and scattered crowds look like. Figures need matplotlib (the docs extra).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from crowdprism.aggregators import DawidSkene
from crowdprism.annotations import Annotations
from crowdprism.diagnostics import confusion_rows, scattering
from crowdprism.files import replacing_file
from crowdprism.results.confusion import confusion_error
from crowdprism.seeding import stream
from crowdprism.simulate import one_coin, per_item

N_CLASSES, N_ANNOTATORS, N_COPIES, COPIED = 3, 8, 4, 0.95
SIZES = (250, 1000, 4000)  # items, with four labels each
CROWD_SIZES = (1, 2, 4, 8, 16, 32, 64)
DRAWS = 60
NEAR = 1.05  # v at most this counts as scattered
DOCS = Path(__file__).parents[1] / "docs" / "results"
METHODS = ("ccem", "joint", "dawid-skene")
COLOURS = {"ccem": "#1f77b4", "joint": "#d62728", "dawid-skene": "#777777"}


def crowd(n_items: int, copying: bool, seed: int) -> tuple[Any, Annotations, Any]:
    """Features, annotations and true confusions; with copies, five of eight annotators mostly say the same."""
    random = stream(seed, "claims", n_items)
    truth = random.integers(N_CLASSES, size=n_items)
    features = 2.0 * np.eye(N_CLASSES, 5)[truth] + random.normal(size=(n_items, 5))
    skills = np.r_[np.full(N_COPIES + 1, 0.55), np.full(N_ANNOTATORS - N_COPIES - 1, 0.8)]
    confusions = one_coin(skills, N_CLASSES)
    drawn = (random.random((n_items, N_ANNOTATORS, 1)) > np.cumsum(confusions[:, truth].swapaxes(0, 1), axis=2)).sum(2)
    drawn = drawn.clip(0, N_CLASSES - 1)
    if copying:
        same = random.random((n_items, N_COPIES)) < COPIED
        drawn[:, 1 : N_COPIES + 1] = np.where(same, drawn[:, :1], drawn[:, 1 : N_COPIES + 1])
    asked = per_item(n_items, N_ANNOTATORS, labels=4, seed=seed)
    label = drawn[asked[0], asked[1]]
    return features.astype(np.float32), Annotations.from_triplets(*asked, label, classes=range(N_CLASSES)), confusions


def error_of(method: str, features: Any, annotations: Annotations, truth: Any, seed: int) -> float:
    """Relative l1 error of the confusions after one alignment of classes."""
    if method == "dawid-skene":
        found = DawidSkene(dependence=None).fit(annotations).result_.confusions
    else:
        from crowdprism.classifiers import GeoCrowdNet

        options = {"regularizer": None, "loss": method, "evidence_temper": 1.0, "confusion_form": "free"}
        plain = {"epochs": 20, "network": "linear", "input_noise": 0.0, "temperature": 1.0, "dependence": None}
        found = GeoCrowdNet(**options, **plain, random_state=seed).fit(features, annotations).confusions_
    return confusion_error(found, truth)["relative_l1"]


def dependence_panel(n_seeds: int) -> dict[tuple[bool, str], list[float]]:
    """Mean error by crowd and method, for each size."""
    errors: dict[tuple[bool, str], list[float]] = {}
    for copying in (False, True):
        for n_items in SIZES:
            made = [crowd(n_items, copying, seed) for seed in range(n_seeds)]
            for method in METHODS:
                each = [error_of(method, *parts, seed) for seed, parts in enumerate(made)]
                errors.setdefault((copying, method), []).append(float(np.mean(each)))
                print(copying, n_items, method, round(errors[copying, method][-1], 3), flush=True)
    return errors


def scattered_share(n_annotators: int, n_classes: int) -> float:
    """Share of random crowds, their rows uniform on the simplex, whose v is certainly at most `NEAR`."""
    random = stream(n_annotators, "random crowds", n_classes)
    crowds = random.dirichlet(np.ones(n_classes), size=(DRAWS, n_annotators, n_classes))
    return float(np.mean([scattering(confusion_rows(one), n_starts=5).v_high <= NEAR for one in crowds]))


def draw(name: str, lines: dict[str, Any], at: Any, *, xlabel: str, ylabel: str) -> None:
    """One figure with a line per entry (values, colour, style)."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = name  # the same data give the same file
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for label, (values, colour, style) in lines.items():
        ax.plot(at, values, style, color=colour, label=label, marker="o", markersize=3)
    ax.set(xscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.legend(fontsize=8)
    with replacing_file(DOCS / "figures" / f"claims_{name}.svg") as fresh:
        figure.savefig(fresh, format="svg", metadata={"Date": None})


def crowds_of_three() -> dict[str, Any]:
    """(n_points, 3) what labels say about the true class in three crowds, after the appendix of the 2023 paper."""
    near, far, weak = 0.94, 0.7, 0.6
    others = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    return {
        "near specialists": one_coin([near], 3)[0],
        "scattered, no specialist": np.array([far, 1 - far, 0.0])[np.array(others)],
        "neither": one_coin([weak], 3)[0],
    }


def draw_crowds() -> None:
    """Three triangles side by side, each with the v of its points."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "simplex"
    from matplotlib import pyplot

    from crowdprism.plots import plot_simplex

    figure, panels = pyplot.subplots(1, 3, figsize=(8, 2.8), layout="constrained")
    for ax, (name, points) in zip(panels, crowds_of_three().items(), strict=True):
        plot_simplex(points, ax=ax).set_title(f"{name}, v = {scattering(points).v_high:.2f}", fontsize=9)
    with replacing_file(DOCS / "figures" / "claims_simplex.svg") as fresh:
        figure.savefig(fresh, format="svg", metadata={"Date": None})


def table(heads: list[str], rows: list[list[Any]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *[[str(cell) for cell in row] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    shares = {n_classes: [scattered_share(size, n_classes) for size in CROWD_SIZES] for n_classes in (3, 4)}
    print(shares, flush=True)
    draw_crowds()
    errors = dependence_panel(seeds)
    names = {key: f"{key[1]}, {'copies' if key[0] else 'independent'}" for key in errors}
    lines = {names[key]: (values, COLOURS[key[1]], "--" if key[0] else "-") for key, values in errors.items()}
    annotations = [4 * size for size in SIZES]
    draw("dependence", lines, annotations, xlabel="annotations", ylabel="relative error of confusions")
    drawn = {f"{k} classes": (values, "#1f77b4" if k == 3 else "#d62728", "-") for k, values in shares.items()}
    draw("scattered", drawn, CROWD_SIZES, xlabel="annotators", ylabel=f"share with v at most {NEAR}")
    first = [[names[key], *(f"{value:.3f}" for value in values)] for key, values in errors.items()]
    second = [[f"{k}", *(f"{value:.2f}" for value in values)] for k, values in shares.items()]
    text = TEXT.format(
        seeds=seeds,
        draws=DRAWS,
        copies=N_COPIES,
        copied=f"{COPIED:.0%}",
        near=NEAR,
        dependence=table(["method, annotators", *(f"{n} annotations" for n in annotations)], first),
        scattered=table(["classes", *(f"{size}" for size in CROWD_SIZES)], second),
    )
    with replacing_file(DOCS / "claims.md") as fresh:
        Path(fresh).write_text(text, encoding="utf-8")


TEXT = """# Two claims of the papers

Made by `benchmarks/paper_claims.py`.

## Coupled cross-entropy does not need independent annotators

Three classes, eight annotators, four labels per item. Three annotators are right with probability 0.8 and five with
0.55; in the crowd with copies, {copies} of the five repeat the fifth on {copied} of the items. The network is linear,
and features tell the classes apart fairly well. Numbers are the relative error of the confusions, mean of
Σ|estimate - truth| / Σ|truth|, over {seeds} draws. `ccem` and `joint` are GeoCrowdNet without volume term; `joint`
multiplies the labels of an item as independent evidence, as Dawid-Skene does.

![errors of confusions](figures/claims_dependence.svg)

{dependence}

The claim holds: copies leave the error of `ccem` nearly as it was, and it falls with more annotations. The two that
multiply labels take the copies for many witnesses, end at errors five to seventeen times as large, and more annotations
do not help. Among independent annotators they are the more precise ones: `ccem` needs no independence and does not use
it. By default GeoCrowdNet tempers the evidence, and Dawid-Skene counts annotators who answer as one voice once; both
were switched off here.

## The more annotators, the more probably they are sufficiently scattered

Rows of confusions drawn uniformly from the simplex, {draws} crowds each; the share of crowds whose v, which is 1 for a
sufficiently scattered crowd, is certainly at most {near}.

![share of scattered crowds](figures/claims_scattered.svg)

{scattered}

None of the small crowds is scattered, nearly all with 64 annotators are. Real crowds have specialists, and need fewer.

## The two conditions in a picture

With three classes, what a label says about the true class is a point of a triangle whose corners are certainty. The
identification results ask for points near every corner (near-class specialists, first triangle), or for points whose
hull holds the circle (sufficiently scattered, second triangle: v is 1 although no point is near a corner). Annotators
who are right with probability 0.6 and err evenly do neither (third). `crowdprism.plots.plot_simplex` draws the same
picture of a result.

![three crowds in the triangle](figures/claims_simplex.svg)
"""


if __name__ == "__main__":
    main()
