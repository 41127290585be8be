"""The gate from C to Python, and threads that no exception ends.

C reports a refusal by a code (csrc/sd_error.h), and a lack of memory by a null pointer. For an input that its format
forbids, each decoder has faults of its own. Nothing else in strand turns these into exceptions.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.errors import (
    BackpressureError,
    ConfigurationError,
    EngineError,
    FeedError,
    FormatError,
    TruncatedFeedError,
    UnknownSymbolError,
    WouldDeadlockError,
)
from strand.logs import Event
from strand.threads import Bell

NOT_STARTED: Final = "no worker runs: use the dispatcher as a context manager, or call start()"


class Code:
    """The core's result codes."""

    OK: Final[int] = lib.SD_OK
    AGAIN: Final[int] = lib.SD_AGAIN
    NO_MEMORY: Final[int] = lib.SD_E_NO_MEMORY
    ARGUMENT: Final[int] = lib.SD_E_ARGUMENT
    KEY: Final[int] = lib.SD_E_KEY
    FULL: Final[int] = lib.SD_E_FULL
    WOULD_DEADLOCK: Final[int] = lib.SD_E_WOULD_DEADLOCK
    HANDLER: Final[int] = lib.SD_E_HANDLER
    STOPPED: Final[int] = lib.SD_E_STOPPED
    CORRUPT: Final[int] = lib.SD_E_CORRUPT
    FORMAT: Final[int] = lib.SD_E_FORMAT


def text_of(message: Any) -> str:
    """Text that C has written into an array of characters."""
    return str(ffi.string(message).decode(errors="replace"))


def made(pointer: Any, lacking: str, kind: type[Exception] = MemoryError) -> Any:
    """The pointer, unless it is null: then raises ``kind`` with what is ``lacking``."""
    if pointer == ffi.NULL:
        raise kind(lacking)
    return pointer


def refusal(
    code: int,
    otherwise: str,
    kind: type[Exception] = EngineError,
    /,
    *,
    no_memory: str = "",
    corrupt: str = "",
    handler: str = "",
    argument: str = "",
) -> Exception:
    """Returns the exception to raise for a code that is no success.

    ``no_memory``, ``corrupt``, ``handler``, ``argument``: what those codes mean of this call, where it may end with
    them. All other codes mean ``otherwise``, and are of the ``kind`` given: EngineError where the call's arguments are
    strand's own.
    """
    if no_memory and code == Code.NO_MEMORY:
        return MemoryError(no_memory)
    if corrupt and code == Code.CORRUPT:
        return AssertionError(corrupt)
    if handler and code == Code.HANDLER:
        return EngineError(handler)
    if argument and code == Code.ARGUMENT:
        return ConfigurationError("cores", argument)
    return kind(otherwise)


def checked(code: int, otherwise: str, kind: type[Exception] = EngineError, /, **texts: str) -> int:
    """The code where it is a success, or a count. Raises the ``refusal`` of any other."""
    if code < 0:
        raise refusal(code, otherwise, kind, **texts)
    return code


def check_system(code: int, base: int = 0) -> None:
    """Raises OSError for a code that is the negative of ``base`` and an errno together."""
    if code < -base:
        raise OSError(-code - base, os.strerror(-code - base))


def fault_error(
    texts: Mapping[int, str],
    fault: int,
    *,
    cut: int | None = None,
    path: str | Path | None = None,
    offset: int,
    line: int | None = None,
    place: str = "",
    advice: str = "",
) -> FeedError:
    """Returns the exception to raise for a decoder's fault: TruncatedFeedError for the fault ``cut``, else FormatError.

    ``texts``: by fault, what is wrong; ``place`` leads it, and ``advice`` ends that of a FormatError.
    """
    text = place + texts[fault]
    if fault == cut:
        return TruncatedFeedError(text, path=path, offset=offset, line=line)
    return FormatError(text + advice, path=path, offset=offset, line=line)


def key_error(array: npt.NDArray[Any], at: int, *, key: str, symbols: int) -> UnknownSymbolError:
    """Returns the exception to raise for a record without a symbol, after the records before it were published.
    ``key``: the record's field that numbers one of ``symbols``."""
    return UnknownSymbolError(
        f"record {at}: {key} is {array[key][at]}, but there are {symbols} symbols (0 to {symbols - 1}); "
        f"the {at} records before it were published",
        position=at,
    )


