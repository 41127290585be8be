"""Threads of a scheduler beside its workers: timers of later work, and the asyncio thread of its coroutines."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future
from contextvars import Context
from functools import partial
from typing import Any, Final

from strand.binding.gate import Thread
from strand.errors import StrandError
from strand.logs import Event
from strand.tasks.future import TaskFuture
from strand.tasks.groups import CURRENT_GROUP
from strand.tasks.places import Turn
from strand.tasks.waits import CURRENT_TASK, Waiter, note_loop
from strand.threads import Bell, Clock, LoopCalls, mended

_LOGGER: Final = ".tasks"
_TIMER_FAILED: Final = Event("timer.failed", _LOGGER, "ERROR", "a timer of tasks failed")
_TURN_REFUSED: Final = Event("periodic.refused", _LOGGER, "WARNING", "a periodic turn was refused: %(error)s")
_TURN_FAILED: Final = Event("periodic.failed", _LOGGER, "ERROR", "a periodic turn failed: %(error)r")

#: Cancelled entries of the heap are cleared out when they are more than half of it, and more than so many.
_FEW: Final = 64
#: Deadlines that are kept before those of tasks that have begun are cleared out.
_MANY: Final = 1024
#: The longest wait at one go, s: longer ones overflow in some systems.
_LONGEST_S: Final = 3600.0


class Timer:
    """Something that is due. ``due_ns``: by the scheduler's clock."""

    __slots__ = ("action", "due_ns")

    def __init__(self, due_ns: int, action: Callable[[], None]) -> None:
        self.due_ns = due_ns
        self.action: Callable[[], None] | None = action


