"""Saved classifiers: what is read back, and folders that cannot be read."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import crowdprism
from crowdprism.classifiers import (
    CLASSIFIERS,
    CrowdClassifier,
    CrowdLayer,
    GeoCrowdNet,
    load_classifier,
    make_classifier,
)
from crowdprism.errors import InvalidParameterError, NotFittedError, ResultFormatError

sys.path.insert(0, str(Path(__file__).parent))
from crowds import quick, small

pytestmark = pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")


def test_a_saved_model_predicts_as_before(tmp_path: Path) -> None:
    problem = small()
    model = quick(n_heads=2).fit(problem.X, problem.annotations)
    model.save(tmp_path / "run")
    for loaded in (GeoCrowdNet.load(tmp_path / "run"), load_classifier(tmp_path / "run")):
        assert np.array_equal(model.predict_proba(problem.X), loaded.predict_proba(problem.X))
        assert np.array_equal(model.confusions_, loaded.confusions_)
        posterior = loaded.label_posterior(problem.X, problem.annotations)
        assert np.allclose(posterior, model.result_.class_probabilities, atol=1e-12)
        assert loaded.get_params()["n_heads"] == 2
        assert loaded.threads_ == model.threads_ == [1, 1]  # the network is small


def test_a_network_of_the_users_own_is_asked_for_when_loading(tmp_path: Path) -> None:
    def network(shape: tuple[int, ...], n_classes: int) -> nn.Module:
        return nn.Linear(*shape, n_classes)

    problem = small()
    model = quick(network=network, network_options=None).fit(problem.X, problem.annotations)
    model.save(tmp_path / "run")
    with pytest.raises(InvalidParameterError, match="network of your own"):
        load_classifier(tmp_path / "run")
    loaded = load_classifier(tmp_path / "run", network=network)
    assert np.array_equal(model.predict_proba(problem.X), loaded.predict_proba(problem.X))


def test_a_cut_weights_file_says_so(tmp_path: Path) -> None:
    quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path / "run")
    (tmp_path / "run" / "weights.safetensors").write_bytes(b"x")
    with pytest.raises(ResultFormatError, match="damaged"):
        load_classifier(tmp_path / "run")


def test_a_folder_with_other_files_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidParameterError, match="not a run folder"):
        quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path)


def test_parameters_are_written_as_json(tmp_path: Path) -> None:
    quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path / "run")
    record = json.loads((tmp_path / "run" / "classifier.json").read_text())
    assert record["classifier"] == "geocrowdnet"
    assert record["parameters"]["epochs"] == 1


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "classifier.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    (folder / "manifest.json").unlink()  # as version 0.1.0 wrote it


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_every_classifier_loads_with_the_same_predictions_and_parameters(crowd: Any, tmp_path: Path, name: str) -> None:
    model = make_classifier(name, epochs=1, n_heads=2, batch_size=40, input_noise=0.0, temperature=1.0).fit(
        crowd.features, crowd.annotations
    )
    loaded = load_classifier(model.save(tmp_path / "run"))
    assert np.array_equal(model.predict_proba(crowd.features), loaded.predict_proba(crowd.features))
    assert repr(loaded) == repr(model)
    assert loaded.result_.method == model.result_.method


def test_a_model_of_a_newer_version_asks_for_an_upgrade(tmp_path: Path) -> None:
    folder = quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path / "run")
    edit(folder, schema=99)
    with pytest.raises(ResultFormatError, match=r"written by a newer crowdprism .*Upgrade") as raised:
        load_classifier(folder)
    assert "damaged" not in str(raised.value)


def test_a_result_without_a_classifier_says_which_file_is_missing(tmp_path: Path) -> None:
    folder = quick(epochs=1).fit(np.eye(2), [[0], [1]]).result_.save(tmp_path / "run")
    with pytest.raises(ResultFormatError, match=r"holds no classifier \(.*classifier\.json is missing"):
        load_classifier(folder)


def test_a_classifier_whose_manifest_lost_a_file_is_not_loaded_as_a_result(tmp_path: Path) -> None:
    folder = quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path / "run")
    record = json.loads((folder / "manifest.json").read_text())
    del record["files"]["classifier.json"]
    (folder / "manifest.json").write_text(json.dumps(record))
    with pytest.raises(ResultFormatError, match=r"holds no classifier \(.*classifier\.json is missing"):
        crowdprism.load(folder)


def test_a_method_that_is_not_imported_is_named(tmp_path: Path) -> None:
    folder = quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path / "run")
    edit(folder, classifier="my-method")
    with pytest.raises(ResultFormatError, match=r"'my-method', which is not known here.*geocrowdnet"):
        load_classifier(folder)


def test_a_folder_of_another_kind_is_refused_by_the_class_that_loads_it(tmp_path: Path) -> None:
    folder = quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path / "run")
    with pytest.raises(InvalidParameterError, match="holds a GeoCrowdNet, not a CrowdLayer"):
        CrowdLayer.load(folder)
    assert isinstance(CrowdClassifier.load(folder), GeoCrowdNet)


def test_a_network_of_another_shape_is_refused_when_loading(tmp_path: Path) -> None:
    def network(shape: tuple[int, ...], n_classes: int) -> nn.Module:
        return nn.Linear(*shape, n_classes)

    folder = quick(network=network, network_options=None, epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path / "run")
    with pytest.raises(InvalidParameterError, match="does not accept items of shape"):
        load_classifier(folder, network=nn.Linear(9, 2))


def test_callbacks_and_checkpoints_stay_with_the_session_that_trained(tmp_path: Path) -> None:
    model = quick(epochs=1, callbacks=[lambda record: None], checkpoint=tmp_path / "states").fit(np.eye(2), [[0], [1]])
    loaded = load_classifier(model.save(tmp_path / "run"))
    assert (loaded.callbacks, loaded.checkpoint) == ((), None)


def test_a_model_that_was_not_fitted_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        quick().save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


# -- forged classifiers -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier without a manifest, so that only its content can tell what is wrong."""
    folder = quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path_factory.mktemp("saved") / "run")
    (folder / "manifest.json").unlink()
    return folder


