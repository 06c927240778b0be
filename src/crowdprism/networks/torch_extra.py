"""Imported first by every room that needs torch: says how to install it where it is missing."""

from __future__ import annotations

from importlib.util import find_spec

from crowdprism.errors import MissingDependencyError

if find_spec("torch") is None:
    raise MissingDependencyError('Classifiers need torch, which is not installed: pip install "crowdprism[train]".')
