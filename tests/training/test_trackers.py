"""Five lines of callback follow a training in MLflow, TensorBoard and Weights & Biases, into a local folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import crowdprism as cp

pytestmark = [
    pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
EPOCHS = 3


def fit(log) -> cp.FitResult:
    X = np.random.default_rng(0).normal(size=(40, 2)).astype("float32")
    annotations = cp.Annotations.from_dense(np.repeat((X[:, :1] > 0).astype(int), 3, axis=1))
    options = {"epochs": EPOCHS, "network": "linear", "input_noise": 0.0, "temperature": 1.0}
    return cp.make_classifier("geocrowdnet", callbacks=[log], **options).fit(X, annotations).result_


def test_mlflow(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    pytest.importorskip("sqlalchemy", reason="MLflow keeps local runs with sqlalchemy, which is not installed")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    with mlflow.start_run() as run:
        fit(lambda record: mlflow.log_metric("loss", record.parts["total"], step=record.epoch))
    logged = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
    assert len(logged) == EPOCHS


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path))
    result = fit(lambda record: writer.add_scalar("loss", record.parts["total"], record.epoch))
    writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    logged = [event.value for event in events.Scalars("loss")]
    assert len(logged) == EPOCHS
    assert result.history, "and the training is the same"


def test_weights_and_biases(tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    run = wandb.init(project="labels", mode="offline", dir=str(tmp_path))
    fit(lambda record: run.log({"loss": record.parts["total"]}, step=record.epoch))
    assert "loss" in dict(run.summary)
    run.finish()
    assert list(tmp_path.rglob("*.wandb"))
