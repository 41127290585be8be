"""One thread alone begins or ends a task."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import CancelledError

import pytest
from task_pools import Stepped

from strand.policies.policy import Levels
from strand.tasks.options import Ranks
from strand.tasks.table import Bounds, Table

pytestmark = pytest.mark.python


def test_of_many_threads_one_gets_the_claim() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        here = Stepped()
        tasks = [here.tasks.submit(int) for _ in range(500)]
        claims: list[int] = []
        waiting = here.tasks._core.waiting
        barrier = threading.Barrier(4)

        def claim() -> None:
            barrier.wait(60)
            claims.extend(task.id for task in tasks if waiting.end_unbegun(task, "cancelled", CancelledError()))

        threads = [threading.Thread(target=claim) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(claims) == [task.id for task in tasks]
    finally:
        sys.setswitchinterval(interval)


def test_a_tag_that_is_run_twice_or_is_unknown_runs_nothing() -> None:
    here = Stepped()
    ran: list[int] = []

    def work() -> None:
        ran.append(1)
        here.tasks.run(future.id)

    future = here.tasks.submit(work)
    for tag in (future.id, future.id, 999):
        here.tasks.run(tag)
    assert ran == [1]
    assert not here.tasks.drop(future.id, "late")
    assert not here.tasks.drop(999, "unknown")


def test_waiting_until_idle_returns_when_the_last_task_ends() -> None:
    here = Stepped()
    table = here.tasks._core.table
    future = here.tasks.submit(int)
    assert not table.wait_until_idle(0.001)
    here.tasks.shutdown(wait=False)
    threading.Timer(0.02, future.cancel).start()
    assert table.wait_until_idle(60)


def test_whoever_takes_the_lock_waits_for_the_one_that_has_it_and_may_have_it_twice() -> None:
    table, order = Table(Ranks(Levels()), Bounds()), list[str]()
    begun = threading.Event()

    def second() -> None:
        begun.set()
        table.take_lock()
        order.append("second")
        table.lock.release()

    thread = threading.Thread(target=second)
    table.take_lock()
    table.take_lock()
    thread.start()
    begun.wait(60)
    time.sleep(0.01)
    order.append("first")
    table.lock.release()
    table.lock.release()
    thread.join(60)
    assert order == ["first", "second"]
