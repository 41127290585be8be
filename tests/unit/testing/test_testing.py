"""Runs under many seeds."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seeded_cases import SECOND, TIGHT, Timed, own_row_alone, timed, trades

import strand
from strand import testing
from strand.errors import (
    BackpressureError,
    CallTimeoutError,
    ConfigurationError,
    DifferenceError,
    HandlerError,
    TruncatedFeedError,
)
from strand.feeds import FeedInfo
from strand.replaying.pacing import Pacer
from strand.replaying.result import ReplayResult
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE, UNDEF_PRICE


def shares_the_last_price() -> strand.Handler:
    """Wrong: what a symbol's row becomes depends on which other symbol was handled before."""
    last = [0]

    @strand.batch_handler(state=[("moves", "i8")])
    def shares(symbol: str, ticks: Any, row: Any) -> None:
        for price in ticks["price"].tolist():
            row["moves"] += price - last[0]
            last[0] = price

    return shares


KINDS: dict[str, Callable[[], Any]] = {
    "built-in": lambda: "count",
    "outputs": lambda: strand.bars("10s"),
    "chain": lambda: strand.chain(strand.vwap(), own_row_alone),
    "chain with outputs": lambda: strand.chain(strand.bars("10s"), own_row_alone),
    "batches": lambda: own_row_alone,
    "objects with timers": timed,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strands", ["per-symbol", 2])
def test_handlers_of_all_kinds_come_to_the_same_under_every_seed(kind: str, strands: Any) -> None:
    feed = testing.feed(trades(), batches=[1, 5, 30])
    testing.check_seeds(feed, KINDS[kind](), seeds=range(15), **TIGHT | {"strands": strands})


def test_a_numba_handler_runs_under_a_seed() -> None:
    pytest.importorskip("numba")

    @strand.handler(on="trade", state=[("volume", "i8")])
    def volume(row: Any, trade: Any) -> None:
        row.volume += trade.size

    testing.check_seeds(testing.feed(trades()), volume, seeds=range(5), **TIGHT)


def test_a_handler_that_shares_state_among_symbols_is_found_and_its_seed_shows_it_again() -> None:
    feed = testing.feed(trades())
    with pytest.raises(DifferenceError, match=r"seed \d+: .*moves is") as caught:
        for seed in range(20):
            testing.check_seeds(feed, shares_the_last_price(), seeds=[seed], **TIGHT)
    assert caught.value.seed is not None
    run, again = (testing.seeded(feed, shares_the_last_price(), seed=caught.value.seed, **TIGHT) for _ in range(2))
    testing.assert_same(run, again)
    with pytest.raises(DifferenceError):
        testing.assert_same(run, testing.reference(feed, shares_the_last_price()))


def test_one_seeded_run_at_a_time() -> None:
    feed = testing.feed(trades())

    @strand.batch_handler(state=[])
    def another(symbol: str, ticks: Any, row: Any) -> None:
        testing.seeded(feed, "count", seed=0)

    with pytest.raises(HandlerError, match="another seeded run is under way"):
        testing.seeded(feed, another, seed=0)
    testing.seeded(feed, "count", seed=0)


# ---- A dispatcher whose interleaving a seed decides


def test_the_same_seed_gives_the_same_rows_outputs_and_statistics_and_others_do_not() -> None:
    feed = testing.feed(trades())
    runs = [testing.seeded(feed, timed(), seed=seed, **TIGHT) for seed in (3, 3, *range(4, 12))]
    testing.assert_same(runs[0], runs[1])
    assert runs[0].statistics.as_dict() == runs[1].statistics.as_dict()
    assert runs[0].statistics == runs[1].statistics
    assert len({str(run.statistics.as_dict()) for run in runs}) > 5


def test_a_seeded_run_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="save: the state of a seeded run cannot be saved"):
        testing.seeded(testing.feed(trades()), "count", seed=1, save=tmp_path / "state")


