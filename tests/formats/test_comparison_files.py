from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.comparison_files import read_comparisons


def listed(path: Path, **options: Any) -> dict[str, list[Any] | None]:
    found = read_comparisons(path, **options).columns
    return {role: None if values is None else list(values) for role, values in found.items()}


def test_an_arena_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "battles.jsonl"
    rows = [
        {"question_id": 81, "model_a": "gpt", "model_b": "llama", "winner": "model_a", "judge": "expert_1", "turn": 1},
        {"question_id": 82, "model_a": "llama", "model_b": "gpt", "winner": "tie", "judge": "expert_2", "turn": 1},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert listed(path) == {
        "left": ["gpt", "llama"],
        "right": ["llama", "gpt"],
        "winner": ["model_a", "tie"],
        "judge": ["expert_1", "expert_2"],
        "group": None,
        "gold": None,
    }


def pairwise(selected: str, **more: Any) -> dict[str, Any]:
    result = [{"from_name": "better", "to_name": "a,b", "type": "pairwise", "value": {"selected": selected}}]
    return {"completed_by": 3, "result": result, **more}


def test_label_studio_pairwise_is_read_without_cancelled_answers(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    answers = [pairwise("right"), pairwise("left", was_cancelled=True)]
    task = {"id": 1, "data": {"prompt": "Hi", "model_a": "x", "model_b": "y"}, "annotations": answers}
    path.write_text(json.dumps([task]))
    found = listed(path)
    assert (found["left"], found["right"], found["winner"], found["judge"]) == (["x"], ["y"], ["right"], [3])
    path.write_text(json.dumps([{**task, "data": {"one": "x", "two": "y", "three": "z"}}]))
    with pytest.raises(UnreadableFileError, match="task 0 does not show which two of 'one', 'two', 'three'"):
        read_comparisons(path)
    assert listed(path, left="three", right="one")["left"] == ["z"]


def test_ground_truth_of_label_studio_is_the_known_winner_and_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    task = {"id": 1, "data": {"model_a": "x", "model_b": "y"}}
    answers = [pairwise("right"), pairwise("left", ground_truth=True)]
    path.write_text(json.dumps([{**task, "annotations": answers}, {**task, "annotations": [pairwise("left")]}]))
    found = listed(path)
    assert (found["winner"], found["gold"]) == (["right", "left"], ["left", None])


@pytest.mark.parametrize("flat", [False, True])
def test_an_argilla_ranking_gives_every_pair(tmp_path: Path, flat: bool) -> None:
    path = tmp_path / "records.json"
    ranks = [{"value": "r2", "rank": 1}, {"value": "r1", "rank": 2}, {"value": "r3", "rank": 2}]
    record: dict[str, Any] = {"id": "7", "fields": {}, "responses": {"best": [{"value": ranks, "user_id": "u"}]}}
    if flat:
        record = {"id": "7", "best.responses": [ranks], "best.responses.users": ["u"]}
        record["best.responses.status"] = ["submitted"]
    path.write_text(json.dumps([record]))
    found = listed(path)
    assert list(zip(found["left"] or [], found["right"] or [], found["winner"] or [], strict=True)) == [
        ("r1", "r2", "r2"),
        ("r1", "r3", "tie"),
        ("r2", "r3", "r2"),
    ]


def test_files_are_merged_and_other_columns_can_be_named(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("p,q,r,who\nx,y,x,ann\n")
    found = listed(tmp_path, left="p", right="q", winner="r", judge="who")
    assert found["left"] == ["x", "x"]
    assert found["judge"] == ["ann", "ann"]


def test_a_table_without_winner_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("task,worker\n1,ann\n")
    with pytest.raises(UnreadableFileError, match="no column for left, right, winner"):
        read_comparisons(path)
    with pytest.raises(UnreadableFileError, match="no column 'q'"):
        read_comparisons(path, left="q")
