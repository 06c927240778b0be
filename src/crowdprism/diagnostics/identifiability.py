"""Can this result be trusted? The conditions of the theory, checked on what was learned.

Annotations determine class probabilities and confusions only if the annotators and the items are varied enough
(Ibrahim, Nguyen and Fu 2023). Each condition becomes a finding with its value, threshold and a remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from crowdprism.annotations import Annotations
from crowdprism.diagnostics import bounds
from crowdprism.diagnostics.co_labelling import CoLabellingGraph, co_labelling_graph
from crowdprism.diagnostics.findings import Finding, Findings, Severity
from crowdprism.diagnostics.label_evidence import FloatArray, matching
from crowdprism.diagnostics.scattering import Scattering, confusion_rows, scattering
from crowdprism.progress import progress
from crowdprism.results import FitResult
from crowdprism.results.confusion import class_alignment, mean_confusion
from crowdprism.seeding import stream

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
    graph: CoLabellingGraph | None = None,
    seed: int = 0,
) -> Findings:
    """Check whether the annotations determine what was learned.

    Parameters
    ----------
    class_probabilities
        (n_items, n_classes) from features alone, such as `model.predict_proba(X)`. By default those of the result,
        which contain the annotations: anchors and scattering then look better than the classifier is.
    network, image_shape, input_norm
        Network (anything with torch's `modules()`), image size and Frobenius norm of the features, for the bounds of
        Theorem 1. Without them the bounds leave the network out and are too small.
    graph
        `co_labelling_graph(annotations)`, if already computed.

    Examples
    --------
    >>> from crowdprism.aggregators import make_aggregator
    >>> from crowdprism.simulate import one_coin, per_item, simulate_annotations
    >>> a = simulate_annotations(np.arange(200) % 2, one_coin([0.9] * 5, 2), per_item(200, 5, labels=3))
    >>> findings = examine(make_aggregator("dawid-skene", use_gold=False).fit(a).result_, a)
    >>> findings["co-labelling"].severity, findings["class order"].severity
    ('good', 'good')
    """
    annotations = matching(result, annotations)
    own = class_probabilities is None
    shares = np.asarray(result.class_probabilities if own else class_probabilities, dtype=float)
    confusions = None if result.confusions is None else np.asarray(result.confusions, dtype=float)
    layers = [] if network is None else bounds.network_layers(network, image_shape=image_shape)
    complexity = bounds.sensitive_complexity(layers)
    inputs = bounds.theorem_inputs(confusions, shares, annotations, complexity=complexity, input_norm=input_norm or 0.0)
    tests: dict[str, Scattering] = {}  # with small shares counted as zero, by what was tested

    def scattered(what: str, table: FloatArray) -> Finding:
        rows = some_rows(table, seed)
        exact = tests[what] = scattering(rows, n_starts=N_STARTS, seed=seed)
        if exact.encloses != "yes":
            tolerance = min(ZERO_SHARE, 0.5 / rows.shape[1])
            tests[what] = scattering(rows, zero_below=tolerance, n_starts=N_STARTS, seed=seed)
        return scattering_finding(what, exact, tests[what], n_kept=len(rows))

    steps: list[Callable[[], Finding]] = [
        lambda: co_labelling_finding(graph or co_labelling_graph(annotations)),
        lambda: anchors_finding(shares, result, own=own),
        lambda: rank_finding("class probabilities", shares),
        lambda: scattered("class probabilities", shares),
        lambda: bound_finding(inputs, with_network=network is not None),
    ]
    if confusions is not None:
        crowd = confusions
        steps += [
            lambda: class_order_finding(crowd, annotations, shares),
            lambda: specialists_finding(crowd, result),
            lambda: rank_finding("confusions", confusion_rows(crowd)),
            lambda: scattered("confusions", confusion_rows(crowd)),
            lambda: theorem_finding(crowd, shares, inputs),
            lambda: regularizer_finding(crowd, shares, tests),
        ]
    found = []
    with progress("examining", total=len(steps)) as bar:
        for step in steps:
            found.append(step())
            bar.advance(note=found[-1].name)
    if confusions is None:
        sentence = f"Not checked: this needs confusion matrices and {result.method} gives none."
        remedy = "Fit a method with confusion matrices, such as dawid-skene or geocrowdnet-f."
        found += [Finding(name, "note", sentence, remedy) for name in NEEDS_CONFUSIONS]
    return Findings(tuple(found))


def judged(
    name: str, good: bool, sentence: str, remedy: str, *numbers: Any, otherwise: Severity = "caution"
) -> Finding:
    """A finding that is good and needs no remedy, or else has a severity and one; value, threshold and details last."""
    return Finding(name, "good" if good else otherwise, sentence, "" if good else remedy, *numbers)


def co_labelling_finding(graph: CoLabellingGraph) -> Finding:
    remedy = "Let one annotator of each group label some items of the others."
    return judged("co-labelling", graph.connected, str(graph), remedy, float(graph.n_parts), 1.0, otherwise="warning")


def class_order_finding(confusions: FloatArray, annotations: Annotations, shares: FloatArray) -> Finding:
    order = class_alignment(mean_confusion(confusions, annotations.labels_per_annotator)[None])
    moved = np.flatnonzero(order != np.arange(len(order)))
    if not len(moved):
        sentence = "Each learned class fits the label that annotators use for it."
        return Finding("class order", "good", sentence, "", 0.0, 0.0)
    share = float(np.isin(shares.argmax(axis=1), moved).mean())
    sentence = (
        f"{len(moved)} learned classes fit another label better than their own name "
        f"({', '.join(map(str, annotations.classes[moved[:5]]))}); they hold {share:.0%} of the items. The classes may "
        "be swapped."
    )
    remedy = "Start the confusions nearer to the identity, align the classes, or provide the true class of some items."
    return Finding("class order", "warning", sentence, remedy, share, 0.0, {"order": order.tolist()})


def specialists_finding(confusions: FloatArray, result: FitResult) -> Finding:
    """Distance to class specialists, xi_1."""
    nearest = bounds.nearest_specialists(confusions)
    worst = int(nearest.distance.argmax())
    threshold = 1 / confusions.shape[1]
    class_name, person = result.classes[worst], result.annotators[nearest.who[worst]]
    sentence = (
        f"Every class should have an annotator who gives its label to that class alone. {class_name!s} comes last: its "
        f"best annotator is {person!s}, at distance {nearest.largest:.3f} (0 is ideal, {threshold:.3f} the limit)."
    )
    remedy = f"Find an annotator who knows {class_name!s}, or let {person!s} label more items."
    details = {
        "distance": by_class(result, nearest.distance),
        "annotator": by_class(result, result.annotators[nearest.who]),
        "label": by_class(result, result.classes[nearest.label]),
    }
    good = nearest.largest <= threshold
    return judged("class specialists", good, sentence, remedy, nearest.largest, threshold, details)


def anchors_finding(shares: FloatArray, result: FitResult, *, own: bool) -> Finding:
    """Distance to anchor items, xi_2."""
    nearest = bounds.nearest_anchors(shares)
    worst = int(nearest.distance.argmax())
    threshold = 1 / shares.shape[1]
    good = nearest.largest <= threshold
    sentence = f"Every class has an item that almost certainly belongs to it (largest distance {nearest.largest:.3f})."
    if not good:
        sentence = (
            f"No item certainly belongs to {result.classes[worst]!s}: the nearest is "
            f"{result.items[nearest.who[worst]]!s}, at distance {nearest.largest:.3f} (0 is certain, {threshold:.3f} "
            "the limit)."
        )
    if own:
        sentence += " These probabilities contain the annotations, so items look more certain than by features alone."
    details = {"distance": by_class(result, nearest.distance), "item": by_class(result, result.items[nearest.who])}
    remedy = f"Add clear examples of {result.classes[worst]!s}."
    return judged("anchors", good, sentence, remedy, nearest.largest, threshold, details)


def by_class(result: FitResult, values: Any) -> dict[Any, Any]:
    return dict(zip(result.classes.tolist(), values.tolist(), strict=True))


def relative_condition(rows: FloatArray) -> tuple[int, float]:
    """Numerical rank of a table of rows, and its smallest over its largest singular value."""
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(rows.T @ rows)[::-1], 0.0))
    relative = values / max(values[0], 1e-300)
    return int((relative > LEAST_CONDITION).sum()), float(relative[-1])


def rank_finding(what: str, rows: FloatArray) -> Finding:
    rank, smallest = relative_condition(rows)
    full = rank == rows.shape[1]
    sentence = (
        f"The {what} clearly distinguish {rank} of {rows.shape[1]} classes; the smallest singular value is "
        f"{smallest:.3f} of the largest."
    )
    add = "annotators who tell more classes apart" if what == "confusions" else "items of the missing classes"
    remedy, numbers = f"Add {add}, or merge classes that nobody tells apart.", (smallest, LEAST_CONDITION)
    return judged(f"rank of {what}", full, sentence, remedy, *numbers, {"rank": rank}, otherwise="warning")


def some_rows(rows: FloatArray, seed: int) -> FloatArray:
    """At most `MAX_ROWS` rows: those with the largest and smallest shares of each class, and a random rest."""
    if len(rows) <= MAX_ROWS:
        return rows
    each = MAX_ROWS // (4 * rows.shape[1])
    order = np.argsort(rows, axis=0)
    extreme = np.unique(np.concatenate([order[:each].reshape(-1), order[-each:].reshape(-1)]))
    rest = stream(seed, "rows of the scattering test").choice(len(rows), MAX_ROWS - len(extreme), replace=False)
    return np.asarray(rows[np.union1d(extreme, rest)])


def scattering_finding(what: str, exact: Scattering, tolerant: Scattering, *, n_kept: int) -> Finding:
    severity: Severity = "good" if "yes" in (exact.encloses, tolerant.encloses) else "caution"
    if tolerant.v_low > NEARLY_SCATTERED:
        severity = "warning"
    holds = {"yes": "holds", "no": "does not hold", "undecided": "could not be decided"}
    sentence = (
        f"The scattering condition {holds[exact.encloses]} exactly (v {format_bracket(exact)}, 1 is ideal). With small "
        f"shares counted as zero it {holds[tolerant.encloses]} (v {format_bracket(tolerant)}; {tolerant.certificate})."
    )
    kept = [f"The test used {n_kept} of the rows."] if n_kept >= MAX_ROWS else []
    add = {"confusions": "more varied and more accurate annotators", "class probabilities": "clearer items"}[what]
    remedy = "" if severity == "good" else f"Add {add} for each class."
    details = {
        "v": [exact.v_low, exact.v_high],
        "v_tolerant": [tolerant.v_low, tolerant.v_high],
        "p": [exact.p_low, exact.p_high],
        "p_tolerant": [tolerant.p_low, tolerant.p_high],
        "unique": tolerant.unique,
    }
    text = " ".join([sentence, *kept, *exact.remarks])
    return Finding(f"scattering of {what}", severity, text, remedy, tolerant.v_low, 1.0, details)


def format_bracket(test: Scattering) -> str:
    if 1 + 1e-6 < test.v_high < 1.0005:
        return f"= 1 + {test.v_high - 1:.0e}"
    if test.v_high - test.v_low <= 5e-4 or test.v_low == test.v_high:
        return f"= {test.v_low:.3f}"
    return f"between {test.v_low:.3f} and {test.v_high:.3f}"


def theorem_finding(confusions: FloatArray, shares: FloatArray, inputs: bounds.TheoremInputs) -> Finding:
    xi_1, xi_2 = bounds.nearest_specialists(confusions).largest, bounds.nearest_anchors(shares).largest
    conditions = bounds.theorem_conditions(inputs, xi_1=xi_1, xi_2=xi_2)
    failing = [condition.name for condition in conditions if not condition.holds]
    n_all, held = len(conditions), len(conditions) - len(failing)
    sentence = f"{held} of {n_all} conditions hold, with the theorem's unnamed constants set to one."
    if failing:
        sentence += f" These fail: {', '.join(failing)}. They are worst-case conditions that real data rarely meet."
    details = {condition.name: [condition.value, condition.threshold] for condition in conditions}
    remedy = "Add annotations, specialists or anchors, depending on what fails."
    return judged("conditions of Theorem 1", not failing, sentence, remedy, float(held), float(n_all), details)


def bound_finding(inputs: bounds.TheoremInputs, *, with_network: bool) -> Finding:
    """The proven bound on the error of label probabilities; at 2 or more it says nothing about the size of errors."""
    bound = bounds.label_probability_bound(inputs)
    vacuous = bound >= bounds.LARGEST_ERROR
    sentence = f"With probability 95 % the mean squared error of label probabilities is below {bound:.3g}."
    if vacuous:
        sentence = (
            f"The proven bound on the mean squared error of label probabilities is {bound:.3g}. No error exceeds 2, so "
            "the bound is vacuous; it only shows that errors fall with the square root of the number of annotations."
        )
    if not with_network:
        sentence += " The network was not given and is left out."
    return judged("error bound", not vacuous, sentence, "", bound, bounds.LARGEST_ERROR)


def favoured_regularizer(
    *, confusions_scattered: bool, items_scattered: bool, confusions_rank: bool, items_rank: bool
) -> Regularizer:
    """Theorem 3: the F term needs scattered items and confusions of full rank, the W term the reverse."""
    for_f, for_w = items_scattered and confusions_rank, confusions_scattered and items_rank
    return "either" if for_f and for_w else "F" if for_f else "W" if for_w else "neither"


def regularizer_finding(confusions: FloatArray, shares: FloatArray, tests: dict[str, Scattering]) -> Finding:
    crowd, items = tests["confusions"], tests["class probabilities"]
    choice = favoured_regularizer(
        confusions_scattered=crowd.v_low <= NEARLY_SCATTERED,
        items_scattered=items.v_low <= NEARLY_SCATTERED,
        confusions_rank=relative_condition(confusion_rows(confusions))[0] == confusions.shape[1],
        items_rank=relative_condition(shares)[0] == shares.shape[1],
    )
    reasons = {
        "F": "the items are scattered enough and the confusions have full rank, but the confusions are not scattered",
        "W": "the confusions are scattered enough and the items have full rank, but the items are not scattered",
        "either": "both items and confusions are scattered, so no volume term is needed in the limit",
        "neither": "neither items nor confusions meet the conditions of a volume term",
    }
    closer = " F (items) comes closer." if items.v_low < crowd.v_low else " W (confusions) comes closer."
    lean = closer if choice == "neither" and crowd.v_low != items.v_low else ""
    sentence = (
        f"The geometry favours {choice}: {reasons[choice]} (v {format_bracket(items)} for items, "
        f"{format_bracket(crowd)} for confusions).{lean}"
    )
    remedy = "Compare both terms on held-out annotations; clearer items or more accurate annotators help."
    numbers = (min(crowd.v_low, items.v_low), NEARLY_SCATTERED)
    return judged("regulariser", choice != "neither", sentence, remedy, *numbers, {"favours": choice})
