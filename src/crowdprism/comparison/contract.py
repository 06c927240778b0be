"""The contract that every method keeps, as checks that anyone can run on their own method.

Each check has a sentence for a name and declares the kind of method that it holds for: any method, aggregators or
classifiers. A method may refuse data that it cannot work on with an `UnsuitableDataError`.

Another order of rows gives the same bits. Other names of annotators, and in aggregators weight 2 instead of an
annotation twice, change nothing beyond rounding. Only 95 % of the labels must stay

- where a random start is drawn anew: items or classes in another order, an annotator without annotations;
- with weight 2 instead of an annotation twice in classifiers, since training adds the terms in another order and
  AnnotMix draws a partner for each annotation;
- where every annotation is repeated, since twice the evidence makes methods more certain.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism import load
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import name_array
from crowdprism.errors import CrowdprismError, ResultFormatError, UnsuitableDataError
from crowdprism.results import FitResult
from crowdprism.seeding import stream
from crowdprism.simulate import one_coin, pair_flip, per_item, simulate_annotations

Kind = Literal["any", "aggregator", "classifier"]
ROUNDING = 1e-6  # reordering sums changes only the last digits
TOLERANCE = 1e-3  # an iteration that stops at a tolerance may stop elsewhere
RANDOM_START_AGREEMENT = 0.95  # share of labels that must not change with another random start


class MethodCheckError(CrowdprismError, AssertionError):
    """A method breaks its contract; the message lists each broken check."""


@dataclass(frozen=True)
class Data:
    """What a method is fitted on: annotations, and features for classifiers."""

    annotations: Annotations
    features: NDArray[Any]  # (n_items, n_features)

    def arguments(self, method: Any) -> tuple[Any, ...]:
        """What the method's `fit` takes; gold is kept back, to judge by it."""
        shown = self.annotations.with_gold(None)
        return (self.features, shown) if kind_of(method) == "classifier" else (shown,)

    def take(self, index: Any) -> Data:
        return Data(self.annotations[index], self.features[index])

    def select(self, annotation: Any) -> Data:
        return Data(self.annotations.select(annotation), self.features)

    def change(self, **fields: Any) -> Data:
        return Data(replace(self.annotations, **fields), self.features)


@dataclass(frozen=True)
class Check:
    """One rule of the contract, and the kind of method it holds for."""

    name: str
    kind: Kind
    rule: Callable[[Any, Data], None]

    def run(self, method: Any) -> None:
        self.rule(method, sample_data())


CHECKS: list[Check] = []


def holds_for(kind: Kind) -> Callable[[Callable[[Any, Data], None]], Callable[[Any, Data], None]]:
    """Add a function of a method and data to the contract of a kind of method."""

    def add(rule: Callable[[Any, Data], None]) -> Callable[[Any, Data], None]:
        CHECKS.append(Check(rule.__name__, kind, rule))
        return rule

    return add


def kind_of(method: Any) -> Kind:
    """Classifiers take features and predict new items; aggregators do not."""
    return "classifier" if hasattr(method, "predict_proba") else "aggregator"


def check_method(method: Any) -> None:
    """Run every check that holds for an aggregator or classifier; raise one error that lists all that fail.

    Parameters
    ----------
    method
        An unfitted object with `fit`, `get_params` and `result_`, as made by `make_aggregator`.

    Examples
    --------
    >>> import crowdprism as cp
    >>> cp.check_method(cp.make_aggregator("majority-vote"))
    """
    checks = [check for check in CHECKS if check.kind in ("any", kind_of(method))]
    failed = []
    for check in checks:
        try:
            check.run(method)
        except UnsuitableDataError:
            continue
        except MethodCheckError as error:
            failed.append(f"\n  - {check.name.replace('_', ' ')}: {error}")
    if failed:
        raise MethodCheckError(f"{type(method).__name__} fails {len(failed)} of {len(checks)} checks:{''.join(failed)}")


