"""Fitted classifiers as folders: the result, `classifier.json` and `weights.safetensors`; no pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from crowdprism.classifiers.ensemble import Member
from crowdprism.errors import InvalidParameterError, ResultFormatError
from crowdprism.files import replacing_folder
from crowdprism.networks import build_network
from crowdprism.results.fit_result import FitResult, json_ready
from crowdprism.training import InputScaling
from crowdprism.training.checkpoint import named_tensors, without_prefix

if TYPE_CHECKING:
    from crowdprism.classifiers.base import CrowdClassifier

MODEL_SCHEMA = 1
CLASSIFIER_FILE = "classifier.json"
WEIGHTS_FILE = "weights.safetensors"
NOT_STORED = {"callbacks", "checkpoint", "resume"}


def save(model: CrowdClassifier, folder: str | os.PathLike[str]) -> Path:
    """Write result, weights and parameters to a temporary folder, then put it in place by one rename."""
    target = Path(folder)
    if target.exists() and not (target / "result.json").exists() and any(target.iterdir()):
        raise InvalidParameterError(f"{target} exists and is not a saved model; choose another folder.")
    with replacing_folder(target) as fresh:
        write_into(model, fresh)
    return target


def write_into(model: CrowdClassifier, folder: Path) -> None:
    """Write the files of a model into an existing folder, not atomically; `save` is the safe way."""
    model.result_.write_into(folder)
    save_file(model_tensors(model), folder / WEIGHTS_FILE)
    (folder / CLASSIFIER_FILE).write_text(json.dumps(model_record(model)), encoding="utf-8")


def model_tensors(model: CrowdClassifier) -> dict[str, torch.Tensor]:
    """Weights of all heads, class orders, confusions and input scaling."""
    tensors = named_tensors("scaling", model._scaling.state_dict())
    for place, member in enumerate(model._members):
        tensors |= named_tensors(f"network-{place}", member.network.state_dict())
        tensors[f"order-{place}"] = torch.from_numpy(member.order)
        if member.confusions is not None:
            tensors[f"confusions-{place}"] = torch.from_numpy(member.confusions)
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def model_record(model: CrowdClassifier) -> dict[str, Any]:
    """Parameters and shapes as JSON."""
    parameters = {name: value for name, value in model.get_params().items() if name not in NOT_STORED}
    own_network = not isinstance(model._network_name, str)
    if own_network:
        parameters.pop("network")
    return {
        "schema": MODEL_SCHEMA,
        "classifier": model.name,
        "parameters": json_ready(parameters),
        "network": None if own_network else model._network_name,
        "input_shape": list(model._input_shape),
        "n_heads": len(model._members),
        "histories": model.histories_,
    }


def load(
    folder: str | os.PathLike[str], kinds: Mapping[str, type[CrowdClassifier]], *, network: Any = None
) -> CrowdClassifier:
    """Read a classifier that `save` wrote; `kinds` are the known classes by name."""
    source = Path(folder)
    result = FitResult.load(source)
    try:
        record = json.loads((source / CLASSIFIER_FILE).read_text(encoding="utf-8"))
        tensors = load_file(source / WEIGHTS_FILE)
        if record["schema"] > MODEL_SCHEMA:
            raise ResultFormatError(f"{source} was written by a newer crowdprism. Upgrade crowdprism to read it.")
    except FileNotFoundError as error:
        raise ResultFormatError(f"{source} holds no classifier ({error.filename} is missing).") from error
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ResultFormatError(
            f"{source} is damaged: {type(error).__name__}: {error}. Fit and save it again."
        ) from error
    if record["classifier"] not in kinds:
        raise ResultFormatError(
            f"{source} holds a {record['classifier']!r}, which is not known here. Import the module that defines it "
            f"first; known are {', '.join(sorted(kinds))}."
        )
    return _restore(kinds[record["classifier"]](**record["parameters"]), record, tensors, result, network, source)


def _restore(
    model: CrowdClassifier,
    record: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    result: FitResult,
    network: Any,
    source: Path,
) -> CrowdClassifier:
    model._network_name = record["network"] if record["network"] is not None else network
    if model._network_name is None:
        raise InvalidParameterError(
            f"{source} was fitted with a network of your own; pass it: load(folder, network=module or function)."
        )
    if record["network"] is None:
        model.network = network
    model._input_shape = tuple(record["input_shape"])
    model.n_features_in_ = record["input_shape"][0]
    model._scaling = InputScaling(tensors["scaling.shift"], tensors["scaling.scale"])
    model._confusions = result.confusions
    model._annotators = result.annotators
    model._members = [_restore_member(model, tensors, place, result.n_classes) for place in range(record["n_heads"])]
    model._labels_per_annotator = np.asarray(result.labels_per_annotator)
    model.classes_ = result.classes
    model.histories_ = record["histories"]
    model.result_ = result
    return model


def _restore_member(model: CrowdClassifier, tensors: dict[str, torch.Tensor], place: int, n_classes: int) -> Member:
    network: nn.Module = build_network(
        model._network_name,
        model._input_shape,
        n_classes,
        options=model.network_options,
        generator=torch.Generator(),
    )
    network = model._extend_network(
        network, n_annotators=len(model._annotators), n_classes=n_classes, generator=torch.Generator()
    )
    network.load_state_dict(without_prefix(f"network-{place}", tensors))
    confusions = tensors.get(f"confusions-{place}")
    order = tensors[f"order-{place}"].numpy()
    return Member(network.eval(), order, None if confusions is None else confusions.numpy())
