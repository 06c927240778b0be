"""The Gaussian process classifier against the equations of sparse processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.classifiers import GaussianProcess
from crowdprism.classifiers.gaussian_process import JITTER, SparseProcess
from crowdprism.errors import InvalidParameterError

SMALL: dict[str, Any] = {"epochs": 20, "n_inducing": 20, "input_noise": 0.0, "temperature": 1.0}


def make_process(n_inducing: int = 6) -> tuple[SparseProcess, torch.Tensor]:
    drawn = torch.Generator().manual_seed(0)
    process = SparseProcess(2, 3, n_inducing)
    process.place(torch.randn(n_inducing, 2, generator=drawn))
    with torch.no_grad():
        process.mean.normal_(generator=drawn)
        process.log_std.normal_(generator=drawn)
    return process, torch.randn(4, 2, generator=drawn)


def test_moments_are_those_of_the_process_given_the_inducing_values() -> None:
    process, items = make_process()
    mean, variance = (part.detach().numpy() for part in process.moments(items))
    z, x, length = process.inducing.numpy(), items.numpy(), float(process.log_length.detach().exp())

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.exp(-np.square(a[:, None] - b[None]).sum(axis=2) / (2 * length**2))

    factor = np.linalg.cholesky(kernel(z, z) + JITTER * np.eye(6))
    values = factor @ process.mean.detach().numpy()  # means of the function at the inducing points
    gain = kernel(x, z) @ np.linalg.inv(factor @ factor.T)
    amplitude = float(process.log_amplitude.detach().exp())
    assert mean == pytest.approx(amplitude * gain @ values, abs=1e-4)
    for k in range(3):
        spread = factor @ np.diag(np.exp(2 * process.log_std.detach().numpy()[:, k])) @ factor.T
        left = 1 - np.einsum("bp,bp->b", gain @ (factor @ factor.T), gain)
        expected = amplitude**2 * (left + np.einsum("bp,pq,bq->b", gain, spread, gain))
        assert variance[:, k] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_the_prior_has_no_divergence_and_far_from_all_items_nothing_is_known() -> None:
    process = SparseProcess(2, 3, 5)
    assert float(process.divergence()) == 0.0
    process, _ = make_process()
    far = process.eval()(torch.full((1, 2), 1e3))
    assert torch.allclose(far, torch.zeros(1, 3), atol=1e-6)


def test_draws_while_training_have_the_mean_and_variance_of_the_process() -> None:
    process, items = make_process()
    mean, variance = process.moments(items)
    process.coin.generator = torch.Generator().manual_seed(1)
    draws = torch.stack([process.train()(items) for _ in range(400)]).detach()
    assert torch.allclose(draws.mean(dim=0), mean, atol=0.5)
    assert torch.allclose(draws.var(dim=0), variance, rtol=0.1)


def test_it_learns_a_boundary_that_no_line_can_draw() -> None:
    random = np.random.default_rng(0)
    features = random.uniform(-2, 2, size=(300, 2)).astype(np.float32)
    truth = (np.square(features).sum(axis=1) > 2).astype(int)
    noisy = np.where(random.random((300, 4)) < 0.2, 1 - truth[:, None], truth[:, None])
    model = GaussianProcess(**{**SMALL, "epochs": 30}).fit(features, noisy)
    assert model.score(features, truth) > 0.9
    assert model.annotator_accuracy_ == pytest.approx(np.full(4, 0.8), abs=0.12)


def test_another_network_is_refused(crowd: Any) -> None:
    with pytest.raises(InvalidParameterError, match="leave network='linear'"):
        GaussianProcess(network="mlp").fit(crowd.features, crowd.annotations)
