"""Any stream, batching, workers, bounds and policy give what a plain loop gives; and permits are kept."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from dispatch_cases import Case, cases, spin_in_python
from engine_support import balanced, numbered, spin_rows, subsequence, ticks_for
from hypothesis import given
from hypothesis import strategies as st

from strand import Aging, Dispatcher, Levels, NativeTask, batch_handler


def publish_all(d: Dispatcher, case: Case) -> None:
    """Each publisher in a thread of its own, cut into batches."""
    failed: list[BaseException] = []

    def publish(number: int) -> None:
        try:
            ticks = ticks_for(case.streams[number], publisher=number)
            for at in range(0, len(ticks), case.cuts):
                d.publish(ticks[at : at + case.cuts])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=publish, args=(i,)) for i in range(1, len(case.streams))]
    for thread in threads:
        thread.start()
    publish(0)
    for thread in threads:
        thread.join()
    assert failed == []


@given(cases(publishers=1))
def test_one_publisher_s_rows_equal_a_plain_loop(case: Case) -> None:
    handler: Any = spin_in_python if case.python else "spin"
    ticks = ticks_for(case.streams[0])
    with Dispatcher(case.symbols, handler, strands=case.strands, **case.options) as d:
        publish_all(d, case)
        assert d.drain()
        balanced(d)
        start = case.options["_counters_start"]
        assert d.watermark() == (start + len(ticks)) % 2**64
        s = d.statistics()
        assert (s.accepted, s.handled, s.pending, sum(s.dropped.values())) == (len(ticks), len(ticks), 0, 0)
    assert (d.rows.array == spin_rows(ticks, case.symbols)).all()


@given(cases())
def test_each_publisher_s_ticks_of_a_symbol_are_seen_in_its_order(case: Case) -> None:
    seen: list[list[tuple[int, int]]] = [[] for _ in range(case.symbols)]

    @batch_handler(state=[("ticks", "u8")])
    def keeps(symbol: str, ticks: Any, row: Any) -> None:
        row["ticks"] += len(ticks)
        seen[int(ticks["instrument_id"][0])] += zip(
            ticks["publisher_id"].tolist(), ticks["sequence"].tolist(), strict=True
        )

    handler: Any = keeps if case.python else "count"
    with Dispatcher(case.symbols, handler, strands=case.strands, **case.options) as d:
        publish_all(d, case)
        assert d.drain()
        balanced(d)
        assert d.watermark() == (case.options["_counters_start"] + sum(map(len, case.streams))) % 2**64
    every = np.concatenate([np.asarray(s, np.int64) for s in case.streams])
    assert d.rows.array["ticks"].tolist() == np.bincount(every, minlength=case.symbols).tolist()
    for key in range(case.symbols if case.python else 0):
        for number, stream in enumerate(case.streams):
            mine = [sequence for publisher, sequence in seen[key] if publisher == number]
            assert mine == list(range(1, stream.count(key) + 1))


@given(cases(), st.sampled_from(["drop_newest", "drop_oldest", "conflate"]), st.booleans())
def test_what_a_lossy_policy_lets_through_is_in_order_and_what_it_drops_is_counted(
    case: Case, on_full: str, paused: bool
) -> None:
    """One symbol a strand, so that its own latest tick is the strand's latest."""
    seen: list[list[tuple[int, int]]] = [[] for _ in range(case.symbols)]

    @batch_handler(state=[("ticks", "u8")])
    def keeps(symbol: str, ticks: Any, row: Any) -> None:
        seen[int(ticks["instrument_id"][0])] += zip(
            ticks["publisher_id"].tolist(), ticks["sequence"].tolist(), strict=True
        )

    with Dispatcher(case.symbols, keeps, strands="per-symbol", on_full=on_full, **case.options) as d:
        for symbol in range(0, case.symbols if paused else 0, 2):
            d.pause(symbol)
        publish_all(d, case)
        d.drain()
        s = d.statistics()
        assert s.accepted == sum(map(len, case.streams))
        assert s.pending == sum(d.inspect(i).pending for i in range(case.symbols))
        balanced(d)
        for symbol in range(case.symbols):
            d.resume(symbol)
        d.drain()
        balanced(d)
        s = d.statistics()
        assert s.accepted == s.handled + sum(s.dropped.values()) == sum(map(len, case.streams))
        assert s.handled == sum(map(len, seen))
        reason = {"drop_newest": "newest", "drop_oldest": "oldest", "conflate": "conflated"}[on_full]
        assert sum(s.dropped.values()) == s.dropped[reason]
        assert d.watermark() == (case.options["_counters_start"] + s.accepted) % 2**64
    for key in range(case.symbols):
        for number, stream in enumerate(case.streams):
            mine = [sequence for publisher, sequence in seen[key] if publisher == number]
            assert subsequence(mine, range(1, stream.count(key) + 1))
        published = {(number, stream.count(key)) for number, stream in enumerate(case.streams) if key in stream}
        assert bool(seen[key]) == bool(published)
        if published:
            if on_full == "drop_newest":
                assert seen[key][0][1] == 1
            else:
                assert seen[key][-1] in published  # some publisher's last


@given(cases(publishers=1), st.sampled_from(["drop_oldest", "conflate"]))
def test_shared_strands_that_drop_end_with_the_latest_of_what_they_keep(case: Case, on_full: str) -> None:
    """Native, several symbols a strand."""
    options = case.options | ({"capacity_ticks": 2 * case.symbols} if on_full == "conflate" else {})
    keys = np.asarray(case.streams[0], np.int64)
    with Dispatcher(case.symbols, "count", strands=case.strands, on_full=on_full, **options) as d:
        publish_all(d, case)
        d.drain()
        balanced(d)
        s = d.statistics()
        assert s.accepted == len(keys) == s.handled + sum(s.dropped.values())
        if on_full == "conflate":
            counts = np.bincount(keys, minlength=case.symbols)
            assert d.rows.array["last_sequence"].tolist() == counts.tolist()
        elif len(keys):
            last = int(keys[-1])
            assert d.rows[last]["last_sequence"] == (keys == last).sum()


