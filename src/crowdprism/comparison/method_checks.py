"""The contract every method keeps, as checks that anyone can run on a method of their own.

>>> from crowdprism.aggregators import MajorityVote
>>> check_method(MajorityVote())

Each check is one small function with a sentence for a name; `CHECKS` lists them. A method may refuse data that
it cannot work on with an `UnsuitableDataError`: that is an answer, not a breach.
"""

from __future__ import annotations

import copy
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import name_array
from crowdprism.errors import CrowdprismError, UnsuitableDataError
from crowdprism.results import FitResult
from crowdprism.results.loading import load
from crowdprism.seeding import stream
from crowdprism.simulate import one_coin, pair_flip, per_item, simulate_annotations

EXACT = 1e-6  # reordering sums changes the last digits only
SETTLED = 1e-3  # iterations that stop by a tolerance may stop elsewhere
RANDOM_START_AGREEMENT = 0.95  # share of labels that must stay when another random start is drawn


class MethodCheckError(CrowdprismError, AssertionError):
    """A method breaks its contract; the message lists each broken check."""


@dataclass(frozen=True)
class Data:
    """What a method is fitted on: annotations, and features for classifiers."""

    annotations: Annotations
    features: NDArray[Any]  # (n_items, n_features)

    def take(self, index: Any) -> Data:
        return Data(self.annotations[index], self.features[index])


def sample_data(n_items: int = 240, n_classes: int = 3, n_annotators: int = 12, labels: int = 4) -> Data:
    """A small crowd that any sensible method can learn from: mixed skill, one who confuses classes."""
    random = stream(0, "method_checks")
    truth = np.arange(n_items) % n_classes
    crowd = np.concatenate(
        [one_coin(random.uniform(0.55, 0.95, n_annotators - 1), n_classes), pair_flip(1, n_classes, flip=0.4)]
    )
    annotations = simulate_annotations(truth, crowd, per_item(n_items, n_annotators, labels=labels))
    features = np.eye(n_classes)[truth] * 2 + random.normal(size=(n_items, n_classes))
    return Data(annotations, features.astype(np.float32))


def is_classifier(method: Any) -> bool:
    """Classifiers take features; aggregators do not."""
    return hasattr(method, "predict_proba")


def fit(method: Any, data: Data) -> Any:
    """Fit a fresh copy, so that checks cannot disturb each other."""
    fresh = copy.deepcopy(method)
    return fresh.fit(data.features, data.annotations) if is_classifier(method) else fresh.fit(data.annotations)


def probabilities(method: Any, data: Data) -> NDArray[Any]:
    """Class probabilities of the annotated items after a fit."""
    result: FitResult = fit(method, data).result_
    return result.class_probabilities


def expect(condition: bool, breach: str) -> None:
    """Raise if a condition of the contract does not hold."""
    if not condition:
        raise MethodCheckError(breach)


def expect_valid(result: FitResult, data: Data) -> None:
    """Shapes, names and probabilities of a result are as documented."""
    a = data.annotations
    expect(result.items.tolist() == a.items.tolist(), "the result's items are not those of the annotations")
    expect(result.annotators.tolist() == a.annotators.tolist(), "the result's annotators are not those annotating")
    expect(result.classes.tolist() == a.classes.tolist(), "the result's classes are not those of the annotations")
    expect_distribution(result.class_probabilities, (a.n_items, a.n_classes), "class_probabilities")
    if result.confusions is not None:
        expect_distribution(result.confusions, (a.n_annotators, a.n_classes, a.n_classes), "confusions")
    if result.class_prior is not None:
        expect_distribution(result.class_prior, (a.n_classes,), "class_prior")
    if result.skills is not None:
        expect(result.skills.shape == (a.n_annotators,), f"skills have shape {result.skills.shape}")
        expect(bool(np.isfinite(result.skills).all()), "skills are not finite")


def expect_distribution(values: NDArray[Any], shape: tuple[int, ...], what: str) -> None:
    """An array of probability vectors: right shape, finite, not negative, sums of one."""
    expect(values.shape == shape, f"{what} has shape {values.shape}, not {shape}")
    expect(bool(np.isfinite(values).all()), f"{what} is not finite")
    expect(bool((values >= -EXACT).all()), f"{what} has negative entries")
    expect(bool(np.allclose(values.sum(axis=-1), 1, atol=1e-4)), f"{what} does not sum to one")


def expect_same(method: Any, first: NDArray[Any], second: NDArray[Any], what: str, *, redrawn: bool = False) -> None:
    """Two sets of probabilities agree; where a random start was redrawn, by most labels."""
    if redrawn and "random_state" in method.get_params():
        agreement = float((first.argmax(axis=1) == second.argmax(axis=1)).mean())
        expect(agreement >= RANDOM_START_AGREEMENT, f"{what} changes {1 - agreement:.0%} of the labels")
        return
    difference = float(np.abs(first - second).max())
    expect(difference < SETTLED, f"{what} changes class probabilities by {difference:.2g}")


