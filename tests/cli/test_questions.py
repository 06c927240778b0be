"""What is shown of items, and what the report is told about the annotation files."""

from __future__ import annotations

from pathlib import Path

import pytest

import crowdprism as cp
from crowdprism.cli.questions import ContentOptions, describe_source
from crowdprism.cli.screen import set_loudness
from crowdprism.errors import UnreadableFileError
from crowdprism.formats import read_annotations_with_report

ROWS = "item,annotator,label,text\nx,a,1,hello\nx,b,2,hello\ny,a,1,bye\n"


def test_content_comes_from_the_annotation_file_or_from_a_table(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(ROWS)
    (tmp_path / "items.csv").write_text("item,picture\nx,x.png\n")
    annotations, report = read_annotations_with_report(tmp_path / "labels.csv")
    result = cp.MajorityVote().fit(annotations).result_
    files = [tmp_path / "labels.csv"]
    assert ContentOptions().load(["x", "y"], result, files, report).by_item["y"] == {"text": "bye"}
    assert ContentOptions().load(["x"], result).by_item == {}
    chosen = ContentOptions(tmp_path / "items.csv").load(["x", "y"], result, files, report)
    assert chosen.by_item == {"x": {"picture": "x.png"}}
    with pytest.raises(UnreadableFileError, match="There is no file"):
        ContentOptions(tmp_path / "none.csv").load(["x"], result)
    told = describe_source(result, [*files, tmp_path / "more.csv"], report)
    assert told["source"] == "labels.csv and 1 more"
    assert told["content"](["x"]).by_item == {"x": {"text": "hello"}}


def test_nothing_to_ask_writes_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_loudness()  # as a command would
    annotations = cp.Annotations.from_dense([[0, 1], [1, 1]])
    result = cp.MajorityVote().fit(annotations).result_
    ContentOptions().save_page(tmp_path / "p.html", [], result, title="t")
    assert "nothing to ask" in capsys.readouterr().err
    assert not (tmp_path / "p.html").exists()