@given(st.lists(st.integers(0, 5), max_size=50))
def test_the_numbers_streams_carry_are_each_symbol_s_own(keys: list[int]) -> None:
    """The tests above lean on it."""
    seen: dict[int, int] = {}
    for key, place in zip(keys, numbered(np.asarray(keys, np.int64)).tolist(), strict=True):
        seen[key] = seen.get(key, 0) + 1
        assert place == seen[key]


# ---- Who has a permit, and that nothing waits for one beside a worker that could go on


HOUR = Levels({"high": "1h", "retry": "1h", "normal": "1h", "low": "1h"})
#: A function in C's place, that waits without the GIL.
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class Slow:
    """Tasks in C. Each waits for its gate."""

    def __init__(self, n: int) -> None:
        self.gates = [threading.Event() for _ in range(n)]
        self.begun = [threading.Event() for _ in range(n)]
        self._function = FUNCTION(self._run)
        self._task = NativeTask(ctypes.cast(self._function, ctypes.c_void_p).value)

    def _run(self, ctx: Any, argument: int, why: int) -> None:
        i = ctypes.c_int64.from_address(argument).value
        self.begun[i].set()
        self.gates[i].wait(60)

    def submit(self, d: Dispatcher, i: int, symbol: int) -> None:
        d.tasks.submit_native(self._task, np.array([i], "i8"), symbol=symbol)


class Long:
    """A task of Python's that waits with its worker."""

    def __init__(self) -> None:
        self.gate, self._begun = threading.Event(), threading.Event()

    def begin(self, d: Dispatcher) -> None:
        d.tasks.submit(self._run)
        assert self._begun.wait(60)

    def _run(self) -> None:
        self._begun.set()
        self.gate.wait(60)


@contextmanager
def opened_at_last(*gates: threading.Event) -> Iterator[None]:
    try:
        yield
    finally:
        for gate in gates:
            gate.set()


def dispatcher(n: int, workers: int, **options: Any) -> Dispatcher:
    given: dict[str, Any] = {
        "publisher_drains": False,
        "strands": "per-symbol",
        "idle": "park",
        "cores": None,
    } | options
    return Dispatcher(n, "count", workers=workers, **given)


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_task_in_c_on_a_strand_runs_without_a_permit() -> None:
    slow, long, ran = Slow(2), Long(), threading.Event()
    with dispatcher(3, 2, policy=HOUR) as d, opened_at_last(long.gate, *slow.gates):
        long.begin(d)
        d.tasks.options(priority="low").submit(ran.set)
        wait_until(lambda: d._engine.ready_strands() == 1)
        slow.submit(d, 0, symbol=1)  # by the other worker, which has deferred the task
        assert slow.begun[0].wait(60)
        slow.submit(d, 1, symbol=2)
        long.gate.set()  # its worker may take a permit, and has the strand first
        assert slow.begun[1].wait(60)
        slow.gates[0].set()
        assert ran.wait(60)
        assert not slow.gates[1].is_set()


def test_a_permit_more_is_seen_although_the_worker_that_is_active_now_is_busy() -> None:
    slow, long, ran = Slow(3), Long(), threading.Event()
    with dispatcher(3, 3, policy=HOUR) as d, opened_at_last(long.gate, *slow.gates):
        for i in range(3):
            slow.submit(d, i, symbol=i)
        assert all(begun.wait(60) for begun in slow.begun)
        last = next(i for i in range(3) if d.inspect(i).owner == 2)
        d._engine.schedule.activate(2)
        for gate in (gate for i, gate in enumerate(slow.gates) if i != last):
            gate.set()
        wait_until(lambda: sum(d.inspect(i).owner is not None for i in range(3)) == 1)
        long.begin(d)
        parks = sum(worker.parks for worker in d.statistics().workers)
        d.tasks.submit(ran.set)
        wait_until(lambda: sum(worker.parks for worker in d.statistics().workers) > parks)
        assert not ran.is_set()
        d._engine.schedule.activate(3)
        assert ran.wait(60)


def test_what_waits_for_a_permit_or_is_left_to_a_worker_is_counted_once() -> None:
    long = Long()
    with dispatcher(1, 2, policy=Aging()) as d, opened_at_last(long.gate):
        long.begin(d)
        for _ in range(10):
            d.tasks.submit(int)
        wait_until(lambda: sum(d.statistics().picked.values()) == 11)
        long.gate.set()
        assert d.drain(timeout_s=60)
        assert d.statistics().picked == {"normal": 11}
    long = Long()
    with dispatcher(1, 1, policy=Aging(), publisher_drains=True) as d, opened_at_last(long.gate):
        long.begin(d)
        d.tasks.submit(int)
        assert not d.drain(timeout_s=0.05)
        long.gate.set()
        assert d.drain(timeout_s=60)
        assert d.statistics().picked == {"normal": 2}


@pytest.mark.parametrize("held", ["paused", "paused and delayed"])
def test_a_stop_does_not_wait_for_tasks_of_a_paused_symbol(held: str) -> None:
    d = dispatcher(2, 1)
    d.start()
    d.pause(0)
    future = d.tasks.options(symbol=0, delay="1h" if "delayed" in held else None).submit(int)
    other = d.tasks.options(symbol=1).submit(pow, 2, 3)
    assert d.stop(timeout_s=60)
    assert other.result(60) == 8
    assert future.state == ("cancelled" if "delayed" in held else "dropped")
