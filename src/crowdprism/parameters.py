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

from crowdprism.errors import InvalidParameterError


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds (inclusive); `True` is not a number."""

    low: int
    high: int | None = None

    def accepts(self, value: Any) -> bool:
        """Tell whether the value is allowed."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        return whole and value >= self.low and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        return f"a whole number {_range(self.low, self.high)}"


@dataclass(frozen=True)
class Real:
    """A number within bounds; finite unless `infinite`, the low bound itself excluded where `above`."""

    low: float
    high: float | None = None
    above: bool = False
    below: bool = False
    infinite: bool = False

    def accepts(self, value: Any) -> bool:
        """Tell whether the value is allowed."""
        if not isinstance(value, RealNumber) or isinstance(value, bool) or math.isnan(value):
            return False
        if math.isinf(value) and not self.infinite:
            return False
        high_enough = value > self.low if self.above else value >= self.low
        low_enough = self.high is None or (value < self.high if self.below else value <= self.high)
        return bool(high_enough and low_enough)

    def __str__(self) -> str:
        return f"a number {_range(self.low, self.high, above=self.above, below=self.below)}"


class OneOf:
    """One of a few values, listed in the message."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def accepts(self, value: Any) -> bool:
        """Tell whether the value is one of those listed."""
        return any(type(value) is type(one) and value == one for one in self.values)

    def __str__(self) -> str:
        return _either([repr(value) for value in self.values])


def _range(low: float, high: float | None, *, above: bool = False, below: bool = False) -> str:
    start = f"above {low:g}" if above else f"of at least {low:g}"
    if high is None:
        return start
    end = f"below {high:g}" if below else f"at most {high:g}"
    return f"{start} and {end}"


def _either(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


Allowed = Any  # Whole, Real, OneOf, None, a literal, or a tuple of these (any of them will do)


def check_parameters(values: Mapping[str, Any], allowed: Mapping[str, Allowed]) -> None:
    """Raise `InvalidParameterError` for the first parameter whose value is not allowed; others are not looked at."""
    for name, rule in allowed.items():
        if name in values and not _accepts(rule, values[name]):
            raise InvalidParameterError(f"{name} must be {_describe(rule)}, not {values[name]!r}.", parameter=name)


def _accepts(rule: Allowed, value: Any) -> bool:
    if isinstance(rule, tuple):
        return any(_accepts(one, value) for one in rule)
    if isinstance(rule, (Whole, Real, OneOf)):
        return rule.accepts(value)
    return value is rule or (isinstance(rule, str) and isinstance(value, str) and value == rule)


def _describe(rule: Allowed) -> str:
    if isinstance(rule, tuple):
        return _either([_describe(one) for one in rule])
    return str(rule) if isinstance(rule, (Whole, Real, OneOf)) else repr(rule)


class Parameterized:
    """Constructor parameters by name, as scikit-learn expects them; for methods that must not import scikit-learn.

    The constructor only stores. A class that takes `**options` shares the parameters of its base.
    """

    _allowed: ClassVar[Mapping[str, Allowed]] = {}

    @classmethod
    def _parameter_defaults(cls) -> dict[str, Any]:
        """Every parameter with its default, the class's own first, then those passed on to its bases."""
        found: dict[str, Any] = {}
        for base in cls.__mro__:
            if "__init__" in vars(base) and issubclass(base, Parameterized):
                for name, parameter in inspect.signature(base.__init__).parameters.items():
                    if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                        found.setdefault(name, parameter.default)
        return found

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as scikit-learn's `get_params`."""
        return {name: getattr(self, name) for name in self._parameter_defaults()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as scikit-learn's `set_params`."""
        known = self._parameter_defaults()
        for name, value in params.items():
            if name not in known:
                raise InvalidParameterError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}.", parameter=name
                )
            setattr(self, name, value)
        return self

    def check_params(self) -> None:
        """Raise for the first parameter that is not allowed; subclasses declare what is in `_allowed`."""
        for base in reversed(type(self).__mro__):
            check_parameters(self.get_params(), vars(base).get("_allowed", {}))

    def __repr__(self) -> str:
        defaults = self._parameter_defaults()
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name]]
        return f"{type(self).__name__}({', '.join(changed)})"
