"""The part of a dispatcher that drains: threads that live in C, and run the handlers and tasks that are Python's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from traceback import walk_stack, walk_tb
from typing import Any, Final

import numpy as np

from strand.binding.gate import Thread
from strand.binding.tasks import END, FIRST, RECORDS, TASK, WAKE, PyBatches
from strand.dispatch.calls import RunTasks
from strand.dispatch.python_handlers import PythonHandlers
from strand.dispatch.state import RunState
from strand.errors import ConfigurationError
from strand.handlers.failures import failure_of
from strand.tasks.places import Place, Places, Seat, ThreadCounts


def pin_thread(thread: Thread, core: int, *, must: bool) -> OSError | None:
    """Pins a thread that has been started. Returns the system's refusal, or raises ConfigurationError for it where the
    thread ``must`` be pinned."""
    assert thread.native_id is not None
    try:
        os.sched_setaffinity(thread.native_id, {core})
    except ProcessLookupError:  # a stop has ended it already
        return None
    except OSError as error:
        if must:
            raise ConfigurationError(
                "cores",
                f"the system refused to pin a worker to core {core} ({error.strerror}): give other cores, or "
                "leave cores out, and the worker runs unpinned",
            ) from error
        return error
    return None


def pin_here(state: RunState, place: Place, allowed: Sequence[int]) -> None:
    """Pins this thread to the core of the place that it has got, or to none where that has none: the thread may have
    that of the place which it had before. Where the system refuses it now, the place has none any more, which
    statistics say."""
    if place.core is None:
        unpin_here(state, allowed)
    # Workers.pin says the core before it pins the thread. So if it did that in between, the core is seen here.
    core = place.core
    if core is None:
        return
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        place.core = None
        unpin_here(state, allowed)
        assert state.cores is not None
        state.cores = [None if i == place.participant else at for i, at in enumerate(state.cores)]
        state.unpinned = f"worker {place.participant} is not pinned any more: the system refused core {core} ({error})"


def unpin_here(state: RunState, allowed: Sequence[int]) -> None:
    """Lets this thread run on all of ``allowed``: it has no place, or a place without a core."""
    if state.cores is None:
        return
    try:
        os.sched_setaffinity(0, allowed)
    except OSError as error:
        state.unpinned = (
            f"a thread without a core of its own stays pinned: the system refused all other cores ({error})"
        )


class Workers:
    """The threads that drain, one for each place, and spare ones for tasks that wait. They hold no dispatcher: dropping
    that ends them. ``allowed``: the cores of threads that are not pinned."""

    def __init__(
        self,
        state: RunState,
        python: PythonHandlers,
        tasks: RunTasks,
        dtype: np.dtype[Any],
        allowed: Sequence[int],
    ) -> None:
        self._state = state
        self._python = python
        self._dtype = dtype
        self._work = _Work(state, python, tasks, allowed)
        self._places: Places | None = None

    def start(self) -> None:
        """Starts as many as the engine has been made for."""
        self._places = Places(self._state.engine, self._work, dtype=self._dtype)
        self._state.threads = self._places.threads
        self._places.start()

    def pin(self, cores: Sequence[int | None], *, must: bool) -> tuple[list[int | None], OSError | None]:
        """Pins each to its core. Returns the cores that this went well for, None for the others, and the first refusal.

        Raises ConfigurationError for that where they ``must`` be pinned."""
        assert self._places is not None
        pinned: list[int | None] = []
        refused: OSError | None = None
        for place, thread, core in zip(self._places.places, self._places.threads, cores, strict=False):
            assert core is not None
            # Before it is pinned: the thread may be about to see that its place has no core, and to go on with all.
            place.core = core
            error = pin_thread(thread, core, must=must)
            refused = refused or error
            if error is not None:
                place.core = None
            pinned.append(place.core)
        return pinned, refused

    def counts(self) -> ThreadCounts:
        """See ``Dispatcher.thread_counts``."""
        if self._places is None:
            return ThreadCounts(0, self._state.engine.config.n_workers, 0, 0, 0, 0)
        return self._places.counts()

    def join(self) -> None:
        """Waits for the workers' end. An exception of a handler keeps the frames that it came through, and their
        callers' frames. So the workers' frames drop their references, or the run would keep itself alive through its
        failures."""
        if self._places is not None:
            self._places.end()
            self._places.join()
        for cause in chain.from_iterable(self._python.causes):
            trace = list(walk_tb(cause.__traceback__))
            for frame, _ in walk_stack(trace[-1][0]) if trace else ():
                if frame.f_code in _BODIES:
                    with suppress(RuntimeError):  # a thread has told its end, and is about to return from this frame
                        frame.clear()


class _Work:
    """Work of a dispatcher's worker threads. They are inside for all their lives."""

    name: Final = "strand-worker"

    def __init__(self, state: RunState, python: PythonHandlers, tasks: RunTasks, allowed: Sequence[int]) -> None:
        self._state = state
        self._python = python
        self._tasks = tasks
        self._allowed = allowed
        self._inside = state.inside

    def live(self, seat: Seat) -> None:
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            seat.live()
        finally:
            self._inside.threads.remove(me)

    def moved(self, place: Place | None) -> None:
        """A thread without a place may run on all cores. One that has got a place is pinned as that says."""
        if place is None:
            self._python.site.leave()
            unpin_here(self._state, self._allowed)
        else:
            self._python.site.enter(place.participant, place.batches)
            pin_here(self._state, place, self._allowed)

    def serve(self, seat: Seat, place: Place) -> int:
        batches = place.batches
        try:
            if seat.is_cut:
                seat.is_cut = False
                if batches.task:
                    self._tasks.run(batches.task)  # if it has run, this does nothing
            return work(self._python, self._tasks, batches, lambda: seat.place is place)
        except BaseException as error:
            if seat.place is not place or batches.task:
                raise
            # It may have been in the middle of ticks: nothing may wait for what it was to do.
            self._state.broken = self._state.broken or error
            self._state.engine.stop()
            return TASK

    def over(self) -> None:
        # Whoever waits for an answer has to hear that there will be none.
        self._state.engine.tasks.stop()
        self._tasks.end()


