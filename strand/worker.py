"""Worker threads: what each does, which is to live in C and run the handlers that are Python's, and how they end."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from strand._bindings.claims import END, FIRST, RECORDS, TASK, WAKE, Claims
from strand._bindings.engine import Engine
from strand.calls import Calls
from strand.errors import ConfigurationError
from strand.failures import failure_of
from strand.python_handlers import PythonHandlers
from strand.threads import Inside, join

if TYPE_CHECKING:
    from strand.dispatcher import Dispatcher

__all__ = ["Workers"]


class WorkerContext(NamedTuple):
    """What a worker works with."""

    engine: Engine
    python: PythonHandlers
    dtype: np.dtype[Any]
    asked: Calls


class Workers:
    """The threads that drain, ``threads`` once they are started; ``broken``: what ended one otherwise than a stop.
    ``inside``: they are, all their lives."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self.threads: list[threading.Thread] = []
        self.broken: BaseException | None = None
        self._at_work = 0
        self._lock = threading.Lock()

    def start(self, dispatcher: Dispatcher, n: int) -> None:
        """Starts ``n`` of them."""
        self._at_work = n
        for slot in range(n):
            # Who drops the dispatcher ends the thread, which holds only what it works with.
            own = WorkerContext(dispatcher._engine, dispatcher._python, dispatcher._reader.dtype, dispatcher._asked)
            args = (own, weakref.ref(dispatcher), slot)
            thread = threading.Thread(target=self._run, args=args, name=f"strand-worker-{slot}", daemon=True)
            self.threads.append(thread)
            thread.start()

    def pin(self, cores: Sequence[int | None], *, must: bool) -> tuple[list[int | None], OSError | None]:
        """Pins each to its core. Returns the cores that this went well for, None for the others, and the first refusal.

        Raises ConfigurationError for that where they ``must`` be pinned."""
        pinned: list[int | None] = []
        refused: OSError | None = None
        for thread, core in zip(self.threads, cores, strict=True):
            assert thread.native_id is not None
            assert core is not None
            try:
                os.sched_setaffinity(thread.native_id, {core})
            except ProcessLookupError:  # a stop has ended it already
                pinned.append(core)
            except OSError as error:
                if must:
                    raise ConfigurationError(
                        f"cores: the system refused to pin a worker to core {core} ({error.strerror}): name others, or "
                        "leave the option out to run unpinned where that is so"
                    ) from error
                pinned.append(None)
                refused = refused or error
            else:
                pinned.append(core)
        return pinned, refused

    def join(self) -> None:
        for thread in self.threads:
            join(thread)

    def _run(self, own: WorkerContext, dispatcher: weakref.ref[Dispatcher], slot: int) -> None:
        """The body of worker ``slot``, until the dispatcher stops."""
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            _work(own, dispatcher, slot)
        except BaseException as error:
            # Nothing may wait for what it was to do.
            self.broken = self.broken or error
            own.engine.stop()
        finally:
            with self._lock:
                self._at_work -= 1
                last = self._at_work == 0
            if last:
                # Who waits for an answer has to hear that there will be none.
                own.asked.end(dispatcher())
            self._inside.threads.remove(me)


def _work(own: WorkerContext, dispatcher: weakref.ref[Dispatcher], slot: int) -> None:
    """A claim is a strand's, and a strand of a Python handler is one symbol's: what to call is found by the strand."""
    python = own.python
    claims = own.engine.claims(slot, own.dtype)
    python.enter(slot, claims)
    calls, bind = python.calls, python.bind
    # What lies between two calls of handlers is this loop: it has all it needs at hand, and crosses to C once.
    records, words, first, end = claims.records, claims.words, FIRST, END
    cut = np.ndarray.__getitem__  # past what Ticks adds, which slices do not need
    go_on, hand = claims.go_on, claims.hand
    strand = claims.more()
    while True:
        if strand >= 0:
            ticks = cut(records, slice(words[first], words[end]))
        else:
            what = claims.what
            if what == TASK:
                own.asked.run(dispatcher(), claims.task)
                strand = claims.task_done()
                continue
            if what == WAKE:
                strand = _wake(python, claims)
                continue
            if what != RECORDS:
                return
            strand, ticks = claims.take()
        try:
            call, symbol, row = calls[strand] or bind(strand)
            handled = None
            if symbol is None:
                handled = call(ticks)
            else:
                call(symbol, ticks, row)
        except BaseException as error:
            failure = failure_of(error)
            python.keep_cause(failure)
            strand = claims.failed(failure)
        else:
            strand = go_on(hand) if handled is None else claims.stopped(handled)


def _wake(python: PythonHandlers, claims: Claims) -> int:
    """Runs the timer in hand: the next strand, as ``Claims.more``."""
    strand, time = claims.wake()
    host = python.hosts[strand]
    try:
        wish = host.wake(time)
    except BaseException as error:
        failure = failure_of(error)
        python.keep_cause(failure)
        return claims.wake_done(host.wish, failure)
    return claims.wake_done(wish)
