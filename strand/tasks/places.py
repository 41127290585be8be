"""The places of a scheduler or dispatcher, each of which one thread has at a time, and the threads that wait for one.

A place is a worker of the engine, with its list, its counters and what it has in hand. As many threads work as there
are places, whatever tasks do. A task that waits gives its place to a *spare* thread, and its own thread sleeps.

- ``checkpoint`` lists the task as suspended. The worker that takes it from the policy's lists hands its place to the
  thread that sleeps, and becomes a spare itself.
- ``blocking`` lists the task only when the block is over. Until then the thread runs without a place.

A thread sleeps on a lock of its own, which whoever gives it a place releases. The place is written before that, so a
thread may be given one before it sleeps: the lock is free then, and the thread does not sleep at all. It takes the lock
all the same, because a lock that stays free would end its next sleep. A thread says that it has no place before others
can know of it, so a place that it is given is never overwritten.

``tests/model/spin/places.pml`` is a model of this, with an end at any time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from strand.binding.engine import Engine
from strand.binding.py_batches import RESUME
from strand.errors import StoppedError, WouldDeadlockError
from strand.tasks.turns import ENDED, EngineTurn, Held
from strand.tasks.waits import Waiter, begin_wait, end_wait
from strand.tasks.work import Place, ThreadCounts, Work
from strand.threads import join, sleep_exactly
from strand.ticks import TICK

__all__ = ["MAX_THREADS", "Guarding", "Places", "Seat", "seat_here"]

#: Default of the largest number of threads.
MAX_THREADS: Final = 256
_STOPPED: Final = "the workers have stopped, and the task cannot go on"
#: Intervals at which a thread asks whether it should let others go, and gives up the GIL.
_ASK_NS: Final = 100_000
_GIL_NS: Final = 1_000_000

_here = threading.local()
_log = logging.getLogger(__package__)


class Guarding(Protocol):
    """A thread that holds tasks back at times, until it ends."""

    def start(self) -> None: ...
    def tell_to_end(self) -> None: ...
    def end(self) -> None: ...


class Seat:
    """A thread that runs tasks, and its place while it has one. ``call``: what runs here of ``submit_call``, if
    something does."""

    __slots__ = ("_ask_ns", "_gil_ns", "_places", "_wake", "call", "depth", "has_begun", "place")

    def __init__(self, places: Places, place: Place | None) -> None:
        self.place = place
        self.call: Waiter | None = None
        #: Number of blocks that the thread is in, one within another.
        self.depth = 0
        #: True once it has taken its lock for the first time.
        self.has_begun = False
        self._places = places
        self._wake = threading.Lock()
        if place is None:
            self._wake.acquire()
        self._ask_ns = self._gil_ns = 0

    def give(self, place: Place | None) -> None:
        """Wakes this thread, with a place, or without one at the end. Called by another thread."""
        self.place = place
        self._wake.release()

    def sleep(self) -> None:
        """Sleeps until a place is given, or the end has come."""
        self._wake.acquire()

    def forget_wake(self) -> None:
        """Takes the lock if an exception came before the sleep that takes it. Called by the thread, which has a
        place."""
        self._wake.acquire(False)

    def live(self) -> None:
        """See ``Sitting``."""
        _here.seat = self
        self._places.live(self)

    def checkpoint(self) -> None:
        """Lets other tasks go, where it should. Raises StoppedError where the workers have stopped, or do so: a task
        that goes on until it is told to end must notice a stop, with a place or without one."""
        if self.depth:
            return
        place = self.place
        if place is None:
            raise StoppedError(_STOPPED)
        now = time.monotonic_ns()
        if now < self._ask_ns:
            return
        if self._places.stopping:
            raise StoppedError(_STOPPED)
        if place.should_yield():
            self._places.suspend(self, place)
            now = time.monotonic_ns()
            self._gil_ns = now + _GIL_NS
        elif now >= self._gil_ns:
            if not self._gil_ns:
                sleep_exactly()
            time.sleep(0)
            now = time.monotonic_ns()
            self._gil_ns = now + _GIL_NS
        self._ask_ns = now + _ASK_NS

    def may_go_on(self) -> bool:
        """True if the current task has ended in its own thread, and the policy has no work that comes first."""
        place = self.place
        return place is not None and not self.depth and not place.should_yield()

    def hold(self) -> EngineTurn:
        """Lets the current task go on outside these threads, so that this thread may run others. Returns the task's
        turn."""
        assert self.place is not None
        return self._places.held.take(self.place)

    def enter_block(self) -> None:
        """The thread gives its place away. Raises WouldDeadlockError where no thread can take it, and in a handler, and
        StoppedError where the workers have stopped."""
        if not self.depth:
            self.check_not_in_handler()
            self._places.go_away(self)
        self.depth += 1

    def leave_block(self) -> None:
        """The thread waits for a place. Raises StoppedError where the workers have stopped."""
        self.depth -= 1
        if not self.depth:
            self._places.come_back(self)

    def wait(self, me: Waiter, target: Waiter, wait: Callable[[], Any]) -> Any:
        """Returns the result of ``wait``, which is called in a block. ``me`` runs here and waits for ``target``. Raises
        WouldDeadlockError where the target waits for ``me``, and as ``enter_block``."""
        begin_wait(me, target)
        try:
            self.enter_block()
            try:
                return wait()
            finally:
                self.leave_block()
        finally:
            end_wait(me)

    def check_not_in_handler(self) -> None:
        """Raises WouldDeadlockError where the thread has ticks in hand, or a timer."""
        if self.place is not None and not self.place.batches.task:
            raise WouldDeadlockError(
                "a handler cannot wait, because its ticks may be in its worker's memory: wait in a "
                "task (dispatcher.tasks, strand.Scheduler) or in a call (submit_call)"
            )


def seat_here() -> Seat | None:
    """Seat of this thread, if the thread runs tasks."""
    found: Seat | None = getattr(_here, "seat", None)
    return found


class Places:
    """The places of an engine, and their threads. ``work``: what the threads do. They hold it, and with it what it
    belongs to. ``max_threads``: how many there may be, but never fewer than places. ``guarding``: what holds tasks
    back; None: nothing does. ``dtype``: of records."""

    def __init__(
        self,
        engine: Engine,
        work: Work,
        max_threads: int = MAX_THREADS,
        guarding: Guarding | None = None,
        dtype: np.dtype[Any] = TICK,
    ) -> None:
        self._engine = engine
        self._guarding = guarding
        self._work = work
        self._lock = threading.Lock()
        self._most = max(max_threads, engine.n_workers)
        self.threads: list[threading.Thread] = []
        #: The one that slept last is woken first.
        self._spares: list[Seat] = []
        #: By the tags of their tasks.
        self._suspended: dict[int, Seat] = {}
        #: Places that threads in a block came from, and their tasks' tags and entries.
        self._blocked: dict[Seat, tuple[Place, int, int]] = {}
        self.held = Held()
        self._suspensions = self._refused = 0
        self._ended = False
        self.places = [Place(engine, participant, dtype) for participant in range(engine.n_workers)]
        #: Places that no thread has given up yet.
        self._in_use = len(self.places)
        for place in self.places:
            self._new_thread(place)

    def start(self) -> None:
        if self._guarding is not None:
            self._guarding.start()
        for thread in self.threads[: len(self.places)]:
            thread.start()

    @property
    def stopping(self) -> bool:
        """True if the workers were told to stop."""
        return self._engine.stopping

    def let_go(self) -> None:
        """Nothing is held back any more."""
        if self._guarding is not None:
            self._guarding.tell_to_end()

    def counts(self) -> ThreadCounts:
        with self._lock:
            return ThreadCounts(
                threads=len(self.threads),
                places=len(self.places),
                suspended=len(self._suspended),
                blocked=len(self._blocked),
                suspensions=self._suspensions,
                refused=self._refused,
            )

    # -- by a thread of its own

    def live(self, me: Seat) -> None:
        """See ``Seat.live``."""
        try:
            while True:
                try:
                    if self._live(me):
                        return
                except BaseException:
                    # It is none of a task: one that a debugger or another thread has raised here.
                    if self.stopping:
                        raise
                    _log.exception("an exception in a worker, outside of its tasks")
        finally:
            if me.place is not None:
                self._give_up()

    def _live(self, me: Seat) -> bool:
        """Runs a thread with one place. Returns True if that was all. An exception may end it anywhere; the thread then
        goes on with its present place, or waits for one."""
        if me.place is None or not me.has_begun:
            me.sleep()
            me.has_begun = True
        place = me.place
        if place is None:
            return True
        self._work.moved(place)
        if self._work.serve(me, place) == RESUME:
            return not self._hand_over(me, place)
        return me.place is place or me.place is None

    def suspend(self, me: Seat, place: Place) -> None:
        """The task in hand waits until a worker takes it, and another thread has the place. Does nothing where there is
        no thread for that. Raises StoppedError where the workers have stopped."""
        spare = self._spare()
        if spare is not None:
            self._leave(me, place, spare, away=False)
            self._wait(me)

    def go_away(self, me: Seat) -> None:
        """See ``Seat.enter_block``."""
        place = me.place
        if place is None:
            raise StoppedError(_STOPPED)
        spare = self._spare()
        if spare is None:
            raise WouldDeadlockError(
                f"all {self._most:,} threads wait (max_threads), and if this one waits too, none is left for other "
                "tasks: let fewer tasks wait at a time, or raise max_threads of a strand.Scheduler"
            )
        self._leave(me, place, spare, away=True)
        self._work.moved(None)

    def come_back(self, me: Seat) -> None:
        """See ``Seat.leave_block``."""
        with self._lock:
            came_from = self._blocked.pop(me, None)
            if self._ended or came_from is None:
                raise StoppedError(_STOPPED)
            place, tag, entry = came_from
            self._suspended[tag] = me
        if not place.batches.come_back(entry):
            with self._lock:
                self._suspended.pop(tag, None)
            raise StoppedError(_STOPPED)
        self._wait(me)

    def _leave(self, me: Seat, place: Place, spare: Seat, *, away: bool) -> None:
        """Lists the task in hand, and then gives the place to another thread: whoever lists is the worker, which only
        one thread may be. Raises StoppedError where the end has come, which told neither of the two threads."""
        batches = place.batches
        with self._lock:
            ended = self._ended
            if not ended:
                self._suspensions += 1
                if away:
                    self._blocked[me] = (place, batches.task, batches.entry)
                else:
                    self._suspended[batches.task] = me
        if ended:
            spare.give(None)
            raise StoppedError(_STOPPED)
        me.place = None
        if not batches.suspend(away=away):
            self._take_back(me, place)
            spare.give(None)
            raise RuntimeError(ENDED)
        spare.give(place)

    def _take_back(self, me: Seat, place: Place) -> None:
        """The engine has not taken the task: the thread keeps its place, as if it had not asked."""
        with self._lock:
            self._suspensions -= 1
            away = self._blocked.pop(me, None) is not None
            told = not away and self._suspended.pop(place.batches.task, None) is None
        if told:  # by the end, which has taken it for a thread that sleeps
            me.sleep()
        me.place = place

    def _wait(self, me: Seat) -> None:
        me.sleep()
        place = me.place
        self._work.moved(place)
        if place is None:
            raise StoppedError(_STOPPED)
        place.batches.resumed()

    def _hand_over(self, me: Seat, place: Place) -> bool:
        """Hands over a suspended task: the task's thread gets the place, and this thread waits for another place. A
        task without a thread is over, and ``serve`` ends it. False: the end came between, the task's thread was told,
        and this thread has the place."""
        if self.held.is_over(place):
            return True
        with self._lock:
            sleeper = self._suspended.pop(place.batches.task, None)
            if sleeper is not None:
                me.forget_wake()
                me.place = None
                self._spares.append(me)
        if sleeper is None:
            # Its thread goes on without the engine: nobody else ends the task there.
            place.batches.task_done()
            return False
        sleeper.give(place)
        return True

    def _spare(self) -> Seat | None:
        """A thread that sleeps without a task; None: there may be no more threads. Raises StoppedError where the
        workers were told to stop."""
        with self._lock:
            if self._ended or self.stopping:
                raise StoppedError(_STOPPED)
            if self._spares:
                return self._spares.pop()
            if len(self.threads) >= self._most:
                self._refused += 1
                return None
            thread, seat = self._new_thread(None)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            with self._lock:
                self.threads.remove(thread)
                self._refused += 1
            return None
        return seat

    def _new_thread(self, place: Place | None) -> tuple[threading.Thread, Seat]:
        seat = Seat(self, place)
        name = f"{self._work.name}-{len(self.threads)}"
        thread = threading.Thread(target=self._work.live, args=(seat,), name=name, daemon=True)
        self.threads.append(thread)
        return thread, seat

    # -- the end

    def _give_up(self) -> None:
        """Gives up the thread's place, which no other thread gets."""
        self.end()
        with self._lock:
            self._in_use -= 1
            last = self._in_use == 0
        if last:
            self._work.over()

    def end(self) -> None:
        """Tells the threads to end after the task in hand. A task is told by StoppedError: at its next checkpoint or
        block, and where it is suspended or in a block."""
        self._engine.stop()
        with self._lock:
            self._ended = True
            asleep = [*self._spares, *self._suspended.values()]
            self._spares.clear()
            self._suspended.clear()
        for seat in asleep:
            seat.give(None)

    def join(self) -> None:
        """Waits for the threads to end, but for the caller's own."""
        for thread in self.threads:
            if thread is not threading.current_thread():
                join(thread)
        if self._guarding is not None:
            self._guarding.end()
