"""Study: where the conditions of the identifiability theory start to matter; writes docs/results/identifiability.md.

    python benchmarks/identifiability_study.py [--seeds 3]

Items come in 60 kinds, each with free class probabilities (a network that can represent anything), so that the true
class probabilities and confusions can be placed at will: with or without anchors, specialists and scattering. Label
counts are drawn from the true model and fitted by coupled cross-entropy without a volume term, with the F term and
with the W term (Ibrahim, Nguyen and Fu 2023), all fits of a panel at once. Figures need matplotlib (the docs extra).
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crowdprism.diagnostics import confusion_rows, nearest_anchors, nearest_specialists, scattering
from crowdprism.files import replacing_file
from crowdprism.networks.losses import log_volume
from crowdprism.results.confusion import class_alignment
from crowdprism.seeding import stream

N_CLASSES, N_KINDS, N_ANNOTATORS = 3, 60, 8
N_STEPS, LEARNING_RATE = 3000, 0.05
VOLUME_WEIGHT = 1e-2  # at 1000 annotations; falls as one over their root, so that the data decide in the limit
MANY = 300_000  # annotations in panels about geometry, where chance should not matter
METHODS = ("none", "F", "W")
DOCS = Path(__file__).parents[1] / "docs" / "results"
COLOURS = {"none": "#777777", "F": "#1f77b4", "W": "#d62728"}


@dataclass(frozen=True)
class Setting:
    """One true model: class probabilities of the kinds, confusions, and how many annotations are drawn."""

    at: float
    shares: np.ndarray  # (kind, class)
    confusions: np.ndarray  # (annotator, true class, given label)
    n_annotations: int


def scattered_kinds(seed: int, blur: float) -> np.ndarray:
    """Kinds of items with three anchors, all mixed with the uniform by `blur`."""
    drawn = stream(seed, "kinds").dirichlet(np.full(N_CLASSES, 0.5), size=N_KINDS)
    drawn[:N_CLASSES] = np.eye(N_CLASSES)
    return (1 - blur) * drawn + blur / N_CLASSES


def edge_kinds(seed: int, reach: float) -> np.ndarray:
    """Kinds along the edges of the triangle, none nearer to a corner than share `reach`: scattered from 2/3 on."""
    share = stream(seed, "edges").uniform(1 - reach, reach, N_KINDS)
    share[:6] = [reach, 1 - reach] * 3
    table = np.zeros((N_KINDS, N_CLASSES))
    edge = np.arange(N_KINDS) // 2 % 3
    table[np.arange(N_KINDS), edge] = share
    table[np.arange(N_KINDS), (edge + 1) % 3] = 1 - share
    return table


def crowd(seed: int, blur: float) -> np.ndarray:
    """Annotators of different quality, the first perfect, all mixed with guessing by `blur`."""
    random = stream(seed, "crowd")
    drawn = random.dirichlet(np.ones(N_CLASSES), size=(N_ANNOTATORS, N_CLASSES))
    drawn = 0.5 * drawn + 0.5 * np.eye(N_CLASSES)
    drawn[0] = np.eye(N_CLASSES)
    return (1 - blur) * drawn + blur / N_CLASSES


def draw_counts(setting: Setting, seed: int) -> np.ndarray:
    """Label counts (annotator, kind, label): every annotator labels about equally many items of every kind."""
    random = stream(seed, "labels")
    chance = np.einsum("ck,mkl->mcl", setting.shares, setting.confusions)
    shares = np.full(N_ANNOTATORS * N_KINDS, 1 / (N_ANNOTATORS * N_KINDS))
    each = random.multinomial(setting.n_annotations, shares).reshape(N_ANNOTATORS, N_KINDS)
    return random.multinomial(each, chance / chance.sum(axis=2, keepdims=True)).astype(float)


def fit(counts: np.ndarray, method: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Minimise coupled cross-entropy with or without a volume term, for a stack of data sets at once."""
    n_sets = len(counts)
    random = stream(seed, "start")
    given = torch.tensor(counts)
    total = given.sum(dim=(1, 2, 3))
    start = 0.1 * random.standard_normal((n_sets, N_KINDS, N_CLASSES))
    kinds = torch.tensor(start, requires_grad=True)
    people = torch.tensor(2.0 * np.tile(np.eye(N_CLASSES), (n_sets, N_ANNOTATORS, 1, 1)), requires_grad=True)
    weight = VOLUME_WEIGHT * torch.sqrt(1000 / total)
    optimizer = torch.optim.Adam([kinds, people], lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, N_STEPS)
    for _ in range(N_STEPS):
        shares, confusions = kinds.softmax(dim=-1), people.softmax(dim=-1)
        chance = torch.einsum("sck,smkl->smcl", shares, confusions)
        loss = -(given * torch.log(chance)).sum(dim=(1, 2, 3)) / total
        if method == "F":
            loss = loss - weight * log_volume(torch.einsum("sck,scj->skj", shares, shares))
        if method == "W":
            loss = loss - weight * log_volume(torch.einsum("smkl,smjl->skj", confusions, confusions))
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
        schedule.step()
    return kinds.softmax(dim=-1).detach().numpy(), people.softmax(dim=-1).detach().numpy()


