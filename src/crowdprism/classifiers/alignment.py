"""The class permutation guard: are the classes that a model learned the classes that annotators speak of?

The likelihood does not change when all classes are permuted in the predictor and in every confusion (Ibrahim et al.
2023, theorem 1). A strong volume term from the first step can lock in a wrong permutation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.results.confusion import class_alignment

TOLERANCE = 0.01  # agreement may rise by this much through alignment before it counts as a permutation


@dataclass(frozen=True)
class ClassAlignment:
    """How predictions agree with annotations as they are and after the best permutation of classes.

    Attributes
    ----------
    order
        (n_classes,) column `order[k]` of the raw outputs is class k; the identity where nothing was permuted.
    plain_agreement, aligned_agreement
        Share of annotations that equal the item's predicted class, before and after.
    """

    order: NDArray[np.int64]
    plain_agreement: float
    aligned_agreement: float

    @property
    def permuted(self) -> bool:
        """Whether the classes had to be permuted."""
        return bool((self.order != np.arange(len(self.order))).any())


def agreement(class_probs: NDArray[Any], annotations: Annotations) -> float:
    """Share of annotations that equal the predicted class of their item."""
    predicted = class_probs.argmax(axis=1)
    return float(np.mean(predicted[annotations.item] == annotations.label))


def examine_alignment(
    class_probs: NDArray[Any], confusions: NDArray[Any] | None, annotations: Annotations
) -> ClassAlignment:
    """Find the permutation that the annotators' labels ask for, and whether it matters.

    The permutation is the Hungarian solution on the mean confusion, weighted by labels per annotator; without
    confusions, on the counts of (predicted class, label). It is taken only where agreement rises by more than
    `TOLERANCE`, so that noise between two classes that nobody can tell apart changes nothing.
    """
    identity = np.arange(annotations.n_classes)
    plain = agreement(class_probs, annotations)
    if confusions is None:
        counts = np.zeros((annotations.n_classes, annotations.n_classes))
        np.add.at(counts, (class_probs.argmax(axis=1)[annotations.item], annotations.label), 1.0)
        mean = counts
    else:
        mean = np.average(confusions, axis=0, weights=annotations.labels_per_annotator)
    order = class_alignment(mean[None])
    aligned = agreement(class_probs[:, order], annotations)
    if aligned <= plain + TOLERANCE:
        return ClassAlignment(identity, plain, max(plain, aligned) if (order != identity).any() else plain)
    return ClassAlignment(order, plain, aligned)
