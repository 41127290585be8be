"""The built-in handler bars, against a reference in plain Python, and its edges by hand."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import bar_reference as reference
import numpy as np
import pytest
from plain_run import AT_END, TIMER, plain_run

from strand import UNDEF_PRICE, Handler, Sessions, bars
from strand.handlers import BAR, BAR_CUT, BAR_EMPTY, BAR_OUTSIDE, BAR_PARTIAL
from strand.ticks import KIND_ORDER, KIND_TRADE, zeros

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE
SYMBOLS = 5


def trades(*rows: tuple[int, int, int], key: int = 0) -> Any:
    """Ticks of one symbol: (ts_recv, price, size)."""
    ticks = zeros(len(rows))
    ticks["instrument_id"] = key
    ticks["kind"] = KIND_TRADE
    ticks["action"] = b"T"
    for tick, (ts, price, size) in zip(ticks, rows, strict=True):
        tick["ts_recv"], tick["price"], tick["size"] = ts, price, size
    return ticks


def market(n: int, seed: int, span: int, start: int = 0) -> Any:
    """Trades among other ticks, some without a price or a size or marked as not counting."""
    rng = np.random.default_rng(seed)
    ticks = zeros(n)
    ticks["instrument_id"] = rng.choice(SYMBOLS, n, p=[0.5, 0.3, 0.15, 0.04, 0.01])
    # Bursts and gaps: times are drawn from a few centres.
    centres = rng.integers(0, span, 20)
    ticks["ts_recv"] = np.sort(start + (rng.choice(centres, n) + rng.integers(0, span // 20, n)) % span)
    ticks["price"] = rng.integers(-5, 400, n) * 10_000_000 + 10**11 * (rng.random(n) < 0.9)
    ticks["price"][rng.random(n) < 0.02] = UNDEF_PRICE
    ticks["size"] = rng.integers(1, 900, n)
    ticks["size"][rng.random(n) < 0.02] = 0
    ticks["size"][rng.random(n) < 0.01] = 2**32 - 1
    ticks["action"] = rng.choice([b"T", b"F", b"A", b"C", b"N"], n)
    ticks["kind"] = np.where(ticks["action"] == b"T", KIND_TRADE, KIND_ORDER)
    ticks["flags"] = rng.random(n) < 0.05
    return ticks


def records(emitted: Any, key: int) -> list[dict[str, Any]]:
    mine = emitted[emitted["key"] == key]
    return [{name: bar[name].item() for name in BAR.names or ()} for bar in mine]


def last_time(ticks: Any) -> int:
    return int(ticks["ts_recv"].max())


@pytest.mark.parametrize("fill", [False, True])
@pytest.mark.parametrize("step", [SECOND, 7 * SECOND, MINUTE])
def test_time_bars_equal_a_grouping_in_plain_python(step: int, fill: bool) -> None:
    ticks = market(6_000, step, 20 * MINUTE, start=3 * DAY + 17)
    emitted = plain_run(bars(f"{step}ns", fill=fill), ticks, SYMBOLS).records
    by_symbol = reference.trades_of(ticks)
    for key in range(SYMBOLS):
        expected = reference.time_bars(by_symbol[key], step, last_time(ticks), fill=fill)
        assert records(emitted, key) == expected
    assert len(emitted) > 30


CLOSES: list[tuple[dict[str, Any], Callable[[list[reference.Trade]], bool]]] = [
    ({"ticks": 1}, lambda of: True),
    ({"ticks": 40}, lambda of: len(of) == 40),
    ({"volume": 20_000}, lambda of: sum(t.size for t in of) >= 20_000),
    ({"notional": "2500000.5"}, lambda of: sum(t.price * t.size for t in of) >= 2_500_000_500_000_000),
]


@pytest.mark.parametrize(("given", "full"), CLOSES)
@pytest.mark.parametrize("with_sessions", [False, True])
def test_bars_of_ticks_volume_and_notional_equal_plain_python(
    given: dict[str, Any], full: Callable[[list[reference.Trade]], bool], with_sessions: bool
) -> None:
    ticks = market(5_000, 3, 20 * MINUTE)
    sessions = [(2 * MINUTE, 6 * MINUTE), (6 * MINUTE, 8 * MINUTE), (11 * MINUTE, 15 * MINUTE)]
    like = bars(**given, sessions=Sessions(np.array(sessions)) if with_sessions else None)
    emitted = plain_run(like, ticks, SYMBOLS).records
    by_symbol = reference.trades_of(ticks)
    for key in range(SYMBOLS):
        expected = reference.counted_bars(
            by_symbol[key], full, last_time(ticks), sessions=sessions if with_sessions else None
        )
        assert records(emitted, key) == expected


@pytest.mark.parametrize("fill", [False, True])
@pytest.mark.parametrize("outside", ["skip", "bars"])
def test_time_bars_keep_to_sessions(outside: str, fill: bool) -> None:
    ticks = market(6_000, 11, 20 * MINUTE)
    sessions = [(95 * SECOND, 301 * SECOND), (301 * SECOND, 340 * SECOND), (600 * SECOND, 1_111 * SECOND)]
    step = 10 * SECOND
    like = bars(f"{step}ns", sessions=Sessions(np.array(sessions)), outside=outside, fill=fill)
    ran = plain_run(like, ticks, SYMBOLS)
    by_symbol = reference.trades_of(ticks)
    for key in range(SYMBOLS):
        expected = reference.time_bars(
            by_symbol[key], step, last_time(ticks), sessions=sessions, outside=outside == "bars", fill=fill
        )
        assert records(ran.records, key) == expected
        left_out = [t for t in by_symbol[key] if not any(a <= t.ts < b for a, b in sessions)]
        assert ran.rows[key]["outside"] == (0 if outside == "bars" else len(left_out))
    flags = ran.records["flags"]
    assert (flags & BAR_CUT).any()
    assert (flags & BAR_OUTSIDE).any() == (outside == "bars")


def test_bars_are_the_same_when_only_ticks_close_them() -> None:
    """Without timers a bar closes at the symbol's next trade: later, but the same bar."""
    ticks = market(6_000, 5, 20 * MINUTE)
    like = bars("5s", fill=True, partial=False)
    timed = plain_run(like, ticks, SYMBOLS).records
    late = plain_run(like, ticks, SYMBOLS, timers=False).records
    for key in range(SYMBOLS):
        with_timers, without = records(timed, key), records(late, key)
        assert with_timers[: len(without)] == without
        assert all(bar["flags"] & BAR_EMPTY or bar == with_timers[len(without)] for bar in with_timers[len(without) :])