def test_what_the_collector_frees_of_another_run_takes_no_step_of_this_one() -> None:
    gc.collect()
    gc.freeze()  # what other tests have made: each of the collections below would go through it
    feed, collects = testing.feed(trades()), False

    class Collects(Timed):
        def on_trade(self, trade: Any) -> None:
            super().on_trade(trade)
            if collects:
                gc.collect()

    def run() -> ReplayResult:
        handler = strand.object_handler(Collects, state=timed().state, outputs={"seen": [("n", "i8")]})
        return testing.seeded(feed, handler, seed=3, **TIGHT)

    @strand.batch_handler(state=[])
    def another(symbol: str, ticks: Any, row: Any) -> None:
        testing.seeded(feed, "count", seed=0)

    first = run()
    gc.disable()
    try:
        with pytest.raises(HandlerError, match="another seeded run is under way"):
            testing.seeded(feed, another, seed=0)
        collects = True
        assert run().statistics.as_dict() == first.statistics.as_dict()
    finally:
        gc.enable()


def test_publisher_and_workers_all_have_a_share() -> None:
    feed = testing.feed(trades(200))
    handled = np.zeros(4, int)
    stolen = 0
    for seed in range(10):
        statistics = testing.seeded(feed, "count", seed=seed, **TIGHT).statistics
        handled += [worker.handled for worker in statistics.workers]
        stolen += statistics.stolen
    assert (handled > 0).all()
    assert stolen


@pytest.mark.parametrize("on_full", ["drop_newest", "drop_oldest", "conflate"])
def test_what_a_bound_drops_is_the_same_under_one_seed_and_is_said(on_full: str) -> None:
    feed = testing.feed(trades(200, "AB"))
    options = TIGHT | {"on_full": on_full}
    runs = [testing.seeded(feed, own_row_alone, seed=5, **options) for _ in range(2)]
    assert runs[0].statistics == runs[1].statistics
    assert sum(runs[0].statistics.dropped.values()) + runs[0].statistics.handled == 200
    with pytest.raises(DifferenceError, match=r"seed \d+: .* ticks were dropped"):
        testing.check_seeds(feed, own_row_alone, **options)


def test_a_handler_that_fails_stops_the_run_or_is_quarantined() -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += 1
        if symbol == "B":
            raise ValueError("no B")

    feed = testing.feed(trades())
    with pytest.raises(HandlerError, match="no B") as caught:
        testing.seeded(feed, fails, seed=1, **TIGHT)
    assert isinstance(caught.value.__cause__, ValueError)
    run = testing.seeded(feed, fails, seed=1, on_error="quarantine", **TIGHT | {"on_full": "drop_newest"})
    assert len(run.failures) == 1
    assert run.statistics.dropped["failed"] == 1
    testing.check_seeds(feed, "count", seeds=range(3), **TIGHT)  # and the next run begins anew


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"seed": -1}, "seed"),
        ({"seed": 0, "workers": 17}, "workers"),
        ({"seed": 0, "cores": [0]}, "cores"),
        ({"seed": 0, "capacity": 4}, "capacity"),
    ],
)
def test_what_a_seeded_run_cannot_take_is_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        testing.seeded(testing.feed(trades()), "count", **options)


# ---- Runs compared with the reference


def test_a_run_of_a_dispatcher_is_the_same_as_the_reference() -> None:
    feed = testing.feed(trades())
    expected = testing.reference(feed, strand.bars("10s"))
    with strand.Dispatcher(list(feed.symbols), strand.bars("10s"), workers=2) as dispatcher:
        dispatcher.publish(feed.ticks)
    testing.assert_same(dispatcher, expected)
    testing.assert_same(strand.replay(feed, strand.bars("10s"), workers=2), expected)
    assert len(expected.outputs["bars"]) > 10


