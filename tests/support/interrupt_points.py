"""Ctrl-C at every point of an operation where Python can raise KeyboardInterrupt, one after the other."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["Interrupter", "interrupter"]

_SOURCE: Final = Path(__file__).parent / "interrupt_points.c"


class Interrupter:
    """Raises KeyboardInterrupt at chosen points of what the main thread runs.

    CPython calls handlers of signals between bytecodes: where a function begins, a loop goes round, or a call returns.
    The handler here asks for the next call of itself each time, so it sees all of these points.
    """

    def __init__(self) -> None:
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            pytest.skip("there is no C compiler")
        with tempfile.TemporaryDirectory() as folder:
            built = Path(folder) / "interrupt_points.so"
            subprocess.run([compiler, "-shared", "-fPIC", "-o", built, _SOURCE], check=True)
            self._library = ctypes.PyDLL(str(built))
        self._library.interrupt_points_handle.argtypes = (ctypes.c_int, ctypes.py_object)
        self._library.interrupt_points_arm.argtypes = (ctypes.c_long, ctypes.c_long)
        self._library.interrupt_points_disarm.restype = ctypes.c_long

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The handler is that of SIGINT in the block."""
        assert threading.current_thread() is threading.main_thread()
        before, hook = signal.signal(signal.SIGINT, self._library.interrupt_points_handle), sys.unraisablehook
        # Python swallows an interrupt in a callback of a weak reference, and one in what tells of it would be an error.
        sys.unraisablehook = deque(maxlen=0).append
        try:
            yield
        finally:
            sys.unraisablehook = hook
            signal.signal(signal.SIGINT, before)

    def arm(self, first: int) -> None:
        """Raises an interrupt at the first, second or later point from here on."""
        self._library.interrupt_points_arm(first, 0)

    def disarm(self) -> None:
        """No further interrupts."""
        self._library.interrupt_points_disarm()

    def run(self, operation: Callable[[], Any], first: int, second: int = 0) -> tuple[bool, int]:
        """Calls the operation. Returns whether an interrupt came out of it, and how many points it had."""
        interrupted, arm, disarm = False, self._library.interrupt_points_arm, self._library.interrupt_points_disarm
        passed = 0
        try:
            try:
                arm(first, second)
                operation()
            finally:
                passed = disarm()
        except KeyboardInterrupt:
            interrupted = True
        return interrupted, passed


@functools.cache
def interrupter() -> Interrupter:
    return Interrupter()
