"""The report: what was learned, whether to trust it, and who said what, as one HTML file that opens anywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from crowdprism.annotations import Annotations
from crowdprism.files import write_whole
from crowdprism.report.report_records import ReportOptions
from crowdprism.results import FitResult

__all__ = ["ReportOptions", "report_page", "write_report"]


def report_page(result: FitResult, annotations: Annotations | None = None, **options: Any) -> str:
    """The report as the text of an HTML page.

    Parameters
    ----------
    annotations
        Those the result was learned from; without them agreement, coverage and the labels behind each item are missing.
    options
        Fields of `ReportOptions`.

    Examples
    --------
    >>> import crowdprism as cp
    >>> a = cp.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]])
    >>> page = report_page(cp.make_aggregator("dawid-skene").fit(a).result_, a)
    >>> page[:15], "http://" in page or "https://" in page
    ('<!doctype html>', False)
    """
    from crowdprism.report.content import build_content
    from crowdprism.report.page import render

    chosen = ReportOptions(**options)
    return render(build_content(result, annotations, chosen), made=chosen.made)


def write_report(
    path: str | os.PathLike[str], result: FitResult, annotations: Annotations | None = None, **options: Any
) -> Path:
    """Write the report as one HTML file, whole or not at all, that opens offline; parameters as in `report_page`."""
    return write_whole(path, report_page(result, annotations, **options))