# -- the checks ---------------------------------------------------------------------------------------------


def result_has_the_documented_shapes_and_names(method: Any) -> None:
    data = sample_data()
    expect_valid(fit(method, data).result_, data)


def fit_returns_the_method_itself(method: Any) -> None:
    data, fresh = sample_data(), copy.deepcopy(method)
    returned = fresh.fit(data.features, data.annotations) if is_classifier(method) else fresh.fit(data.annotations)
    expect(returned is fresh, "fit does not return self")


def labels_are_better_than_chance(method: Any) -> None:
    data = sample_data()
    result = fit(method, data).result_
    gold = data.annotations.gold
    assert gold is not None
    accuracy = float((result.class_probabilities.argmax(axis=1) == gold).mean())
    expect(accuracy > 0.6, f"accuracy on an easy crowd is {accuracy:.2f}")


def the_same_seed_gives_the_same_result(method: Any) -> None:
    data = sample_data()
    first, second = probabilities(method, data), probabilities(method, data)
    expect(np.array_equal(first, second), "two fits with the same seed differ")


def global_random_state_is_left_alone(method: Any) -> None:
    torch = sys.modules.get("torch")  # loaded by classifiers; never by the checks themselves
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    torch_before = None if torch is None else torch.get_rng_state()
    fit(method, sample_data())
    if torch is not None:
        expect(torch.equal(torch_before, torch.get_rng_state()), "the fit drew from torch's global generator")
    expect(np.array_equal(before, np.random.get_state()[1]), "the fit drew from NumPy's global generator")  # type: ignore[index]  # noqa: NPY002


def the_input_is_left_alone(method: Any) -> None:
    data = sample_data()
    labels, features = data.annotations.label.copy(), data.features.copy()
    fit(method, data)
    expect(np.array_equal(labels, data.annotations.label), "the fit changed the annotations")
    expect(np.array_equal(features, data.features), "the fit changed the features")


def the_constructor_only_stores(method: Any) -> None:
    params = method.get_params()
    clone = type(method)(**params)
    for name, value in clone.get_params().items():
        expect(value is params[name], f"the constructor changes its parameter {name}")
    expect(getattr(clone, "_result", None) is None, "a new object already has a result")


def the_order_of_items_does_not_matter(method: Any) -> None:
    data = sample_data()
    order = stream(1, "method_checks").permutation(data.annotations.n_items)
    shuffled = np.empty_like(probabilities(method, data))
    shuffled[order] = probabilities(method, data.take(order))
    expect_same(method, probabilities(method, data), shuffled, "reordering items", redrawn=True)


def names_of_annotators_do_not_matter(method: Any) -> None:
    data = sample_data()
    renamed = name_array([f"person {place}" for place in range(data.annotations.n_annotators)])
    other = replace(data, annotations=replace(data.annotations, annotators=renamed))
    expect_same(method, probabilities(method, data), probabilities(method, other), "renaming annotators")


def the_order_of_classes_does_not_matter(method: Any) -> None:
    data = sample_data()
    a = data.annotations
    backwards = (a.n_classes - 1 - a.label).astype(a.label.dtype)
    other = replace(data, annotations=replace(a, label=backwards, classes=name_array(a.classes[::-1]), gold=None))
    expect_same(
        method, probabilities(method, data), probabilities(method, other)[:, ::-1], "reordering classes", redrawn=True
    )


def items_without_annotations_get_probabilities(method: Any) -> None:
    data = sample_data()
    bare = data.annotations.select(data.annotations.item >= 20)
    expect_valid(fit(method, replace(data, annotations=bare)).result_, data)


def annotators_without_annotations_are_allowed(method: Any) -> None:
    data = sample_data()
    bare = replace(data, annotations=data.annotations.select(data.annotations.annotator != 3))
    expect_valid(fit(method, bare).result_, bare)


def one_annotator_is_enough_or_refused(method: Any) -> None:
    data = sample_data()
    lone = replace(data, annotations=data.annotations.select(data.annotations.annotator == 0))
    expect_valid(fit(method, lone).result_, lone)


def a_class_that_nobody_chose_is_allowed(method: Any) -> None:
    data = sample_data()
    wider = replace(data.annotations, classes=name_array([*data.annotations.classes.tolist(), 99]))
    expect_valid(fit(method, replace(data, annotations=wider)).result_, replace(data, annotations=wider))


def two_classes_and_thirty_classes_work(method: Any) -> None:
    for n_classes in (2, 30):
        data = sample_data(n_items=300, n_classes=n_classes)
        expect_valid(fit(method, data).result_, data)


def weight_two_equals_the_annotation_twice(method: Any) -> None:
    if is_classifier(method):
        return  # a repeated annotation also changes which batches are drawn
    data = sample_data()
    a = data.annotations
    twice = a.concat(a.select(a.label == 0))
    heavy = replace(a, weight=np.where(a.label == 0, 2, 1).astype(np.float32))
    expect_same(
        method,
        probabilities(method, replace(data, annotations=twice)),
        probabilities(method, replace(data, annotations=heavy)),
        "weight 2 instead of a repeated annotation",
    )


