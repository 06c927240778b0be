"""Annotations that are not in memory, as methods see them; `crowdprism.shards` has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import NameArray

if TYPE_CHECKING:
    from crowdprism.aggregators.em import Expectation, Journal, Sums
    from crowdprism.aggregators.expectation import ConfusionPass, VotePass

AddBlock = Callable[[Annotations, int, int, "Sums", int], None]
"""Adds what items from the first to before the last of a block contribute to the running sums of a group; the last
argument is the position of the block's first item among all."""


class OutOfCore(ABC):
    """Sizes and names as `Annotations` has them, and sums over all items; no array of all annotations.

    Attributes
    ----------
    sample
        Some of the items, evenly spread, in memory.
    note
        Says that results hold only the sample, and where the labels of all items are.
    """

    n_items: int
    n_annotators: int
    n_classes: int
    n_annotations: int
    annotators: NameArray
    classes: NameArray
    labels_per_annotator: Any
    sample: Annotations
    note: str
    journal: Journal
    labels: Any  # where the labels of all items go
    gold = None

    @abstractmethod
    def bounds(self, n_rows: int) -> list[tuple[int, int]]:
        """First and last item of each group, for counts of so many rows."""

    @abstractmethod
    def sum_blocks(
        self, groups: list[tuple[int, int]], add: AddBlock, *, counts_shape: tuple[int, ...], columns: int = 1
    ) -> Expectation:
        """Let `add` visit all items in order, block by block, and add up the groups in order."""

    @abstractmethod
    def vote(self, method: Any) -> dict[str, Any]:
        """What a vote learns, as parts of its result."""

    @abstractmethod
    def confusion_pass(self, columns: int) -> ConfusionPass:
        """Expectation steps of methods with confusion matrices."""

    @abstractmethod
    def vote_pass(self, *, by_cell: bool) -> VotePass:
        """Expectation steps of methods in which a label speaks only for its own class."""
