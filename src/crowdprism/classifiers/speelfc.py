"""SpeeLFC: coupled cross-entropy with freely parameterised confusion matrices that start near the identity.

Chen, Wang, Sun, Chen, Tsumoto and Tao, "Structured probabilistic end-to-end learning from crowds", IJCAI 2020.
"""

from __future__ import annotations

from typing import Any, ClassVar

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.problem import Problem
from crowdprism.networks import CrowdHead, FreeConfusions, GeometricHead, diagonal_confusions


class SpeeLFC(CrowdClassifier):
    """Train a classifier through confusion matrices that are a softmax of free numbers, without any regulariser.

    The loss is that of `GeoCrowdNet(regularizer=None, loss="ccem")`; only the start is nearer to the identity.

    Parameters
    ----------
    start_diagonal
        Probability of a right label at the start; the paper starts "close to the identity" without a number.
    **training
        Parameters of `CrowdClassifier`.

    Examples
    --------
    >>> from crowdprism import load_dataset
    >>> train, test = (load_dataset("simulated").part(split) for split in ("train", "test"))
    >>> model = SpeeLFC(epochs=10).fit(train.features, train.annotations)
    >>> bool((model.predict_proba(test.features).argmax(axis=1) == test.gold).mean() > 0.65)
    True
    """

    name: ClassVar[str] = "speelfc"

    def __init__(self, *, start_diagonal: float = 0.9, **training: Any) -> None:
        super().__init__(**training)
        self.start_diagonal = start_diagonal

    def _make_head(self, problem: Problem) -> CrowdHead:
        start = diagonal_confusions(problem.n_annotators, problem.n_classes, self.start_diagonal)
        return GeometricHead(FreeConfusions(start), loss="ccem", n_annotations=problem.annotations.n_annotations)
