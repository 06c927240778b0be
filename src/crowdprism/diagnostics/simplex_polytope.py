"""The polytope behind the scattering condition: all x with `rows @ x >= 0` and entries of x summing to one.

With the centre 1/K taken as origin of the K - 1 dimensional plane of such x, this polytope is the polar of the convex
hull of the rows. Each facet of the hull at distance d from the centre is a vertex of the polytope with squared norm
1/K + 1/(K d)^2, so the farthest vertex belongs to the nearest facet, and the vertex has norm one exactly where the
facet touches the largest ball inside the probability simplex.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

TOLERANCE = 1e-7  # linear programs and hulls are solved to about 1e-9
FAR = 1e3  # a linear program that gets this far from the centre counts as unbounded
MAX_FACETS = 60_000  # a hull of this many facets takes some seconds
FACETS_REFINED = 32  # how many of the nearest facets request a further row in one round


def plane_basis(n_classes: int) -> FloatArray:
    """Orthonormal basis of the vectors that sum to zero: (n_classes, n_classes - 1)."""
    from scipy.linalg import helmert

    return np.asarray(helmert(n_classes).T)


def inner_radius(n_classes: int) -> float:
    """Radius of the largest ball inside the probability simplex."""
    return float(1.0 / np.sqrt(n_classes * (n_classes - 1)))


def norm_at_distance(distance: float, n_classes: int) -> float:
    """Norm of the vertex that belongs to a facet at this distance from the centre; infinite at or beyond it."""
    if distance <= TOLERANCE:
        return float("inf")
    return float(np.sqrt(1.0 / n_classes + 1.0 / (n_classes * distance) ** 2))


def extremes(table: FloatArray) -> set[int]:
    """The rows with the largest and the smallest entry of each column."""
    return set(np.argmax(table, axis=0).tolist()) | set(np.argmin(table, axis=0).tolist())


@dataclass
class SimplexPolytope:
    """Linear programs and vertices of `{x : rows @ x >= 0, sum(x) = 1}`; rows (n_rows, n_classes) sum to one.

    Linear programs contain only the rows in `working` and add further rows when these are violated, so that ten
    thousand rows cost little more than the few that matter.
    """

    rows: FloatArray
    points: FloatArray = field(init=False)  # (n_rows, n_classes - 1), rows in the plane around the centre
    basis: FloatArray = field(init=False)
    working: list[int] = field(init=False)
    reached: dict[bytes, FloatArray] = field(default_factory=dict, init=False)  # solved programs, by direction

    def __post_init__(self) -> None:
        self.basis = plane_basis(self.rows.shape[1])
        self.points = self.rows @ self.basis
        self.working = sorted(extremes(self.rows))

    @property
    def n_classes(self) -> int:
        return int(self.rows.shape[1])

    def to_classes(self, place: FloatArray) -> FloatArray:
        """Points of the plane (..., n_classes - 1) as vectors over classes that sum to one."""
        return np.asarray(place @ self.basis.T + 1.0 / self.n_classes)

    def spans_the_plane(self) -> bool:
        """Whether the rows span all dimensions; if not, the polytope is unbounded."""
        if len(self.points) < self.n_classes:
            return False
        centred = self.points - self.points.mean(axis=0)
        values = np.linalg.svd(centred.T @ centred, compute_uv=False)
        return bool(values[-1] > TOLERANCE**2 * max(values[0], 1.0))

    def farthest(self, direction: FloatArray) -> FloatArray:
        """The point of the polytope (in the plane) that lies farthest in a direction; within a box of size FAR."""
        key = direction.round(6).tobytes()
        if key not in self.reached:  # climbs from different starts soon meet, so solved programs are kept
            self.reached[key] = self._solve(direction)
        return self.reached[key]

    def _solve(self, direction: FloatArray) -> FloatArray:
        from scipy.optimize import linprog

        while True:
            solved = linprog(
                -direction,
                A_ub=-self.points[self.working],
                b_ub=np.full(len(self.working), 1.0 / self.n_classes),
                bounds=(-FAR, FAR),
                method="highs",
                options={"presolve": False},  # takes longer than it saves on programs this small
            )
            place: FloatArray = np.asarray(solved.x, dtype=float)
            slack = self.points @ place + 1.0 / self.n_classes
            worst = np.argsort(slack)[: self.n_classes]
            new = [int(row) for row in worst if slack[row] < -TOLERANCE and row not in self.working]
            if not new:
                return place
            self.working.extend(new)

    def shoot(self, directions: FloatArray) -> FloatArray:
        """Where straight lines from the centre leave the polytope: (n, n_classes - 1), cut off at length FAR."""
        steepest = np.maximum(-(self.points @ directions.T).min(axis=0), 1e-300)
        lengths = np.minimum(1.0 / (self.n_classes * steepest), FAR / np.linalg.norm(directions, axis=1))
        return np.asarray(directions * lengths[:, None])

    def climb(self, direction: FloatArray) -> FloatArray:
        """Go to the farthest point in the direction of the last one until the norm no longer grows."""
        place = self.farthest(direction)
        norm = np.linalg.norm(place)
        while norm < FAR / 2:
            further = self.farthest(place)
            if np.linalg.norm(further) <= norm * (1 + TOLERANCE):
                break
            place, norm = further, np.linalg.norm(further)
        return place

    def norm(self, place: FloatArray) -> float:
        """Norm of x at a point of the plane; infinite beyond FAR / 2, where the box had to stop it."""
        length = float(np.linalg.norm(place))
        return float("inf") if length >= FAR / 2 else float(np.sqrt(1.0 / self.n_classes + length**2))

    def enumerate_vertices(self, *, limit: int = MAX_FACETS) -> Vertices:
        """Vertices of the polytope, or of a larger one made from fewer rows.

        Rows are added where the nearest facet of the hull of the chosen rows is not a facet of the hull of all rows.
        This ends when it is one (the farthest vertex is exact), when no vertex is farther than the axes (the condition
        is certified), or when the hull would have more than about `limit` facets.
        """
        if self.n_classes == 2:
            low, high = float(self.points.min()), float(self.points.max())
            nearest = min(high, -low)
            ends = [[-1.0 / (2 * high)], [-1.0 / (2 * low)]] if nearest > TOLERANCE else np.empty((0, 1))
            return Vertices(self.to_classes(np.asarray(ends)), nearest, exact=True, n_rows=2)
        chosen = sorted(extremes(self.rows) | extremes(self.points))  # so that the first hull has full dimension
        hull = convex_hull(self.points[chosen])
        radius = inner_radius(self.n_classes)
        while hull is not None:
            distance = -hull[:, -1]
            near = np.argsort(distance)[:FACETS_REFINED]
            near = near[distance[near] < radius - TOLERANCE]
            height = self.points @ hull[near, :-1].T  # (row, facet)
            beyond = height.max(axis=0) > distance[near] + TOLERANCE
            exact = bool(len(near)) and not beyond[0]  # the nearest facet supports all rows
            added = set(np.argmax(height, axis=0)[beyond].tolist()) - set(chosen) if len(near) else set()
            larger = sorted(set(chosen) | added)
            growth = len(hull) * (len(larger) / len(chosen)) ** ((self.n_classes - 1) / 2)  # facets, at worst
            if exact or not added or growth > limit:
                inside = hull[distance > TOLERANCE]
                places = self.to_classes(inside[:, :-1] / (self.n_classes * inside[:, -1:]))
                return Vertices(places, float(distance.min()), exact=exact, n_rows=len(chosen))
            chosen = larger
            hull = convex_hull(self.points[chosen])
        return Vertices(np.empty((0, self.n_classes)), 0.0, exact=False, n_rows=len(chosen))


@dataclass(frozen=True)
class Vertices:
    """Vertices of the polytope over classes, and the distance of the nearest facet of the rows' hull."""

    places: FloatArray  # (n_vertices, n_classes)
    distance: float
    exact: bool  # whether the distance belongs to all rows; else it is that of a subset, and a lower bound
    n_rows: int


def convex_hull(points: Any) -> FloatArray | None:
    """Facets of the hull as (normal, -distance), one row each; None where the points do not span the space."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(ConvexHull(points).equations)
    except (QhullError, ValueError):
        return None
