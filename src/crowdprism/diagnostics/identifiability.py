"""Can this result be trusted? What the theory asks of crowd and items, checked on what was learned.

Class probabilities and confusions can be told apart from annotations only if the crowd and the items are varied
enough (Ibrahim, Nguyen and Fu 2023). Each condition becomes a finding with its value, threshold and a remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.diagnostics.bounds import (
    LARGEST_ERROR,
    TheoremInputs,
    label_probability_bound,
    network_layers,
    sensitive_complexity,
    theorem_conditions,
)
from crowdprism.diagnostics.co_labelling import co_labelling_graph
from crowdprism.diagnostics.findings import Finding, Findings, Verdict, impossible
from crowdprism.diagnostics.label_evidence import require_same_names
from crowdprism.diagnostics.scattering import Scattering, confusion_rows, scattering
from crowdprism.diagnostics.specialists import nearest_anchors, nearest_specialists
from crowdprism.progress import progress
from crowdprism.results import FitResult
from crowdprism.results.confusion import class_alignment
from crowdprism.seeding import stream

FloatArray = NDArray[np.float64]
Regularizer = Literal["F", "W", "either", "neither"]

LEAST_CONDITION = 0.02  # smallest over largest singular value; below, a class hardly differs from a mixture of others
NEARLY_SCATTERED = 1.05  # v up to here is called nearly scattered: learned tables are never exact
ZERO_SHARE = 0.05  # shares below count as zero in the tolerant test; never more than half an even share
MAX_ROWS = 20_000  # rows given to the scattering test
N_STARTS = 20
NEEDS_CONFUSIONS = (
    "class order",
    "class specialists",
    "rank of confusions",
    "scattering of confusions",
    "conditions of Theorem 1",
    "regulariser",
)


def examine(
    result: FitResult,
    annotations: Annotations,
    *,
    class_probabilities: Any = None,
    network: Any = None,
    image_shape: tuple[int, int] | None = None,
    input_norm: float | None = None,
    seed: int = 0,
) -> Findings:
    """Check whether crowd and items pin down what was learned.

    Parameters
    ----------
    class_probabilities
        (n_items, n_classes) from features alone, such as `model.predict_proba(X)`. By default the result's own, which
        contain the annotations and are therefore surer: anchors and scattering look better than the classifier is.
    network, image_shape, input_norm
        Network (anything with torch's `modules()`), image size and Frobenius norm of the features, for the bounds of
        Theorem 1. Without them the bounds leave the network out and are smaller than they should be.

    Returns
    -------
    Findings, each with value, threshold, verdict, sentence and remedy.

    Examples
    --------
    >>> from crowdprism.aggregators import make_aggregator
    >>> from crowdprism.simulate import one_coin, per_item, simulate_annotations
    >>> a = simulate_annotations(np.arange(200) % 2, one_coin([0.9] * 5, 2), per_item(200, 5, labels=3))
    >>> findings = examine(make_aggregator("dawid-skene").fit(a).result_, a)
    >>> findings["co-labelling"].verdict, findings["class order"].verdict
    ('good', 'good')
    """
    require_same_names(result, annotations)
    own = class_probabilities is None
    shares = np.asarray(result.class_probabilities if own else class_probabilities, dtype=float)
    n_classes = result.n_classes
    confusions = None if result.confusions is None else np.asarray(result.confusions, dtype=float)
    tests: dict[str, Scattering] = {}

    def scattered(what: str, rows: FloatArray) -> Finding:
        tests[what], tests[f"{what}, tolerant"] = both_scatterings(rows, n_classes, seed)
        return scattering_finding(what, tests[what], tests[f"{what}, tolerant"], n_kept=len(rows))

    settings = (network, image_shape, input_norm)
    always: list[Callable[[], Finding]] = [
        lambda: co_labelling_finding(annotations),
        lambda: anchors_finding(shares, result, own=own),
        lambda: rank_finding("class probabilities", shares),
        lambda: scattered("class probabilities", some_rows(shares, seed)),
        lambda: bound_finding(confusions, shares, annotations, *settings),
    ]
    if confusions is None:
        found = make_findings(always)
        return Findings((*found, *(impossible(name, result.method, "confusion matrices") for name in NEEDS_CONFUSIONS)))
    crowd = confusions
    with_confusions: list[Callable[[], Finding]] = [
        lambda: class_order_finding(crowd, annotations, shares),
        lambda: specialists_finding(crowd, result),
        lambda: rank_finding("confusions", confusion_rows(crowd)),
        lambda: scattered("confusions", some_rows(confusion_rows(crowd), seed)),
        lambda: theorem_finding(crowd, shares, annotations, *settings),
        lambda: regularizer_finding(crowd, shares, tests),
    ]
    return Findings(make_findings([*always, *with_confusions]))


def make_findings(steps: list[Callable[[], Finding]]) -> tuple[Finding, ...]:
    """Run the checks one after the other, with progress."""
    found = []
    with progress("examining", total=len(steps)) as bar:
        for step in steps:
            found.append(step())
            bar.advance(note=found[-1].name)
    return tuple(found)


def co_labelling_finding(annotations: Annotations) -> Finding:
    """Whether shared items connect all annotators."""
    graph = co_labelling_graph(annotations)
    return Finding(
        "co-labelling",
        float(graph.n_parts),
        1.0,
        "good" if graph.connected else "bad",
        f"{str(graph)[0].upper()}{str(graph)[1:]}.",
        "" if graph.connected else "let one annotator of each group label some items of the others.",
    )


def class_order_finding(confusions: FloatArray, annotations: Annotations, shares: FloatArray) -> Finding:
    """Whether learned classes carry the names that annotators use for them."""
    weight = annotations.labels_per_annotator.astype(float)
    mean = np.einsum("m,mkl->kl", weight / max(weight.sum(), 1.0), confusions)
    order = class_alignment(mean[None])
    moved = [str(annotations.classes[k]) for k in np.flatnonzero(order != np.arange(len(order)))]
    share = float(np.isin(shares.argmax(axis=1), np.flatnonzero(order != np.arange(len(order)))).mean())
    if not moved:
        return Finding(
            "class order", 0.0, 0.0, "good", "Learned classes and the labels people give agree class by class."
        )
    return Finding(
        "class order",
        share,
        0.0,
        "bad",
        f"{len(moved)} learned classes fit another label better than their own name ({', '.join(moved[:5])}); they "
        f"hold {share:.0%} of the items. The classes may be swapped.",
        "start the confusions nearer to the identity, align the classes, or give some items with known class.",
        {"order": order.tolist()},
    )


def specialists_finding(confusions: FloatArray, result: FitResult) -> Finding:
    """Distance to class specialists, xi_1."""
    nearest = nearest_specialists(confusions)
    worst = int(nearest.distance.argmax())
    threshold = 1 / confusions.shape[1]
    class_name, person = result.classes[worst], result.annotators[nearest.who[worst]]
    good = nearest.largest <= threshold
    return Finding(
        "class specialists",
        nearest.largest,
        threshold,
        "good" if good else "caution",
        f"The hardest class is {class_name!s}: the annotator nearest to using its label for it alone is {person!s}, at "
        f"distance {nearest.largest:.3f} (0 is ideal; the theory asks for at most {threshold:.3f}).",
        "" if good else f"find an annotator who knows {class_name!s}, or let {person!s} label more items.",
        {
            "distance": dict(zip(result.classes.tolist(), nearest.distance.tolist(), strict=True)),
            "annotator": dict(zip(result.classes.tolist(), result.annotators[nearest.who].tolist(), strict=True)),
            "label": dict(zip(result.classes.tolist(), result.classes[nearest.label].tolist(), strict=True)),
        },
    )


def anchors_finding(shares: FloatArray, result: FitResult, *, own: bool) -> Finding:
    """Distance to anchor items, xi_2."""
    nearest = nearest_anchors(shares)
    worst = int(nearest.distance.argmax())
    threshold = 1 / shares.shape[1]
    good = nearest.largest <= threshold
    remark = " These probabilities contain the annotations, which makes items look surer." if own else ""
    return Finding(
        "anchors",
        nearest.largest,
        threshold,
        "good" if good else "caution",
        f"The class without a sure item is most nearly {result.classes[worst]!s}: its surest item is "
        f"{result.items[nearest.who[worst]]!s}, at distance {nearest.largest:.3f} from certainty (the theory asks for "
        f"at most {threshold:.3f}).{remark}"
        if not good
        else f"Every class has an item that surely belongs to it (largest distance {nearest.largest:.3f}).{remark}",
        "" if good else f"add clear examples of {result.classes[worst]!s}.",
        {
            "distance": dict(zip(result.classes.tolist(), nearest.distance.tolist(), strict=True)),
            "item": dict(zip(result.classes.tolist(), result.items[nearest.who].tolist(), strict=True)),
        },
    )


def relative_condition(rows: FloatArray) -> tuple[int, float]:
    """Numerical rank of a table of rows, and its smallest over its largest singular value."""
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(rows.T @ rows)[::-1], 0.0))
    relative = values / max(values[0], 1e-300)
    return int((relative > LEAST_CONDITION).sum()), float(relative[-1])


def rank_finding(what: str, rows: FloatArray) -> Finding:
    """Rank and conditioning of stacked confusions or class probabilities."""
    rank, smallest = relative_condition(rows)
    full = rank == rows.shape[1]
    remedy = "annotators who tell more classes apart" if what == "confusions" else "items of the missing classes"
    return Finding(
        f"rank of {what}",
        smallest,
        LEAST_CONDITION,
        "good" if full else "bad",
        f"The {what} span {rank} of {rows.shape[1]} classes clearly; the smallest singular value is {smallest:.3f} of "
        "the largest.",
        "" if full else f"{remedy}, or merge classes that nobody tells apart.",
        {"rank": rank},
    )


def both_scatterings(rows: FloatArray, n_classes: int, seed: int) -> tuple[Scattering, Scattering]:
    """The scattering test as it stands, and with small shares counted as zero."""
    tolerance = min(ZERO_SHARE, 0.5 / n_classes)
    exact = scattering(rows, n_starts=N_STARTS, seed=seed)
    if exact.encloses == "yes":
        return exact, exact
    return exact, scattering(rows, zero_below=tolerance, n_starts=N_STARTS, seed=seed)


def some_rows(rows: FloatArray, seed: int) -> FloatArray:
    """All rows, or of very many those that lean most and least to each class and a random rest."""
    if len(rows) <= MAX_ROWS:
        return rows
    each = MAX_ROWS // (4 * rows.shape[1])
    order = np.argsort(rows, axis=0)
    extreme = np.unique(np.concatenate([order[:each].reshape(-1), order[-each:].reshape(-1)]))
    rest = stream(seed, "rows of the scattering test").choice(len(rows), MAX_ROWS - len(extreme), replace=False)
    chosen: FloatArray = rows[np.union1d(extreme, rest)]
    return chosen


def scattering_finding(what: str, exact: Scattering, tolerant: Scattering, *, n_kept: int) -> Finding:
    """The sufficiently scattered condition of confusions or class probabilities."""
    verdict: Verdict = "good" if "yes" in (exact.encloses, tolerant.encloses) else "caution"
    if tolerant.v_low > NEARLY_SCATTERED:
        verdict = "bad"
    holds = {"yes": "holds", "no": "does not hold", "undecided": "could not be decided"}
    sentence = (
        f"The scattering condition {holds[exact.encloses]} exactly (v {shown(exact)}, 1 is ideal) and, counting small "
        f"shares as zero, {holds[tolerant.encloses]} (v {shown(tolerant)}; {tolerant.certificate})."
    )
    if n_kept >= MAX_ROWS:
        sentence += f" {n_kept} of the rows were used."
    remedy = {"confusions": "more varied annotators, above all sure ones", "class probabilities": "clearer items"}[what]
    return Finding(
        f"scattering of {what}",
        tolerant.v_low,
        1.0,
        verdict,
        " ".join([sentence, *exact.remarks]),
        "" if verdict == "good" else f"{remedy} for each class.",
        {
            "v": [exact.v_low, exact.v_high],
            "v_tolerant": [tolerant.v_low, tolerant.v_high],
            "p": [exact.p_low, exact.p_high],
            "p_tolerant": [tolerant.p_low, tolerant.p_high],
            "unique": tolerant.unique,
        },
    )


def shown(test: Scattering) -> str:
    """The bracket of v as text."""
    if 1 + 1e-6 < test.v_high < 1.0005:
        return f"= 1 + {test.v_high - 1:.0e}"
    if test.v_high - test.v_low <= 5e-4 or test.v_low == test.v_high:
        return f"= {test.v_low:.3f}"
    return f"between {test.v_low:.3f} and {test.v_high:.3f}"


def theorem_inputs(
    confusions: FloatArray | None,
    shares: FloatArray,
    annotations: Annotations,
    network: Any,
    image_shape: tuple[int, int] | None,
    input_norm: float | None,
) -> TheoremInputs:
    """What the bounds need; network and inputs count as nothing where not given."""
    complexity = 0.0 if network is None else sensitive_complexity(network_layers(network, image_shape=image_shape))
    least = 1 / shares.shape[1] if confusions is None else least_label_probability(confusions, shares)
    return TheoremInputs(
        n_items=annotations.n_items,
        n_annotators=annotations.n_annotators,
        n_classes=annotations.n_classes,
        n_annotations=max(annotations.n_annotations, 2),
        smallest_probability=max(least, 1e-12),
        complexity=complexity,
        input_norm=0.0 if input_norm is None else input_norm,
    )


def least_label_probability(confusions: FloatArray, shares: FloatArray) -> float:
    """A number that no label's probability on any item falls below; the surest items come nearest to it."""
    surest = shares[np.unique(np.argsort(-shares, axis=0)[:20])]
    return float((surest @ confusions.min(axis=0)).min())


def theorem_finding(confusions: FloatArray, shares: FloatArray, annotations: Annotations, *network: Any) -> Finding:
    """How many conditions of Theorem 1 hold."""
    inputs = theorem_inputs(confusions, shares, annotations, *network)
    conditions = theorem_conditions(
        inputs, xi_1=nearest_specialists(confusions).largest, xi_2=nearest_anchors(shares).largest
    )
    held = sum(condition.holds for condition in conditions)
    failing = [condition.name for condition in conditions if not condition.holds]
    return Finding(
        "conditions of Theorem 1",
        float(held),
        float(len(conditions)),
        "good" if not failing else "caution",
        f"{held} of {len(conditions)} conditions hold (unnamed constants taken as one)"
        + (
            f"; not: {', '.join(failing)}. They are worst-case conditions that real data rarely meet."
            if failing
            else "."
        ),
        "more annotations, specialists or anchors, by what fails." if failing else "",
        {condition.name: [condition.value, condition.threshold] for condition in conditions},
    )


def bound_finding(
    confusions: FloatArray | None, shares: FloatArray, annotations: Annotations, *network: Any
) -> Finding:
    """The bound on the error of label probabilities, with the remark that it says nothing where it exceeds 2."""
    bound = label_probability_bound(theorem_inputs(confusions, shares, annotations, *network))
    vacuous = bound >= LARGEST_ERROR
    left_out = " The network was not given and is left out." if network[0] is None else ""
    return Finding(
        "error bound",
        bound,
        LARGEST_ERROR,
        "caution" if vacuous else "good",
        (
            f"The proven bound on the mean squared error of label probabilities is {bound:.3g}, and no error exceeds "
            "2: the bound is vacuous here and tells only how errors scale (as one over the root of annotations)."
            if vacuous
            else f"With probability 95 % the mean squared error of label probabilities is below {bound:.3g}."
        )
        + left_out,
    )


def favoured_regularizer(
    *, confusions_scattered: bool, items_scattered: bool, confusions_rank: bool, items_rank: bool
) -> Regularizer:
    """Theorem 3: the F term needs scattered items and confusions of full rank, the W term the reverse."""
    for_f, for_w = items_scattered and confusions_rank, confusions_scattered and items_rank
    return "either" if for_f and for_w else "F" if for_f else "W" if for_w else "neither"


def regularizer_finding(confusions: FloatArray, shares: FloatArray, tests: dict[str, Scattering]) -> Finding:
    """Which volume term the geometry favours, and why."""
    crowd, items = tests["confusions, tolerant"], tests["class probabilities, tolerant"]
    choice = favoured_regularizer(
        confusions_scattered=crowd.v_low <= NEARLY_SCATTERED,
        items_scattered=items.v_low <= NEARLY_SCATTERED,
        confusions_rank=relative_condition(confusion_rows(confusions))[0] == confusions.shape[1],
        items_rank=relative_condition(shares)[0] == shares.shape[1],
    )
    reasons = {
        "F": "the items are scattered enough and the confusions have full rank, but the confusions are not scattered",
        "W": "the confusions are scattered enough and the items have full rank, but the items are not scattered",
        "either": "items and confusions are both scattered; even no volume term identifies them in the limit",
        "neither": "neither items nor confusions meet what a volume term needs",
    }
    lean = ""
    if choice == "neither" and crowd.v_low != items.v_low:
        nearer = "F (items)" if items.v_low < crowd.v_low else "W (confusions)"
        lean = f"; {nearer} comes nearer"
    return Finding(
        "regulariser",
        min(crowd.v_low, items.v_low),
        NEARLY_SCATTERED,
        "caution" if choice == "neither" else "good",
        f"The geometry favours {choice}: {reasons[choice]} (v {shown(items)} for items, {shown(crowd)} for "
        f"confusions){lean}.",
        "clearer items or surer annotators; compare both terms on held-out annotations." if choice == "neither" else "",
        {"favours": choice},
    )
