"""The polytope of the scattering condition on rows whose vertices are known."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.diagnostics.simplex_polytope import (
    SimplexPolytope,
    inner_radius,
    norm_at_distance,
    plane_basis,
)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_a_facet_that_touches_the_inner_ball_belongs_to_a_vertex_of_norm_one(n_classes: int) -> None:
    centre, middle = np.full(n_classes, 1 / n_classes), np.ones(n_classes) / (n_classes - 1)
    middle[0] = 0.0
    assert inner_radius(n_classes) == pytest.approx(np.linalg.norm(middle - centre))
    assert norm_at_distance(inner_radius(n_classes), n_classes) == pytest.approx(1.0)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_rows_on_the_axes_have_the_axes_as_vertices(n_classes: int) -> None:
    vertices = SimplexPolytope(np.eye(n_classes)).enumerate_vertices()
    ordered = vertices.places[np.argsort(vertices.places.argmax(axis=1))]
    assert ordered == pytest.approx(np.eye(n_classes), abs=1e-9)
    assert norm_at_distance(vertices.distance, n_classes) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_farthest_point_is_the_best_of_all_vertices(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = np.vstack([random.dirichlet(np.ones(4), size=15), 0.9 * np.eye(4) + 0.025])
    polytope = SimplexPolytope(rows)
    vertices = polytope.enumerate_vertices()
    assert vertices.exact
    farthest = max(np.linalg.norm(vertices.places, axis=1))
    assert polytope.norm(polytope.climb(-polytope.basis[0])) <= farthest + 1e-6
    assert norm_at_distance(vertices.distance, 4) == pytest.approx(farthest)
    for direction in random.standard_normal((5, 3)):
        reached = polytope.farthest(direction)
        assert (rows @ polytope.to_classes(reached) >= -1e-6).all()
        assert direction @ reached >= (polytope.shoot(direction[None])[0] @ direction) - 1e-9


def test_rows_in_a_plane_do_not_span() -> None:
    flat = np.array([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [0.75, 0.25, 0.0]])
    assert not SimplexPolytope(flat).spans_the_plane()
    assert SimplexPolytope(np.eye(3)).spans_the_plane()


def test_the_basis_of_the_plane_is_orthonormal_and_sums_to_zero() -> None:
    basis = plane_basis(3)
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-12)
