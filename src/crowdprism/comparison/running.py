"""Every method fitted several times with annotations held out, and once to all of them."""

from __future__ import annotations

import difflib
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators import AGGREGATORS, make_aggregator
from crowdprism.annotations import Annotations, as_annotations
from crowdprism.comparison import measures
from crowdprism.comparison.comparison_records import Comparison, MethodRow
from crowdprism.comparison.recommendation import LEAST_GOLD, in_order_of_merit, recommend
from crowdprism.errors import CrowdprismError, CrowdprismWarning, InvalidParameterError
from crowdprism.progress import Bar, progress
from crowdprism.results import FitResult

USUAL_AGGREGATORS = (
    "majority-vote",
    "weighted-vote",
    "dawid-skene",
    "one-coin",
    "zencrowd",
    "glad",
    "mace",
    "ibcc",
    "ebcc",
)
USUAL_CLASSIFIERS = ("geocrowdnet", "geocrowdnet-f", "crowdlayer", "aggnet")
N_SEEDS = 3
HELD_OUT = 0.1


@dataclass
class Measured:
    """What the fits of one method left behind."""

    log_likelihoods: list[NDArray[np.float64]] = field(default_factory=list)
    held_out_agreement: list[float] = field(default_factory=list)
    found: list[NDArray[np.int64]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    warned: dict[str, None] = field(default_factory=dict)
    result: FitResult | None = None
    failed: str = ""


def compare(
    annotations: Any,
    features: Any = None,
    *,
    methods: Sequence[str] | None = None,
    seeds: int = N_SEEDS,
    held_out: float = HELD_OUT,
    settings: dict[str, Any] | None = None,
) -> Comparison:
    """Fit many methods to the same annotations, rank them without knowing the truth, and recommend one.

    Each method is fitted once per seed with a share of the annotations held out, the same for all methods, and once to
    all annotations. Measured are the likelihood of the held-out annotations, agreement with them and with the other
    methods, stability over seeds, time, and with gold accuracy. A method that fails is a row with its reason. Ctrl-C
    ends the comparison and returns what was measured so far.

    Parameters
    ----------
    annotations
        `Annotations`, or an items x annotators array with -1 for none. Its gold is used only to measure.
    features
        (n_items, ...) in the order of the annotations' items; classifiers need them.
    methods
        Names of aggregators and classifiers; by default a usual choice of both (classifiers only with features).
    seeds
        How many times each method is fitted with annotations held out.
    held_out
        Share of the annotations that is held out.
    settings
        Further parameters of all classifiers, such as `{"epochs": 20}`.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdprism.simulate import demo_annotations
    >>> annotations = demo_annotations(np.arange(300) % 10, seed=0)
    >>> found = compare(annotations, methods=["majority-vote", "dawid-skene"], seeds=2)
    >>> found.recommended, [row.method for row in found.rows]
    ('dawid-skene', ['dawid-skene', 'majority-vote'])
    """
    annotations = as_annotations(annotations)
    names = chosen_methods(methods, has_features=features is not None)
    check_sizes(annotations, seeds, held_out)
    splits = [annotations.split_annotations(held_out, seed) for seed in range(seeds)]
    measured: dict[str, Measured] = {}
    interrupted = False
    with progress("comparing", total=len(names) * (seeds + 1)) as bar:
        for name in names:
            one = Measured()
            try:
                measure(one, name, annotations, splits, features, settings or {}, bar)
            except KeyboardInterrupt:
                interrupted = True
                break
            measured[name] = one
    return concluded(measured, annotations, interrupted=interrupted)


def measure(
    one: Measured,
    name: str,
    annotations: Annotations,
    splits: Sequence[tuple[Annotations, Annotations]],
    features: Any,
    settings: dict[str, Any],
    bar: Bar,
) -> None:
    """Fit one method to all splits and to everything; a failure is kept as its reason."""
    steps = len(splits) + 1
    try:
        for seed, (kept, out) in enumerate(splits):
            result = timed_fit(one, name, kept, features, seed, settings)
            likelihoods = measures.held_out_log_likelihoods(result, out)
            if likelihoods is not None:
                one.log_likelihoods.append(likelihoods)
            one.found.append(measures.found_classes(result))
            one.held_out_agreement.append(measures.share_of_held_out(one.found[-1], out))
            bar.advance(note=name)
            steps -= 1
        one.result = timed_fit(one, name, annotations, features, 0, settings)
    except CrowdprismError as error:
        one.failed = str(error)
    except Exception as error:  # one broken method must not cost the others
        one.failed = f"{type(error).__name__}: {error}"
    bar.advance(steps, note=name)


def timed_fit(
    one: Measured, name: str, annotations: Annotations, features: Any, seed: int, settings: dict[str, Any]
) -> FitResult:
    """Fit a method, and keep how long it took and what it warned of."""
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CrowdprismWarning)
        result = fitted(name, annotations, features, seed, settings)
    one.warned |= {str(warning.message): None for warning in caught}
    one.seconds.append(time.perf_counter() - begun)
    return result


