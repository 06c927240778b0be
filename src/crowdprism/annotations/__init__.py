"""Annotations: who gave which label to which item; building, checking, selecting and counting them."""

from crowdprism.annotations.container import Annotations, as_annotations

__all__ = ["Annotations", "as_annotations"]