def work(
    python: PythonHandlers, tasks: RunTasks, batches: PyBatches, keeps_place: Callable[[], bool] = lambda: True
) -> int:
    """A batch is a strand's, and a strand of a Python handler is one symbol's: what to call is found by the strand.
    ``keeps_place``: whether this thread is still the worker, which it need not be behind a task. Returns what it leaves
    in hand, as ``Work.serve``."""
    calls, bind = python.calls, python.bind
    # This loop lies between two calls of handlers: it has all it needs at hand, and crosses to C once.
    records, words, first, end = batches.records, batches.words, FIRST, END
    cut = np.ndarray.__getitem__  # past what Ticks adds, which slices do not need
    go_on, hand = batches.go_on, batches.hand
    strand = batches.task_done() if batches.task else batches.more()
    while True:
        if strand >= 0:
            ticks = cut(records, slice(words[first], words[end]))
        else:
            what = batches.what
            if what == TASK:
                tasks.run(batches.tag)
                if not keeps_place():
                    return TASK
                # If the task goes on elsewhere there is nothing in hand.
                strand = batches.task_done() if batches.task else batches.more()
                continue
            if what == WAKE:
                strand = _wake(python, batches)
                continue
            if what != RECORDS:
                return what
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
            strand = batches.done(failure.handled, failure)
        else:
            strand = go_on(hand) if handled is None else batches.done(handled)


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


#: Functions on a worker's stack below a handler.
_BODIES: Final = {
    _Work.live.__code__,
    Seat.live.__code__,
    Places.live.__code__,
    Thread.step.__code__,
    _Work.serve.__code__,
    work.__code__,
    _wake.__code__,
    PythonHandlers.bind.__code__,
}