def test_a_bar_closes_at_its_end_without_a_tick_of_its_symbol() -> None:
    ticks = np.concatenate([trades((10, 5, 1)), trades((99, 7, 1), (100, 7, 1), key=1)])
    ran = plain_run(bars("100ns"), ticks, 2)
    assert ran.records["key"].tolist() == [0, 1, 1]
    assert ran.records["number"].tolist() == [TIMER, TIMER, AT_END]
    assert ran.records["time"].tolist() == [100, 100, 100]
    assert ran.records["flags"].tolist() == [0, 0, BAR_PARTIAL]


def test_a_trade_at_the_end_of_a_bar_belongs_to_the_next() -> None:
    ran = plain_run(bars("100ns"), trades((0, 1, 1), (99, 2, 1), (100, 3, 1)), 1)
    assert ran.records["close"].tolist() == [2, 3]
    assert ran.records["start"].tolist() == [0, 100]


def test_a_single_trade_is_a_whole_bar() -> None:
    (only,) = records(plain_run(bars("100ns"), trades((250, 7, 3)), 1).records, 0)
    assert only == {"start": 200, "end": 300, "open": 7, "high": 7, "low": 7, "close": 7, "vwap": 7, "volume": 3,
                    "notional": 2.1e-8, "trades": 1, "flags": BAR_PARTIAL}  # fmt: skip


