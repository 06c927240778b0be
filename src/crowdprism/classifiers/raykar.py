"""Raykar's EM: logistic regression and every annotator's error rates, learned together.

Raykar, Yu, Zhao, Valadez, Florin, Bogoni and Moy, "Learning from crowds", JMLR 11, 2010.
"""

from __future__ import annotations

from typing import Any, ClassVar

from crowdprism.classifiers.aggnet import AggNet


class Raykar(AggNet):
    """EM of a logistic regression (softmax for several classes) and the annotators' sensitivity and specificity.

    For two classes row 1 of an annotator's confusion matrix holds the sensitivity and row 0 the specificity.

    Parameters
    ----------
    epochs_per_round
        Passes over the items between two E-steps. The paper takes Newton steps to the end; a few passes that start
        from the last weights reach the same point over the rounds (generalised EM).
    smoothing
        Pseudo-count of each confusion entry, the Beta prior of the paper; which has 0 where no prior is stated.
    smallest
        As in `AggNet`; the paper has no such limit, so it is small here.
    **training
        Parameters of `CrowdClassifier`. `network` is linear by default, with a larger rate; `weight_decay` plays the
        Gaussian prior on the weights, without which separable data send them to infinity.

    Examples
    --------
    >>> from crowdprism import load_dataset
    >>> train, test = (load_dataset("simulated").part(split) for split in ("train", "test"))
    >>> model = Raykar(epochs=10).fit(train.features, train.annotations)
    >>> bool((model.predict_proba(test.features).argmax(axis=1) == test.gold).mean() > 0.65)
    True
    """

    name: ClassVar[str] = "raykar"

    def __init__(
        self,
        *,
        epochs_per_round: int = 2,
        smoothing: float = 0.01,
        smallest: float = 1e-6,
        network: Any = "linear",
        learning_rate: float = 3e-2,
        weight_decay: float = 1e-2,
        **training: Any,
    ) -> None:
        super().__init__(
            epochs_per_round=epochs_per_round,
            smoothing=smoothing,
            smallest=smallest,
            network=network,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            **training,
        )
