"""A test's body in a process of its own, which ends in a bounded time and shows its stacks where it hangs."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable

import pytest

__all__ = ["in_bounded_child"]

#: So long a child that was asked for its stacks has to write them.
_GRACE_S = 2.0


def in_bounded_child(run: Callable[[], object], bound_s: float = 120) -> None:
    """Calls ``run`` in a child of a fork, whose main thread the caller's is. Fails the test where that raises, leaves
    threads behind, or has not ended after ``bound_s``: then it shows what all threads did."""
    # No thread begins or ends around the fork: the address sanitizer takes locks of its own where one does, and a child
    # that inherits a taken one hangs. So a signal asks for the stacks, and not the watchdog of faulthandler, a thread.
    with tempfile.TemporaryFile("w+") as said:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                faulthandler.register(signal.SIGQUIT, file=said)
                # What the tests before have left is large, and each later collection would go through it. What it ends
                # may not end in a child, either, as clients with threads.
                gc.freeze()
                before = set(threading.enumerate())
                run()
                assert set(threading.enumerate()) <= before, threading.enumerate()
                code = 0
            except BaseException:
                traceback.print_exc(file=said)
                said.flush()
            finally:
                os._exit(code)
        status = _ended(pid, bound_s)
        if status is None:
            os.kill(pid, signal.SIGQUIT)
            status = _ended(pid, _GRACE_S)
        if status is None:
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
        if status:
            said.seek(0)
            text = said.read()
            sys.stderr.write(text)
            pytest.fail(f"exit status {os.waitstatus_to_exitcode(status)} of the child\n{text}", pytrace=False)


def _ended(pid: int, wait_s: float) -> int | None:
    """The status of the child, or None where it has not ended after that time."""
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.002)
    return None
