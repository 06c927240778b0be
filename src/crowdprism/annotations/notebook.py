"""What a notebook shows: names made fit to be looked at, in small tables with the colours of the notebook."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from crowdprism.annotations.container import Annotations

LONGEST_NAME = 120
# These reorder the text around them, so a name could pretend to be another.
HIDDEN_SIGNS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    "\u00ad\u200b\ufeff"  # and these show nothing at all, so two names could look the same
)
N_CLASSES_SHOWN = 10
CELL = "padding:.15em .8em .15em 0;text-align:left;font-variant-numeric:tabular-nums"


def display_name(name: Any) -> str:
    """The name as text, with control and direction marks spelt out and the middle of long names left out."""
    text = str(name)
    if len(text) > LONGEST_NAME:
        half = LONGEST_NAME // 2
        text = f"{text[: half - 1]}…{text[-half:]}"
    return visible(text) or "(empty)"


def visible(text: str) -> str:
    """Any text with its control and direction marks spelt out."""
    if text.isprintable():  # direction marks are not printable, so this settles nearly every text
        return text
    hidden = {sign for sign in text if sign in HIDDEN_SIGNS or unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")}
    return "".join(f"⟨U+{ord(sign):04X}⟩" if sign in hidden else sign for sign in text)


def annotations_html(annotations: Annotations) -> str:
    """Annotations at a glance: sizes and label shares."""
    a = annotations
    given = np.bincount(a.label, minlength=a.n_classes)
    most = np.argsort(-given, kind="stable")[:N_CLASSES_SHOWN]
    sizes = f"{a.n_annotations:,} annotations of {a.n_items:,} items by {a.n_annotators:,} annotators"
    rows = ((a.classes[at], f"{given[at]:,}", f"{given[at] / max(a.n_annotations, 1):.1%}") for at in most)
    more = f" (the {len(most)} most frequent of {a.n_classes:,})" if len(most) < a.n_classes else ""
    return f"<div>{html_heading(sizes)}{html_table(f'Labels given{more}', ('class', 'labels', 'share'), rows)}</div>"


def html_heading(text: str) -> str:
    return f"<p><strong>{escape(text)}</strong></p>"


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with escaped cells; long names are shortened."""
    head = "".join(f'<th scope="col" style="{CELL}">{escape(name)}</th>' for name in columns)
    cells = ("".join(f'<td style="{CELL}">{escape(display_name(cell))}</td>' for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
