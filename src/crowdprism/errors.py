"""Every error and warning that crowdprism raises itself.

Each error is also the builtin that a caller would expect (`ValueError`, `RuntimeError`, ...), so existing
`except` clauses keep working.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter


def keyword(name: str, value: str) -> str:
    """Name a parameter as Python takes it, such as `item=...`, or `item` without a value."""
    return f"{name}={value}" if value else name


class CrowdprismError(Exception):
    """Base of all errors raised by crowdprism.

    Attributes
    ----------
    parameter
        Name of the parameter whose value is wrong; None if the error is not about one parameter.
    remedy
        What to do, as a sentence that follows the problem. `{item}` in it stands for the parameter `item` with any
        value, `{skip_missing:True}` for a parameter with that value.
    suggestion
        Parameters with values that would probably help, shown last. On the command line they follow `command`, the
        command that failed, and make one that can be run.
    name_parameter
        Writes such a parameter, from its name and value. The default writes Python; the command line sets its own.
    """

    def __init__(
        self,
        *args: object,
        parameter: str | None = None,
        remedy: str = "",
        suggestion: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(*args)
        self.parameter = parameter
        self.remedy = remedy
        self.suggestion = dict(suggestion or {})
        self.command = ""
        self.name_parameter: Callable[[str, str], str] = keyword

    @property
    def problem(self) -> str:
        """The message without the remedy."""
        return super().__str__()

    def __str__(self) -> str:
        parts = [self.problem, " "] if self.remedy else [self.problem]
        for text, name, value, _ in Formatter().parse(self.remedy):
            parts += [text] if name is None else [text, self.name_parameter(name, value or "...")]
        if self.suggestion:
            named = [self.name_parameter(name, repr(value)) for name, value in self.suggestion.items()]
            parts.append(f"\nTry: {' '.join([self.command, *named]) if self.command else ', '.join(named)}")
        return "".join(parts)


class InvalidAnnotationsError(CrowdprismError, ValueError):
    """Annotations break one or more rules; the message lists each with count, first place and remedy."""


class UnreadableFileError(CrowdprismError, ValueError):
    """A file could not be read as annotations; nothing was returned."""


class InvalidParameterError(CrowdprismError, ValueError):
    """A parameter has a value that the method cannot work with."""


class UnsuitableDataError(CrowdprismError, ValueError):
    """The data are valid but the chosen method cannot work on them; the message names one that can."""


class NotFittedError(CrowdprismError, ValueError, AttributeError):
    """A learned quantity was asked for before `fit`."""


class ResultFormatError(CrowdprismError, ValueError):
    """A saved result cannot be read: damaged, incomplete, or of a newer version."""


class TrainingError(CrowdprismError, RuntimeError):
    """Training had to stop, for example because the loss was no longer finite."""


class CheckpointMismatchError(CrowdprismError, RuntimeError):
    """A checkpoint belongs to another model, data set or setting than the run that tries to resume from it."""


class MissingDependencyError(CrowdprismError, ImportError):
    """An optional dependency is needed for this and is not installed."""


class MissingDatasetError(CrowdprismError, FileNotFoundError):
    """A data set is not where it was looked for; the message says where that was and how to get it."""


class DownloadError(CrowdprismError, OSError):
    """A file could not be fetched whole; what is left on disk is at most a part that the next try continues."""


class CrowdprismWarning(UserWarning):
    """Base of all warnings issued by crowdprism."""


class LostInformationWarning(CrowdprismWarning):
    """Something in the input could not be kept, for example who gave a label."""


class AlignmentWarning(CrowdprismWarning):
    """Ids of features and annotations agree only in part."""


class IdentifiabilityWarning(CrowdprismWarning):
    """The data do not determine what was asked for, for example classes swapped or crowds never compared."""


class ConvergenceWarning(CrowdprismWarning):
    """An iteration ended at its limit before it settled."""


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun, such as '1 annotator' or '2 classes'."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def some(values: object, limit: int = 3) -> str:
    """Show the first few of many values, as in `'a', 'b', 'c', ... (4 in all)`."""
    shown = list(values)  # type: ignore[call-overload]
    text = ", ".join(repr(value) for value in shown[:limit])
    return text if len(shown) <= limit else f"{text}, ... ({len(shown)} in all)"