class Timers:
    """Calls actions when they are due.

    ``clock``: None: the system's, and a thread calls the actions. Another clock has no thread: ``fire`` calls them.
    The thread starts with the first action. It holds this object, until ``end``.
    """

    def __init__(self, clock: Clock | None) -> None:
        self.now: Callable[[], int] = time.monotonic_ns if clock is None else clock.now_ns
        self._has_thread = clock is None
        #: Those of one time are due in the order in which they were added. No comparison runs Python code, so that an
        #: interrupt finds the heap in order.
        self._heap: list[tuple[int, int, Timer]] = []
        self._cancelled = 0  # about: where an interrupt came between, one more or less
        self._turns = itertools.count()
        self._bell = Bell()
        #: More than one where an interrupt came between the start of the first one and the note of it.
        self._threads: list[Thread] = []
        self._is_started = False
        self._closed = False

    def __len__(self) -> int:
        """The number of actions that are due later."""
        with self._bell:
            return sum(timer.action is not None for _, _, timer in self._heap)

    def add(self, timer: Timer) -> None:
        """Calls its action at its time; never after ``end``, and not if it is cancelled. Its exceptions are logged."""
        with self._bell:
            if self._has_thread and not self._is_started and not self._closed:
                thread = Thread(self._run, "strand task timers")
                self._threads.append(thread)
                thread.start()
                self._is_started = True
            if not self._closed:
                heapq.heappush(self._heap, (timer.due_ns, next(self._turns), timer))
                # Also beside one of that time: an interrupt may have come between that one and its ring.
                if self._heap[0][0] == timer.due_ns:
                    self._bell.ring()

    def cancel(self, timer: Timer) -> None:
        """The action will not be called, unless it is under way."""
        with self._bell:
            if timer.action is None:
                return
            timer.action = None
            self._cancelled += 1
            if self._cancelled > max(_FEW, len(self._heap) // 2):
                heap = [entry for entry in self._heap if entry[2].action is not None]
                heapq.heapify(heap)
                self._heap = heap
                self._cancelled = 0

    def wake(self) -> None:
        """Makes the thread look again for due actions."""
        self._bell.ring()

    def next_due_ns(self) -> int | None:
        """Due time of the next action, ns of the clock; None: there is none."""
        with self._bell:
            while self._heap and self._heap[0][2].action is None:
                heapq.heappop(self._heap)
                self._cancelled -= 1
            return self._heap[0][0] if self._heap else None

    def fire(self) -> int:
        """Calls the actions that are due, in their order. Returns how many."""
        called = 0
        while True:
            with self._bell:
                due = self.next_due_ns()
                if due is None or due > self.now():
                    return called
                timer = heapq.heappop(self._heap)[2]
                action, timer.action = timer.action, None
            if action is not None:
                try:
                    action()
                except BaseException:  # of any kind: the others are due, too
                    _TIMER_FAILED(exc_info=True)
                called += 1

    def end(self) -> None:
        """Tells the thread to end. No action is called any more, but for one that is under way."""
        with self._bell:
            self._closed = True
            self._heap.clear()
            self._cancelled = 0
        self._bell.ring()

    def join(self) -> None:
        """Waits for the thread's end, unless this is the thread."""
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._closed:
            self.fire()
            due = self.next_due_ns()
            wait_s = _LONGEST_S if due is None else min(_LONGEST_S, (due - self.now()) / 1e9)
            self._bell.wait_for(lambda due=due: self._closed or self.next_due_ns() != due, max(wait_s, 0))  # type: ignore[misc]


class Deadlines:
    """Lets tasks expire that wait when their deadlines are over.

    A task with a deadline costs an entry of a heap, and no timer: there is one, for the first entry. Actions that began
    or ended before stay in the heap until it is twice as large as the waiting tasks may need.
    """

    def __init__(self, timers: Timers, alive: Mapping[int, TaskFuture], expire: Callable[[int, int], None]) -> None:
        self._timers = timers
        self._alive = alive
        self._expire = expire
        self._heap: list[tuple[int, int]] = []
        self._most = _MANY
        self._timer: Timer | None = None
        self._lock = Bell()

    def add(self, task: TaskFuture, due_ns: int) -> None:
        """Gives a task its deadline, ns of the clock."""
        task._deadline_ns = due_ns
        entry = due_ns, task.id
        try:  # as ``mended`` does, without its calls: this is part of each submit
            with self._lock:
                heapq.heappush(self._heap, entry)
                if len(self._heap) > self._most:
                    self._clear_out()
                timer = self._timer
                if timer is None or due_ns < timer.due_ns:
                    self._set_timer()
        except BaseException:
            start_new_thread(self._add_again, (entry,))
            raise

    def _add_again(self, entry: tuple[int, int]) -> None:
        """Adds an entry again after an exception came between the heap and its timer: two copies of an entry do no
        harm."""
        with self._lock:
            heapq.heappush(self._heap, entry)
            self._set_timer()

    def _clear_out(self) -> None:
        alive = self._alive
        left = []
        for entry in self._heap:
            task = alive.get(entry[1])
            if task is not None and not task._is_claimed:
                left.append(entry)
        heapq.heapify(left)
        self._heap = left
        self._most = max(_MANY, 2 * len(left))

    def _set_timer(self) -> None:
        """For the first entry. The lock is held. One that an interrupt cuts short can be repeated."""
        if self._timer is not None:
            self._timers.cancel(self._timer)
        self._timer = Timer(self._heap[0][0], self._fire) if self._heap else None
        if self._timer is not None:
            self._timers.add(self._timer)

    def _fire(self) -> None:
        now = self._timers.now()
        due = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now:
                due.append(heapq.heappop(self._heap))
            self._set_timer()
        for due_ns, tag in due:
            self._expire(tag, due_ns)


class Periodic:
    """A function that is due at ``first + n * period``, whatever the earlier turns took: it does not drift.

    Each turn is a task. A turn is skipped if the previous turn still runs when it is due, or if the scheduler refuses
    it. After a time in which the machine slept, only the latest missed turn runs. So turns never pile up. An
    error of a turn is logged (``strand.tasks``), and the next turn comes as usual.

    Attributes:
        turns: How many turns were submitted.
        skipped: How many turns were not submitted.
        failed: How many turns ended otherwise than by a value.
        last: The future of the latest turn, or None.
        next_due_ns: When the next turn is due, in ns of the scheduler's clock (``time.monotonic_ns``); None: it was
            cancelled.
    """

    def __init__(self, timers: Timers, submit: Callable[[], TaskFuture], first_ns: int, period_ns: int) -> None:
        self.period_ns = period_ns
        self.turns = 0
        self.skipped = 0
        self.failed = 0
        self.last: TaskFuture | None = None
        self.next_due_ns: int | None = first_ns
        self._timers = timers
        self._submit = submit
        self._lock = threading.RLock()
        self._timer: Timer | None = None

    def __repr__(self) -> str:
        return f"<Periodic, {self.turns} turns, {self.skipped} skipped{', cancelled' if self.cancelled() else ''}>"

    def begin(self) -> None:
        """Waits for the first turn from now on."""
        with self._lock:
            if self.next_due_ns is not None:
                self._wait_until(self.next_due_ns)

    def _wait_until(self, due_ns: int) -> None:
        self._timer = Timer(due_ns, self._turn)
        self._timers.add(self._timer)

    def cancel(self, running: bool = False) -> bool:
        """Ends the turns, and cancels a turn that waits to begin.

        Args:
            running: Whether to ask a turn that runs to end.

        Returns:
            Whether there would have been another turn.
        """
        return bool(mended(self._cancel, self._cancel, running))

    def _cancel(self, running: bool) -> bool:
        with self._lock:
            self.next_due_ns = None
            found, last = self._timer, self.last
            if found is not None:
                self._timers.cancel(found)
            self._timer = None
        if last is not None:
            last.cancel(running=running)
        return found is not None

    def cancelled(self) -> bool:
        """True if there are no more turns."""
        return self._timer is None

    def _turn(self) -> None:
        with self._lock:
            due = self.next_due_ns
            if due is None:
                return
            missed = (self._timers.now() - due) // self.period_ns
            self.skipped += missed
            self.next_due_ns = due + (missed + 1) * self.period_ns
            self._wait_until(self.next_due_ns)
            if self.last is not None and not self.last.done():
                self.skipped += 1
                return
            try:
                future = self.last = self._submit()
            except StrandError as error:
                self.skipped += 1
                _TURN_REFUSED(error=error)
                return
            self.turns += 1
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[Any]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            with self._lock:
                self.failed += 1
            _TURN_FAILED(error=error, exc_info=error)


#: Time for which the end waits for asyncio tasks that coroutines have started, and that have not ended.
_LEFT_S: Final = 1.0


class Coroutines:
    """The asyncio thread of a scheduler, or an event loop elsewhere that takes its place. The thread starts with the
    first coroutine, and ends with ``end``.

    ``hold``: called by ``run``, for the turn that the coroutine keeps. ``ended``: called in the loop before the turn is
    over, with the coroutine's value or with what it raised.
    """

    def __init__(
        self, hold: Callable[[], Turn], ended: Callable[[TaskFuture, Any, BaseException | None], None]
    ) -> None:
        self._hold = hold
        self._ended = ended
        self._lock = threading.RLock()
        #: The loop of the thread, and the one that takes its place.
        self._own: LoopCalls | None = None
        self._outer: LoopCalls | None = None
        self._thread: Thread | None = None
        #: Those that have not ended, and were not told that all end.
        self._tasks: set[TaskFuture] = set()
        self._running = 0
        #: Turns that are over.
        self._over: list[Turn] = []

    def use(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Runs coroutines that begin from now on in a loop that another thread runs; None: in the own thread."""
        self._outer = None if loop is None else LoopCalls.of(loop)
        if loop is not None:
            note_loop(loop)

    def run(self, task: TaskFuture, coroutine: Coroutine[Any, Any, Any], context: Context) -> None:
        """Runs a coroutine in the loop, in a context. Raises RuntimeError where no thread can be started, and what
        ``hold`` raises."""
        with self._lock:
            calls = self._outer
            if calls is None or calls.is_closed:
                calls = self._own = self._own or LoopCalls.of(self._started())
            turn = self._hold()
            if turn.charge is not None:
                task._charge = turn.charge
            self._tasks.add(task)
            self._running += 1
            calls.add(partial(self._begin, task, coroutine, context, turn))

    def _begin(self, task: TaskFuture, coroutine: Coroutine[Any, Any, Any], context: Context, turn: Turn) -> None:
        loop = asyncio.get_running_loop()
        if turn.charge is not None and loop.get_task_factory() is None:
            loop.set_task_factory(_charged_task)
        life = self._live(task, coroutine, turn)
        life.send(None)
        task._runner = loop.create_task(life, context=context)
        if task.cancel_requested:
            task._runner.cancel()

    async def _live(self, task: TaskFuture, coroutine: Coroutine[Any, Any, Any], turn: Turn) -> None:
        """Runs a coroutine, and ends its task. It is begun before it is an asyncio task, so that it does so even if
        that is cancelled before its first step. No error comes out of it: SystemExit and KeyboardInterrupt would end
        the loop's thread."""
        value, failure = None, None
        try:
            await _BEGUN
            value = await coroutine
        except BaseException as error:
            coroutine.close()
            failure = error
        with self._lock:
            self._tasks.discard(task)
            self._running -= 1
        task._runner = None
        if turn.charge is not None:
            task._charge = None
        CURRENT_TASK.set(None)
        CURRENT_GROUP.set(None)
        try:
            self._ended(task, value, failure)
        finally:
            value = failure = None  # whose traceback holds this frame
            if not self._over:
                asyncio.get_running_loop().call_soon(self._let_go)
            self._over.append(turn)

    def _let_go(self) -> None:
        """Gives back the turns that are over, in the loop's thread. Each worker that this wakes wants the GIL, so they
        go together."""
        over, self._over = self._over, []
        for turn in over:
            turn.over()

    def cancel(self) -> None:
        """Raises CancelledError in all coroutines that have not ended, once in each."""
        with self._lock:
            tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel(running=True)

    def _started(self) -> asyncio.AbstractEventLoop:
        """A loop in a thread of its own. Raises RuntimeError where the system has no thread left."""
        loop = asyncio.new_event_loop()
        thread = Thread(_Loop(loop).run, "strand task coroutines")
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._thread = thread
        return loop

    def end(self) -> None:
        """Tells the thread to end. Does nothing where a coroutine was begun meanwhile, which calls this at its end."""
        with self._lock:
            if self._running:
                return
            own, self._own = self._own, None
        if own is not None:  # in a thread that no signal interrupts
            own.add(own.loop.stop)

    def join(self) -> None:
        """Waits for the thread's end, unless this is the thread."""
        if self._thread is not None:
            self._thread.join()


class _Begun:
    """Something that a coroutine awaits for one step."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield


_BEGUN: Final = _Begun()


class _Charged(Coroutine[Any, Any, Any]):
    """A coroutine whose steps are charged to the group of its task, until the task ends."""

    __slots__ = ("_coroutine", "_task")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], task: Waiter) -> None:
        self._coroutine = coroutine
        self._task = task

    def send(self, value: Any) -> Any:
        return self._step(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._coroutine.throw, *error)

    def close(self) -> None:
        self._step(self._coroutine.close)

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self._coroutine.__await__())

    def _step(self, go_on: Callable[..., Any], *arguments: Any) -> Any:
        charge = self._task._charge
        if charge is None:
            return go_on(*arguments)
        begun = time.thread_time_ns()
        try:
            return go_on(*arguments)
        finally:
            charge(time.thread_time_ns() - begun)


def _charged_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Makes an asyncio task. One that belongs to a strand task, as its context says, is charged."""
    context = options.get("context")
    task = CURRENT_TASK.get() if context is None else context.get(CURRENT_TASK)
    steps = coroutine if task is None or task._charge is None else _Charged(coroutine, task)
    return asyncio.Task(steps, loop=loop, **options)


class _Loop:
    """The life of the asyncio thread. An exception of another thread may end ``run`` anywhere, and then it is called
    again."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_stopped = False

    def run(self) -> None:
        loop = self._loop
        note_loop(loop)
        if loop.is_closed():
            return
        if not self._is_stopped:
            loop.run_forever()
            self._is_stopped = True
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_LEFT_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
