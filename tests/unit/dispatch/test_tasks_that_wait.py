"""Tasks and calls on workers that drain ticks, which wait in their middle."""

from __future__ import annotations

import concurrent.futures
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_support import COUNT_ROW, balanced, ticks_for, wait_until

import strand
from strand import Dispatcher, Fair, Fifo, Levels, Scheduler
from strand.errors import HandlerError, StoppedError, TaskDropped, WouldDeadlockError
from strand.tasks import places
from strand.tasks.places import seat_here

POLICIES = [Fifo(), Levels(), Fair(slice_ms=1)]


def by_name(value: Any) -> str:
    return type(value).__name__ if isinstance(value, (Fifo, Levels, Fair)) else str(value)


policies = pytest.mark.parametrize("policy", POLICIES, ids=by_name)
workers = pytest.mark.parametrize("workers", [1, 2])


pytestmark = pytest.mark.usefixtures("threads_come_back")


class Noted:
    """A handler in Python that notes each tick, and what is to be noted between them."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def note(self, symbol: str, ticks: Any, row: Any) -> None:
        self.events.extend((int(symbol[1:]), int(n)) for n in ticks["sequence"])

    def seen(self, key: int) -> list[int]:
        return [event[1] for event in self.events if isinstance(event, tuple) and event[0] == key]


def dispatcher(handler: Any, n: int, *, workers: int = 1, **options: Any) -> Dispatcher:
    if isinstance(handler, Noted):
        handler = strand.batch_handler(state=COUNT_ROW)(handler.note)
    return Dispatcher(n, handler, workers=workers, cores=None, publisher_drains=False, strands="per-symbol", **options)


def submit(d: Dispatcher, how: str, fn: Callable[[], Any]) -> Any:
    if how == "call":
        return d.submit_call(0, lambda _: fn())
    return (d.tasks if how == "free" else d.tasks.options(symbol=0)).submit(fn)


hows = pytest.mark.parametrize("how", ["free", "symbol", "call"])


# ---- in a block


@pytest.mark.cells(2)
@policies
@workers
@hows
def test_a_task_in_a_block_leaves_its_worker_to_the_ticks(how: str, policy: Any, workers: int) -> None:
    """As many at a time as there are workers, and more."""
    gate, ends = threading.Event(), []

    def wait() -> int:
        with strand.blocking(), strand.blocking():
            strand.checkpoint()
            gate.wait(60)
        ends.append(threading.get_ident())
        return 7

    with dispatcher("count", 5, workers=workers, policy=policy) as d:
        futures = [submit(d, how, wait)]
        futures += [d.tasks.submit(wait) for _ in range(3)]
        wait_until(lambda: d.thread_counts().blocked == 4)
        d.publish(ticks_for([1, 2, 3, 4] * 50))
        wait_until(lambda: d.rows.array["ticks"].sum() == 200)
        assert d.tasks.submit(pow, 2, 3).result(60) == 8
        assert not any(future.done() for future in futures)
        assert not d.drain(timeout_s=0)
        gate.set()
        assert [future.result(60) for future in futures] == [7] * 4
        assert d.drain(60)
        counts = d.thread_counts()
        assert (counts.places, counts.blocked, counts.suspended) == (workers, 0, 0)
        assert counts.suspensions >= 4
        assert workers < counts.threads <= workers + 4
    assert len(set(ends)) == 4
    balanced(d)


@pytest.mark.cells(2)
@policies
@workers
@pytest.mark.parametrize("how", ["symbol", "call"])
def test_ticks_behind_a_blocked_task_of_their_symbol_wait_and_those_of_others_do_not(
    how: str, policy: Any, workers: int
) -> None:
    noted, gate = Noted(), threading.Event()

    def wait() -> None:
        noted.events.append("begins")
        with strand.blocking():
            gate.wait(60)
        noted.events.append("ends")

    with dispatcher(noted, 3, workers=workers, policy=policy) as d:
        d.publish(ticks_for([0, 1, 0]))
        future = submit(d, how, wait)
        wait_until(lambda: d.thread_counts().blocked == 1)
        for _ in range(20):
            d.publish(ticks_for([0, 1, 2]))
        behind = d.tasks.options(symbol=0).submit(noted.events.append, "behind")
        wait_until(lambda: len(noted.seen(1)) == 21 and len(noted.seen(2)) == 20)
        assert not future.done()
        assert not behind.done()
        assert len(noted.seen(0)) == 2
        gate.set()
        assert d.drain(60)
        future.result(0)
    of_0 = [event[0] if isinstance(event, tuple) else event for event in noted.events]
    assert [event for event in of_0 if event not in (1, 2)] == [0, 0, "begins", "ends", *[0] * 20, "behind"]
    balanced(d)


# ---- at a checkpoint


def until_ticks_went_first(how: str, workers: int, **options: Any) -> None:
    """A task passes checkpoints until the ticks of symbol 1 were handled; those of its own come behind it."""
    noted, begun, published = Noted(), threading.Event(), threading.Event()

    def waits_for_ticks() -> None:
        noted.events.append("begins")
        begun.set()
        published.wait(60)
        while len(noted.seen(1)) < 10:
            strand.checkpoint()
        noted.events.append("ends")

    with dispatcher(noted, 2, workers=workers, **options) as d:
        future = submit(d, how, waits_for_ticks)
        assert begun.wait(60)
        d.publish(ticks_for([1, 0] * 10))
        published.set()
        assert d.drain(60)
        future.result(0)
        if workers == 1:
            assert d.thread_counts().suspensions >= 1
    if how != "free":
        of_0 = [event[0] if isinstance(event, tuple) else event for event in noted.events]
        assert [event for event in of_0 if event != 1] == ["begins", "ends", *[0] * 10]
    balanced(d)


@workers
@hows
def test_a_checkpoint_lets_ticks_of_a_higher_level_go_first(how: str, workers: int) -> None:
    until_ticks_went_first(how, workers, policy=Levels(), priorities={"#0": "low", "#1": "high"})


@workers
@pytest.mark.parametrize("how", ["symbol", "call"])
def test_a_checkpoint_under_fair_lets_other_groups_go_when_the_slice_is_over(how: str, workers: int) -> None:
    until_ticks_went_first(how, workers, policy=Fair(slice_ms=1))


def test_under_fifo_a_checkpoint_lets_nothing_go_first() -> None:
    noted, gate = Noted(), threading.Event()

    def first() -> None:
        gate.wait(60)
        for _ in range(50):
            time.sleep(0.0002)
            strand.checkpoint()
        noted.events.append("ends")

    with dispatcher(noted, 2, policy=Fifo()) as d:
        future = d.tasks.submit(first)
        wait_until(future.running)
        d.publish(ticks_for([1]))
        gate.set()
        assert d.drain(60)
        assert d.thread_counts().suspensions == 0
    assert noted.events == ["ends", (1, 1)]


# ---- waiting for each other


@policies
@workers
def test_100_tasks_that_wait_for_each_other_beside_ticks(policy: Any, workers: int) -> None:
    """Each waits for the one behind it. No tick is lost, and those of each symbol are in order."""
    noted, futures, all_there = Noted(), [], threading.Event()

    def one(i: int) -> int:
        with strand.blocking():
            all_there.wait(60)
        strand.checkpoint()
        return 1 if i == 99 else 1 + int(futures[i + 1].result())

    keys = np.tile(np.arange(100), 30)
    with dispatcher(noted, 100, workers=workers, policy=policy) as d:
        for i in range(100):
            d.publish(ticks_for(keys[i * 10 : i * 10 + 10]))
            # With a symbol each, or none.
            futures.append((d.tasks.options(symbol=i) if i % 2 else d.tasks).submit(one, i))
        d.publish(ticks_for(keys[1000:2000]))
        all_there.set()
        d.publish(ticks_for(keys[2000:]))
        assert [future.result(60) for future in futures] == list(range(100, 0, -1))
        assert d.drain(60)
        assert d.rows.array is not None
        counts = d.thread_counts()
        assert (counts.blocked, counts.suspended) == (0, 0)
    assert [len(noted.seen(key)) for key in range(100)] == [30] * 100
    balanced(d)


@workers
def test_tasks_and_calls_wait_for_calls(workers: int) -> None:
    with dispatcher("count", 3, workers=workers) as d:
        d.publish(ticks_for([1] * 5))

        def ask(_: Any = None) -> int:
            return int(d.submit_call(1, lambda view: int(view.row["ticks"])).result())

        assert d.tasks.submit(ask).result(60) == 5
        assert d.tasks.options(symbol=0).submit(ask).result(60) == 5
        assert d.tasks.submit(d.call, 1, lambda view: int(view.row["ticks"]), timeout_s=60).result(60) == 5
        assert d.submit_call(2, ask).result(60) == 5
        # A call waits for a task, too.
        assert d.submit_call(0, lambda _: d.tasks.submit(pow, 2, 5).result()).result(60) == 32
        assert d.submit_call(0, lambda _: d.submit_call(1, repr).exception()).result(60) is None


@pytest.mark.parametrize("outer", ["task", "call"])
@pytest.mark.parametrize("inner", ["task", "call"])
def test_a_wait_for_what_stands_behind_oneself_on_the_strand_is_refused(outer: str, inner: str) -> None:
    def put(kind: str, fn: Callable[..., Any]) -> Any:
        return d.submit_call(0, lambda _: fn()) if kind == "call" else d.tasks.options(symbol=0).submit(fn)

    def waits() -> Any:
        return put(inner, int).result()

    def through_another() -> Any:
        return d.tasks.submit(waits_for_behind).result()

    def waits_for_behind() -> Any:
        return put(inner, int).result()

    with dispatcher("count", 1, workers=2) as d:
        with pytest.raises(WouldDeadlockError, match=r"(task 1|the call to #0) would wait for"):
            put(outer, waits).result(60)
        with pytest.raises(WouldDeadlockError, match="would wait for"):
            put(outer, through_another).result(60)
        assert d.drain(60)


def test_a_task_of_a_scheduler_waits_for_a_call_without_its_worker() -> None:
    gate = threading.Event()
    with Scheduler(1) as scheduler, dispatcher("count", 1, workers=1) as d:
        asks = scheduler.submit(lambda: d.submit_call(0, lambda _: gate.wait(60)).result())
        assert scheduler.submit(int).result(60) == 0
        gate.set()
        assert asks.result(60)


# ---- in a handler


@pytest.mark.parametrize("kind", ["ticks", "timer"])
def test_a_handler_cannot_wait(kind: str) -> None:
    said: list[Any] = []

    def refused() -> None:
        strand.checkpoint()
        for wait in (
            strand.blocking().__enter__,
            never.result,
            lambda: d.submit_call(1, repr).result(),
        ):
            try:
                wait()
            except WouldDeadlockError as error:
                said.append(str(error))

    class Handler:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            if kind == "ticks":
                refused()
            else:
                self.ctx.wake_at(1_000_000_000)

        def on_wake(self, now: int) -> None:
            refused()

    handler = strand.object_handler(Handler)
    with dispatcher(handler, 2) as d:
        d.pause(1)
        never = d.tasks.options(symbol=1).submit(int)
        ticks = np.zeros(2, strand.TICK)
        ticks["ts_recv"] = [500_000_000, 1_500_000_000]
        d.publish(ticks)
        wait_until(lambda: len(said) >= 3)
        d.resume(1)
        never.result(60)
    assert "a handler cannot wait" in said[0]
    assert all("inside the dispatcher" in words for words in said[1:3])


def test_within_a_block_a_task_cannot_wait_for_its_dispatcher_nor_publish_to_it() -> None:
    def asks() -> int:
        before = d.publish(ticks_for([0]))
        with strand.blocking():
            for ask in (d.stop, d.drain, lambda: d.publish(ticks_for([0]))):
                with pytest.raises(WouldDeadlockError):
                    ask()
        return before + d.publish(ticks_for([0]))

    with dispatcher("count", 1) as d:
        assert d.tasks.submit(asks).result(60) == 2
        assert d.drain(60)
        assert d.rows[0]["ticks"] == 2


# ---- bounds, and the end


def test_with_as_many_threads_as_there_may_be_a_block_is_refused_and_a_checkpoint_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert places.MAX_THREADS == 256
    noted, gate, go = Noted(), threading.Event(), threading.Event()

    def wait() -> None:
        with strand.blocking():
            gate.wait(60)

    def low() -> None:
        go.wait(60)
        for _ in range(50):
            time.sleep(0.0002)
            strand.checkpoint()
        noted.events.append("low")

    with dispatcher(noted, 2, policy=Levels(), priorities={"#1": "high", "*": "low"}) as d:
        assert d._workers._places is not None
        monkeypatch.setattr(d._workers._places, "_most", 3)
        futures = [d.tasks.submit(wait) for _ in range(2)]
        wait_until(lambda: d.thread_counts().blocked == 2)
        with pytest.raises(WouldDeadlockError, match="max_threads"):
            d.tasks.submit(wait).result(60)
        assert d.thread_counts().refused == 1
        future = d.tasks.options(priority="low").submit(low)
        wait_until(future.running)
        d.publish(ticks_for([1]))
        go.set()
        future.result(60)
        assert d.thread_counts().refused >= 2
        gate.set()
        for future in futures:
            future.result(60)
        assert d.drain(60)
    assert noted.events == ["low", (1, 1)]


@workers
@pytest.mark.parametrize("by", ["stop", "failure", "stop within"])
def test_a_stop_tells_what_is_suspended_or_blocked_and_ends_all_threads(by: str, workers: int) -> None:
    told: dict[str, Any] = {}
    gate, asleep, free = threading.Event(), threading.Event(), threading.Event()

    def note(name: str, wait: Callable[[], Any]) -> None:
        try:
            wait()
        except BaseException as error:
            for again in (strand.checkpoint, strand.blocking().__enter__):
                with pytest.raises(StoppedError):
                    again()
            with pytest.raises((StoppedError, HandlerError)):
                d.publish(ticks_for([1]))
            told[name] = type(error)
            raise

    def blocks() -> None:
        with strand.blocking():
            gate.wait(60)

    def suspends() -> None:
        while True:
            strand.checkpoint()

    def waits_for_another() -> None:
        never.result()

    @strand.batch_handler(state=COUNT_ROW)
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        if symbol == "#3":
            raise ValueError("no")

    d = dispatcher(fails, 6, workers=workers, policy=Levels(), priorities={"#0": "low", "#5": "high", "*": "normal"})
    d.start()
    d.pause(4)
    never = d.tasks.options(symbol=4).submit(int)
    futures = [
        d.tasks.submit(note, "blocked", blocks),
        d.submit_call(1, lambda _: note("call", blocks)),
        d.tasks.options(symbol=2).submit(note, "waits", waits_for_another),
    ]
    wait_until(lambda: d.thread_counts().blocked == 3)
    # As many of a lower level as there are workers, and of a higher one that keep them.
    futures += [d.tasks.options(priority="low").submit(note, f"suspended {i}", suspends) for i in range(workers)]
    wait_until(lambda: all(future.running() for future in futures))
    high = d.tasks.options(priority="high").submit_many(lambda _: (asleep.set(), free.wait(60)), range(workers))
    wait_until(lambda: d.thread_counts().suspended == workers)
    assert asleep.wait(60)
    threading.Timer(0.05, free.set).start()
    # Blocks end when the workers have stopped, and not before.
    if by == "failure":
        d.publish(ticks_for([3]))
        with pytest.raises(TaskDropped):
            never.result(60)
        gate.set()
        with pytest.raises(HandlerError):
            d.stop()
    elif by == "stop within":
        d.tasks.options(priority="high").submit(d.stop, drain=False)
        wait_until(lambda: d._engine.stopping)
    d_stop = threading.Thread(target=lambda: d.stop(drain=False))
    d_stop.start()
    wait_until(lambda: d._engine.stopping)
    gate.set()
    d_stop.join(60)
    assert not d_stop.is_alive()
    assert not any(thread.is_alive() for thread in d._state.threads)
    concurrent.futures.wait([*futures, *high, never], 60)
    assert all(future.done() for future in [*futures, *high, never])
    names = {"blocked", "call", "waits", *(f"suspended {i}" for i in range(workers))}
    assert set(told) == names
    assert set(told.values()) <= {StoppedError, TaskDropped, concurrent.futures.CancelledError}
    assert told["blocked"] is told["call"] is told["suspended 0"] is StoppedError


@policies
@pytest.mark.parametrize("by", ["stop", "failure", "stop within"])
def test_a_stop_tells_a_task_that_runs_and_never_waits(by: str, policy: Any) -> None:
    """It has a place, and nothing else comes first: nobody suspends it."""
    both = threading.Barrier(3)

    def on_and_on() -> None:
        both.wait(60)
        while True:
            strand.checkpoint()

    @strand.batch_handler(state=COUNT_ROW)
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        both.wait(60)
        raise ValueError("no")

    with dispatcher(fails, 2, workers=2, policy=policy) as d:
        futures = [d.tasks.submit(on_and_on)]
        if by == "failure":
            d.publish(ticks_for([1]))
        else:
            futures.append(d.tasks.submit(on_and_on if by == "stop" else lambda: (both.wait(60), d.stop(drain=False))))
        both.wait(60)
        if by != "stop":
            wait_until(lambda: d._engine.stopping)
        assert not d.stop(drain=False)
        ends = {type(future.exception(60)) for future in futures}
    assert ends == ({StoppedError, type(None)} if by == "stop within" else {StoppedError})
    assert all(future.done() for future in futures)


def test_a_stop_that_drains_waits_for_a_blocked_task_and_a_save_refuses_none_behind_it(tmp_path: Any) -> None:
    gate = threading.Event()

    def wait() -> str:
        with strand.blocking():
            gate.wait(60)
        return "ended"

    with dispatcher("count", 2) as d:
        futures = [d.tasks.submit(wait), d.tasks.options(symbol=0).submit(wait)]
        d.publish(ticks_for([0, 1]))
        wait_until(lambda: d.thread_counts().blocked == 2)
        threading.Timer(0.05, gate.set).start()
        d.save(tmp_path / "state")
    assert [future.result(0) for future in futures] == ["ended"] * 2
    with dispatcher("count", 2, load=tmp_path / "state") as d:
        gate.clear()
        futures = [d.tasks.submit(wait)]
        wait_until(lambda: d.thread_counts().blocked == 1)
        threading.Timer(0.05, gate.set).start()
    assert futures[0].result(0) == "ended"
    assert d.rows.array["ticks"].tolist() == [1, 1]


def test_a_dispatcher_that_is_dropped_ends_tasks_that_are_blocked() -> None:
    gate = threading.Event()

    def wait() -> None:
        with strand.blocking():
            gate.wait(60)

    held = [dispatcher("count", 1).start()]

    def drop() -> None:
        held.clear()
        gc.collect()

    future, threads = held[0].tasks.submit(wait), held[0]._state.threads
    wait_until(lambda: held[0].thread_counts().blocked == 1)
    with pytest.warns(ResourceWarning, match="deleted before it was stopped"):
        drop()
    wait_until(lambda: sum(thread.is_alive() for thread in threads) == 1)
    gate.set()
    with pytest.raises(StoppedError):
        future.result(60)
    wait_until(lambda: not any(thread.is_alive() for thread in threads))


@policies
@workers
def test_many_tasks_of_many_symbols_are_suspended_and_wait_beside_ticks(policy: Any, workers: int) -> None:
    """Each ends once, and on every symbol tasks and ticks are in the order in which they were published."""
    n, seen = 8, [[] for _ in range(8)]

    @strand.batch_handler(state=COUNT_ROW)
    def handler(symbol: str, ticks: Any, row: Any) -> None:
        seen[int(symbol[1:])].extend(ticks["size"].tolist())

    def act(key: int, number: int) -> int:
        for turn in range(3):
            strand.checkpoint()
            if number % 3 == turn:
                with strand.blocking():
                    time.sleep(0.0003)
            if number % 7 == turn:
                d.tasks.submit(pow, 2, 2).result(60)
            # Whoever publishes here does so as the worker that the thread is now.
            assert d._python.site.participant == seat_here().place.participant  # type: ignore[union-attr]
        seen[key].append(number)
        return number

    random = np.random.default_rng(7)
    want: list[list[int]] = [[] for _ in range(n)]
    sequences, futures = [0] * n, []
    with dispatcher(handler, n, workers=workers, policy=policy) as d:
        for i in range(400):
            keys = random.integers(0, n, 3)
            ticks = np.zeros(3, strand.TICK)
            ticks["instrument_id"] = keys
            for at, key in enumerate(keys.tolist()):
                sequences[key] += 1
                ticks["size"][at] = sequences[key]
                want[key].append(sequences[key])
            d.publish(ticks)
            key = int(random.integers(0, n))
            futures.append(d.tasks.options(symbol=key).submit(act, key, 1_000_000 + i))
            want[key].append(1_000_000 + i)
        assert [future.result(120) for future in futures] == list(range(1_000_000, 1_000_400))
        assert d.drain(60)
    assert seen == want
    balanced(d)


def test_a_stop_between_taking_a_suspended_task_and_its_place_loses_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    hand_over = places.Places._hand_over

    def late(self: places.Places, me: places.Seat, place: Any) -> bool:
        self.end()
        return hand_over(self, me, place)

    monkeypatch.setattr(places.Places, "_hand_over", late)

    def waits(_: Any = None) -> None:
        with strand.blocking():
            pass

    for submit in (lambda d: d.tasks.submit(waits), lambda d: d.submit_call(0, waits)):
        d = dispatcher("count", 1, workers=2)
        d.start()
        future = submit(d)
        with pytest.raises(StoppedError):
            future.result(60)
        d.stop(drain=False)
        d.verify()