def test_what_differs_is_said_by_symbol_field_and_record() -> None:
    ticks = trades()
    expected = testing.reference(testing.feed(ticks), strand.bars("10s"))
    ticks[55] |= {"price": 99.5}
    with pytest.raises(DifferenceError) as caught:
        testing.assert_same(testing.reference(testing.feed(ticks), strand.bars("10s")), expected)
    symbol = ticks[55]["symbol"]
    assert caught.value.symbols == (symbol,)
    assert caught.value.outputs == ("bars",)
    assert caught.value.seed is None
    text = str(caught.value)
    assert f"{symbol}: " in text
    assert re.search(r"output 'bars': record \d+ of \d+: .*\bclose is 99500000000, expected 105\d+", text)
    assert isinstance(caught.value, AssertionError)


def test_symbols_outputs_and_lengths_that_only_one_has_are_said() -> None:
    few = testing.reference(testing.feed(trades(10, "AB")), strand.bars("1s"))
    many = testing.reference(testing.feed(trades(12, "ABC")), strand.bars("1s"))
    with pytest.raises(DifferenceError, match="C: only the expected one has this symbol"):
        testing.assert_same(few, many)
    count = testing.reference(testing.feed(trades(10, "AB")), "count")
    with pytest.raises(DifferenceError, match=r"A: has the fields .*; output 'bars': only the expected one"):
        testing.assert_same(count, few)

    @strand.batch_handler(state=[], outputs={"ticks": [("n", "i8")]})
    def emits(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit(np.zeros(len(ticks), [("n", "i8")]), at=np.arange(len(ticks)))

    short, long = (testing.reference(testing.feed(trades(n, "A")), emits) for n in (3, 4))
    with pytest.raises(DifferenceError, match="output 'ticks': 3 records, expected 4, the same up to there"):
        testing.assert_same(short, long)


def test_files_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="out"):
        testing.check_seeds(testing.feed(trades()), strand.bars("1s"), out={"bars": tmp_path / "bars.npy"})


# ---- A clock to move


def test_a_paced_replay_waits_for_nothing_but_the_clock() -> None:
    with testing.Clock() as clock:
        run = strand.replay(testing.feed(trades(60)), "count", workers=1, speed=0.5)
        assert clock.now_ns() == 2 * 59 * SECOND
        clock.advance(1.5)
        assert clock.now_ns() == 2 * 59 * SECOND + 1_500_000_000
    assert run.pacing is not None
    assert run.pacing.waited_s == 2 * 59
    assert run.pacing.lateness.maximum_ns == 0


def test_a_pacer_of_ones_own_takes_a_clock_without_a_block() -> None:
    clock = testing.Clock(7)
    strand.replay(testing.feed(trades(3)), "count", workers=1, pacer=Pacer(1, clock=clock))
    assert clock.now_ns() == 7 + 2 * SECOND


def test_timeouts_of_a_dispatcher_go_by_the_clock() -> None:
    go_on = threading.Event()
    feed = testing.feed(trades(10, "A"))
    with testing.Clock() as clock, strand.Dispatcher(["A"], "count", workers=1, capacity_ticks=2) as dispatcher:
        dispatcher.pause("A")
        with pytest.raises(BackpressureError):
            dispatcher.publish(feed.ticks, timeout_s=60)
        assert clock.now_ns() == 60 * SECOND
        with pytest.raises(CallTimeoutError):
            dispatcher.call("A", lambda view: go_on.wait(), timeout_s=30)
        assert clock.now_ns() == 90 * SECOND
        dispatcher.resume("A")
        assert dispatcher.drain(timeout_s=1e9)
        assert dispatcher.drain(timeout_s=0)


def test_one_clock_at_a_time_stands_in_and_it_only_goes_on() -> None:
    with testing.Clock() as clock:
        with pytest.raises(ConfigurationError, match="another one"):
            testing.Clock().__enter__()
        clock.wait_until(50)
        clock.wait_until(20)
        assert clock.now_ns() == 50
    for wrong in (-1, float("nan"), None, "1"):
        with pytest.raises(ConfigurationError):
            clock.advance(wrong)  # type: ignore[arg-type]
    with testing.Clock():
        pass