def errors(setting: Setting, shares: np.ndarray, confusions: np.ndarray) -> dict[str, float]:
    """Mean squared errors after one common alignment of the classes; of label probabilities without."""
    order = class_alignment(confusions, setting.confusions)
    label = np.einsum("ck,mkl->mcl", shares, confusions) - np.einsum("ck,mkl->mcl", setting.shares, setting.confusions)
    return {
        "confusions": float(np.square(confusions[:, order] - setting.confusions).sum(axis=(1, 2)).mean() / N_CLASSES),
        "classes": float(np.square(shares[:, order] - setting.shares).sum(axis=1).mean()),
        "labels": float(np.square(label).sum(axis=2).mean()),
    }


def run_panel(settings: list[list[Setting]]) -> list[dict[str, Any]]:
    """Fit all settings (outer list: points, inner: seeds) by all methods; one record per point."""
    flat = [setting for point in settings for setting in point]
    counts = np.stack([draw_counts(setting, seed) for seed, setting in enumerate(flat)])
    fitted = {method: fit(counts, method, seed=0) for method in METHODS}
    records = []
    place = 0
    for point in settings:
        rows = range(place, place + len(point))
        place += len(point)
        record: dict[str, Any] = {"at": point[0].at, "annotations": point[0].n_annotations, **geometry(point)}
        for method, (shares, confusions) in fitted.items():
            found = [errors(flat[row], shares[row], confusions[row]) for row in rows]
            record[method] = {name: float(np.median([one[name] for one in found])) for name in found[0]}
        records.append(record)
    return records


def geometry(point: list[Setting]) -> dict[str, float]:
    """Median distances and scattering of the true model."""
    v = {
        "v_crowd": [scattering(confusion_rows(s.confusions)).v_low for s in point],
        "v_items": [scattering(s.shares).v_low for s in point],
        "xi_1": [nearest_specialists(s.confusions).largest for s in point],
        "xi_2": [nearest_anchors(s.shares).largest for s in point],
    }
    return {name: float(np.median(values)) for name, values in v.items()}


def panels(n_seeds: int) -> dict[str, list[list[Setting]]]:
    """The five panels of the study."""
    seeds = range(n_seeds)
    blurs = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    reaches = (0.55, 0.6, 0.64, 0.6667, 0.7, 0.75, 0.8, 0.9, 1.0)
    return {
        "annotations": [
            [Setting(n, scattered_kinds(s, 0.0), crowd(s, 0.0), n) for s in seeds]
            for n in (1000, 3000, 10_000, 30_000, 100_000, 300_000)
        ],
        "items": [[Setting(b, scattered_kinds(s, b), crowd(s, 0.0), MANY) for s in seeds] for b in blurs],
        "crowd": [[Setting(b, scattered_kinds(s, 0.0), crowd(s, b), MANY) for s in seeds] for b in blurs],
        "both": [[Setting(b, scattered_kinds(s, b), crowd(s, b), MANY) for s in seeds] for b in blurs],
        "edges": [[Setting(r, edge_kinds(s, r), crowd(s, 0.3), MANY) for s in seeds] for r in reaches],
    }


def slope(records: list[dict[str, Any]], method: str, what: str) -> float:
    """Exponent with which an error falls as annotations grow."""
    x = np.log([record["annotations"] for record in records])
    y = np.log([record[method][what] for record in records])
    return float(np.polyfit(x, y, 1)[0])


