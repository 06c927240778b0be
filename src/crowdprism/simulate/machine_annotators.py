"""Which machine annotators there are, as lists, and the accuracies published for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError
from crowdprism.seeding import stream

MachineKind = Literal["svm", "knn", "logistic", "fcnn", "cnn"]
Case = Literal[1, 2]
EXPERT_SIZE = 9000  # the reference code; the paper's text says 10 000
SMALL_SIZES = (100, 200, 300, 400)  # the reference code; the paper's text says 100 to 500
EXPERT_PROBABILITY = 0.1
EXPERT_THRESHOLD = 90.0


@dataclass(frozen=True)
class MachineAnnotator:
    """One annotator: what is trained, on how many items, and how.

    Attributes
    ----------
    setting
        Kernel of a support vector machine, number of neighbours, or epochs of a network.
    n_train
        Training items; None is drawn from `SMALL_SIZES` (experts always take `EXPERT_SIZE`).
    """

    kind: MachineKind
    setting: str | int
    n_train: int | None = None
    expert: bool = False

    @property
    def name(self) -> str:
        """Kind and setting, such as `svm-linear` or `cnn-10`."""
        return f"{self.kind}-{self.setting}{'-expert' if self.expert else ''}"


KERNELS = ("linear", "rbf", "poly")
NEIGHBOURS = (3, 5, 7, 10)
CNN_EPOCHS = (5, 10, 15, 20)
FCNN_EPOCHS = (10, 15, 20, 25)
LOGISTIC_SIZES = (100, 200, 300, 400)
LOGISTIC_EPOCHS = 10
# The reference's experts are a linear machine and 5 neighbours; a third, the linear machine of the fourth row, is
# ours, so that 20 annotators hold the three above 90 % that the paper reports.
EXPERT_PLACES = {0, 7, 15}

FIVE_WITHOUT_EXPERTS = (
    MachineAnnotator("svm", "linear"),
    MachineAnnotator("logistic", LOGISTIC_EPOCHS),
    MachineAnnotator("knn", 5),
    MachineAnnotator("cnn", 5),
    MachineAnnotator("fcnn", 10),
)


def machine_list(
    n_annotators: int, *, case: Case, experts: Literal["listed", "drawn"] = "listed", seed: Any = 0
) -> list[MachineAnnotator]:
    """The annotators of the published experiments on MNIST and Fashion-MNIST, by case and number.

    Rows of five (SVM, CNN, neighbours, hidden layer, logistic regression) with settings that change from row to
    row, as in the reference code for 15 and 20 annotators; further rows go on in the same way. Case 2 with up to
    five annotators has a list of its own.

    Parameters
    ----------
    case
        1 with experts, 2 without.
    experts
        For case 1: fixed places as in the reference code (`"listed"`), or each annotator with probability 0.1 as in
        the paper's text (`"drawn"`).

    Examples
    --------
    >>> [annotator.name for annotator in machine_list(5, case=2)]
    ['svm-linear', 'logistic-10', 'knn-5', 'cnn-5', 'fcnn-10']
    >>> [place for place, one in enumerate(machine_list(15, case=1)) if one.expert]
    [0, 7]
    """
    if n_annotators < 1:
        raise InvalidParameterError(f"There must be at least one annotator, not {n_annotators}.")
    if case not in (1, 2):
        raise InvalidParameterError(f"case must be 1 (with experts) or 2 (without), not {case!r}.")
    if experts not in ("listed", "drawn"):
        raise InvalidParameterError(f'experts must be "listed" or "drawn", not {experts!r}.')
    if case == 2 and n_annotators <= len(FIVE_WITHOUT_EXPERTS):
        return list(FIVE_WITHOUT_EXPERTS[:n_annotators])
    listed = [_of_place(place) for place in range(n_annotators)]
    if case == 2:
        return listed
    drawn = stream(seed, "machine experts").random(n_annotators) < EXPERT_PROBABILITY
    chosen = EXPERT_PLACES if experts == "listed" else set(np.flatnonzero(drawn).tolist())
    return [replace(one, expert=True, n_train=None) if place in chosen else one for place, one in enumerate(listed)]


def _of_place(place: int) -> MachineAnnotator:
    row, column = divmod(place, 5)
    size = LOGISTIC_SIZES[row % len(LOGISTIC_SIZES)]
    return (
        MachineAnnotator("svm", KERNELS[row % len(KERNELS)]),
        MachineAnnotator("cnn", CNN_EPOCHS[row % len(CNN_EPOCHS)]),
        MachineAnnotator("knn", NEIGHBOURS[row % len(NEIGHBOURS)]),
        MachineAnnotator("fcnn", FCNN_EPOCHS[row % len(FCNN_EPOCHS)]),
        MachineAnnotator("logistic", LOGISTIC_EPOCHS, n_train=size),
    )[column]


@dataclass(frozen=True)
class PublishedAccuracies:
    """Range of annotator accuracies in per cent that the paper gives, and how many are above or below a mark."""

    lowest: float
    highest: float
    remark: str

    def __str__(self) -> str:
        return f"{self.lowest:.2f} to {self.highest:.2f} %, {self.remark}"


# Ibrahim, Nguyen and Fu (ICLR 2023), by data set, case and number of annotators
PUBLISHED_ACCURACIES = {
    ("mnist", 1, 15): PublishedAccuracies(3.15, 95.27, "2 above 90 %"),
    ("mnist", 1, 20): PublishedAccuracies(3.24, 95.73, "3 above 90 %"),
    ("mnist", 2, 5): PublishedAccuracies(15.88, 82.23, "2 below 50 %"),
}


@dataclass(frozen=True)
class AccuracyReport:
    """Accuracies of machine annotators beside the published range; `str()` gives a readable page."""

    names: tuple[str, ...]
    accuracies: NDArray[np.float64]  # shares of 1
    published: PublishedAccuracies | None = None

    def __str__(self) -> str:
        per_cent = 100 * self.accuracies
        above = int((per_cent > EXPERT_THRESHOLD).sum())
        below = int((per_cent < 50).sum())
        lines = [f"{name:>20} {value:6.2f} %" for name, value in zip(self.names, per_cent, strict=True)]
        lines.append(f"measured {per_cent.min():.2f} to {per_cent.max():.2f} %, {above} above 90 %, {below} below 50 %")
        if self.published is not None:
            lines.append(f"published {self.published}")
        return "\n".join(lines)
