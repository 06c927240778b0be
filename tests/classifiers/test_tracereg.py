"""TraceReg: its term, its start and what it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.classifiers import TraceReg
from crowdprism.classifiers.tracereg import TraceHead


def head(**options: Any) -> TraceHead:
    chosen: dict[str, Any] = {"strength": 0.1, "reduction": "mean", "positive": "softplus", "vote_epochs": 0} | options
    return TraceHead(TraceReg(**chosen), 5, 3, touch_rate=torch.ones(5))


def test_the_mean_trace_falls_as_its_weight_grows(crowd: Any) -> None:
    traces = []
    for strength in (0.0, 0.3, 3.0):
        model = TraceReg(
            strength=strength,
            positive="softmax",
            epochs=8,
            network_options={"hidden": (16,)},
            input_noise=0.0,
            temperature=1.0,
        )
        model.fit(crowd.features, crowd.annotations)
        traces.append(float(np.einsum("mkk->m", model.confusions_).mean()))
    assert traces[0] > traces[1] > traces[2]


def test_the_start_is_the_normalised_softplus_of_six_times_identity_minus_five() -> None:
    positive = np.log1p(np.exp(6 * np.eye(3) - 5))
    expected = positive / positive.sum(axis=1, keepdims=True)
    assert np.allclose(head().confusions()[0].numpy(), expected, atol=1e-6)
    assert expected[0, 0] > 0.95


def test_the_sum_of_traces_is_the_mean_times_the_number_of_annotators(crowd: Any) -> None:
    batch, log_probs = crowd.batch(), crowd.log_class_probs()
    mean = head(reduction="mean").penalties(log_probs, batch)["trace"].item()
    total = head(reduction="sum").penalties(log_probs, batch)["trace"].item()
    assert total == pytest.approx(5 * mean, rel=1e-6)
    assert mean == pytest.approx(0.1 * float(torch.trace(head().confusions()[0])), rel=1e-5)


def test_during_the_vote_epochs_confusions_get_no_gradient(crowd: Any) -> None:
    voting = head(vote_epochs=2)
    voting.start_epoch(0)
    log_probs = crowd.log_class_probs().requires_grad_()
    voting.loss(log_probs, crowd.batch()).backward()
    assert voting.table.values.grad is None
    assert log_probs.grad is not None
    voting.start_epoch(2)
    voting.loss(log_probs, crowd.batch()).backward()
    assert voting.table.values.grad is not None