def fitted(name: str, annotations: Annotations, features: Any, seed: int, settings: dict[str, Any]) -> FitResult:
    """What a method learns from annotations."""
    if name in AGGREGATORS:
        aggregator = make_aggregator(name)
        if "random_state" in aggregator.get_params():
            aggregator.set_params(random_state=seed)
        return aggregator.fit(annotations).result_
    if features is None:
        raise InvalidParameterError("It is a classifier and needs features of the items.")
    classifiers = import_module("crowdprism.classifiers")  # by name, because aggregators must be compared without torch
    model = classifiers.make_classifier(name, random_state=seed, **settings).fit(features, annotations)
    if model.interrupted_:  # Ctrl-C keeps a model for its user; half trained, it is not to be measured
        raise KeyboardInterrupt
    result: FitResult = model.result_
    return result


def chosen_methods(methods: Sequence[str] | None, *, has_features: bool) -> list[str]:
    """The methods to measure, each once; a name that no method has is an error."""
    if methods is None:
        return [*USUAL_AGGREGATORS, *(USUAL_CLASSIFIERS if has_features else ())]
    names = list(dict.fromkeys(methods))
    if not names:
        raise InvalidParameterError("The list of methods is empty. Name at least one, or leave it out.")
    unknown = [name for name in names if name not in AGGREGATORS]
    if unknown:
        classifiers = list(import_module("crowdprism.classifiers").CLASSIFIERS)
        for name in unknown:
            if name not in classifiers:
                close = difflib.get_close_matches(name, [*AGGREGATORS, *classifiers], n=3, cutoff=0.4)
                hint = f"Did you mean {' or '.join(close)}?" if close else f"There are {', '.join(AGGREGATORS)}."
                raise InvalidParameterError(f"There is no method {name!r}. {hint}")
    return names


def check_sizes(annotations: Annotations, seeds: int, held_out: float) -> None:
    """Raise where nothing could be held out."""
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise InvalidParameterError(f"seeds must be a whole number of at least 1, not {seeds!r}.")
    if not 0 < held_out < 1:
        raise InvalidParameterError(f"held_out must be between 0 and 1, not {held_out}.")
    n_out = round(held_out * annotations.n_annotations)
    if n_out < 1 or n_out >= annotations.n_annotations:
        raise InvalidParameterError(
            f"{annotations.n_annotations} annotations are too few to hold out a share of {held_out}."
        )


def concluded(measured: dict[str, Measured], annotations: Annotations, *, interrupted: bool) -> Comparison:
    """Rows in order of merit and a recommendation, from what was measured."""
    results = {name: one.result for name, one in measured.items() if one.result is not None}
    found = {name: measures.found_classes(result) for name, result in results.items()}
    alike = measures.agreement_with_others(found)
    hits = {name: measures.gold_hits(classes, annotations) for name, classes in found.items()}
    known = {name: hit.astype(float) for name, hit in hits.items() if hit is not None}
    by_gold = any(len(hit) >= LEAST_GOLD for hit in known.values())
    rows = [
        replace(row_of(name, one), agreement_with_others=alike.get(name), accuracy=mean_or_none(known.get(name)))
        for name, one in measured.items()
    ]
    ordered = in_order_of_merit(rows, by_gold=by_gold)
    likelihoods = {
        name: np.concatenate(one.log_likelihoods)
        for name, one in measured.items()
        if name in results and one.log_likelihoods
    }
    recommended, reason = recommend(ordered, known if by_gold else likelihoods, by_gold=by_gold)
    return Comparison(ordered, recommended, reason, interrupted, results)


def row_of(name: str, one: Measured) -> MethodRow:
    """The row of one method, from its own fits."""
    if one.failed:
        return MethodRow(name, failed=one.failed, warnings=tuple(one.warned))
    likelihood = float(np.mean(np.concatenate(one.log_likelihoods))) if one.log_likelihoods else None
    return MethodRow(
        method=name,
        log_likelihood=likelihood,
        held_out_agreement=float(np.mean(one.held_out_agreement)),
        stability=measures.mean_pairwise_agreement(one.found),
        seconds=float(np.median(one.seconds)),
        warnings=tuple(one.warned),
    )


def mean_or_none(values: NDArray[np.float64] | None) -> float | None:
    """The mean, where there is something."""
    return None if values is None else float(values.mean())
