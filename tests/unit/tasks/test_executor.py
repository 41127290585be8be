"""An executor of tasks is one of concurrent.futures, and its shutdown always ends."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Executor, wait
from types import SimpleNamespace
from typing import Any

import pytest
from task_pools import Stepped, Threaded, raises

from strand.errors import ConfigurationError, QueueFull, StoppedError, WouldDeadlockError
from strand.tasks import RetryPolicy
from strand.tasks.core import Shutdown
from strand.tasks.timers import Deadlines, Timer, Timers
from strand.testing import Clock
from strand.threads import Bell

pytestmark = pytest.mark.python


def test_all_keywords_go_to_the_function() -> None:
    here = Stepped()
    high = here.tasks.options(priority="high")
    assert isinstance(high, Executor)
    found = high.submit(lambda *args, **kwargs: (args, kwargs), 1, fn=2, priority=3, self=4)
    here.pool.run_all()
    assert found.result() == ((1,), {"fn": 2, "priority": 3, "self": 4})
    with pytest.raises(TypeError, match="5 is neither callable nor the name of a task"):
        high.submit(5)  # type: ignore[arg-type]


def test_map_gives_results_in_order_and_an_error_in_its_place() -> None:
    with Threaded() as tasks:
        assert list(tasks.options(priority="low").map(pow, [2, 3], [5, 2])) == [32, 9]
        results = tasks.map(lambda x: 1 // x, [1, 0, 1])
        assert next(results) == 1
        with pytest.raises(ZeroDivisionError):
            next(results)


def test_many_are_submitted_at_once_with_all_options() -> None:
    here = Stepped()
    retry = RetryPolicy(max_retries=0)
    for options in ({}, {"key": "k", "retry": retry}, {"delay": "1s"}, {"deadline": "9s", "marks": "io"}):
        futures = here.tasks.options(**options).submit_many(pow, [2, 3, 4], [2, 2, 2])  # type: ignore[arg-type]
        here.advance(2)
        assert [future.result() for future in futures] == [4, 9, 16]
    assert here.tasks.submit_many(int, []) == []


def test_a_full_queue_refuses_and_takes_none_of_many() -> None:
    here = Stepped(max_queue=3)
    first = here.tasks.submit(int)
    with pytest.raises(QueueFull, match="1 of 3 tasks wait, and 3 more") as caught:
        here.tasks.submit_many(int, *[["1", "2", "3"]])
    assert caught.value.rejected.tolist() == [0, 1, 2]
    assert here.tasks.pending_count()["normal"] == 1
    here.tasks.submit_many(int, ["1", "2"])
    with pytest.raises(QueueFull):
        here.tasks.submit(int)
    assert first.cancel()
    here.tasks.submit(int)
    here.pool.run_all()
    here.tasks.options(retry=RetryPolicy()).submit(raises(ConnectionError()))
    here.pool.run_all()
    here.tasks.submit_many(int, ["1", "2", "3"])  # the one that waits for its retry could not start
    with pytest.raises(QueueFull):
        here.tasks.submit(int)


def test_a_pool_that_refuses_leaves_nothing_behind() -> None:
    here = Stepped(max_queue=5)
    here.pool.stopped = True
    for options in ({}, {"key": "k"}, {"marks": "io"}):
        executor = here.tasks.options(**options)  # type: ignore[arg-type]
        for submit in (lambda: executor.submit(int), lambda: executor.submit_many(int, ["1", "2"])):  # noqa: B023
            with pytest.raises(StoppedError, match="the pool has stopped"):
                submit()
    assert (here.tasks._core.table.alive, here.tasks.pending_total()) == ({}, 0)
    assert len(here.tasks._core.states.keys) == 0
    plain = Stepped()
    plain.pool.stopped = True
    with pytest.raises(StoppedError):
        plain.tasks.submit(int)
    assert plain.tasks._core.table.alive == {}


def test_a_delayed_task_that_the_pool_refuses_is_dropped() -> None:
    here = Stepped()
    future = here.tasks.options(delay="1s").submit(int)
    here.pool.stopped = True
    here.advance(1)
    assert future.state == "dropped"


def test_shutdown_waits_for_delayed_tasks_and_retries() -> None:
    ran: list[Any] = []
    with Threaded() as tasks:

        def fails_once() -> None:
            ran.append("try")
            if len(ran) == 1:
                raise ArithmeticError

        first = tasks.options(retry=RetryPolicy(base_delay="10ms")).submit(fails_once)
        later = tasks.options(delay="50ms").submit(ran.append, "later")
        tasks.shutdown()
        assert (first.state, later.state) == ("done", "done")
        [thread] = tasks._core.timers._threads
        assert not thread.is_alive()


def test_shutdown_may_cancel_what_has_not_begun_and_tasks_that_fail_then() -> None:
    with Threaded(1) as tasks:
        begun, gate = threading.Event(), threading.Event()

        def fails() -> None:
            begun.set()
            gate.wait(60)
            raise ArithmeticError

        running = tasks.options(retry=RetryPolicy()).submit(fails)
        begun.wait(60)
        futures = [tasks.submit(int), tasks.options(delay="1h").submit(int), tasks.options(key="k").submit(int)]
        tasks.shutdown(wait=False, cancel_futures=True)
        assert {future.state for future in futures} == {"cancelled"}
        gate.set()
        tasks.shutdown()
        assert (running.state, running.attempts) == ("cancelled", 1)


def test_a_shutdown_that_takes_too_long_raises_and_can_be_called_again() -> None:
    with Threaded(1) as tasks:
        gate = threading.Event()
        tasks.submit(gate.wait, 60)
        for timeout in (0, 0.05):
            with pytest.raises(TimeoutError, match="1 tasks have not ended"):
                tasks.shutdown(timeout=timeout)
        with pytest.raises(ConfigurationError):
            tasks.shutdown(timeout="soon")  # type: ignore[arg-type]
        gate.set()


def test_the_time_limit_of_a_shutdown_is_for_its_tasks_and_not_for_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    end = Shutdown._end_threads

    def end_late(shutdown: Shutdown) -> None:
        time.sleep(0.2)
        end(shutdown)

    monkeypatch.setattr(Shutdown, "_end_threads", end_late)
    here = Stepped()
    future = here.tasks.submit(int)
    here.pool.run_all()
    here.tasks.shutdown(timeout=0)
    assert future.result() == 0


def test_a_task_cannot_wait_for_its_own_schedulers_end() -> None:
    here, other = Stepped(), Stepped()
    future = here.tasks.submit(here.tasks.shutdown)
    fine = here.tasks.submit(other.tasks.shutdown)
    only_asks = here.tasks.submit(here.tasks.shutdown, wait=False)
    here.pool.run_all()
    assert isinstance(future.exception(), WouldDeadlockError)
    assert (fine.state, only_asks.state) == ("done", "done")


def test_shutdowns_and_submits_that_meet_lose_no_task() -> None:
    for _ in range(30):
        with Threaded(2) as tasks:
            accepted: list[Any] = []

            def submits(tasks: Any = tasks, accepted: Any = accepted) -> None:
                try:
                    while True:
                        accepted.append(tasks.submit(int))
                except StoppedError:
                    pass

            threads = [threading.Thread(target=submits) for _ in range(2)]
            for thread in threads:
                thread.start()
            tasks.shutdown()
            for thread in threads:
                thread.join(60)
            assert not wait(accepted, timeout=60).not_done
            assert {future.state for future in accepted} <= {"done"}


def test_a_shutdown_in_a_callback_does_not_wait_for_the_task_that_ends() -> None:
    gate, raised = threading.Event(), []
    with Threaded() as tasks:
        future = tasks.submit(gate.wait)

        def ends(_: Any) -> None:
            try:
                tasks.shutdown()
            except WouldDeadlockError as error:
                raised.append(str(error))

        future.add_done_callback(ends)
        gate.set()
        future.result(60)
        tasks.shutdown()
    assert raised == [f"shutdown: task {future.id} would wait for its own end: use wait=False"]


# ---- Periodic functions do not drift and do not pile up, and their skipped turns are counted


def test_turns_come_at_fixed_times_whatever_a_run_takes() -> None:
    here = Stepped()
    times: list[int] = []

    def work() -> None:
        times.append(here.clock.now_ns() // 10**6)
        here.clock.advance(0.3)

    every = here.tasks.every("1s", work)
    here.advance(4.5)
    assert times == [1000, 2000, 3000, 4000]
    assert (every.turns, every.skipped, every.failed, every.next_due_ns) == (4, 0, 0, 5 * 10**9)


def test_turns_during_a_long_run_and_a_sleep_are_skipped_and_counted() -> None:
    here = Stepped()
    times: list[int] = []

    def work() -> None:
        times.append(here.clock.now_ns() // 10**9)
        if len(times) == 1:
            here.clock.advance(3.5)

    every = here.tasks.every("1s", work)
    here.advance(6.9)
    assert times == [1, 4, 5, 6]  # at 4.5 the turn of 4 comes late; those of 2 and 3 are gone
    assert (every.turns, every.skipped) == (4, 2)


def test_a_turn_that_comes_late_does_not_move_the_next_one() -> None:
    here = Stepped()
    every = here.tasks.every("1s", int)
    here.clock.advance(1.25)
    here.tasks.fire()
    assert (every.turns, every.next_due_ns) == (1, 2 * 10**9)


def test_a_turn_is_skipped_while_the_one_before_waits() -> None:
    here = Stepped()
    every = here.tasks.every("1s", int)
    for _ in range(3):
        here.clock.advance(1)
        here.tasks.fire()
    assert (every.turns, every.skipped, len(here.pool.listed)) == (1, 2, 1)


def test_a_delay_says_when_the_first_turn_comes() -> None:
    here = Stepped()
    times: list[int] = []
    here.tasks.options(delay="3s").every("1s", lambda: times.append(here.clock.now_ns() // 10**9))
    here.advance(5.5)
    assert times == [3, 4, 5]


def test_a_turn_after_a_delay_is_one_of_max_queue_and_none_of_max_held() -> None:
    here = Stepped(max_queue=1, max_held=1)
    every = here.tasks.options(delay="5s").every("1s", int)
    here.clock.advance(5)
    here.tasks.fire()
    assert every.last is not None
    assert every.last.state == "waiting"
    with pytest.raises(QueueFull, match="max_queue: 1 of 1"):
        here.tasks.submit(int)
    assert here.tasks.options(delay="9s").submit(int).state == "delayed"


def test_it_can_be_cancelled_with_the_turn_that_waits() -> None:
    here = Stepped()
    every = here.tasks.every("1s", int)
    here.clock.advance(1)
    here.tasks.fire()
    assert every.last is not None
    assert not every.cancelled()
    assert every.cancel()
    assert (every.last.state, every.cancelled(), every.next_due_ns) == ("cancelled", True, None)
    assert not every.cancel()
    here.advance(5)
    assert every.turns == 1
    assert "cancelled" in repr(every)


def test_an_error_of_a_turn_is_logged_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    here = Stepped()
    with caplog.at_level(logging.ERROR, "strand.tasks"):
        every = here.tasks.every("1s", raises(KeyError("turn")))
        here.advance(3)
    assert (every.turns, every.failed) == (3, 3)
    assert "KeyError('turn')" in caplog.text


def test_a_turn_that_is_refused_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    here = Stepped(max_queue=1)
    waits = here.tasks.submit(int)
    here.pool.listed.clear()  # no worker takes it
    with caplog.at_level(logging.WARNING, "strand.tasks"):
        every = here.tasks.every("1s", int)
        here.advance(2)
    assert (waits.state, every.turns, every.skipped) == ("waiting", 0, 2)
    assert "max_queue" in caplog.text


def test_shutdown_ends_it_and_what_cannot_work_is_refused() -> None:
    here = Stepped()
    every = here.tasks.every("1s", int)
    with pytest.raises(ConfigurationError, match="period"):
        here.tasks.every(0, int)
    with pytest.raises(ConfigurationError, match="no task is named"):
        here.tasks.every("1s", "nobody has this name")
    with pytest.raises(TypeError, match="is neither callable"):
        here.tasks.every("1s", 5)  # type: ignore[arg-type]
    here.tasks.shutdown()
    assert every.cancelled()
    with pytest.raises(StoppedError):
        here.tasks.every("1s", int)


def test_each_turn_of_a_level_that_is_held_is_held() -> None:
    here = Stepped(hold={"low": "2s"})
    times: dict[str, list[int]] = {"with": [], "without": []}
    for name, delay in (("with", "3s"), ("without", None)):
        low = here.tasks.options(priority="low", delay=delay)
        low.every("3s", lambda name=name: times[name].append(here.clock.now_ns() // 10**9))
    here.advance(9)
    assert times == {"with": [5, 8], "without": [5, 8]}


# ---- What is due later comes at its time and in order, from one heap


def test_a_cancelled_action_is_not_called_and_the_heap_stays_small() -> None:
    timers = Timers(Clock())
    kept = Timer(1, lambda: None)
    timers.add(kept)
    for _ in range(10_000):
        timer = Timer(10, lambda: None)
        timers.add(timer)
        timers.cancel(timer)
        timers.cancel(timer)
    assert len(timers) == 1
    assert len(timers._heap) < 200
    timers.cancel(kept)
    assert (len(timers), timers.next_due_ns(), timers.fire()) == (0, None, 0)


def test_an_interrupt_before_the_thread_is_told_of_a_deadline_does_not_make_that_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers, came = Timers(None), threading.Event()
    deadlines = Deadlines(timers, {}, lambda *_: came.set())
    timers.add(Timer(timers.now() + 3600 * 10**9, lambda: None))
    ring, rings = Bell.ring, list[int]()

    def ring_or_raise(bell: Bell) -> None:
        rings.append(1)
        if len(rings) == 1:
            raise KeyboardInterrupt
        ring(bell)

    monkeypatch.setattr(Bell, "ring", ring_or_raise)
    task: Any = SimpleNamespace(id=1)
    with pytest.raises(KeyboardInterrupt):
        deadlines.add(task, timers.now() + 100_000_000)
    assert len(timers) == 2
    assert came.wait(60)
    timers.end()
    timers.join()
