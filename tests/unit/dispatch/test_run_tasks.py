"""Tasks on the workers that drain ticks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import wait_until

from strand import (
    TICK,
    Aging,
    Config,
    Dispatcher,
    Fair,
    Fifo,
    Levels,
    RetryPolicy,
    TaskGroup,
    blocking,
    object_handler,
)
from strand.dispatch.configuration import Pool, grouped
from strand.errors import ConfigurationError, SavedStateError, StoppedError, TaskDropped, WouldDeadlockError
from strand.tasks import TaskFuture


def ticks_of(key: int, n: int) -> Any:
    ticks = np.zeros(n, TICK)
    ticks["instrument_id"] = key
    return ticks


@pytest.mark.parametrize("policy", [Fifo(), Levels(), Fair()], ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("handler", ["count", "python"])
def test_a_task_of_a_symbol_runs_in_order_with_its_ticks(handler: str, policy: Any) -> None:
    seen: list[int] = []

    class Counts:
        def __init__(self) -> None:
            self.n = 0

        def on_tick(self, tick: Any) -> None:
            self.n += 1

    handling: Any = "count" if handler == "count" else object_handler(Counts)
    with Dispatcher(3, handling, workers=2, cores=None, policy=policy) as d:
        on_strand = d.tasks.options(symbol=1)
        for i in range(200):
            d.publish(ticks_of(1, 7))
            d.publish(ticks_of(i % 3, 2))
            on_strand.submit(seen.append, i)
        futures = d.tasks.submit_many(abs, range(-100, 0))
        assert d.drain(timeout_s=60)
        assert seen == list(range(200))
        assert [future.result(60) for future in futures] == list(range(100, 0, -1))
        answer = d.call(1, lambda view: view.index)
        assert answer == 1
    d.verify()


def test_a_stop_waits_for_what_can_run_and_cancels_what_is_delayed() -> None:
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        keyed = [d.tasks.options(key="k").submit(time.sleep, 0.002) for _ in range(20)]
        late = d.tasks.options(delay="1h").submit(int)
    assert [future.state for future in keyed] == ["done"] * 20
    assert late.cancelled()
    with pytest.raises(StoppedError):
        d.tasks.submit(int)


def stop_with_one_that_runs(d: Dispatcher, gate: threading.Event, first: TaskFuture, others: list[TaskFuture]) -> None:
    """A stop without draining waits for the one that runs until ``gate`` opens, and ends the others."""
    threading.Timer(0.05, gate.set).start()
    assert not d.stop(drain=False)
    assert first.result(60)
    for future in others:
        with pytest.raises((CancelledError, TaskDropped)):
            future.result(60)


def test_before_the_start_and_after_a_handlers_failure_nothing_is_left_waiting() -> None:
    class Fails:
        def on_tick(self, tick: Any) -> None:
            raise ValueError("no")

    d = Dispatcher(1, object_handler(Fails), workers=1, cores=None)
    with pytest.raises(StoppedError, match="start"):
        d.tasks.submit(int)
    d.start()
    on_strand = d.tasks.options(symbol=0)
    d.pause(0)
    d.publish(ticks_of(0, 1))
    future = on_strand.submit(int)
    d.resume(0)
    with pytest.raises(Exception, match="no"):
        d.stop()
    with pytest.raises(TaskDropped, match="stopped"):
        future.result(60)


def test_a_task_cannot_wait_for_its_dispatcher() -> None:
    with Dispatcher(1, "count", workers=2, cores=None) as d:
        for ask in (d.drain, d.stop):
            with pytest.raises(WouldDeadlockError):
                d.tasks.submit(ask).result(60)
        assert d.tasks.submit(lambda: d.tasks.submit(pow, 2, 3)).result(60).result(60) == 8


def test_groups_of_tasks_stand_beside_those_of_symbols() -> None:
    with Dispatcher(["A", "B"], "count", workers=1, cores=None, policy=Fair(), groups={"A": "mail"}) as d:
        d.publish(ticks_of(0, 10))
        d.tasks.options(group=TaskGroup("mail")).submit(int)
        d.tasks.options(group=TaskGroup("report")).submit(lambda: [i * i for i in range(200_000)])
        d.tasks.submit(int)
        assert d.drain(timeout_s=60)
        fair = d.statistics().fair
    assert fair is not None
    assert list(fair.groups) == ["mail", "B", "(tasks)", "report"]
    assert fair.groups["report"].on_cpu_ns > 1_000_000


def test_tasks_are_not_saved(tmp_path: Path) -> None:
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        d.tasks.options(delay="1h").submit(int)
        with pytest.raises(SavedStateError, match="1 tasks have not ended"):
            d.save(tmp_path / "state")
        d.publish(ticks_of(0, 3))
    assert d.statistics().handled == 3


# ---- workers that Python's tasks leave to the ticks


class AtOnce:
    """Counts who is inside, and the most there were."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


