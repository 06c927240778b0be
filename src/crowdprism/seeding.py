"""One seed, an independent random stream per purpose.

Nobody touches global random state. A draw added for one purpose changes nothing elsewhere, because each stream
is derived from the seed and the purpose's name alone.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdprism.errors import InvalidParameterError

if TYPE_CHECKING:
    import torch


def _entropy(seed: Any, purpose: str, index: tuple[int, ...]) -> np.random.SeedSequence:
    seed = 0 if seed is None else seed
    if isinstance(seed, np.random.RandomState):  # scikit-learn allows one as random_state
        seed = int(seed.randint(2**31))
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InvalidParameterError(f"The seed must be a whole number of at least 0, not {seed!r}.")
    return np.random.SeedSequence([int(seed), zlib.crc32(purpose.encode()), *index])


def stream(seed: Any, purpose: str, *index: int) -> np.random.Generator:
    """Return the random generator for one purpose; the same arguments always give the same draws.

    A seed of None means 0: results repeat unless another seed is asked for. The index splits a purpose further, such as
    by epoch.
    """
    return np.random.default_rng(_entropy(seed, purpose, index))


def torch_stream(seed: Any, purpose: str, *index: int, device: str = "cpu") -> torch.Generator:
    """Return a torch generator for one purpose; see `stream`."""
    import torch

    generator = torch.Generator(device=device)
    generator.manual_seed(int(_entropy(seed, purpose, index).generate_state(1, np.uint64)[0]) >> 1)
    return generator
