"""The command line. Run `crowdprism --help`.

Exit codes: 0 success; 1 internal error (please report it); 2 wrong usage or bad input, nothing was written; 3 the run
was written without its report; 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import sys

from crowdprism.cli.screen import BAD_INPUT, INTERRUPTED, NOTHING_KEPT, make_output_printable, print_interrupted

__all__ = ["BAD_INPUT", "INTERRUPTED", "main"]


def main() -> None:
    """Run the command line and exit."""
    make_output_printable()
    try:
        from crowdprism.cli.app import run  # here, because Ctrl-C can also come while the commands are loaded

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        print_interrupted(NOTHING_KEPT)
        code = INTERRUPTED
    sys.exit(code)
