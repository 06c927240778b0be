"""Messages of the library in the words of the command line: `item=...` becomes `--item`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

KEYWORD = re.compile(r"(?<![\w.\-])([a-z_]+)=(\.\.\.|\[[^\]]*\]|True|False|\d+(?:\.\d+)?|'[^']*'|\"[^\"]*\"|NAME)")
BY_READING = ("skip_missing", "include_rejected", "annotator_from", "encoding")
SAID_OTHERWISE = {
    "Pass the folder given to save().": "Pass a folder that `crowdprism aggregate` or `crowdprism train` wrote.",
    "or pass resume=False to start afresh": "or leave out --resume to start afresh",
    "or resume=False to start afresh": "or leave out --resume to start afresh",
    "or pass format= one of": "or pass --to with one of",
    "Read them apart and join with concat.": "Convert each with `crowdprism convert`, then pass the converted files.",
}


def in_options(message: str, options: Iterable[str]) -> str:
    """A message with keywords of Python turned into the options of the command, where it has them.

    Examples
    --------
    >>> in_options("Name it with item=... or pass skip_missing=True, else batch_size=8.", ["item", "reading"])
    'Name it with --item ... or pass --reading skip_missing=yes, else batch_size=8 (in Python).'
    """
    known = set(options)
    for python, here in SAID_OTHERWISE.items():
        message = message.replace(python, here)

    def reworded(found: re.Match[str]) -> str:
        name, value = found.groups()
        if name in known:
            return f"--{name.replace('_', '-')} {value}"
        if name in BY_READING and "reading" in known:
            return f"--reading {name}={'yes' if value == 'True' else value.strip(chr(39) + chr(34))}"
        return f"{found.group()} (in Python)"

    return KEYWORD.sub(reworded, message)


def unknown_option(wrong: str, parameters: Sequence[Any]) -> str:
    """Say that there is no such option, and name the nearest in each of their spellings.

    Parameters
    ----------
    parameters
        Those of the command; each has `opts`, its spellings.
    """
    spellings = {one: parameter.opts for parameter in parameters for one in parameter.opts if one.startswith("-")}
    long = [one for one in spellings if one.startswith("--")]
    plain = f"--{wrong.lstrip('-').replace('_', '-').split('=')[0].lower()}"
    close = [one for one in long if one == plain] or difflib.get_close_matches(plain, long, n=3, cutoff=0.6)
    if len(plain) == 3:
        close = [one for one in long if one[2] == plain[2]][:3]
    if not close:
        return f"There is no option {wrong}."
    named = list(dict.fromkeys(" or ".join(sorted(spellings[one], key=len, reverse=True)) for one in close))
    return f"There is no option {wrong}. Did you mean {'; '.join(named)}?"
