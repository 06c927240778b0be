"""Compiled, threaded form of `glad_step`; imported only when data are large. See `kernels` for the reasons."""

from __future__ import annotations

import numpy as np

from crowdprism.aggregators.cells import FloatArray
from crowdprism.aggregators.expectation_records import PRIOR_MEAN, GladExpectation
from crowdprism.aggregators.kernels import n_threads, run_blocks
from crowdprism.aggregators.vote_kernels import codes_of, weight_of
from crowdprism.annotations import Annotations
from crowdprism.machine_code import Kernels

KERNELS = Kernels(
    "crowdprism.aggregators.vote_kernel_sources",
    {
        "expect_glad": "i8 u4 u2 f4 f8 f8 n n n n n f8 f8 f8",
        "expect_glad_many": "i8 u4 u4 f4 f8 f8 n n n n n f8 f8 f8",
        "sweep_glad": "i8 u4 f4 f8 f8 f8 n n n f8 f8 f8",
    },
    imports=["crowdprism.aggregators.expectation_records", "crowdprism.aggregators.row_sources"],
)


def expect(annotations: Annotations, ability: FloatArray, ease: FloatArray, *, keep: bool) -> GladExpectation:
    """`GladStep.expect`, compiled."""
    probabilities = np.empty((annotations.n_items if keep else 0, annotations.n_classes))
    right = np.empty(annotations.n_annotations)
    log_likelihood = np.zeros((n_threads(), 1))
    item_start, label, many = codes_of(annotations)
    weight, weighted = weight_of(annotations)
    given = (item_start, annotations.annotator.view(np.uint32), label, weight, ability, ease)

    def work(block: int, first: int, last: int) -> None:
        sizes = (annotations.n_classes, weighted, first, last, keep)
        KERNELS(f"expect_glad{many}", *given, *sizes, right, probabilities, log_likelihood[block])

    run_blocks(work, item_start, n_threads())
    return GladExpectation(float(log_likelihood.sum()), right, probabilities if keep else None)


def sweep(
    annotations: Annotations, ability: FloatArray, log_ease: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """`GladStep.sweep`, compiled."""
    linear, quadratic = np.zeros((2, n_threads(), len(ability)))
    raised = np.empty(len(log_ease))
    item_start = codes_of(annotations)[0]
    weight, weighted = weight_of(annotations)
    given = (item_start, annotations.annotator.view(np.uint32), weight, ability, log_ease, right)

    def work(block: int, first: int, last: int) -> None:
        KERNELS("sweep_glad", *given, weighted, first, last, linear[block], quadratic[block], raised)

    run_blocks(work, item_start, n_threads())
    return (PRIOR_MEAN + linear.sum(axis=0)) / (1.0 + 2.0 * quadratic.sum(axis=0)), raised
