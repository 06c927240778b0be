"""Run work in a fork and kill it with SIGKILL: before its n-th call that changes files, or after a while."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink", "os.chmod"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def killed_before(call: int, work: Callable[[], object]) -> bool:
    """Tell whether the work was killed before it made that many calls; False if it ended by itself, without error.

    Python tells an audit hook of every call on files before it is made; files opened only for reading do not count.
    """
    child = os.fork()
    if child == 0:
        count = 0

        def kill_in_time(event: str, given: tuple[object, ...]) -> None:
            nonlocal count
            writes = event == "open" and isinstance(given[2], int) and given[2] & WRITING
            if event in CHANGES or writes:
                count += 1
                if count == call:
                    os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            sys.addaudithook(kill_in_time)
            work()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, f"the work failed before call {call}"
    return False


def killed_after(seconds: float, work: Callable[[], object]) -> bool:
    """Tell whether the work was killed after a while; False if it had ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])
