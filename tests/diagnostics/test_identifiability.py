"""Findings about identifiability on crowds whose answer is known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.diagnostics.identifiability import NEEDS_CONFUSIONS, examine, favoured_regularizer
from crowdprism.errors import InvalidParameterError
from crowdprism.results import FitResult
from crowdprism.simulate import one_coin, per_item, simulate_annotations


def crowd(n_classes: int, accuracies: list[float], n_items: int = 300) -> Annotations:
    pairs = per_item(n_items, len(accuracies), labels=min(3, len(accuracies)))
    return simulate_annotations(np.arange(n_items) % n_classes, one_coin(accuracies, n_classes), pairs)


def result_of(annotations: Annotations, confusions: np.ndarray | None, shares: np.ndarray) -> FitResult:
    return FitResult(
        method="by-hand",
        items=annotations.items,
        annotators=annotations.annotators,
        classes=annotations.classes,
        class_probabilities=shares,
        confusions=confusions,
    )


@pytest.fixture(scope="module")
def perfect() -> tuple[FitResult, Annotations]:
    annotations = crowd(3, [1.0, 1.0, 1.0])
    shares = np.eye(3)[np.arange(300) % 3]
    return result_of(annotations, np.repeat(np.eye(3)[None], 3, axis=0), shares), annotations


def test_a_perfect_crowd_meets_every_geometric_condition(perfect: tuple[FitResult, Annotations]) -> None:
    found = examine(*perfect)
    for name in ("class specialists", "anchors", "scattering of confusions", "scattering of class probabilities"):
        assert found[name].severity == "good", found[name]
    assert found["class specialists"].value == 0
    assert found["regulariser"].details["favours"] == "either"


def test_spammers_leave_the_confusions_degenerate(perfect: tuple[FitResult, Annotations]) -> None:
    result, annotations = perfect
    found = examine(replace(result, confusions=np.full((3, 3, 3), 1 / 3)), annotations)
    assert found["rank of confusions"].severity == "warning"
    assert found["scattering of confusions"].severity == "warning"
    assert found["regulariser"].details["favours"] == "neither"
    assert found.severity == "warning"


def test_unsure_items_and_sure_annotators_favour_w(perfect: tuple[FitResult, Annotations]) -> None:
    result, annotations = perfect
    unsure = 0.4 * np.asarray(result.class_probabilities) + 0.2
    assert examine(replace(result, class_probabilities=unsure), annotations)["regulariser"].details["favours"] == "W"


def test_sure_items_and_unsure_annotators_favour_f(perfect: tuple[FitResult, Annotations]) -> None:
    result, annotations = perfect
    found = examine(replace(result, confusions=one_coin([0.6, 0.6, 0.6], 3)), annotations)
    assert found["regulariser"].details["favours"] == "F"


def test_theorem_three_in_all_cases() -> None:
    def choice(*flags: bool) -> str:
        names = ("confusions_scattered", "items_scattered", "confusions_rank", "items_rank")
        return favoured_regularizer(**dict(zip(names, flags, strict=True)))

    assert choice(True, True, True, True) == "either"
    assert choice(False, True, True, False) == "F"
    assert choice(True, False, False, True) == "W"
    assert choice(True, True, False, False) == "neither"


def test_swapped_classes_are_reported(perfect: tuple[FitResult, Annotations]) -> None:
    result, annotations = perfect
    swapped = np.repeat(np.eye(3)[[1, 0, 2]][None], 3, axis=0)
    finding = examine(replace(result, confusions=swapped), annotations)["class order"]
    assert finding.severity == "warning"
    assert finding.value == pytest.approx(2 / 3)
    assert finding.remedy


def test_crowds_that_share_no_item_are_reported() -> None:
    annotations = Annotations.from_dense([[0, 0, -1, -1]] * 10 + [[-1, -1, 1, 1]] * 10)
    result = make_aggregator("dawid-skene", use_gold=False).fit(annotations).result_
    assert examine(result, annotations)["co-labelling"].severity == "warning"


def test_a_result_without_confusions_says_which_findings_are_impossible() -> None:
    annotations = crowd(3, [0.8] * 4)
    shares = np.full((300, 3), 1 / 3)
    found = examine(result_of(annotations, None, shares), annotations)
    assert {finding.name for finding in found if finding.sentence.startswith("Not checked")} == set(NEEDS_CONFUSIONS)
    assert found["anchors"].severity != "note"
    assert "by-hand gives none" in found["regulariser"].sentence


@pytest.mark.parametrize(("n_classes", "words"), [(2, "two classes"), (60, "Linear programs are off")])
def test_few_and_many_classes_say_which_certificates_are_off(n_classes: int, words: str) -> None:
    annotations = crowd(n_classes, [0.9] * 5)
    found = examine(make_aggregator("majority-vote", use_gold=False).fit(annotations).result_, annotations)
    assert words in found["scattering of confusions"].sentence


def test_the_bound_admits_that_it_is_vacuous(perfect: tuple[FitResult, Annotations]) -> None:
    layer = SimpleNamespace(in_features=20, out_features=3)
    network = SimpleNamespace(modules=lambda: iter([layer]))
    without, with_network = examine(*perfect), examine(*perfect, network=network, input_norm=50.0)
    assert "vacuous" in without["error bound"].sentence
    assert "left out" in without["error bound"].sentence
    assert with_network["error bound"].value > without["error bound"].value


def test_annotations_of_another_fit_are_an_error(perfect: tuple[FitResult, Annotations]) -> None:
    with pytest.raises(InvalidParameterError, match="300 items"):
        examine(perfect[0], crowd(3, [0.8, 0.8, 0.8], n_items=200))
