"""IBCC against plain loops; EBCC reduces to it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma
from small_crowds import N_CLASSES, labelled, made, mixed_crowd, posterior, rows_of, simulated, votes_of

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations


def test_ibcc_equals_the_loops(annotations: Annotations) -> None:
    rows, q, known = rows_of(annotations), votes_of(annotations), sorted(labelled(annotations))
    anchor = [1.0 + 3.0 * sum(q[i][k] for i in known) for k in range(N_CLASSES)]
    for _ in range(5):
        class_counts = [anchor[k] + sum(q[i][k] for i in known) for k in range(N_CLASSES)]
        log_prior = [float(digamma(count) - digamma(sum(class_counts))) for count in class_counts]
        log_confusion = {}
        for m in range(annotations.n_annotators):
            for k in range(N_CLASSES):
                counts = [4.0 if c == k else 1.0 / (N_CLASSES - 1) for c in range(N_CLASSES)]
                for i, m2, c, w in rows:
                    if m2 == m:
                        counts[c] += w * q[i][k]
                log_confusion[m, k] = [float(digamma(count) - digamma(sum(counts))) for count in counts]
        q = []
        for i in range(annotations.n_items):
            scores = list(log_prior)
            for i2, m, c, w in rows:
                if i2 == i:
                    scores = [s + w * log_confusion[m, k][c] for k, s in enumerate(scores)]
            q.append(posterior(scores)[0])
    result = make_aggregator("ibcc", max_iter=5, tolerance=0.0).fit(annotations).result_
    np.testing.assert_allclose(result.class_probabilities[known], np.array(q)[known], atol=1e-8)


def test_ebcc_with_one_subtype_equals_ibcc() -> None:
    crowd, _ = simulated(mixed_crowd())
    ibcc, ebcc = made("ibcc").fit(crowd).result_, made("ebcc", n_subtypes=1, n_restarts=3).fit(crowd).result_
    np.testing.assert_array_equal(ibcc.class_probabilities, ebcc.class_probabilities)
    assert ibcc.history["objective"] == ebcc.history["objective"]


def test_ebcc_keeps_the_restart_with_the_highest_bound() -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=100)
    history = made("ebcc", n_restarts=4).fit(crowd).result_.history
    assert len(history["restarts"]) == 4
    assert history["objective"][-1] == max(history["restarts"])


@pytest.mark.parametrize("name", ["ibcc", "ebcc"])
def test_one_label_per_item_keeps_the_labels(name: str) -> None:
    random = np.random.default_rng(3)
    label = random.integers(0, 10, 400)
    single = Annotations.from_triplets(np.arange(400), random.integers(0, 20, 400), label)
    options = {"n_subtypes": 2, "n_restarts": 1} if name == "ebcc" else {}
    found = make_aggregator(name, **options).fit(single).result_
    np.testing.assert_array_equal(found.labels(), label)
