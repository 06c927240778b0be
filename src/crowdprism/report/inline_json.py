"""JSON that may stand inside an HTML page, whatever text it holds."""

from __future__ import annotations

import json
from typing import Any

# Each could end the script element, open a comment, or (U+2028/9) end a line of JavaScript.
ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def embedded_json(record: Any) -> str:
    """One line of JSON without any character that HTML would act on.

    Examples
    --------
    >>> print(embedded_json(["</script>"]))
    ["\\u003c/script\\u003e"]
    """
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in ESCAPES.items():
        text = text.replace(character, escape)
    return text
