"""peerannot answers know their classes from the metadata beside them."""

from __future__ import annotations

from pathlib import Path

from small_files import triplets

from crowdprism.formats import read_annotations, read_annotations_with_report


def test_peerannot_answers_know_their_classes_from_the_metadata_beside_them(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text('{"0": {"12": 3, "40": 1}, "1": {"12": 0}, "2": {}}')
    assert read_annotations(tmp_path / "answers.json").classes.tolist() == [0, 1, 3]
    (tmp_path / "metadata.json").write_text('{"name": "d", "n_classes": 8, "n_workers": 59}')
    for source in (tmp_path / "answers.json", tmp_path):
        a, report = read_annotations_with_report(source)
        assert report.format == "peerannot"
        assert triplets(a) == [(0, 12, 3), (0, 40, 1), (1, 12, 0)]
        assert a.classes.tolist() == list(range(8))
        assert a.items.tolist() == [0, 1, 2]
