"""The report: what was learned, whether to trust it, and who said what, as one HTML file that opens anywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from crowdprism.annotations import Annotations
from crowdprism.results import FitResult

__all__ = ["report_page", "write_report"]


def report_page(
    result: FitResult,
    annotations: Annotations | None = None,
    *,
    comparison: Sequence[Mapping[str, Any]] = (),
    comparison_note: str = "",
    command: str = "",
    examine: bool | None = None,
    made: datetime | None = None,
) -> str:
    """The report as the text of an HTML page.

    Parameters
    ----------
    annotations
        Those the result was learned from; without them agreement, coverage and the labels behind each item are missing.
    comparison
        Rows of a comparison of methods, best first: one mapping of column to value per method.
    comparison_note
        What to say below them, such as which one is recommended and why.
    command
        The command line that made the result, for the appendix.
    examine
        Whether to test if the labels determine what was learned; by default with up to 20 classes, where it takes
        seconds.
    made
        Time shown on the page; now by default.

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

    content = build_content(
        result,
        annotations,
        comparison=comparison,
        comparison_note=comparison_note,
        command=command,
        examine=examine,
    )
    return render(content, made=made or datetime.now())


def write_report(
    path: str | os.PathLike[str],
    result: FitResult,
    annotations: Annotations | None = None,
    *,
    comparison: Sequence[Mapping[str, Any]] = (),
    comparison_note: str = "",
    command: str = "",
    examine: bool | None = None,
) -> Path:
    """Write the report as one HTML file that opens offline; parameters as in `report_page`.

    The file appears whole or not at all.
    """
    from crowdprism.files import replacing_file

    page = report_page(
        result,
        annotations,
        comparison=comparison,
        comparison_note=comparison_note,
        command=command,
        examine=examine,
    )
    with replacing_file(path) as fresh:
        fresh.write_text(page, encoding="utf-8")
    return Path(path)
