"""The built-in handler bars, against a reference in plain Python, its edges by hand, and what lies outside sessions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import bar_reference as reference
import numpy as np
import numpy.typing as npt
import pytest
from plain_run import AT_END, TIMER, plain_run

import strand
from strand import UNDEF_PRICE, Handler, Sessions, bars
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BAR, BAR_AUCTION, BAR_CUT, BAR_EMPTY, BAR_OUTSIDE, BAR_PARTIAL
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_STATUS, KIND_TRADE, zeros

SECOND = 10**9
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


# ---- What handlers with sessions leave out is counted and warned of, and closing auctions are taken in by option


HOURS = "09:30-16:00 America/New_York"
CROSS = 4


def closing_ns() -> int:
    day = dt.date.fromisoformat(str(SAMPLE_DATE))
    return int(dt.datetime(day.year, day.month, day.day, 16, tzinfo=ZoneInfo("America/New_York")).timestamp()) * SECOND


@pytest.fixture(scope="module")
def trades_of() -> npt.NDArray[Any]:
    """All trades of the sample day: what handlers are compared with."""
    return np.asarray(strand.replay(sample_path(), strand.trades(), date=SAMPLE_DATE).outputs["trades"])


def volume_of(name: str, result: strand.ReplayResult) -> int:
    if name == "bars":
        return int(result.outputs["bars"][:]["volume"].sum())
    return int(result.rows.array["volume"].sum())


@pytest.mark.cells(1)
@pytest.mark.parametrize("name", ["bars", "vwap", "trade_stats"])
@pytest.mark.parametrize("workers", [0, 2])
def test_closing_crosses_are_left_out_with_a_word_or_taken_in(
    name: str, workers: int, trades_of: npt.NDArray[Any]
) -> None:
    make: Callable[..., Any] = getattr(strand, name)
    given: dict[str, Any] = {"every": "1m", "sessions": HOURS}
    close = closing_ns()
    within = trades_of["ts_event"] < close
    crosses = ~within & (trades_of["cross"] == 1) & (trades_of["ts_event"] < close + 300 * SECOND)
    assert crosses.sum() > 100

    result = strand.replay(sample_path(), make(**given), date=SAMPLE_DATE, workers=workers)
    assert volume_of(name, result) == trades_of["size"][within].sum()
    assert result.rows.array["outside"].sum() == (~within).sum()
    (warning,) = [w for w in result.warnings if w.kind == "trades outside of sessions"]
    assert warning.count == (~within).sum()
    assert "auctions='5m'" in warning.cure

    taken = strand.replay(sample_path(), make(auctions="5m", **given), date=SAMPLE_DATE, workers=workers)
    assert volume_of(name, taken) == trades_of["size"][within | crosses].sum()
    assert taken.rows.array["outside"].sum() == (~within & ~crosses).sum()
    first, second = result.outputs[name][:], taken.outputs[name][:]
    assert (second["start"] >= close).any()
    assert second[second["start"] < close].tolist() == first.tolist(), "bars and intervals of the session are the same"
    if name == "bars":
        assert ((second["flags"] & BAR_AUCTION > 0) == (second["start"] >= close)).all()


def trade(at: int, size: int = 1, flags: int = 0) -> npt.NDArray[Any]:
    made = zeros(1)
    made["ts_recv"] = made["ts_event"] = at
    made["kind"], made["action"], made["side"] = KIND_TRADE, b"T", b"N"
    made["price"], made["size"], made["flags"] = SECOND, size, flags
    return made


def quote(at: int, bid: int = 99, ask: int = 101) -> npt.NDArray[Any]:
    made = zeros(1)
    made["ts_recv"] = made["ts_event"] = at
    made["kind"], made["action"], made["side"] = KIND_QUOTE, b"M", b"N"
    made["price"], made["size"], made["order_id"], made["ref_id"] = bid * SECOND, 1, ask * SECOND, 1
    return made


def clear(at: int) -> npt.NDArray[Any]:
    made = zeros(1)
    made["ts_recv"] = made["ts_event"] = at
    made["kind"], made["action"], made["side"] = KIND_QUOTE, b"R", b"N"
    return made


def replay(ticks: list[npt.NDArray[Any]], handler: Any) -> strand.ReplayResult:
    return strand.replay(strand.testing.ListFeed(np.concatenate(ticks), ["A"]), handler, workers=0)


def test_only_crosses_count_after_a_session_and_only_for_so_long() -> None:
    sessions = strand.Sessions(np.array([[0, 100], [140, 200]]))
    ticks = [trade(99, 1), trade(100, 2), trade(101, 4, CROSS), trade(109, 8, CROSS), trade(110, 16, CROSS),
             trade(139, 32, CROSS), trade(140, 64), trade(150, 128, CROSS),
             trade(205, 256), trade(206, 512, CROSS)]  # fmt: skip
    for make in (strand.vwap, strand.trade_stats):
        row = replay(ticks, make(sessions=sessions, auctions="10ns")).rows["A"]
        assert (row["volume"], row["outside"]) == (1 + 4 + 8 + 64 + 128 + 512, 4)
        # Where the next session begins first, the time after the first one ends there.
        row = replay(ticks, make(sessions=sessions, auctions="1s")).rows["A"]
        assert (row["volume"], row["outside"]) == (1 + 4 + 8 + 16 + 32 + 64 + 128 + 512, 2)
    result = replay(ticks, strand.bars("30ns", fill=True, sessions=sessions, auctions="10ns"))
    bars = result.outputs["bars"][:]
    assert bars[["start", "end", "volume"]].tolist() == [
        (90, 100, 1), (100, 110, 12), (140, 170, 192), (170, 200, 0), (200, 210, 512),
    ]  # fmt: skip
    assert result.rows["A"]["outside"] == 4


@pytest.mark.parametrize("name", ["spread", "imbalance", "volatility"])
def test_handlers_of_quotes_count_what_is_outside(name: str) -> None:
    sessions = strand.Sessions(np.array([[100, 200]]))
    ticks = [quote(50), trade(60), quote(110, 98), trade(120), quote(210, 97), trade(220)]
    made = {
        "spread": strand.spread(sessions=sessions),
        "imbalance": strand.imbalance(sessions=sessions),
        "volatility": strand.volatility(ticks=1, price="mid", sessions=sessions),
    }[name]
    result = replay(ticks, made)
    assert result.rows["A"]["outside"] == 2
    assert [(w.kind, w.count) for w in result.warnings if "outside" in w.kind] == [("ticks outside of sessions", 2)]


def test_auctions_that_cannot_be_taken_in_are_refused() -> None:
    for make in (strand.bars, strand.vwap, strand.trade_stats):
        with pytest.raises(ConfigurationError, match="auctions: without sessions= all trades count"):
            make("1m", auctions="5m")
        with pytest.raises(ConfigurationError, match="auctions: crosses=False leaves all crosses out"):
            make("1m", sessions=HOURS, auctions="5m", crosses=False)
    with pytest.raises(ConfigurationError, match="auctions: outside='bars' makes bars of all trades"):
        strand.bars("1m", sessions=HOURS, auctions="5m", outside="bars")
    unmarked = strand.testing.ListFeed(trade(1), ["A"], ticks="dbn")
    with pytest.raises(ConfigurationError, match="auctions: this feed does not mark crosses: let the sessions end"):
        strand.replay(unmarked, strand.bars("1m", sessions=HOURS, auctions="5m"))


@pytest.mark.parametrize("kind", [KIND_QUOTE, KIND_STATUS])
def test_an_interval_whose_book_is_cleared_before_its_first_event_keeps_its_time(kind: int) -> None:
    """The top stands from 30 to 75, and from 90 on: of the second minute that is 15 s and 30 s. A day that ends leaves
    its last top in force until its last event alone."""
    at = 1_000_000 * 60 * SECOND
    gone = clear(at + 75 * SECOND)
    gone["kind"] = kind
    ticks = [quote(at + 30 * SECOND), gone, quote(at + 90 * SECOND), quote(at + 125 * SECOND, 98)]
    first, second, _ = replay(ticks, strand.spread("1m")).outputs["spread"][:]
    kept = 15 if kind == KIND_QUOTE else 0
    assert first["quoted_ns"] == 30 * SECOND
    quoted = second["quoted_ns"] if kind == KIND_QUOTE else 30 * SECOND
    assert quoted == (kept + 30) * SECOND
    row = replay(ticks, strand.spread("1m")).rows["A"]
    assert row["quoted_ns"] == (45 + 35 if kind == KIND_QUOTE else 35) * SECOND


def test_a_clear_alone_makes_an_interval_of_the_time_before_it() -> None:
    at = 1_000_000 * 60 * SECOND
    ticks = [quote(at + 30 * SECOND), clear(at + 75 * SECOND), quote(at + 130 * SECOND)]
    spreads = replay(ticks, strand.spread("1m")).outputs["spread"][:]
    assert [(s["start"] - at) // SECOND for s in spreads] == [0, 60, 120]
    assert spreads["quoted_ns"].tolist() == [30 * SECOND, 15 * SECOND, 0]
    tilted = quote(at + 30 * SECOND)
    tilted["size"] = 3
    means = replay([tilted, clear(at + 75 * SECOND), quote(at + 90 * SECOND), quote(at + 125 * SECOND)],
                   strand.imbalance("1m")).outputs["imbalance"][:]["queue_mean"].tolist()  # fmt: skip
    assert means[0] == pytest.approx(0.5 * 15 / 45), "the tilted queue of 15 s counts among the 45 s with a queue"
