"""Where data sets are looked for: the user's data folder, then the cache of what was fetched."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DATA_VARIABLE = "CROWDPRISM_DATA"
CACHE_VARIABLE = "CROWDPRISM_CACHE"


def data_folder() -> Path | None:
    """The folder that `CROWDPRISM_DATA` names, or None where it is not set."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """The folder for fetched files: `CROWDPRISM_CACHE`, else the platform's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "crowdprism" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "crowdprism"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crowdprism"
