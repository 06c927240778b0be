"""Annotations: who gave which label to which item; sparse, frozen and sorted, so the order of rows never matters."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdprism.annotations import building, frames, selecting
from crowdprism.annotations.building import NO_NUMBERS, Names
from crowdprism.annotations.gold import with_gold
from crowdprism.annotations.names import NameArray, Named, encode, same_arrays, same_names
from crowdprism.annotations.notebook import annotations_html
from crowdprism.annotations.summary import AnnotationSummary, summarize
from crowdprism.errors import counted, some

Repeats = Literal["keep", "first", "last", "error"]


@dataclass(frozen=True, eq=False, repr=False)
class Annotations(Named):
    """Labels that annotators gave to items: sparse, frozen, sorted by item.

    Build one with `from_triplets`, `from_dense`, `from_frame`, `from_dicts` or `crowdprism.read_annotations`.

    Attributes
    ----------
    item_start
        (n_items + 1,) the annotations of item i stand at `item_start[i]:item_start[i + 1]`.
    annotator, label
        (n_annotations,) codes: positions in `annotators` and `classes`.
    items, annotators, classes
        The user's own names, in order.
    weight, duration, timestamp
        (n_annotations,) or None: how much each annotation counts (None: all count 1), seconds spent, seconds since
        1970. Times are NaN where unknown.
    gold
        (n_items,) masked array of true class codes, masked where unknown, or None.
    classes_ordered
        Whether `classes` run from low to high.

    Examples
    --------
    >>> a = Annotations.from_triplets(["x", "x", "y"], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    >>> a
    Annotations(3 annotations of 2 items by 2 annotators, 2 classes: 'cat', 'dog')
    >>> a.items[a.item].tolist(), a.classes[a.label].tolist()
    (['x', 'x', 'y'], ['cat', 'dog', 'cat'])
    """

    item_start: NDArray[Any]
    annotator: NDArray[np.int32]
    label: NDArray[Any]
    items: NameArray
    annotators: NameArray
    classes: NameArray
    weight: NDArray[np.float32] | None = None
    duration: NDArray[np.float32] | None = None
    timestamp: NDArray[np.float64] | None = None
    gold: np.ma.MaskedArray[Any, Any] | None = None
    frame_kind: str = field(default="polars", compare=False)
    classes_ordered: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        for array in (*self._stored(), self.items):
            array.flags.writeable = False

    def _stored(self) -> list[NDArray[Any]]:
        arrays = (self.item_start, self.annotator, self.label, self.weight, self.duration, self.timestamp)
        return [array for array in arrays if array is not None]

    @classmethod
    def from_triplets(
        cls,
        items: Any,
        annotators: Any,
        labels: Any,
        *,
        classes: Names = None,
        item_names: Names = None,
        annotator_names: Names = None,
        weight: ArrayLike | None = None,
        duration: ArrayLike | None = None,
        timestamp: ArrayLike | None = None,
        gold: Mapping[Any, Any] | None = None,
        repeats: Repeats = "keep",
    ) -> Annotations:
        """Build from three columns of equal length, one row per annotation.

        Parameters
        ----------
        items, annotators, labels
            Any hashable names; each column of one type.
        classes, item_names, annotator_names
            Names in the order wanted, possibly more than occur. By default those that occur, sorted.
        weight, duration, timestamp
            One number per annotation.
        gold
            True class by item name, for those items where it is known.
        repeats
            What to do where an annotator labelled an item more than once: `"keep"` each (the default: every answer
            is evidence), the `"first"` or `"last"` (by timestamp, or by row without one), or raise an `"error"`.

        Examples
        --------
        >>> Annotations.from_triplets([1, 1, 2], ["a", "b", "a"], [0, 1, 1], gold={1: 0}).shape
        (2,)
        """
        return building.build(
            cls,
            {"item": items, "annotator": annotators, "label": labels},
            names={"item": item_names, "annotator": annotator_names, "label": classes},
            numbers={"weight": weight, "duration": duration, "timestamp": timestamp},
            gold=gold,
            repeats=repeats,
        )

    @classmethod
    def from_dense(
        cls,
        table: Any,
        *,
        missing: Any = -1,
        classes: Names = None,
        item_names: Names = None,
        annotator_names: Names = None,
    ) -> Annotations:
        """Build from an items x annotators table in which `missing`, NaN, None and masked cells are no annotation.

        Every row is an item and every column an annotator, also those without annotations.

        Examples
        --------
        >>> Annotations.from_dense([[0, -1], [1, 1]])
        Annotations(3 annotations of 2 items by 2 annotators, 2 classes: 0, 1)
        """
        return building.build_dense(cls, table, missing, names=(item_names, annotator_names, classes))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        item: str = "item",
        annotator: str = "annotator",
        label: str = "label",
        weight: str | None = None,
        duration: str | None = None,
        timestamp: str | None = None,
        gold: str | None = None,
        classes: Names = None,
        repeats: Repeats = "keep",
    ) -> Annotations:
        """Build from a long data frame (pandas, polars, pyarrow, ...), one row per annotation.

        Each argument names a column. `to_frame` gives back the same kind of frame.

        Examples
        --------
        >>> import polars as pl
        >>> frame = pl.DataFrame({"item": [1, 1], "annotator": ["a", "b"], "label": ["yes", "no"]})
        >>> Annotations.from_frame(frame).classes.tolist()
        ['no', 'yes']
        """
        columns = {"item": item, "annotator": annotator, "label": label, "gold": gold}
        columns |= {"weight": weight, "duration": duration, "timestamp": timestamp}
        return frames.build_from_frame(cls, frame, columns, classes=classes, repeats=repeats)

    @classmethod
    def from_dicts(
        cls, nested: Mapping[Any, Mapping[Any, Any]], *, classes: Names = None, gold: Mapping[Any, Any] | None = None
    ) -> Annotations:
        """Build from `{item: {annotator: label}}`; an item with an empty dict is an item without annotations.

        Examples
        --------
        >>> Annotations.from_dicts({"x": {"ann": "cat", "bob": "dog"}, "y": {}}).n_items
        2
        """
        rows = [(item, annotator, label) for item, given in nested.items() for annotator, label in given.items()]
        columns = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
        return cls.from_triplets(*columns, classes=classes, item_names=encode(list(nested))[0], gold=gold)

    @property
    def n_annotations(self) -> int:
        """Number of annotations."""
        return len(self.label)

    @property
    def shape(self) -> tuple[int]:
        """`(n_items,)`: to scikit-learn, annotations are a target with one entry per item."""
        return (self.n_items,)

    ndim = 1  # as `shape`

    def __len__(self) -> int:
        return self.n_items

    @cached_property
    def item(self) -> NDArray[np.int32]:
        """(n_annotations,) item code of each annotation; made from `item_start` when first asked for."""
        codes = np.repeat(np.arange(self.n_items, dtype=np.int32), self.labels_per_item)
        codes.flags.writeable = False
        return codes

    @property
    def labels_per_item(self) -> NDArray[np.int64]:
        """(n_items,) number of annotations of each item."""
        return np.diff(self.item_start)

    @property
    def labels_per_annotator(self) -> NDArray[np.int64]:
        """(n_annotators,) number of annotations by each annotator."""
        return np.bincount(self.annotator, minlength=self.n_annotators)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored arrays, names left out."""
        return sum(array.nbytes for array in self._stored())

    def __getitem__(self, index: Any) -> Annotations:
        """Select items by int, slice, mask or array of positions; annotators and classes stay as they are."""
        return selecting.at_items(self, selecting.item_positions(index, self.n_items))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """(n_items,) one `{annotator: label}` per item: a target that scikit-learn can split, also with `cv=3`."""
        return frames.dict_array(self)

    def __iter__(self) -> Iterator[Annotations]:
        return (self[position] for position in range(self.n_items))

    def select(self, keep: NDArray[np.bool_]) -> Annotations:
        """Keep the annotations where the mask (n_annotations,) is true; all names stay.

        Examples
        --------
        >>> a = Annotations.from_dense([[0, 1], [1, 1]])
        >>> a.select(a.label == 1).n_annotations
        3
        """
        return selecting.where(self, np.asarray(keep))

    def drop_annotators(self, names: Iterable[Hashable]) -> Annotations:
        """Leave out annotators by name, with all their labels; items stay.

        Examples
        --------
        >>> a = Annotations.from_dense([[0, 1], [1, 1]], annotator_names=["ann", "bob"])
        >>> a.drop_annotators(["bob"]).annotators.tolist()
        ['ann']
        """
        return selecting.without_annotators(self, list(names))

    def align_items(self, ids: Iterable[Hashable]) -> Annotations:
        """Bring items into the order of `ids`, such as the rows of a feature matrix.

        Ids without annotations become items without annotations; annotated items that are not in `ids` are left
        out. Both are counted in an `AlignmentWarning`. No shared id at all, or an id listed twice, is an error.

        Examples
        --------
        >>> a = Annotations.from_triplets(["x", "y"], ["ann", "ann"], ["cat", "dog"])
        >>> a.align_items(["y", "x"]).items.tolist()
        ['y', 'x']
        """
        return selecting.aligned_to(self, ids)

    def reindexed(self, *, items: Names = None, annotators: Names = None, classes: Names = None) -> Annotations:
        """Return the same annotations with other lists of names, such as those of a `FitResult`.

        A list may add names and change their order; None keeps the names. An annotation whose item, annotator or
        label is not listed is an error.

        Examples
        --------
        >>> Annotations.from_dense([[0, 1], [1, 1]]).reindexed(classes=[1, 0]).to_dense().tolist()
        [[1, 0], [0, 0]]
        """
        return selecting.reindexed(self, items, annotators, classes)

    def concat(self, *others: Annotations) -> Annotations:
        """Put annotations together by names; those of the first come first, in their order, then new ones.

        Examples
        --------
        >>> a = Annotations.from_dense([[0, 1], [1, 1], [0, 0]])
        >>> a[:1].concat(a[1:]) == a
        True
        """
        return selecting.concatenated([self, *others])

    def split_annotations(self, fraction: float, seed: int = 0) -> tuple[Annotations, Annotations]:
        """Hold out a share of the annotations (not of the items): returns `(kept, held_out)`, both with all names.

        Examples
        --------
        >>> a = Annotations.from_dense([[0, 1], [1, 1]])
        >>> kept, held_out = a.split_annotations(0.25)
        >>> kept.n_annotations, held_out.n_annotations
        (3, 1)
        """
        held_out = selecting.held_out_mask(self.n_annotations, fraction, seed)
        return self.select(~held_out), self.select(held_out)

    def gold_by_name(self) -> dict[Any, Any]:
        """True class of each item whose class is known, both by name; empty without gold.

        Examples
        --------
        >>> Annotations.from_triplets(["x", "y"], [1, 1], ["cat", "dog"], gold={"y": "cat"}).gold_by_name()
        {'y': 'cat'}
        """
        if self.gold is None:
            return {}
        known = ~np.ma.getmaskarray(self.gold)
        labels = self.classes[self.gold.data[known]]
        return dict(zip(self.items[known].tolist(), labels.tolist(), strict=True))

    def with_gold(self, gold: Any) -> Annotations:
        """Add true classes: a mapping, a pandas series, a frame (item, label) or pairs. None removes all gold.

        Gold of unknown items is counted in an `AlignmentWarning`; another class than an earlier gold is an error.

        Examples
        --------
        >>> Annotations.from_dense([[0, 1], [1, 1]]).with_gold({1: 0}).gold_by_name()
        {1: 0}
        """
        return with_gold(self, gold)

    def to_dense(self, *, missing: int = -1) -> NDArray[Any]:
        """Return an items x annotators table of class codes; of repeated annotations the last stands.

        Examples
        --------
        >>> Annotations.from_dense([[0, -1], [1, 1]]).to_dense().tolist()
        [[0, -1], [1, 1]]
        """
        return frames.dense_table(self, missing)

    def to_csr(self) -> Any:
        """Return a scipy CSR array of class codes, as `to_dense`; class 0 is an explicit zero."""
        return frames.csr_table(self)

    def to_frame(self, kind: str | None = None) -> Any:
        """Return a long `"pandas"`, `"polars"`, `"pyarrow"` or `"datasets"` table; by default the kind that came in."""
        return frames.long_frame(self, kind or self.frame_kind)

    def to_shards(self, folder: Any, *, force: bool = False) -> Any:
        """Write a store, from which methods work out of core, and return it; gold and times are not kept."""
        from crowdprism.shards import write_annotations  # upward on purpose: users expect this method

        return write_annotations(self, folder, force=force)

    def summary(self) -> AnnotationSummary:
        """Count what is there: sizes, labels per item and annotator, class shares, repeats, gold."""
        return summarize(self)

    _repr_html_ = annotations_html

    def __repr__(self) -> str:
        sizes = [counted(self.n_items, "item"), counted(self.n_annotators, "annotator")]
        classes = f"{counted(self.n_classes, 'class', 'classes')}: {some(self.classes.tolist())}"
        return f"Annotations({counted(self.n_annotations, 'annotation')} of {' by '.join(sizes)}, {classes})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        names, arrays = ("items", "annotators", "classes"), ("item_start", "annotator", "label", *NO_NUMBERS, "gold")
        return all(same_names(getattr(self, name), getattr(other, name)) for name in names) and all(
            same_arrays(getattr(self, name), getattr(other, name)) for name in arrays
        )

    __hash__ = None  # type: ignore[assignment]
