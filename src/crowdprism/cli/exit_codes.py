"""What a command tells the shell that called it."""

from __future__ import annotations

DONE = 0
OUR_MISTAKE = 1  # Python's own code for an error that nobody caught
BAD_INPUT = 2
INTERRUPTED = 130  # as shells have it: 128 and the number of the signal
