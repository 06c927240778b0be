"""What expectation steps return, and the numbers that their plain and their compiled form must share."""

from __future__ import annotations

from dataclasses import dataclass

from crowdprism.aggregators.cells import FloatArray

FLOOR = 1e-30  # smallest probability in a product: eight of them do not underflow, and none changes a result
TIE = 1e-9  # relative difference below which two classes are equally probable in a hard step
# GLAD
PRIOR_MEAN = 1.0  # of ability and of log ease, both with variance 1 (Whitehill et al. 2009)
NEWTON_STEPS = 3
HALVINGS = 4
SMALL_LOGIT = 1e-4  # below it tanh(x/2) / (4 x) is 1/8 to machine precision
MAX_LOG_EASE = 50.0  # far beyond what the prior N(1, 1) allows; only keeps exp finite in a wild line search


@dataclass(frozen=True, eq=False)
class Expectation:
    """What an expectation step gives.

    Attributes
    ----------
    log_likelihood
        Sum over items of the log of the summed (hard step: largest) joint probability.
    cell_counts
        (n_cells, columns) expected weight of the cell's annotations on items of each class.
    class_totals
        (columns,) expected number of annotated items of each class.
    class_probabilities
        (n_items, columns), or None where not asked for.
    """

    log_likelihood: float
    cell_counts: FloatArray
    class_totals: FloatArray
    class_probabilities: FloatArray | None


@dataclass(frozen=True, eq=False)
class VoteExpectation:
    """What an expectation step over votes gives.

    Attributes
    ----------
    log_likelihood
        Sum over items of log(sum over classes of prior x product of odds); the part that all classes share is the
        method's to add.
    hits
        (n_sources,) expected weight of right annotations of each source.
    class_totals
        (n_classes,) expected number of annotated items of each class.
    class_probabilities
        (n_items, n_classes), or None where not asked for.
    """

    log_likelihood: float
    hits: FloatArray
    class_totals: FloatArray
    class_probabilities: FloatArray | None


@dataclass(frozen=True, eq=False)
class GladExpectation:
    """Log likelihood, probability (n_annotations,) that each annotation is right, class probabilities if asked for."""

    log_likelihood: float
    right: FloatArray
    class_probabilities: FloatArray | None
