"""The places of a scheduler or dispatcher, each of which one thread has at a time, and the threads that wait for one.

A place is a worker of the engine, with its list, its counters and what it has in hand. As many threads work as there
are places, whatever tasks do. A task that waits gives its place to a *spare* thread, and its own thread sleeps.

- ``checkpoint`` lists the task as suspended. The worker that takes it from the policy's lists hands its place to the
  thread that sleeps, and becomes a spare itself.
- ``blocking`` lists the task only when the block is over. Until then the thread runs without a place.

A thread sleeps until it has a place, or the end has come. It sleeps on a lock of its own, which whoever gives it a
place releases. The place is written before that. A lock that was released for nothing has the thread look once more.

Another thread may raise an exception in this one between any two steps (``PyThreadState_SetAsyncExc``), but never
within a call of C, nor between two lines that call nothing. So a hand-over is one call of C and such lines, by which
the engine, the two seats and the lock of the one who gets the place change in one go: ``for code in map(call, ...)``
calls, and its body goes on before an exception can come. All else can be repeated, or found out again: ``_spares`` and
``_suspended`` may have seats that are none any more, and each reader looks. A thread whose wait an exception cut short
comes back to its place; at the latest it does so when its task is over, in ``live``.

``tests/model/spin/places.pml`` is a model of the hand-over, with an end at any time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import call
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from strand.binding.engine import Engine
from strand.binding.gate import Code, Thread
from strand.binding.tasks import RESUME, TASK
from strand.errors import StoppedError, WouldDeadlockError
from strand.threads import sleep_exactly
from strand.ticks import TICK


class Place:
    """A worker of the engine. It is used by the thread that has it. ``core``: the one to which it pins that thread;
    None: it does not pin it."""

    __slots__ = ("batches", "core", "participant", "should_yield", "take", "wait")

    def __init__(self, engine: Engine, participant: int, dtype: np.dtype[Any]) -> None:
        self.participant = participant
        self.core: int | None = None
        self.batches = engine.batches(participant, dtype)
        self.take: Callable[[], int] = engine.tasks.next_of(self.batches.hand)
        self.wait: Callable[[], int] = engine.tasks.wait_of(self.batches.hand)
        self.should_yield: Callable[[], int] = engine.tasks.question_of(self.batches.hand)


class ThreadCounts(NamedTuple):
    """Counts of the threads. ``threads``: their number. ``places``: the number of tasks that may run at a time.
    ``suspended``: tasks that wait for a place. ``blocked``: tasks in a block. ``suspensions``: times that a task was
    suspended or blocked. ``refused``: times that it could not be, because of ``max_threads``."""

    threads: int
    places: int
    suspended: int
    blocked: int
    suspensions: int
    refused: int


class Work(Protocol):
    """Work that the threads of ``Places`` do."""

    @property
    def name(self) -> str:
        """Prefix of the threads' names."""

    def live(self, seat: Seat) -> None:
        """A thread's life: calls ``seat.live()``."""

    def moved(self, place: Place | None) -> None:
        """Notes that the calling thread goes on with another place, or without one, perhaps in the middle of a task."""

    def serve(self, seat: Seat, place: Place) -> int:
        """Ends the task that is in hand, and runs what comes. Returns what stops that, as ``PyBatches.what``: RESUME, a
        stop, or TASK where the thread came out of a task with another place, or without one. Where an exception comes
        out of it that is none of a task, it is called again, with ``is_cut``."""

    def over(self) -> None:
        """Notes the end; called by the last thread that gives its place up, because the workers have stopped."""


class TasksAlone:
    """The work of an engine without ticks. ``run``: what is called with the tag of each task."""

    name: Final = "strand-task-worker"

    def __init__(self, run: Callable[[int], None]) -> None:
        self._run = run

    def live(self, seat: Seat) -> None:
        seat.live()

    def moved(self, place: Place | None) -> None:
        """Nothing that it does depends on which place it is."""

    def serve(self, seat: Seat, place: Place) -> int:
        """Gives the GIL up only if there is nothing to run. Each time it is given up, other threads that run tasks wake
        for it, and this thread waits for it again."""
        run, take, wait, batches = self._run, place.take, place.wait, place.batches
        if seat.is_cut:
            seat.is_cut = False
            if batches.task:
                run(batches.task)  # if it has run, this does nothing
        while seat.place is place:
            tag = take() or wait()
            if not tag:
                return batches.what
            run(tag)
        return TASK

    def over(self) -> None:
        """The thread that ended the threads takes care of the rest."""


ENDED: Final = "a task was ended that still ran: please report this"


