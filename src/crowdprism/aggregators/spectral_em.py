"""SpectralEM: a method-of-moments start for Dawid-Skene EM (Zhang, Chen, Zhou and Jordan 2014).

Annotators are split into three groups. The groups' mean responses are three views of the true class, independent
given it; second and third moments of the views determine the groups' confusions without any starting guess.

Long sums are einsums or sums of small products: a large matrix product adds in another order with other threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.moments import (
    MomentAggregator,
    probability_rows,
    require_block_room,
    require_few_classes,
    vote_start,
)
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import response_matrix
from crowdprism.errors import UnsuitableDataError
from crowdprism.parameters import Allowed, Whole
from crowdprism.progress import progress
from crowdprism.results import FitResult
from crowdprism.results.confusion import class_alignment
from crowdprism.seeding import stream

GROUPS = 3
ITEMS_PER_CLASS = 10  # fewest items seen by all groups, per class; below it third moments are mostly noise
LEAST_SINGULAR = 1e-3  # of the second moment, relative to the largest: below it two classes look the same


@dataclass(frozen=True)
class Moments:
    """Mean products of the three views' responses."""

    pairs: dict[tuple[int, int], FloatArray]  # [a, b]: (label of view a, label of view b), a and b different
    triple: FloatArray  # (label of view 0, label of view 1, label of view 2)


def moments_of(views: NDArray[Any]) -> Moments:
    """Moments of responses (view, item, label), each view's rows summing to one."""
    n_items, n_classes = views.shape[1:]
    both = [(a, b) for a in range(GROUPS) for b in range(GROUPS) if a != b]
    pairs = {(a, b): np.einsum("ik,il->kl", views[a], views[b]) / n_items for a, b in both}
    triple = np.empty((n_classes, n_classes, n_classes))
    for label in range(n_classes):
        given = np.flatnonzero(views[2][:, label])  # a group gives few labels per item
        weighted = views[0][given] * views[2][given, label, None]
        triple[:, :, label] = np.einsum("ik,il->kl", weighted, views[1][given])
    return Moments(pairs, triple / n_items)


