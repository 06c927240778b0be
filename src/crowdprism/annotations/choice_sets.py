"""MultiLabelAnnotations: answers with several choices per item, one yes/no problem per choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations.building import label_dtype
from crowdprism.annotations.container import Annotations, Repeats
from crowdprism.annotations.names import NameArray, in_order, known_positions, name_array, plain, positions
from crowdprism.errors import InvalidAnnotationsError, counted, some

NO, YES = "no", "yes"


@dataclass(frozen=True, eq=False, repr=False)
class MultiLabelAnnotations:
    """Sets of choices that annotators ticked; a choice that was not ticked is a "no".

    Build one with `from_triplets`, or read files with `crowdprism.formats.read_choices`.

    Attributes
    ----------
    sets
        Who gave which set to which item; labels are positions in `members`.
    choices
        Names of the choices.
    members
        (n_sets, n_choices) which choices each set holds.

    Examples
    --------
    >>> m = MultiLabelAnnotations.from_triplets(["x", "x"], ["ann", "bob"], [["news", "sport"], ["sport"]])
    >>> m
    MultiLabelAnnotations(2 answers on 1 item by 2 annotators, 2 choices: 'news', 'sport')
    >>> m.of("news").to_dense().tolist()
    [[1, 0]]
    """

    sets: Annotations
    choices: NameArray
    members: NDArray[np.bool_]

    @classmethod
    def from_triplets(
        cls,
        items: Any,
        annotators: Any,
        chosen: Sequence[Iterable[Any]],
        *,
        choices: Sequence[Any] | None = None,
        gold: Mapping[Any, Iterable[Any]] | None = None,
        repeats: Repeats = "keep",
        **numbers: Any,
    ) -> MultiLabelAnnotations:
        """Build from three columns of equal length; `chosen` holds the choices ticked in each answer, possibly none.

        `choices` lists all of them in the order wanted; by default those that occur, sorted. Other parameters are as in
        `Annotations.from_triplets`.
        """
        ticked = [frozenset(one) for one in chosen]
        true = {item: frozenset(one) for item, one in (gold or {}).items()}
        distinct = dict.fromkeys([*ticked, *true.values()])
        names = name_array(in_order(set().union(*distinct)) if choices is None else choices)
        places = {one: positions(names, list(one)) for one in distinct}
        _require_known(ticked, places, names, items, annotators)
        ordered = sorted(distinct, key=lambda one: sorted(places[one].tolist()))
        if len(ordered) == 1:
            same = some(sorted(map(str, ordered[0]))) or "none"
            raise InvalidAnnotationsError(f"All {len(ticked)} answers tick the same choices: {same}. Nothing differs.")
        code = {one: place for place, one in enumerate(ordered)}
        members = np.zeros((len(ordered), len(names)), dtype=bool)
        for one, place in code.items():
            members[place, places[one]] = True
        sets = Annotations.from_triplets(
            items,
            annotators,
            np.array([code[one] for one in ticked], dtype=np.int64),
            classes=list(range(len(ordered))),
            gold={item: code[one] for item, one in true.items()} if gold is not None else None,
            repeats=repeats,
            **numbers,
        )
        return cls(sets, names, members)

    def of(self, choice: Any) -> Annotations:
        """The yes/no problem of one choice, with all items and annotators."""
        place = int(known_positions(self.choices, [choice], "choices")[0])
        ticked = self.members[:, place].astype(label_dtype(2))
        gold = self.sets.gold
        if gold is not None:
            gold = np.ma.masked_array(ticked[gold.filled(0)], mask=np.ma.getmaskarray(gold))
        return replace(self.sets, label=ticked[self.sets.label], classes=name_array([NO, YES]), gold=gold)

    def with_gold(self, gold: Mapping[Any, Iterable[Any]]) -> MultiLabelAnnotations:
        """Add the choices that truly apply, by item; items that have no annotation are left out."""
        sets, names = self.sets, [self.choices[row].tolist() for row in self.members]
        return MultiLabelAnnotations.from_triplets(
            sets.items[sets.item],
            sets.annotators[sets.annotator],
            [names[code] for code in sets.label],
            choices=self.choices.tolist(),
            gold={item: gold[item] for item in sets.items.tolist() if item in gold},
            item_names=sets.items,
            weight=sets.weight,
        )

    def __iter__(self) -> Iterator[tuple[Any, Annotations]]:
        return ((choice, self.of(choice)) for choice in self.choices.tolist())

    def __len__(self) -> int:
        return self.sets.n_items

    def __getitem__(self, index: Any) -> MultiLabelAnnotations:
        """Select items, as in `Annotations`."""
        return replace(self, sets=self.sets[index])

    def __repr__(self) -> str:
        sizes = f"{counted(self.sets.n_items, 'item')} by {counted(self.sets.n_annotators, 'annotator')}"
        answers, names = counted(self.sets.n_annotations, "answer"), some(self.choices.tolist())
        return f"MultiLabelAnnotations({answers} on {sizes}, {counted(len(self.choices), 'choice')}: {names})"


def _require_known(
    ticked: list[frozenset[Any]], places: Mapping[Any, NDArray[Any]], names: NameArray, items: Any, annotators: Any
) -> None:
    wrong = [row for row, one in enumerate(ticked) if (places[one] < 0).any()]
    if wrong:
        row = wrong[0]
        unknown = sorted({str(name) for at in wrong for name in ticked[at]} - set(map(str, names.tolist())))
        raise InvalidAnnotationsError(
            f"{len(wrong)} of {len(ticked)} answers tick choices outside the {len(names)} given ones "
            f"({some(names.tolist(), 10)}); the first is by annotator {plain(annotators[row])!r} on item "
            f"{plain(items[row])!r}. Unknown are {some(unknown, 10)}.",
            remedy="Add them to {classes}, or correct the answers.",
        )
