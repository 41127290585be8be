"""Ctrl-C at every point of an operation where Python can raise KeyboardInterrupt, one after the other."""

from __future__ import annotations

import ctypes
import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from engine_support import open_files, system_threads, wait_for_threads

__all__ = [
    "APART",
    "Interrupted",
    "Interrupter",
    "at_each_point",
    "at_random",
    "free",
    "interrupter",
    "many_interrupts",
]

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
        self._library.interrupt_points_call.argtypes = (ctypes.c_void_p,)
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

    def run_with(self, handler: Callable[[], Any], operation: Callable[[], Any], place: int) -> bool:
        """Calls the operation, and at that point of it the handler. Returns whether it had so many points."""
        self._library.interrupt_points_call(id(handler))
        try:
            return self.run(operation, place)[1] >= place
        finally:
            self._library.interrupt_points_call(None)

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


#: How many points lie between an interrupt and the next one; 0: there is one alone.
APART: Final[dict[str, Callable[[random.Random], int]]] = {
    "one": lambda _: 0,
    "two in a row": lambda _: 1,
    "two": lambda generator: generator.randrange(2, 30),
}
#: A point that no operation has.
NEVER: Final = 10**9
#: An operation, and what looks afterwards whether all is whole.
Prepared = tuple[Callable[[], Any], Callable[[], Any]]


#: At so few points of an operation, or fewer, it is interrupted at all of them.
_FEW: Final = 8


def at_each_point(prepare: Callable[[], Prepared], apart: str, one_in: int = 1) -> None:
    """Prepares an operation anew for each of its points, and interrupts it there. ``one_in``: only at one in so many,
    which are drawn with a seed of their own for each distance."""
    generator = random.Random(f"{apart} {one_in}")

    def interrupt(place: int) -> int:
        operation, check = prepare()
        again = APART[apart](generator)
        points = interrupter().run(operation, place, place + again if again else 0)[1]
        try:
            check()
        except BaseException as error:
            error.add_note(f"behind interrupts at the points {place} and {place + again} of {points}")
            raise
        return points

    with interrupter().installed():
        points = interrupt(NEVER)
        assert points > 5
        if one_in > 1:
            for place in sorted(generator.sample(range(1, points + 1), min(points, max(_FEW, points // one_in)))):
                interrupt(place)
        else:
            place = 1
            while interrupt(place) >= place:
                place += 1


class Interrupted:
    """An operation, what this process has open before it, and the ``partial`` of each interrupt that came out of it."""

    def __init__(self, operation: Callable[[], Any]) -> None:
        self.operation = operation
        self.partial: list[Any] = []
        self._threads, self._open = system_threads(), open_files()

    def run(self) -> None:
        try:
            self.operation()
        except KeyboardInterrupt as error:
            if (found := getattr(error, "partial", None)) is not None:
                self.partial.append(found)
            raise

    def check_nothing_is_open(self) -> None:
        wait_for_threads(self._threads)
        # The garbage collector may have closed some of an earlier test.
        assert not Counter(open_files()) - Counter(self._open)


def at_random(prepare: Callable[[], Prepared], *, interrupts: int, longest_s: float) -> None:
    """Interrupts so many operations by a signal from another thread, at random times up to ``longest_s`` behind the
    beginning; about every other one by a second signal at once behind the first. An operation is repeated until
    then."""
    generator, main = random.Random(8), threading.main_thread().ident
    assert main is not None
    left = got = 0
    sent: list[bool] = []

    def handle(*_: object) -> None:
        nonlocal left, got
        if left:
            left, got = left - 1, got + 1
            raise KeyboardInterrupt

    def send(wait_s: float, twice: bool) -> None:
        time.sleep(wait_s)
        for _ in range(1 + twice):
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0)
        sent.append(True)

    before, hook = signal.signal(signal.SIGINT, handle), sys.unraisablehook
    sys.unraisablehook = deque[Any](maxlen=0).append  # of interrupts that Python swallows
    try:
        while got < interrupts:
            operation, check = prepare()
            twice = generator.random() < 0.5
            thread = threading.Thread(target=send, args=(generator.uniform(0, longest_s), twice))
            thread.start()
            try:
                left = 1 + twice
                while not sent:
                    operation()
                left = 0
            except KeyboardInterrupt:
                left = 0
            thread.join()
            sent.clear()
            check()
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, before)


@contextmanager
def many_interrupts(every_s: float) -> Iterator[None]:
    """Another process sends SIGINT to this one all the time. Its handler may be interrupted by the next one, which a
    thread of this process could not send while the handler has the GIL."""
    me, pid = os.getpid(), os.fork()
    if not pid:
        while os.getppid() == me:
            os.kill(me, signal.SIGINT)
            until = time.monotonic() + every_s
            while time.monotonic() < until:
                pass
        os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def free(lock: Any) -> bool:
    """Tells whether another thread can take the lock."""
    found: list[bool] = []

    def look() -> None:
        found.append(lock.acquire(blocking=False))
        if found[0]:
            lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found[0]