def forged(saved: Path, tmp_path: Path, **changes: Any) -> Path:
    folder = Path(shutil.copytree(saved, tmp_path / "run"))
    path = folder / "classifier.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


@pytest.mark.parametrize(
    "changes",
    [
        {"input_shape": [8_000_000]},
        {"input_shape": [10**30]},
        {"input_shape": [0]},
        {"input_shape": [-2]},
        {"input_shape": []},
        {"input_shape": ["2"]},
        {"input_shape": 2},
        {"input_shape": [1, 28, 28], "network": "lenet5"},
        {"n_heads": "1"},
        {"n_heads": 0},
        {"n_heads": 2},
        {"n_heads": 10**9},
        {"n_heads": True},
        {"network": "nonsense"},
        {"network": "linear"},
        {"network": 5},
        {"classifier": 5},
        {"classifier": ["geocrowdnet"]},
        {"parameters": {"nonsense": 1}},
        {"parameters": []},
        {"parameters": {"network_options": {"hidden": [10**12]}}},
        {"parameters": {"network_options": {"hidden": "abc"}}},
        {"parameters": {"network_options": 5}},
        {"parameters": {"epochs": "many"}},
        {"histories": 5},
        {"schema": "1"},
    ],
    ids=str,
)
def test_a_forged_record_of_a_classifier_is_refused_without_taking_memory(
    changes: dict[str, Any], saved: Path, tmp_path: Path
) -> None:
    resource = pytest.importorskip("resource")
    folder = forged(saved, tmp_path, **changes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((ResultFormatError, InvalidParameterError)):
        load_classifier(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


def nan(tensors: dict[str, torch.Tensor]) -> None:
    next(values for name, values in tensors.items() if name.startswith("network-0")).fill_(torch.nan)


def other_shape(tensors: dict[str, torch.Tensor]) -> None:
    name = next(name for name in tensors if name.startswith("network-0"))
    tensors[name] = torch.zeros(7)


def other_type(tensors: dict[str, torch.Tensor]) -> None:
    name = next(name for name in tensors if name.startswith("network-0"))
    tensors[name] = tensors[name].double()


@pytest.mark.parametrize(
    "spoil",
    [
        nan,
        other_shape,
        other_type,
        lambda tensors: tensors.pop("order-0"),
        lambda tensors: tensors.pop("scaling.shift"),
        lambda tensors: tensors.pop(next(name for name in tensors if name.startswith("network-0"))),
        lambda tensors: tensors.update({"order-0": torch.tensor([0, 0])}),
        lambda tensors: tensors.update({"order-0": torch.tensor([0, 9])}),
        lambda tensors: tensors.update({"order-0": torch.tensor([0.0, 1.0])}),
        lambda tensors: tensors.update({"scaling.scale": torch.zeros(2)}),
        lambda tensors: tensors.update({"scaling.shift": torch.zeros(5)}),
        lambda tensors: tensors.update({"confusions-0": torch.full((1, 2, 2), torch.nan)}),
        lambda tensors: tensors.update({"confusions-0": torch.full((2, 2, 2), 0.5)}),
        lambda tensors: tensors.update({"network-0.more": torch.zeros(1)}),
    ],
)
def test_forged_weights_are_refused(spoil: Any, saved: Path, tmp_path: Path) -> None:
    folder = forged(saved, tmp_path)
    tensors = load_file(folder / "weights.safetensors")
    spoil(tensors)
    save_file(tensors, folder / "weights.safetensors")
    with pytest.raises(ResultFormatError):
        load_classifier(folder)


@pytest.mark.parametrize("header", [b"\xff" * 8, (10**6).to_bytes(8, "little"), (2).to_bytes(8, "little") + b"[]"])
def test_weights_with_a_false_header_are_refused(header: bytes, saved: Path, tmp_path: Path) -> None:
    folder = forged(saved, tmp_path)
    (folder / "weights.safetensors").write_bytes(header + b"{}")
    with pytest.raises(ResultFormatError):
        load_classifier(folder)


def test_a_classifier_of_version_0_1_0_loads_without_a_manifest(saved: Path) -> None:
    assert load_classifier(saved).predict_proba(np.eye(2)).shape == (2, 2)


def test_all_files_have_the_same_mode(tmp_path: Path) -> None:
    folder = quick(epochs=1).fit(np.eye(2), [[0], [1]]).save(tmp_path / "run")
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def test_a_result_does_not_replace_a_classifier_unless_forced(tmp_path: Path) -> None:
    model = quick(epochs=1).fit(np.eye(2), [[0], [1]])
    folder = model.save(tmp_path / "run")
    with pytest.raises(InvalidParameterError, match=r"holds a classifier.*force=True"):
        model.result_.save(folder)
    model.result_.save(folder, force=True)
    assert {path.name for path in folder.iterdir()} == {"manifest.json", "result.json", "arrays.npz"}


def test_an_onnx_file_gives_the_same_probabilities(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason='needs pip install "crowdprism[onnx]"')
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra: test)")
    random = np.random.default_rng(0)
    X = (5 + 3 * random.normal(size=(60, 4))).astype(np.float32)
    annotations = crowdprism.Annotations.from_dense(np.repeat((X[:, :1] > 5).astype(int), 3, axis=1))
    model = quick(n_heads=2).fit(X, annotations)
    session = runtime.InferenceSession(str(model.export_onnx(tmp_path / "model.onnx")))
    (found,) = session.run(None, {"features": X})
    np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-5)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) is not None
    assert session.run(None, {"features": X[:7]})[0].shape == (7, 2)
