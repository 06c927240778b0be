"""Fitted classifiers as folders: the result, `classifier.json` and `weights.safetensors`; no pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from crowdprism.classifiers.fitting import NetworkPlan
from crowdprism.classifiers.posterior import Member, Predictor
from crowdprism.errors import InvalidParameterError, ResultFormatError
from crowdprism.files import replacing_folder
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
    save_file(predictor_tensors(model.predictor_), folder / WEIGHTS_FILE)
    (folder / CLASSIFIER_FILE).write_text(json.dumps(model_record(model)), encoding="utf-8")


def predictor_tensors(predictor: Predictor) -> dict[str, torch.Tensor]:
    """Weights of all heads, class orders, confusions and input scaling."""
    tensors = named_tensors("scaling", predictor.scaling.state_dict())
    for place, member in enumerate(predictor.members):
        tensors |= named_tensors(f"network-{place}", member.network.state_dict())
        tensors[f"order-{place}"] = torch.from_numpy(member.order)
        if member.confusions is not None:
            tensors[f"confusions-{place}"] = torch.from_numpy(member.confusions)
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def model_record(model: CrowdClassifier) -> dict[str, Any]:
    """Parameters and shapes as JSON."""
    parameters = {name: value for name, value in model.get_params().items() if name not in NOT_STORED}
    predictor = model.predictor_
    named = isinstance(predictor.architecture, str)
    if not named:
        parameters.pop("network")
    return {
        "schema": MODEL_SCHEMA,
        "classifier": model.name,
        "parameters": json_ready(parameters),
        "network": predictor.architecture if named else None,
        "input_shape": list(predictor.input_shape),
        "n_heads": len(predictor.members),
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
    except ResultFormatError:
        raise
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ResultFormatError(
            f"{source} is damaged: {type(error).__name__}: {error}. Fit and save it again."
        ) from error
    if record["classifier"] not in kinds:
        raise ResultFormatError(
            f"{source} holds a {record['classifier']!r}, which is not known here. Import the module that defines it "
            f"first; known are {', '.join(sorted(kinds))}."
        )
    if record["network"] is None and network is None:
        raise InvalidParameterError(
            f"{source} was fitted with a network of your own; pass it: load(folder, network=module or function).",
            parameter="network",
        )
    model = kinds[record["classifier"]](**record["parameters"])
    if record["network"] is None:
        model.network = network
    model.predictor_ = restored_predictor(model, record, tensors, result, network)
    model.n_features_in_ = record["input_shape"][0]
    model.classes_ = result.classes
    model.histories_ = record["histories"]
    model.result_ = result
    return model


def restored_predictor(
    model: CrowdClassifier, record: dict[str, Any], tensors: dict[str, torch.Tensor], result: FitResult, network: Any
) -> Predictor:
    """Build the networks anew and give them the stored weights."""
    architecture = network if record["network"] is None else record["network"]
    shape = tuple(record["input_shape"])
    plan = NetworkPlan(architecture, shape, result.n_annotators, result.n_classes)
    members = []
    for place in range(record["n_heads"]):
        built = model.make_network(plan)
        built.load_state_dict(without_prefix(f"network-{place}", tensors))
        confusions = tensors.get(f"confusions-{place}")
        order = tensors[f"order-{place}"].numpy()
        members.append(Member(built.eval(), order, None if confusions is None else confusions.numpy()))
    scaling = InputScaling(tensors["scaling.shift"], tensors["scaling.scale"])
    return Predictor(tuple(members), scaling, shape, architecture)
