"""Ctrl-C anywhere: each call of a scheduler leaves its state whole, and its end comes once running functions return.

Each test runs in a child, which ends in a bounded time: a call that waits in vain fails its test alone.
"""

from __future__ import annotations

import concurrent.futures
import random
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Final

import pytest
from bounded_child import in_bounded_child
from engine_support import wait_until
from interrupt_points import APART, at_each_point, free, interrupter

from strand import Fair, Scheduler, TaskGroup
from strand.errors import StoppedError, StrandError
from strand.tasks import TaskFuture

pytestmark = pytest.mark.python


class Case:
    """A scheduler, the futures that a test knows, and what to do before they are looked at."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(2, max_queue=10**6)
        self.key = self.scheduler.options(key="key")
        self.soon = self.scheduler.options(delay="1ms")
        self.late = self.scheduler.options(delay="1h")
        self.futures: list[TaskFuture] = []
        self.after: Callable[[], Any] = lambda: None

    def submit(self, executor: Any, fn: Any = int, *args: Any) -> TaskFuture:
        future: TaskFuture = executor.submit(fn, *args)
        self.futures.append(future)
        return future

    def busy(self) -> None:
        """Both workers are, until what the test does is over."""
        gate = threading.Event()
        for _ in range(2):
            self.submit(self.scheduler, gate.wait, 60)
        self.after = gate.set

    def check(self) -> None:
        """Every future ends, no lock is held, and nothing is left anywhere."""
        self.after()
        core = self.scheduler._core
        for future in [*core.table.alive.copy().values(), *self.futures]:
            try:
                future.exception(60)
            except (concurrent.futures.CancelledError, StrandError):
                assert future.done()
        end = time.monotonic() + 60
        while left := self._left():
            assert time.monotonic() < end, left
            time.sleep(0.001)

    def _left(self) -> list[str]:
        core, found = self.scheduler._core, self.scheduler.statistics()
        locks = {"table": core.table.lock, "timers": core.timers._bell, "counts": core.counts._lock}
        held = [f"the lock of the {name} is held" for name, lock in locks.items() if not free(lock)]
        left = {
            f"{found.pending} pending": found.pending,
            "submitted is not the sum of the ends": found.submitted - sum(found.ended.values()),
            "pending_count": sum(self.scheduler.pending_count().values()),
            "keys": len(core.states.keys),
            "alive": len(core.table.alive),
            "queued": sum(map(len, core.table.queued)),
            "timers": len(core.timers) - (core.states.deadlines._timer is not None),  # one for all deadlines
        }
        return [*held, *(name for name, n in left.items() if n)]


def submit(case: Case) -> Callable[[], Any]:
    return lambda: case.submit(case.scheduler)


def submit_by_key(case: Case) -> Callable[[], Any]:
    return lambda: [case.submit(case.key) for _ in range(3)]


def submit_with_delay(case: Case) -> Callable[[], Any]:
    return lambda: case.submit(case.soon)


def submit_to_group(case: Case) -> Callable[[], Any]:
    executor = case.scheduler.options(group=TaskGroup("group"))
    return lambda: case.submit(executor)


def submit_many(case: Case) -> Callable[[], Any]:
    return lambda: case.futures.extend(case.scheduler.submit_many(abs, range(5)))


def map_(case: Case) -> Callable[[], Any]:
    return lambda: list(case.scheduler.map(abs, range(5)))


def result(case: Case) -> Callable[[], Any]:
    return lambda: case.submit(case.scheduler, time.sleep, 0.001).result()


def wait(case: Case) -> Callable[[], Any]:
    futures = [case.submit(case.soon) for _ in range(3)]
    return lambda: (concurrent.futures.wait(futures), list(concurrent.futures.as_completed(futures)))


def cancel(case: Case) -> Callable[[], Any]:
    return lambda: case.submit(case.scheduler).cancel()


def cancel_behind_a_key(case: Case) -> Callable[[], Any]:
    case.busy()
    futures = [case.submit(case.key) for _ in range(4)]
    return lambda: [future.cancel() for future in (*futures[1:], futures[0])]


def cancel_what_others_wait_for(case: Case) -> Callable[[], Any]:
    future = case.submit(case.late)
    threads = [
        threading.Thread(target=concurrent.futures.wait, args=([future],)),
        threading.Thread(target=future.exception),
    ]
    threads[1].run = lambda: future.add_done_callback(lambda _: None) or future.wait_for_end()  # type: ignore[method-assign]
    for thread in threads:
        thread.start()
    while not future.__dict__.get("_waiters"):
        time.sleep(0.001)

    def after() -> None:
        future.cancel()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()

    case.after = after
    return future.cancel


def change(case: Case) -> Callable[[], Any]:
    case.busy()
    future, held, group = case.submit(case.scheduler), case.submit(case.soon), TaskGroup("group")
    behind = [case.submit(case.key) for _ in range(2)][1]
    return lambda: (
        future.reprioritise("high"),
        held.reprioritise("low"),
        behind.reprioritise("immediate"),
        future.set_deadline("20ms"),
        behind.set_group(group),
        behind.set_group(None),
    )


def callback(case: Case) -> Callable[[], Any]:
    future = case.submit(case.soon)
    return lambda: future.add_done_callback(lambda _: None)


def block_of_a_group(case: Case) -> Callable[[], Any]:
    def block() -> None:
        with TaskGroup("block"):
            case.submit(case.scheduler, time.sleep, 0.001)
            case.submit(case.key)

    return block


def cancel_a_group(case: Case) -> Callable[[], Any]:
    case.busy()
    group = TaskGroup("group")
    for _ in range(3):
        case.submit(case.scheduler.options(group=group))
    return group.cancel


def every(case: Case) -> Callable[[], Any]:
    case.after = lambda: [periodic.cancel() for periodic in case.scheduler._periodics]
    return lambda: case.scheduler.every("1h", int).cancel()


CALLS: Final = {
    fn.__name__: fn
    for fn in (
        submit, submit_by_key, submit_with_delay, submit_to_group, submit_many, map_, result, wait, cancel,
        cancel_behind_a_key, cancel_what_others_wait_for, change, callback, block_of_a_group, cancel_a_group, every,
    )
}  # fmt: skip


def shutdown(case: Case) -> Callable[[], Any]:
    for executor in (case.scheduler, case.soon, case.key):
        case.submit(executor, time.sleep, 0.001)
    return case.scheduler.shutdown


def shutdown_that_cancels(case: Case) -> Callable[[], Any]:
    for executor in (case.scheduler, case.late, case.key):
        case.submit(executor)
    return lambda: case.scheduler.shutdown(cancel_futures=True)


def block_of_a_scheduler(case: Case) -> Callable[[], Any]:
    def block() -> None:
        with case.scheduler:
            for executor in (case.scheduler, case.late, case.key):
                case.submit(executor)
            case.submit(case.scheduler, time.sleep, 0.001).result()
            raise KeyboardInterrupt

    return block


ENDS: Final = {fn.__name__: fn for fn in (shutdown, shutdown_that_cancels, block_of_a_scheduler)}


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("name", [*CALLS, *ENDS])
def test_interrupts_at_points_of_a_call_leave_all_whole(name: str, apart: str, one_in: Callable[[int], int]) -> None:
    """All points with ``--exhaustive``."""
    interrupter()  # which is compiled once
    in_bounded_child(partial(interrupt_at_points, name, apart, one_in(10)), 600)


def interrupt_at_points(name: str, apart: str, one_in: int) -> None:
    cases: list[Case] = []

    def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
        if not cases or name in ENDS:
            cases[:] = [Case()]
        (case,) = cases

        def check() -> None:
            if name in ENDS:
                case.scheduler.shutdown(cancel_futures=True, timeout=60)
            case.check()
            case.futures.clear()

        # In a context of its own: an interrupt at the first step of a group's end leaves that the current one.
        return partial(copy_context().run, (CALLS.get(name) or ENDS[name])(case)), check

    at_each_point(prepare, apart, one_in)
    cases[0].scheduler.shutdown(timeout=60)


@pytest.mark.parametrize("name", CALLS)
def test_signals_at_random_leave_all_whole(name: str, one_in: Callable[[int], int]) -> None:
    """Signals come while the call waits, too."""
    in_bounded_child(partial(interrupt_at_random, name, 200 // one_in(5)))


def interrupt_at_random(name: str, signals: int) -> None:
    sys.unraisablehook = deque[Any](maxlen=0).append  # of interrupts that Python swallows
    generator, case = random.Random(8), Case()
    main, over = threading.main_thread().ident, threading.Event()
    assert main is not None
    in_call, got = False, 0

    def handle(*_: object) -> None:
        nonlocal got, in_call
        if in_call:
            got, in_call = got + 1, False
            raise KeyboardInterrupt

    def send() -> None:
        for _ in range(signals):
            time.sleep(generator.uniform(0, 0.003))
            signal.pthread_kill(main, signal.SIGINT)
        over.set()

    operation = partial(copy_context().run, CALLS[name](case))
    thread = threading.Thread(target=send)
    before = signal.signal(signal.SIGINT, handle)
    thread.start()
    while not over.is_set():
        try:
            in_call = True
            operation()
            in_call = False
        except KeyboardInterrupt:
            pass
        del case.futures[:-100]
    thread.join()
    signal.signal(signal.SIGINT, before)
    assert got > signals // 10
    case.check()
    case.scheduler.shutdown(timeout=60)


def takes_more(executor: Any, fn: Any = int) -> bool:
    """Tells whether it takes a task, which is cancelled at once."""
    try:
        executor.submit(fn).cancel()
    except StoppedError:
        return False
    return True


def all_or_none_of_a_cancel(scheduler: Scheduler) -> tuple[Callable[[], Any], Callable[[], Any]]:
    group = TaskGroup()
    late = scheduler.options(delay="1h", group=group)
    futures = [late.submit(int) for _ in range(3)]

    def check() -> None:
        wait_until(lambda: {takes_more(late), *(not future.cancelled() for future in futures)} in ({True}, {False}))
        group.cancel()
        wait_until(lambda: not len(group))

    return group.cancel, check


def all_or_none_of_a_change_of_group(scheduler: Scheduler) -> tuple[Callable[[], Any], Callable[[], Any]]:
    before, after = TaskGroup(), TaskGroup()
    future = scheduler.options(delay="1h", group=before).submit(int)

    def check() -> None:
        wait_until(lambda: (len(before), len(after)) == ((1, 0) if future.group is before else (0, 1)))
        future.cancel()
        wait_until(lambda: not len(before) + len(after))

    return partial(future.set_group, after), check


def all_or_none_of_a_shutdown(scheduler: Scheduler) -> tuple[Callable[[], Any], Callable[[], Any]]:
    late = scheduler.options(delay="1h")
    futures, periodic = [late.submit(int) for _ in range(3)], scheduler.every("1h", int)

    def check() -> None:
        changed = [periodic.cancelled, *(future.cancelled for future in futures)]
        wait_until(lambda: {takes_more(scheduler), *(not has() for has in changed)} in ({True}, {False}))
        scheduler.shutdown(cancel_futures=True, timeout=60)

    return partial(scheduler.shutdown, wait=False, cancel_futures=True), check


ALL_OR_NONE: Final = (all_or_none_of_a_cancel, all_or_none_of_a_change_of_group, all_or_none_of_a_shutdown)


@pytest.mark.parametrize("apart", ["one", "two in a row"])
@pytest.mark.parametrize("case", ALL_OR_NONE, ids=[case.__name__ for case in ALL_OR_NONE])
def test_an_interrupted_change_is_made_in_whole_or_has_not_begun(case: Any, apart: str) -> None:
    interrupter()

    def interrupt() -> None:
        schedulers: list[Scheduler] = []

        def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
            if not schedulers or case is all_or_none_of_a_shutdown:
                schedulers[:] = [Scheduler(1)]
            prepared: tuple[Callable[[], Any], Callable[[], Any]] = case(schedulers[0])
            return prepared

        at_each_point(prepare, apart)
        schedulers[0].shutdown(timeout=60)

    in_bounded_child(interrupt, 240)


@pytest.mark.parametrize("apart", ["one", "two in a row"])
@pytest.mark.parametrize("policy", [None, Fair()], ids=["Fifo", "Fair"])
def test_interrupted_statistics_lose_no_wait(policy: Fair | None, apart: str) -> None:
    interrupter()

    def interrupt() -> None:
        with Scheduler(1, policy=policy) as scheduler:
            begun = 0

            def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
                nonlocal begun
                with TaskGroup(f"request {begun % 4}"):
                    for future in [scheduler.submit(int) for _ in range(3)]:
                        future.result()
                begun += 3
                return scheduler.statistics, check

            def check() -> None:
                assert scheduler.statistics().wait.count == begun

            at_each_point(prepare, apart, one_in=5)

    in_bounded_child(interrupt)
