"""`partial_fit`: going on with the networks and annotators of an earlier fit, on the same items or on others."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor

from crowdprism.classifiers import choosing, inputs, together
from crowdprism.classifiers.fitting import Problem, Run
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import CrowdHead
from crowdprism.training import TrainingOutcome

if TYPE_CHECKING:
    from crowdprism.classifiers.base import CrowdClassifier

Model = TypeVar("Model", bound="CrowdClassifier")
# Each call is a stretch of one long training, of unknown length: no schedule, and penalties from its first step.
CONSTANT: dict[str, Any] = {"schedule": "none", "warm_start": 0.0, "ramp": 0.0, "hold_annotators": 0.0}


def partial_fit(model: Model, X: Any, y: Any, classes: Any, sample_weight: Any, *, epochs: int, items: Any) -> Model:
    """See `CrowdClassifier.partial_fit`."""
    annotations = inputs.annotations_of(y)
    fitted = getattr(model, "predictor_", None)
    if fitted is not None:
        if not hasattr(model, "_head_states"):
            raise InvalidParameterError("A loaded model cannot go on: its training state was not saved. Use fit.")
        known = model.result_
        annotations = annotations.reindexed(annotators=known.annotators.tolist(), classes=known.classes.tolist())
    elif classes is not None:
        annotations = annotations.reindexed(classes=list(classes))
    prepared = model.prepare(X, annotations, sample_weight=sample_weight, items=items, fitted=fitted)
    choice = choosing.unchosen(model, prepared.problem)
    if fitted is not None:
        choice = replace(choice, settings=choice.settings | model.chosen_settings_, temperature=fitted.temperature)
    problem = prepared.to_train(choice)
    runs = [begun_run(model, replace(problem, member=place), epochs) for place in range(model.n_heads)]
    return model.keep(prepared, together.train_in_turn(runs, prepared.validation, watched_by=model), choice)


def begun_run(model: CrowdClassifier, problem: Problem, epochs: int) -> Run:
    """A run of a few epochs from where the last one ended."""
    run, outcome = model.make_run(problem), TrainingOutcome()
    if hasattr(model, "predictor_"):
        run.network.load_state_dict(model.predictor_.members[problem.member].network.state_dict())
        run.head.load_state_dict({**run.head.state_dict(), **model._head_states[problem.member]})
        history = copy.deepcopy(model.histories_[problem.member])
        outcome = TrainingOutcome(history, epochs_done=len(history["total"]))
    settings = replace(run.settings, epochs=outcome.epochs_done + epochs, rounds=1, keep_best=False, **CONSTANT)
    return replace(run, settings=settings, outcome=outcome)


def head_state(head: CrowdHead) -> dict[str, Tensor]:
    """What a head knows of annotators, without what belongs to the training items."""
    return {name: value.clone() for name, value in head.state_dict().items() if name not in head.item_state}
