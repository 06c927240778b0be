"""Fitted classifiers as folders: the result, `classifier.json` and `weights.safetensors`; no pickle."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec
import numpy as np
import safetensors.torch
import torch
from msgspec import Meta
from numpy.typing import NDArray

from crowdprism.annotations.names import names_to_json
from crowdprism.classifiers.fitting import NetworkPlan
from crowdprism.classifiers.posterior import Member, Predictor
from crowdprism.errors import InvalidParameterError, MissingDependencyError, ResultFormatError, some
from crowdprism.files import replacing_file
from crowdprism.results.fit_result import FitResult, json_ready
from crowdprism.results.loading import fields_of, require_values
from crowdprism.results.manifest import RunFiles, require_schema
from crowdprism.results.replacing import replacing_run
from crowdprism.training import InputScaling
from crowdprism.training.checkpoint import prefixed, without_prefix

if TYPE_CHECKING:
    from crowdprism.classifiers.base import CrowdClassifier

MODEL_SCHEMA = 1
CLASSIFIER_FILE = "classifier.json"
WEIGHTS_FILE = "weights.safetensors"
NOT_STORED = {"callbacks", "checkpoint", "resume"}
MAX_ITEM_SIZE = 10**8  # numbers in one item; more than this is not tried on a network of the user's own
MOST_HEAD_BYTES = 2**26


class Record(TypedDict):
    classifier: str
    parameters: dict[str, Any]
    network: str | None
    input_shape: Annotated[list[Annotated[int, Meta(gt=0)]], Meta(min_length=1)]
    n_heads: int
    histories: list[Any]
    temperature: float
    chosen_settings: dict[str, Any] | None


def save(model: CrowdClassifier, folder: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write model and result as a folder (safetensors, JSON), replacing its own; `force` as in `FitResult.save`."""
    model._require_fitted()
    with replacing_run(folder, kind="classifier", force=force) as fresh:
        write_into(model, fresh)
    return Path(folder)


def write_into(model: CrowdClassifier, folder: Path) -> None:
    """Write the model's files into an existing folder, not atomically; `save` is the safe way."""
    model._require_fitted()
    model.result_.write_into(folder)
    (folder / WEIGHTS_FILE).write_bytes(safetensors.torch.save(model_tensors(model)))
    (folder / CLASSIFIER_FILE).write_text(json.dumps(model_record(model)), encoding="utf-8")


def model_tensors(model: CrowdClassifier) -> dict[str, torch.Tensor]:
    """What predictions need, and the states of the crowd heads, with which training goes on."""
    predictor, tensors = model.predictor_, prefixed("scaling", model.predictor_.scaling.state_dict())
    for place, state in enumerate(kept_states(model) or []):
        tensors |= prefixed(f"head-{place}", state)
    for place, member in enumerate(predictor.members):
        tensors |= prefixed(f"network-{place}", member.network.state_dict())
        tensors[f"order-{place}"] = torch.from_numpy(member.order)
        if member.confusions is not None:
            tensors[f"confusions-{place}"] = torch.from_numpy(member.confusions)
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def kept_states(model: CrowdClassifier) -> list[dict[str, torch.Tensor]] | None:
    """States of the crowd heads; None where there are none, or where they are so large that they are not saved."""
    states: list[dict[str, torch.Tensor]] | None = getattr(model, "_head_states", None)
    size = sum(tensor.nbytes for state in states or [] for tensor in state.values())
    return states if size <= MOST_HEAD_BYTES else None


def model_record(model: CrowdClassifier) -> dict[str, Any]:
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
        "threads": model.threads_,
        "temperature": predictor.temperature,
        "chosen_settings": None if kept_states(model) is None else getattr(model, "chosen_settings_", {}),
    }


def export_onnx(model: CrowdClassifier, path: str | os.PathLike[str]) -> Path:
    """Write the classifier as an ONNX file: `features` (n, ...) in float32 to `probabilities` (n, n_classes).

    Images that were bytes in training are given divided by 255. The class names are in the file's metadata.
    """
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise MissingDependencyError('ONNX files need onnx: pip install "crowdprism[onnx]".') from error
    module = model.to_module().cpu()
    example = torch.zeros((2, *model.predictor_.input_shape))
    axes = {"features": {0: "n"}, "probabilities": {0: "n"}}
    with replacing_file(path) as fresh, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about its own exporters
        options: dict[str, Any] = {"input_names": ["features"], "output_names": ["probabilities"], "dynamic_axes": axes}
        torch.onnx.export(module, (example,), str(fresh), dynamo=False, **options)  # the other needs one more package
        made = onnx.load(str(fresh))
        onnx.helper.set_model_props(made, {"classes": json.dumps(names_to_json(model.classes_))})
        onnx.save(made, str(fresh))
    return Path(path)


