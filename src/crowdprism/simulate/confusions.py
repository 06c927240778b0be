"""Families of annotators, as confusion matrices `[annotator, true_class, given_label]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError
from crowdprism.results.confusion import normalize_rows
from crowdprism.seeding import stream

Confusions = NDArray[np.float64]
SPAMMER_LEAN = 1e-4  # as in the reference code; it keeps the matrices invertible


def one_coin(accuracies: Any, n_classes: int) -> Confusions:
    """Annotators who are correct with a fixed probability, with errors uniform over the other classes.

    Of the accuracies (n_annotators,), 1 is an expert, 1/n_classes a spammer, 0 an adversary.

    Examples
    --------
    >>> one_coin([0.8], 3)[0].round(1).tolist()
    [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    """
    skill = np.asarray(accuracies, dtype=float)
    for one in skill.ravel().tolist():
        require_share(one, "accuracy")
    right = np.eye(n_classes)
    wrong = (1 - right) / (n_classes - 1)
    return skill[:, None, None] * right + (1 - skill)[:, None, None] * wrong


def require_share(value: float, what: str) -> None:
    if not 0 <= value <= 1:
        raise InvalidParameterError(f"The {what} must lie between 0 and 1, not {value}.")


def require_sizes(n_annotators: int, n_classes: int) -> None:
    if n_annotators < 1 or n_classes < 2:
        raise InvalidParameterError(
            f"There must be at least 1 annotator and 2 classes, not {n_annotators} and {n_classes}."
        )


def spammers(n_annotators: int, n_classes: int, *, lean: float = SPAMMER_LEAN) -> Confusions:
    """Annotators whose labels are (almost) independent of the true class.

    The uniform probability of the true class is raised by `lean` before rows are normalised.
    """
    require_sizes(n_annotators, n_classes)
    matrix = normalize_rows(np.full((n_classes, n_classes), 1 / n_classes) + lean * np.eye(n_classes))
    return np.repeat(matrix[None], n_annotators, axis=0).astype(np.float64)


def one_label_spammers(labels: Any, n_classes: int) -> Confusions:
    """Annotators who give the same label to every item."""
    return np.repeat(np.eye(n_classes)[np.asarray(labels)][:, None, :], n_classes, axis=1)


def hammer_spammer(
    n_annotators: int, n_classes: int, *, hammer_share: float, lean: float = SPAMMER_LEAN, seed: int = 0
) -> Confusions:
    """Each annotator is perfect with probability `hammer_share`, else a spammer.

    Khetan, Lipton and Anandkumar (2018) use a lean of 0.01.
    """
    require_share(hammer_share, "share of hammers")
    hammer = stream(seed, "hammer_spammer").random(n_annotators) < hammer_share
    return np.where(hammer[:, None, None], np.eye(n_classes), spammers(n_annotators, n_classes, lean=lean))


def class_wise_hammer_spammer(n_annotators: int, n_classes: int, *, hammer_share: float, seed: int = 0) -> Confusions:
    """Each annotator knows each class with probability `hammer_share` and guesses (almost) uniformly for the others."""
    require_sizes(n_annotators, n_classes)
    require_share(hammer_share, "share of known classes")
    random = stream(seed, "class_wise_hammer_spammer")
    knows = random.random((n_annotators, n_classes)) < hammer_share
    lean = random.uniform(0.1, 0.11, (n_annotators, n_classes))
    guess = np.where(np.eye(n_classes, dtype=bool), 1 + lean[:, :, None], 1.0)
    return np.where(knows[:, :, None], np.eye(n_classes), normalize_rows(guess))


def pair_flip(n_annotators: int, n_classes: int, *, flip: float, partner: Any = None) -> Confusions:
    """Annotators who mistake each class for its `partner` (n_classes,), by default the next, with probability `flip`.

    Examples
    --------
    >>> pair_flip(1, 3, flip=0.4)[0].tolist()
    [[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.4, 0.0, 0.6]]
    """
    require_sizes(n_annotators, n_classes)
    require_share(flip, "probability of a flip")
    taken_for = (np.arange(n_classes) + 1) % n_classes if partner is None else np.asarray(partner)
    if sorted(taken_for.tolist()) != list(range(n_classes)) or (taken_for == np.arange(n_classes)).any():
        raise InvalidParameterError(
            "partner must be a permutation of the classes in which no class is its own partner."
        )
    matrix = (1 - flip) * np.eye(n_classes) + flip * np.eye(n_classes)[taken_for]
    return np.repeat(matrix[None], n_annotators, axis=0)


def random_partners(n_classes: int, *, seed: int = 0) -> NDArray[np.int64]:
    """A random permutation of the classes in which none is its own partner, for `pair_flip`.

    Examples
    --------
    >>> bool((random_partners(5) == np.arange(5)).any())
    False
    """
    require_sizes(1, n_classes)
    random = stream(seed, "random_partners")
    while True:  # about one permutation in e qualifies, so few are drawn
        partner = random.permutation(n_classes)
        if not (partner == np.arange(n_classes)).any():
            return partner


def symmetric_flip(n_annotators: int, n_classes: int, *, flip: float) -> Confusions:
    """Annotators who err with probability `flip`, uniformly over the other classes.

    The reference code gives each other class flip / n_classes, so that its rows do not sum to one.

    Examples
    --------
    >>> symmetric_flip(1, 3, flip=0.4)[0].round(1).tolist()
    [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]
    """
    require_sizes(n_annotators, n_classes)
    require_share(flip, "probability of a flip")
    return one_coin(np.full(n_annotators, 1 - flip), n_classes)


def random_confusions(n_annotators: int, n_classes: int, *, seed: int = 0) -> Confusions:
    """Rows of uniform random numbers, normalised: labels that depend on the true class, but not in a useful way."""
    require_sizes(n_annotators, n_classes)
    drawn = stream(seed, "random_confusions").random((n_annotators, n_classes, n_classes))
    return normalize_rows(drawn).astype(np.float64)


def diagonally_dominant(n_annotators: int, n_classes: int, *, noise: float, seed: int = 0) -> Confusions:
    """Identity plus `noise` times uniform random numbers in 0..1, rows normalised."""
    require_sizes(n_annotators, n_classes)
    if not 0 <= noise < np.inf:
        raise InvalidParameterError(f"The noise must be a number of at least 0, not {noise}.")
    random = stream(seed, "diagonally_dominant").random((n_annotators, n_classes, n_classes))
    return normalize_rows(np.eye(n_classes) + noise * random).astype(np.float64)


def one_good_among_spammers(n_annotators: int, n_classes: int, *, noise: float, seed: int = 0) -> Confusions:
    """One diagonally dominant annotator, at a random place among spammers (the CIFAR-10 setting of GeoCrowdNet)."""
    return _with_one_good(spammers(n_annotators, n_classes), noise, seed, "one_good_among_spammers")


def one_good_among_random(n_annotators: int, n_classes: int, *, noise: float, seed: int = 0) -> Confusions:
    """One diagonally dominant annotator, at a random place among random ones."""
    others = random_confusions(n_annotators, n_classes, seed=seed)
    return _with_one_good(others, noise, seed, "one_good_among_random")


def _with_one_good(crowd: Confusions, noise: float, seed: int, purpose: str) -> Confusions:
    place = stream(seed, purpose).integers(len(crowd))
    crowd[place] = diagonally_dominant(1, crowd.shape[1], noise=noise, seed=seed)[0]
    return crowd


def one_perfect_among_dominant(n_annotators: int, n_classes: int, *, noise: float, seed: int = 0) -> Confusions:
    """One perfect annotator, at a random place among diagonally dominant ones."""
    crowd = diagonally_dominant(n_annotators, n_classes, noise=noise, seed=seed)
    crowd[stream(seed, "one_perfect_among_dominant").integers(n_annotators)] = np.eye(n_classes)
    return crowd


def adversaries(n_annotators: int, n_classes: int) -> Confusions:
    """Annotators who always give the next class instead of the true one."""
    return pair_flip(n_annotators, n_classes, flip=1.0)