def draw(name: str, records: list[dict[str, Any]], key: str, title: str, marks: dict[str, float]) -> str:
    """One figure: errors of confusions and of class probabilities against a quantity."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = name  # the same data give the same file
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharex=True)
    x = [record[key] for record in records]
    for axis, what in zip(axes, ("confusions", "classes"), strict=True):
        for method in METHODS:
            axis.plot(x, [r[method][what] for r in records], "o-", ms=3, color=COLOURS[method], label=method)
        if key == "annotations":
            first = records[0]["none"][what]
            axis.plot(x, [first * (x[0] / n) ** 0.5 for n in x], ":", color="black", label="1/sqrt(S)")
            axis.plot(x, [first * (x[0] / n) for n in x], "--", color="black", label="1/S", lw=0.8)
            axis.set_xscale("log")
        for text, where in marks.items():
            axis.axvline(where, color="black", lw=0.6, ls="--")
            axis.text(where, axis.get_ylim()[1], f" {text}", fontsize=7, va="top")
        axis.set_yscale("log")
        axis.set_xlabel(title)
        axis.set_ylabel(f"error of {'confusions' if what == 'confusions' else 'class probabilities'}")
    axes[0].legend(fontsize=7, frameon=False)
    figure.tight_layout()
    path = DOCS / "figures" / f"identifiability_{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as fresh:
        figure.savefig(fresh, format="svg", metadata={"Date": None})
    plt.close(figure)
    return f"figures/{path.name}"


def table(records: list[dict[str, Any]], name: str) -> str:
    """A Markdown table of one panel."""
    lines = [
        f"| {name} | xi_1 | xi_2 | v crowd | v items | "
        + " | ".join(f"A: {m}" for m in METHODS)
        + " | "
        + " | ".join(f"f: {m}" for m in METHODS)
        + " |",
        "|" + "---:|" * (5 + 2 * len(METHODS)),
    ]
    for record in records:
        cells = [f"{record['at']:g}", *(f"{record[key]:.3f}" for key in ("xi_1", "xi_2", "v_crowd", "v_items"))]
        cells += [f"{record[m]['confusions']:.2g}" for m in METHODS]
        cells += [f"{record[m]['classes']:.2g}" for m in METHODS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(found: dict[str, list[dict[str, Any]]], figures: dict[str, str], seeds: int) -> str:
    """The text of the page, with the numbers of this run."""
    falls = {
        what: ", ".join(f"{method} {slope(found['annotations'], method, what):.2f}" for method in METHODS)
        for what in ("confusions", "classes", "labels")
    }
    items, people, edges = found["items"][-1], found["crowd"][-1], found["edges"]
    below, above = edges[0], next(record for record in edges if record["v_items"] <= 1 + 1e-6)
    return f"""# Where identifiability starts to matter

Which conditions of the theory (Ibrahim, Nguyen and Fu, ICLR 2023) can be felt, and when does a volume term help? Here
the truth is known. Items come in {N_KINDS} kinds with free class probabilities, {N_ANNOTATORS} annotators have
{N_CLASSES} x {N_CLASSES} confusions, and labels are drawn from the true model. Each data set is fitted by coupled
cross-entropy alone ("none"), with the F term (spread of the class probabilities) and with the W term (spread of the
confusions). Volume weight {VOLUME_WEIGHT:g} at 1000 annotations, falling as one over their root. Errors are mean
squared distances after one common alignment of the classes: of confusions (A: squared Frobenius norm over classes)
and of class probabilities (f). Medians of {seeds} draws. Made by `benchmarks/identifiability_study.py`.

In the tables, xi_1 is the distance of the crowd to class specialists, xi_2 that of the items to anchors (both 0 at
best; Theorem 1 asks for at most 1/K = {1 / N_CLASSES:.3f}), and v tells how far crowd and items are from being
sufficiently scattered (1 is scattered, larger is worse), as `crowdprism.diagnostics.scattering` computes it.

## More annotations

![errors against annotations]({figures["annotations"]})

{table(found["annotations"], "annotations")}

