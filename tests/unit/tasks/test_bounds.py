"""A bound counts the tasks that could start now or wait for a turn, and a deadline ends a waiting task at its time."""

from __future__ import annotations

import datetime as dt
import threading
import time
from typing import Any

import pytest
from engine_support import wait_until
from task_pools import Stepped, raises

from strand import Aging, Fair, Fifo, Levels, RetryPolicy, Scheduler, TaskGroup
from strand.errors import ConfigurationError, QueueFull, TaskExpired

pytestmark = pytest.mark.python

HOLD = {"low": "30s"}
BUSY = RetryPolicy(max_retries=1, base_delay="10s", jitter=0)


def test_held_and_delayed_tasks_take_no_room_of_those_that_could_start() -> None:
    here = Stepped(max_queue=2, max_held=3, hold=HOLD)
    held = here.tasks.options(priority="low").submit_many(int, ["1", "2"])
    here.tasks.options(delay="5s").submit(int)
    for refused in (here.tasks.options(priority="low"), here.tasks.options(delay="1s", key="k")):
        with pytest.raises(QueueFull, match="max_held: 3 of 3 tasks are delayed or held, and 1 more"):
            refused.submit(int)
    here.tasks.submit_many(int, ["1", "2"])
    with pytest.raises(QueueFull, match="max_queue: 2 of 2 tasks wait"):
        here.tasks.submit(int)
    held[0].cancel()
    here.tasks.options(delay="5s").submit(int)
    here.advance(40)
    assert here.tasks.pending_total() == 0


def test_what_was_held_is_not_refused_when_its_time_has_come() -> None:
    here = Stepped(max_queue=1, hold=HOLD)
    held = here.tasks.options(priority="low").submit_many(int, ["1", "2", "3"])
    here.clock.wait_until(31 * 10**9)
    here.tasks.fire()
    assert [future.state for future in held] == ["waiting"] * 3
    with pytest.raises(QueueFull, match="max_queue: 3 of 1"):
        here.tasks.submit(int)
    here.pool.run_all()
    assert [future.result() for future in held] == [1, 2, 3]


def test_a_retry_is_never_refused_and_waits_beside_the_bounds() -> None:
    here = Stepped(max_queue=1, max_held=1)
    fails = here.tasks.options(retry=BUSY).submit(raises(ConnectionError()))
    here.pool.run_all()
    assert fails.state == "retrying"
    here.tasks.submit(int)
    here.tasks.options(delay="1h").submit(int)
    here.clock.wait_until(here.clock.now_ns() + 10**10)
    here.tasks.fire()
    assert fails.state == "waiting"
    here.pool.run_all()
    assert (fails.state, fails.attempts) == ("dead", 2)


def test_a_level_may_have_a_bound_of_its_own() -> None:
    here = Stepped(max_queue=5, max_queue_by_level={"low": 1, "normal": 2})
    low = here.tasks.options(priority="low")
    first = low.submit(int)
    with pytest.raises(QueueFull, match="max_queue_by_level: 1 of 1 tasks of level 'low' wait"):
        low.submit(int)
    here.tasks.submit_many(int, ["1", "2"])
    with pytest.raises(QueueFull, match="level 'normal'"):
        here.tasks.submit(int)
    assert first.reprioritise("high")
    low.submit(int)
    here.tasks.options(priority="immediate").submit(int)
    with pytest.raises(QueueFull, match="max_queue: 5 of 5"):
        here.tasks.options(priority="immediate").submit(int)
    assert here.tasks.pending_count() == {"immediate": 1, "high": 1, "retry": 0, "normal": 2, "low": 1}


@pytest.mark.parametrize("policy", [Fifo(), Aging(), Fair()])
def test_bounds_by_level_need_levels(policy: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"max_queue_by_level: .* has no levels"):
        Scheduler(1, max_queue_by_level={"low": 1}, policy=policy)