def test_what_is_unfinished_may_be_left_unsaid_and_is_in_the_row() -> None:
    ran = plain_run(bars("100ns", partial=False), trades((50, 4, 1), (250, 7, 3), (260, 9, 1)), 1)
    assert ran.records["close"].tolist() == [4]
    row = ran.rows[0]
    assert (row["start"], row["end"], row["open"], row["close"], row["trades"]) == (200, 300, 7, 9, 2)
    assert (row["bars"], row["last_start"], row["last_close"], row["last_trades"]) == (1, 0, 4, 1)


def test_a_symbol_without_trades_has_an_empty_row_and_no_bar() -> None:
    ran = plain_run(bars("1m", fill=True), trades((5, 1, 1)), 3)
    assert not ran.rows[1:].view(np.uint8).any()
    assert set(ran.records["key"]) == {0}


@pytest.mark.parametrize("zero_sizes", ["skip", "price"])
def test_trades_of_size_zero_count_only_by_their_price_and_by_choice(zero_sizes: str) -> None:
    """As the four ticks of a ready-made bar: its volume comes with the close."""
    ticks = trades((10, 20, 0), (10, 35, 0), (10, 15, 0), (10, 25, 1_000))
    (bar,) = records(plain_run(bars("100ns", zero_sizes=zero_sizes), ticks, 1).records, 0)
    prices = (20, 35, 15, 25) if zero_sizes == "price" else (25, 25, 25, 25)
    assert (bar["open"], bar["high"], bar["low"], bar["close"]) == prices
    assert (bar["volume"], bar["trades"], bar["vwap"]) == (1_000, 1, 25)


def test_a_bar_of_sizes_zero_has_no_average_price() -> None:
    (bar,) = records(plain_run(bars("100ns", zero_sizes="price"), trades((10, 20, 0)), 1).records, 0)
    assert (bar["vwap"], bar["volume"], bar["trades"], bar["close"]) == (UNDEF_PRICE, 0, 0, 20)


def test_trades_without_a_price_are_counted_and_left_out() -> None:
    ran = plain_run(bars("100ns"), trades((1, UNDEF_PRICE, 5), (2, -(2**63), 5), (3, 8, 1)), 1)
    assert ran.rows[0]["unpriced"] == 2
    assert ran.records["volume"].tolist() == [1]


@pytest.mark.parametrize(
    ("rows", "vwap"),
    [
        (((0, 1, 1), (0, 2, 1)), 2),  # 1.5: halves go up
        (((0, -1, 1), (0, -2, 1)), -1),  # -1.5
        (((0, 1, 2), (0, 2, 1)), 1),  # 1.33
        (((0, -1, 2), (0, -2, 1)), -1),  # -1.33
        (((0, 2**62, 2**32 - 1), (0, 2**62 - 2, 2**32 - 1)), 2**62 - 1),  # a notional of 94 bits
        (((0, -(2**62), 2**32 - 1),) * 3, -(2**62)),
        (((0, 2**63 - 2, 1),), 2**63 - 2),
    ],
)
def test_the_average_price_is_exact_and_rounded_to_the_nearest_halves_up(rows: Any, vwap: int) -> None:
    (bar,) = records(plain_run(bars("100ns"), trades(*rows), 1).records, 0)
    assert bar["vwap"] == vwap
    assert bar["notional"] == float(sum(price * size for _, price, size in rows)) / 1e9


def test_a_long_gap_is_filled_with_bars_at_the_last_close() -> None:
    ran = plain_run(bars("1s", fill=True), trades((5, 10, 1), (5_000 * SECOND, 11, 1)), 1)
    assert len(ran.records) == 5_001
    assert (ran.records["flags"][1:-1] == BAR_EMPTY).all()
    assert (ran.records["close"][:-1] == 10).all()
    assert (np.diff(ran.records["start"].astype(np.int64)) == SECOND).all()
    assert len(plain_run(bars("1s"), trades((5, 10, 1), (5_000 * SECOND, 11, 1)), 1).records) == 2


