"""One-coin and ZenCrowd against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_crowds import N_CLASSES, labelled, posterior, rows_of, votes_of

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations


@pytest.mark.parametrize(("name", "params"), [("one-coin", {"class_prior": "estimate"}), ("zencrowd", {})])
def test_one_number_per_annotator_equals_the_loops(annotations: Annotations, name: str, params: dict) -> None:
    rows, shares = rows_of(annotations), votes_of(annotations)
    total = {m: sum(w for _, m2, _, w in rows if m2 == m) for m in range(annotations.n_annotators)}
    hits = {m: sum(w * shares[i][c] for i, m2, c, w in rows if m2 == m) for m in total}
    strength = 4.0 if name == "one-coin" else 0.0
    common = sum(hits.values()) / sum(total.values())
    known = sorted(labelled(annotations))
    q = shares
    skill = dict.fromkeys(total, 0.8)
    prior = [1 / N_CLASSES] * N_CLASSES
    for iteration in range(6):
        if name == "one-coin" or iteration > 0:
            for m in total:
                right = sum(w * q[i][c] for i, m2, c, w in rows if m2 == m)
                weight = total[m] + strength
                skill[m] = (right + strength * common) / weight if weight else 0.5
        if name == "one-coin":
            prior = [sum(q[i][k] for i in known) / len(known) for k in range(N_CLASSES)]
        q = []
        for i in range(annotations.n_items):
            scores = [math.log(p) for p in prior]
            for i2, m, c, w in rows:
                if i2 == i:
                    for k in range(N_CLASSES):
                        scores[k] += w * math.log(skill[m] if c == k else (1 - skill[m]) / (N_CLASSES - 1))
            q.append(posterior(scores)[0])
    result = make_aggregator(name, max_iter=5, tolerance=0.0, **params).fit(annotations).result_
    np.testing.assert_allclose(result.class_probabilities, q, atol=1e-8)
