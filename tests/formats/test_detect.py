"""Formats are tried from the most particular to the most general, and what fits none is described."""

from __future__ import annotations

import pytest

from crowdprism.formats.detect import FORMATS, detect_format, unknown_format
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import ReadingOptions


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("task,worker,label\n1,a,x\n", "crowd-kit"),
        ("task,annotator,label\n1,a,x\n", "cleanlab"),
        ("unit,judge,vote\n1,a,x\n", "long"),
        ("HITId,WorkerId,Answer.x\n1,a,x\n", "mturk"),
        ("INPUT:x\tOUTPUT:y\n1\t2\n", "toloka"),
        ("0 1 -1\n1 1 0\n", "matrix"),
        ("item,p1,p2\n7,x,y\n", "wide"),
        ('{"7": {"ann": "cat"}}', "peerannot"),
        ("a,b\n1,2\n", None),
    ],
)
def test_the_content_says_the_format(content: str, name: str | None) -> None:
    assert detect_format(Document("x", data=content.encode())) == name


def test_named_columns_make_a_long_table_of_what_has_other_names() -> None:
    options = ReadingOptions(columns={"label": "other"})
    assert detect_format(Document("x", data=b"task,worker,label,other\n1,a,x,y\n", options=options)) == "long"


def test_what_fits_no_format_is_described_with_the_columns_it_lacks() -> None:
    found = str(unknown_format(Document("x.csv", data=b"item,who,label\n1,a,x\n")))
    for part in ("'item', 'who', 'label'", "no column for annotator", "annotator=...", *FORMATS):
        assert part in found


def test_every_format_describes_itself() -> None:
    assert all(one.description and callable(one.read) for one in FORMATS.values())
