"""A task may be a coroutine: one asyncio thread runs it, and everything else holds as for functions."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest
from task_pools import Stepped, Threaded

from strand import Levels, Scheduler
from strand.binding.gate import Thread
from strand.errors import WouldDeadlockError
from strand.tasks import RetryPolicy, TaskGroup, current_task

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
    generator, before = random.Random(5), threading.active_count()
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
    assert threading.active_count() == before
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
