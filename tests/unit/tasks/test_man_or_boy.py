"""10,000 tasks that do what they should not, on two workers: of a scheduler, and of a dispatcher beside its ticks."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import CancelledError
from typing import Any

import pytest
from engine_support import balanced, ticks_for
from order_recorder import Recorder

from strand import Aging, Dispatcher, Fair, Fifo, Levels, Scheduler
from strand.errors import WouldDeadlockError
from strand.tasks import TaskFuture
from strand.tasks.tasks import Tasks

TASKS = 10_000
KEYS = 20
TICKS = 400  # of each symbol

policies = pytest.mark.parametrize(
    "policy", [Fifo(), Levels(), Aging(), Fair()], ids=lambda policy: type(policy).__name__
)


class ManOrBoy:
    """Tasks that raise, sleep, submit others, raise SystemExit, cancel each other, and wait for each other's results,
    200 at a time. ``symbols``: whether there are symbols, whose turns some of them take."""

    def __init__(self, tasks: Tasks, symbols: bool) -> None:
        self.tasks = tasks
        self.futures: list[TaskFuture] = []
        self.waited: list[str] = []
        #: By key and symbol: what was submitted, and what began.
        self.submitted: dict[int, list[tuple[int, TaskFuture]]] = defaultdict(list)
        self.begun: dict[int, list[int]] = defaultdict(list)
        self.orders: list[dict[str, Any]] = [{"key": f"key {k}"} for k in range(KEYS)]
        if symbols:
            self.orders += [{"symbol": k} for k in range(KEYS)]
        self._waits = threading.Semaphore(200)

    def run(self) -> None:
        in_order = [self.tasks.options(**order) for order in self.orders]
        for i in range(TASKS):
            if i % 3:
                self.futures.append(self.tasks.submit(self.act, i, None))
            else:
                at = i // 3 % len(in_order)
                future = in_order[at].submit(self.act, i, at)
                self.submitted[at].append((i, future))
                self.futures.append(future)
        assert self.tasks.submit(pow, 2, 3).result(60) == 8

    def act(self, i: int, order: int | None) -> int:
        if order is not None:
            self.begun[order].append(i)
        other = self.futures[i * 7919 % len(self.futures)] if self.futures else None
        if i % 11 == 1:
            raise ValueError(i)
        if i % 97 == 2:
            raise SystemExit(i)
        if i % 101 == 3:
            time.sleep(0.002)
        if i % 5 == 4 and other is not None:
            other.cancel()
        if i % 13 == 5:
            self.futures.append(self.tasks.submit(self.act, i // 13, None))
        if i % 7 == 6 and other is not None and self._waits.acquire(blocking=False):
            try:
                other.exception()
                self.waited.append("ended")
            except (CancelledError, WouldDeadlockError) as error:
                self.waited.append(type(error).__name__)
            finally:
                self._waits.release()
        return i

    def check(self, threads: int) -> None:
        """At the end. ``threads``: how many there were before."""
        assert threading.active_count() == threads
        assert {"ended"} <= set(self.waited) <= {"ended", "CancelledError", "WouldDeadlockError"}
        assert all(future.done() for future in self.futures)
        ends = Counter(future.state for future in self.futures)
        assert set(ends) == {"done", "failed", "cancelled"}
        assert len(self.futures) > TASKS
        found = self.tasks.statistics()
        ends["done"] += 1  # the one in ``run``
        assert {end: n for end, n in found.ended.items() if n} == ends
        assert (found.pending, found.submitted) == (0, ends.total())
        assert not any(self.tasks.pending_count().values())
        assert {**self.begun} == {
            order: [i for i, future in all_of_it if not future.cancelled()]
            for order, all_of_it in self.submitted.items()
        }


@policies
def test_man_or_boy_of_a_scheduler(policy: Any) -> None:
    threads = threading.active_count()
    with Scheduler(2, policy=policy) as scheduler:
        them = ManOrBoy(scheduler, symbols=False)
        them.run()
        assert scheduler.thread_counts().refused == 0
    them.check(threads)
    totals = scheduler._engine.tasks.totals(on_strands=False)
    assert totals.submitted == totals.ended


@pytest.mark.cells(1)
@policies
@pytest.mark.parametrize("handler", ["C", "Python"])
def test_man_or_boy_of_a_dispatcher_beside_its_ticks(handler: str, policy: Any) -> None:
    """All ticks of each symbol come in order, and none is lost."""
    threads = threading.active_count()
    recorder = Recorder(KEYS)
    ticks = ticks_for([k for _ in range(TICKS) for k in range(KEYS)])
    with Dispatcher(
        KEYS, "spin" if handler == "C" else recorder.handler(), workers=2, cores=None, policy=policy
    ) as dispatcher:
        them = ManOrBoy(dispatcher.tasks, symbols=True)

        def publish() -> None:
            for begin in range(0, len(ticks), 50):
                dispatcher.publish(ticks[begin : begin + 50])
                time.sleep(0)

        publisher = threading.Thread(target=publish)
        publisher.start()
        them.run()
        publisher.join()
        assert dispatcher.drain(timeout_s=120)
        assert dispatcher.thread_counts().refused == 0
    them.check(threads)
    if handler == "C":
        rows = dispatcher.rows.array
        assert (rows["ticks"] == TICKS).all()
        assert not rows["broken"].any()
    else:
        assert recorder.seen == [[(0, n + 1) for n in range(TICKS)]] * KEYS
        assert recorder.overlaps == 0
    balanced(dispatcher)
