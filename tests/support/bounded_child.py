"""A test's body in a process of its own, which ends in a bounded time and shows its stacks where it hangs."""

from __future__ import annotations

import faulthandler
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

#: How much longer than its bound the parent waits before it kills the child.
_GRACE_S = 5.0


def in_bounded_child(run: Callable[[], object], bound_s: float = 60) -> None:
    """Calls ``run`` in a child of a fork, whose main thread the caller's is. Fails the test where that raises, leaves
    threads behind, or has not ended after ``bound_s``: then it shows what all threads did."""
    with tempfile.TemporaryFile("w+") as said:
        # The thread of pytest's own timeout is not in the child, which would wait for it here. This bound is shorter.
        faulthandler.cancel_dump_traceback_later()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                faulthandler.dump_traceback_later(bound_s, exit=True, file=said)
                before = threading.active_count()
                run()
                assert threading.active_count() == before, threading.enumerate()
                code = 0
            except BaseException:
                traceback.print_exc(file=said)
                said.flush()
            finally:
                os._exit(code)
        until, status = time.monotonic() + bound_s + _GRACE_S, 0
        while time.monotonic() < until:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.002)
        else:
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
        said.seek(0)
        if status:
            text = said.read()
            sys.stderr.write(text)
            pytest.fail(f"exit status {os.waitstatus_to_exitcode(status)} of the child\n{text}", pytrace=False)
