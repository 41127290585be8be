"""A coroutine of a dispatcher has its turn until it is done, and ends with the dispatcher."""

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
from engine_support import COUNT_ROW, balanced, ticks_for, wait_until

import strand
from strand import Dispatcher, Fair, Fifo, Levels, RetryPolicy, Scheduler
from strand.errors import BackpressureError, HandlerError, TaskDropped, WouldDeadlockError
from strand.tasks import TaskFuture, current_task

POLICIES = [Fifo(), Levels(), Fair(slice_ms=1)]
policies = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
workers = pytest.mark.parametrize("workers", [1, 2])


@pytest.fixture(autouse=True)
def threads_come_back() -> Iterator[None]:
    """After each stop there are no threads but those before it."""
    gc.collect()
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


class Noted:
    """A handler in Python that notes each tick, and what is to be noted between them."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def handler(self) -> Any:
        return strand.batch_handler(state=COUNT_ROW)(self._note)

    def _note(self, symbol: str, ticks: Any, row: Any) -> None:
        del row
        self.events.extend((symbol, int(n)) for n in ticks["sequence"])

    def of(self, symbol: str) -> list[Any]:
        return [event[1] for event in self.events if event[0] == symbol]


def dispatcher(handler: Any, *, workers: int = 1, **options: Any) -> Dispatcher:
    return Dispatcher(
        ["A", "B", "C"], handler, workers=workers, cores=None, publisher_drains=False, strands="per-symbol", **options
    )


@policies
@workers
def test_ticks_and_tasks_behind_a_coroutine_wait_until_it_is_done(policy: Any, workers: int) -> None:
    noted, n = Noted(), 0

    async def goes_on(i: int) -> int:
        noted.events.append(("A", f"begins {i}"))
        for _ in range(3):
            await asyncio.sleep(0.001)
        noted.events.append(("A", f"ends {i}"))
        return i

    def looks(before: TaskFuture) -> None:
        noted.events.append(("A", before.state))

    expected: list[Any] = []
    with dispatcher(noted.handler(), workers=workers, policy=policy) as d:
        its, futures = d.tasks.options(symbol="A"), []
        for i in range(10):
            ticks = ticks_for([0, 0, 1])
            ticks["sequence"] = [n, n + 1, n]
            d.publish(ticks)
            futures.append(its.submit(goes_on, i))
            futures.append(its.submit(looks, futures[-1]))
            expected += [n, n + 1, f"begins {i}", f"ends {i}", "done"]
            n += 2
        assert d.drain(60)
        assert [future.result(0) for future in futures] == [value for i in range(10) for value in (i, None)]
    assert noted.of("A") == expected
    assert noted.of("B") == list(range(0, n, 2))
    balanced(d)


@policies
def test_other_symbols_go_on_while_a_coroutine_awaits_and_a_drain_waits_for_it(policy: Any) -> None:
    gate = threading.Event()

    async def waits() -> str:
        while not gate.is_set():
            await asyncio.sleep(0.001)
        return "done"

    with dispatcher("count", policy=policy) as d:
        futures = [d.tasks.options(symbol="A").submit(waits), d.tasks.submit(waits)]
        d.publish(ticks_for([0, 1, 2] * 20))
        wait_until(lambda: d.rows.array["ticks"].sum() == 40)
        assert d.tasks.submit(pow, 2, 3).result(60) == 8
        assert not d.drain(timeout_s=0.05)
        assert d.rows["A"]["ticks"] == 0
        counts = d.thread_counts()
        assert (counts.threads, counts.blocked, counts.suspended) == (1, 0, 0)
        gate.set()
        assert [future.result(60) for future in futures] == ["done", "done"]
        assert d.drain(60)
        assert d.rows["A"]["ticks"] == 20
    balanced(d)


def test_a_coroutine_that_is_tried_again_comes_behind_what_is_there_then() -> None:
    noted, tries = Noted(), []

    async def fails_once() -> str:
        tries.append(1)
        noted.events.append(("A", f"begins {len(tries)}"))
        await asyncio.sleep(0.001)
        noted.events.append(("A", f"ends {len(tries)}"))
        if len(tries) == 1:
            raise ConnectionError
        return "done"

    retry = RetryPolicy(max_retries=2, base_delay="200ms", jitter=0)
    with dispatcher(noted.handler(), retry=retry) as d:
        future = d.tasks.options(symbol="A").submit(fails_once)
        ticks = ticks_for([0])
        ticks["sequence"] = 7
        d.publish(ticks)
        assert future.result(60) == "done"
        assert future.attempts == 2
    assert noted.of("A") == ["begins 1", "ends 1", 7, "begins 2", "ends 2"]


def test_a_coroutine_that_is_asked_to_end_lets_its_symbol_go() -> None:
    begun = threading.Event()

    async def waits() -> None:
        begun.set()
        await asyncio.sleep(3600)

    with dispatcher("count") as d:
        its = d.tasks.options(symbol="A")
        future, late = its.submit(waits), its
        late = d.tasks.options(symbol="A", deadline="1ms").submit(int)
        d.publish(ticks_for([0] * 5))
        assert begun.wait(60)
        assert not d.drain(timeout_s=0.02)
        assert future.cancel(running=True)
        assert d.drain(60)
        assert (future.state, late.state) == ("cancelled", "expired")
        assert d.rows["A"]["ticks"] == 5


@pytest.mark.cells(1)
@pytest.mark.parametrize("how", ["stop", "timeout", "failure", "drop", "itself"])
@policies
def test_a_stop_that_does_not_drain_cancels_coroutines_counts_them_and_ends_their_thread(how: str, policy: Any) -> None:
    class Fails:
        def on_tick(self, tick: Any) -> None:
            raise ValueError("no")

    begun, cleaned = [], []

    async def waits() -> None:
        begun.append(1)
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.001)
            cleaned.append(1)

    async def stops(d: Dispatcher) -> bool:
        return d.stop(drain=False)

    d = dispatcher(strand.object_handler(Fails) if how == "failure" else "count", policy=policy).start()
    tasks = d.tasks
    futures = [tasks.options(symbol="A").submit(waits), tasks.options(key="k").submit(waits)]
    behind = [tasks.options(symbol="A").submit(int), tasks.options(key="k").submit(int)]
    wait_until(lambda: len(begun) == 2)
    d.publish(ticks_for([0, 1 if how == "failure" else 0]))
    if how == "stop":
        assert not d.stop(drain=False)
    elif how == "timeout":
        assert not d.stop(timeout_s=0.05)
    elif how == "itself":
        assert not tasks.submit(stops, d).result(60)
    elif how == "drop":
        held = [d]
        del d
        with pytest.warns(ResourceWarning, match="was deleted before it was stopped"):
            held.clear()
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(60)
    for future in behind:
        with pytest.raises((CancelledError, TaskDropped)):
            future.result(60)
    assert cleaned == [1, 1]
    if how == "failure":
        with pytest.raises(HandlerError, match="no"):
            d.stop()
    elif how != "drop":
        d.stop(drain=False)
        balanced(d)
    wait_until(lambda: not any("coroutines" in thread.name for thread in threading.enumerate()))
    found = tasks.statistics()
    assert found.pending == 0
    assert found.ended["cancelled"] + found.ended["dropped"] == 4


def test_a_stop_waits_for_a_coroutine_that_cleans_up_however_long_that_takes() -> None:
    begun, gate = threading.Event(), threading.Event()

    async def goes_on() -> str:
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.to_thread(gate.wait, 60)
            return "ended by itself"
        return ""

    with dispatcher("count") as d:
        future = d.tasks.options(symbol="A").submit(goes_on)
        assert begun.wait(60)
        threading.Timer(0.05, gate.set).start()
        assert not d.stop(drain=False)
        assert future.result(0) == "ended by itself"
        assert d.tasks.statistics().ended["done"] == 1
    wait_until(lambda: not any("asyncio" in thread.name for thread in threading.enumerate()))


def test_waits_of_a_coroutine_for_its_dispatcher_are_refused() -> None:
    async def asks(d: Dispatcher, how: str) -> None:
        if how == "call":
            d.call("B", lambda view: view.index)
        elif how == "result":
            d.submit_call("B", lambda view: view.index).result(60)
        elif how == "thread":
            await asyncio.to_thread(d.call, "A", lambda view: view.index)
        elif how == "drain in a thread":
            await asyncio.to_thread(d.drain)
        elif how == "save":
            d.save("nowhere")
        else:
            getattr(d, how)()

    with dispatcher("count") as d:
        for how in ("call", "result", "thread", "drain", "drain in a thread", "stop", "save"):
            with pytest.raises(WouldDeadlockError):
                d.tasks.options(symbol="A").submit(asks, d, how).result(60)
        assert d.tasks.submit(pow, 2, 3).result(60) == 8
    wait_until(lambda: not any("asyncio" in thread.name for thread in threading.enumerate()))


def test_a_coroutine_publishes_and_is_told_where_there_is_no_room() -> None:
    async def publishes(d: Dispatcher, n: int) -> int:
        done = 0
        for _ in range(n):
            done += d.publish(ticks_for([0] * 10))
            await asyncio.sleep(0)
        return done

    with dispatcher("count", capacity_ticks=64) as d:
        assert d.tasks.submit(publishes, d, 3).result(60) == 30
        with pytest.raises(BackpressureError):
            d.tasks.options(symbol="A").submit(publishes, d, 1000).result(60)
        assert d.drain(60)
        assert d.rows["A"]["ticks"] == d.statistics().handled > 30
    balanced(d)


def test_a_circle_through_coroutines_of_two_symbols_is_found() -> None:
    both = threading.Barrier(2)

    async def asks(d: Dispatcher, other: str) -> str:
        await asyncio.to_thread(both.wait, 60)
        try:
            await d.tasks.options(symbol=other).submit(int)
        except WouldDeadlockError:
            return "told"
        return "waited"

    with dispatcher("count", workers=2) as d:
        futures = [d.tasks.options(symbol=a).submit(asks, d, b) for a, b in (("A", "B"), ("B", "A"))]
        assert sorted(future.result(60) for future in futures) == ["told", "waited"]
    wait_until(lambda: not any("asyncio" in thread.name for thread in threading.enumerate()))


def test_a_coroutine_that_runs_within_the_task_that_waits_for_it_has_a_turn_of_its_own() -> None:
    async def inner() -> str:
        task = current_task()
        assert task is not None
        await asyncio.sleep(0.001)
        return f"{task.attempts} attempt"

    def outer(d: Dispatcher) -> str:
        return str(d.tasks.submit(inner).result())

    with dispatcher("count", policy=Fair()) as d:
        assert d.tasks.options(symbol="A").submit(outer, d).result(60) == "1 attempt"
        assert [future.result(60) for future in [d.tasks.submit(outer, d) for _ in range(20)]] == ["1 attempt"] * 20
        assert d.drain(60)


@policies
def test_everything_ends_in_order_whatever_coroutines_do(policy: Any) -> None:
    """One at a time of each symbol, functions and ticks too; some fail, are tried again, are cancelled, or expire."""
    generator = random.Random(11)
    at_once: dict[str, list[int]] = {symbol: [0, 0] for symbol in "ABC"}

    class Enters:
        def __init__(self, symbol: str) -> None:
            self.count = at_once[symbol]

        def __enter__(self) -> None:
            self.count[0] += 1
            self.count[1] = max(self.count)

        def __exit__(self, *_: object) -> None:
            self.count[0] -= 1

    async def coroutine(symbol: str, what: int) -> None:
        with Enters(symbol):
            for _ in range(what % 3):
                await asyncio.sleep(0.0001)
            if what % 5 == 0:
                raise ConnectionError
            if what % 7 == 0:
                raise SystemExit(1)

    def function(symbol: str, what: int) -> None:
        with Enters(symbol):
            if what % 5 == 0:
                raise ConnectionError
            with strand.blocking():
                pass

    def note(symbol: str, ticks: Any, row: Any) -> None:
        with Enters(symbol):
            row["ticks"] += len(ticks)

    handler = strand.batch_handler(state=COUNT_ROW)(note)
    retry = RetryPolicy(max_retries=1, base_delay="1ms", max_delay="1ms")
    futures, published = [], 0
    with dispatcher(handler, workers=2, policy=policy, retry=retry) as d:
        for i in range(600):
            symbol = generator.choice("ABC")
            fn = generator.choice([coroutine, coroutine, function])
            deadline = "1us" if i % 50 == 0 else None
            future = d.tasks.options(symbol=symbol, deadline=deadline).submit(fn, symbol, generator.randrange(1000))
            futures.append(future)
            if i % 11 == 0:
                generator.choice(futures).cancel(running=True)
            published += d.publish(ticks_for([generator.randrange(3) for _ in range(5)]))
        wait_until(lambda: all(future.done() for future in futures))
        assert d.drain(60)
        found = d.tasks.statistics()
        assert found.pending == 0
        assert sum(found.ended.values()) == len(futures)
        assert found.ended["dead"] > 0
        assert d.rows.array["ticks"].sum() == published
    assert [most for _, most in at_once.values()] == [1, 1, 1]
    balanced(d)


# ---- what their groups pay


def test_what_a_coroutine_has_used_holds_the_workers_under_a_cap() -> None:
    async def works() -> None:
        begun = time.thread_time_ns()
        while time.thread_time_ns() - begun < 20_000_000:
            pass

    with Scheduler(1, policy=Fair(cpu_share=0.05, burst_ms=20)) as scheduler:
        scheduler.submit(works).result(60)
        scheduler.submit(int).result(60)
        fair = scheduler.statistics().fair
    assert fair is not None
    assert fair.cap_holds


@pytest.fixture
def no_collection() -> Iterator[None]:
    """No garbage is collected in what is measured: it takes the time of some steps where there are many objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_the_steps_of_a_coroutine_are_charged_to_its_group() -> None:
    step_ns = 5_000_000

    def uses() -> None:
        begun = time.thread_time_ns()
        while time.thread_time_ns() - begun < step_ns:
            pass

    async def works(n: int) -> None:
        for _ in range(n):
            uses()
            await asyncio.sleep(0)

    async def starts_two(n: int) -> None:
        await asyncio.gather(works(n), works(n))

    begun = time.process_time_ns()
    with dispatcher("count", policy=Fair(slice_ms=20)) as d:
        group = strand.TaskGroup
        futures = [
            d.tasks.options(group=group("one")).submit(works, 10),
            d.tasks.options(group=group("two")).submit(starts_two, 10),
            d.tasks.options(symbol="B").submit(works, 4),
        ]
        for future in futures:
            future.result(60)
        assert d.drain(60)
        groups = d.statistics().fair.groups
    took = time.process_time_ns() - begun
    least = {"one": 10 * step_ns, "two": 20 * step_ns, "B": 4 * step_ns}
    assert all(groups[name].on_cpu_ns >= ns for name, ns in least.items())
    assert sum(each.on_cpu_ns for each in groups.values()) <= took, "no step is charged twice"
    assert groups["one"].slice_ends >= 2
    assert groups["one"].long_stretches == 0
