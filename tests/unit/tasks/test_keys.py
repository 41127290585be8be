"""Tasks of one key run in order, one at a time, and a high one is not held up by low ones before it."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from typing import Any

import pytest
from task_pools import Stepped, Threaded, raises

from strand import Scheduler
from strand.errors import TaskDropped, WouldDeadlockError
from strand.tasks import RetryPolicy, TaskFuture
from strand.tasks.timers import Deadlines

pytestmark = pytest.mark.python


def test_a_key_waits_for_the_retry_of_its_head() -> None:
    here = Stepped()
    ran: list[str] = []

    def fails_once() -> None:
        ran.append("first")
        if ran.count("first") == 1:
            raise ArithmeticError

    retry = RetryPolicy(base_delay="2s", jitter=0)
    first = here.tasks.options(key="k", retry=retry).submit(fails_once)
    here.tasks.options(key="k").submit(ran.append, "second")
    here.tasks.submit(ran.append, "other")
    here.pool.run_all()
    assert (sorted(ran), first.state) == (["first", "other"], "retrying")
    here.advance(3)
    assert ran[2:] == ["first", "second"]


def test_when_the_pool_stops_the_tasks_behind_are_dropped_however_many() -> None:
    here = Stepped()
    futures = [here.tasks.options(key="k").submit(int) for _ in range(5000)]
    here.pool.stopped = True
    here.pool.step()
    assert futures[0].state == "done"
    assert {future.state for future in futures[1:]} == {"dropped"}
    with pytest.raises(TaskDropped, match="could not be listed: the pool has stopped"):
        futures[-1].result()
    assert len(here.tasks._core.states.keys) == 0


def test_a_task_that_waits_for_one_behind_it_is_refused() -> None:
    here = Stepped()
    behind: list[TaskFuture] = []
    first = here.tasks.options(key="k").submit(lambda: behind[0].result())  # noqa: PLW0108  # it is not there yet
    behind.append(here.tasks.options(key="k").submit(int))
    here.pool.run_all()
    assert isinstance(first.exception(), WouldDeadlockError)
    assert behind[0].result() == 0


def test_a_task_that_waits_for_a_delayed_one_of_its_key_is_refused() -> None:
    here = Stepped()
    behind = here.tasks.options(key="k", delay="1s").submit(int)
    first = here.tasks.options(key="k").submit(behind.result)
    here.pool.run_all()
    assert isinstance(first.exception(), WouldDeadlockError)


def test_a_circle_over_keys_and_results_is_found() -> None:
    """A waits for b2, which is behind b1 of its key, which waits for A."""
    with Threaded(2) as tasks:
        go, waits = threading.Event(), threading.Event()
        found: dict[str, TaskFuture] = {}

        def wait_for(name: str) -> Any:
            go.wait(60)
            return found[name].result(60)

        found["a"] = tasks.options(key="a").submit(wait_for, "b2")
        found["b1"] = tasks.options(key="b").submit(wait_for, "a")
        found["b2"] = tasks.options(key="b").submit(int)
        go.set()
        errors = [found[name].exception(60) for name in ("a", "b1")]
        assert any(isinstance(error, WouldDeadlockError) for error in errors)
        assert found["b2"].result(60) == 0
        waits.set()


def test_a_visit_goes_on_to_the_next_task_of_the_key_as_long_as_all_have_one_priority() -> None:
    here = Stepped()
    here.pool.may_go_on = lambda elapsed_ns: True  # type: ignore[method-assign]
    ran: list[int] = []
    several = [here.tasks.options(key="k").submit(ran.append, n) for n in range(6)]
    several[1].cancel()
    other = here.tasks.submit(ran.append, 100)
    high = here.tasks.options(key="k", priority="high").submit(ran.append, 6)
    here.pool.step()
    assert ran == [0], "the order has two priorities"
    high.cancel()
    assert here.pool.step()
    assert sorted(ran) in ([0, 2, 3, 4, 5], [0, 100])
    here.pool.run_all()
    assert sorted(ran) == [0, 2, 3, 4, 5, 100]
    assert other.done()
    assert len(here.tasks._core.states.keys) == 0


def test_a_visit_does_not_go_on_past_what_the_guard_may_hold_back() -> None:
    here = Stepped()
    here.pool.may_go_on = lambda elapsed_ns: True  # type: ignore[method-assign]
    ran: list[int] = []
    here.tasks.options(key="k").submit(ran.append, 0)
    here.tasks.options(key="k", marks="io").submit(ran.append, 1)
    here.pool.step()
    assert ran == [0]
    here.pool.run_all()
    assert ran == [0, 1]


def test_a_task_of_a_visit_that_fails_or_is_over_its_deadline_ends_as_it_would_by_itself() -> None:
    here = Stepped()
    here.pool.may_go_on = lambda elapsed_ns: elapsed_ns < 10**9  # type: ignore[method-assign]
    first = here.tasks.options(key="k").submit(lambda: here.clock.wait_until(here.clock.now_ns() + 2_000_000_000))
    late = here.tasks.options(key="k", deadline="1s").submit(int)
    failing = here.tasks.options(key="k").submit(raises(ArithmeticError()))
    last = here.tasks.options(key="k").submit(int)
    here.pool.step()
    assert (first.state, late.state) == ("done", "waiting"), "the visit is over its time"
    here.pool.run_all()
    assert [task.state for task in (late, failing, last)] == ["expired", "failed", "done"]


def test_a_task_that_expires_before_it_joins_its_key_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timers' thread may end a task before the submitting thread has put it into the order of its key."""
    add = Deadlines.add

    def add_and_wait(deadlines: Deadlines, task: TaskFuture, due_ns: int) -> None:
        add(deadlines, task, due_ns)
        wait([task], 30)

    with Scheduler(1) as scheduler:
        monkeypatch.setattr(Deadlines, "add", add_and_wait)
        late = scheduler.options(key="key", deadline="1us").submit(int)
        assert late.state == "expired"
        assert scheduler.options(key="key").submit(int).result(30) == 0
        assert scheduler.statistics().pending == 0
