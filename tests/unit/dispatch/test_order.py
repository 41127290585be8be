"""Rule 1 of the contract, order and never two at a time, in the shapes that have broken other runtimes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_feed import synthetic_day
from engine_support import (
    BURST_ROW,
    ORDER_ROW,
    PAIR_ROW,
    RELAY_ROW,
    balanced,
    beside,
    in_threads,
    native_gate,
    spin_rows,
    ticks_for,
    wait_until,
)
from order_recorder import Recorder

import strand
from strand import Dispatcher, batch_handler, native
from strand.caller.run import CallerRun
from strand.dispatch.configuration import Pool
from strand.errors import BackpressureError, UnknownSymbolError, WouldDeadlockError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.ticks import KIND_ORDER


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
    slow, gate = native_gate(c_handlers)
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
    ("kind", "on_full", "strands", "n"),
    [
        ("count", "block", "auto", 20_000),
        ("count", "block", "auto", 70_000),
        ("count", "drop_oldest", "per-symbol", 20_000),
        ("count", "conflate", 10, 20_000),
        ("book", "raise", 10, 20_000),
    ],
)
def test_keys_that_change_while_they_are_published_lose_no_count(kind: str, on_full: Any, strands: Any, n: int) -> None:
    symbols = 100
    ticks = ticks_for(np.arange(n) % symbols)
    good = ticks["instrument_id"].copy()
    bad = good.copy()
    bad[::7], bad[3::11] = 0xFFFFFFFF, symbols

    def change() -> None:
        ticks["instrument_id"] = bad
        ticks["instrument_id"] = good

    with Dispatcher(symbols, kind, workers=2, cores=None, on_full=on_full, strands=strands) as d:
        with beside(change):
            accepted = 0
            for _ in range(100):
                try:
                    accepted += d.publish(ticks)
                except UnknownSymbolError as error:
                    accepted += error.position
                except BackpressureError as error:
                    accepted += len(ticks) - len(error.rejected)
        d.drain()
        balanced(d)
        assert d.statistics().accepted == accepted


# ---- The meaning of ticks is an option; without it a run of single orders warns


MAKES: list[Any] = [CallerRun, Dispatcher]


class Own:
    def on_trade(self, trade: strand.Trade) -> None: ...


@pytest.mark.parametrize("make", MAKES)
def test_a_dispatcher_that_is_told_its_feed_counts_what_a_replay_counts(make: Any) -> None:
    day = {"date": SAMPLE_DATE}
    with strand.feeds.open(sample_path(), **day) as feed:
        ticks = np.concatenate([batch.copy() for batch in feed])
        names = list(feed.symbols)
        with make(names, "vwap", feed=feed.info.ticks) as told:
            told.publish(ticks)
    replayed = strand.replay(sample_path(), "vwap", feed_options=day).rows
    assert told.rows.array.tolist() == replayed.array[: len(names)].tolist()
    assert told.statistics().orders_as_plain == 0


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("like", ["vwap", "bars", "trade_stats", Own, strand.chain("count", "vwap")])
def test_single_orders_that_are_taken_for_plain_ticks_are_one_warning_and_counted(make: Any, like: Any) -> None:
    ticks, names = synthetic_day()
    orders = int(np.count_nonzero(ticks["kind"] == KIND_ORDER))
    with make(names, like) as d:
        with pytest.warns(RuntimeWarning, match=r"single orders reach .* give feed='orders'") as told:
            d.publish(ticks[:2000])
        d.publish(ticks[2000:])
        d.drain()
        assert len(told) == 1
        assert told[0].filename == __file__
        assert d.statistics().orders_as_plain == d.statistics().as_dict()["orders_as_plain"] == orders
        if like is Own:
            with pytest.warns(RuntimeWarning, match="have no price"):
                d.__exit__(None, None, None)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize(
    ("like", "feed"), [("vwap", "plain"), ("book", None), ("count", None), (strand.vwap(book=False), None)]
)
def test_who_was_told_or_does_not_go_by_the_feed_is_left_alone(make: Any, like: Any, feed: Any) -> None:
    ticks, names = synthetic_day()
    with make(names, like, feed=feed) as d:
        d.publish(ticks)
    assert d.statistics().orders_as_plain == 0


def test_only_symbols_whose_handler_goes_by_the_feed_are_counted() -> None:
    ticks, names = synthetic_day()
    mine = (ticks["kind"] == KIND_ORDER) & (ticks["instrument_id"] == 1)
    with Dispatcher(names, handlers={names[1]: "vwap", "*": "book"}, workers=1) as d:
        with pytest.warns(RuntimeWarning, match=r"reach .*vwap"):
            d.publish(ticks)
        assert d.statistics().orders_as_plain == np.count_nonzero(mine) > 0


# ---- Handlers in Python: in order, one at a time, and publishing themselves


def test_a_python_handler_never_runs_twice_at_a_time_and_sees_every_publisher_in_order() -> None:
    symbols, publishers = 5, 8
    recorder = Recorder(symbols)
    with Dispatcher(symbols, recorder.handler(), workers=4, cores=None, budget_ticks=16) as d:

        def publish(number: int) -> None:
            keys = np.random.default_rng(number).integers(0, symbols, 2_000)
            ticks = ticks_for(keys, publisher=number)
            for at in range(0, len(ticks), 37):
                d.publish(ticks[at : at + 37])

        in_threads(publish, range(publishers))
        d.drain()
        balanced(d)
    assert recorder.overlaps == 0
    for key in range(symbols):
        for number in range(publishers):
            mine = [sequence for publisher, sequence in recorder.seen[key] if publisher == number]
            assert mine == list(range(1, len(mine) + 1))
        assert d.rows[key]["ticks"] == len(recorder.seen[key])
    assert sum(map(len, recorder.seen)) == publishers * 2_000


def test_a_python_handler_may_publish_to_its_own_symbol_and_to_others() -> None:
    symbols = 4
    seen: list[list[int]] = [[] for _ in range(symbols)]

    @batch_handler(state=[("ticks", "u8")])
    def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
        key = int(ticks["instrument_id"][0])
        for tick in ticks:
            row["ticks"] += 1
            seen[key].append(int(tick["sequence"]))
            if tick["order_id"]:
                both = np.array([tick, tick])
                both["order_id"] -= 1
                both["instrument_id"][1] = (key + 1) % symbols
                assert d.publish(both) == 2

    with Dispatcher(symbols, on_ticks, workers=3, cores=None) as d:
        first = ticks_for([0])
        first["order_id"] = 8
        d.publish(first)
        assert d.drain()
        balanced(d)
        assert d.statistics().handled == 2**9 - 1
    assert sum(map(len, seen)) == 2**9 - 1


def test_a_handler_publishes_even_while_every_publisher_waits_for_room() -> None:
    """Publishers in wait for this very handler must not keep it from going on."""
    release = threading.Event()

    @batch_handler(state=[("ticks", "u8")])
    def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
        row["ticks"] += len(ticks)
        if symbol == "A" and (ticks["order_id"] != 0).any():
            release.wait()
            more = ticks[:1].copy()
            more["instrument_id"], more["order_id"] = 1, 0
            assert d.publish(more) == 1

    with Dispatcher(["A", "B"], on_ticks, pool=Pool(workers=1, cores=None, max_publishers=2), capacity_ticks=4) as d:
        first = ticks_for([0])
        first["order_id"] = 1
        d.publish(first)
        wait_until(lambda: d.inspect("A").owner is not None)
        threads = [threading.Thread(target=d.publish, args=(ticks_for([0] * 20),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_until(lambda: d.inspect("A").pending == 4)
        assert not d.drain(timeout_s=0)
        release.set()
        for thread in threads:
            thread.join()
        d.drain()
        balanced(d)
        assert (d.rows["A"]["ticks"], d.rows["B"]["ticks"]) == (41, 1)


@pytest.mark.parametrize(("on_full", "error"), [("block", WouldDeadlockError), ("raise", BackpressureError)])
def test_a_python_handler_that_meets_a_full_strand_is_told_which_ticks_did_not_go_in(
    on_full: str, error: type[BackpressureError]
) -> None:
    caught: list[BackpressureError] = []

    @batch_handler(state=[("ticks", "u8")])
    def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
        row["ticks"] += len(ticks)
        if ticks["order_id"][0]:
            more = np.repeat(ticks[:1], 10)
            more["order_id"] = 0
            try:
                d.publish(more)
            except BackpressureError as e:
                caught.append(e)

    with Dispatcher(1, on_ticks, workers=1, cores=None, capacity_ticks=4, on_full=on_full) as d:
        tick = ticks_for([0])
        tick["order_id"] = 1
        d.publish(tick)
        d.drain()
        balanced(d)
    assert [type(e) for e in caught] == [error]
    assert caught[0].rejected.tolist() == list(range(3, 10))
    assert d.rows[0]["ticks"] == 4
