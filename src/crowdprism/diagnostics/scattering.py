"""Are rows scattered enough over the probability simplex to pin a factorisation down?

The sufficiently scattered condition (Fu, Huang, Sidiropoulos and Ma 2019; for crowds Ibrahim, Nguyen and Fu 2023) asks
(i) that the cone of the rows holds the ice-cream cone that touches the orthant's facets, and (ii) that no other
orthogonal cone holds the rows. In dual form (compare Gillis and Luce 2024): with v the largest norm of an x with
`rows @ x >= 0` and sum(x) = 1, condition (i) holds exactly if v = 1. Deciding it is NP-hard in general, so
we bracket v: linear programs from below (a point beyond 1 refutes), sound certificates from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.diagnostics.simplex_polytope import FAR, FloatArray, SimplexPolytope, Vertices, norm_at_distance
from crowdprism.errors import InvalidParameterError
from crowdprism.seeding import stream

Answer = Literal["yes", "no", "undecided"]

TINY = 1e-9
EXCESS = 1e-6  # v above 1 by more than this refutes; below, the axes' own norm cannot be told apart
ENUMERATION_CLASSES = 10  # beyond, hulls have too many facets
PROGRAM_CLASSES = 50  # beyond, even single linear programs take seconds; only straight shots remain
PRODUCT_CLASSES = 20  # beyond, the linear programs of products take minutes
MAX_PRODUCT_ROWS = 300  # rows whose products may enter that program
PRICING_ROUNDS = 12
MAX_CLIQUES = 20_000  # steps in the search for another orthogonal frame


@dataclass(frozen=True)
class Scattering:
    """What is known about the sufficiently scattered condition of some rows.

    `v_low` and `v_high` bracket v: 1 means scattered enough, larger is worse, infinite means that the centre is not
    inside the hull.
    """

    v_low: float
    v_high: float
    encloses: Answer  # condition (i), certified or refuted
    unique: Answer  # condition (ii), meaningful only if (i) holds
    certificate: str  # what settled v_high, in words
    beyond_axis: tuple[int, ...]  # classes k whose facet the rows do not reach: "largest x_k" exceeds 1
    n_rows: int  # without duplicates and empty rows
    n_classes: int
    remarks: tuple[str, ...] = ()  # which certificates were not tried, and why

    @property
    def p_low(self) -> float:
        """Lower end of p: the widest circular cone {sum(x) >= p |x|} inside the rows' cone has this p or more."""
        return margin(self.v_low, self.n_classes)

    @property
    def p_high(self) -> float:
        """Upper end of p; at most sqrt(K - 1) means scattered enough, sqrt(K) means degenerate."""
        return margin(self.v_high, self.n_classes)


def margin(v: float, n_classes: int) -> float:
    """p = sqrt(K - 1 / v^2)."""
    return float(np.sqrt(n_classes - 1.0 / v**2))


def scattering_rows(values: Any, *, zero_below: float = 0.0) -> FloatArray:
    """Rows ready for the test: small entries set to zero, empty rows left out, each sum one, no row twice."""
    rows = np.array(values, dtype=float)
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise InvalidParameterError(f"Scattering needs a table of rows with two or more columns, not {rows.shape}.")
    if not np.isfinite(rows).all() or (rows < 0).any():
        bad = int(np.sum(~np.isfinite(rows) | (rows < 0)))
        raise InvalidParameterError(f"{bad} entries are negative or not finite; scattering is about probabilities.")
    for smallest in (zero_below, zero_below, 0.0):  # an entry's share is known only once the row sums to one
        rows = rows[rows.sum(axis=1) > 0]
        rows /= rows.sum(axis=1, keepdims=True)
        rows[rows < smallest] = 0.0
    return np.unique(rows, axis=0)


def confusion_rows(confusions: Any) -> FloatArray:
    """Rows of the stacked confusions as the theory has them: (n_annotators * n_labels, true class).

    One row per annotator and given label; entries are how probable that label is under each true class.
    """
    table = np.asarray(confusions, dtype=float)
    return np.swapaxes(table, 1, 2).reshape(-1, table.shape[1])


def scattering(values: Any, *, zero_below: float = 0.0, n_starts: int = 100, seed: int = 0) -> Scattering:
    """Test the sufficiently scattered condition on rows of non-negative numbers.

    Parameters
    ----------
    values
        (n_rows, n_classes) class probabilities of items, or `confusion_rows(confusions)`.
    zero_below
        Tolerance: shares below count as zero. Without it a table without zeros can never satisfy the condition.
    n_starts
        Random starts of the search for a refuting point.

    Examples
    --------
    >>> scattering(np.eye(3)).encloses, scattering(np.eye(3)).v_high
    ('yes', 1.0)
    >>> scattering(np.full((4, 3), 1 / 3)).encloses
    'no'
    """
    rows = scattering_rows(values, zero_below=zero_below)
    n_classes = np.shape(values)[1]
    polytope = SimplexPolytope(rows) if len(rows) else None
    if polytope is None or not polytope.spans_the_plane():
        never, why = float("inf"), "the rows do not span all classes"
        return Scattering(never, never, "no", "undecided", why, tuple(range(n_classes)), len(rows), n_classes)
    return bracket(polytope, n_starts=n_starts, seed=seed)