class Turn:
    """Turn of the current task, which is away from now on: ``Pool.hold`` gives it to a task. ``entry``: the engine's
    name for the task. ``charge``: called with on-CPU time in ns that the task has used; None: the policy does not ask
    for it."""

    __slots__ = ("_suspension", "charge", "entry")

    def __init__(self, place: Place) -> None:
        self.charge: Callable[[int], object] | None = None
        self._suspension = place.batches.suspension
        self.entry = self._suspension.entry

    def over(self) -> None:
        """The task has ended, or waits for a retry; called from any thread, once."""
        self._suspension.end_away(self.entry)


#: Default of the largest number of threads.
MAX_THREADS: Final = 256
_STOPPED: Final = "the workers have stopped, and the task cannot go on"
#: Intervals at which a thread asks whether it should let others go, and gives up the GIL.
_ASK_NS: Final = 100_000
_GIL_NS: Final = 1_000_000


class _Here(threading.local):
    #: Here, as a thread that has none would make an AttributeError each time it is asked.
    seat: Seat | None = None


_here = _Here()


class Regular(Protocol):
    """A thread that looks at the engine again and again, and decides what may run, until it ends."""

    def start(self) -> None: ...
    def tell_to_end(self) -> None: ...
    def end(self) -> None: ...


class Seat:
    """A thread that runs tasks, and its place while it has one."""

    __slots__ = (
        "_ask_ns",
        "_gil_ns",
        "_places",
        "_wake",
        "depth",
        "has_lived",
        "is_cut",
        "is_listed",
        "place",
        "waits",
    )

    def __init__(self, places: Places, place: Place | None) -> None:
        self.place = place
        #: Number of blocks that the thread is in, one within another.
        self.depth = 0
        #: The task that waits in its middle here: the place that it has left, its tag, and its entry. None: none does.
        self.waits: tuple[Place, int, int] | None = None
        #: Whether the engine has that task listed, so that a worker will hand its place over.
        self.is_listed = False
        #: Whether the thread has begun, and whether an exception has cut short what it did with its place.
        self.has_lived = self.is_cut = False
        self._places = places
        self._wake = threading.Lock()
        self._wake.acquire()
        self._ask_ns = self._gil_ns = 0

    @property
    def is_spare(self) -> bool:
        """True if the thread has neither a place nor a task."""
        return self.place is None and self.waits is None

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
            self.leave_block(0)
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

    def hold(self) -> Turn:
        """Lets the current task go on outside these threads, so that this thread may run others. Returns the task's
        turn."""
        assert self.place is not None
        return self._places.hold(self.place)

    def enter_block(self) -> None:
        """The thread gives its place away. Raises WouldDeadlockError where no thread can take it, and in a handler, and
        StoppedError where the workers have stopped."""
        outer = self.depth
        try:
            self.depth = outer + 1
            if not outer:
                if self.waits is not None:  # an exception has cut short a wait before this one
                    self.leave_block(0)
                    self.depth = 1
                self.check_not_in_handler()
                self._places.go_away(self)
        except BaseException:
            self.leave_block(outer)
            raise

    def leave_block(self, outer: int) -> None:
        """The thread waits for a place, if it has given its own away. ``outer``: how many blocks it was in before this
        one. Raises StoppedError where the workers have stopped."""
        self.depth = outer
        if outer or self.waits is None:
            return
        raised: BaseException | None = None
        while True:
            try:
                self._places.come_back(self)
                break
            except StoppedError:
                raise
            except BaseException as error:  # of another thread: first it needs a place
                raised = error
        if raised is not None:
            raise raised

    def check_not_in_handler(self) -> None:
        """Raises WouldDeadlockError where the thread has ticks in hand, or a timer."""
        if self.place is not None and not self.place.batches.task:
            raise WouldDeadlockError(
                "a handler cannot wait, because its ticks may be in its worker's memory: wait in a "
                "task (dispatcher.tasks, strand.Scheduler) or in a call (submit_call)"
            )


def seat_here() -> Seat | None:
    """Seat of this thread, if the thread runs tasks."""
    return _here.seat


