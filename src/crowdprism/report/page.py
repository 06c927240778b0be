"""The report as one self-contained HTML page: no network, no other files."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from crowdprism import __version__
from crowdprism.annotations.notebook import visible
from crowdprism.report.charts import draw_all
from crowdprism.report.report_records import ReportContent

# Each could end the script element, open a comment, or (U+2028/9) end a line of JavaScript.
ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


@cache
def asset(name: str) -> str:
    return (files("crowdprism.report") / "assets" / name).read_text(encoding="utf-8")


def render(content: ReportContent, *, made: datetime | None) -> str:
    from markupsafe import Markup

    return fill(
        "page.html.j2",
        script=asset("page.js"),
        made=made,
        content=content,
        charts={name: Markup(chart) for name, chart in draw_all(content).items()},
        data=Markup(embedded_json(table_data(content))),
    )


def fill(template: str, *, made: datetime | None = None, script: str = "", more_style: str = "", **values: Any) -> str:
    """Fill a template. Text from data is escaped and made visible; the policy allows only this script and style."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    style = asset("colors.css") + asset("page.css") + more_style
    return environment.from_string(asset(template)).render(
        script=Markup(script),
        script_hash=hash_of(script),
        style=Markup(style),
        style_hash=hash_of(style),
        made=(made or datetime.now()).strftime("%Y-%m-%d %H:%M"),
        version=__version__,
        **values,
    )


def hash_of(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded_json(record: Any) -> str:
    """One line of JSON without any character that HTML would act on."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(ESCAPES)


def table_data(content: ReportContent) -> Mapping[str, Any]:
    table = content.annotators
    return {
        "classes": content.classes,
        "annotators": {"rows": rounded(table.rows), "matrices": table.matrices, "confusions": table.confusions},
        "items": rounded(content.review.rows),
        "model": f"crowdprism {content.method}",
    }


def rounded(value: Any) -> Any:
    """Numbers with three digits, which is all that the page shows."""
    if isinstance(value, tuple):
        return [rounded(one) for one in value]
    return round(value, 3) if isinstance(value, float) else value
