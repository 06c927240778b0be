"""Annotations: who gave which label to which item, stored sparsely.

The container is frozen and sorted by item, then annotator, then label, so the order of rows in a file never
matters. An annotation that was not made is absent: there is no -1 or NaN label inside.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdprism.annotations import checks
from crowdprism.annotations.names import NameArray, encode, name_array, plain, positions, same_names
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, some
from crowdprism.seeding import stream

if TYPE_CHECKING:
    from crowdprism.annotations.summary import AnnotationSummary

Repeats = Literal["keep", "last", "error"]
EXTRAS = ("weight", "duration", "timestamp")


@dataclass(frozen=True, eq=False, repr=False)
class Annotations:
    """Labels that annotators gave to items: sparse, frozen, sorted by item.

    Build one with `from_triplets`, `from_dense`, `from_frame`, `from_dicts` or `crowdprism.read_annotations`.

    Attributes
    ----------
    item_start
        (n_items + 1,) the annotations of item i stand at `item_start[i]:item_start[i + 1]`; int32 where that is
        enough, else int64.
    annotator, label
        (n_annotations,) codes: positions in `annotators` and `classes`.
    items, annotators, classes
        The user's own names, in order.
    weight
        (n_annotations,) how much each annotation counts, or None where all count 1.
    duration
        (n_annotations,) seconds spent, NaN where unknown, or None.
    timestamp
        (n_annotations,) seconds since 1970, NaN where unknown, or None.
    gold
        (n_items,) masked array of true class codes, masked where unknown, or None.

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

    def __post_init__(self) -> None:
        arrays = (self.item_start, self.annotator, self.label, self.items, self.weight, self.duration, self.timestamp)
        for array in arrays:
            if array is not None:
                array.flags.writeable = False

    # -- construction ---------------------------------------------------------------------------------------

    @classmethod
    def from_triplets(
        cls,
        items: Any,
        annotators: Any,
        labels: Any,
        *,
        classes: Sequence[Hashable] | None = None,
        item_names: Sequence[Hashable] | None = None,
        annotator_names: Sequence[Hashable] | None = None,
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
            What to do where an annotator labelled an item more than once: `"keep"` each (the default: every
            answer is evidence), keep the `"last"` (by timestamp, or by row without one), or raise an `"error"`.

        Examples
        --------
        >>> Annotations.from_triplets([1, 1, 2], ["a", "b", "a"], [0, 1, 1], gold={1: 0}).shape
        (2,)
        """
        from crowdprism.annotations.building import build

        return build(
            cls,
            items,
            annotators,
            labels,
            classes=classes,
            item_names=item_names,
            annotator_names=annotator_names,
            extras={"weight": weight, "duration": duration, "timestamp": timestamp},
            gold=gold,
            repeats=repeats,
        )

    @classmethod
    def from_dense(
        cls,
        table: Any,
        *,
        missing: Any = -1,
        classes: Sequence[Hashable] | None = None,
        item_names: Sequence[Hashable] | None = None,
        annotator_names: Sequence[Hashable] | None = None,
    ) -> Annotations:
        """Build from an items x annotators table in which `missing`, NaN, None and masked cells are no annotation.

        Every row is an item and every column an annotator, also those without annotations.

        Examples
        --------
        >>> Annotations.from_dense([[0, -1], [1, 1]])
        Annotations(3 annotations of 2 items by 2 annotators, 2 classes: 0, 1)
        """
        from crowdprism.annotations.building import build_from_codes, triplets_of_dense

        items, annotators, labels, shape = triplets_of_dense(table, missing)
        rows = name_array(range(shape[0]) if item_names is None else item_names)
        columns = name_array(range(shape[1]) if annotator_names is None else annotator_names)
        checks.require(
            [
                checks.check_lengths({"rows of the table": range(shape[0]), "item_names": rows}),
                checks.check_lengths({"columns of the table": range(shape[1]), "annotator_names": columns}),
            ]
        )
        return build_from_codes(
            cls, labels, classes=classes, names=(rows, columns), codes=(items, annotators), repeats="keep"
        )

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
        classes: Sequence[Hashable] | None = None,
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
        from crowdprism.annotations.frames import columns_of_frame

        columns, kind = columns_of_frame(
            frame,
            {
                "item": item,
                "annotator": annotator,
                "label": label,
                "weight": weight,
                "duration": duration,
                "timestamp": timestamp,
                "gold": gold,
            },
        )
        from crowdprism.annotations.building import gold_by_item

        gold_values = columns.pop("gold", None)
        items, annotators, labels = (columns.pop(role) for role in ("item", "annotator", "label"))
        built = cls.from_triplets(
            items,
            annotators,
            labels,
            classes=classes,
            gold=None if gold_values is None else gold_by_item(items, gold_values),
            repeats=repeats,
            **columns,
        )
        return replace(built, frame_kind=kind)

    @classmethod
    def from_dicts(
        cls,
        nested: Mapping[Any, Mapping[Any, Any]],
        *,
        classes: Sequence[Hashable] | None = None,
        gold: Mapping[Any, Any] | None = None,
    ) -> Annotations:
        """Build from `{item: {annotator: label}}`; an item with an empty dict is an item without annotations.

        Examples
        --------
        >>> Annotations.from_dicts({"x": {"ann": "cat", "bob": "dog"}, "y": {}}).n_items
        2
        """
        rows = [(item, annotator, label) for item, given in nested.items() for annotator, label in given.items()]
        items, annotators, labels = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
        names = encode(list(nested))[0]
        return cls.from_triplets(items, annotators, labels, classes=classes, item_names=cast(Any, names), gold=gold)

    # -- sizes ----------------------------------------------------------------------------------------------

    @property
    def n_items(self) -> int:
        """Number of items, those without annotations included."""
        return len(self.items)

    @property
    def n_annotators(self) -> int:
        """Number of annotators, those without annotations included."""
        return len(self.annotators)

    @property
    def n_classes(self) -> int:
        """Number of classes, those that nobody chose included."""
        return len(self.classes)

    @property
    def n_annotations(self) -> int:
        """Number of annotations."""
        return len(self.label)

    @property
    def shape(self) -> tuple[int]:
        """`(n_items,)`: to scikit-learn, annotations are a target with one entry per item."""
        return (self.n_items,)

    @property
    def ndim(self) -> int:
        """1, as `shape`."""
        return 1

    def __len__(self) -> int:
        return self.n_items

    @cached_property
    def item(self) -> NDArray[np.int32]:
        """(n_annotations,) item code of each annotation; made from `item_start` when first asked for."""
        counts = np.diff(self.item_start)
        codes = np.repeat(np.arange(self.n_items, dtype=np.int32), counts)
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
        stored: list[NDArray[Any] | None] = [
            self.item_start,
            self.annotator,
            self.label,
            self.weight,
            self.duration,
            self.timestamp,
        ]
        return sum(array.nbytes for array in stored if array is not None)

    # -- selection ------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Annotations:
        """Select items by int, slice, mask or array of positions; annotators and classes stay as they are."""
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]  # scikit-learn selects rows of any array as y[rows, ...]
        chosen = self._item_positions(index)
        counts = self.item_start[chosen + 1] - self.item_start[chosen]
        start = np.zeros(len(chosen) + 1, dtype=self.item_start.dtype)
        np.cumsum(counts, out=start[1:])
        rows = np.arange(start[-1]) + np.repeat(self.item_start[chosen] - start[:-1], counts)
        return self._take(rows, start, self.items[chosen], None if self.gold is None else self.gold[chosen])

    def _item_positions(self, index: Any) -> NDArray[np.int64]:
        if isinstance(index, slice):
            return np.arange(self.n_items)[index]
        if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
            if not -self.n_items <= index < self.n_items:
                raise IndexError(f"Item {index} is out of range: there are {self.n_items} items.")
            return np.array([index % self.n_items])
        chosen = np.asarray(index)
        if chosen.ndim != 1:
            raise IndexError(f"Items are selected by one-dimensional arrays, not by shape {chosen.shape}.")
        if chosen.dtype == bool:
            if len(chosen) != self.n_items:
                raise IndexError(f"The mask has {len(chosen)} entries but there are {self.n_items} items.")
            return np.flatnonzero(chosen)
        if len(chosen) == 0:
            return np.empty(0, dtype=np.int64)
        if chosen.dtype.kind not in "iu":
            raise IndexError(f"Items are selected by whole numbers or a mask, not by {chosen.dtype}.")
        outside = np.flatnonzero((chosen < -self.n_items) | (chosen >= self.n_items))
        if len(outside):
            raise IndexError(
                f"{len(outside)} positions are out of range, the first is {chosen[outside[0]]}: "
                f"there are {self.n_items} items."
            )
        return np.where(chosen < 0, chosen + self.n_items, chosen)

    def _take(
        self, rows: NDArray[Any], start: NDArray[np.int64], items: NameArray, gold: np.ma.MaskedArray[Any, Any] | None
    ) -> Annotations:
        """Return the annotations at `rows`, already grouped by the new items."""
        return Annotations(
            start,
            self.annotator[rows],
            self.label[rows],
            items,
            self.annotators,
            self.classes,
            None if self.weight is None else self.weight[rows],
            None if self.duration is None else self.duration[rows],
            None if self.timestamp is None else self.timestamp[rows],
            gold,
            self.frame_kind,
        )

    def select(self, keep: NDArray[np.bool_]) -> Annotations:
        """Keep the annotations where the mask (n_annotations,) is true; all names stay.

        Examples
        --------
        >>> a = Annotations.from_dense([[0, 1], [1, 1]])
        >>> a.select(a.label == 1).n_annotations
        3
        """
        keep = np.asarray(keep)
        if keep.dtype != bool or keep.shape != (self.n_annotations,):
            raise InvalidParameterError(
                f"select takes a mask of {self.n_annotations} truth values, one per annotation, not "
                f"{keep.dtype} of shape {keep.shape}."
            )
        before = np.zeros(self.n_annotations + 1, dtype=self.item_start.dtype)
        np.cumsum(keep, out=before[1:])
        start = before[self.item_start]
        return self._take(np.flatnonzero(keep), start, self.items, self.gold)

    def drop_annotators(self, names: Iterable[Hashable]) -> Annotations:
        """Leave out annotators by name, with all that they said; items stay.

        Examples
        --------
        >>> a = Annotations.from_dense([[0, 1], [1, 1]], annotator_names=["ann", "bob"])
        >>> a.drop_annotators(["bob"]).annotators.tolist()
        ['ann']
        """
        names = list(names)
        dropped = positions(self.annotators, names)
        unknown = [name for name, place in zip(names, dropped, strict=True) if place < 0]
        if unknown:
            raise InvalidParameterError(
                f"{len(unknown)} of {len(names)} names are not annotators: {some(unknown)}. "
                f"Annotators are {some(self.annotators.tolist())}."
            )
        stays = np.ones(self.n_annotators, dtype=bool)
        stays[dropped] = False
        kept = self.select(stays[self.annotator])
        new_code = (np.cumsum(stays) - 1).astype(np.int32)
        return replace(kept, annotator=new_code[kept.annotator], annotators=name_array(self.annotators[stays]))

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
        from crowdprism.annotations.selecting import aligned_to

        return aligned_to(self, name_array(ids))

    def concat(self, *others: Annotations) -> Annotations:
        """Put annotations together; the same name is the same item, annotator or class.

        Names keep the order of the first container, then come the new names of the next.

        Examples
        --------
        >>> a = Annotations.from_dense([[0, 1], [1, 1], [0, 0]])
        >>> a[:1].concat(a[1:]) == a
        True
        """
        from crowdprism.annotations.selecting import concatenated

        return concatenated([self, *others])

    def split_annotations(self, fraction: float, seed: int = 0) -> tuple[Annotations, Annotations]:
        """Hold out a share of the annotations (not of the items): returns `(kept, held_out)`, both with all names.

        Examples
        --------
        >>> a = Annotations.from_dense([[0, 1], [1, 1]])
        >>> kept, held_out = a.split_annotations(0.25)
        >>> kept.n_annotations, held_out.n_annotations
        (3, 1)
        """
        if not 0 < fraction < 1:
            raise InvalidParameterError(f"The fraction held out must be between 0 and 1, not {fraction}.")
        n_held_out = round(fraction * self.n_annotations)
        held_out = np.zeros(self.n_annotations, dtype=bool)
        held_out[stream(seed, "split_annotations").permutation(self.n_annotations)[:n_held_out]] = True
        return self.select(~held_out), self.select(held_out)

    # -- conversion -----------------------------------------------------------------------------------------

    def to_dense(self, *, missing: int = -1) -> NDArray[Any]:
        """Return an items x annotators table of class codes; of repeated annotations the last stands.

        Examples
        --------
        >>> Annotations.from_dense([[0, -1], [1, 1]]).to_dense()
        array([[ 0, -1],
               [ 1,  1]], dtype=int16)
        """
        if 0 <= missing < self.n_classes:
            raise InvalidParameterError(
                f"missing={missing} is also the code of class {plain(self.classes[missing])!r}. Choose another."
            )
        table = np.full((self.n_items, self.n_annotators), missing, dtype=self.label.dtype)
        table[self.item, self.annotator] = self.label
        return table

    def to_csr(self) -> Any:
        """Return a scipy CSR array, items x annotators, holding class codes; class 0 is an explicit zero.

        Of repeated annotations the last stands, as in `to_dense` (stored twice, their codes would be added up).

        Examples
        --------
        >>> Annotations.from_dense([[0, -1], [1, 1]]).to_csr().nnz
        3
        """
        from scipy.sparse import csr_array

        last = np.ones(self.n_annotations, dtype=bool)
        last[:-1] = (np.diff(self.item) != 0) | (np.diff(self.annotator) != 0)
        a = self if last.all() else self.select(last)
        parts = (a.label.copy(), a.annotator.copy(), a.item_start.copy())  # scipy may sort in place
        return csr_array(parts, shape=(self.n_items, self.n_annotators))

    def to_frame(self, kind: str | None = None) -> Any:
        """Return a long data frame with the user's own names, of the kind the annotations came from.

        Parameters
        ----------
        kind
            `"pandas"`, `"polars"` or `"pyarrow"`; by default the kind given to `from_frame`, else polars.

        Examples
        --------
        >>> Annotations.from_dense([[0, 1]]).to_frame().columns
        ['item', 'annotator', 'label']
        """
        from crowdprism.annotations.frames import frame_of_columns

        columns: dict[str, Any] = {
            "item": self.items[self.item],
            "annotator": self.annotators[self.annotator],
            "label": self.classes[self.label],
        }
        columns |= {name: getattr(self, name) for name in EXTRAS if getattr(self, name) is not None}
        return frame_of_columns(columns, kind or self.frame_kind)

    # -- looking --------------------------------------------------------------------------------------------

    def summary(self) -> AnnotationSummary:
        """Count what is there: sizes, labels per item and annotator, class shares, repeats, gold.

        Examples
        --------
        >>> Annotations.from_dense([[0, -1], [1, 1]]).summary().n_annotations
        3
        """
        from crowdprism.annotations.summary import summarize

        return summarize(self)

    def _repr_html_(self) -> str:
        # By name, because the report stands above annotations and reads them.
        shown: str = import_module("crowdprism.report.notebook").annotations_html(self)
        return shown

    def __repr__(self) -> str:
        return (
            f"Annotations({self.n_annotations} annotations of {self.n_items} items by {self.n_annotators} annotators, "
            f"{self.n_classes} classes: {some(self.classes.tolist())})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        names = ("items", "annotators", "classes")
        if not all(same_names(getattr(self, name), getattr(other, name)) for name in names):
            return False
        return all(
            _same_array(getattr(self, name), getattr(other, name))
            for name in ("item_start", "annotator", "label", *EXTRAS, "gold")
        )

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Annotations]:
        return (self[position] for position in range(self.n_items))


def _same_array(first: Any, second: Any) -> bool:
    if first is None or second is None:
        return first is second
    if isinstance(first, np.ma.MaskedArray):
        masks = np.ma.getmaskarray(first), np.ma.getmaskarray(second)
        return np.array_equal(*masks) and np.array_equal(first.compressed(), second.compressed())
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def as_annotations(y: Any) -> Annotations:
    """Accept what users pass as `y`: `Annotations`, or an items x annotators array with -1 or NaN for none.

    Examples
    --------
    >>> as_annotations([[0, -1], [1, 1]]).n_annotations
    3
    """
    if isinstance(y, Annotations):
        return y
    shape = np.shape(y)
    if len(shape) != 2:
        raise InvalidAnnotationsError(
            f"Annotations must be an Annotations object or a 2-D array (items x annotators, -1 for none), "
            f"not {type(y).__name__} of shape {shape}. "
            "Build one with Annotations.from_triplets(items, annotators, labels)."
        )
    return Annotations.from_dense(y)
