"""The scattering condition against closed forms and brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from crowdprism.diagnostics.scattering import confusion_rows, margin, product_bound, refute, scattering, scattering_rows
from crowdprism.diagnostics.simplex_polytope import SimplexPolytope
from crowdprism.errors import InvalidParameterError
from crowdprism.simulate import one_coin


def edge_points(a: float) -> np.ndarray:
    """Two points on each edge of the triangle, at shares a and 1 - a."""
    b = 1 - a
    return np.array([[a, b, 0], [b, a, 0], [a, 0, b], [b, 0, a], [0, a, b], [0, b, a]])


def brute_force(rows: np.ndarray) -> float:
    """Largest vertex norm by solving every choice of K - 1 active rows; infinite where the centre is not inside."""
    from scipy.optimize import linprog

    n_classes = rows.shape[1]
    for direction in [*np.eye(n_classes), *-np.eye(n_classes)]:
        if linprog(-direction, -rows, np.zeros(len(rows)), np.ones((1, n_classes)), [1.0], (None, None)).status == 3:
            return float("inf")
    best = 1.0
    for chosen in combinations(rows, n_classes - 1):
        system = np.vstack([*chosen, np.ones(n_classes)])
        if abs(np.linalg.det(system)) > 1e-12:
            vertex = np.linalg.solve(system, np.eye(n_classes)[-1])
            if (rows @ vertex >= -1e-9).all():
                best = max(best, float(np.linalg.norm(vertex)))
    return best


@pytest.mark.parametrize("n_classes", [2, 3, 4, 7, 10, 15, 60])
def test_rows_on_every_axis_are_scattered_enough(n_classes: int) -> None:
    found = scattering(np.eye(n_classes))
    assert found.encloses == "yes"
    assert found.unique == "yes"
    assert found.v_low == pytest.approx(1.0)
    assert found.v_high == pytest.approx(1.0)
    assert found.p_high == pytest.approx(np.sqrt(n_classes - 1))


@pytest.mark.parametrize(("a", "v"), [(0.5, np.sqrt(3)), (0.6, 1.1726), (0.66, 1.01365)])
def test_edge_points_below_two_thirds_are_refuted_with_the_known_norm(a: float, v: float) -> None:
    found = scattering(edge_points(a))
    assert found.encloses == "no"
    assert found.v_low == pytest.approx(v, abs=1e-4)
    assert found.v_high == pytest.approx(v, abs=1e-4)


@pytest.mark.parametrize("a", [2 / 3 + 1e-4, 0.7, 0.9, 1.0])
def test_edge_points_above_two_thirds_are_certified(a: float) -> None:
    found = scattering(edge_points(a))
    assert (found.encloses, found.unique) == ("yes", "yes")


def test_at_two_thirds_another_orthogonal_frame_also_holds_the_points() -> None:
    found = scattering(edge_points(2 / 3))
    assert (found.encloses, found.unique) == ("yes", "no")


def test_uniform_rows_are_refuted() -> None:
    found = scattering(np.full((20, 4), 0.25))
    assert found.encloses == "no"
    assert found.v_low == np.inf
    assert found.p_low == pytest.approx(2.0)


def test_a_mixture_with_uniform_has_the_known_norm() -> None:
    found = scattering(0.9 * np.eye(4) + 0.025)
    assert found.v_low == pytest.approx(1.0844, abs=1e-4)
    assert found.beyond_axis == (0, 1, 2, 3)


def test_small_entries_count_as_zero_within_the_tolerance() -> None:
    noisy = 0.97 * np.eye(4) + 0.0075
    assert scattering(noisy).encloses == "no"
    assert scattering(noisy, zero_below=0.01).encloses == "yes"


@pytest.mark.parametrize("seed", range(12))
def test_the_bracket_agrees_with_brute_force(seed: int) -> None:
    random = np.random.default_rng(seed)
    n_classes = 3 + seed % 2
    rows = random.dirichlet(np.full(n_classes, 0.3 + 0.1 * (seed % 4)), size=14)
    rows = scattering_rows(rows, zero_below=0.08)
    found, truth = scattering(rows, seed=seed), brute_force(rows)
    if np.isinf(truth):
        assert found.v_high == np.inf
    else:
        assert found.v_low == pytest.approx(truth, abs=1e-5)
        assert found.v_high == pytest.approx(truth, abs=1e-5)


def test_products_of_rows_certify_where_hulls_are_off() -> None:
    n_classes = 12
    rows = [0.9 * np.eye(n_classes)[i] + 0.1 * np.eye(n_classes)[j] for i, j in np.ndindex(12, 12) if i != j]
    found = scattering(np.array(rows), n_starts=1)
    assert found.encloses == "yes"
    assert "products" in found.certificate
    assert any("enumeration is off" in remark for remark in found.remarks)


def test_many_classes_say_which_certificates_are_off() -> None:
    found = scattering(0.99 * np.eye(60) + 0.01 / 60)
    assert found.encloses == "no"
    assert any("Linear programs are off" in remark for remark in found.remarks)


def test_margin_grows_from_scattered_to_degenerate() -> None:
    assert margin(1.0, 10) == pytest.approx(3.0)
    assert margin(np.inf, 9) == pytest.approx(3.0)
    assert margin(2.0, 5) == pytest.approx(np.sqrt(4.75))
    assert margin(1.5, 10) > margin(1.2, 10)


def test_confusion_rows_are_the_papers_rows() -> None:
    crowd = one_coin([0.8], 3)
    crowd[0, 0] = [0.7, 0.2, 0.1]
    assert confusion_rows(crowd)[1].tolist() == pytest.approx([0.2, 0.8, 0.1])


def test_negative_entries_are_an_error() -> None:
    with pytest.raises(InvalidParameterError, match="1 entries"):
        scattering([[1.0, -0.1], [0.0, 1.0]])


@pytest.mark.parametrize("seed", range(4))
def test_no_certificate_is_below_brute_force(seed: int) -> None:
    random = np.random.default_rng(100 + seed)
    rows = scattering_rows(np.vstack([random.dirichlet(np.full(4, 0.2), size=12), 0.9 * np.eye(4) + 0.025]))
    truth = brute_force(rows)
    assert product_bound(rows) >= truth - 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_successive_linearisation_finds_the_farthest_vertex(seed: int) -> None:
    random = np.random.default_rng(200 + seed)
    rows = scattering_rows(random.dirichlet(np.full(3, 0.5), size=10), zero_below=0.08)
    found = refute(SimplexPolytope(rows), n_starts=10, seed=seed)
    assert found == pytest.approx(brute_force(rows), abs=1e-5)


def test_rows_are_cut_normalised_and_listed_once() -> None:
    rows = scattering_rows([[2.0, 2.0], [0.0, 0.0], [1.0, 1.0], [0.96, 0.04]], zero_below=0.05)
    assert rows.tolist() == [[0.5, 0.5], [1.0, 0.0]]