@contextmanager
def opened_at_last(gate: threading.Event) -> Iterator[None]:
    try:
        yield
    finally:
        gate.set()


def until_handled(d: Dispatcher, n: int) -> None:
    end = time.monotonic() + 60
    while d.statistics().handled < n:
        assert time.monotonic() < end, f"{d.statistics().handled} of {n} ticks were handled"
        time.sleep(0.001)


@pytest.mark.cells(1)
@pytest.mark.parametrize("spins", [False, True], ids=["sleeps", "spins"])
@pytest.mark.parametrize("idle", ["park", "backoff"])
@pytest.mark.parametrize("policy", [Fifo(), Levels(), Aging(), Fair()], ids=lambda policy: type(policy).__name__)
def test_ticks_go_on_while_tasks_and_calls_hold_all_other_workers(policy: Any, idle: str, spins: bool) -> None:
    inside, begun, gate = AtOnce(), threading.Event(), threading.Event()

    def long(*_: Any) -> None:
        with inside:
            begun.set()
            while not gate.is_set():
                if not spins:
                    gate.wait(0.01)

    options: dict[str, Any] = {"strands": "per-symbol", "publisher_drains": False, "idle": idle, "policy": policy}
    with Dispatcher(6, "count", workers=2, cores=None, **options) as d, opened_at_last(gate):
        futures = [d.tasks.submit(long) for _ in range(3)]
        futures += [d.tasks.options(symbol=4).submit(long), d.tasks.options(key="k").submit(long)]
        futures.append(d.submit_call(5, long))
        assert begun.wait(60)
        for i in range(400):
            d.publish(ticks_of(i % 4, 10))
        until_handled(d, 4000)
        assert inside.most == 1
        gate.set()
        for future in futures:
            future.result(60)
        assert d.drain(timeout_s=60)
        assert inside.most == 1
    d.verify()


@pytest.mark.parametrize(
    ("policy", "most"),
    [(Fifo(), 2), (Levels(), 2), (Aging(), 2), (Fair(), 2), (Fifo(), 1)],
    ids=lambda value: str(value) if isinstance(value, int) else type(value).__name__,
)
def test_never_more_tasks_run_than_python_workers_and_as_many_do(policy: Any, most: int) -> None:
    inside, meet = AtOnce(), threading.Barrier(most)

    def short() -> None:
        with inside:
            time.sleep(0.0005)

    with Dispatcher(4, "count", pool=Pool(workers=4, python_workers=most, cores=None), policy=policy) as d:
        met = [d.tasks.submit(meet.wait, 60) for _ in range(most)]
        assert sorted(future.result(60) for future in met) == [*range(most)]
        tasks = [d.tasks.submit(short) for _ in range(200)]
        for i in range(100):
            tasks.append(d.tasks.options(symbol=i % 4).submit(short))
            d.publish(ticks_of(i % 4, 20))
        assert d.drain(timeout_s=60)
        for task in tasks:
            task.result(60)
        assert d.statistics().handled == 2000
    assert 1 <= inside.most <= most
    d.verify()


class Python:
    def on_tick(self, tick: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "options"),
    [("count", {"python_workers": 3}), (object_handler(Python), {})],
    ids=["as many as workers", "where all handlers are Python's"],
)
def test_all_workers_may_run_tasks(handler: Any, options: dict[str, Any]) -> None:
    meet = threading.Barrier(3)
    with Dispatcher(1, handler, **grouped(workers=3, cores=None, **options)) as d:
        futures = [d.tasks.submit(meet.wait, 60) for _ in range(3)]
        assert sorted(future.result(60) for future in futures) == [0, 1, 2]