def run_of_two(workers: int, seed: int = 3) -> tuple[list[tuple[str, int, int]], int, strand.Statistics]:
    """Two symbols at 0 and 5 s, whose handlers take 2 s: when each call began and ended, and when all was over."""
    calls = []
    with testing.Clock(7) as clock:

        @strand.batch_handler(state=[])
        def slow(symbol: str, ticks: Any, row: Any) -> None:
            begun = clock.now_ns()
            clock.advance(2)
            calls.append((symbol, begun, clock.now_ns()))

        ticks = [(symbol, time * SECOND, 1, 1) for time in (0, 5) for symbol in "AB"]
        run = testing.seeded(
            testing.feed(ticks),
            slow,
            seed=seed,
            workers=workers,
            strands="per-symbol",
            speed=1,
            idle="park",
            policy=strand.Fair(),
        )
        return calls, clock.now_ns(), run.statistics


@pytest.mark.parametrize(("workers", "ends"), [(1, [2, 4, 7, 9]), (2, [2, 2, 7, 7])])
def test_a_handler_of_a_seeded_run_takes_time_while_the_other_workers_go_on(workers: int, ends: list[int]) -> None:
    calls, over, statistics = run_of_two(workers)
    assert sorted(round(end / SECOND, 3) for _, _, end in calls) == ends
    assert all(end - begun == 2 * SECOND for _, begun, end in calls)
    assert round(over / SECOND, 3) == max(ends)
    assert {round(group.on_cpu_ns / SECOND, 3) for group in statistics.fair.groups.values()} == {4}
    assert run_of_two(workers) == (calls, over, statistics), "the same seed is the same run"


def test_a_clock_goes_by_itself_again_after_a_seeded_run() -> None:
    with testing.Clock() as clock:
        testing.seeded(testing.feed(trades(3)), "count", seed=0, speed=1)
        at = clock.now_ns()
        assert at >= 2 * SECOND
        clock.advance(1)
        assert clock.now_ns() == at + SECOND


# ---- Feeds made of a list


def test_dicts_become_ticks_in_natural_units_and_symbols_in_their_order() -> None:
    feed = testing.feed(
        [
            {"symbol": "B", "time": 5, "price": 10.25, "size": 3},
            {"symbol": "A", "price": Decimal("0.1"), "size": 1, "action": "A", "side": "B", "order_id": 2**63},
            {"symbol": "B", "time": 9, "bid": 10, "bid_size": 7, "ask": 10.5, "ask_size": 8},
            {"symbol": "A", "bid": 1},
        ]
    )
    assert list(feed.symbols) == ["B", "A"]
    (ticks,) = feed.batches()
    assert ticks["instrument_id"].tolist() == [0, 1, 0, 1]
    assert ticks["ts_recv"].tolist() == ticks["ts_event"].tolist() == [5, 6, 9, 10]
    assert ticks["price"].tolist() == [10_250_000_000, 100_000_000, 10_000_000_000, 1_000_000_000]
    assert ticks["sequence"].tolist() == [1, 2, 3, 4]
    assert ticks["kind"].tolist() == [KIND_TRADE, KIND_ORDER, KIND_QUOTE, KIND_QUOTE]
    assert ticks["order_id"][1] == 2**63
    assert ticks["ask_price"].tolist()[2:] == [10_500_000_000, UNDEF_PRICE]
    assert (ticks["bid_size"][2], ticks["ask_size"][2]) == (7, 8)
    assert feed.info.span == (5, 10)


def test_quotes_of_a_spread_may_be_below_zero() -> None:
    (ticks,) = testing.feed(
        [{"symbol": "A", "bid": -2, "ask": "-1.5"}, {"symbol": "A", "bid": -1, "ask": 0.25}]
    ).batches()
    assert ticks["bid_price"].tolist() == [-2_000_000_000, -1_000_000_000]
    assert ticks["ask_price"].tolist() == [-1_500_000_000, 250_000_000]


