"""The part of a dispatcher that starts it, stops it, and ends what is left at an exit or after a fork."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections.abc import Callable

from strand.binding.trades import TradeMaker
from strand.clock import Deadline
from strand.dispatch.calls import Calls
from strand.dispatch.configuration import WorkerCores, merging_cores
from strand.dispatch.engine_run import RunEnd
from strand.dispatch.publishers import Publishers
from strand.dispatch.state import RunState
from strand.dispatch.workers import Workers
from strand.errors import SavedStateError, StoppedError, WouldDeadlockError
from strand.handlers.traded import warn_of_unpriced
from strand.threads import WAITS_FOR_ITSELF

__all__ = ["Lifecycle"]

_live: weakref.WeakSet[Lifecycle] = weakref.WeakSet()


class Lifecycle:
    """Life of a dispatcher, which alone holds it: when it goes before a stop, the workers and outputs are ended."""

    def __init__(
        self,
        state: RunState,
        workers: Workers,
        publishers: Publishers,
        calls: Calls,
        end: RunEnd,
        *,
        makers: list[TradeMaker],
        cores: WorkerCores,
    ) -> None:
        self._state = state
        self._workers = workers
        self._publishers = publishers
        self._calls = calls
        self._end = end
        self._makers = makers
        self._cores = cores
        self._engine = state.engine
        self._outputs = state.outputs
        self._inside = state.inside
        self._dropped: weakref.finalize[..., Lifecycle] | None = None
        self._close_lock = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """See ``Dispatcher.start``."""
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            if self._state.closing:
                raise StoppedError("the dispatcher has been stopped: make a new one")
            if not self._state.threads:
                self._begin()
        finally:
            self._inside.threads.remove(me)

    def _begin(self) -> None:
        state = self._state
        try:
            self._outputs.start(self._engine, allowed=merging_cores(self._cores.allowed, state.cores))
            # Its threads hold the engine, and not the dispatcher.
            self._dropped = weakref.finalize(self, _drop, state)
            self._dropped.atexit = False
            _live.add(self)
            self._workers.start()
            if state.cores is not None:
                state.cores, refused = self._workers.pin(state.cores, must=self._cores.are_given)
                if refused is not None:
                    state.unpinned = f"workers are not pinned to cores: the system refused it ({refused.strerror})"
                    # The fourth is who called Dispatcher.start, or entered it.
                    warnings.warn(
                        f"{state.unpinned}; cores=None runs them unpinned without this warning",
                        RuntimeWarning,
                        stacklevel=4,
                    )
            for regular in state.regular:
                regular.start()
        except BaseException:
            # __exit__ runs only after __enter__ has returned, so the stop is done here.
            self._close(drained=False, started=False)
            raise

    def stop(self, *, drain: bool, timeout_s: float | None) -> bool:
        """See ``Dispatcher.stop``."""
        if self._state.forked:
            return False
        if self._inside.here or self._calls.tasks.here:
            if drain:
                raise WouldDeadlockError(f"stop: {WAITS_FOR_ITSELF}: call stop(drain=False), which does not wait")
            self._engine.stop()
            return False
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            return self._stop(drain, timeout_s)
        finally:
            self._inside.threads.remove(me)

    def save(self, write: Callable[[], None]) -> None:
        """See ``Dispatcher.save``. ``write`` writes the file, when all is at rest and before anything ends."""
        if self._state.forked or self._state.closing:
            raise self._state.stopped_error()
        if self._inside.here or self._calls.tasks.here:
            raise WouldDeadlockError(f"save: {WAITS_FOR_ITSELF}: save in the thread that publishes the ticks")
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            self._publishers.drain_inside(None)
            if waiting := self._calls.tasks.waiting:
                raise SavedStateError(f"{waiting:,} tasks have not ended, and tasks are not saved: wait for them first")
            self._end.check_saved()
            self._close(drained=True, save=write)
        finally:
            self._inside.threads.remove(me)
        if self._end.failure is not None:
            raise self._end.failure

    def _stop(self, drain: bool, timeout_s: float | None) -> bool:
        drained = False
        try:
            self._end_regular()
            deadline = Deadline(timeout_s)
            if not self._state.closing and self._calls.tasks.begin_end(drain=drain, timeout_s=timeout_s) and drain:
                drained = self._publishers.drain_inside(deadline.left_s())
        except StoppedError:
            pass  # by a handler, or by another thread
        finally:
            self._close(drained=drained)
        if drain and self._end.failure is not None:
            raise self._end.failure
        makers = self._makers[:]
        self._makers.clear()
        warn_of_unpriced(makers)
        return drained and self._state.abandoned == 0

    def _close(self, *, drained: bool, started: bool = True, save: Callable[[], None] | None = None) -> None:
        state = self._state
        state.closing = True
        self._end_regular()
        self._engine.stop()
        # A handler may wait for an answer in ways that cannot be refused, and its worker for it.
        self._calls.end()
        self._workers.join()
        self._calls.tasks.join()
        # Publishers notice too, but one may be running a handler: rows and books are final when they are out.
        self._publishers.wait_for_others()
        self._engine.tasks.stop()
        with self._close_lock:
            if not self._closed:
                self._closed = True
                _live.discard(self)
                if self._dropped is not None:
                    self._dropped.detach()
                self._end.close(drained=drained, started=started, save=save)
        self._calls.end()

    def _end_regular(self) -> None:
        """Releases the strands that a guard holds back, and makes all workers active. The regular threads may be
        running, or may have ended."""
        for regular in self._state.regular:
            regular.end()

    def forget(self) -> None:
        """Forgets the threads in the child of a fork: they stay behind, and a wait for one would have no end."""
        self._state.forked = self._state.closing = True
        if self._dropped is not None:
            self._dropped.detach()
        self._outputs.forget()


def _drop(state: RunState) -> None:
    """Nothing refers to a dispatcher that was not stopped. May run anywhere: it waits for nobody."""
    state.dropped = True
    state.engine.stop()
    for regular in state.regular:
        regular.tell_to_end()
    state.outputs.abandon()
    warnings.warn(
        "a Dispatcher was deleted before it was stopped: call stop(), or use it in a with block",
        ResourceWarning,
        stacklevel=2,
    )


def _stop_all() -> None:
    for lifecycle in list(_live):
        lifecycle.stop(drain=False, timeout_s=None)


def _forget_all() -> None:
    for lifecycle in list(_live):
        lifecycle.forget()
    _live.clear()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forget_all)
