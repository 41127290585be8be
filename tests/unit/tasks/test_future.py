"""A task's future is one of concurrent.futures, whoever waits for it and whenever."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import CancelledError, as_completed, wait
from concurrent.futures import TimeoutError as FuturesTimeoutError
from typing import Any

import pytest
from task_pools import Stepped, Threaded, raises

from strand.errors import ConfigurationError, StoppedError, WouldDeadlockError
from strand.tasks import TaskFuture, TaskGroup, current_task
from strand.tasks.future import ENDS

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


def test_asyncio_awaits_a_task() -> None:
    async def main() -> list[Any]:
        with Threaded() as tasks:
            loop = asyncio.get_running_loop()
            futures = [asyncio.wrap_future(tasks.submit(pow, 2, n)) for n in range(20)]
            futures.append(loop.run_in_executor(tasks, pow, 3, 3))
            failing = asyncio.wrap_future(tasks.submit(raises(KeyError("k"))))
            found = await asyncio.gather(*futures)
            with pytest.raises(KeyError):
                await failing
            later = tasks.options(delay="1h").submit(int)
            wrapped = asyncio.wrap_future(later)
            wrapped.cancel()
            await asyncio.sleep(0)
            assert later.cancelled()
            return found

    assert asyncio.run(main()) == [2**n for n in range(20)] + [27]


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


def test_what_waits_can_be_changed_until_it_starts() -> None:
    here = Stepped()
    future = here.tasks.submit(int)
    group = TaskGroup("g")
    assert future.reprioritise("high")
    assert here.pool.priority_of(future.id) == 1
    assert future.set_deadline("5s")
    assert future.set_group(group)
    assert (future.priority, future.deadline_ns, future.group, len(group)) == ("high", 5 * 10**9, group, 1)
    for bad in (lambda: future.reprioritise("hgih"), lambda: future.set_deadline("soon"), lambda: future.set_group(1)):  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError):
            bad()
    here.pool.run_all()
    assert len(group) == 0
    assert not any((future.reprioritise("low"), future.set_deadline(None), future.set_group(None)))
    assert future.priority == "high"


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


def test_a_child_of_a_fork_refuses_to_wait() -> None:
    here = Stepped()
    done = here.tasks.submit(int)
    here.pool.run_all()
    pending = here.tasks.submit(int)
    pid = os.fork()
    if not pid:
        told = 0
        for refused in (pending.result, lambda: here.tasks.submit(int), here.tasks.shutdown, pending.exception):
            try:
                refused()
            except StoppedError:
                told += 1
        os._exit(told if done.result() == 0 and not pending.cancel() else 99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4
    assert here.tasks.submit(int).state == "waiting"


def test_there_are_six_ends() -> None:
    assert len(set(ENDS)) == 6


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
