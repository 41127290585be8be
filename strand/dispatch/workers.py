"""The part of a dispatcher that drains: threads that live in C, and run the handlers that are Python's."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import chain
from traceback import walk_stack, walk_tb
from typing import Any, Final

import numpy as np

from strand.binding.py_batches import END, FIRST, RECORDS, TASK, WAKE, PyBatches
from strand.dispatch.calls import Calls
from strand.dispatch.python_handlers import PythonHandlers
from strand.dispatch.state import RunState
from strand.errors import ConfigurationError
from strand.handlers.failures import failure_of
from strand.tasks.places import say_drains
from strand.threads import join

__all__ = ["Workers", "work"]


class Workers:
    """The threads that drain. They are inside, all their lives, and hold no dispatcher: dropping that ends them."""

    def __init__(self, state: RunState, python: PythonHandlers, calls: Calls, dtype: np.dtype[Any]) -> None:
        self._state = state
        self._python = python
        self._calls = calls
        self._dtype = dtype
        self._inside = state.inside
        self._running = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        """Starts as many as the engine has been made for."""
        n = self._running = self._state.engine.config.n_workers
        for participant in range(n):
            thread = threading.Thread(
                target=self._run, args=(participant,), name=f"strand-worker-{participant}", daemon=True
            )
            self._state.threads.append(thread)
            thread.start()

    def pin(self, cores: Sequence[int | None], *, must: bool) -> tuple[list[int | None], OSError | None]:
        """Pins each to its core. Returns the cores that this went well for, None for the others, and the first refusal.

        Raises ConfigurationError for that where they ``must`` be pinned."""
        pinned: list[int | None] = []
        refused: OSError | None = None
        for thread, core in zip(self._state.threads, cores, strict=True):
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
        """Waits for their end. An exception of a handler keeps the frames it came through, and those that called them:
        what the workers' own frames refer to is let go of, or the run would keep itself through its failures."""
        for thread in self._state.threads:
            join(thread)
        for cause in chain.from_iterable(self._python.causes):
            trace = list(walk_tb(cause.__traceback__))
            for frame, _ in walk_stack(trace[-1][0]) if trace else ():
                if frame.f_code in _BODIES:
                    frame.clear()

    def _run(self, participant: int) -> None:
        """The body of worker ``participant``, until the dispatcher stops."""
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            say_drains()
            work(self._state, self._python, self._calls, self._dtype, participant)
        except BaseException as error:
            # Nothing may wait for what it was to do.
            self._state.broken = self._state.broken or error
            self._state.engine.stop()
        finally:
            with self._lock:
                self._running -= 1
                last = self._running == 0
            if last:
                # Whoever waits for an answer has to hear that there will be none.
                self._state.engine.tasks.stop()
                self._calls.end()
            self._inside.threads.remove(me)


def work(state: RunState, python: PythonHandlers, asked: Calls, dtype: np.dtype[Any], participant: int) -> None:
    """A batch is a strand's, and a strand of a Python handler is one symbol's: what to call is found by the strand."""
    batches = state.engine.batches(participant, dtype)
    python.site.enter(participant, batches)
    calls, bind = python.calls, python.bind
    # What lies between two calls of handlers is this loop: it has all it needs at hand, and crosses to C once.
    records, words, first, end = batches.records, batches.words, FIRST, END
    cut = np.ndarray.__getitem__  # past what Ticks adds, which slices do not need
    go_on, hand = batches.go_on, batches.hand
    strand = batches.more()
    while True:
        if strand >= 0:
            ticks = cut(records, slice(words[first], words[end]))
        else:
            what = batches.what
            if what == TASK:
                asked.run(batches.task)
                strand = batches.task_done()
                continue
            if what == WAKE:
                strand = _wake(python, batches)
                continue
            if what != RECORDS:
                return
            strand, ticks = batches.take()
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
            strand = batches.failed(failure)
        else:
            strand = go_on(hand) if handled is None else batches.stopped(handled)


def _wake(python: PythonHandlers, batches: PyBatches) -> int:
    """Runs the timer in hand: the next strand, as ``PyBatches.more``."""
    strand, time = batches.wake()
    host = python.hosts[strand]
    try:
        alarm = host.wake(time)
    except BaseException as error:
        failure = failure_of(error)
        python.keep_cause(failure)
        return batches.wake_done(host.alarm, failure)
    return batches.wake_done(alarm)


#: What is on a worker's stack below a handler.
_BODIES: Final = {Workers._run.__code__, work.__code__, _wake.__code__, PythonHandlers.bind.__code__}
