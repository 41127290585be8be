"""Ten thousand tasks that do what they should not, on two threads: all are accounted for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from task_pools import KnownGroups, Stepped, SteppedPool, raises, tasks_over

from strand.errors import ConfigurationError, TaskDropped, TaskExpired, UnknownSymbolError, WouldDeadlockError
from strand.policies.policy import Fair, Fifo
from strand.tasks import Ranks, RetryPolicy, TaskGroup, current_task
from strand.testing import Clock

pytestmark = pytest.mark.python


# ---- How a task comes in: what a plain one costs, and what is taken back


class NoLock:
    """Fails where it is taken."""

    def acquire(self, blocking: bool = True) -> bool:
        raise AssertionError("a plain task took a lock")

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        pass


def test_a_plain_task_takes_no_lock() -> None:
    here = Stepped()
    core = here.tasks._core
    for part in (core.table, core.states):
        part.lock = NoLock()  # type: ignore[assignment]
    futures = [here.tasks.submit(int), here.tasks.options(priority="high", deadline="1s").submit(int)]
    here.pool.run_all()
    assert [future.result() for future in futures] == [0, 0]
    with pytest.raises(AssertionError, match="took a lock"):
        core.table.take_lock()


# ---- Options of tasks are checked where they are given, against each other too


def test_a_symbol_stands_alone() -> None:
    def strand_of(symbol: Any) -> int:
        if symbol != "AAPL":
            raise UnknownSymbolError(f"{symbol}?")
        return 7

    here = Stepped(strand_of=strand_of)
    assert here.tasks.options(symbol="AAPL")._options.strand == 7
    for options in ({"key": "k"}, {"priority": "high"}):
        with pytest.raises(ConfigurationError, match="symbol"):
            here.tasks.options(symbol="AAPL", **options)
    with pytest.raises(UnknownSymbolError):
        here.tasks.options(symbol="MSFT")


# ---- What is looked at before a task starts, and what its thread has to bear


@pytest.mark.parametrize(
    ("answer", "state", "priority"),
    [
        (None, "done", "low"),
        (False, "done", "low"),
        (True, "expired", "low"),
        (np.True_, "expired", "low"),
        (np.False_, "done", "low"),
        ("high", "done", "high"),
        ("low", "done", "low"),
        ("hihg", "failed", "low"),
        (0, "failed", "low"),
    ],
)
def test_expire_if_drops_a_task_moves_it_or_lets_it_start(answer: Any, state: str, priority: str) -> None:
    here = Stepped()
    future = here.tasks.options(priority="low", key="k", expire_if=lambda: answer).submit(int)
    here.pool.run_all()
    assert (future.state, future.priority) == (state, priority)
    if state == "expired":
        with pytest.raises(TaskExpired) as caught:
            future.result()
        assert caught.value.reason == "expire_if"
    if state == "failed":
        assert isinstance(future.exception(), ConfigurationError)


def test_a_task_that_expire_if_moves_waits_anew_and_can_be_cancelled() -> None:
    here = Stepped()
    future = here.tasks.options(priority="high", expire_if=lambda: "low").submit(int)
    other = here.tasks.options(priority="normal").submit(future.cancel)
    here.pool.run_all()
    assert (other.result(), future.state, future.attempts) == (True, "cancelled", 0)


def test_what_is_asked_about_a_task_runs_as_a_part_of_it() -> None:
    """So a wait for itself is refused in ``expire_if``, in ``classify`` and in ``on_alert``."""
    here = Stepped()
    told: list[Any] = []

    def asks(*_: Any) -> str:
        assert current_task() is future
        for wait in (here.tasks.shutdown, future.result):
            with pytest.raises(WouldDeadlockError):
                wait()
        told.append(1)
        return "system"

    retry = RetryPolicy(max_retries=0, classify=asks, on_alert=asks)
    future = here.tasks.options(expire_if=lambda: asks() == "", retry=retry).submit(raises(ArithmeticError()))
    here.pool.run_all()
    assert (future.state, len(told), current_task()) == ("dead", 3, None)


# ---- A policy's priorities, as tasks and their pool have them


@pytest.mark.parametrize("policy", [Fifo(), Fair()])
def test_policies_without_priorities_refuse_them_and_run_tasks(policy: Any) -> None:
    here = Stepped(policy=policy)
    with pytest.raises(ConfigurationError, match="priority"):
        here.tasks.options(priority="high")
    futures = [here.tasks.options(key="k").submit(pow, 2, n) for n in range(3)]
    here.pool.run_all()
    assert [future.result() for future in futures] == [1, 2, 4]
    assert here.tasks.pending_count() == {}


def test_under_a_policy_of_groups_a_tasks_number_is_its_groups() -> None:
    pool = SteppedPool()
    tasks = tasks_over(pool, Ranks(Fair(), KnownGroups("(tasks)", "mail", "web")), clock=Clock())
    mail, web = TaskGroup("mail"), TaskGroup("web")
    alone = tasks.submit(int)
    keyed = [tasks.options(group=group, key="k").submit(int) for group in (mail, web)]
    moved = tasks.options(group=web).submit(int)
    moved.set_group(mail)
    with mail:
        inside = tasks.submit_many(int, ["1", "2"])
        listed = [pool.priority_of(task.id) for task in (alone, keyed[0], moved, *inside)]
        assert listed == [0, 1, 1, 1, 1]
        tasks.run(keyed[0].id)
        assert pool.priority_of(keyed[1].id) == 2
        mail.cancel()
    waits = tasks.statistics().wait_by_priority
    assert {name: found.count for name, found in waits.items()} == {"(tasks)": 0, "mail": 1, "web": 0}


# ---- Tasks that are delayed or held, and what may change meanwhile


def test_a_held_task_does_not_start_even_where_nothing_else_waits() -> None:
    here = Stepped(hold={"low": "30s"})
    future = here.tasks.options(priority="low").submit(int)
    assert (future.state, here.pool.step(), here.tasks.pending_count()["low"]) == ("held", False, 1)
    here.advance(29.9)
    assert future.state == "held"
    here.advance(0.1)
    assert (future.state, future.waited_ns) == ("done", 30 * 10**9)


def test_a_held_task_that_gets_another_level_is_due_by_that_ones_hold() -> None:
    here = Stepped(hold={"low": "30s", "normal": "10s"})
    futures = [here.tasks.options(priority="low").submit(int) for _ in range(3)]
    delayed = here.tasks.options(priority="normal", delay="20s").submit(int)
    here.advance(5)
    futures[0].reprioritise("high")
    futures[1].reprioritise("normal")
    delayed.reprioritise("low")
    assert len(here.tasks._core.timers) == 4  # each task has one
    here.advance(0)
    assert [future.state for future in futures] == ["done", "held", "held"]
    here.advance(5)
    assert [future.state for future in futures] == ["done", "done", "held"]
    here.advance(15)
    assert (futures[2].state, delayed.state) == ("held", "held")
    here.advance(5)
    assert (futures[2].state, delayed.state) == ("done", "done")


def test_no_change_brings_a_deadline_before_the_end_of_a_wait() -> None:
    here = Stepped(hold={"low": "30s"})
    delayed = here.tasks.options(delay="10s", deadline="20s").submit(int)
    with pytest.raises(ConfigurationError, match="the hold of its level ends after the deadline"):
        delayed.reprioritise("low")
    assert (delayed.priority, delayed.state) == ("normal", "delayed")
    with pytest.raises(ConfigurationError, match="is delayed until after it"):
        delayed.set_deadline("10s")
    assert delayed.set_deadline("11s")
    here.advance(10)
    assert delayed.state == "done"


def test_ctrl_c_in_a_callback_in_the_main_thread_comes_out_and_the_key_goes_on() -> None:
    here = Stepped()
    first, second = (here.tasks.options(key="k").submit(int) for _ in range(2))
    first.add_done_callback(raises(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        first.cancel()
    here.pool.run_all()
    assert (first.state, second.state, here.tasks._core.table.alive) == ("cancelled", "done", {})


def test_a_delayed_task_can_be_cancelled_or_dropped_and_leaves_the_heap() -> None:
    here = Stepped()
    futures = [here.tasks.options(delay="1s").submit(int) for _ in range(2)]
    futures[0].cancel()
    assert here.tasks.drop(futures[1].id, "the level is full")
    assert len(here.tasks._core.timers) == 0
    with pytest.raises(TaskDropped, match=f"task {futures[1].id} was dropped: the level is full"):
        futures[1].result()


def test_the_priority_of_a_symbols_task_is_its_symbols() -> None:
    def strand_of(symbol: str) -> int:
        if symbol == "?":
            raise UnknownSymbolError("?")
        return 3

    here = Stepped(strand_of=strand_of, hold={"normal": "1s"})
    future = here.tasks.options(symbol="AAPL").submit(int)
    assert (future.state, here.pool.on_strands) == ("waiting", [(3, future.id)])
    with pytest.raises(ConfigurationError, match="priority: a symbol's strand has one"):
        future.reprioritise("high")


def test_the_old_timer_of_a_held_task_does_not_list_it_a_second_time() -> None:
    """It was about to come when the task got another level: its action is under way."""
    here = Stepped(hold={"low": "1s", "normal": "2s"})
    future = here.tasks.options(priority="low").submit(int)
    action = future._timer.action
    here.clock.advance(1)
    future.reprioritise("normal")
    action()
    assert (future.state, len(here.pool.listed)) == ("held", 0)
    here.advance(5)
    assert future.attempts == 1
    assert len(here.tasks._core.timers) == 0
