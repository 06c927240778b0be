"""What annotators did: counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.report.annotator_stories import tell_stories

TABLE = [[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]]


def stories(**numbers):
    item, annotator = np.divmod(np.arange(12), 3)
    names = np.array(["ann", "bob", "cy"])
    labels = np.array(TABLE).reshape(-1)
    a = cp.Annotations.from_triplets(item, names[annotator].tolist(), labels, **numbers)
    return tell_stories(cp.make_aggregator("majority-vote").fit(a).result_, a)


def test_agreeing_labels_are_counted_and_mistakes_are_examples() -> None:
    ann, _, cy = stories()
    assert (ann.n_agreeing, ann.examples) == (4, ())
    assert cy.n_agreeing == 2
    assert cy.examples == (("0", 1, 0), ("3", 0, 1))
    assert cy.seconds is None


def test_seconds_are_the_median_of_known_times() -> None:
    times = np.full(12, np.nan)
    times[[0, 3, 6]] = [1.0, 10.0, 2.0]
    ann, bob, _ = stories(duration=times)
    assert ann.seconds == 2.0
    assert bob.seconds is None


def test_halves_are_by_time_and_need_enough_labels() -> None:
    assert all(story.early is None for story in stories(timestamp=np.arange(12.0)))
    n = 40
    truth = np.arange(n) % 2
    late = np.where(np.arange(n) < n // 2, truth, 1 - truth)  # wrong in the second half
    columns = np.stack([truth, truth, late], axis=1)
    item, annotator = np.divmod(np.arange(3 * n), 3)
    a = cp.Annotations.from_triplets(item, annotator, columns.reshape(-1), timestamp=item.astype(float))
    told = tell_stories(cp.make_aggregator("majority-vote").fit(a).result_, a)
    assert (told[2].early, told[2].late) == (1.0, 0.0)
    assert (told[0].early, told[0].late) == (pytest.approx(1.0), pytest.approx(1.0))
