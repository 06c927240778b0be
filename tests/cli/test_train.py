"""`crowdprism train` and `predict`: from files to a classifier, interrupted and resumed."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import crowdprism as cp
from crowdprism.classifiers import inputs
from crowdprism.cli import BAD_INPUT, INTERRUPTED
from crowdprism.formats import feature_files
from crowdprism.formats.write import write_annotations


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def digits_files(folder: Path) -> tuple[Path, Path]:
    """A CSV of annotations and a table of features for a hundred easy items."""
    random = np.random.default_rng(0)
    truth = np.arange(100) % 2
    rows = [
        f"pic{item},{person},{'yes' if (truth[item] ^ (random.random() < error)) else 'no'}"
        for item in range(100)
        for person, error in (("ann", 0.05), ("bob", 0.1), ("cy", 0.5))
    ]
    (folder / "labels.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    features = truth[:, None] * 3 + random.normal(size=(100, 2))
    lines = [f"pic{item},{x:.4f},{y:.4f}" for item, (x, y) in enumerate(features)]
    (folder / "features.csv").write_text("item,x,y\n" + "\n".join(lines) + "\n")
    return folder / "labels.csv", folder / "features.csv"


def test_train_then_predict_from_files(run, tmp_path: Path) -> None:
    labels, features = digits_files(tmp_path)
    folder = tmp_path / "run"
    trained = run("train", labels, "-x", features, "-o", folder, "--epochs", 20, "--network", "linear")
    assert trained.code == 0, trained.err
    people = {row["annotator"]: float(row["accuracy"]) for row in rows_of((folder / "annotators.csv").read_text())}
    assert min(people, key=people.get) == "cy"
    predicted = rows_of(run("-q", "predict", folder, "-x", features).out)
    truth = ["no", "yes"] * 50
    assert sum(row["label"] == right for row, right in zip(predicted, truth, strict=True)) > 90
    assert run("predict", folder, "-x", features, "-o", tmp_path / "new.csv").code == 0
    assert rows_of((tmp_path / "new.csv").read_text()) == predicted


def test_training_of_a_run_goes_on_into_another(run, tmp_path: Path) -> None:
    labels, features = digits_files(tmp_path)
    first, second = tmp_path / "run", tmp_path / "run2"
    assert run("train", labels, "-x", features, "-o", first, "--epochs", 2, "--network", "linear").code == 0
    went_on = run("train", labels, "-x", features, "--continue", first, "-o", second, "--epochs", 3)
    assert went_on.code == 0, went_on.err
    assert len(cp.load(second).histories_[0]["total"]) == 5
    assert len(cp.load(first).histories_[0]["total"]) == 2


def test_features_of_a_large_parquet_file_are_worked_on_from_disk(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, features = digits_files(tmp_path)
    pl.read_csv(features).write_parquet(tmp_path / "features.parquet", row_group_size=30)
    predicted = []
    for bytes_in_memory in (2**28, 100):
        monkeypatch.setattr(feature_files, "ON_DISK_FROM", bytes_in_memory)
        monkeypatch.setattr(inputs, "IN_MEMORY_BYTES", bytes_in_memory)
        folder = tmp_path / f"run-{bytes_in_memory}"
        features = ["-x", tmp_path / "features.parquet"]
        trained = run("train", labels, *features, "-o", folder, "--epochs", 3, "--network", "linear")
        assert trained.code == 0, trained.err
        assert ("GB of features are in a temporary file in" in trained.err) == (bytes_in_memory == 100)
        predicted.append(rows_of(run("-q", "predict", folder, *features).out))
    assert [row["label"] for row in predicted[0]] == [row["label"] for row in predicted[1]]


def test_the_confidence_of_predictions_is_about_the_share_that_is_right(run, tmp_path: Path) -> None:
    data = cp.load_dataset("digits")
    train, test = data.splits["train"], data.splits["test"]
    write_annotations(data.annotations[train].with_gold(None), tmp_path / "labels.csv")
    for name, items in (("train", train), ("test", test)):
        table = pl.DataFrame(data.features[items]).insert_column(0, pl.Series("item", items))
        table.write_csv(tmp_path / f"{name}.csv")
    folder = tmp_path / "run"
    done = run("train", tmp_path / "labels.csv", "-x", tmp_path / "train.csv", "-o", folder, "--no-report")
    assert done.code == 0, done.err
    predicted = rows_of(run("-q", "predict", folder, "-x", tmp_path / "test.csv").out)
    right = np.mean([row["label"] == str(one) for row, one in zip(predicted, data.gold[test].tolist(), strict=True)])
    stated = np.array([float(row["confidence"]) for row in predicted])
    assert right > 0.8
    assert abs(stated.mean() - right) < 0.05, (stated.mean(), right)
    assert stated.max() < 0.98, "on other sets one in thirty of the surest predictions is wrong"


def test_train_without_features_offers_aggregate(run, labels_csv: Path) -> None:
    outcome = run("train", labels_csv)
    assert outcome.code == BAD_INPUT
    assert "crowdprism aggregate" in outcome.err


def test_predicting_from_labels_alone_says_that_there_is_no_classifier(run, labels_csv: Path, tmp_path: Path) -> None:
    run("aggregate", labels_csv, "-m", "majority-vote", "-o", tmp_path / "run")
    (tmp_path / "x.csv").write_text("item,x\n1,0.5\n2,0.25\n")
    outcome = run("predict", tmp_path / "run", "-x", tmp_path / "x.csv")
    assert outcome.code == BAD_INPUT
    assert "crowdprism train" in outcome.err


def test_other_features_and_absent_devices_are_explained(run, tmp_path: Path) -> None:
    import torch

    labels, features = digits_files(tmp_path)
    folder = tmp_path / "run"
    run("train", labels, "-x", features, "-o", folder, "--epochs", 1, "--network", "linear", "--no-report")
    (tmp_path / "three.csv").write_text("item,x,y,z\npic1,1,2,3\n")
    refused = run("predict", folder, "-x", tmp_path / "three.csv")
    assert refused.code == BAD_INPUT
    assert "(3,)" in refused.err
    assert "(2,)" in refused.err
    device = "mps" if torch.cuda.is_available() else "cuda"
    refused = run("train", labels, "-x", features, "-o", tmp_path / "other", "--device", device)
    assert refused.code == BAD_INPUT
    assert device in refused.err
    assert not (tmp_path / "other").exists()


def train(*more: object) -> tuple[object, ...]:
    return ("train", "labels.csv", "-x", "features.csv", "--network", "linear", "-o", "run", *more)


def test_train_leaves_a_classifier_and_no_checkpoint(crowd_folder: Path, run) -> None:
    assert run(*train("--epochs", 3, "--no-report"))[0] == 0
    assert {"classifier.json", "weights.safetensors", "features.json"} <= set(os.listdir(crowd_folder / "run"))
    assert not (crowd_folder / "run.checkpoint").exists()
    assert run("diagnose", "labels.csv", "--run", "run", "--json")[0] == 0


def interrupt_after(epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdprism.training import Trainer

    whole = Trainer._one_epoch

    def one_epoch(self: Trainer, bar: object) -> None:
        if self.outcome.epochs_done == epochs:
            monkeypatch.setattr(Trainer, "_one_epoch", whole)
            raise KeyboardInterrupt
        whole(self, bar)

    monkeypatch.setattr(Trainer, "_one_epoch", one_epoch)


@pytest.mark.filterwarnings("always")
def test_ctrl_c_keeps_the_run_and_resume_ends_as_if_never_interrupted(
    crowd_folder: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*train("--epochs", 6, "--no-report"))[0] == 0
    whole = (crowd_folder / "run" / "labels.csv").read_bytes()
    interrupt_after(5, monkeypatch)  # candidates of the settings are trained for four epochs before
    code, _, said = run(*train("--epochs", 6, "--no-report"))
    assert code == INTERRUPTED
    assert "run holds what was learned so far" in said
    assert "--epochs 6 --no-report --resume" in said
    assert (crowd_folder / "run" / "labels.csv").exists()
    assert (crowd_folder / "run.checkpoint").is_dir()
    assert run(*train("--epochs", 6, "--no-report", "--resume"))[0] == 0
    assert (crowd_folder / "run" / "labels.csv").read_bytes() == whole
    assert not (crowd_folder / "run.checkpoint").exists()


def test_resume_without_anything_to_resume_says_so(crowd_folder: Path, run) -> None:
    code, _, said = run(*train("--resume"))
    assert code == 2
    assert "nothing to resume" in said


@pytest.mark.filterwarnings("always")
def test_resuming_another_run_is_refused_in_options(crowd_folder: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_after(5, monkeypatch)
    assert run(*train("--epochs", 6, "--no-report"))[0] == INTERRUPTED
    code, _, said = run(*train("--epochs", 7, "--no-report", "--resume"))
    assert code == 2
    assert "leave out --resume" in said


def test_texts_of_the_annotation_file_train_and_predict(crowd_folder: Path, run) -> None:
    words = ("train", "labels.csv", "-t", "says", "--embedding", "words", "-o", "run", "--no-report", "--epochs", 20)
    code, _, said = run(*words)
    assert code == 0, said
    assert "words and pairs of words" in said
    (crowd_folder / "new.csv").write_text("item,says\nn1,the cat purrs and purrs\nn2,a dog barks\n")
    _, out, _ = run("predict", "run", "-x", "new.csv")
    assert [row["label"] for row in csv.DictReader(out.splitlines())] == ["yes", "no"]


def test_resuming_a_complete_run_says_that_it_is_complete(crowd_folder: Path, run) -> None:
    assert run(*train("--epochs", 2, "--no-report")).code == 0
    place = crowd_folder / "run.checkpoint"
    for left in ((), ("complete",), ("complete", "head-0/epoch-000002/state.json")):  # a kill while states are removed
        for name in left:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).touch()
        outcome = run(*train("--epochs", 2, "--no-report", "--resume"))
        assert outcome.code == BAD_INPUT
        assert "run is complete" in " ".join(outcome.err.split())
    assert run(*train("--epochs", 2, "--no-report")).code == 0
    assert not place.exists()


def test_files_of_others_beside_the_states_stay(crowd_folder: Path, run) -> None:
    (crowd_folder / "run.checkpoint").mkdir()
    (crowd_folder / "run.checkpoint" / "mine.txt").write_text("kept")
    assert run(*train("--epochs", 1, "--no-report")).code == 0
    assert os.listdir(crowd_folder / "run.checkpoint") == ["mine.txt"]


def test_a_second_training_in_the_same_folder_is_told_that_the_first_is_running(crowd_folder: Path, run) -> None:
    from crowdprism.results.replacing import replacing_run

    with replacing_run("run", kind="classifier"):
        outcome = run(*train("--epochs", 1, "--no-report"))
    assert outcome.code == BAD_INPUT
    assert "being written by another program" in " ".join(outcome.err.split())


def test_an_aggregation_does_not_replace_a_classifier(crowd_folder: Path, run) -> None:
    assert run(*train("--epochs", 1, "--no-report")).code == 0
    outcome = run("aggregate", "labels.csv", "-o", "run", "--no-report")
    assert outcome.code == BAD_INPUT
    assert "holds a classifier" in outcome.err
