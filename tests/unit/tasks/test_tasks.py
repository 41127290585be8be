"""Ten thousand tasks that do what they should not, on two threads: all are accounted for."""

from __future__ import annotations

import datetime as dt
import logging
import random
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from task_pools import KnownGroups, Stepped, SteppedPool, Threaded, raises

from strand.errors import ConfigurationError, TaskDropped, TaskExpired, UnknownSymbolError, WouldDeadlockError
from strand.policies.aging import Aging
from strand.policies.fair import Fair
from strand.policies.policy import LEVELS, Fifo, Levels
from strand.tasks import Ranks, RetryPolicy, TaskFuture, TaskGroup, Tasks, current_task
from strand.tasks.future import ENDS
from strand.testing import Clock

pytestmark = pytest.mark.python


def test_man_or_boy(caplog: pytest.LogCaptureFixture) -> None:
    """They raise, sleep, exit, cancel each other, wait for each other, change priorities, and submit more."""
    random_ = random.Random(25)
    lock = threading.Lock()
    futures: list[TaskFuture] = []
    wanted = 10_000
    before = threading.active_count()
    starts: Counter[int] = Counter()
    key_now: Counter[Any] = Counter()
    wrong: list[str] = []
    callbacks: Counter[int] = Counter()
    retry = RetryPolicy(max_retries=2, base_delay="1ms", max_delay="5ms", on_alert=lambda *_: None)

    def submit(tasks: Tasks) -> None:
        with lock:
            if len(futures) >= wanted:
                return
            key = random_.choice([None, None, None, *range(20)])
            executor = tasks.options(
                priority=random_.choice(LEVELS),
                key=key,
                retry=random_.choice([None, retry]),
                delay=random_.choice([None, None, None, "1ms", "20ms"]),
                deadline=random_.choice([None, None, "1s", "30ms"]),
                expire_if=random_.choice([None] * 8 + [lambda: True, lambda: "high", lambda: 1 / 0]),
            )
            future = executor.submit(work, tasks, len(futures), key, random_.random())
            futures.append(future)
        future.add_done_callback(lambda ended: callbacks.update([ended.id]))  # type: ignore[attr-defined]

    def work(tasks: Tasks, n: int, key: Any, what: float) -> None:
        if key is not None:
            key_now[key] += 1
            if key_now[key] != 1:
                wrong.append(f"{key} runs twice")
        try:
            starts[n] += 1
            act(tasks, what)
        finally:
            if key is not None:
                key_now[key] -= 1

    def act(tasks: Tasks, what: float) -> None:
        for _ in range(2 if what < 0.6 else 0):
            submit(tasks)
        some = futures[int(what * 7919 * len(futures)) % len(futures)]
        if what < 0.1:
            raise ValueError(what)
        if what < 0.2:
            raise OSError(what)
        if what < 0.25:
            raise SystemExit(1)
        if what < 0.27:
            raise KeyboardInterrupt
        if what < 0.4:
            some.cancel(running=what < 0.3)
        elif what < 0.5:
            time.sleep(0.0002)
        elif what < 0.6:
            some.reprioritise("immediate")
        elif what < 0.63:
            some.exception(0.001)

    with caplog.at_level(logging.CRITICAL), Threaded(2, seed=3) as tasks:
        while len(futures) < wanted:
            submit(tasks)
        tasks.shutdown(timeout=200)
        ends = Counter(future.state for future in futures)
        assert sum(tasks.pending_count().values()) == 0
        assert tasks._core.table.alive == {}
        assert len(tasks._core.states.keys) == len(tasks._core.timers) == 0
        assert len(tasks.dead_letters) + tasks.dead_letters.dropped == ends["dead"]
    assert wrong == []
    assert len(futures) == wanted == sum(ends.values())
    assert set(ends) <= set(ENDS)
    assert min(ends[end] for end in ("done", "failed", "cancelled", "expired", "dead")) > 10
    assert set(callbacks.values()) == {1}
    assert len(callbacks) == wanted
    for n, future in enumerate(futures):
        assert starts[n] == future.attempts
        if future.state in ("done", "dead"):
            assert starts[n] > 0
    assert threading.active_count() == before