class Places:
    """The places of an engine, and their threads. ``work``: what the threads do. They hold it, and with it what it
    belongs to. ``max_threads``: how many there may be, but never fewer than places. ``regular``: what decides about
    them from their start to their end. ``dtype``: of records."""

    def __init__(
        self,
        engine: Engine,
        work: Work,
        max_threads: int = MAX_THREADS,
        regular: Sequence[Regular] = (),
        dtype: np.dtype[Any] = TICK,
    ) -> None:
        self._engine = engine
        self._regular = regular
        self._work = work
        #: Held while a place changes hands.
        self._lock = threading.Lock()
        self._most = max(max_threads, engine.n_workers)
        self.threads: list[Thread] = []
        self._seats: list[Seat] = []
        #: The one that slept last is woken first.
        self._spares: list[Seat] = []
        #: By the tags of their tasks.
        self._suspended: dict[int, Seat] = {}
        #: The strands of tasks that run in no thread here. No lock: a task is entered before a worker can resume it;
        #: then one worker at a time has it.
        self._held: set[int] = set()
        self._suspensions = self._refused = 0
        self._ended = False
        self.places = [Place(engine, participant, dtype) for participant in range(engine.n_workers)]
        #: The participants of places that no thread has given up yet.
        self._in_use = {place.participant for place in self.places}
        for place in self.places:
            self._new_thread(place)

    def start(self) -> None:
        for each in self._regular:
            each.start()
        workers = self.threads[: len(self.places)]
        for thread in workers:
            thread.start()
        for thread in workers:
            _ = thread.native_id  # has begun: from here on ``threading`` knows it

    @property
    def stopping(self) -> bool:
        """True if the workers were told to stop."""
        return self._engine.stopping

    def let_go(self) -> None:
        """Nothing is held back any more, and all workers are active."""
        for each in self._regular:
            each.tell_to_end()

    def counts(self) -> ThreadCounts:
        with self._lock:
            waits = [seat.is_listed for seat in self._seats if seat.waits is not None and seat.place is None]
            return ThreadCounts(
                threads=len(self.threads),
                places=len(self.places),
                suspended=sum(waits),
                blocked=len(waits) - sum(waits),
                suspensions=self._suspensions,
                refused=self._refused,
            )

    # -- by a thread of its own

    def live(self, me: Seat) -> None:
        """See ``Seat.live``. An exception may end it anywhere, and then it is called again."""
        me.depth, me.is_cut, me.has_lived = 0, me.has_lived, True
        while True:
            if me.waits is not None:
                # An exception has kept a task from that, which is over by now.
                with suppress(StoppedError):
                    self.come_back(me)
            place = me.place
            if place is None:
                if self._ended:
                    self._go(me)
                    return
                self._be_spare(me)
                continue
            self._work.moved(place)
            if (me.is_cut and self._has_others_task(place)) or self._work.serve(me, place) == RESUME:
                if self._hand_over(me, place):
                    continue
            elif me.place is not place:
                continue
            self._give_up(me, place)
            return

    def _has_others_task(self, place: Place) -> bool:
        """True if an exception has kept the thread from ``_hand_over``."""
        batches = place.batches
        tag = batches.task
        return (
            bool(tag)
            and batches.what == RESUME
            and (batches.suspension.entry in self._held or self._sleeper(tag) is not None)
        )

    def _be_spare(self, me: Seat) -> None:
        """Sleeps until the thread has a place."""
        with self._lock:
            if me not in self._spares:
                self._spares.append(me)
        self._sleep(me)

    def _sleep(self, me: Seat) -> None:
        while me.place is None and not self._ended:
            me._wake.acquire()

    def suspend(self, me: Seat, place: Place) -> None:
        """The task in hand waits until a worker takes it, and another thread has the place. Does nothing where there is
        no thread for that. Raises StoppedError where the workers have stopped."""
        try:
            if self._leave(me, place, away=False):
                self.come_back(me)
        except BaseException:
            me.leave_block(0)
            raise

    def hold(self, place: Place) -> Turn:
        """See ``Seat.hold``: the thread of the place has no task in hand afterwards."""
        turn = Turn(place)
        if place.batches.suspension.is_on_strand:
            self._held.add(turn.entry)
        if place.batches.suspension.suspender(away=True)() != Code.OK:
            raise RuntimeError(ENDED)
        return turn

    def go_away(self, me: Seat) -> None:
        """See ``Seat.enter_block``."""
        place = me.place
        if place is None:
            raise StoppedError(_STOPPED)
        if not self._leave(me, place, away=True):
            raise WouldDeadlockError(
                f"all {self._most:,} threads wait (max_threads), and if this one waits too, none is left for other "
                "tasks: let fewer tasks wait at a time, or raise max_threads of a strand.Scheduler"
            )
        self._work.moved(None)

    def come_back(self, me: Seat) -> None:
        """By the thread of a task that waits: it has the engine list the task, and sleeps until a worker hands its
        place over. If an exception cuts that short, it can be called again. Raises StoppedError where the workers have
        stopped: the thread has no place then, and no task."""
        waits = me.waits
        if waits is None:
            return
        left, tag, entry = waits
        if not me.is_listed:
            comes_back = left.batches.suspension.returner(entry)
            with self._lock:
                self._suspended[tag] = me
                if not self._ended:
                    for code in map(call, (comes_back,)):
                        me.is_listed = code == Code.OK
                        break
                if not me.is_listed:
                    me.waits = None
        if me.is_listed:
            self._sleep(me)
            with self._lock:  # a worker may be about to hand its place over
                place = me.place
                if place is None:
                    me.waits = None
        if me.waits is None:
            self._work.moved(None)
            raise StoppedError(_STOPPED)
        assert place is not None
        self._work.moved(place)
        place.batches.suspension.resumed()
        me.waits = None

    def _leave(self, me: Seat, place: Place, *, away: bool) -> bool:
        """The task in hand leaves the place, which another thread gets. False: there is no thread for that. Raises
        StoppedError where the workers were told to stop: the thread keeps its place then."""
        batches = place.batches
        waits = place, batches.task, batches.suspension.entry
        suspends = map(call, (batches.suspension.suspender(away=away),))
        with self._lock:
            if self._ended or self.stopping:
                raise StoppedError(_STOPPED)
            spare = self._spare()
            if spare is None:
                self._refused += 1
                return False
            if not away:
                self._suspended[waits[1]] = me
            wake = spare._wake.release
            for code in suspends:
                if code != Code.OK:
                    raise RuntimeError(ENDED)
                # -- in one go, up to the call
                me.is_listed = not away
                me.waits = waits
                me.place = None
                spare.place = place
                self._suspensions += 1
                try:  # noqa: SIM105 - ``suppress`` would be a call more
                    wake()
                except RuntimeError:  # it is awake
                    pass
                break
            self._spares.pop()
        return True

    def _hand_over(self, me: Seat, place: Place) -> bool:
        """Hands over a suspended task: the task's thread gets the place, and this thread waits for another place. A
        task without a thread is over, and ``serve`` ends it. False: the end came between, the task's thread was told,
        and this thread has the place."""
        if (entry := place.batches.suspension.entry) in self._held:
            self._held.remove(entry)
            place.batches.suspension.resumed()
            return True
        tag = place.batches.task
        with self._lock:
            sleeper = None if self._ended else self._sleeper(tag)
            if sleeper is not None:
                self._spares.append(me)
                wake = sleeper._wake.release
                # -- in one go, up to the call
                me.place = None
                sleeper.place = place
                try:  # noqa: SIM105 - ``suppress`` would be a call more
                    wake()
                except RuntimeError:  # it is awake
                    pass
                self._suspended.pop(tag, None)
                return True
        # Its thread goes on without the engine: nobody else ends the task there.
        place.batches.task_done()
        return False

    def _sleeper(self, tag: int) -> Seat | None:
        """The thread of a suspended task, which waits for a place."""
        seat = self._suspended.get(tag)
        if seat is None or seat.place is not None or not seat.is_listed or seat.waits is None or seat.waits[1] != tag:
            return None
        return seat

    def _spare(self) -> Seat | None:
        """A thread that sleeps without a task; None: there may be no more threads. ``_lock`` is held."""
        spares = self._spares
        while spares:
            if spares[-1].is_spare:
                return spares[-1]
            spares.pop()
        if len(self.threads) >= self._most:
            return None
        thread, seat = self._new_thread(None)
        try:
            thread.start()
        except BaseException as error:
            if not thread.is_started:
                self.threads.remove(thread)
                self._seats.remove(seat)
            if isinstance(error, RuntimeError):  # the system has no more threads
                return None
            raise
        spares.append(seat)
        return seat

    def _new_thread(self, place: Place | None) -> tuple[Thread, Seat]:
        seat = Seat(self, place)
        thread = Thread(partial(self._work.live, seat), f"{self._work.name}-{len(self.threads)}")
        self._seats.append(seat)
        self.threads.append(thread)
        return thread, seat

    # -- the end

    def _give_up(self, me: Seat, place: Place) -> None:
        """By a thread with a place, which it gives to nobody any more."""
        self.end()
        with self._lock:
            self._in_use.discard(place.participant)
            last = not self._in_use
        if last:
            self._work.over()
        me.place = None
        self._go(me)

    def _go(self, me: Seat) -> None:
        """By a thread that ends. Nothing here refers to its seat any more, which refers to this object; nor does the
        thread, which may live on for a moment."""
        _here.seat = None
        with self._lock:
            if me in self._seats:
                self._seats.remove(me)
            self._spares.clear()
            self._suspended.clear()

    def end(self) -> None:
        """Tells the threads to end after the task in hand. A task is told by StoppedError: at its next checkpoint or
        block, and where it is suspended or in a block."""
        self._engine.stop()
        with self._lock:
            self._ended = True
            for seat in self._seats:
                if seat.place is None:
                    with suppress(RuntimeError):  # it is awake
                        seat._wake.release()

    def join(self) -> None:
        """Waits for the threads to end, but for the caller's own."""
        for thread in self.threads:
            thread.join()
        for each in self._regular:
            each.end()
