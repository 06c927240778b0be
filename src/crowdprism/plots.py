"""Plots for notebooks and papers, with matplotlib (`pip install crowdprism[plots]`).

Each takes a `FitResult`, draws into `ax` where one is given, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdprism.annotations.names import known_positions
from crowdprism.errors import MissingDependencyError, UnsuitableDataError
from crowdprism.results import FitResult
from crowdprism.results.confusion import mean_confusion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE = "#0b4f94", "#a63f03"  # told apart with any common colour blindness
MOST_CELLS_WITH_NUMBERS = 15 * 15
MOST_NAMES = 40


def new_axes(ax: Axes | None, **size: Any) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingDependencyError("Plots need matplotlib: pip install crowdprism[plots].") from error
    axes: Axes = pyplot.subplots(layout="constrained", **size)[1]
    return axes


def plot_confusion(result: FitResult, annotator: Hashable | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw what an annotator makes of each class: rows are true classes, columns given labels.

    Parameters
    ----------
    annotator
        Name; by default the mean over annotators, each counting by the labels given.

    Examples
    --------
    >>> import crowdprism as cp
    >>> result = cp.make_aggregator("dawid-skene").fit([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]]).result_
    >>> plot_confusion(result, annotator=2).get_ylabel()
    'true class'
    """
    if result.confusions is None:
        raise UnsuitableDataError(f"{result.method} learns no confusion matrices; dawid-skene does.")
    if annotator is None:
        matrix, title = mean_confusion(result.confusions, result.labels_per_annotator), "all annotators"
    else:
        place = known_positions(result.annotators, [annotator], "annotators")[0]
        matrix, title = result.confusions[place], str(annotator)
    ax = new_axes(ax)
    picture = ax.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    names = [str(name) for name in result.classes]
    ax.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 3 else 0)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="given label", ylabel="true class", title=title)
    if matrix.size <= MOST_CELLS_WITH_NUMBERS:
        for (row, column), value in np.ndenumerate(matrix):
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.5 else "black")
    else:
        ax.figure.colorbar(picture, ax=ax, label="probability")
    return ax


def plot_annotators(result: FitResult, *, ax: Axes | None = None) -> Axes:
    """Draw the accuracy of every annotator, the lowest at the bottom; with intervals where the method has them."""
    accuracy = result.annotator_accuracy if result.annotator_accuracy is not None else result.skills
    if accuracy is None:
        raise UnsuitableDataError(f"{result.method} says nothing of annotators; dawid-skene does.")
    order = np.argsort(accuracy, kind="stable")
    ax = new_axes(ax, figsize=(5.0, 1.5 + 0.2 * min(len(order), MOST_NAMES)))
    height = np.arange(len(order))
    interval = result.annotator_accuracy_interval()
    if interval is not None:
        ax.hlines(height, interval[order, 0], interval[order, 1], color=BLUE, alpha=0.35)
    ax.plot(accuracy[order], height, "o", color=BLUE, markersize=4)
    if len(order) <= MOST_NAMES:
        ax.set_yticks(height, [str(name) for name in result.annotators[order]])
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(order)} annotators")
    if result.annotator_accuracy is not None:
        chance = float(np.max(result.class_probabilities.mean(axis=0)))
        ax.axvline(chance, color=ORANGE, linestyle="--", linewidth=1)
        ax.set(xlim=(0, 1), xlabel="accuracy")
    else:
        ax.set_xlabel("skill")
    return ax


def plot_training(result: FitResult, *, ax: Axes | None = None) -> Axes:
    """Draw every history of the fit, such as the objective, over its steps."""
    if not any(len(values) for values in result.history.values()):
        raise UnsuitableDataError(f"{result.method} keeps no history: there was nothing to iterate.")
    ax = new_axes(ax)
    for name, values in result.history.items():
        ax.plot(np.arange(1, len(values) + 1), values, label=name.replace("_", " "))
    ax.set_xlabel("step")
    ax.legend()
    return ax


def plot_simplex(rows: Any, *, names: Sequence[str] = ("1", "2", "3"), ax: Axes | None = None) -> Axes:
    """Draw points of a triangle, for three classes: are they spread enough to tell the classes apart?

    The corners are certainty. Class specialists, or anchors, are points near every corner; the sufficiently scattered
    condition asks that the points' hull contains the circle. Both as the appendix of Ibrahim et al. (2023) draws them.

    Parameters
    ----------
    rows
        (n_points, 3), not negative, divided by their sums: class probabilities of items, or confusions
        (n_annotators, 3, 3), of which the columns are drawn: what a label says about the true class.
    """
    points = np.asarray(rows, dtype=float)
    if points.ndim == 3:
        points = np.swapaxes(points, 1, 2).reshape(-1, points.shape[1])
    if points.shape[1:] != (3,):
        raise UnsuitableDataError(f"A triangle shows three classes; these points have {points.shape[-1]}.")
    points = points[points.sum(axis=1) > 0]
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    flat = points / points.sum(axis=1, keepdims=True) @ corners
    ax = new_axes(ax)
    ax.plot(*corners[[0, 1, 2, 0]].T, color="black", linewidth=1)
    turn = np.linspace(0, 2 * np.pi, 200)
    radius = np.sqrt(1 / 12)  # of the largest circle in the triangle
    ax.plot(0.5 + radius * np.cos(turn), radius * (1 + np.sin(turn)), color="grey", linestyle="--", linewidth=1)
    ax.scatter(flat[:, 0], flat[:, 1], color=BLUE, s=12, zorder=3)
    ax.plot(*outline(flat).T, color=ORANGE, linewidth=1)
    for corner, name, side in zip(corners, names, ((-12, -8), (6, -8), (0, 6)), strict=True):
        ax.annotate(name, corner, xytext=side, textcoords="offset points")
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def outline(points: Any) -> Any:
    """The points' convex hull as a closed line; the points themselves where they have no area."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        around = ConvexHull(points).vertices
    except (QhullError, ValueError):
        return points
    return points[np.append(around, around[0])]
