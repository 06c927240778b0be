"""Families of annotators, as confusion matrices `[annotator, true_class, given_label]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.confusion import normalize_rows
from crowdprism.errors import InvalidParameterError
from crowdprism.seeding import stream

Confusions = NDArray[np.float64]
SPAMMER_LEAN = 1e-4  # the reference's spammers lean to the truth by this much, which keeps matrices invertible


def one_coin(accuracies: Any, n_classes: int) -> Confusions:
    """Annotators who are right with a fixed probability and otherwise pick any other class evenly.

    Parameters
    ----------
    accuracies
        (n_annotators,) probability of a right label. 1 is an expert, 1/n_classes a spammer, 0 an adversary.

    Examples
    --------
    >>> one_coin([0.8], 3)[0].round(1).tolist()
    [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    """
    skill = np.asarray(accuracies, dtype=float)
    if ((skill < 0) | (skill > 1)).any():
        raise InvalidParameterError(
            f"Accuracies must lie between 0 and 1; the first that does not is {skill[(skill < 0) | (skill > 1)][0]}."
        )
    right = np.eye(n_classes)
    wrong = (1 - right) / (n_classes - 1)
    return skill[:, None, None] * right + (1 - skill)[:, None, None] * wrong


def spammers(n_annotators: int, n_classes: int) -> Confusions:
    """Annotators whose labels say (almost) nothing about the true class."""
    matrix = normalize_rows(np.full((n_classes, n_classes), 1 / n_classes) + SPAMMER_LEAN * np.eye(n_classes))
    return np.repeat(matrix[None], n_annotators, axis=0).astype(np.float64)


def one_label_spammers(labels: Any, n_classes: int) -> Confusions:
    """Annotators who give the same label whatever they see."""
    return np.repeat(np.eye(n_classes)[np.asarray(labels)][:, None, :], n_classes, axis=1)


def hammer_spammer(n_annotators: int, n_classes: int, *, hammer_share: float, seed: int = 0) -> Confusions:
    """Each annotator is perfect with probability `hammer_share`, else a spammer."""
    hammer = stream(seed, "hammer_spammer").random(n_annotators) < hammer_share
    return np.where(hammer[:, None, None], np.eye(n_classes), spammers(n_annotators, n_classes))


def class_wise_hammer_spammer(n_annotators: int, n_classes: int, *, hammer_share: float, seed: int = 0) -> Confusions:
    """Each annotator knows each class with probability `hammer_share` and guesses among all for the others."""
    random = stream(seed, "class_wise_hammer_spammer")
    knows = random.random((n_annotators, n_classes)) < hammer_share
    lean = 1 + random.uniform(0.1, 0.11, (n_annotators, n_classes))
    guess = np.ones((n_annotators, n_classes, n_classes))
    guess[:, np.arange(n_classes), np.arange(n_classes)] = lean
    return np.where(knows[:, :, None], np.eye(n_classes), normalize_rows(guess))


def pair_flip(n_annotators: int, n_classes: int, *, flip: float, partner: Any = None) -> Confusions:
    """Annotators who take each class for one fixed other class with probability `flip`.

    Parameters
    ----------
    partner
        (n_classes,) the class that each is taken for; by default the next one.

    Examples
    --------
    >>> pair_flip(1, 3, flip=0.4)[0].tolist()
    [[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.4, 0.0, 0.6]]
    """
    taken_for = (np.arange(n_classes) + 1) % n_classes if partner is None else np.asarray(partner)
    if sorted(taken_for.tolist()) != list(range(n_classes)) or (taken_for == np.arange(n_classes)).any():
        raise InvalidParameterError("partner must be a reordering of the classes in which no class is its own partner.")
    matrix = (1 - flip) * np.eye(n_classes) + flip * np.eye(n_classes)[taken_for]
    return np.repeat(matrix[None], n_annotators, axis=0)


def diagonally_dominant(n_annotators: int, n_classes: int, *, noise: float, seed: int = 0) -> Confusions:
    """Identity plus `noise` times uniform numbers in 0..1, each true class's row made to sum to one."""
    random = stream(seed, "diagonally_dominant").random((n_annotators, n_classes, n_classes))
    return normalize_rows(np.eye(n_classes) + noise * random).astype(np.float64)


def one_good_among_spammers(n_annotators: int, n_classes: int, *, noise: float, seed: int = 0) -> Confusions:
    """One diagonally dominant annotator, at a random place among spammers (the CIFAR-10 setting of GeoCrowdNet)."""
    crowd = spammers(n_annotators, n_classes)
    place = stream(seed, "one_good_among_spammers").integers(n_annotators)
    crowd[place] = diagonally_dominant(1, n_classes, noise=noise, seed=seed)[0]
    return crowd


def adversaries(n_annotators: int, n_classes: int) -> Confusions:
    """Annotators who never give the right label and always the same wrong one for a class: the next."""
    return pair_flip(n_annotators, n_classes, flip=1.0)