def test_times_that_run_backwards_count_as_late_in_the_bar_under_way() -> None:
    ticks = trades((150, 1, 1), (120, 2, 1), (99, 3, 1), (210, 4, 1), (199, 5, 1), (0, 6, 1))
    ran = plain_run(bars("100ns"), ticks, 1)
    assert [bar["trades"] for bar in records(ran.records, 0)] == [3, 3]
    assert ran.records["start"].tolist() == [100, 200]
    assert ran.rows[0]["late"] == 3


def test_a_bar_that_other_symbols_closed_is_not_opened_again() -> None:
    ticks = np.concatenate([trades((50, 1, 1)), trades((101, 9, 1), key=1), trades((60, 2, 1), (120, 3, 1))])
    ran = plain_run(bars("100ns"), ticks, 2)
    assert [(bar["start"], bar["trades"]) for bar in records(ran.records, 0)] == [(0, 1), (100, 2)]
    assert ran.rows[0]["late"] == 1


def test_a_session_that_is_over_is_not_opened_again() -> None:
    like = bars("100ns", sessions=Sessions(np.array([[1_000, 1_250], [2_000, 2_100]])))
    ticks = trades((1_210, 1, 1), (1_300, 2, 1), (1_240, 3, 1), (2_000, 4, 1), (1_999, 5, 1))
    ran = plain_run(like, ticks, 1)
    assert [(b["start"], b["end"], b["trades"], b["flags"]) for b in records(ran.records, 0)] == [
        (1_200, 1_250, 1, BAR_CUT),
        (2_000, 2_100, 2, BAR_PARTIAL),
    ]
    assert (ran.rows[0]["outside"], ran.rows[0]["late"]) == (2, 2)


def test_a_time_that_is_undefined_is_the_end_of_time() -> None:
    ran = plain_run(bars("100ns"), trades((5, 1, 1), (2**63 - 1, 2, 1)), 1)
    assert ran.records["close"].tolist() == [1, 2]


def test_fills_of_dbn_only_report() -> None:
    ticks = trades((1, 5, 2), (1, 5, 2))
    ticks["action"][1] = b"F"
    assert plain_run(bars("100ns"), ticks, 1).records["volume"].tolist() == [4]
    assert plain_run(bars("100ns", fills="report"), ticks, 1).records["volume"].tolist() == [2]


# ---- books


def orders() -> Any:
    """An ask and a bid, an execution of the ask without a price, a trade of what was hidden, another execution."""
    ticks = zeros(6)
    ticks["action"] = [b"A", b"A", b"F", b"T", b"F", b"F"]
    ticks["kind"] = [1, 1, 1, 2, 1, 1]
    ticks["side"] = [b"A", b"B", b"N", b"B", b"N", b"N"]
    ticks["order_id"] = [1, 2, 1, 0, 2, 99]
    ticks["price"] = [110, 100, UNDEF_PRICE, 105, UNDEF_PRICE, UNDEF_PRICE]
    ticks["size"] = [30, 50, 10, 7, 20, 5]
    ticks["ts_recv"] = np.arange(6)
    return ticks


def test_fills_without_a_price_need_a_book() -> None:
    ran = plain_run(bars("100ns"), orders(), 1)
    assert (ran.records["volume"].tolist(), ran.rows[0]["unpriced"]) == ([7], 3)
    ran = plain_run(bars("100ns", book=True), orders(), 1)
    (bar,) = records(ran.records, 0)
    assert (bar["open"], bar["high"], bar["low"], bar["close"]) == (110, 110, 100, 100)
    assert (bar["volume"], bar["trades"]) == (37, 3)
    assert ran.rows[0]["unpriced"] == 1  # of an order that was never added


# ---- what is refused


@pytest.mark.parametrize("span", ["90s", 90.0, dt.timedelta(seconds=90), " 90 s"])
def test_spans_are_text_seconds_or_timedeltas(span: Any) -> None:
    assert plain_run(bars(span), trades((0, 1, 1)), 1).records["end"].tolist() == [90 * SECOND]


def test_a_bar_without_room_fails_the_tick() -> None:
    like: Handler = bars(ticks=1)
    with pytest.raises(RuntimeError, match=f"tick {1 << 18}"):
        plain_run(like, trades(*[(i, 1, 1) for i in range(10)]).repeat(30_000), 1)
