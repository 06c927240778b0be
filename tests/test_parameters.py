"""Allowed values as data: what each rule accepts, how it is worded, and parameters by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import clone

from crowdprism.errors import InvalidParameterError
from crowdprism.parameters import FLAG, PROBABILITY, Allowed, OneOf, Parameterized, Real, Whole, check_parameters


@pytest.mark.parametrize(
    ("rule", "accepted", "refused"),
    [
        (Whole(1), [1, 7, np.int64(3)], [0, True, 1.0, "1", None, float("nan")]),
        (Whole(0, 2), [0, 2], [-1, 3]),
        (Real(0), [0, 0.0, 2.5, np.float32(1)], [-1e-9, True, float("inf"), float("nan"), "0", None, 1j]),
        (Real(0, infinite=True), [float("inf")], [float("nan"), -float("inf")]),
        (Real(0, 1, above=True), [1e-9, 1], [0, 1.1]),
        (PROBABILITY, [0.5], [0, 1]),
        (OneOf("a", "b"), ["a", np.str_("b")], ["c", None, 1, ["a"], np.array(["a", "b"])]),
        (OneOf("F", None), ["F", None], ["f", False]),
        (FLAG, [True, False, np.bool_(True)], [1, 0, "True", None]),
        ((Real(0), "auto"), [1.5, "auto"], ["Auto", -1]),
        ((Whole(1), None), [2, None], [0, "None"]),
    ],
)
def test_a_rule_accepts_what_it_says_and_nothing_else(rule: Allowed, accepted: list[Any], refused: list[Any]) -> None:
    for value in accepted:
        check_parameters({"x": value}, {"x": rule})
    for value in refused:
        with pytest.raises(InvalidParameterError) as raised:
            check_parameters({"x": value}, {"x": rule})
        assert raised.value.parameter == "x"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Whole(1), "a whole number of at least 1"),
        (Whole(1, 5), "a whole number of at least 1 and at most 5"),
        (Real(0, 1, above=True, below=True), "a number above 0 and below 1"),
        (OneOf("a", "b", "c"), "'a', 'b' or 'c'"),
        ((Real(0), "auto", None), "a number of at least 0, 'auto' or None"),
    ],
)
def test_the_message_says_what_is_allowed_and_what_was_given(rule: Allowed, words: str) -> None:
    with pytest.raises(InvalidParameterError) as raised:
        check_parameters({"x": "?"}, {"x": rule})
    assert str(raised.value) == f"x must be {words}, not '?'."


class Base(Parameterized):
    _allowed: ClassVar[Mapping[str, Allowed]] = {"rounds": Whole(1), "rate": Real(0)}

    def __init__(self, rounds: int = 3, rate: float = 0.5) -> None:
        self.rounds, self.rate = rounds, rate


class PassesOn(Base):
    _allowed: ClassVar[Mapping[str, Allowed]] = {"kind": OneOf("a", "b"), "rate": (Real(0), "auto")}

    def __init__(self, *, kind: str = "a", **options: Any) -> None:
        super().__init__(**options)
        self.kind = kind


class WritesOut(Base):
    def __init__(self, rounds: int = 9) -> None:
        super().__init__(rounds=rounds)


class Inherits(PassesOn):
    pass


def test_parameters_passed_on_belong_to_the_class_and_others_do_not() -> None:
    assert PassesOn(rounds=4).get_params() == Inherits(rounds=4).get_params() == {"kind": "a", "rounds": 4, "rate": 0.5}
    assert WritesOut().get_params() == {"rounds": 9}  # its constructor takes no rate
    assert clone(PassesOn(kind="b", rate=2.0)).get_params() == {"kind": "b", "rounds": 3, "rate": 2.0}


def test_rules_of_the_bases_stay_in_force_unless_a_class_replaces_them() -> None:
    PassesOn(rate="auto").check_params()
    for wrong in (PassesOn(rounds=0), PassesOn(kind="c"), Base(rate="auto"), Inherits(rounds=0)):  # type: ignore[arg-type]
        with pytest.raises(InvalidParameterError, match="must be"):
            wrong.check_params()


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(
        InvalidParameterError, match="PassesOn has no parameter 'speed'; it has kind, rounds, rate"
    ) as raised:
        PassesOn().set_params(speed=1)
    assert raised.value.parameter == "speed"
    assert PassesOn().set_params(kind="b", rounds=7).get_params()["rounds"] == 7


def test_repr_shows_what_differs_from_the_defaults_by_value() -> None:
    assert repr(PassesOn()) == "PassesOn()"
    assert repr(PassesOn(kind="".join(["a"]), rate=float("0.5"), rounds=4)) == "PassesOn(rounds=4)"
    assert repr(PassesOn(rate=np.ones(2))) == "PassesOn(rate=array([1., 1.]))"  # type: ignore[arg-type]
