"""A task may be a coroutine: one asyncio thread runs it, and everything else holds as for functions."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest
from engine_support import wait_until
from task_pools import Stepped, Threaded

from strand import Dispatcher, Fair, Levels, RetryPolicy, Scheduler, TaskGroup
from strand.binding.gate import Thread
from strand.errors import StoppedError, WouldDeadlockError
from strand.tasks import TaskFuture, current_task
from strand.tasks.groups import noted_wait
from strand.tasks.waits import CURRENT_TASK
from strand.threads import LoopCalls

pytestmark = pytest.mark.python


async def double(x: int) -> int:
    await asyncio.sleep(0)
    return 2 * x


def test_coroutines_run_on_one_thread_at_once_and_end_with_the_scheduler() -> None:
    with Threaded(1) as tasks:
        names: set[str] = set()

        async def meets(barrier: list[asyncio.Event]) -> int:
            names.add(threading.current_thread().name)
            if not barrier:
                barrier.append(asyncio.Event())
                await barrier[0].wait()
            else:
                barrier[0].set()
            task = current_task()
            assert task is not None
            return task.id

        both: list[asyncio.Event] = []
        futures = [tasks.submit(meets, both) for _ in range(2)]
        assert [future.result(60) for future in futures] == [future.id for future in futures]
        assert list(tasks.map(double, range(5))) == [0, 2, 4, 6, 8]
        assert names == {"strand task coroutines"}
    assert "strand task coroutines" not in {thread.name for thread in threading.enumerate()}


def test_a_key_is_held_until_a_coroutine_has_ended() -> None:
    with Threaded(2) as tasks:
        running = [0, 0]

        async def one_at_a_time() -> None:
            running[0] += 1
            running[1] = max(running)
            await asyncio.sleep(0.001)
            running[0] -= 1

        for future in [tasks.options(key="k").submit(one_at_a_time) for _ in range(20)]:
            future.result(60)
        assert running[1] == 1


def test_a_coroutine_is_tried_again_and_its_exit_ends_neither_loop_nor_worker() -> None:
    with Threaded(1) as tasks:
        tries = []

        async def fails_once() -> str:
            tries.append(1)
            await asyncio.sleep(0)
            if len(tries) == 1:
                raise ArithmeticError
            return "done"

        async def exits() -> None:
            raise SystemExit(1)

        leaving = tasks.submit(exits)
        assert isinstance(leaving.exception(60), SystemExit)
        assert tasks.options(retry=RetryPolicy(base_delay="1ms")).submit(fails_once).result(60) == "done"
        assert tasks.submit(double, 4).result(60) == 8


def test_a_coroutine_that_is_asked_to_end_is_cancelled() -> None:
    with Threaded(1) as tasks:
        begun = threading.Event()

        async def waits() -> None:
            begun.set()
            await asyncio.sleep(3600)

        future = tasks.submit(waits)
        assert begun.wait(60)
        assert not future.cancel()
        assert future.cancel(running=True)
        tasks.shutdown(timeout=60)
        assert future.state == "cancelled"


def test_a_coroutine_for_which_there_is_no_thread_fails_and_its_worker_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(self: Thread) -> None:
        raise RuntimeError("can't start new thread")

    here = Stepped()
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", no_thread)
        future = here.tasks.submit(double, 1)
        here.pool.run_all()
    assert isinstance(future.exception(), RuntimeError)
    later = here.tasks.submit(double, 2)
    here.pool.run_all()
    assert later.result(60) == 4
    here.tasks.shutdown()


def test_a_coroutine_that_is_asked_to_end_before_the_loop_takes_it_is_cancelled_too() -> None:
    here, gate = Stepped(), threading.Event()

    async def blocks() -> None:
        gate.wait(60)

    async def waits() -> None:
        await asyncio.sleep(3600)

    futures = [here.tasks.submit(work) for work in (blocks, waits)]
    here.tasks.run(futures[0].id)
    here.tasks.run(futures[1].id)
    assert futures[1].cancel(running=True)
    gate.set()
    here.tasks.shutdown()
    assert [future.state for future in futures] == ["done", "cancelled"]


def test_a_group_waits_for_coroutines_and_what_they_spawn() -> None:
    with Threaded(1) as tasks:
        ran = []

        async def spawns() -> None:
            await asyncio.sleep(0.001)
            tasks.submit(ran.append, 1)

        with TaskGroup():
            tasks.submit(spawns)
        assert ran == [1]


def test_a_wait_that_would_stop_all_coroutines_is_refused() -> None:
    with Threaded(1) as tasks:

        async def waits() -> int:
            return tasks.submit(double, 1).result(60)

        async def leaves_a_block() -> None:
            with TaskGroup():
                tasks.submit(double, 1)

        async def looks() -> int:
            done = tasks.submit(double, 2)
            with pytest.raises(TimeoutError):
                tasks.options(delay="1h").submit(int).result(0)
            return await asyncio.wrap_future(done) + done.result() + await asyncio.to_thread(tasks.submit(int).result)

        for refused in (waits, leaves_a_block):
            with pytest.raises(WouldDeadlockError, match="await the task"):
                tasks.submit(refused).result(60)
        assert tasks.submit(looks).result(60) == 8
        tasks.shutdown(cancel_futures=True)


# ---- on a scheduler


def test_all_coroutines_of_a_scheduler_end_one_at_a_time_by_key() -> None:
    """Some raise, are tried again, are cancelled, expire, or await others; in the end all threads are gone."""
    generator, before = random.Random(5), set(threading.enumerate())
    at_once: dict[str, list[int]] = {key: [0, 0] for key in "abcd"}

    async def works(scheduler: Scheduler, key: str, what: int) -> int:
        count = at_once[key]
        count[0] += 1
        count[1] = max(count)
        try:
            await asyncio.sleep(0)
            if what % 3 == 0:
                return int(await scheduler.submit(abs, -what))
            if what % 5 == 0:
                raise ConnectionError
            if what % 7 == 0:
                raise SystemExit
            return what
        finally:
            count[0] -= 1

    retry = RetryPolicy(max_retries=1, base_delay="1ms", max_delay="1ms")
    futures: list[Any] = []
    with Scheduler(2, policy=Levels(), retry=retry) as scheduler:
        for i in range(800):
            key = generator.choice("abcd")
            deadline = "1us" if i % 40 == 0 else None
            options = scheduler.options(key=key, deadline=deadline, priority=generator.choice(["high", "low"]))
            futures.append(options.submit(works, scheduler, key, generator.randrange(1, 1000)))
            if i % 9 == 0:
                generator.choice(futures).cancel(running=True)
    found = scheduler.statistics()
    assert found.pending == 0
    ends = [future.state for future in futures]
    assert {"done", "cancelled", "dead"} <= set(ends) <= {"done", "cancelled", "dead", "expired", "failed"}
    assert [most for _, most in at_once.values()] == [1, 1, 1, 1]
    assert scheduler.thread_counts().blocked == 0
    assert set(threading.enumerate()) <= before
    totals = scheduler._engine.tasks.totals(on_strands=False)
    assert totals.suspended > 0


def test_asyncio_tasks_that_a_coroutine_leaves_behind_are_cancelled_at_the_end() -> None:
    ends: list[str] = []

    async def child() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async def leaves() -> None:
        leaves.child = asyncio.ensure_future(child())  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    with Scheduler(1) as scheduler:
        scheduler.submit(leaves).result(60)
        assert ends == []
    assert ends == ["cancelled"]


def test_a_coroutine_that_ends_needs_no_worker_for_that() -> None:
    ends, gate = threading.Event(), threading.Event()

    async def waits() -> None:
        while not ends.is_set():
            await asyncio.sleep(0.001)

    with Scheduler(1) as scheduler:
        coroutine, blocks = scheduler.submit(waits), scheduler.submit(gate.wait, 60)
        wait_until(blocks.running)
        ends.set()
        coroutine.result(60)

        def left() -> int:
            totals = scheduler._engine.tasks.totals(on_strands=False)
            return totals.submitted - totals.ended

        wait_until(lambda: left() == 1)
        assert blocks.running()
        gate.set()


def test_a_callback_of_a_coroutine_is_part_of_that_and_of_no_other_one() -> None:
    here, found = Stepped(), {}
    group = TaskGroup()
    futures = [here.tasks.options(group=group if n == 0 else None).submit(double, n) for n in range(3)]

    def note(future: Any) -> None:
        found[future.id] = current_task(), here.tasks.submit(int).group

    for future in futures:
        future.add_done_callback(note)
    here.pool.run_all()
    for future in futures:
        future.result(60)
    wait_until(lambda: len(found) == 3)
    assert found == {future.id: (future, None) for future in futures}
    here.pool.run_all()
    here.tasks.shutdown()


def test_the_only_step_of_a_coroutine_is_charged_to_its_group() -> None:
    async def computes() -> None:
        begun = time.thread_time()
        while time.thread_time() < begun + 0.03:
            pass

    with Scheduler(1, policy=Fair()) as scheduler:
        scheduler.options(group=TaskGroup("computes")).submit(computes).result(60)
    fair = scheduler.statistics().fair
    assert fair is not None
    assert fair.groups["computes"].on_cpu_ns >= 30_000_000


# ---- Calls that other threads hand to a loop


class Loop(asyncio.SelectorEventLoop):
    """Counts its wake-ups. ``loses``: the next one comes to nothing."""

    woken, loses = 0, False

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        self.woken += 1
        if self.loses:
            self.loses = False
            return None
        return super().call_soon_threadsafe(callback, *args, context=context)


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def test_many_calls_wake_a_loop_once_and_leave_it_time_for_other_things(loop: Loop) -> None:
    calls, made = LoopCalls.of(loop), []
    assert LoopCalls.of(loop) is calls

    def again() -> None:
        made.append(len(made))
        calls.add(again)

    for _ in range(3):
        calls.add(again)
    assert loop.woken == 1
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert len(made) == 3
    loop.run_until_complete(asyncio.sleep(0))
    assert len(made) > 3
    assert loop.woken == 1


def test_a_loop_whose_wake_up_was_lost_is_woken_again(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, made, now = LoopCalls.of(loop), [], [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    loop.loses = True
    calls.add(lambda: made.append(1))
    calls.add(lambda: made.append(2))
    loop.run_until_complete(asyncio.sleep(0))
    assert made == []
    now[0] = 5.0
    calls.add(lambda: made.append(3))
    loop.run_until_complete(asyncio.sleep(0))
    assert made == [1, 2, 3]


def test_calls_of_a_loop_that_is_closed_or_gone_are_refused_each_time() -> None:
    loop = Loop()
    calls = LoopCalls.of(loop)
    assert not calls.is_closed
    loop.close()
    for _ in range(2):
        assert calls.is_closed
        with pytest.raises(RuntimeError, match="closed"):
            calls.add(int)
    del loop
    gc.collect()
    assert calls.is_closed
    with pytest.raises(RuntimeError, match="gone"):
        calls.add(int)


# ---- Tasks and calls are awaited in asyncio as they are, and circles of awaits are found


def test_a_caller_in_asyncio_awaits_a_task_and_gets_what_it_returned_or_raised() -> None:
    async def main(scheduler: Scheduler) -> None:
        assert await scheduler.submit(pow, 2, 5) == 32
        done = scheduler.submit(pow, 2, 6)
        await asyncio.wait_for(done, 60)
        assert await done == 64
        with pytest.raises(ZeroDivisionError):
            await scheduler.submit(divmod, 1, 0)
        assert await asyncio.gather(*scheduler.submit_many(abs, [-1, -2])) == [1, 2]

    with Scheduler(1) as scheduler:
        asyncio.run(main(scheduler))


def test_who_cancels_the_await_cancels_a_task_that_has_not_begun_and_no_other() -> None:
    async def main(scheduler: Scheduler) -> None:
        begun, gate = threading.Event(), threading.Event()
        runs = scheduler.submit(lambda: (begun.set(), gate.wait(60)))
        waits = scheduler.submit(int)
        assert await asyncio.to_thread(begun.wait, 60)
        for future in (runs, waits):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(future, 0.01)
        assert (runs.state, waits.state) == ("running", "cancelled")
        with pytest.raises(asyncio.CancelledError):
            await waits
        gate.set()
        assert await runs == (None, True)

    with Scheduler(1) as scheduler:
        asyncio.run(main(scheduler))


def test_a_coroutine_awaits_tasks_and_keeps_no_worker() -> None:
    async def outer(scheduler: Scheduler, n: int) -> int:
        return n + (await scheduler.submit(outer, scheduler, n - 1) if n else await scheduler.submit(int))

    with Scheduler(1) as scheduler:
        assert scheduler.submit(outer, scheduler, 50).result(60) == 50 * 51 // 2


def test_an_await_for_oneself_and_one_for_what_stands_behind_are_refused() -> None:
    async def for_itself() -> None:
        me = CURRENT_TASK.get()
        assert me is not None
        await me

    async def for_the_next(keyed: Any) -> None:
        await keyed.submit(int)

    with Scheduler(1) as scheduler:
        with pytest.raises(WouldDeadlockError):
            scheduler.submit(for_itself).result(60)
        keyed = scheduler.options(key="k")
        with pytest.raises(WouldDeadlockError, match="which waits for"):
            keyed.submit(for_the_next, keyed).result(60)


def test_a_circle_through_coroutines_and_functions_is_found_by_its_last_wait() -> None:
    """Ends all of them by telling one."""
    known: list[TaskFuture] = []
    all_known = threading.Event()

    async def waits_for(i: int) -> str:
        await asyncio.to_thread(all_known.wait, 60)
        try:
            await known[i]
        except WouldDeadlockError:
            return "told"
        return "waited"

    def function(i: int) -> str:
        all_known.wait(60)
        try:
            known[i].result(60)
        except WouldDeadlockError:
            return "told"
        return "waited"

    with Scheduler(2) as scheduler:
        known.extend(scheduler.submit(fn, (i + 1) % 4) for i, fn in enumerate([waits_for, function] * 2))
        all_known.set()
        assert sorted(future.result(60) for future in known) == ["told", "waited", "waited", "waited"]


def test_what_a_coroutine_has_started_beside_itself_is_no_wait_of_its_own() -> None:
    async def begins(scheduler: Scheduler, other: list[TaskFuture]) -> asyncio.Task[Any]:
        waits = asyncio.ensure_future(other[0])
        await asyncio.sleep(0)
        return waits

    async def waits_for(future: TaskFuture) -> Any:
        return await future

    with Scheduler(1) as scheduler:
        other: list[TaskFuture] = []
        gate = threading.Event()
        scheduler.submit(gate.wait, 60)
        begun = scheduler.submit(begins, scheduler, other)
        other.append(scheduler.submit(waits_for, begun))
        gate.set()
        assert isinstance(begun.result(60), asyncio.Task)
        assert isinstance(other[0].result(60), asyncio.Task)


def test_a_noted_wait_ends_with_its_block() -> None:
    async def waits(scheduler: Scheduler) -> None:
        me = CURRENT_TASK.get()
        assert me is not None
        target = scheduler.options(delay="1h").submit(int)
        with pytest.raises(KeyError), noted_wait(target):
            assert me.waits_for is target
            raise KeyError
        assert me.waits_for is None

    with Scheduler(1) as scheduler:
        scheduler.submit(waits, scheduler).result(60)
        scheduler.shutdown(cancel_futures=True)


# ---- groups


def test_a_group_is_left_in_asyncio_when_all_its_tasks_have_ended() -> None:
    async def main(scheduler: Scheduler) -> list[int]:
        done: list[int] = []
        async with TaskGroup("report") as group:
            scheduler.submit(lambda: scheduler.submit(done.append, 1))
            scheduler.submit(done.append, 2)
        assert len(group) == 0
        outside = scheduler.submit(int)
        assert outside.group is None
        return sorted(done)

    with Scheduler(1) as scheduler:
        assert asyncio.run(main(scheduler)) == [1, 2]
        assert scheduler.submit(main, scheduler).result(60) == [1, 2]


def test_what_fails_in_a_group_and_in_its_block_comes_out_of_it_in_asyncio() -> None:
    async def main(scheduler: Scheduler) -> None:
        with pytest.raises(ExceptionGroup) as raised:
            async with TaskGroup() as group:
                waits = scheduler.options(delay="1h").submit(int)
                scheduler.submit(divmod, 1, 0)
                await asyncio.to_thread(wait_until, lambda: len(group) == 0)
                raise KeyError
        assert [type(error) for error in raised.value.exceptions] == [KeyError, ZeroDivisionError]
        assert waits.cancelled()

    with Scheduler(1) as scheduler:
        asyncio.run(main(scheduler))


@pytest.mark.parametrize("where", ["body", "end"])
def test_a_coroutine_that_is_cancelled_in_a_group_cancels_that_and_is_cancelled(where: str) -> None:
    tasks: list[TaskFuture] = []
    begun = threading.Event()

    async def main(scheduler: Scheduler) -> None:
        async with TaskGroup():
            tasks.append(scheduler.options(delay="1h").submit(int))
            begun.set()
            if where == "body":
                await asyncio.sleep(3600)

    with Scheduler(1) as scheduler:
        future = scheduler.submit(main, scheduler)
        assert begun.wait(60)
        assert future.cancel(running=True)
        with pytest.raises(CancelledError):
            future.result(60)
        with pytest.raises(CancelledError):
            tasks[0].result(60)
        assert future.state == "cancelled"


def test_a_block_of_a_group_that_waits_for_who_leaves_it_is_refused() -> None:
    async def leaves(scheduler: Scheduler, key: Any) -> None:
        async with TaskGroup():
            key.submit(int)

    with Scheduler(1) as scheduler:
        key = scheduler.options(key="k")
        with pytest.raises(WouldDeadlockError):
            key.submit(leaves, scheduler, key).result(60)


def test_a_group_whose_loop_was_closed_ends_nobody_elses_work() -> None:
    gate = threading.Event()

    async def leaves(scheduler: Scheduler) -> None:
        async with TaskGroup():
            scheduler.submit(gate.wait, 60)

    with Scheduler(1) as scheduler:
        loop = asyncio.new_event_loop()
        leaving = leaves(scheduler)
        task = loop.create_task(leaving)
        loop.call_later(0.05, loop.stop)
        loop.run_forever()
        loop.close()
        gate.set()
        assert scheduler.submit(int).result(60) == 0
        assert not task.done()
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is left so on purpose
        leaving.close()


# ---- calls


def test_calls_are_awaited_and_one_behind_the_coroutine_is_refused() -> None:
    async def asks(d: Dispatcher, symbol: str) -> int:
        return await d.submit_call(symbol, lambda view: view.index) + 1

    with Dispatcher(["A", "B"], "count", workers=1, cores=None) as d:
        of_a = d.tasks.options(symbol="A")
        assert of_a.submit(asks, d, "B").result(60) == 2
        with pytest.raises(WouldDeadlockError, match="task 4, which waits for task 3"):
            of_a.submit(asks, d, "A").result(60)
        assert d.tasks.submit(asks, d, "A").result(60) == 1
        assert asyncio.run(asks(d, "A")) == 1


def test_coroutines_run_in_a_loop_of_the_program_and_in_the_schedulers_own_again() -> None:
    async def where() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    async def waits(task: Any) -> None:
        task.result()

    async def main(scheduler: Scheduler) -> None:
        scheduler.run_coroutines_in(asyncio.get_running_loop())
        assert await scheduler.submit(where) == "MainThread"
        later = scheduler.options(delay="1h").submit(where)
        with pytest.raises(WouldDeadlockError, match="await"):
            await scheduler.submit(waits, later)
        later.cancel()
        scheduler.run_coroutines_in(None)
        assert await scheduler.submit(where) == "strand task coroutines"
        scheduler.run_coroutines_in(asyncio.get_running_loop())

    with Scheduler(1) as scheduler:
        asyncio.run(main(scheduler))
        # The loop is closed: the scheduler's own takes its place.
        assert scheduler.submit(where).result() == "strand task coroutines"


def test_a_coroutine_begins_at_once_in_the_callers_asyncio_task_where_no_task_waits() -> None:
    async def tells(said: str) -> tuple[str, Any]:
        task = current_task()
        assert task is not None
        await asyncio.sleep(0)
        return said, task.state

    async def fails() -> None:
        raise ZeroDivisionError

    async def main(scheduler: Scheduler) -> None:
        task, coroutine = begun(scheduler.begin_here(tells, "here"))
        assert await coroutine == task.result() == ("here", "running")
        task, coroutine = begun(scheduler.begin_here(fails))
        with pytest.raises(ZeroDivisionError):
            await coroutine
        assert task.state == "failed"
        task, coroutine = begun(scheduler.begin_here(asyncio.sleep, 60))
        runs = asyncio.ensure_future(coroutine)
        await asyncio.sleep(0)
        task.cancel(running=True)
        with pytest.raises(asyncio.CancelledError):
            await runs
        assert task.state == "cancelled"
        assert scheduler.options(key="a").begin_here(tells, "") is None
        assert scheduler.options(deadline="1s").begin_here(tells, "") is None
        opened = threading.Event()
        waits = [scheduler.submit(opened.wait) for _ in range(2)]
        assert scheduler.begin_here(tells, "") is None
        opened.set()
        await waits[1]

    def begun(found: Any) -> Any:
        assert found is not None
        return found

    with Scheduler(1) as scheduler:
        asyncio.run(main(scheduler))
    counted = scheduler.statistics()
    assert (counted.submitted, counted.wait.count) == (5, 5)
    assert {end: n for end, n in counted.ended.items() if n} == {"done": 3, "failed": 1, "cancelled": 1}
    with pytest.raises(StoppedError):
        scheduler.begin_here(tells, "")
