"""The command line: parse, dispatch, exit codes. Run `crowdprism --help`.

Exit codes: 0 done; 1 a mistake of ours (please report it); 2 wrong usage or bad input, nothing was written;
130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import sys

BAD_INPUT = 2
INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    import warnings

    from crowdprism.cli.app import app
    from crowdprism.cli.screen import say_error, say_warning
    from crowdprism.errors import CrowdprismError

    warnings.showwarning = say_warning
    try:
        app()
    except CrowdprismError as error:
        say_error(str(error))
        sys.exit(BAD_INPUT)
    except OSError as error:
        say_error(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        say_error("interrupted; nothing was written")
        sys.exit(INTERRUPTED)
