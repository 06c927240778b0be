"""The plotting helpers show the numbers they were given."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.errors import InvalidParameterError, MissingDependencyError, UnsuitableDataError

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: plots)")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")

from crowdprism.plots import plot_annotators, plot_confusion, plot_simplex, plot_training  # noqa: E402


@pytest.fixture
def result() -> cp.FitResult:
    a = cp.Annotations.from_dense(
        [[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]] * 5, annotator_names=["ann", "bob", "cy"]
    )
    return cp.make_aggregator("dawid-skene").fit(a).result_


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def test_a_confusion_is_drawn_with_rows_as_true_classes(result: cp.FitResult) -> None:
    ax = plot_confusion(result, "cy")
    np.testing.assert_allclose(ax.images[0].get_array(), result.confusions[2])
    assert ax.get_ylabel() == "true class"
    assert ax.get_title() == "cy"


def test_without_a_name_the_crowds_mean_is_drawn(result: cp.FitResult) -> None:
    ax = plot_confusion(result)
    np.testing.assert_allclose(ax.images[0].get_array(), result.confusions.mean(axis=0))


def test_annotators_are_drawn_from_the_least_accurate(result: cp.FitResult) -> None:
    ax = plot_annotators(result)
    drawn = ax.lines[0].get_xdata()
    np.testing.assert_allclose(drawn, np.sort(result.annotator_accuracy))
    assert ax.get_yticklabels()[0].get_text() == "cy"


def test_every_history_is_a_line(result: cp.FitResult) -> None:
    ax = plot_training(result)
    assert [line.get_label() for line in ax.lines] == [name.replace("_", " ") for name in result.history]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), next(iter(result.history.values())))


def test_the_axes_given_are_used(result: cp.FitResult) -> None:
    ax = pyplot.subplots()[1]
    assert plot_training(result, ax=ax) is ax


def test_what_a_method_does_not_have_is_said(result: cp.FitResult) -> None:
    bare = cp.FitResult("bare", result.items, result.annotators, result.classes, result.class_probabilities)
    for plot in (plot_confusion, plot_annotators, plot_training):
        with pytest.raises(UnsuitableDataError, match="bare"):
            plot(bare)
    with pytest.raises(InvalidParameterError, match="1 of 1 names are not annotators: 'zoe'"):
        plot_confusion(result, "zoe")


def test_without_matplotlib_the_way_out_is_named(result: cp.FitResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        plot_training(result)


def test_a_triangle_shows_points_hull_and_circle() -> None:
    ax = plot_simplex([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [2, 2, 16], [1 / 3, 1 / 3, 1 / 3]])
    triangle, circle, hull = (line.get_xydata() for line in ax.lines)
    assert len(hull) == 4  # three points and back; the middle lies inside
    assert np.abs(np.linalg.norm(circle - [0.5, np.sqrt(1 / 12)], axis=1) - np.sqrt(1 / 12)).max() < 1e-9
    assert np.linalg.norm(hull - [0.5, np.sqrt(0.75)], axis=1).min() == pytest.approx(0.2 * np.sqrt(0.75))
    assert len(triangle) == 4


def test_a_triangle_takes_confusions_by_label_and_refuses_other_numbers_of_classes() -> None:
    points = plot_simplex(np.eye(3)[None]).collections[0].get_offsets()
    assert np.allclose(points, [[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    with pytest.raises(UnsuitableDataError, match="these points have 4"):
        plot_simplex(np.eye(4))
