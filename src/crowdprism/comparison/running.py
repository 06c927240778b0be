"""Fit every method several times with annotations held out, and once to all; measure what needs no true labels."""

from __future__ import annotations

import difflib
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators import AGGREGATORS, make_aggregator
from crowdprism.annotations import Annotations, as_annotations
from crowdprism.comparison.recommendation import MIN_GOLD, Comparison, MethodRow, rank, recommend
from crowdprism.errors import CrowdprismError, CrowdprismWarning, InvalidParameterError
from crowdprism.parameters import Allowed, Real, Whole, check_parameters
from crowdprism.progress import Bar, progress
from crowdprism.results import FitResult

MIXED_IN = 1e-3  # share of the uniform distribution, so that one label called impossible costs a bounded amount
Split = tuple[Annotations, Annotations]  # kept, held out
Fit = Callable[[str, Annotations, int], FitResult]  # name of a method, annotations, seed
VOTES = ("majority-vote", "weighted-vote")
USUAL_AGGREGATORS = (*VOTES, "dawid-skene", "one-coin", "zencrowd", "glad", "mace", "ibcc", "ebcc")
USUAL_CLASSIFIERS = ("geocrowdnet", "geocrowdnet-f", "crowdlayer", "aggnet")
ALLOWED: dict[str, Allowed] = {"seeds": Whole(1), "held_out": Real(0, 1, above=True, below=True)}


