"""Comparisons: which of two items a judge found better, stored as codes with their names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import checks
from crowdprism.annotations.names import NameArray, encode, is_missing, is_text_column, known_positions, positions
from crowdprism.errors import InvalidAnnotationsError, some

LEFT, RIGHT, TIE = 0, 1, 2
# Words for an outcome, in lower case; the name of an item goes before a word.
WORDS = {
    **dict.fromkeys(("left", "l", "a", "model_a", "answer_a", "response_a", "first"), LEFT),
    **dict.fromkeys(("right", "r", "b", "model_b", "answer_b", "response_b", "second"), RIGHT),
    **dict.fromkeys(("tie", "ties", "draw", "equal", "same", "both", "neither", "=", "tie (bothbad)"), TIE),
    **dict.fromkeys(("both_bad", "bothbad", "tie_bothbad", "both bad", "tie (both bad)"), TIE),
}
SKIPPED = -1
NOBODY = "(not named)"


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons:
    """Which of two items was found better, by whom; build one with `from_columns`.

    `left`, `right` and `judge` are positions in `items` and `judges`; `outcome` is 0 where the left item was better, 1
    the right one, 2 a tie; `group` is None where judges have no groups. `n_skipped` rows had no winner. `known` has the
    pairs whose outcome is known: the item with the lower code, the other, and the outcome as if the former stood left.

    Examples
    --------
    >>> Comparisons.from_columns(["x", "y"], ["y", "z"], ["x", "tie"], ["ann", "bob"])
    Comparisons(2 comparisons of 3 items by 2 judges, 1 ties)
    """

    left: NDArray[Any]
    right: NDArray[Any]
    outcome: NDArray[Any]
    judge: NDArray[Any]
    items: NameArray
    judges: NameArray
    group: NDArray[Any] | None = None
    groups: NameArray | None = None
    n_skipped: int = 0
    known: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))

    @classmethod
    def from_columns(
        cls,
        left: Any,
        right: Any,
        winner: Any,
        judge: Any = None,
        *,
        group: Any = None,
        gold: Any = None,
        skip_missing: bool = False,
    ) -> Comparisons:
        """Build from columns of equal length, one row per comparison.

        Parameters
        ----------
        left, right
            The two items, in the order in which they were shown.
        winner
            The better item by its name, or `left`, `right`, `model_a`, `model_b`, `tie` and the like.
        judge
            Who compared; None if that is not known.
        group
            A group of judges per row, such as `expert` and `crowd`.
        gold
            The winner where it is known, written as `winner`; else None or empty.
        skip_missing
            Leave out rows without a winner (they are counted) instead of stopping.
        """
        columns = {"left": left, "right": right, "winner": winner, "judge": judge, "group": group, "gold": gold}
        checks.require([checks.check_lengths(columns)])
        if not len(left):
            raise InvalidAnnotationsError("There is no comparison. Check that the file holds the answers.")
        columns = {name: None if column is None else _column(column) for name, column in columns.items()}
        checks.require(checks.check_hashable(one, role) for role, one in columns.items() if one is not None)
        items, codes = encode(_end_to_end(columns["left"], columns["right"]))
        first, second = np.split(codes, 2)
        _require_two_items(items, first, second)
        outcome = _outcomes(columns, items, first, second, skip_missing=skip_missing)
        judges, by = encode([NOBODY] if judge is None else columns["judge"])
        by = np.zeros(len(first), np.int64) if judge is None else by
        groups, member = (None, None) if group is None else encode(columns["group"])
        if any(is_missing(name) or name == "" for name in (*items, *judges, *(() if groups is None else groups))):
            raise InvalidAnnotationsError("An item, judge or group has no name. Complete the file.")
        kept = outcome != SKIPPED
        if not kept.any():
            raise InvalidAnnotationsError(f"None of the {len(kept)} comparisons has a winner. Write ties as `tie`.")
        whole = cls(first, second, outcome, by, items, judges, member, groups, int((~kept).sum()))
        whole = whole if kept.all() else whole.select(kept)
        return whole if gold is None else whole.with_gold(columns["left"], columns["right"], columns["gold"])

    def with_gold(self, left: Any, right: Any, winner: Any) -> Comparisons:
        """Add pairs whose winner is known, from columns as in `from_columns`; rows without a winner say nothing."""
        first, second = (known_positions(self.items, side, "items", given="items with gold") for side in (left, right))
        _require_two_items(self.items, first, second)
        columns = {"left": _column(left), "right": _column(right), "winner": _column(winner)}
        outcome = _outcomes(columns, self.items, first, second, skip_missing=True, what="known winners")
        turned = np.where((first > second) & (outcome != TIE), RIGHT - outcome, outcome)
        rows = np.stack([np.minimum(first, second), np.maximum(first, second), turned], axis=1)
        known = np.unique(np.concatenate([self.known, rows[outcome != SKIPPED]]), axis=0)
        twice = np.flatnonzero((np.diff(known[:, :2], axis=0) == 0).all(axis=1))
        if len(twice):
            pair = self.items[known[twice[0], :2]].tolist()
            raise InvalidAnnotationsError(
                f"Gold contradicts itself on {len(twice)} of {len(known) - len(twice)} pairs, first on {pair[0]!r} and "
                f"{pair[1]!r}. Keep one known winner for each pair."
            )
        return replace(self, known=known)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def n_judges(self) -> int:
        return len(self.judges)

    def __len__(self) -> int:
        return len(self.left)

    def select(self, keep: NDArray[np.bool_]) -> Comparisons:
        """Keep the comparisons where the mask (n,) is true; all names stay."""
        parts = {name: getattr(self, name) for name in ("left", "right", "outcome", "judge", "group")}
        kept: dict[str, Any] = {name: None if part is None else part[keep] for name, part in parts.items()}
        return replace(self, **kept)

    def __repr__(self) -> str:
        ties = int((self.outcome == TIE).sum())
        return f"Comparisons({len(self)} comparisons of {self.n_items} items by {self.n_judges} judges, {ties} ties)"


def _column(values: Any) -> Any:
    """A column as `encode` takes it; a polars column of complete texts stays one."""
    if is_text_column(values):
        return values if not values.null_count() else values.to_list()
    return values if isinstance(values, np.ndarray) else list(values)


def _end_to_end(left: Any, right: Any) -> Any:
    if is_text_column(left) and is_text_column(right):
        return left.clone().append(right)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.concatenate([left, right])
    return [*left, *right]


def _require_two_items(items: NameArray, left: NDArray[Any], right: NDArray[Any]) -> None:
    same = np.flatnonzero(left == right)
    if len(same):
        raise InvalidAnnotationsError(
            f"{len(same)} of {len(left)} comparisons compare an item with itself; the first is "
            f"{items.tolist()[left[same[0]]]!r} in row {same[0]} (from 0). Remove them."
        )


def _outcomes(
    columns: dict[str, Any],
    items: NameArray,
    left: NDArray[Any],
    right: NDArray[Any],
    *,
    skip_missing: bool,
    what: str = "winners",
) -> NDArray[np.int8]:
    """(n,) code of each outcome; the name of one of the two items, else a word."""
    winner = columns["winner"]
    if all(is_text_column(columns[role]) for role in ("left", "right", "winner")):
        is_left, is_right = ((columns[role] == winner).to_numpy() for role in ("left", "right"))
    else:
        names, code = encode(winner)
        item = positions(items, names)[code]
        is_left, is_right = item == left, item == right
    found: NDArray[np.int8] = (~is_left).astype(np.int8)  # LEFT or RIGHT
    rest = np.flatnonzero(~(is_left | is_right))
    if not len(rest):
        return found
    distinct, code = encode(winner[rest] if is_text_column(winner) else [winner[at] for at in rest])
    missing = np.array([is_missing(one) or one == "" for one in distinct.tolist()], dtype=bool)[code]
    if missing.any() and not skip_missing:
        raise InvalidAnnotationsError(
            f"{int(missing.sum())} of {len(left)} comparisons have no winner; the first is row "
            f"{rest[np.argmax(missing)]} (from 0).",
            remedy="Pass {skip_missing:True} to leave them out, or write ties as `tie`.",
        )
    meant = [WORDS.get(str(one).strip().lower(), SKIPPED) for one in distinct.tolist()]
    word = np.where(positions(items, distinct) < 0, meant, SKIPPED).astype(np.int8)  # another item's name is no word
    found[rest] = np.where(missing, SKIPPED, word[code])
    wrong = (found[rest] == SKIPPED) & ~missing
    if wrong.any():
        row, named = int(rest[wrong][0]), distinct[code[wrong]].tolist()
        pair = " and ".join(map(repr, items[[left[row], right[row]]].tolist()))
        raise InvalidAnnotationsError(
            f"{len(named)} of {len(left)} {what} are neither item of their comparison; the first is {named[0]!r} in "
            f"row {row} (from 0), where {pair} were compared. Wrong are {some(dict.fromkeys(named), 5)}. Write the "
            "winner's name, left, right or tie."
        )
    return found
