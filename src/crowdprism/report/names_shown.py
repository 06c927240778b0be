"""Names from data, made fit to be looked at: no invisible characters, no endless lines."""

from __future__ import annotations

from crowdprism.annotations.notebook import LONGEST_NAME, visible
from crowdprism.annotations.notebook import display_name as shown_name

__all__ = ["LONGEST_NAME", "shown_name", "visible"]
