"""A stranger brings comparisons, several choices, ratings and "unsure": one command each, from a file to a page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np


def crowdprism(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "VIRTUAL_ENV", "PYTHONPATH") if name in os.environ}
    environment = {**kept, "HOME": str(folder), "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-m", "crowdprism", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_an_arena_log_becomes_a_ranking(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    models = {"large": 1.0, "medium": 0.0, "small": -1.0}
    lines = []
    for battle in range(300):
        a, b = random.choice(list(models), size=2, replace=False).tolist()
        won = random.random() < 1 / (1 + np.exp(models[b] - models[a]))
        winner = "tie" if battle % 7 == 0 else "model_a" if won else "model_b"
        lines.append(json.dumps({"model_a": a, "model_b": b, "winner": winner, "judge": f"user_{battle % 9}"}))
    (tmp_path / "battles.jsonl").write_text("\n".join(lines))
    done = crowdprism(tmp_path, "rank", "battles.jsonl", "-o", "ranking.html")
    assert done.returncode == 0, done.stderr
    assert "large is better than medium" in done.stdout
    assert "large" in (tmp_path / "ranking.html").read_text()


def test_a_label_studio_project_with_several_choices_becomes_labels(tmp_path: Path) -> None:
    chosen = [["news", "sport"], ["news"], []]
    tasks = [
        {
            "id": task,
            "data": {"text": f"text {task}"},
            "annotations": [
                {
                    "completed_by": person,
                    "result": [
                        {"from_name": "topics", "to_name": "text", "type": "choices",
                         "value": {"choices": chosen[task % 3]}}
                    ],
                }
                for person in range(3)
            ],
        }
        for task in range(15)
    ]  # fmt: skip
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    done = crowdprism(tmp_path, "aggregate", "export.json", "--multi", "-o", "run")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "labels.csv").read_text().splitlines()[1].startswith("0,news|sport,")
    assert (tmp_path / "run" / "report.html").exists()


def test_ratings_and_unsure_answers_become_scores_and_labels(tmp_path: Path) -> None:
    rows = [f"{item},{who},{item % 5 + at * 0.5}" for item in range(20) for at, who in enumerate(("ann", "bob", "cy"))]
    (tmp_path / "scores.csv").write_text("item,annotator,rating\n" + "\n".join(rows) + "\n")
    done = crowdprism(tmp_path, "rate", "scores.csv", "-o", "scores.html")
    assert done.returncode == 0, done.stderr
    assert "intraclass correlation" in done.stdout
    names = ("low", "mid", "high")
    stars = [f"{item},{who},{'unsure' if item == at else names[item % 3]}" for item in range(20) for at, who in
             enumerate(("ann", "bob", "cy"))]  # fmt: skip
    (tmp_path / "stars.csv").write_text("item,annotator,label\n" + "\n".join(stars) + "\n")
    done = crowdprism(
        tmp_path, "aggregate", "stars.csv", "--order", "low,mid,high", "--skip-label", "unsure", "-o", "run"
    )
    assert done.returncode == 0, done.stderr
    assert "answered 'unsure': 3" in done.stderr
    assert "expected_score" in (tmp_path / "run" / "labels.csv").read_text()