def sample_data(n_items: int = 240, n_classes: int = 3, n_annotators: int = 12, labels: int = 4) -> Data:
    """Simulate annotators that any sensible method can learn from: mixed skill, and one who confuses classes."""
    random = stream(0, "method_checks")
    truth = np.arange(n_items) % n_classes
    skilled = one_coin(random.uniform(0.55, 0.95, n_annotators - 1), n_classes)
    confusions = np.concatenate([skilled, pair_flip(1, n_classes, flip=0.4)])
    annotations = simulate_annotations(truth, confusions, per_item(n_items, n_annotators, labels=labels))
    features = np.eye(n_classes)[truth] * 2 + random.normal(size=(n_items, n_classes))
    return Data(annotations, features.astype(np.float32))


def fit(method: Any, data: Data) -> Any:
    """Fit a fresh copy, so that checks do not disturb each other."""
    fresh = copy.deepcopy(method)
    fresh.fit(*data.arguments(method))
    return fresh


def probabilities(method: Any, data: Data) -> NDArray[Any]:
    return fit(method, data).result_.class_probabilities  # type: ignore[no-any-return]


def require(condition: bool, breach: str) -> None:
    if not condition:
        raise MethodCheckError(breach)


def require_valid_fit(method: Any, data: Data) -> None:
    require_valid(fit(method, data).result_, data.annotations)


def require_valid(result: FitResult, a: Annotations) -> None:
    """Names, shapes and probabilities of a result are as documented."""
    for names in ("items", "annotators", "classes"):
        same = getattr(result, names).tolist() == getattr(a, names).tolist()
        require(same, f"the {names} of the result are not those of the annotations")
    require_distribution(result.class_probabilities, (a.n_items, a.n_classes), "class_probabilities")
    if result.confusions is not None:
        require_distribution(result.confusions, (a.n_annotators, a.n_classes, a.n_classes), "confusions")
    if result.class_prior is not None:
        require_distribution(result.class_prior, (a.n_classes,), "class_prior")
    if result.skills is not None:
        require(result.skills.shape == (a.n_annotators,), f"skills has shape {result.skills.shape}")
        require(bool(np.isfinite(result.skills).all()), "skills is not finite")


def require_distribution(values: NDArray[Any], shape: tuple[int, ...], what: str) -> None:
    """An array of probability vectors has the right shape, is finite and not negative, and sums to one."""
    require(values.shape == shape, f"{what} has shape {values.shape}, not {shape}")
    require(bool(np.isfinite(values).all()), f"{what} is not finite")
    require(bool((values >= -ROUNDING).all()), f"{what} has negative entries")
    require(bool(np.allclose(values.sum(axis=-1), 1, atol=1e-4)), f"{what} does not sum to one")


def require_same(method: Any, first: NDArray[Any], second: NDArray[Any], what: str, *, redrawn: bool = False) -> None:
    """Two arrays of probabilities agree; if a random start was redrawn, most labels do."""
    if redrawn and "random_state" in method.get_params():
        require_same_labels(first, second, what)
        return
    difference = float(np.abs(first - second).max())
    require(difference < TOLERANCE, f"{what} changes class probabilities by {difference:.2g}")


def require_same_labels(first: NDArray[Any], second: NDArray[Any], what: str) -> None:
    agreement = float((first.argmax(axis=1) == second.argmax(axis=1)).mean())
    require(agreement >= RANDOM_START_AGREEMENT, f"{what} changes {1 - agreement:.0%} of the labels")


