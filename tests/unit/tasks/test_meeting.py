"""Whoever waits for a task, and whenever, meets the worker that ends it."""

from __future__ import annotations

import logging
import sys
import threading
from concurrent.futures import Future, as_completed, wait
from typing import Any

import pytest
from task_pools import Stepped, Threaded, raises

from strand.tasks import TaskFuture
from strand.tasks.future import NOBODY
from strand.threads import Bell

pytestmark = pytest.mark.python


def has_bell(future: TaskFuture) -> bool:
    return isinstance(future.__dict__.get("_meeting"), Bell)


def test_a_plain_task_makes_no_bell() -> None:
    here = Stepped()
    future = here.tasks.submit(pow, 2, 3)
    assert not has_bell(future)
    here.pool.run_all()
    assert future.result() == 8
    assert future.done()
    assert future.exception() is None
    assert not has_bell(future)


def test_callbacks_are_called_once_in_their_order_before_or_after_the_end(caplog: pytest.LogCaptureFixture) -> None:
    here = Stepped()
    future = here.tasks.submit(int)
    called: list[Any] = []
    future.add_done_callback(lambda f: called.append(("first", f.result())))
    for error in (ValueError("callback"), SystemExit(3)):
        future.add_done_callback(lambda _, error=error: raises(error)())  # type: ignore[misc]
    future.add_done_callback(lambda f: called.append(("last", f.done())))
    assert has_bell(future)
    assert called == []
    with caplog.at_level(logging.ERROR, "concurrent.futures"):
        here.pool.run_all()
    assert called == [("first", 0), ("last", True)]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError, SystemExit]
    future.add_done_callback(lambda f: called.append("after"))
    assert called[-1] == "after"


def test_a_cancelled_task_calls_back_too() -> None:
    here = Stepped()
    called: list[Future[Any]] = []
    future = here.tasks.submit(int)
    future.add_done_callback(called.append)
    future.cancel()
    assert called == [future]


def test_a_waiter_that_comes_between_the_two_writes_of_the_end_writes_the_state_itself() -> None:
    """The worker has noted that no thread waits, and is about to write the state."""
    here = Stepped()
    for end, over in (("done", "FINISHED"), ("cancelled", "CANCELLED_AND_NOTIFIED")):
        future = here.tasks.submit(int)
        future._result, future._end = 7, end
        future.__dict__["_meeting"] = NOBODY
        assert future._state == "PENDING"
        assert wait([future], timeout=1).done == {future}
        assert future._state == over
        future._state = "PENDING"
        called: list[Any] = []
        future.add_done_callback(called.append)
        assert called == [future]
        future._state = "PENDING"
        future.wait_for_end(1)


@pytest.mark.parametrize("how", ["result", "callback", "wait"])
def test_a_waiter_that_comes_while_the_worker_writes_the_end_misses_nothing(how: str) -> None:
    """It comes after the worker has looked for waiters, and before the worker has written the state."""
    here = Stepped()
    future = here.tasks.submit(pow, 2, 3)
    found: list[Any] = []

    def wait_for_it() -> None:
        if how == "result":
            found.append(future.result(2))
        elif how == "callback":
            future.add_done_callback(lambda ended: found.append(ended.result(0)))
        else:
            found.extend(ended.result(0) for ended in as_completed([future], timeout=2))

    class Meets(TaskFuture):
        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "_state" and value == "FINISHED" and "met" not in self.__dict__:
                self.__dict__["met"] = True
                waiter = threading.Thread(target=wait_for_it)
                waiter.start()
                waiter.join(60)
            super().__setattr__(name, value)

    future.__class__ = Meets
    here.pool.run_all()
    assert found == [8]
    assert future.result() == 8


def test_waiters_and_workers_that_meet_miss_nothing() -> None:
    """Many short tasks, and waiters that come at any moment of their end."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Threaded(3) as tasks:
            called: list[int] = []
            for n in range(300):
                futures = [tasks.submit(pow, 2, n) for _ in range(3)]
                futures[1].add_done_callback(lambda _, n=n: called.append(n))  # type: ignore[misc]
                assert len(list(as_completed(futures, timeout=60))) == 3
                assert [future.result(60) for future in futures] == [2**n] * 3
        assert sorted(called) == list(range(300))
    finally:
        sys.setswitchinterval(interval)


def test_the_outcome_of_a_task_is_its_schedulers_alone() -> None:
    future = Stepped().tasks.submit(int)
    for end in (lambda: future.set_result(1), lambda: future.set_exception(None), future.set_running_or_notify_cancel):
        with pytest.raises(RuntimeError, match="by its scheduler alone"):
            end()
    assert future.state == "waiting"