@dataclass
class Measured:
    """What the fits of one method gave."""

    method: str
    log_likelihoods: list[NDArray[np.float64]] = field(default_factory=list)
    held_out_agreement: list[float] = field(default_factory=list)
    found: list[NDArray[np.int64]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    warned: dict[str, None] = field(default_factory=dict)
    result: FitResult | None = None
    failed: str = ""

    def to_row(self) -> MethodRow:
        if self.failed:
            return MethodRow(self.method, failed=self.failed, warnings=tuple(self.warned))
        return MethodRow(
            self.method,
            log_likelihood=float(np.mean(np.concatenate(self.log_likelihoods))) if self.log_likelihoods else None,
            held_out_agreement=float(np.mean(self.held_out_agreement)),
            stability=mean_pairwise_agreement(self.found),
            seconds=float(np.median(self.seconds)),
            warnings=tuple(self.warned),
        )


def compare(
    annotations: Any,
    features: Any = None,
    *,
    methods: Sequence[str] | None = None,
    seeds: int = 3,
    held_out: float = 0.1,
    settings: dict[str, Any] | None = None,
) -> Comparison:
    """Fit many methods to the same annotations, rank them, and recommend one.

    Each method is fitted once per seed with a share of the annotations held out, the same for all methods, and once to
    all annotations. The columns are the likelihood of the held-out annotations, agreement with them and with the other
    methods, stability over seeds, time, and accuracy on gold if there is any. A method that fails gets a row with the
    reason. Ctrl-C ends the comparison and returns the methods measured so far.

    Parameters
    ----------
    annotations
        `Annotations`, or an items x annotators array with -1 for none. Gold is used only to measure accuracy.
    features
        (n_items, ...) in the order of the annotations' items; needed by classifiers.
    methods
        Names of aggregators and classifiers; by default a selection (with classifiers only if there are features).
    seeds
        How often each method is fitted with annotations held out.
    held_out
        Share of the annotations to hold out.
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
    names = choose_methods(methods, has_features=features is not None)
    check_parameters({"seeds": seeds, "held_out": held_out}, ALLOWED)
    if not 1 <= round(held_out * annotations.n_annotations) < annotations.n_annotations:
        raise InvalidParameterError(
            f"{annotations.n_annotations} annotations are too few to hold out a share of {held_out}.",
            parameter="held_out",
        )
    shown = annotations.with_gold(None)
    splits = [shown.split_annotations(held_out, seed) for seed in range(seeds)]
    fit = partial(fit_method, features=features, settings=settings or {})
    measured: list[Measured] = []
    with progress("comparing", total=len(names) * (seeds + 1)) as bar, suppress(KeyboardInterrupt):
        for name in names:
            measured.append(measure(name, fit, shown, splits, bar))
    return conclude(measured, annotations, interrupted=len(measured) < len(names))


def measure(name: str, fit: Fit, annotations: Annotations, splits: Sequence[Split], bar: Bar) -> Measured:
    """Fit one method to all splits and to all annotations; keep the reason if it fails."""
    one, last_step = Measured(name), bar.done + len(splits) + 1
    try:
        for seed, (kept, out) in enumerate(splits):
            result = timed_fit(one, fit, kept, seed)
            likelihoods = held_out_log_likelihoods(result, out)
            if likelihoods is not None:
                one.log_likelihoods.append(likelihoods)
            one.found.append(found_classes(result))
            one.held_out_agreement.append(float(np.mean(one.found[-1][out.item] == out.label)))
            bar.advance(note=name)
        one.result = timed_fit(one, fit, annotations, 0)
    except CrowdprismError as error:
        one.failed = str(error)
    except Exception as error:  # one broken method must not cost the others
        one.failed = f"{type(error).__name__}: {error}"
    bar.advance(last_step - bar.done, note=name)
    return one


def timed_fit(one: Measured, fit: Fit, annotations: Annotations, seed: int) -> FitResult:
    start = time.perf_counter()
    with warnings.catch_warnings(record=True, action="always", category=CrowdprismWarning) as caught:
        result = fit(one.method, annotations, seed)
    one.warned |= {str(warning.message): None for warning in caught}
    one.seconds.append(time.perf_counter() - start)
    return result


def fit_method(name: str, annotations: Annotations, seed: int, features: Any, settings: dict[str, Any]) -> FitResult:
    if name in AGGREGATORS:
        aggregator = make_aggregator(name)
        if "random_state" in aggregator.get_params():
            aggregator.set_params(random_state=seed)
        return aggregator.fit(annotations).result_
    if features is None:
        raise InvalidParameterError("It is a classifier and needs features of the items.")
    from crowdprism.classifiers import make_classifier  # here, because comparing aggregators does not need torch

    model = make_classifier(name, random_state=seed, **settings).fit(features, annotations)
    if model.interrupted_:  # a half-trained model must not be measured
        raise KeyboardInterrupt
    return model.result_


def choose_methods(methods: Sequence[str] | None, *, has_features: bool) -> list[str]:
    """The names of the methods to measure, each once; raise for a name that no method has."""
    if methods is None:
        return [*USUAL_AGGREGATORS, *(USUAL_CLASSIFIERS if has_features else ())]
    names = list(dict.fromkeys(methods))
    if not names:
        raise InvalidParameterError("The list of methods is empty. Name at least one.", parameter="methods")
    if set(names) <= set(AGGREGATORS):
        return names
    from crowdprism.classifiers import CLASSIFIERS

    known = [*AGGREGATORS, *CLASSIFIERS]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
            hint = f"Did you mean {' or '.join(close)}?" if close else f"There are {', '.join(known)}."
            raise InvalidParameterError(f"There is no method {name!r}. {hint}", parameter="methods")
    return names


def conclude(measured: Sequence[Measured], annotations: Annotations, *, interrupted: bool) -> Comparison:
    # Gold was hidden from the fits; each result gets it back, so that its account can rest on it.
    results = {one.method: replace(one.result, annotations=annotations) for one in measured if one.result is not None}
    found = {name: found_classes(result) for name, result in results.items()}
    agreement = agreement_with_others(found)
    hits = {name: gold_hits(classes, annotations) for name, classes in found.items()}
    scores = {name: hit.astype(float) for name, hit in hits.items() if hit is not None}
    by_gold = any(len(hit) >= MIN_GOLD for hit in scores.values())
    rows = [replace(one.to_row(), agreement_with_others=agreement.get(one.method)) for one in measured]
    rows = [replace(row, accuracy=float(scores[row.method].mean())) if row.method in scores else row for row in rows]
    if not by_gold:
        scored = [one for one in measured if one.method in results and one.log_likelihoods]
        scores = {one.method: np.concatenate(one.log_likelihoods) for one in scored}
    ranked = rank(rows, by_gold=by_gold)
    return Comparison(ranked, *recommend(ranked, scores, by_gold=by_gold), interrupted, results)


def held_out_log_likelihoods(result: FitResult, held_out: Annotations) -> NDArray[np.float64] | None:
    """log Σ_k q_i[k] C_m[k, l] of each held-out annotation; None without confusions, the weighted mean for unseen m."""
    if result.confusions is None:
        return None
    table, n_labels = result.confusions, result.labels_per_annotator
    if n_labels is not None and n_labels.any() and not n_labels.all():
        table = np.where((n_labels > 0)[:, None, None], table, np.average(table, axis=0, weights=n_labels))
    given = table[held_out.annotator, :, held_out.label]  # (annotation, true class)
    probability = np.einsum("ak,ak->a", result.class_probabilities[held_out.item], given)
    return np.asarray(np.log((1 - MIXED_IN) * probability + MIXED_IN / result.n_classes))


def found_classes(result: FitResult) -> NDArray[np.int64]:
    """(n_items,) code of the most probable class; ties go to the class that comes first."""
    return np.asarray(np.argmax(result.class_probabilities, axis=1))


def mean_pairwise_agreement(several: Sequence[NDArray[Any]]) -> float | None:
    """Mean share of items on which two of several labellings agree; None for only one labelling."""
    pairs = [float(np.mean(first == second)) for first, second in combinations(several, 2)]
    return float(np.mean(pairs)) if pairs else None


def agreement_with_others(found: dict[str, NDArray[Any]]) -> dict[str, float | None]:
    """For each method, the mean share of items that get the same class from another method."""
    shares = {name: [np.mean(mine == found[other]) for other in found if other != name] for name, mine in found.items()}
    return {name: float(np.mean(each)) if each else None for name, each in shares.items()}


def gold_hits(found: NDArray[Any], annotations: Annotations) -> NDArray[np.bool_] | None:
    """Whether each item with gold and annotations is labelled correctly; None without such items."""
    if annotations.gold is None:
        return None
    judged = ~np.ma.getmaskarray(annotations.gold) & (annotations.labels_per_item > 0)
    if not judged.any():
        return None
    return np.asarray(found[judged] == np.ma.getdata(annotations.gold)[judged])
