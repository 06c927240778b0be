"""Readers: from a file that some tool exported to `Annotations`; the format is recognized by content."""

from __future__ import annotations

from crowdprism.formats.raw_annotations import ReadingReport, Skipped
from crowdprism.formats.read import FORMATS, Format, read_annotations, read_annotations_with_report

__all__ = ["FORMATS", "Format", "ReadingReport", "Skipped", "read_annotations", "read_annotations_with_report"]
