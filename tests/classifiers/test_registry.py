"""Names of classifiers, and what all of them do alike when training is interrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from crowdprism import load_dataset
from crowdprism.classifiers import ALIASES, CLASSIFIERS, make_classifier
from crowdprism.errors import InvalidParameterError

SMALL: dict[str, Any] = {
    "epochs": 4,
    "batch_size": 40,
    "network_options": {"hidden": (8,)},
    "input_noise": 0.0,
    "temperature": 1.0,
}


def test_every_alias_names_a_classifier() -> None:
    assert set(ALIASES.values()) <= set(CLASSIFIERS)
    assert not set(ALIASES) & set(CLASSIFIERS)


@pytest.mark.parametrize(
    ("written", "meant"), [("CoNAL", "conal"), ("Max MIG", "max-mig"), ("GeoCrowdNet(F)", "geocrowdnet-f")]
)
def test_names_are_understood_as_papers_write_them(written: str, meant: str) -> None:
    assert repr(make_classifier(written)) == repr(make_classifier(meant))


def test_an_unknown_name_is_answered_with_the_list() -> None:
    with pytest.raises(InvalidParameterError, match=r"no classifier 'doctorwho'.*doctornet"):
        make_classifier("doctorwho")


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_clones_keep_all_parameters(name: str) -> None:
    model = make_classifier(name, epochs=7)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_every_classifier_learns_the_embedded_crowd(name: str) -> None:
    train, test = (load_dataset("simulated").part(split) for split in ("train", "test"))
    model = make_classifier(name, epochs=10, use_gold=False, input_noise=0.0, temperature=1.0)
    model.fit(train.features, train.annotations)
    assert (model.predict_proba(test.features).argmax(axis=1) == test.gold).mean() > 0.65


def interrupt(record: Any) -> None:
    if record.epoch == 2:
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["mbem", "aggnet", "max-mig", "doctornet-weighted", "conal", "coinnet", "annot-mix"])
@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_an_interrupted_training_goes_on_as_if_it_had_not_been(crowd: Any, tmp_path: Any, name: str) -> None:
    extra = {"prior": "predictions"} if name == "max-mig" else {}
    straight = make_classifier(name, **SMALL, **extra).fit(crowd.features, crowd.annotations)
    begun = make_classifier(name, **SMALL, **extra, checkpoint=tmp_path, callbacks=[interrupt])
    assert begun.fit(crowd.features, crowd.annotations).interrupted_
    ended = make_classifier(name, **SMALL, **extra, checkpoint=tmp_path).fit(crowd.features, crowd.annotations)
    assert np.array_equal(ended.predict_proba(crowd.features), straight.predict_proba(crowd.features))


@pytest.mark.parametrize("name", ["geocrowdnet", "nn-mv", "doctornet"])
def test_a_network_with_batch_norm_refuses_batches_of_one_and_names_one_without(crowd: Any, name: str) -> None:
    with pytest.raises(InvalidParameterError, match=r"at least two items in a batch; there is 1\..*network='mlp'"):
        make_classifier(name, network="music", batch_size=1).fit(crowd.features, crowd.annotations)


@pytest.mark.parametrize("name", sorted(set(CLASSIFIERS) - {"coinnet"}))
def test_a_lone_annotator_is_enough(lone_annotator: Any, name: str) -> None:
    model = make_classifier(name, epochs=1, input_noise=0.0, temperature=1.0).fit(
        lone_annotator.features, lone_annotator.annotations
    )
    assert np.isfinite(model.predict_proba(lone_annotator.features)).all()