def a_saved_result_loads_as_it_was(method: Any) -> None:
    data = sample_data()
    fitted = fit(method, data)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load((fitted if hasattr(fitted, "save") else fitted.result_).save(f"{folder}/run"))
    again = loaded if isinstance(loaded, FitResult) else loaded.result_
    expect(
        np.array_equal(again.class_probabilities, fitted.result_.class_probabilities),
        "class probabilities differ after save and load",
    )


# -- of classifiers only ------------------------------------------------------------------------------------


def predictions_have_the_documented_shapes_and_names(method: Any) -> None:
    if not is_classifier(method):
        return
    data = sample_data()
    fitted, a = fit(method, data), data.annotations
    shape = (a.n_items, a.n_classes)
    expect_distribution(fitted.predict_proba(data.features), shape, "predict_proba")
    names = set(fitted.predict(data.features).tolist())
    expect(names <= set(a.classes.tolist()), f"predict returns names that are no classes: {sorted(names)}")
    expect(fitted.classes_.tolist() == a.classes.tolist(), "classes_ are not those of the annotations")
    if fitted.confusions_ is not None:
        expect_distribution(fitted.label_posterior(data.features, a), shape, "label_posterior")


def a_batch_of_one_left_over_is_trained_on(method: Any) -> None:
    if not is_classifier(method):
        return
    data = sample_data().take(np.arange(25))
    fresh = copy.deepcopy(method).set_params(batch_size=8)
    expect_valid(fresh.fit(data.features, data.annotations).result_, data)


def float32_and_float64_features_give_the_same_result(method: Any) -> None:
    if not is_classifier(method):
        return
    data = sample_data()
    wide = replace(data, features=data.features.astype(np.float64))
    expect_same(method, probabilities(method, data), probabilities(method, wide), "float64 instead of float32 features")


def further_items_without_annotations_are_accepted(method: Any) -> None:
    if not is_classifier(method):
        return
    data = sample_data()
    fresh = copy.deepcopy(method)
    fresh.fit(data.features, data.annotations, X_unlabelled=data.features[:30] + 0.1)
    expect_valid(fresh.result_, data)


def a_clone_gives_the_same_result(method: Any) -> None:
    if not is_classifier(method):
        return
    data = sample_data()
    twin = type(method)(**method.get_params())
    expect(
        np.array_equal(probabilities(method, data), probabilities(twin, data)), "a copy made from get_params differs"
    )


def a_loaded_classifier_predicts_as_the_saved_one(method: Any) -> None:
    if not is_classifier(method):
        return
    data = sample_data()
    fitted = fit(method, data)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(fitted.save(f"{folder}/run"))
    expect(
        np.array_equal(loaded.predict_proba(data.features), fitted.predict_proba(data.features)),
        "predictions differ after save and load",
    )


CHECKS: tuple[Callable[[Any], None], ...] = (
    result_has_the_documented_shapes_and_names,
    fit_returns_the_method_itself,
    labels_are_better_than_chance,
    the_same_seed_gives_the_same_result,
    global_random_state_is_left_alone,
    the_input_is_left_alone,
    the_constructor_only_stores,
    the_order_of_items_does_not_matter,
    names_of_annotators_do_not_matter,
    the_order_of_classes_does_not_matter,
    items_without_annotations_get_probabilities,
    annotators_without_annotations_are_allowed,
    one_annotator_is_enough_or_refused,
    a_class_that_nobody_chose_is_allowed,
    two_classes_and_thirty_classes_work,
    weight_two_equals_the_annotation_twice,
    a_saved_result_loads_as_it_was,
    predictions_have_the_documented_shapes_and_names,
    a_batch_of_one_left_over_is_trained_on,
    float32_and_float64_features_give_the_same_result,
    further_items_without_annotations_are_accepted,
    a_clone_gives_the_same_result,
    a_loaded_classifier_predicts_as_the_saved_one,
)


def check_method(method: Any) -> None:
    """Run every check on an aggregator or classifier; raise one error that lists all breaches.

    Parameters
    ----------
    method
        An unfitted object with `fit`, `get_params` and `result_`, as made by `make_aggregator`.

    Examples
    --------
    >>> import crowdprism as cp
    >>> cp.check_method(cp.make_aggregator("majority-vote"))
    """
    breaches = []
    for check in CHECKS:
        try:
            check(method)
        except UnsuitableDataError:
            continue
        except MethodCheckError as error:
            breaches.append(f"{check.__name__.replace('_', ' ')}: {error}")
    if breaches:
        listed = "\n".join(f"  - {breach}" for breach in breaches)
        raise MethodCheckError(f"{type(method).__name__} breaks {len(breaches)} of {len(CHECKS)} checks:\n{listed}")
