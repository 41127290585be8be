"""Statistics of a dispatcher, while it runs and at rest."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import PAIR_ROW, balanced, counting, native_gate, ticks_for, wait_until

from strand import Dispatcher, native
from strand.errors import BackpressureError, EngineError, StoppedError
from strand.handlers import spin

pytestmark = pytest.mark.python


@pytest.mark.cells(1)
@pytest.mark.parametrize("handler", ["count", counting], ids=["native", "python"])
@pytest.mark.parametrize("on_full", ["block", "drop_newest", "drop_oldest", "conflate"])
def test_the_books_balance_at_every_moment_and_never_go_back(handler: Any, on_full: str) -> None:
    """Rule 2, read while publishers and workers are at it."""
    with Dispatcher(
        20, handler, workers=2, cores=None, on_full=on_full, capacity_ticks=500, batch_ticks=4096, strands="per-symbol"
    ) as d:
        done = threading.Event()

        def publish(number: int) -> None:
            ticks = ticks_for(np.random.default_rng(number).integers(0, 20, 20_000))
            with contextlib.suppress(StoppedError):
                while not done.is_set():
                    d.publish(ticks)

        threads = [threading.Thread(target=publish, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        before, mark, looks = d.statistics(), d.watermark(), 0
        while looks < 300 or before.handled < 100_000:
            s = d.statistics()
            looks += 1
            assert s.accepted == s.handled + sum(s.dropped.values()) + s.pending
            assert 0 <= s.pending < 2**40
            assert s.accepted >= before.accepted
            assert s.handled >= before.handled
            assert all(s.dropped[reason] >= n for reason, n in before.dropped.items())
            assert mark <= s.watermark <= s.accepted - s.pending
            look = d.inspect(looks % 20)
            assert look.pending >= 0
            before, mark = s, s.watermark
        done.set()
        for thread in threads:
            thread.join()
        d.drain()
        balanced(d)
        assert d.watermark() == d.statistics().accepted


def test_the_watermark_stays_at_the_oldest_tick_that_is_not_handled(c_handlers: Path) -> None:
    handler, gate = native_gate(c_handlers)
    with Dispatcher(3, handler, workers=2, cores=None, publisher_drains=False) as d:
        assert d.watermark() == 0
        d.publish(ticks_for([0] * 10))
        d.drain()
        assert d.watermark() == 10
        held = ticks_for([1])
        held["action"] = b"W"
        try:
            d.publish(held)
            d.publish(ticks_for([0, 2] * 50))
            wait_until(lambda: d.statistics().handled == 110)
            assert [d.watermark() for _ in range(3)] == [10] * 3
        finally:
            gate[0] = 1
        d.drain()
        assert d.watermark() == 111


def test_the_watermark_reaches_the_end_after_a_drain_whatever_was_asked_before() -> None:
    with Dispatcher(50, "spin", workers=2, cores=None) as d:
        ticks = ticks_for(np.random.default_rng(1).integers(0, 50, 20_000))
        for turn in range(1, 21):
            d.publish(ticks)
            d.watermark()
            d.drain()
            assert d.watermark() == turn * 20_000


def test_a_publish_that_was_given_up_does_not_hold_the_watermark_back() -> None:
    with Dispatcher(1, counting, workers=1, cores=None, capacity_ticks=10) as d:
        d.pause(0)
        with pytest.raises(BackpressureError):
            d.publish(ticks_for([0] * 25), timeout_s=0)
        d.resume(0)
        d.drain()
        assert d.watermark() == 25  # the ones that did not go in have had their place


def test_the_watermark_counts_ticks_that_were_dropped_as_dealt_with() -> None:
    for on_full in ("drop_newest", "drop_oldest"):
        with Dispatcher(1, counting, workers=1, cores=None, capacity_ticks=10, on_full=on_full) as d:
            d.pause(0)
            d.publish(ticks_for([0] * 100))
            assert d.watermark() == 0
            d.resume(0)
            d.drain()
            assert d.watermark() == 100


def test_statistics_are_frozen_and_fit_for_json() -> None:
    with Dispatcher(4, "count", workers=2, cores=None) as d:
        d.publish(ticks_for([0, 1, 2, 3] * 100))
        d.drain()
        s = d.statistics()
    with pytest.raises(AttributeError):
        s.accepted = 1  # type: ignore[misc]
    for table in (s.dropped, s.wait.percentiles):
        before: Any = table
        assert copy.deepcopy(table) == pickle.loads(pickle.dumps(table)) == dict(table)
        for change in (
            lambda t: t.update(newest=5),
            lambda t: t.__setitem__("newest", 5),
            lambda t: t.setdefault("other", 5),
            lambda t: t.popitem(),
            lambda t: t.clear(),
            lambda t: t.__ior__({"newest": 5}),
        ):
            with pytest.raises(TypeError, match="cannot be changed"):
                change(before)
    for array in (s.wait.counts, s.wait.floors_ns):
        assert not array.flags.writeable
    assert dataclasses.asdict(s)["dropped"] == s.dropped
    plain = json.loads(json.dumps(s.as_dict()))
    assert (plain["accepted"], plain["handled"], plain["pending"]) == (400, 400, 0)
    assert set(plain["dropped"]) == {
        "newest",
        "oldest",
        "conflated",
        "quarantined",
        "shed",
        "failed",
        "lost",
        "abandoned",
    }
    assert [w["name"] for w in plain["workers"]] == ["worker 0", "worker 1", "publishers"]
    assert plain["latency"]["wait"].keys() == {
        "count", "p50_ns", "p90_ns", "p99_ns", "p99.9_ns", "maximum_ns", "resolution_ns",
    }  # fmt: skip


def test_on_one_core_the_publisher_handles_what_it_publishes_instead_of_queueing_it() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with Dispatcher(16, spin(2000), workers=1) as d:
            d.publish(ticks_for(np.arange(20_000) % 16))
            d.drain()
            s = d.statistics()
    finally:
        os.sched_setaffinity(0, allowed)
    assert s.handled == 20_000
    assert s.handled_inline > 19_000


def test_every_tick_is_counted_once_in_each_latency_and_for_one_worker(c_handlers: Path) -> None:
    for handler in ("count", counting, native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=True)):
        with Dispatcher(16, handler, workers=2, cores=None) as d:
            d.publish(ticks_for(np.arange(50_000) % 16))
            d.drain()
            s = d.statistics()
        assert s.wait.count == s.handler.count == s.end_to_end.count == s.handled == 50_000
        assert sum(w.handled for w in s.workers) == 50_000
        assert sum(w.visits for w in s.workers) == s.visits > 0
        assert s.handled_inline <= s.handled
        # Percentiles are the upper edges of buckets one part in sixteen wide.
        assert s.wait.percentiles[50.0] <= s.end_to_end.percentiles[50.0] * 17 / 16
        for latency in (s.wait, s.handler, s.end_to_end):
            values = list(latency.percentiles.values())
            assert values == sorted(values)
            assert values[-1] <= latency.maximum_ns


def test_a_look_at_a_strand_names_its_owner_and_its_books(c_handlers: Path) -> None:
    handler, gate = native_gate(c_handlers)
    with Dispatcher(3, handler, workers=1, cores=None, publisher_drains=False, capacity_ticks=7) as d:
        ticks = ticks_for([1, 1])
        ticks["action"][0] = b"W"
        try:
            d.publish(ticks)
            wait_until(lambda: d.inspect(1).owner == 0)
            look = d.inspect(1)
            assert (look.accepted, look.handled, look.pending, look.capacity) == (2, 0, 2, 7)
        finally:
            gate[0] = 1
        d.drain()
        look = d.inspect("#1")
        assert (look.owner, look.accepted, look.handled, look.pending) == (None, 2, 2, 0)
        assert (look.failed, look.lost, look.dropped, look.paused, look.quarantined) == (0, 0, (0,) * 5, False, False)


def test_the_check_is_not_blind(c_handlers: Path) -> None:
    """While a handler runs the books are not at rest, and the check says so."""
    handler, gate = native_gate(c_handlers)
    with Dispatcher(1, handler, workers=1, cores=None, publisher_drains=False) as d:
        held = ticks_for([0])
        held["action"] = b"W"
        try:
            d.publish(held)
            wait_until(lambda: d.inspect(0).owner is not None)
            with pytest.raises(Exception, match="strand 0: owned although nothing runs"):
                d.verify()
        finally:
            gate[0] = 1
        d.drain()
        d.verify()


def test_the_check_reads_the_books_again_while_a_turn_for_nothing_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [EngineError("tasks that have not ended are not those on strands")] * 3
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        verify = d._engine.verify

        def beside() -> None:
            if told:
                raise told.pop()
            verify()

        monkeypatch.setattr(d._engine, "verify", beside)
        d.verify()
        assert told == []


def test_visits_end_at_the_budget_and_are_counted_as_cut() -> None:
    with Dispatcher(1, counting, workers=1, cores=None, budget_ticks=10) as d:
        d.pause(0)
        d.publish(ticks_for([0] * 100))
        d.resume(0)
        d.drain()
        s = d.statistics()
        assert (s.visits, s.cut) == (10, 9)