def save_and_load(fitted: Any) -> Any:
    """What `load` returns for a saved method; a result that cannot be loaded breaks the contract."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return load((fitted if hasattr(fitted, "save") else fitted.result_).save(f"{folder}/run"))
        except ResultFormatError as error:
            raise MethodCheckError(f"the saved result does not load: {error.__cause__ or error}") from error


@holds_for("any")
def fit_returns_the_method_itself(method: Any, data: Data) -> None:
    fresh = copy.deepcopy(method)
    require(fresh.fit(*data.arguments(method)) is fresh, "fit does not return self")


@holds_for("any")
def labels_are_better_than_chance(method: Any, data: Data) -> None:
    accuracy = float((probabilities(method, data).argmax(axis=1) == data.annotations.gold).mean())
    require(accuracy > 0.6, f"accuracy on easy data is {accuracy:.2f}")


@holds_for("any")
def the_same_seed_gives_the_same_result(method: Any, data: Data) -> None:
    first, second = probabilities(method, data), probabilities(method, data)
    require(np.array_equal(first, second), "two fits with the same seed differ")


@holds_for("any")
def the_random_state_of_numpy_is_left_alone(method: Any, data: Data) -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    fit(method, data)
    after = np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
    require(np.array_equal(before, after), "the fit drew from NumPy's global generator")


@holds_for("any")
def the_input_is_left_alone(method: Any, data: Data) -> None:
    label, features = data.annotations.label.copy(), data.features.copy()
    fit(method, data)
    require(np.array_equal(label, data.annotations.label), "the fit changes the annotations")
    require(np.array_equal(features, data.features), "the fit changes the features")


@holds_for("any")
def the_constructor_only_stores(method: Any, data: Data) -> None:
    params = method.get_params()
    clone = type(method)(**params)
    for name, value in clone.get_params().items():
        require(value is params[name], f"the constructor changes its parameter {name}")
    require(getattr(clone, "_result", None) is None, "a new object already has a result")


@holds_for("any")
def the_order_of_items_does_not_matter(method: Any, data: Data) -> None:
    order = stream(1, "method_checks").permutation(data.annotations.n_items)
    found = probabilities(method, data.take(order))[np.argsort(order)]
    require_same(method, probabilities(method, data), found, "reordering items", redrawn=True)


@holds_for("any")
def names_of_annotators_do_not_matter(method: Any, data: Data) -> None:
    names = name_array([f"person {place}" for place in range(data.annotations.n_annotators)])
    renamed = probabilities(method, data.change(annotators=names))
    require_same(method, probabilities(method, data), renamed, "renaming annotators")


@holds_for("any")
def the_order_of_classes_does_not_matter(method: Any, data: Data) -> None:
    a = data.annotations
    label = (a.n_classes - 1 - a.label).astype(a.label.dtype)
    found = probabilities(method, data.change(label=label, classes=name_array(a.classes[::-1]), gold=None))
    require_same(method, probabilities(method, data), found[:, ::-1], "reordering classes", redrawn=True)


@holds_for("any")
def a_saved_result_loads_as_it_was(method: Any, data: Data) -> None:
    fitted = fit(method, data)
    loaded = save_and_load(fitted)
    again = loaded if isinstance(loaded, FitResult) else loaded.result_
    same = np.array_equal(again.class_probabilities, fitted.result_.class_probabilities)
    require(same, "class probabilities differ after save and load")


GIVES_A_VALID_RESULT: dict[str, Callable[[Data], Data]] = {  # on these data, or refuses them
    "result_has_the_documented_shapes_and_names": lambda data: data,
    "items_without_annotations_get_probabilities": lambda data: data.select(data.annotations.item >= 20),
    "annotators_without_annotations_are_allowed": lambda data: data.select(data.annotations.annotator != 3),
    "one_annotator_is_enough_or_refused": lambda data: data.select(data.annotations.annotator == 0),
    "a_class_that_nobody_chose_is_allowed": lambda data: data.change(classes=name_array([0, 1, 2, 99])),
    "two_classes_work": lambda data: sample_data(n_items=300, n_classes=2),
    "thirty_classes_work": lambda data: sample_data(n_items=300, n_classes=30),
}
for name, make in GIVES_A_VALID_RESULT.items():
    CHECKS.append(Check(name, "any", lambda method, data, make=make: require_valid_fit(method, make(data))))  # type: ignore[misc]


@holds_for("any")
def the_order_of_rows_does_not_matter(method: Any, data: Data) -> None:
    a = data.annotations
    order = stream(2, "method_checks").permutation(a.n_annotations)
    rows = (a.items[a.item], a.annotators[a.annotator], a.classes[a.label])
    shuffled = Annotations.from_triplets(*(column[order] for column in rows))
    same = np.array_equal(probabilities(method, data), probabilities(method, Data(shuffled, data.features)))
    require(same, "annotations given in another order change the result")


@holds_for("any")
def weight_two_equals_the_annotation_twice(method: Any, data: Data) -> None:
    a = data.annotations
    twice = probabilities(method, Data(a.concat(a.select(a.label == 0)), data.features))
    heavy = probabilities(method, data.change(weight=np.where(a.label == 0, 2, 1).astype(np.float32)))
    redrawn = kind_of(method) == "classifier"  # training adds terms in another order and draws for each annotation
    require_same(method, twice, heavy, "weight 2 instead of a repeated annotation", redrawn=redrawn)


@holds_for("any")
def every_annotation_twice_leaves_the_labels(method: Any, data: Data) -> None:
    a = data.annotations
    once, twice = probabilities(method, data), probabilities(method, Data(a.concat(a), data.features))
    # Class probabilities become more certain, as twice the evidence should make them.
    require_same_labels(once, twice, "repeating every annotation")


@holds_for("any")
def an_annotator_without_annotations_changes_nothing(method: Any, data: Data) -> None:
    names = name_array([*data.annotations.annotators.tolist(), "nobody"])
    found = probabilities(method, data.change(annotators=names))
    require_same(method, probabilities(method, data), found, "an annotator without annotations", redrawn=True)


@holds_for("classifier")
def the_random_state_of_torch_is_left_alone(method: Any, data: Data) -> None:
    import torch

    before = torch.get_rng_state()
    fit(method, data)
    require(torch.equal(before, torch.get_rng_state()), "the fit drew from torch's global generator")


@holds_for("classifier")
def predictions_have_the_documented_shapes_and_names(method: Any, data: Data) -> None:
    fitted, a = fit(method, data), data.annotations
    require_distribution(fitted.predict_proba(data.features), (a.n_items, a.n_classes), "predict_proba")
    names = set(fitted.predict(data.features).tolist())
    require(names <= set(a.classes.tolist()), f"predict returns names that are not classes: {sorted(names)}")
    require(fitted.classes_.tolist() == a.classes.tolist(), "classes_ are not those of the annotations")
    if fitted.confusions_ is not None:
        posterior = fitted.label_posterior(data.features, a)
        require_distribution(posterior, (a.n_items, a.n_classes), "label_posterior")


@holds_for("classifier")
def a_last_batch_of_one_item_is_trained_on(method: Any, data: Data) -> None:
    require_valid_fit(copy.deepcopy(method).set_params(batch_size=8), data.take(np.arange(25)))


@holds_for("classifier")
def float32_and_float64_features_give_the_same_result(method: Any, data: Data) -> None:
    wide = probabilities(method, Data(data.annotations, data.features.astype(np.float64)))
    require_same(method, probabilities(method, data), wide, "float64 instead of float32")


@holds_for("classifier")
def further_items_without_annotations_are_accepted(method: Any, data: Data) -> None:
    fresh = copy.deepcopy(method)
    fresh.fit(*data.arguments(fresh), X_unlabelled=data.features[:30] + 0.1)
    require_valid(fresh.result_, data.annotations)


@holds_for("classifier")
def a_clone_gives_the_same_result(method: Any, data: Data) -> None:
    clone = type(method)(**method.get_params())
    same = np.array_equal(probabilities(method, data), probabilities(clone, data))
    require(same, "a copy made from get_params gives another result")


@holds_for("classifier")
def a_loaded_classifier_predicts_as_the_saved_one(method: Any, data: Data) -> None:
    fitted = fit(method, data)
    same = np.array_equal(fitted.predict_proba(data.features), save_and_load(fitted).predict_proba(data.features))
    require(same, "predictions differ after save and load")
