"""Names from data, made fit to be looked at: no invisible characters, no endless lines."""

from __future__ import annotations

import unicodedata
from typing import Any

LONGEST_NAME = 120
# These reorder the text around them, so a name could pretend to be another.
HIDDEN_SIGNS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    "\u00ad\u200b\ufeff"  # and these show nothing at all, so two names could look the same
)


def shown_name(name: Any) -> str:
    """The name as text, with control and direction marks spelt out and the middle of long names left out.

    Examples
    --------
    >>> shown_name("evil\\u202egpj.exe"), shown_name(7), len(shown_name("x" * 500))
    ('evil⟨U+202E⟩gpj.exe', '7', 120)
    """
    text = str(name)
    if len(text) > LONGEST_NAME:
        half = LONGEST_NAME // 2
        text = f"{text[: half - 1]}…{text[-half:]}"
    return visible(text) or "(empty)"


def visible(text: str) -> str:
    """Any text with its control and direction marks spelt out.

    Examples
    --------
    >>> visible("seven\\u202e, the annotator")
    'seven⟨U+202E⟩, the annotator'
    """
    if text.isprintable():  # direction marks are not printable, so this settles nearly every text
        return text
    return "".join(f"⟨U+{ord(sign):04X}⟩" if _is_hidden(sign) else sign for sign in text)


def _is_hidden(sign: str) -> bool:
    return sign in HIDDEN_SIGNS or unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")
