"""Every method keeps the contract, and the checks notice those that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdprism.aggregators import AGGREGATORS, MajorityVote, make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.classifiers import CLASSIFIERS, make_classifier
from crowdprism.comparison.contract import CHECKS, Check, Kind, MethodCheckError, check_method, sample_data
from crowdprism.errors import UnsuitableDataError
from crowdprism.results import FitResult

# On ordinary data no method may refuse; on these it may, if it names a method that works.
MAY_REFUSE = {
    "items_without_annotations_get_probabilities",
    "one_annotator_is_enough_or_refused",
    "a_class_that_nobody_chose_is_allowed",
    "two_classes_work",
    "thirty_classes_work",
}


def checks_for(kind: Kind) -> list[Check]:
    return [check for check in CHECKS if check.kind in ("any", kind)]


@pytest.mark.parametrize("check", checks_for("aggregator"), ids=lambda check: check.name)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_every_aggregator_keeps_the_contract(name: str, check: Check) -> None:
    try:
        check.run(make_aggregator(name))
    except UnsuitableDataError as refusal:
        if check.name not in MAY_REFUSE or not any(other in str(refusal) for other in AGGREGATORS):
            raise
        pytest.skip(f"refused with a reason: {refusal}")


CLASSIFIER_NAMES = sorted(CLASSIFIERS)
# As quick as a method can learn the sample crowd; the checks of invariance compare two trainings and need a few more.
QUICK: dict[str, Any] = {
    "epochs": 2,
    "input_noise": 0.0,
    "temperature": 1.0,
    "batch_size": 60,
    "learning_rate": 0.05,
    "network_options": {"hidden": (16,), "dropout": 0.0},
}
LONGER = {
    "labels_are_better_than_chance",
    "the_order_of_items_does_not_matter",
    "the_order_of_classes_does_not_matter",
}


def quick_classifier(name: str, **params: Any) -> Any:
    options = {**QUICK, **params}
    if name in ("raykar", "gaussian-process"):
        options.pop("network_options")  # it is linear
    return make_classifier(name, **options)


@pytest.mark.parametrize("check", checks_for("classifier"), ids=lambda check: check.name)
@pytest.mark.parametrize("name", CLASSIFIER_NAMES)
@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_every_classifier_keeps_the_contract(name: str, check: Check) -> None:
    method = quick_classifier(name, epochs=20) if check.name in LONGER else quick_classifier(name)
    try:
        check.run(method)
    except UnsuitableDataError as refusal:
        if check.name not in MAY_REFUSE or not any(other in str(refusal) for other in CLASSIFIER_NAMES):
            raise
        pytest.skip(f"refused with a reason: {refusal}")


@pytest.mark.parametrize("name", CLASSIFIER_NAMES)
def test_every_classifier_trains_on_cuda(name: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this machine has no cuda device")
    data = sample_data()
    fitted = quick_classifier(name, device="cuda").fit(data.features, data.annotations)
    assert np.isfinite(fitted.predict_proba(data.features)).all()


class Broken(MajorityVote):
    """A majority vote with one fault, chosen by name."""

    def __init__(self, fault: str = "none") -> None:
        super().__init__()
        self.fault = fault

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"fault": self.fault}

    def _aggregate(self, annotations: Annotations) -> FitResult:
        result = super()._aggregate(annotations)
        probabilities = result.class_probabilities.copy()
        if self.fault == "nan":
            probabilities[0] = np.nan
        elif self.fault == "global seed":
            probabilities = np.random.dirichlet(np.ones(annotations.n_classes), annotations.n_items)  # noqa: NPY002
        elif self.fault == "row order":
            probabilities = np.roll(probabilities, 1, axis=0)
        elif self.fault == "ignores weight":
            from dataclasses import replace

            return super()._aggregate(replace(annotations, weight=None))
        return self._build_result(annotations, probabilities)


@pytest.mark.parametrize(
    ("fault", "noticed"),
    [
        ("nan", "not finite"),
        ("global seed", "global generator"),
        ("row order", "better than chance"),
        ("ignores weight", "weight 2"),
    ],
)
def test_a_broken_method_is_found_out(fault: str, noticed: str) -> None:
    check_method(Broken())
    with pytest.raises(MethodCheckError, match=noticed):
        check_method(Broken(fault))


def test_a_check_of_one_kind_is_not_run_on_the_other() -> None:
    names = {kind: {check.name for check in checks_for(kind)} for kind in ("aggregator", "classifier")}
    assert names["aggregator"] < names["classifier"]
    assert "the_random_state_of_torch_is_left_alone" in names["classifier"] - names["aggregator"]
    with pytest.raises(MethodCheckError, match=f"of {len(names['aggregator'])} checks"):
        check_method(Broken("nan"))
