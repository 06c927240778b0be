"""What every classifier shares: parameters, one pass of everything per fit, threads, forks, methods of users."""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from crowdprism.classifiers import CLASSIFIERS, CrowdClassifier, CrowdLayer, load_classifier, make_classifier
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import Batch, build
from crowdprism.networks.losses import known_cross_entropy
from crowdprism.training import InputScaling
from crowdprism.training.batches import mixed

PLAIN: dict[str, Any] = {"input_noise": 0.0, "temperature": 1.0}  # nothing is held out
SMALL: dict[str, Any] = {"epochs": 2, "network_options": {"hidden": (8,)}, **PLAIN}
WITHOUT_RULE = {
    "network",
    "network_options",
    "device",
    "checkpoint",
    "callbacks",
    "random_state",
    "dependence",
    "aggregator_options",
}


# -- once per fit -------------------------------------------------------------------------------------------


class Watched(nn.Linear):
    """A network that notes whether it is training, and how many items it sees."""

    def __init__(self, n_features: int, n_classes: int, passes: list[tuple[bool, int]]) -> None:
        super().__init__(n_features, n_classes)
        self.passes = passes

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        self.passes.append((self.training, len(features)))
        return super().forward(features)


@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("name", ["crowdlayer", "geocrowdnet-f", "nn-mv"])
def test_after_training_each_network_sees_each_item_once(crowd: Any, name: str, n_heads: int) -> None:
    passes: list[tuple[bool, int]] = []
    model = make_classifier(name, network=lambda shape, n: Watched(*shape, n, passes), n_heads=n_heads, epochs=2)
    model.fit(crowd.features, crowd.annotations, X_unlabelled=crowd.features[:30])
    last = max(place for place, (training, _) in enumerate(passes) if training)
    assert sum(n_items for _, n_items in passes[last + 1 :]) == n_heads * (120 + 30)


@pytest.mark.parametrize("n_heads", [1, 2])
def test_every_item_is_scaled_once(crowd: Any, monkeypatch: pytest.MonkeyPatch, n_heads: int) -> None:
    scaled = []
    forward = InputScaling.forward
    monkeypatch.setattr(InputScaling, "forward", lambda self, x: scaled.append(len(x)) or forward(self, x))
    make_classifier("geocrowdnet-f", n_heads=n_heads, **SMALL).fit(
        crowd.features,
        crowd.annotations,
        X_unlabelled=crowd.features[:30],
        X_valid=crowd.features[:7],
        y_valid=crowd.truth[:7],
    )
    assert sorted(scaled) == [7, 120 + 30]


# -- parameters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_every_parameter_has_a_rule_that_its_default_keeps(name: str) -> None:
    model = make_classifier(name)
    model.check_params()
    refused = set()
    for parameter in set(model.get_params()) - WITHOUT_RULE:
        with pytest.raises(InvalidParameterError, match=f"^{parameter} must be ") as raised:
            clone(model).set_params(**{parameter: object()}).check_params()
        assert raised.value.parameter == parameter
        refused.add(parameter)
    assert refused == {field.name for field in fields(model)} - WITHOUT_RULE


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("aggnet", {"smallest": 1.0}, "smallest must be a number above 0 and below 1, not 1.0"),
        ("aggnet", {"epochs_per_round": 0}, "epochs_per_round must be a whole number of at least 1, not 0"),
        ("raykar", {"smoothing": -0.1}, "smoothing must be a number of at least 0, not -0.1"),
        ("coinnet", {"strength": float("inf")}, "strength must be a number of at least 0, not inf"),
        ("unionnet-a", {"off_diagonal": 1}, "off_diagonal must be a number of at least 0 and below 1, not 1"),
        ("doctornet", {"weighted": 1}, "weighted must be True or False or 'item', not 1"),
        ("max-mig", {"divergence": "js"}, "divergence must be 'kl', .* or 'tvd', not 'js'"),
        ("nn-mv", {"aggregator": "oracle"}, "aggregator must be 'majority-vote', .*, not 'oracle'"),
        ("crowdlayer", {"batch_size": "all"}, "batch_size must be a whole number of at least 1 or 'auto', not 'all'"),
        ("crowdlayer", {"weight_decay": "some"}, "weight_decay must be a number of at least 0 or 'auto', not 'some'"),
        ("crowdlayer", {"epochs": "10"}, "epochs must be a whole number of at least 1, not '10'"),
    ],
)
def test_a_value_outside_its_range_is_refused_at_fit_with_the_range(
    crowd: Any, name: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidParameterError, match=message) as raised:
        make_classifier(name, **parameters).fit(crowd.features, crowd.annotations)
    assert raised.value.parameter == next(iter(parameters))


