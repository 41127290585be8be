"""A task's future is one of concurrent.futures, whoever waits for it and whenever."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from _thread import RLock
from concurrent.futures import CancelledError, _base, as_completed, wait
from concurrent.futures import TimeoutError as FuturesTimeoutError
from typing import Any

import pytest
from engine_support import wait_until
from task_pools import Stepped, Threaded, raises

import strand
from strand.errors import ConfigurationError, WouldDeadlockError
from strand.tasks import TaskFuture, current_task, register_joblib
from strand.tasks.future import CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING

pytestmark = pytest.mark.python


def test_ids_rise_and_states_and_times_say_what_happened() -> None:
    here = Stepped()
    states = []

    def work() -> None:
        states.append((first.state, first.running(), first.waited_ns, first.ran_ns))
        here.clock.advance(2)
        states.append((first.state, first.running(), first.waited_ns, first.ran_ns))

    first, second = here.tasks.submit(work), here.tasks.submit(raises(KeyError("no")))
    assert first.id < second.id
    assert (first.state, first.priority, first.deadline_ns, first.attempts) == ("waiting", "normal", None, 0)
    here.clock.advance(1)
    assert (first.waited_ns, first.ran_ns) == (10**9, 0)
    here.pool.run_all()
    assert first.state == "done"
    assert states[0][:2] == ("running", True)
    assert states[1][3] - states[0][3] == 2 * 10**9
    assert first.ran_ns == 2 * 10**9
    assert second.state == "failed"
    assert first.attempts == second.attempts == 1
    assert isinstance(second.exception(), KeyError)
    with pytest.raises(KeyError, match="no"):
        second.result()


def test_a_cancelled_task_is_not_started_and_its_future_says_so() -> None:
    here = Stepped()
    ran: list[int] = []
    future = here.tasks.submit(ran.append, 1)
    assert future.cancel()
    assert future.cancel()
    assert (future.cancelled(), future.done(), future.state, future.running()) == (True, True, "cancelled", False)
    here.pool.run_all()
    assert ran == []
    with pytest.raises(CancelledError):
        future.result()
    with pytest.raises(CancelledError):
        future.exception()
    assert future.waited_ns == 0


def test_a_task_that_has_begun_or_ended_cannot_be_cancelled() -> None:
    here = Stepped()
    future = here.tasks.submit(lambda: (future.cancel(), future.cancel_requested))
    here.pool.run_all()
    assert future.result() == (False, False)
    assert not future.cancel()
    assert not future.cancel(running=True)


def test_a_task_that_runs_can_be_asked_to_end() -> None:
    here = Stepped()

    def work() -> bool:
        me = current_task()
        assert me is future
        assert me.cancel(running=True)
        return me.cancel_requested

    future = here.tasks.submit(work)
    here.pool.run_all()
    assert future.result() is True
    assert current_task() is None


def test_a_result_that_is_not_there_in_time_is_a_timeout() -> None:
    here = Stepped()
    future = here.tasks.submit(int)
    for timeout in (0, 0.01):
        with pytest.raises(FuturesTimeoutError):
            future.result(timeout)
        with pytest.raises(TimeoutError):
            future.exception(timeout)
    here.pool.run_all()
    assert future.result(0) == 0


@pytest.mark.parametrize("ends", ["before", "after", "both"])
def test_wait_and_as_completed_see_each_future_once(ends: str) -> None:
    with Threaded() as tasks:
        gate = threading.Event()
        if ends == "before":
            gate.set()
        blocked = [tasks.submit(gate.wait, 60) for _ in range(2)]
        others = [tasks.options(priority="low").submit(pow, 2, n) for n in range(50)]
        cancelled = tasks.options(delay="1h").submit(int)
        every = [*blocked, *others, cancelled]
        if ends == "before":
            wait(others)
            cancelled.cancel()
        else:
            threading.Timer(0.05, lambda: (gate.set(), cancelled.cancel())).start()
        if ends == "both":
            every = [*every, *every]
        assert len(list(as_completed(every, timeout=60))) == 53
        done, not_done = wait(every, timeout=60)
        assert (len(done), len(not_done)) == (53, 0)


def test_wait_for_the_first_exception_returns_before_the_rest() -> None:
    with Threaded() as tasks:
        gate = threading.Event()
        blocked = tasks.submit(gate.wait, 60)
        failing = tasks.submit(raises(ValueError("x")))
        done, not_done = wait([blocked, failing], timeout=60, return_when="FIRST_EXCEPTION")
        assert (done, not_done) == ({failing}, {blocked})
        gate.set()


def test_a_task_that_ended_holds_neither_its_function_nor_a_circle_with_its_error() -> None:
    import gc
    import weakref

    class Big:
        pass

    here = Stepped()
    gc.collect()
    gc.disable()
    try:
        big, failing = Big(), Big()
        kept = [weakref.ref(big), weakref.ref(failing)]
        future, bad = here.tasks.submit(id, big), here.tasks.submit(lambda _: 1 / 0, failing)
        del big, failing
        here.pool.run_all()
        assert future.result()
        assert kept[0]() is None
        gone = weakref.ref(bad)
        del bad
        assert gone() is None
        assert kept[1]() is None
    finally:
        gc.enable()


def test_a_task_that_waits_for_itself_is_refused() -> None:
    here = Stepped()
    future = here.tasks.submit(lambda: future.result())  # noqa: PLW0108  # it is not there yet
    here.pool.run_all()
    with pytest.raises(WouldDeadlockError, match="use add_done_callback"):
        future.result()


def test_waits_in_a_circle_are_refused_for_one_and_the_others_go_on() -> None:
    with Threaded(3) as tasks:
        ready = threading.Barrier(3)

        def work(n: int) -> str:
            ready.wait(60)
            return futures[(n + 1) % 3].result(60) or ""

        ready_to_wait = threading.Event()
        futures: list[TaskFuture] = []

        def begin(n: int) -> str:
            ready_to_wait.wait(60)
            return work(n)

        futures += [tasks.submit(begin, n) for n in range(3)]
        ready_to_wait.set()
        errors = [future.exception(60) for future in futures]
        assert all(isinstance(error, WouldDeadlockError) for error in errors)  # one refused, which the others get


def test_a_callback_that_would_wait_for_its_own_scheduler_or_key_is_refused() -> None:
    """The callbacks run in a worker, and in the thread that cancels."""
    told: list[Any] = []

    def asks(ask: Any) -> Any:
        def callback(future: Any) -> None:
            assert current_task() is future
            try:
                told.append(ask())
            except WouldDeadlockError as error:
                told.append(type(error))

        return callback

    with Threaded(1) as tasks:
        gate = threading.Event()
        keyed = tasks.options(key="k")
        first, behind = keyed.submit(gate.wait, 60), keyed.submit(int)
        delayed = tasks.options(delay="1h").submit(int)
        first.add_done_callback(asks(behind.result))
        first.add_done_callback(asks(tasks.shutdown))
        delayed.add_done_callback(asks(tasks.shutdown))
        assert delayed.cancel()
        assert current_task() is None
        gate.set()
        assert behind.result(60) == 0
    assert told == [WouldDeadlockError] * 3


# ---- Whoever waits for a task, and whenever, meets the worker that ends it


def has_lock(future: TaskFuture) -> bool:
    return isinstance(future.__dict__.get("_meeting"), RLock)


def test_a_plain_task_makes_no_lock() -> None:
    here = Stepped()
    future = here.tasks.submit(pow, 2, 3)
    assert not has_lock(future)
    here.pool.run_all()
    assert future.result() == 8
    assert future.done()
    assert future.exception() is None
    assert not has_lock(future)


def test_callbacks_are_called_once_in_their_order_before_or_after_the_end(caplog: pytest.LogCaptureFixture) -> None:
    here = Stepped()
    future = here.tasks.submit(int)
    called: list[Any] = []
    future.add_done_callback(lambda f: called.append(("first", f.result())))
    for error in (ValueError("callback"), SystemExit(3)):
        future.add_done_callback(lambda _, error=error: raises(error)())  # type: ignore[misc]
    future.add_done_callback(lambda f: called.append(("last", f.done())))
    assert has_lock(future)
    assert called == []
    with caplog.at_level(logging.ERROR, "concurrent.futures"):
        here.pool.run_all()
    assert called == [("first", 0), ("last", True)]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError, SystemExit]
    future.add_done_callback(lambda f: called.append("after"))
    assert called[-1] == "after"


@pytest.mark.parametrize("how", ["result", "callback", "wait"])
def test_a_waiter_that_comes_while_the_worker_writes_the_end_misses_nothing(how: str) -> None:
    """It comes after the worker has looked for waiters, and before the worker has written the state."""
    here = Stepped()
    future = here.tasks.submit(pow, 2, 3)
    found: list[Any] = []

    def wait_for_it() -> None:
        if how == "result":
            found.append(future.result(60))
        elif how == "callback":
            future.add_done_callback(lambda ended: found.append(ended.result(0)))
        else:
            found.extend(ended.result(0) for ended in as_completed([future], timeout=60))

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


# ---- Libraries that take an executor run their work on a scheduler: asyncio, dask and joblib


@pytest.fixture
def joblib() -> Any:
    found = pytest.importorskip("joblib", reason="joblib is not installed: pip install 'tickstrand[joblib]'")
    register_joblib()
    return found


def square(x: int) -> tuple[int, str]:
    return x * x, threading.current_thread().name


def test_asyncio_waits_for_tasks() -> None:
    """For the first or for all, with a time limit, and for tasks that have ended."""

    async def main(scheduler: strand.Scheduler) -> None:
        gate = threading.Event()
        ended, waits = scheduler.submit(int), scheduler.submit(gate.wait, 60)
        done, pending = await asyncio.wait([ended, waits], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        assert (done, pending) == ({ended}, {waits})
        done, pending = await asyncio.wait([ended, waits], timeout=0.01)  # type: ignore[type-var]
        assert (done, pending) == ({ended}, {waits})
        asyncio.get_running_loop().call_later(0.01, gate.set)
        done, pending = await asyncio.wait([ended, waits])  # type: ignore[type-var]
        assert (done, pending) == ({ended, waits}, set())
        assert sorted([await each for each in asyncio.as_completed([ended, waits])]) == [0, True]

    with strand.Scheduler(2) as scheduler:
        asyncio.run(asyncio.wait_for(main(scheduler), 60))


def test_a_callback_that_is_removed_is_not_called() -> None:
    called: list[str] = []
    with strand.Scheduler(1) as scheduler:
        gate = threading.Event()
        future = scheduler.submit(gate.wait, 60)
        once, twice = (lambda _: called.append("once")), (lambda _: called.append("twice"))
        for callback in (once, twice, twice):
            future.add_done_callback(callback)
        assert future.remove_done_callback(twice) == 2
        gate.set()
    assert called == ["once"]
    assert future.remove_done_callback(once) == 0


@pytest.mark.parametrize("options", [{}, {"priority": "low"}])
def test_dask_computes_on_a_scheduler_that_is_its_pool(options: dict[str, Any]) -> None:
    dask = pytest.importorskip("dask", reason="dask is not installed")
    with strand.Scheduler(2) as scheduler:
        pool = scheduler.options(**options) if options else scheduler
        with dask.config.set(pool=pool):
            squares = [dask.delayed(square)(i) for i in range(20)]
            found = dask.compute(*squares)
        assert [value for value, _ in found] == [i * i for i in range(20)]
        assert {thread for _, thread in found} <= {"strand-task-worker-0", "strand-task-worker-1"}
        level = options.get("priority", "normal")
        assert scheduler.statistics().wait_by_priority[level].count == scheduler.statistics().submitted > 0


def test_joblib_runs_on_a_scheduler(joblib: Any) -> None:
    with strand.Scheduler(2) as scheduler:
        with joblib.parallel_config(backend="strand", executor=scheduler.options(priority="low")):
            found = joblib.Parallel()(joblib.delayed(square)(i) for i in range(300))
            assert [value for value, _ in found] == [i * i for i in range(300)]
            assert {thread for _, thread in found} <= {"strand-task-worker-0", "strand-task-worker-1"}
            lazy = joblib.Parallel(return_as="generator", n_jobs=2)(joblib.delayed(pow)(i, 2) for i in range(9))
            assert list(lazy) == [i * i for i in range(9)]
        assert scheduler.statistics().wait_by_priority["low"].count == scheduler.statistics().submitted > 0


def test_a_parallel_within_a_task_of_joblib_gives_its_worker_away(joblib: Any) -> None:
    """With one worker it would otherwise wait for itself."""

    def outer(n: int) -> int:
        return (
            sum(joblib.Parallel(n_jobs=1)(joblib.delayed(pow)(i, 2) for i in range(n))) + scheduler.submit(int).result()
        )

    with strand.Scheduler(1) as scheduler, joblib.parallel_config(backend="strand", executor=scheduler):
        assert joblib.Parallel()(joblib.delayed(outer)(n) for n in range(6)) == [0, 0, 1, 5, 14, 30]


def test_an_error_in_a_batch_of_joblib_cancels_the_others(joblib: Any) -> None:
    began: list[int] = []

    def fail_first(i: int) -> None:
        began.append(i)
        if i == 0:
            raise ValueError("the first one")
        while not strand.tasks.current_task().cancel_requested:  # type: ignore[union-attr]
            time.sleep(0.001)
        raise CancelledError

    with strand.Scheduler(2) as scheduler, joblib.parallel_config(backend="strand", executor=scheduler):
        with pytest.raises(ValueError, match="the first one"):
            joblib.Parallel(batch_size=1, pre_dispatch="all")(joblib.delayed(fail_first)(i) for i in range(40))
        wait_until(lambda: scheduler.statistics().pending == 0)
        # joblib hands no more out once it knows of the error: that may be before the last ones.
        counts = scheduler.statistics()
    assert len(began) < 10
    assert counts.ended["failed"] == 1
    assert counts.ended["cancelled"] == counts.submitted - 1


def test_joblib_is_told_what_executor_to_give(joblib: Any) -> None:
    with pytest.raises(ConfigurationError, match=r'parallel_config\(backend="strand", executor=scheduler\)'):
        joblib.parallel_config(backend="strand")


def test_a_future_has_its_dict_before_two_threads_can_ask_for_it() -> None:
    """Two threads that made it at once, while the collector let both go on, would free its memory twice."""
    tasks = Stepped().tasks
    future = TaskFuture(tasks._core.states, tasks._options, (int, (), {}), 0)
    there = gc.get_referents(future)
    assert any(each is future.__dict__ for each in there)


def test_the_states_are_in_the_words_of_concurrent_futures() -> None:
    known = (_base.PENDING, _base.RUNNING, _base.FINISHED, _base.CANCELLED_AND_NOTIFIED)
    assert known == (PENDING, RUNNING, FINISHED, CANCELLED_AND_NOTIFIED)
