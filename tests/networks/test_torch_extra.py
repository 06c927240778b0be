"""Without torch everything but classifiers works, and classifiers say what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LABELS = "item,annotator,label\n" + "".join(f"{i},{who},{i % 2}\n" for i in range(20) for who in "abc")


def without_torch(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    start = "import sys; sys.modules['torch'] = None; from crowdprism.cli import main"
    code = f"{start}; sys.argv[1:] = {list(words)!r}; main()"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300)


def test_aggregating_needs_no_torch_and_training_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(LABELS)
    (tmp_path / "x.csv").write_text("item,x\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    done = without_torch(tmp_path, "aggregate", "labels.csv", "-o", "run")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").exists()
    refused = without_torch(tmp_path, "train", "labels.csv", "--features", "x.csv", "-o", "trained")
    assert refused.returncode == 2
    assert 'pip install "crowdprism[train]"' in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "trained").exists()
