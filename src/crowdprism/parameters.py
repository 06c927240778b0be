"""Parameters of methods: allowed values declared as data beside each class, and one routine that checks them.

A method declares `_allowed`, a mapping from parameter name to what it accepts:

>>> allowed = {"max_iter": Whole(1), "e_step": OneOf("soft", "hard"), "strength": (Real(0), "auto")}
>>> check_parameters({"max_iter": 5, "e_step": "soft", "strength": "auto"}, allowed)
>>> check_parameters({"max_iter": 0}, allowed)
Traceback (most recent call last):
...
crowdprism.errors.InvalidParameterError: max_iter must be a whole number of at least 1, not 0.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from numbers import Real as RealNumber
from typing import Any, ClassVar, Self

import numpy as np

from crowdprism.errors import InvalidParameterError


@dataclass(frozen=True)
class Real:
    """A number within bounds; `above` and `below` exclude the bound itself. Finite unless `infinite`."""

    low: float
    high: float | None = None
    above: bool = False
    below: bool = False
    infinite: bool = False
    _noun: ClassVar[str] = "a number"

    def accepts(self, value: Any) -> bool:
        is_number = isinstance(value, RealNumber) and not isinstance(value, bool)
        if not is_number or (value in (math.inf, -math.inf) and not self.infinite):
            return False
        high_enough = value > self.low if self.above else value >= self.low  # NaN is neither
        low_enough = self.high is None or (value < self.high if self.below else value <= self.high)
        return bool(high_enough and low_enough)

    def __str__(self) -> str:
        start = f"{self._noun} above {self.low:g}" if self.above else f"{self._noun} of at least {self.low:g}"
        if self.high is None:
            return start
        return f"{start} and {'below' if self.below else 'at most'} {self.high:g}"


class Whole(Real):
    """A whole number within bounds (inclusive); `True` is not a number."""

    _noun = "a whole number"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Integral) and super().accepts(value)


class OneOf:
    """One of a few values, all listed in the message. NumPy's strings and booleans count as Python's."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def accepts(self, value: Any) -> bool:  # 1 is not True
        return any(_same_kind(value, one) and value == one for one in self.values)

    def __str__(self) -> str:
        return _either([repr(value) for value in self.values])


FLAG = OneOf(True, False)
PROBABILITY = Real(0, 1, above=True, below=True)

Rule = Real | OneOf | str | None  # a text or None stands for itself
Allowed = Rule | tuple[Rule, ...]  # of several, any will do


def _same_kind(value: Any, one: Any) -> bool:
    if isinstance(one, bool):
        return isinstance(value, (bool, np.bool_))
    return isinstance(value, str) if isinstance(one, str) else type(value) is type(one)


def _either(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def check_parameters(values: Mapping[str, Any], allowed: Mapping[str, Allowed]) -> None:
    """Raise `InvalidParameterError` for the first parameter whose value is not allowed; others are not looked at."""
    for name, given in allowed.items():
        several = given if isinstance(given, tuple) else (given,)
        rules = [rule if isinstance(rule, (Real, OneOf)) else OneOf(rule) for rule in several]
        if name in values and not any(rule.accepts(values[name]) for rule in rules):
            expected = _either([str(rule) for rule in rules])
            raise InvalidParameterError(f"{name} must be {expected}, not {values[name]!r}.", parameter=name)


class Parameterized:
    """Constructor parameters by name, as scikit-learn expects them, without importing scikit-learn.

    Base of aggregators and classifiers. The constructor only stores. A class whose constructor takes `**options`
    and passes them on has the parameters of its base as well.
    """

    _allowed: ClassVar[Mapping[str, Allowed]] = {}  # a subclass lists its own; those of its bases stay in force

    @classmethod
    def _constructor_parameters(cls) -> dict[str, inspect.Parameter]:
        """Every parameter: the class's own first, then those of the bases that its `**options` reach."""
        found: dict[str, inspect.Parameter] = {}
        for base in cls.__mro__[:-1]:  # without object
            if "__init__" not in vars(base):
                continue
            own = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]  # without self
            passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in own)
            for parameter in own:
                if parameter.kind is not parameter.VAR_KEYWORD:
                    found.setdefault(parameter.name, parameter)
            if not passes_on:
                break
        return found

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as scikit-learn's `get_params`."""
        return {name: getattr(self, name) for name in self._constructor_parameters()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as scikit-learn's `set_params`."""
        known = self._constructor_parameters()
        for name, value in params.items():
            if name not in known:
                raise InvalidParameterError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}.", parameter=name
                )
            setattr(self, name, value)
        return self

    def check_params(self) -> None:
        """Raise for the first parameter that is not allowed; a class's rule replaces its base's for the same name."""
        allowed: dict[str, Allowed] = {}
        for base in reversed(type(self).__mro__):
            allowed |= vars(base).get("_allowed", {})
        check_parameters(self.get_params(), allowed)

    def __repr__(self) -> str:
        """Show the parameters that differ from their defaults."""
        known = self._constructor_parameters()
        values = self.get_params().items()
        changed = [f"{name}={value!r}" for name, value in values if not _same(value, known[name].default)]
        return f"{type(self).__name__}({', '.join(changed)})"


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(np.all(value == default)))