def test_the_highest_level_goes_first_when_a_worker_is_free_for_it() -> None:
    begun, gate, order = threading.Event(), threading.Event(), []
    policy = Levels({"high": "1h", "retry": "1h", "normal": "1h", "low": "1h"})
    with (
        Dispatcher(1, "count", workers=2, cores=None, policy=policy, publisher_drains=False) as d,
        opened_at_last(gate),
    ):
        d.tasks.submit(lambda: (begun.set(), gate.wait(60)))
        assert begun.wait(60)
        for i, level in enumerate(("low", "normal", "high", "normal", "low", "immediate")):
            d.tasks.options(priority=level).submit(order.append, (level, i))
        d.publish(ticks_of(0, 10))
        until_handled(d, 10)
        gate.set()
        assert d.drain(timeout_s=60)
    assert order == [("immediate", 5), ("high", 2), ("normal", 1), ("normal", 3), ("low", 0), ("low", 4)]


def test_a_stop_ends_what_waits_for_a_worker() -> None:
    begun, gate = threading.Event(), threading.Event()
    with Dispatcher(2, "count", workers=2, cores=None, publisher_drains=False) as d:
        first = d.tasks.submit(lambda: (begun.set(), gate.wait(60)))
        assert begun.wait(60)
        others = [*d.tasks.submit_many(int, "123"), d.tasks.options(symbol=1).submit(int)]
        call = d.submit_call(1, lambda view: view.index)
        d.publish(ticks_of(0, 10))
        until_handled(d, 10)
        stop_with_one_that_runs(d, gate, first, others)
    with pytest.raises(StoppedError):
        call.result(60)


def fails_twice() -> Any:
    calls: list[int] = []

    def fn() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError
        return len(calls)

    return fn


def test_the_usual_retries_are_those_of_the_dispatcher(tmp_path: Path) -> None:
    given = RetryPolicy(max_retries=2, base_delay="1ms", max_delay="1ms")
    with Dispatcher(1, "count", workers=1, cores=None, retry=given) as d:
        assert d.tasks.submit(fails_twice()).result(60) == 3
        once = d.tasks.options(retry=RetryPolicy(max_retries=0)).submit(fails_twice())
        assert isinstance(once.exception(60), ConnectionError)
    (tmp_path / "a.toml").write_text('retry_policy = {initial_backoff = "1ms", max_backoff = "1ms"}\n')
    options = Config.load(tmp_path / "a.toml").dispatcher_options()
    with Dispatcher(1, "count", workers=1, cores=None, **options) as d:
        assert d.tasks.submit(fails_twice()).result(60) == 3
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        assert isinstance(d.tasks.submit(fails_twice()).exception(60), ConnectionError)
    with pytest.raises(ConfigurationError, match="retry: 3 is not a strand"):
        Dispatcher(1, "count", retry=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("of", ["a free task", "a task of a symbol"])
def test_a_worker_is_busy_with_a_task_of_pythons_but_not_while_that_is_in_a_block(of: str) -> None:
    gate, spans = threading.Event(), {"busy": 0, "blocked": 0}

    def works() -> None:
        begun = time.perf_counter_ns()
        time.sleep(0.02)
        spans["busy"] += time.perf_counter_ns() - begun
        begun = time.perf_counter_ns()
        with blocking():
            assert gate.wait(60)
            spans["blocked"] = time.perf_counter_ns() - begun
        begun = time.perf_counter_ns()
        time.sleep(0.02)
        spans["busy"] += time.perf_counter_ns() - begun

    with Dispatcher(2, "count", workers=1, cores=None) as d:
        begun = time.perf_counter_ns()
        tasks = d.tasks if of == "a free task" else d.tasks.options(symbol=1)
        future = tasks.submit(works)
        wait_until(lambda: d.thread_counts().blocked == 1)
        at_block = d.statistics().workers[0].busy_ns
        assert at_block >= 0.9 * spans["busy"]
        time.sleep(0.2)
        assert d.statistics().workers[0].busy_ns == at_block
        gate.set()
        future.result(60)
        assert d.drain(timeout_s=60)
        found, took = d.statistics().workers[0].busy_ns, time.perf_counter_ns() - begun
    assert 0.9 * spans["busy"] <= found <= took - spans["blocked"] / 2
