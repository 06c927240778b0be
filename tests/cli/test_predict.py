"""`crowdprism predict`: the columns of training, every class, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")


def digits_files(folder: Path) -> tuple[Path, Path]:
    """Annotations and features of a hundred easy items."""
    truth = np.arange(100) % 2
    rows = [f"pic{item},{person},{'yes' if truth[item] else 'no'}" for item in range(100) for person in ("ann", "bob")]
    (folder / "labels.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    lines = [f"pic{item},{x},{1 - x}" for item, x in enumerate(truth)]
    (folder / "features.csv").write_text("item,x,y\n" + "\n".join(lines) + "\n")
    return folder / "labels.csv", folder / "features.csv"


def test_predict_uses_trains_id_column_and_gives_every_class(run, tmp_path: Path) -> None:
    labels, features = digits_files(tmp_path)
    text = features.read_text().replace("item,x,y", "picture,x,y")
    features.write_text(text)
    folder = tmp_path / "run"
    words = ("-x", features, "--id-column", "picture", "-o", folder, "--epochs", 3, "--network", "linear")
    assert run("train", labels, *words, "--no-report").code == 0
    rows = json.loads(run("-q", "predict", folder, "-x", features, "--json", "--device", "cpu").out)
    assert rows[3]["item"] == "pic3"
    shares = [[row["probability of no"], row["probability of yes"]] for row in rows]
    assert all(abs(sum(pair) - 1) < 1e-5 for pair in shares)
    told = run("-q", "predict", folder, "-x", features, "--probabilities").out
    assert told.splitlines()[0] == "item,label,confidence,probability,probability of no,probability of yes"