def publish_error(
    code: int, array: npt.NDArray[Any], rejected: npt.NDArray[np.int64], *, key: str, symbols: int, started: bool
) -> Exception:
    """Returns the exception to raise for a code of publishing, other than that of a stop. ``rejected``: positions in
    the array. ``key``: the record's field that numbers one of ``symbols``. ``started``: workers run."""
    if code == Code.KEY:
        return key_error(array, int(rejected[0]), key=key, symbols=symbols)
    text = f"{len(rejected)} of {len(array)} records were not accepted, the first at position {rejected[0]}: "
    if code == Code.WOULD_DEADLOCK:
        return WouldDeadlockError(text + "a handler must not wait for room on a full strand", rejected)
    if code in (Code.FULL, Code.AGAIN):
        why = "strands are full, a bound over several strands is reached, or all segments are in use"
        return BackpressureError(text + (why if started else f"{why}, and {NOT_STARTED}"), rejected)
    return EngineError(f"publishing ended with code {code}")


_FAILED: Final = Event("thread.failed", "", "ERROR", "an exception in the thread %(of)s")


class Thread:
    """A daemonic thread that calls ``run``, and calls it again if an exception ends it, until it returns.

    ``PyThreadState_SetAsyncExc`` raises an exception in a thread between any two steps of its Python code. A
    ``threading.Thread`` that it hits before its first line ends there, and its ``start`` waits in vain. This one lives
    in C: ``sd_thread_live`` calls the Python code. No call here is left in disorder by an interrupt. The ``start`` of
    ``threading.Thread`` can turn an interrupt into RuntimeError, or leave a lock taken that the new thread waits for.

    ``run`` may be called again even after it has returned: it has to find out itself that all is done. ``once``: it is
    called once, and the thread ends with it, however it ends; ``start`` returns when the thread has begun.
    """

    def __init__(self, run: Callable[[], object], name: str, *, once: bool = False) -> None:
        self.name = name
        self._once = once
        self._pid = 0
        #: None: it was not started.
        self.ident: int | None = None
        self._native_id: int | None = None
        self._run: Callable[[], object] | None = run
        self._bell = Bell()
        self._is_started = self._is_over = False

    def start(self) -> None:
        """Starts the thread. Raises RuntimeError where the system has no more threads."""
        self._pid = os.getpid()
        for ident in map(start_new_thread, (lib.sd_thread_live,), ((lib.sd_thread_step, ffi.new_handle(self)),)):
            # No interrupt comes between the call and these lines.
            self.ident = ident
            self._is_started = True
            break
        if self._once:
            _ = self.native_id

    @property
    def is_started(self) -> bool:
        """True once the thread was started, even if it has ended."""
        return self._is_started

    @property
    def is_here(self) -> bool:
        """True if the caller runs in this thread."""
        return self.ident == threading.get_ident() and not self._is_over

    @property
    def native_id(self) -> int | None:
        """The number that the system has for the thread: waits until it has begun. None: it was not started."""
        self._bell.wait_for(lambda: self._native_id is not None or not self._is_started)
        return self._native_id

    def is_alive(self) -> bool:
        """True if the thread was started and has not ended. In the child of a fork it is False: threads stay behind."""
        return self._is_started and not self._is_over and self._pid == os.getpid()

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, for so many seconds at most; not at all if it was not started, and in itself."""
        if self.is_alive() and not self.is_here:
            self._bell.wait_for(lambda: self._is_over, timeout)

    def step(self) -> int:
        """In the thread. Returns 1 when all is done; 0: it has to be called again."""
        try:
            if self._native_id is None:
                self._introduce()
            run = self._run
            if self._once:
                self._run = None
            if run is not None:
                run()
            self._run = run = None
            _forget_here()
            self._is_over = True
            self._bell.ring()
            return 1
        except BaseException:
            run = None
            _FAILED(of=self.name, exc_info=True)
            return 0

    def _introduce(self) -> None:
        """Does first what ``threading.Thread`` does first."""
        threading.current_thread().name = self.name  # it enters a thread that it does not know
        if (trace := threading.gettrace()) is not None:
            sys.settrace(trace)
        if (profile := threading.getprofile()) is not None:
            sys.setprofile(profile)
        self._native_id = threading.get_native_id()
        self._bell.ring()


def _forget_here() -> None:
    """Takes the calling thread out of the list of ``threading``, which keeps one that it does not know for ever."""
    active: dict[int, Any] = getattr(threading, "_active", {})
    active.pop(threading.get_ident(), None)


@ffi.def_extern(onerror=lambda *_: None)  # type: ignore[untyped-decorator]
def sd_thread_step(thread: Any) -> int:
    """See ``Thread.step``. An exception before its first line, or in what it says of another one, is not told."""
    return int(ffi.from_handle(thread).step())