@pytest.mark.parametrize("policy", [Levels(), Aging(), Fair(), Fifo()])
@pytest.mark.parametrize("options", [{}, {"key": "k"}, {"delay": "1ms"}, {"group": True}])
def test_a_deadline_ends_a_waiting_task_while_all_workers_are_busy(policy: Any, options: dict[str, Any]) -> None:
    gate = threading.Event()
    with Scheduler(1, max_queue=3, max_held=3, policy=policy) as scheduler:
        begun = scheduler.submit(gate.wait, 60)
        wait_until(begun.running)
        if options.pop("group", False):
            options = {"group": TaskGroup()}
        late = [scheduler.options(deadline="10ms", **options).submit(int) for _ in range(3)]
        in_time = dt.datetime.now(dt.UTC) + dt.timedelta(milliseconds=10)
        for future in late:
            with pytest.raises(TaskExpired, match="deadline"):
                future.result(60)
        moment = scheduler.options(deadline=in_time).submit(int)
        assert isinstance(moment.exception(60), TaskExpired)
        assert begun.running()
        assert scheduler.pending_total() == 0
        scheduler.submit(int)  # there is room
        gate.set()


@pytest.mark.parametrize("over", [0, -1, 0.0, "0s", "-3s", dt.timedelta(0), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)])
def test_a_deadline_that_is_over_expires_the_task(over: Any) -> None:
    ran: list[int] = []
    with Scheduler(1, policy=Levels(hold=HOLD)) as scheduler:
        expired = [
            scheduler.options(deadline=over).submit(ran.append, 1),
            scheduler.options(deadline=over, priority="low").submit(ran.append, 1),
        ]
        later = scheduler.options(delay="1h").submit(ran.append, 1)
        assert later.set_deadline(over)
        for future in (*expired, later):
            assert isinstance(future.exception(60), TaskExpired)
    assert ran == []


@pytest.mark.parametrize("at_once", [0, -5, -1.5, "0s", "-3s", dt.timedelta(seconds=-1)])
def test_a_delay_of_nothing_and_less_is_none(at_once: Any) -> None:
    here = Stepped()
    future = here.tasks.options(delay=at_once).submit(int)
    assert here.pool.run_all() == 1
    assert future.result() == 0


def test_a_moment_in_another_zone_is_the_same_moment() -> None:
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    soon = dt.datetime.now(zone) + dt.timedelta(hours=1)
    with Scheduler(1) as scheduler:
        before = time.monotonic_ns()
        future = scheduler.options(deadline=soon, delay="20ms").submit(int)
        assert future.deadline_ns is not None
        assert future.deadline_ns - before == pytest.approx(3600 * 10**9, abs=60 * 10**9)
        with pytest.raises(ConfigurationError, match="delay: after 2h"):
            scheduler.options(deadline=soon, delay="2h").submit(int)
        assert future.result(60) == 0


def test_deadlines_of_tasks_that_have_begun_are_cleared_out() -> None:
    here = Stepped()
    for _ in range(5000):
        here.tasks.options(deadline="1h").submit(int)
        here.pool.run_all()
    assert len(here.tasks._core.waiting.deadlines._heap) <= 1100


@pytest.mark.parametrize(
    "policy", [Levels(), Aging(classes={"urgent": 4.0, "high": 2.0, "normal": 1.0}, low_every=3), Fair()]
)
def test_cancelled_tasks_give_their_memory_back_while_all_workers_are_busy(policy: Any) -> None:
    """The engine uses the same entries again, so its table of tasks does not fill."""
    gate = threading.Event()
    with Scheduler(1, policy=policy) as scheduler:
        scheduler.submit(gate.wait, 60)
        waits = scheduler.submit(int)
        for _ in range(2000):
            assert scheduler.submit(int).cancel()
        totals = scheduler._engine.tasks.totals(on_strands=False)
        assert totals.submitted - totals.ended <= 2
        assert totals.cancelled == 2000
        gate.set()
    assert waits.result() == 0
