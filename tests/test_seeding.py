"""One seed, one stream per purpose."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.errors import InvalidParameterError
from crowdprism.seeding import stream, torch_stream


def test_a_stream_repeats_for_the_same_seed_purpose_and_index() -> None:
    assert np.array_equal(stream(3, "shuffle", 7).random(5), stream(3, "shuffle", 7).random(5))


@pytest.mark.parametrize("other", [(4, "shuffle", 7), (3, "dropout", 7), (3, "shuffle", 8)])
def test_a_stream_differs_by_seed_purpose_and_index(other: tuple[int, str, int]) -> None:
    assert not np.array_equal(stream(3, "shuffle", 7).random(5), stream(*other).random(5))


def test_drawing_from_streams_leaves_global_random_state_alone() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    stream(0, "shuffle").random(10)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_torch_streams_repeat_and_leave_the_global_generator_alone() -> None:
    torch = pytest.importorskip("torch")
    before = torch.random.get_rng_state()
    first = torch.rand(4, generator=torch_stream(1, "dropout"))
    assert torch.equal(first, torch.rand(4, generator=torch_stream(1, "dropout")))
    assert not torch.equal(first, torch.rand(4, generator=torch_stream(1, "noise")))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("seed", [-1, 1.5, "zero", True])
def test_a_seed_that_is_no_whole_number_is_refused(seed: object) -> None:
    with pytest.raises(InvalidParameterError, match="whole number"):
        stream(seed, "shuffle")