def restored(files: RunFiles, kinds: Mapping[str, type[CrowdClassifier]], network: Any) -> CrowdClassifier:
    """The classifier that `save` wrote; `kinds` are the known classes by name."""
    result = FitResult(**fields_of(files))
    record = checked_record(files)
    if record["classifier"] not in kinds:
        raise ResultFormatError(
            f"{files.folder} holds a {record['classifier']!r}, which is not known here. Import the module that defines "
            f"it first; known are {', '.join(sorted(kinds))}."
        )
    if record["network"] is None and network is None:
        raise InvalidParameterError(
            f"{files.folder} was fitted with a network of your own; pass it: load(folder, network=module or function).",
            parameter="network",
        )
    model = kinds[record["classifier"]](**record["parameters"])
    if record["network"] is None:
        model.network = network
    model.check_params()
    tensors = checked_tensors(files)
    model.predictor_ = restored_predictor(model, record, tensors, result, network)
    if record["chosen_settings"] is not None:
        model.chosen_settings_ = record["chosen_settings"]
        model._head_states = [without_prefix(f"head-{place}", tensors) for place in range(record["n_heads"])]
    model.n_features_in_, model.classes_, model.result_ = record["input_shape"][0], result.classes, result
    model.histories_, model.threads_ = record["histories"], record.get("threads", [])
    return model


def checked_record(files: RunFiles) -> dict[str, Any]:
    for name in (CLASSIFIER_FILE, WEIGHTS_FILE):
        if name not in files:
            raise ResultFormatError(f"{files.folder} holds no classifier ({files.folder / name} is missing).")
    record = {"temperature": 1.0, "chosen_settings": None} | files.read_json(CLASSIFIER_FILE)  # older models have none
    require_schema(record, MODEL_SCHEMA, files.folder)
    msgspec.convert(record, Record)
    if not 0 < record["temperature"] < math.inf:
        raise ValueError(f"temperature {record['temperature']!r}")
    return record


def checked_tensors(files: RunFiles) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = safetensors.torch.load(files.read(WEIGHTS_FILE))
    for name, values in tensors.items():
        if values.is_floating_point() and not bool(torch.isfinite(values).all()):
            raise ValueError(f"{name} of {WEIGHTS_FILE} holds values that are not finite")
    return tensors


def restored_predictor(
    model: CrowdClassifier, record: dict[str, Any], tensors: dict[str, torch.Tensor], result: FitResult, network: Any
) -> Predictor:
    architecture = network if record["network"] is None else record["network"]
    shape = tuple(record["input_shape"])
    n_heads = sum(name.startswith("order-") for name in tensors)
    if not 1 <= record["n_heads"] == n_heads:
        raise ValueError(f"{record['n_heads']} heads, but weights of {n_heads}")
    members = []
    for place in range(n_heads):
        weights = without_prefix(f"network-{place}", tensors)
        built = empty_network(model, NetworkPlan(architecture, shape, result.n_annotators, result.n_classes), weights)
        built.load_state_dict(weights)
        members.append(Member(built.eval(), *order_and_confusions(tensors, place, result)))
    scaling = InputScaling(tensors["scaling.shift"], tensors["scaling.scale"])
    fits = np.broadcast_shapes(scaling.shift.shape, scaling.scale.shape, shape) == shape
    if not fits or not bool((scaling.scale > 0).all()):
        raise ValueError(f"the scaling does not fit items of shape {shape}")
    return Predictor(tuple(members), scaling, shape, architecture, float(record["temperature"]))


def empty_network(model: CrowdClassifier, plan: NetworkPlan, weights: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """Build a network for these weights; its shapes are compared with theirs before it takes memory."""
    if isinstance(plan.architecture, str):
        with torch.device("meta") as meta:  # shapes only
            built = model.make_network(replace(plan, device=meta))
    else:
        if math.prod(plan.input_shape) > MAX_ITEM_SIZE:
            raise ValueError(f"items of shape {plan.input_shape}")
        built = model.make_network(plan)
    needed = {name: (tuple(values.shape), values.dtype) for name, values in built.state_dict().items()}
    stored = {name: (tuple(values.shape), values.dtype) for name, values in weights.items()}
    differing = sorted(name for name in {*needed, *stored} if needed.get(name) != stored.get(name))
    if differing:
        raise ValueError(f"the network needs other weights than are stored: {some(differing)}")
    return built.to_empty(device="cpu") if isinstance(plan.architecture, str) else built


def order_and_confusions(
    tensors: Mapping[str, torch.Tensor], place: int, result: FitResult
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The order of classes and the confusions of one head, checked against the names of the run."""
    order, confusions = tensors[f"order-{place}"].numpy(), tensors.get(f"confusions-{place}")
    if order.dtype != np.int64 or sorted(order.tolist()) != list(range(result.n_classes)):
        raise ValueError(f"the order of classes of head {place} is no permutation")
    if confusions is None:
        return order, None
    shape = (result.n_annotators, result.n_classes, result.n_classes)
    if tuple(confusions.shape) != shape:
        raise ValueError(f"confusions of head {place} have shape {tuple(confusions.shape)}, not {shape}")
    require_values("confusions", confusions.numpy())
    return order, confusions.numpy()