Where crowd and items are both scattered (Theorem 2) no volume term is needed, and all three find the truth. Exponents
of the squared errors in the number of annotations S: confusions {falls["confusions"]}; class probabilities
{falls["classes"]}; label probabilities {falls["labels"]}. An exponent of -1 means that distances themselves fall as
1/sqrt(S). The proven bounds fall more slowly (squared label error as 1/sqrt(S), the rest slower still) and are safe,
not sharp: at these sizes they exceed the largest possible error.

## Items that are never sure

All class probabilities are mixed with the uniform; the crowd has a perfect annotator and stays scattered. S = {MANY}.

![errors against xi_2]({figures["items"]})

{table(found["items"], "blur")}

The F term needs scattered items (Theorem 3a), and its error grows as soon as v of the items leaves 1, long before xi_2
reaches 1/K: it pulls the classes apart further than they are. The W term (Theorem 3b) only needs class probabilities
of full rank: at the largest blur its error of f is {items["W"]["classes"]:.2g}, that of the F term
{items["F"]["classes"]:.2g}.

## A crowd that is never sure

The same with the confusions mixed with guessing; the items keep their anchors.

![errors against xi_1]({figures["crowd"]})

{table(found["crowd"], "blur")}

Now the roles are exchanged. At the largest blur the F term stays near the truth (A {people["F"]["confusions"]:.2g}),
while the W term ({people["W"]["confusions"]:.2g}) and no term ({people["none"]["confusions"]:.2g}) drift off. With
{MANY} annotations this is no longer chance but what the data leave open.

## Neither

![errors against v]({figures["both"]})

{table(found["both"], "blur")}

When both are blurred no theorem applies. The table shows what is lost; `examine` then says "neither".

## Scattered without anchors

Kinds lie on the edges of the triangle and come no nearer to a corner than the given share; the crowd is blurred by 0.3.
The items have no anchors except at share 1, yet they are sufficiently scattered from 2/3 on.

![errors against reach]({figures["edges"]})

{table(found["edges"], "share")}

The F term finds the truth from about where v reaches 1 (A {above["F"]["confusions"]:.2g} at share {above["at"]:.2f}),
far from any anchor (xi_2 = {above["xi_2"]:.2f}, above 1/K), and fails at share {below["at"]:.2f}
(A {below["F"]["confusions"]:.2g}, v = {below["v_items"]:.2f}). Between, its error fades rather than breaks: v slightly
above 1 costs little. Here scattering, not anchors, is the condition that can be felt; this is why `examine` lets v up
to 1.05 pass as nearly scattered.

## What to take from it

- Annotations reduce error only as far as the geometry allows.
- The volume term must match the side that is scattered: F for clear items, W for sure annotators. In the second and
  third panel the wrong one was worse than none.
- `crowdprism diagnose` reports v, xi_1 and xi_2 of what was learned. Learned values are estimates: a fit with the F
  term makes items look more scattered than they are, so compare terms on held-out annotations as well.
- Limits: three classes, free class probabilities instead of a network, annotators who err independently.
"""


def main() -> None:
    """Run all panels, draw the figures and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--text-only", action="store_true", help="write page and figures from the stored numbers")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    from measured import RESULTS, store

    if options.text_only:
        stored = json.loads((RESULTS / "identifiability.json").read_text(encoding="utf-8"))
        found, options.seeds = stored["panels"], stored["seeds"]
    else:
        found = {}
        for name, settings in panels(options.seeds).items():
            found[name] = run_panel(settings)
            print(name, table(found[name], name), sep="\n", flush=True)
        store("identifiability", {"seeds": options.seeds, "panels": found})
    figures = {
        "annotations": draw("annotations", found["annotations"], "annotations", "annotations S", {}),
        "items": draw("items", found["items"], "xi_2", "distance of items to anchors, xi_2", {"1/K": 1 / N_CLASSES}),
        "crowd": draw("crowd", found["crowd"], "xi_1", "distance of the crowd to specialists, xi_1", {"1/K": 1 / 3}),
        "both": draw("both", found["both"], "v_items", "v of the items (v of the crowd grows alike)", {"1": 1.0}),
        "edges": draw("edges", found["edges"], "at", "largest share on the edges", {"v = 1 from 2/3": 2 / 3}),
    }
    with replacing_file(DOCS / "identifiability.md") as fresh:
        fresh.write_text(page(found, figures, options.seeds), encoding="utf-8")


if __name__ == "__main__":
    main()