def test_the_pending_are_counted_by_level() -> None:
    with Threaded(1) as tasks:
        gate, begun = threading.Event(), threading.Event()
        tasks.submit(lambda: (begun.set(), gate.wait(60)))
        begun.wait(60)
        tasks.options(priority="low").submit_many(int, ["1", "2"])
        tasks.options(priority="low", key="k").submit_many(int, ["1", "2"])
        tasks.options(priority="high", delay="1h").submit(int).cancel()
        assert tasks.pending_count() == {"immediate": 0, "high": 0, "retry": 0, "normal": 0, "low": 4}
        gate.set()


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


def test_options_are_in_ns_and_make_an_executor() -> None:
    here = Stepped(hold={"low": "30s"})
    group, retry = TaskGroup(), RetryPolicy()
    found = here.tasks.options(
        priority="low",
        key=("a", 1),
        deadline=dt.timedelta(minutes=1),
        delay="20s",
        retry=retry,
        group=group,
        marks="io",
    )._options
    assert (found.number, found.priority, found.key, found.deadline_ns) == (4, "low", ("a", 1), 60 * 10**9)
    assert (found.delay_ns, found.waits_ns, found.place) == (20 * 10**9, 30 * 10**9, "held")
    assert (found.retry, found.group, found.marks, found.goes_at_once) == (retry, group, 1, False)
    assert here.tasks.options(marks=["io", "frees_memory"])._options.marks == 3
    assert here.tasks._options.goes_at_once
    assert here.tasks.options(priority="high", retry=retry)._options.goes_at_once


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


def test_levels_have_names_and_the_smaller_number_is_higher() -> None:
    ranks = Ranks(Levels(hold={"low": "30s"}))
    assert [ranks.number_of("priority", level) for level in ("immediate", "low")] == [0, 4]
    assert (ranks.name_of(1, None), ranks.usual) == ("high", 3)
    assert (ranks.highest(3, [3, 1, 4]), ranks.highest(2, [2])) == (1, 2)
    assert (ranks.for_retry(0), ranks.for_retry(4)) == (2, 2)
    assert (ranks.raised(4), ranks.raised(0)) == (3, 0)
    assert (ranks.hold_ns(4), ranks.hold_ns(3)) == (30 * 10**9, 0)
    assert ranks.by_name([0, 0, 1, 0, 2]) == {"immediate": 0, "high": 0, "retry": 1, "normal": 0, "low": 2}
    assert [ranks.place_of(level) for level in range(5)] == [0, 1, 2, 3, 4]


def test_aging_has_numbers_and_the_bigger_one_is_higher() -> None:
    ranks = Ranks(Aging())
    small, big = (ranks.number_of("priority", base) for base in (-5, 5))
    assert ranks.highest(small, [small, big]) == big
    assert ranks.for_retry(big) == ranks.raised(big) == big
    assert ranks.name_of(big, 5) == 5
    assert (ranks.place_of(big), ranks.by_name([2])) == (0, {"normal": 2})


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
    tasks = Tasks(pool, Ranks(Fair(), KnownGroups("(tasks)", "mail", "web")), clock=Clock())
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


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a policy"):
        Ranks("levels")  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [Fifo(), Aging(), Fair(), Levels()])
def test_without_a_hold_nothing_is_held(policy: Any) -> None:
    ranks = Ranks(policy)
    assert {ranks.hold_ns(ranks.usual), ranks.hold_ns(4)} == {0}


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


def test_a_deadline_may_be_set_and_taken_away() -> None:
    here = Stepped()
    first, second = here.tasks.submit(int), here.tasks.options(deadline="1s").submit(int)
    first.set_deadline("1s")
    second.set_deadline(None)
    here.clock.advance(1)
    here.pool.run_all()
    assert (first.state, second.state) == ("expired", "done")


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