def test_tuples_are_trades_and_arrays_are_taken_as_they_are() -> None:
    written = testing.feed([("A", 5, 1.5, 2), ("B", 6, 2, 3)])
    taken = testing.feed(written.ticks, ["A", "B"])
    assert testing.reference(taken, "vwap").rows["B"]["volume"] == 3
    testing.assert_same(testing.reference(taken, "vwap"), testing.reference(written, "vwap"))


@pytest.mark.parametrize(
    ("batches", "sizes"),
    [(None, [5]), (2, [2, 2, 1]), ([1, 1, 4], [1, 0, 3, 1]), ([0, 5], [5, 0]), ([], [5])],
)
def test_batches_begin_where_they_are_told_to(batches: Any, sizes: list[int]) -> None:
    feed = testing.feed(trades(5), batches=batches)
    assert [len(batch) for batch in feed.batches()] == sizes
    assert (
        testing.reference(feed, "count").fingerprint == testing.reference(testing.feed(trades(5)), "count").fingerprint
    )


def test_a_batch_that_is_kept_does_not_keep_its_ticks() -> None:
    kept = list(testing.feed(trades(4), batches=2).batches())
    assert kept[0]["ts_recv"].tolist() == kept[1]["ts_recv"].tolist()


@pytest.mark.parametrize(("error_at", "handled"), [(None, 5), (1, 1), (3, 3)])
def test_an_error_is_raised_in_the_place_of_a_tick(error_at: int | None, handled: int) -> None:
    fault = TruncatedFeedError("cut", offset=7)
    feed = testing.feed(trades(5), batches=2, error=fault, error_at=error_at)
    with pytest.raises(TruncatedFeedError) as caught:
        testing.reference(feed, "count")
    assert caught.value is fault
    assert fault.partial.ticks == handled
    assert feed.closed == 1


def test_what_the_ticks_mean_may_be_told() -> None:
    feed = testing.feed([{"symbol": "A", "action": "F", "price": 1, "size": 2}], ticks="orders", venue="XNAS")
    assert (feed.info.ticks, feed.info.venue) == ("orders", "XNAS")
    assert testing.reference(feed, "vwap").rows["A"]["volume"] == 2


def test_names_may_come_to_be_known_in_mid_stream() -> None:
    feed = testing.feed(trades(6), batches=2, known_from=4)
    known = [list(feed.symbols) for _ in feed.batches()]
    assert known == [[], ["A", "C", "E", "B", "D"], ["A", "C", "E", "B", "D"]]


@pytest.mark.parametrize("unit", ["0.001", 0.001, Decimal("0.001")])
def test_a_size_unit_is_a_power_of_ten_as_a_number_or_text(unit: Any) -> None:
    feed = testing.feed([("A", 1, 2.0, 500)], size_unit=unit)
    assert feed.info.size_unit == 0.001
    bars = strand.replay(feed, strand.bars(volume="0.5")).outputs["bars"].to_arrow(prices="float")
    assert (bars["volume"].to_pylist(), bars["notional"].to_pylist()) == ([0.5], [1.0])


@pytest.mark.parametrize("unit", ["x", 0, -1, True, 0.003, float("nan"), [1]])
def test_another_size_unit_is_refused(unit: Any) -> None:
    with pytest.raises(ConfigurationError, match="size_unit: give a power of ten"):
        testing.feed([("A", 1, 2.0, 500)], size_unit=unit)
    with pytest.raises(ConfigurationError, match="size_unit: give a power of ten"):
        FeedInfo("list", "memory", size_unit=unit)


def test_a_size_that_is_no_whole_number_of_units_is_refused_with_the_unit() -> None:
    with pytest.raises(ConfigurationError, match=r"0: size: 0\.5 is not .*: it counts units of size_unit"):
        testing.feed([("A", 1, 2.0, 0.5)], size_unit="0.001")  # type: ignore[list-item]
