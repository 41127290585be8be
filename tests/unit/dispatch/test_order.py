"""Rule 1 of the contract, order and never two at a time, in the shapes that have broken other runtimes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import (
    BURST_ROW,
    ORDER_ROW,
    PAIR_ROW,
    RELAY_ROW,
    balanced,
    in_threads,
    spin_rows,
    ticks_for,
    wait_until,
)
from order_recorder import Recorder

from strand import Dispatcher, native
from strand.dispatch.configuration import Pool
from strand.errors import BackpressureError, UnknownSymbolError


@pytest.mark.parametrize("never_publishes", [False, True], ids=["queued", "may be handled inline"])
@pytest.mark.parametrize("strands", ["per-symbol", 3])
def test_a_native_handler_never_runs_twice_at_a_time_and_sees_every_publisher_in_order(
    c_handlers: Path, strands: Any, never_publishes: bool
) -> None:
    handler = native(c_handlers, "on_order", state=ORDER_ROW, never_publishes=never_publishes)
    symbols, publishers, per_publisher = 16, 8, 10_000
    with Dispatcher(symbols, handler, workers=3, cores=None, strands=strands, budget_ticks=64, batch_ticks=256) as d:
        start = threading.Barrier(publishers)

        def publish(number: int) -> None:
            keys = np.random.default_rng(number).integers(0, symbols, per_publisher)
            ticks = ticks_for(keys, publisher=number)
            start.wait()
            for at in range(0, per_publisher, 701):
                d.publish(ticks[at : at + 701])

        in_threads(publish, range(publishers))
        d.drain()
        balanced(d)
    rows = d.rows.array
    assert rows["overlaps"].sum() == 0
    assert rows["disorder"].sum() == 0
    assert rows["ticks"].sum() == publishers * per_publisher


def test_the_order_handler_notices_disorder_and_company(c_handlers: Path) -> None:
    with Dispatcher(1, native(c_handlers, "on_order", state=ORDER_ROW), workers=1, cores=None) as d:
        ticks = ticks_for([0] * 10)
        d.publish(ticks[::-1].copy())
        d.drain()
        assert d.rows[0]["disorder"] == 10
        d.rows[0]["busy"] = 1
        d.publish(ticks[:1])
        d.drain()
        assert d.rows[0]["overlaps"] == 1


def test_a_c_handler_publishes_through_its_context(c_handlers: Path) -> None:
    symbols, hops = 50, 40
    with Dispatcher(
        symbols, native(c_handlers, "on_relay", state=RELAY_ROW), pool=Pool(workers=3, cores=None, max_publishers=1)
    ) as d:
        ticks = ticks_for(range(symbols))
        ticks["order_id"] = hops - 1
        d.publish(ticks)
        assert d.drain()
        balanced(d)
    assert d.rows.array["refused"].sum() == 0
    assert d.rows.array["ticks"].tolist() == [hops] * symbols


@pytest.mark.parametrize(("on_full", "code"), [("block", -6), ("raise", -5), ("drop_newest", 0), ("drop_oldest", 0)])
def test_a_c_handler_that_meets_a_full_strand_is_told_at_once(c_handlers: Path, on_full: str, code: int) -> None:
    handler = native(c_handlers, "on_burst", state=BURST_ROW)
    with Dispatcher(1, handler, workers=1, cores=None, capacity_ticks=8, on_full=on_full) as d:
        tick = ticks_for([0])
        tick["order_id"] = 20
        d.publish(tick)
        d.drain()
        balanced(d)
        s = d.statistics()
    row = d.rows[0]
    assert row["code"] == code
    # The tick in hand counts against the bound of a strand that keeps what it has, not of one that drops the oldest.
    fits = 8 if on_full == "drop_oldest" else 7
    assert row["accepted"] == (20 if code == 0 else 7)
    assert row["ticks"] == 1 + fits
    assert sum(s.dropped.values()) == (20 - fits if code == 0 else 0)


def test_drain_waits_for_what_handlers_publish_to_strands_it_has_looked_at_already(c_handlers: Path) -> None:
    symbols, hops = 1_000, 10_000
    handler = native(c_handlers, "on_relay", state=RELAY_ROW)
    with Dispatcher(symbols, handler, strands="per-symbol", workers=1, cores=None, publisher_drains=False) as d:
        for _ in range(20):
            tick = ticks_for([symbols - 1])
            tick["order_id"] = hops - 1
            tick["side"] = b"B"  # between the first strand and the last: where a look from first to last may miss it
            before = int(d.rows.array["ticks"].sum())
            d.publish(tick)
            d.drain()
            assert int(d.rows.array["ticks"].sum()) == before + hops


@pytest.mark.parametrize("idle", ["spin", "backoff", "park"])
def test_waves_of_ten_thousand_are_each_handled_to_the_last(idle: str) -> None:
    with Dispatcher(100, "spin", workers=2, cores=None, idle=idle, strands="per-symbol") as d:
        keys = np.random.default_rng(1).integers(0, 100, 10_000)
        for wave in range(1, 11):
            ticks = ticks_for(keys)
            ticks["sequence"] = ticks["sequence"] + (wave - 1) * np.bincount(keys, minlength=100)[keys]
            d.publish(ticks)
            assert d.drain()
            assert d.rows.array["ticks"].sum() == wave * 10_000
        balanced(d)
    assert d.rows.array["broken"].sum() == 0


@pytest.mark.parametrize("idle", ["spin", "backoff", "park"])
def test_two_thousand_quick_symbols_are_done_while_a_slow_one_still_runs(c_handlers: Path, idle: str) -> None:
    gate = np.zeros(1, np.uint64)
    slow = native(c_handlers, "on_gate", state=PAIR_ROW, params=int(gate.ctypes.data).to_bytes(8, "little"))
    symbols = 2_001
    handlers = {"#0": slow, "*": native(c_handlers, "on_sum", state=PAIR_ROW)}
    with Dispatcher(
        symbols, handlers=handlers, workers=2, cores=None, idle=idle, publisher_drains=False, strands="per-symbol"
    ) as d:
        first = ticks_for([0] * 50)
        first["action"] = b"W"
        d.publish(first)
        wait_until(lambda: d.inspect(0).owner is not None)
        try:
            quick = ticks_for(np.tile(np.arange(1, symbols), 20))
            d.publish(quick)
            counts = d.rows.of_handler("on_sum")["ticks"]
            wait_until(lambda: bool((counts[1:] == 20).all()))
            assert d.inspect(0).handled == 0
            assert d.inspect(0).pending == 50
            assert d.watermark() < 50
        finally:
            gate[0] = 1
        d.drain()
        balanced(d)
        assert d.inspect(0).handled == 50


@pytest.mark.cells(1)
@pytest.mark.parametrize("start", [2**32 - 5, 2**64 - 5, 2**63 - 5])
@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_counters_may_wrap_around(start: int, on_full: str) -> None:
    keys = np.random.default_rng(7).integers(0, 9, 30_000)
    ticks = ticks_for(keys)
    with Dispatcher(9, "spin", workers=2, cores=None, on_full=on_full, budget_ticks=100, _counters_start=start) as d:
        assert d.watermark() == start
        for at in range(0, len(ticks), 1_000):
            d.publish(ticks[at : at + 1_000])
            assert 0 <= d.statistics().pending <= 30_000
        d.drain()
        balanced(d)
        assert d.watermark() == (start + len(ticks)) % 2**64
        s = d.statistics()
        assert (s.accepted, s.handled, s.pending) == (30_000, 30_000, 0)
        assert sum(w.handled for w in s.workers) == 30_000
        assert sum(d.inspect(i).handled for i in range(9)) == 30_000
    assert d.rows.array["broken"].sum() == 0
    assert (d.rows.array["value"] == spin_rows(ticks, 9)["value"]).all()


def test_a_chunk_may_have_other_strands_than_the_one_before_it() -> None:
    few, others, both, many = [0, 1, 2, 3], [4, 5, 6], [6, 2, 7], list(range(100))
    chunks = [few, few, others, both, many, few, [99], few, others]
    keys = [key for chunk in chunks for key in (chunk * 120)[:120]]
    recorder = Recorder(100)
    with Dispatcher(100, recorder.handler(), workers=2, cores=None, batch_ticks=120) as d:
        ticks = ticks_for(keys)
        d.publish(ticks)
        d.drain()
        for key in range(100):
            sequences = ticks["sequence"][ticks["instrument_id"] == key]
            assert [sequence for _, sequence in recorder.seen[key]] == sequences.tolist()
        balanced(d)


@pytest.mark.parametrize("publisher_drains", [False, True], ids=["queued", "inline"])
@pytest.mark.parametrize("strands", ["per-symbol", 64])
def test_symbols_too_many_for_a_cache_keep_their_order_up_to_a_record_of_no_symbol(
    strands: Any, publisher_drains: bool
) -> None:
    """From 32,768 symbols on what keys lead to is asked for ahead: by keys that have not been looked at yet."""
    symbols, bad = 40_000, 150_000
    keys = np.random.default_rng(4).integers(0, symbols, 200_000)
    keys[:2_000] = symbols - 1
    ticks = ticks_for(keys)
    counts = np.bincount(keys[:bad], minlength=symbols)
    ticks["instrument_id"][bad] = 2**32 - 1
    with Dispatcher(symbols, "spin", strands=strands, workers=2, cores=None, publisher_drains=publisher_drains) as d:
        with pytest.raises(UnknownSymbolError, match=f"record {bad}: "):
            d.publish(ticks)
        d.drain()
        balanced(d)
        assert (d.statistics().handled_inline > 0) == publisher_drains
    assert d.rows.array["broken"].sum() == 0
    assert d.rows.array["ticks"].tolist() == counts.tolist()


@pytest.mark.parametrize(
    ("kind", "on_full", "strands"),
    [
        ("count", "block", "auto"),
        ("count", "drop_oldest", "per-symbol"),
        ("count", "conflate", 10),
        ("book", "raise", 10),
    ],
)
def test_keys_that_change_while_they_are_published_lose_no_count(kind: str, on_full: Any, strands: Any) -> None:
    symbols = 100
    ticks = ticks_for(np.arange(20_000) % symbols)
    good = ticks["instrument_id"].copy()
    bad = good.copy()
    bad[::7], bad[3::11] = 0xFFFFFFFF, symbols
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            ticks["instrument_id"] = bad
            ticks["instrument_id"] = good

    changing = threading.Thread(target=change)
    with Dispatcher(symbols, kind, workers=2, cores=None, on_full=on_full, strands=strands) as d:
        changing.start()
        try:
            accepted = 0
            for _ in range(100):
                try:
                    accepted += d.publish(ticks)
                except UnknownSymbolError as error:
                    accepted += error.position
                except BackpressureError as error:
                    accepted += len(ticks) - len(error.rejected)
        finally:
            over.set()
            changing.join()
        d.drain()
        balanced(d)
        assert d.statistics().accepted == accepted
