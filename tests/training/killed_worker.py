"""`crowdprism train` in which the second process is lost after the first epoch, once."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from crowdprism.cli import main
from crowdprism.training.loop import Trainer

one_epoch = Trainer._one_epoch


def lose_second(self: Any, bar: Any) -> None:
    one_epoch(self, bar)
    if self.processes.rank == 1 and not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


Trainer._one_epoch = lose_second
if __name__ == "__main__":
    sys.exit(main())
