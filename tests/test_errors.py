"""Errors are the builtins a caller expects, and say what to do in the words of the front end."""

from __future__ import annotations

import copy
import inspect

import pytest

from crowdprism import errors
from crowdprism.errors import CrowdprismError, MissingDatasetError, UnreadableFileError

ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, CrowdprismError)]


@pytest.mark.parametrize("kind", [kind for kind in ERRORS if kind is not CrowdprismError])
def test_every_error_is_also_a_builtin(kind: type[CrowdprismError]) -> None:
    assert any(
        base.__module__ == "builtins" and base not in (Exception, BaseException, object) for base in kind.__mro__
    )


@pytest.mark.parametrize("kind", ERRORS)
def test_a_copy_keeps_parameter_and_remedy(kind: type[CrowdprismError]) -> None:
    """Processes send errors to each other as copies."""
    error = kind("{odd} is wrong.", parameter="item", remedy="Pass {item:'task'} or {label}")
    again = copy.copy(error)
    assert str(again) == str(error) == "{odd} is wrong. Pass item='task' or label=..."
    assert (again.parameter, again.problem) == ("item", "{odd} is wrong.")


def test_without_a_remedy_the_message_is_the_problem() -> None:
    assert str(UnreadableFileError("x.csv is empty.")) == "x.csv is empty."
    assert str(MissingDatasetError("no data")) == "no data"


def test_a_front_end_writes_parameters_in_its_own_way() -> None:
    error = UnreadableFileError("Two columns.", remedy="Choose one with {label:'answer'}.")
    error.name_parameter = lambda name, value: f"<{name}|{value}>"
    assert str(error) == "Two columns. Choose one with <label|'answer'>."
