"""A study small enough to be run in a second: the embedded digits, linear networks, two epochs."""

from __future__ import annotations

import pytest

TINY = """
name = "tiny"
title = "Digits"
source = "nobody"
pairs = [["f", "vote"]]

[parameters]
epochs = 2
batch_size = 64
network = "linear"
selection = "clean"

[grid]
learning_rate = [0.01, 0.001]

[tied]
annotator_learning_rate = "learning_rate"

[[cells]]
name = "easy"
title = "Easy digits"
data = { dataset = "digits", n_items = 300, valid = "drawn", n_valid = 50, crowd = { kind = "family", family = \
"one-coin", level = 0.8, n_annotators = 4, pattern = "per-item", amount = 2 } }

[methods.f]
title = "GeoCrowdNet(F)"
classifier = "geocrowdnet-f"
parameters = { mode = "paper" }
grid = { strength = [0.1, 0.01] }

[methods.vote]
title = "NN-MV"
classifier = "nn-mv"

[methods.vote-random]
title = "NN-MV, random"
classifier = "nn-mv"
parameters = { unlabelled = "random" }
variant_of = "vote"

[budgets.quick]
reduces = "all but two trials"
seeds = [1, 2]

[published.easy]
f = [80.0, 2.0]
vote = [70.0, 1.0]
"""


@pytest.fixture
def tiny_text() -> str:
    return TINY