def view_confusion(
    moments: Moments, view: int, *, restarts: int, iterations: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Confusion rows (true class, given label) of one view and the class shares, classes in no particular order.

    The other two views are carried over to this one (Zhang et al. 2014, equation 6), which makes the moments
    symmetric; whitening turns the third one into an orthogonal tensor, whose eigenvectors are the rows.
    """
    a, b = (other for other in range(GROUPS) if other != view)
    carry_a = moments.pairs[view, b] @ np.linalg.pinv(moments.pairs[a, b], rcond=LEAST_SINGULAR)
    carry_b = moments.pairs[view, a] @ np.linalg.pinv(moments.pairs[b, a], rcond=LEAST_SINGULAR)
    second = carry_a @ moments.pairs[a, b] @ carry_b.T
    values, vectors = np.linalg.eigh((second + second.T) / 2)
    values = np.abs(values)
    shown = int((values > LEAST_SINGULAR * values.max(initial=0.0)).sum())
    if shown < len(values):
        raise UnsuitableDataError(
            f"SpectralEM: the groups' responses tell only {shown} of {len(values)} classes apart (a class that "
            "nobody uses, or too few items with labels of all three groups). Use dawid-skene, or drop the class."
        )
    whiten = vectors / np.sqrt(values)
    color = vectors * np.sqrt(values)
    triple = np.moveaxis(moments.triple, (a, b, view), (0, 1, 2))
    third = np.einsum("xyz,xi->iyz", triple, carry_a.T @ whiten)
    third = np.einsum("iyz,yj->ijz", third, carry_b.T @ whiten)
    third = np.einsum("ijz,zk->ijk", third, whiten)
    symmetric = np.asarray(sum(np.transpose(third, order) for order in permutations(range(3))) / 6)
    eigenvalues, eigenvectors = tensor_eigenvectors(symmetric, restarts=restarts, iterations=iterations, rng=rng)
    rows = eigenvalues[:, None] * (eigenvectors @ color.T)
    return rows, 1 / np.square(eigenvalues)


def tensor_eigenvectors(
    tensor: NDArray[Any], *, restarts: int, iterations: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (n,) and eigenvectors (n, dimension) of a symmetric orthogonal tensor, by power iteration."""
    size = len(tensor)
    rest = np.array(tensor, dtype=np.float64)
    values, vectors = np.empty(size), np.empty((size, size))
    for found in range(size):
        points = rng.normal(size=(restarts, size))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        points = power_iterations(rest, points, iterations)
        best = np.argmax((applied_twice(rest, points) * points).sum(axis=1))
        vector = power_iterations(rest, points[best : best + 1], iterations)[0]
        value = float(np.einsum("ijk,i,j,k->", rest, vector, vector, vector))
        if not value > 0:
            raise UnsuitableDataError(
                f"SpectralEM: third moments yield {found} of {size} classes before they are all noise; more items with "
                "labels of all three groups are needed. Use dawid-skene."
            )
        values[found], vectors[found] = value, vector
        rest -= value * np.einsum("i,j,k->ijk", vector, vector, vector)
    return values, vectors


def power_iterations(tensor: NDArray[Any], points: NDArray[Any], iterations: int) -> FloatArray:
    """Repeat point <- tensor(., point, point), scaled to length one, for each row of `points`."""
    for _ in range(iterations):
        products = applied_twice(tensor, points)
        lengths = np.linalg.norm(products, axis=1, keepdims=True)
        points = np.where(lengths > 0, products / np.where(lengths > 0, lengths, 1.0), points)
    return points


def applied_twice(tensor: NDArray[Any], points: NDArray[Any]) -> FloatArray:
    """tensor(., point, point) for each row of `points`: (n_points, dimension)."""
    return np.asarray(((points @ tensor) * points).sum(axis=2).T)  # points @ tensor: (first axis, point, third axis)


def group_responses(annotations: Annotations, group: NDArray[Any]) -> FloatArray:
    """Mean one-hot label of each group on each item (group, item, label); zero where a group gave none."""
    from scipy.sparse import csr_array

    n_classes, n_annotators = annotations.n_classes, annotations.n_annotators
    column = (group[:, None] * n_classes + np.arange(n_classes)).reshape(-1)
    gather = csr_array(
        (np.ones(len(column)), (np.arange(len(column)), column)), shape=(n_annotators * n_classes, GROUPS * n_classes)
    )
    sums = (response_matrix(annotations) @ gather).toarray().reshape(annotations.n_items, GROUPS, n_classes)
    totals = sums.sum(axis=2, keepdims=True)
    return np.ascontiguousarray((sums / np.where(totals > 0, totals, 1.0)).transpose(1, 0, 2))


def individual_confusions(
    annotations: Annotations,
    group: NDArray[Any],
    responses: NDArray[Any],  # (group, item, label)
    group_confusions: NDArray[Any],  # (group, true class, given label)
    prior: NDArray[Any],
) -> FloatArray:
    """Each annotator's confusion from the responses of the two groups the annotator is not in: least squares.

    The joint label shares of an annotator and a group are confusion' diag(prior) group_confusion.
    """
    n_annotators, n_classes = annotations.n_annotators, annotations.n_classes
    table = response_matrix(annotations)
    joint = np.empty((GROUPS, n_annotators, n_classes, n_classes))
    for other in range(GROUPS):
        sums = np.asarray(table.T @ responses[other]).reshape(n_annotators, n_classes, n_classes)
        totals = sums.sum(axis=(1, 2), keepdims=True)
        joint[other] = sums / np.where(totals > 0, totals, 1.0)
    rows = np.empty((n_annotators, n_classes, n_classes))
    for own in range(GROUPS):
        members = group == own
        others = [other for other in range(GROUPS) if other != own]
        design = np.concatenate([prior[:, None] * group_confusions[other] for other in others], axis=1)
        seen = np.concatenate([joint[other][members] for other in others], axis=2)
        rows[members] = np.swapaxes(seen @ np.linalg.pinv(design), 1, 2)
    return rows


@dataclass(eq=False, repr=False)
class SpectralEM(MomentAggregator):
    """Dawid-Skene EM that starts from moments of three groups of annotators instead of a vote.

    Needs many items that three annotators or more labelled. Class order comes from the vote shares.

    Parameters
    ----------
    em_rounds, prior_strength
        As in `MultiSPA`.
    restarts, power_steps
        Starts of the tensor power method, and iterations of each.
    random_state
        Seed of those starts.

    Examples
    --------
    >>> from crowdprism.simulate import one_coin, per_item, simulate_annotations
    >>> a = simulate_annotations(np.arange(300) % 3, one_coin([0.9, 0.8, 0.7, 0.9], 3), per_item(300, 4, labels=4))
    >>> bool((SpectralEM(use_gold=False).fit(a).result_.labels() == a.gold).mean() > 0.95)
    True
    """

    name: ClassVar[str] = "spectral-em"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"restarts": Whole(1), "power_steps": Whole(1)}
    em_rounds: int = 10
    prior_strength: float = 1.0
    restarts: int = 100
    power_steps: int = 100
    random_state: int = 0

    def _aggregate(self, annotations: Annotations) -> FitResult:
        require_block_room(annotations.n_annotators, annotations.n_classes, "SpectralEM", of="annotators")
        given = np.bincount(annotations.annotator, weights=annotations.weight, minlength=annotations.n_annotators)
        # Annotators are dealt out to the groups in turn, from the most weight to the least.
        group = np.argsort(np.argsort(-given, kind="stable"), kind="stable") % GROUPS
        require_few_classes(annotations, "SpectralEM")
        responses = group_responses(annotations, group)
        covered = responses.any(axis=2).all(axis=0)
        needed, active = ITEMS_PER_CLASS * annotations.n_classes, int((annotations.labels_per_annotator > 0).sum())
        if active < GROUPS or covered.sum() < needed:
            raise UnsuitableDataError(
                f"SpectralEM compares three groups of annotators on the same items: {covered.sum()} of "
                f"{annotations.n_items} items have labels of all three groups and at least {needed} are needed "
                f"({ITEMS_PER_CLASS} per class); {active} annotators are active. Use dawid-skene, or majority-vote."
            )
        votes = vote_start(annotations, method="SpectralEM")
        moments = moments_of(responses[:, covered])
        group_confusions, prior = self._group_confusions(moments, votes.pooled)
        rows = individual_confusions(annotations, group, responses, group_confusions, prior)
        alone = np.abs(rows).sum(axis=(1, 2)) == 0  # no item in common with the other groups
        confusions = np.where(alone[:, None, None], votes.confusions, probability_rows(rows))
        return self._finish(annotations, confusions, prior, pooled=votes.pooled)

    def _group_confusions(self, moments: Moments, reference: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Confusions of the three groups with classes in the reference's order, and the mean class prior."""
        confusions, priors = [], []
        with progress("SpectralEM", total=GROUPS) as bar:
            for view in range(GROUPS):
                rng = stream(self.random_state, "tensor power", view)
                limits = {"restarts": self.restarts, "iterations": self.power_steps}
                rows, shares = view_confusion(moments, view, rng=rng, **limits)
                order = class_alignment(rows[None], reference[None])
                confusions.append(probability_rows(rows[order]))
                priors.append(shares[order] / shares.sum())
                bar.advance()
        return np.stack(confusions), probability_rows(np.mean(priors, axis=0)[None])[0]