def test_an_infinite_price_of_outliers_is_allowed() -> None:
    make_classifier("coinnet", outlier_strength=float("inf")).check_params()


def test_numbers_of_numpy_and_no_warm_start_train_as_pythons_do(crowd: Any) -> None:
    plain = CrowdLayer(epochs=2, batch_size=16, warm_start=0.0).fit(crowd.features, crowd.annotations)
    numpy = CrowdLayer(epochs=np.int64(2), batch_size=np.int32(16), warm_start=False, flip=np.bool_(False))
    numpy.fit(crowd.features, crowd.annotations)
    assert np.array_equal(plain.predict_proba(crowd.features), numpy.predict_proba(crowd.features))


# -- threads and forks --------------------------------------------------------------------------------------


def fitted_probs(name: str, crowd: Any) -> Any:
    return (
        make_classifier(name, epochs=5, batch_size=16)
        .fit(crowd.features, crowd.annotations)
        .predict_proba(crowd.features)
    )


@pytest.mark.parametrize("names", [("geocrowdnet-f", "geocrowdnet-f"), ("geocrowdnet-w", "conal"), ("aggnet", "mbem")])
@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_two_fits_in_two_threads_equal_one_after_the_other(crowd: Any, names: tuple[str, str]) -> None:
    alone = [fitted_probs(name, crowd) for name in names]
    for _ in range(3):
        with ThreadPoolExecutor(2) as pool:
            at_once = list(pool.map(lambda name: fitted_probs(name, crowd), names))
        assert all(np.array_equal(one, other) for one, other in zip(alone, at_once, strict=True))


@pytest.mark.skipif(sys.platform != "linux" or torch.cuda.is_available(), reason="needs fork, which CUDA forbids")
@pytest.mark.parametrize("name", ["geocrowdnet-f", "nn-dsem"])
@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_a_fit_in_a_forked_process_equals_that_of_its_parent(crowd: Any, name: str) -> None:
    expected = fitted_probs(name, crowd)  # starts whatever threads a fit starts, before the fork
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sending.send(fitted_probs(name, crowd)), daemon=True)
    child.start()
    try:
        assert receiving.poll(120), "the fit in the forked process hangs"
        assert np.array_equal(receiving.recv(), expected)
    finally:
        child.kill()
        child.join()


# -- networks and methods of others -------------------------------------------------------------------------


