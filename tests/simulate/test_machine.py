"""Machine annotators are what their lists say, repeat with their seed, and are as able as they should be."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sklearn.datasets import load_digits

from crowdprism.errors import InvalidParameterError
from crowdprism.simulate import MachineAnnotator, machine_annotations, machine_crowd, machine_list

PIXELS, DIGITS = load_digits(return_X_y=True)
IMAGES = PIXELS.reshape(-1, 8, 8)
POOL, OTHERS = slice(0, 1000), slice(1000, None)


def test_the_list_for_fifteen_annotators_is_that_of_the_reference() -> None:
    names = [annotator.name for annotator in machine_list(15, case=1)]
    assert names == [
        *("svm-linear-expert", "cnn-5", "knn-3", "fcnn-10", "logistic-10"),
        *("svm-rbf", "cnn-10", "knn-5-expert", "fcnn-15", "logistic-10"),
        *("svm-poly", "cnn-15", "knn-7", "fcnn-20", "logistic-10"),
    ]
    sizes = [annotator.n_train for annotator in machine_list(20, case=1) if annotator.kind == "logistic"]
    assert sizes == [100, 200, 300, 400]
    assert [annotator.name for annotator in machine_list(20, case=1)][15:19] == [
        *("svm-linear-expert", "cnn-20", "knn-10", "fcnn-25")
    ]


def test_case_two_has_no_experts_and_drawn_experts_are_one_in_ten() -> None:
    assert not any(annotator.expert for annotator in machine_list(25, case=2))
    share = np.mean([one.expert for one in machine_list(3000, case=1, experts="drawn", seed=1)])
    assert share == pytest.approx(0.1, abs=0.02)


def test_every_kind_learns_digits_to_the_degree_that_its_training_allows() -> None:
    kinds = [
        MachineAnnotator("svm", "linear", n_train=400),
        MachineAnnotator("svm", "rbf", n_train=400),
        MachineAnnotator("svm", "poly", n_train=400),
        MachineAnnotator("knn", 5, n_train=400),
        MachineAnnotator("logistic", 150, n_train=400),
        MachineAnnotator("fcnn", 40, n_train=400),
        MachineAnnotator("cnn", 15, n_train=400),
    ]
    crowd = machine_crowd(IMAGES[POOL], DIGITS[POOL], kinds)
    accuracies = crowd.accuracies(IMAGES[OTHERS], DIGITS[OTHERS])
    assert crowd.n_train == (400,) * 7
    assert (accuracies[:4] > 0.85).all()
    assert (accuracies[4:] > 0.4).all()


def test_more_epochs_and_more_items_make_a_better_annotator() -> None:
    kinds = [MachineAnnotator("fcnn", 5, n_train=100), MachineAnnotator("fcnn", 20, expert=True)]
    crowd = machine_crowd(IMAGES[POOL], DIGITS[POOL], kinds)
    weak, expert = crowd.accuracies(IMAGES[OTHERS], DIGITS[OTHERS])
    assert expert > 0.8 > weak


def test_the_mistaken_labels_of_the_reference_bring_logistic_regression_to_chance_and_touch_no_other() -> None:
    kinds = [MachineAnnotator("logistic", 150, n_train=300), MachineAnnotator("knn", 3)]
    right = machine_crowd(IMAGES[POOL], DIGITS[POOL], kinds).accuracies(IMAGES[OTHERS], DIGITS[OTHERS])
    wrong = machine_crowd(IMAGES[POOL], DIGITS[POOL], kinds, lr_label_bug=True).accuracies(
        IMAGES[OTHERS], DIGITS[OTHERS]
    )
    assert right[0] > 0.4
    assert wrong[0] < 0.25
    assert wrong[1] == right[1]


def test_the_same_seed_gives_the_same_annotations_and_global_random_state_is_left_alone() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002

    def made(seed: int, **options):
        return machine_annotations(
            IMAGES, DIGITS, n_items=300, n_annotators=5, case=2, pool_size=900, seed=seed, probability=0.5, **options
        )

    first, again, other = made(1), made(1), made(2)
    assert first.annotations == again.annotations
    assert first.annotations != other.annotations
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    same_crowd = made(2, crowd_seed=1)
    assert same_crowd.crowd.n_train == first.crowd.n_train
    assert not np.array_equal(same_crowd.items, first.items)


def test_labels_are_what_the_annotators_predict_and_gold_is_the_truth() -> None:
    made = machine_annotations(IMAGES, DIGITS, n_items=200, n_annotators=3, case=2, pool_size=900, probability=0.4)
    a = made.annotations
    for place in range(3):
        own = a.annotator == place
        assert np.array_equal(a.label[own], made.crowd.predict(IMAGES[made.items[a.item[own]]], place))
    assert np.array_equal(a.gold, DIGITS[made.items])
    assert a.n_annotations / 600 == pytest.approx(0.4, abs=0.08)
    assert "below 50 %" in str(made.report)


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda: machine_list(0, case=1), "at least one"),
        (lambda: machine_list(5, case=3), "with experts"),
        (lambda: machine_crowd(PIXELS, DIGITS, [MachineAnnotator("cnn", 5)]), "Choose annotators without cnn"),
        (lambda: machine_crowd(IMAGES[:50], DIGITS[:50], [MachineAnnotator("knn", 5)]), "pool has only 50"),
        (lambda: machine_crowd(IMAGES[:50], DIGITS[:40], [MachineAnnotator("knn", 5)]), "50 rows of features but 40"),
        (lambda: machine_crowd(IMAGES, DIGITS, [MachineAnnotator("svm", "sigmoid")]), "linear, rbf, poly"),
        (lambda: machine_crowd(IMAGES, DIGITS, [MachineAnnotator("tree", 3)]), "svm, knn, logistic"),
        (lambda: machine_crowd(IMAGES, DIGITS, [MachineAnnotator("knn", 0)]), "neighbours"),
        (lambda: machine_annotations(IMAGES, DIGITS, n_items=1500, n_annotators=5, case=2, pool_size=500), "1797"),
    ],
)
def test_impossible_requests_are_refused_with_the_reason(mistake, told: str) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        mistake()


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("CROWDPRISM_DATA"), reason="CROWDPRISM_DATA names no folder with MNIST")
def test_on_mnist_accuracies_lie_where_the_paper_reports_them() -> None:
    from crowdprism import load_dataset

    mnist = load_dataset("mnist").part("train", features="images")
    made = machine_annotations(mnist.features, mnist.gold, n_items=1000, n_annotators=15, case=1, lr_label_bug=True)
    per_cent = 100 * made.report.accuracies
    assert (per_cent > 90).sum() == 2
    assert per_cent.min() < 20
    assert per_cent.max() == pytest.approx(95.27, abs=2)