def axis_programs(polytope: SimplexPolytope) -> tuple[float, tuple[int, ...]]:
    """The necessary test: the largest x_k for each class k. Returns a norm found, and the classes beyond 1."""
    axes = polytope.basis  # row k is e_k in the plane
    if polytope.n_classes > PROGRAM_CLASSES:
        places = polytope.shoot(axes)
    else:
        places = np.array([polytope.farthest(axis) for axis in axes])
    largest = np.diag(polytope.to_classes(places))
    return max(1.0, *map(polytope.norm, places)), tuple(np.flatnonzero(largest > 1 + EXCESS).tolist())


def refute(polytope: SimplexPolytope, *, n_starts: int, seed: int) -> float:
    """Largest norm found by successive linearisation from the axes and from random starts; above 1 refutes."""
    n_classes, axes = polytope.n_classes, polytope.basis
    if n_classes > 12:  # one program then takes tens of milliseconds
        n_starts = max(1, n_starts * 12**2 // n_classes**2)
    random = stream(seed, "scattering").standard_normal((n_starts, n_classes - 1))
    best = 1.0
    # Directions away from each axis come first: with few zeros in a column they lead out at once.
    for direction in [*(-axes), *axes, *random]:
        best = max(best, polytope.norm(polytope.climb(direction)))
        if best == float("inf"):
            break
    return best


def bracket(polytope: SimplexPolytope, *, n_starts: int, seed: int) -> Scattering:
    """Close in on v from both sides with what the number of classes allows, the cheapest first."""
    n_classes = polytope.n_classes
    v_low, beyond = axis_programs(polytope)
    v_high, certificate = corner_bound(polytope)
    vertices: Vertices | None = None
    if n_classes <= ENUMERATION_CLASSES:
        vertices = polytope.enumerate_vertices()
        enumerated = norm_at_distance(vertices.distance, n_classes)
        if enumerated <= v_high:
            v_high, certificate = max(enumerated, 1.0), f"vertex enumeration on {vertices.n_rows} rows"
        v_low = max(v_low, v_high) if vertices.exact else v_low
    if v_high > v_low + EXCESS and n_classes <= PROGRAM_CLASSES:
        v_low = max(v_low, refute(polytope, n_starts=n_starts, seed=seed))
    if v_high > v_low + EXCESS and n_classes <= PRODUCT_CLASSES and v_low < FAR:
        bound = product_bound(polytope.rows)
        if bound < v_high:
            v_high, certificate = bound, "products of rows (linear programs)"
    encloses: Answer = "no" if v_low > 1 + EXCESS else "yes" if v_high <= 1 + EXCESS else "undecided"
    return Scattering(
        v_low=v_low,
        v_high=max(v_high, v_low),
        encloses=encloses,
        unique=uniqueness(polytope, vertices) if encloses == "yes" else "undecided",
        certificate=certificate if encloses != "no" else "a point beyond the axes was found",
        beyond_axis=beyond,
        n_rows=len(polytope.rows),
        n_classes=n_classes,
        remarks=tuple(switched_off(n_classes)),
    )


def switched_off(n_classes: int) -> list[str]:
    if n_classes == 2:
        return ["With two classes the condition only asks for one row on each axis; no search is needed."]
    remarks = {
        ENUMERATION_CLASSES: f"Vertex enumeration is off: hulls in {n_classes - 1} dimensions have too many facets "
        f"(limit {ENUMERATION_CLASSES} classes).",
        PRODUCT_CLASSES: f"The product certificate is off: {n_classes} classes need "
        f"{n_classes * (n_classes + 1) // 2} equations (limit {PRODUCT_CLASSES} classes).",
        PROGRAM_CLASSES: f"Linear programs are off: {n_classes} classes make them slow (limit {PROGRAM_CLASSES}); the "
        "condition can be refuted by straight shots along the axes, and certified only by rows on the axes themselves.",
    }
    return [remark for limit, remark in remarks.items() if n_classes > limit]


def corner_bound(polytope: SimplexPolytope) -> tuple[float, str]:
    """Bound from K rows, one leaning most to each class: their polytope is a simplex with known corners."""
    corners = polytope.rows[np.argmax(polytope.rows, axis=0)]
    if np.linalg.cond(corners) > 1 / TINY:  # also where one row leans most to two classes
        return float("inf"), "no certificate"
    ends = np.linalg.inv(corners)  # column k solves corners @ x = e_k
    sums = ends.sum(axis=0)
    if (sums <= TINY).any():  # the centre lies outside the hull of these rows
        return float("inf"), "no certificate"
    return max(1.0, float(np.linalg.norm(ends / sums, axis=0).max())), "one row near each class"


def product_bound(rows: FloatArray) -> float:
    """Upper bound on v from writing 1 1' - I as a non-negative combination of products of rows.

    For feasible x every product (z_i x)(z_j x) is non-negative, so an exact combination gives |x|^2 <= 1. With a
    remainder R the bound is |x|^2 <= 1 / (1 - |R|). At v = 1 this is all that the usual semidefinite relaxation can
    use (its slack matrix must vanish on every axis), yet it only needs linear programs. Products are taken in as the
    program's prices ask for them.
    """
    per_class = max(4, MAX_PRODUCT_ROWS // rows.shape[1])
    rows = rows[np.unique(np.argsort(-rows, axis=0, kind="stable")[:per_class])]  # those that lean most to each class
    upper = np.triu_indices(rows.shape[1])
    wanted = np.where(upper[0] == upper[1], 0.0, 1.0)
    nearest = np.argmax(rows, axis=0)
    pairs = {(min(i, j), max(i, j)) for i in nearest.tolist() for j in nearest.tolist() if i != j}
    bound = float("inf")
    for _ in range(PRICING_ROUNDS):
        one, two = (rows[list(side)] for side in zip(*sorted(pairs), strict=True))
        entries = (one[:, upper[0]] * two[:, upper[1]] + one[:, upper[1]] * two[:, upper[0]]).T  # (entry, pair)
        amounts, prices = cheapest_remainder(entries, wanted)
        remainder = np.zeros((rows.shape[1],) * 2)
        remainder[upper] = entries @ amounts - wanted
        size = float(np.abs(np.linalg.eigvalsh(np.triu(remainder) + np.triu(remainder, 1).T)).max())
        bound = min(bound, float("inf") if size >= 1 else float(np.sqrt(1 / (1 - size))))
        new = asked_for(rows, prices, upper, pairs)
        if bound <= 1 + EXCESS / 2 or not new:
            break
        pairs |= new
    return bound


def cheapest_remainder(entries: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Amounts of each product that leave the smallest sum of absolute remainders, and the price of each entry."""
    from scipy.optimize import linprog
    from scipy.sparse import csc_array, eye_array, hstack

    unit = eye_array(len(wanted))
    system = hstack([csc_array(entries), unit, -unit], format="csc")
    cost = np.concatenate([np.zeros(entries.shape[1]), np.ones(2 * len(wanted))])
    solved = linprog(cost, A_eq=system, b_eq=wanted, bounds=(0, None), method="highs")
    return np.maximum(solved.x[: entries.shape[1]], 0.0), np.asarray(solved.eqlin.marginals)


def asked_for(rows: FloatArray, prices: FloatArray, upper: Any, known: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The pairs whose product would lower the remainder most at these prices."""
    table = np.zeros((rows.shape[1],) * 2)
    table[upper] = prices
    value = rows @ (table + table.T) @ rows.T
    first, second = np.triu_indices(len(rows), 1)
    order = np.argsort(-value[first, second], kind="stable")[: 2 * len(prices)]
    good = order[value[first[order], second[order]] > TINY]
    return set(zip(first[good].tolist(), second[good].tolist(), strict=True)) - known


def uniqueness(polytope: SimplexPolytope, vertices: Vertices | None) -> Answer:
    """Condition (ii): "yes" if no orthonormal frame but the axes consists of points of norm one."""
    rows, n_classes = polytope.rows, polytope.n_classes
    if np.allclose(rows.max(axis=0), 1.0, atol=TINY):
        return "yes"  # rows on all axes leave x >= 0, where only the axes have norm one
    if vertices is None or not len(vertices.places):
        return "undecided"
    touching = vertices.places[np.linalg.norm(vertices.places, axis=1) > 1 - 10 * EXCESS]
    touching = touching[(rows @ touching.T).min(axis=0) > -10 * EXCESS]
    touching = np.unique(touching.round(6), axis=0)
    others = np.flatnonzero(touching.max(axis=1) < 1 - 1e-3)
    if not len(others):
        return "yes"
    if len(touching) > 500:
        return "undecided"
    found = find_frame(np.abs(touching @ touching.T) < 1e-4, others.tolist(), n_classes)
    return "undecided" if found is None else "no" if found else "yes"


def find_frame(orthogonal: NDArray[np.bool_], others: list[int], size: int) -> bool | None:
    """Whether `size` mutually orthogonal points exist with one of `others` among them; None if the search is long."""
    steps = 0

    def extend(candidates: NDArray[np.int64], missing: int) -> bool | None:
        nonlocal steps
        if missing == 0:
            return True
        for place, candidate in enumerate(candidates):
            steps += 1
            if steps > MAX_CLIQUES:
                return None
            rest = candidates[place + 1 :]
            answer = extend(rest[orthogonal[candidate, rest]], missing - 1)
            if answer is not False:
                return answer
        return False

    for start in others:
        answer = extend(np.flatnonzero(orthogonal[start]), size - 1)
        if answer is not False:
            return answer
    return False