def test_a_named_network_with_a_layer_that_nobody_initialises_is_refused(
    crowd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def network(n_features: int, n_classes: int) -> nn.Module:
        return nn.Sequential(nn.LayerNorm(n_features), nn.Linear(n_features, n_classes))

    monkeypatch.setitem(build.FEATURE_NETWORKS, "mlp", network)
    with pytest.raises(NotImplementedError, match="LayerNorm"):
        make_classifier("crowdlayer", network="mlp").fit(crowd.features, crowd.annotations)
    CrowdLayer(network=lambda shape, n: network(*shape, n), epochs=1).fit(crowd.features, crowd.annotations)


@pytest.fixture
def known_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the methods that a test defines."""
    monkeypatch.setattr(CrowdClassifier, "kinds", dict(CrowdClassifier.kinds))


@pytest.mark.usefixtures("known_kinds")
@pytest.mark.parametrize("style", ["dataclass", "constructor"])
def test_a_users_own_method_has_all_parameters_and_is_stored(crowd: Any, tmp_path: Any, style: str) -> None:
    @dataclass(kw_only=True, eq=False, repr=False)
    class Declared(CrowdLayer):
        name: ClassVar[str] = "declared"
        patience_of_mine: int = 1

    class Constructed(CrowdLayer):
        name: ClassVar[str] = "constructed"

        def __init__(self, *, patience_of_mine: int = 1, **training: Any) -> None:
            super().__init__(**training)
            self.patience_of_mine = patience_of_mine

    method = Declared if style == "dataclass" else Constructed
    model = clone(method(patience_of_mine=5, variant="VW", **SMALL))
    assert model.get_params()["patience_of_mine"] == 5
    assert set(CrowdLayer().get_params()) < set(model.get_params())
    assert "patience_of_mine=5" in repr(model)
    model.fit(crowd.features, crowd.annotations)
    loaded = load_classifier(model.save(tmp_path / "run"))
    assert type(loaded) is method
    assert loaded.get_params()["patience_of_mine"] == 5
    assert np.array_equal(loaded.predict_proba(crowd.features), model.predict_proba(crowd.features))


# -- gold ---------------------------------------------------------------------------------------------------


def gold_of(crowd: Any, n_known: int) -> Any:
    """The crowd's annotations with the true class of the first items."""
    return crowd.annotations.with_gold(dict(enumerate(crowd.truth[:n_known].tolist())))


@pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")
@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_gold_that_is_not_used_changes_nothing_but_what_is_judged(crowd: Any, name: str) -> None:
    params = SMALL if name not in ("raykar", "gaussian-process") else {"epochs": 2, **PLAIN}  # it is linear
    blind = make_classifier(name, **params).fit(crowd.features, crowd.annotations)
    hidden = make_classifier(name, use_gold=False, **params).fit(crowd.features, gold_of(crowd, 100))
    shown = make_classifier(name, **params).fit(crowd.features, gold_of(crowd, 100))
    assert np.array_equal(hidden.predict_proba(crowd.features), blind.predict_proba(crowd.features))
    assert not np.array_equal(shown.predict_proba(crowd.features), blind.predict_proba(crowd.features))
    assert hidden.result_.annotations.gold is not None


def test_a_classifier_learns_from_gold_where_annotators_guess(crowd: Any) -> None:
    random = np.random.default_rng(0)
    drawn = random.integers(3, size=crowd.annotations.n_annotations).astype(np.int32)
    guesses = replace(crowd.annotations, label=drawn).with_gold(dict(enumerate(crowd.truth[:100].tolist())))
    model = make_classifier("geocrowdnet", epochs=20, **PLAIN).fit(crowd.features, guesses)
    assert model.score(crowd.features[100:], crowd.truth[100:]) > 0.75
    assert model.histories_[0]["gold"][-1] < model.histories_[0]["gold"][0]
    assert (model.result_.labels()[:100] == crowd.truth[:100]).all()


def test_gold_weighs_the_same_in_a_stack(crowd: Any) -> None:
    """Two heads trained as one program end where one head ends: a known class is one item of each model's batch."""
    known = gold_of(crowd, 60)
    params = {"epochs": 5, "confusion_form": "free", "network_options": {"hidden": (), "dropout": 0.0}, **PLAIN}
    alone, pair = (make_classifier("geocrowdnet", n_heads=n, **params).fit(crowd.features, known) for n in (1, 2))
    first = [list(model.predictor_.members[0].network.parameters()) for model in (alone, pair)]
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*first, strict=True))


def test_mixed_items_count_for_both_known_classes() -> None:
    none = torch.zeros(0, dtype=torch.long)
    batch = Batch(torch.ones(2, 1), torch.arange(2), none, none, none, None, 1.0, 1, none, gold=torch.tensor([0, 1]))
    log_probs = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()
    plain = known_cross_entropy(log_probs, batch)
    assert float(plain) == pytest.approx(-np.log(0.9) - np.log(0.8))
    doubled = mixed(batch, 1.0, np.random.default_rng(0))
    own, other = doubled.group_weight[:2], doubled.group_weight[2:]
    rows = doubled.group_row
    expected = -(own * log_probs[rows[:2], batch.gold]).sum() - (other * log_probs[rows[2:], batch.gold]).sum()
    assert float(known_cross_entropy(log_probs, doubled)) == pytest.approx(float(expected))
