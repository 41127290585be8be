"""One's own events and orders beside a feed: against plain Python, join_asof of polars, and by hand."""

from __future__ import annotations

import datetime as dt
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import strand
from strand import UNDEF_PRICE, asof, between, testing
from strand.errors import ConfigurationError, EmptyFeedError, FeedError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.ticks import KIND_NONE, KIND_QUOTE, KIND_STATUS, KIND_TRADE, zeros

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

pytestmark = pytest.mark.python

NAMES = ["A", "B", "C*", "D[x]"]
SECOND = 10**9
RUN: dict[str, Any] = {"cores": None}


def market(n: int, seed: int, *, new_days: bool = False) -> Any:
    """Quotes, some without a side, trades, and perhaps new days; several ticks of one time."""
    rng = np.random.default_rng(seed)
    ticks = zeros(n)
    ticks["instrument_id"] = rng.choice(len(NAMES), n, p=[0.5, 0.3, 0.15, 0.05])
    ticks["ts_recv"] = ticks["ts_event"] = np.sort(rng.integers(1, 500, n)) * 10
    quote = rng.random(n) < 0.6
    ticks["kind"] = np.where(quote, KIND_QUOTE, KIND_TRADE)
    ticks["action"], ticks["side"] = np.where(quote, b"N", b"T"), b"N"
    ticks["price"] = 10**11 + rng.integers(0, 60, n)
    ticks["size"] = rng.integers(1, 90, n)
    ticks["order_id"] = np.where(quote, ticks["price"] + rng.integers(1, 9, n), 0)
    ticks["ref_id"] = np.where(quote, rng.integers(1, 90, n), 0)
    ticks["price"][quote & (rng.random(n) < 0.1)] = UNDEF_PRICE
    if new_days:
        day = rng.random(n) < 0.02
        ticks["kind"][day], ticks["action"][day] = KIND_STATUS, b"R"
    return ticks


def states(ticks: Any, name: str) -> list[tuple[int, dict[str, Any]]]:
    """The market of a symbol after each of its ticks, with the tick's time."""
    top, price, quoted = (None, None, 0, 0), None, 0
    volume = notional = trades = 0
    found = []
    for t in ticks[ticks["instrument_id"] == NAMES.index(name)]:
        before = top
        if t["kind"] == KIND_QUOTE:
            bid, ask = (None if int(t[side]) == UNDEF_PRICE else int(t[side]) for side in ("price", "order_id"))
            top = (bid, ask, 0 if bid is None else int(t["size"]), 0 if ask is None else int(t["ref_id"]))
        elif t["kind"] == KIND_STATUS:
            top, price = (None, None, 0, 0), None
        else:
            price = int(t["price"])
            volume, notional, trades = volume + int(t["size"]), notional + price * int(t["size"]), trades + 1
        quoted = 0 if t["kind"] == KIND_STATUS else int(t["ts_recv"]) if top != before else quoted
        its = {"top": top, "quoted": quoted, "price": price, "volume": volume, "notional": notional, "trades": trades}
        found.append((int(t["ts_recv"]), its))
    return found


NOTHING = {"top": (None, None, 0, 0), "quoted": 0, "price": None, "volume": 0, "notional": 0, "trades": 0}


def before(history: list[tuple[int, dict[str, Any]]], time: int, *, own: bool = False) -> dict[str, Any]:
    return next((its for ts, its in reversed(history) if ts < time or (own and ts == time)), NOTHING)


def events_of(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"symbol": rng.choice([*NAMES, "GONE"], n).tolist(), "time": (rng.integers(0, 520, n) * 10).tolist()}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("at", ["before", "at-or-before"])
def test_events_meet_the_quotes_that_plain_python_finds(at: Any, workers: int) -> None:
    ticks, events = market(3_000, 3, new_days=True), events_of(400, 4)
    joined = asof(testing.feed(ticks, NAMES), events, at=at, workers=workers, **RUN)
    found = joined.to_arrow(prices="integer").to_pylist()
    histories = {name: states(ticks, name) for name in NAMES} | {"GONE": []}
    for row, name, time in zip(found, events["symbol"], events["time"], strict=True):
        its = before(histories[name], time, own=at == "at-or-before")
        if its["quoted"] == 0:
            assert [row[field] for field in ("bid", "ask", "bid_size", "ask_size", "quote_time")] == [None] * 5
        else:
            assert (row["bid"], row["ask"], row["bid_size"], row["ask_size"]) == its["top"]
            assert row["quote_time"].value == its["quoted"]
        assert (row["symbol"], row["time"]) == (name, time)
    assert joined.missing == {"GONE": events["symbol"].count("GONE")}


@pytest.mark.parametrize("at", ["before", "at-or-before"])
def test_events_meet_the_quotes_that_polars_joins(at: Any) -> None:
    """Order books, and times of events that are those of changes."""
    tops = strand.replay(sample_path(), "bbo", date=SAMPLE_DATE, **RUN).outputs["bbo"].to_polars()
    picked = tops.sample(3_000, seed=1)
    off = pl.Series([i % 3 - 1 for i in range(3_000)]).cast(pl.Duration("ns"))
    events = pl.DataFrame({"symbol": picked["symbol"], "ts": picked["ts"] + off})
    joined = asof(sample_path(), events, time="ts", at=at, date=SAMPLE_DATE, **RUN).to_polars()
    right = events.with_row_index().sort("ts").join_asof(
        tops.sort("ts", maintain_order=True).select("ts", "symbol", "bid", "ask", "bid_size", "ask_size"),
        on="ts", by="symbol", allow_exact_matches=at == "at-or-before",
    ).sort("index")  # fmt: skip
    assert right["bid"].null_count() < 300
    for name in ("ts", "symbol", "bid", "ask", "bid_size", "ask_size"):
        if name.endswith("size"):  # of an empty side 0; null where no quote stands
            assert joined[name].fill_null(0).to_list() == right[name].fill_null(0).to_list()
        else:
            assert joined[name].to_list() == right[name].to_list(), name


def integral(history: list[tuple[int, dict[str, Any]]], start: int, end: int, mid: bool) -> tuple[Fraction, int]:
    """Price x time, and the time with a price."""
    total, ns = Fraction(0), 0
    edges = sorted({start, end, *(ts for ts, _ in history if start < ts < end)})
    for since, until in itertools.pairwise(edges):
        its = before(history, since, own=True)
        bid, ask = its["top"][:2]
        price = (None if bid is None or ask is None else Fraction(bid + ask, 2)) if mid else its["price"]
        if price is not None:
            total, ns = total + price * (until - since), ns + until - since
    return total, ns


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("twap", ["trade", "mid"])
def test_orders_meet_the_market_that_plain_python_measures(twap: Any, workers: int) -> None:
    ticks = market(3_000, 5, new_days=True)
    rng = np.random.default_rng(6)
    starts = rng.integers(0, 480, 300) * 10
    orders = {
        "symbol": rng.choice([*NAMES, "GONE"], 300),
        "start": starts,
        "end": starts + rng.integers(0, 60, 300) * 10,
        "paid": rng.integers(90, 110, 300) / 1.0,
        "side": rng.choice(["buy", "SELL", "B", "a"], 300),
    }
    found = between(
        testing.feed(ticks, NAMES), orders, twap=twap, price="paid", side="side", workers=workers, **RUN
    ).to_arrow().to_pylist()  # fmt: skip
    histories = {name: states(ticks, name) for name in NAMES} | {"GONE": []}
    traded = priced = 0
    for row, name, start, end in zip(found, *(orders[k].tolist() for k in ("symbol", "start", "end")), strict=True):
        first, last = before(histories[name], start), before(histories[name], end)
        volume = last["volume"] - first["volume"]
        assert (row["trades"], row["volume"]) == (last["trades"] - first["trades"], volume)
        bid, ask = (None if price is None else price / 1e9 for price in first["top"][:2])
        assert (row["bid"], row["ask"]) == (bid, ask)
        if volume:
            vwap = float(Fraction(last["notional"] - first["notional"], volume * 10**9))
            assert row["vwap"] == vwap
            sign = 1 if row["side"] in ("buy", "B") else -1
            assert row["slippage"] == sign * (row["paid"] - vwap)
            traded += 1
        else:
            assert row["vwap"] is None
            assert row["slippage"] is None
        total, ns = integral(histories[name], start, end, twap == "mid")
        assert row["twap_ns"] == ns
        assert row["twap"] == (float(total / ns / 10**9) if ns else None)
        priced += ns > 0
    assert traded > 50
    assert priced > 50


def test_orders_of_the_whole_day_have_the_volume_and_average_of_vwap() -> None:
    run: dict[str, Any] = {"date": SAMPLE_DATE, **RUN}
    rows = strand.replay(sample_path(), "vwap", **run).rows
    names = [name for name, row in rows.items() if row["volume"]]
    orders = {"symbol": names, "start": [0] * len(names), "end": [2**63 - 1] * len(names)}
    found = between(sample_path(), orders, **run).figures
    assert found["volume"].tolist() == [int(rows[name]["volume"]) for name in names]
    assert found["trades"].tolist() == [int(rows[name]["trades"]) for name in names]
    assert found["vwap"].tolist() == pytest.approx([float(rows[name]["vwap"]) for name in names], rel=1e-15)


def quotes(*rows: tuple[str, int, float, float]) -> Any:
    return testing.feed(
        [{"symbol": s, "time": t, "bid": b, "bid_size": 1, "ask": a, "ask_size": 1} for s, t, b, a in rows]
    )


def test_a_quote_that_is_too_old_is_none() -> None:
    events = {"symbol": ["A", "A"], "time": [15, 16]}
    found = asof(quotes(("A", 5, 1.0, 2.0)), events, max_age="10ns", **RUN).to_arrow()["bid"].to_pylist()
    assert found == [1.0, None]


@pytest.mark.parametrize("kind", ["polars", "pandas", "arrow", "structured", "dict", "dict of arrays"])
def test_tables_of_all_kinds_come_back_with_their_columns(kind: str) -> None:
    when = dt.datetime(2026, 1, 5, 15, tzinfo=dt.UTC)
    moment = int(when.timestamp()) * SECOND
    plain = {"symbol": ["A", "B"], "time": [when, when], "bid": [7, 8]}
    events: Any = {
        "polars": lambda: pl.DataFrame(plain),
        "pandas": lambda: pytest.importorskip("pandas").DataFrame(plain),
        "arrow": lambda: pa.table(plain),
        "structured": lambda: np.array(
            [("A", moment, 7), ("B", moment, 8)], [("symbol", "U4"), ("time", "<i8"), ("bid", "<i8")]
        ),
        "dict": lambda: plain,
        "dict of arrays": lambda: {name: np.array(plain[name]) for name in ("symbol", "bid")} | {"time": [moment] * 2},
    }[kind]()
    joined = asof(quotes(("A", moment - 1, 1.0, 2.0), ("B", moment, 3.0, 4.0)), events, **RUN)
    frame = joined.to_polars()
    assert frame["bid"].to_list() == [7, 8]
    assert frame["bid_market"].to_list() == [1.0, None]
    assert joined.to_pandas()["ask"].isna().tolist() == [False, True]
    assert len(joined) == 2


def test_a_new_column_gets_a_name_that_is_free() -> None:
    events = {"symbol": ["A"], "time": [9], "bid": [7], "bid_market": [8]}
    joined = asof(quotes(("A", 5, 1.0, 2.0)), events, **RUN).to_polars()
    assert joined.select("bid", "bid_market", "bid_market_market").row(0) == (7, 8, 1.0)


@pytest.mark.parametrize(
    "times",
    [
        ["2026-01-05T10:00:00", "2026-07-06T10:00:00"],
        np.array(["2026-01-05T10:00:00", "2026-07-06T10:00:00"], "M8[s]"),
        [dt.datetime(2026, 1, 5, 10), dt.datetime(2026, 7, 6, 10)],
    ],
)
def test_times_without_a_zone_need_one(times: Any) -> None:
    events = {"symbol": ["A", "A"], "time": times}
    utc = [int(dt.datetime(2026, m, d, h, tzinfo=dt.UTC).timestamp()) * SECOND for m, d, h in ((1, 5, 15), (7, 6, 14))]
    feed = quotes(("A", utc[0] - 1, 1.0, 2.0), ("A", utc[0], 3.0, 4.0), ("A", utc[1] - 1, 5.0, 6.0))
    with pytest.raises(ConfigurationError, match=r"events\.time: .*no time zone: give zone="):
        asof(feed, events, **RUN)
    found = asof(feed, events, zone="America/New_York", **RUN).figures
    assert (found["bid"] / 1e9).tolist() == [1.0, 5.0]


def test_a_time_that_clocks_show_twice_is_refused() -> None:
    events = {"symbol": ["A"], "time": ["2026-11-01T01:30:00"]}
    with pytest.raises(ConfigurationError, match=r"events\.time"):
        asof(quotes(("A", 5, 1.0, 2.0)), events, zone="America/New_York", **RUN)


@pytest.mark.parametrize(
    ("events", "options", "said"),
    [
        ({"symbol": ["A"], "times": [1]}, {}, "no column 'time', did you mean 'times'"),
        ({"sym": ["A"], "time": [1]}, {}, "no column 'symbol'"),
        ({"symbol": ["A", None], "time": [1, 2]}, {}, "row 1: 'symbol' is null"),
        ({"symbol": ["A", ""], "time": [1, 2]}, {}, "events.symbol: row 1: is empty"),
        ({"symbol": ["A", "A"], "time": [1, None]}, {}, "row 1: 'time' is null"),
        ({"symbol": ["A"], "time": [1.5]}, {}, "events.time: double is no time"),
        ({"symbol": ["A"], "time": [-5]}, {}, "row 0: -5 is before 1970"),
        ({"symbol": ["A"], "time": ["soon"]}, {}, "events.time: a time cannot be read"),
        ({"symbol": [7], "time": [1]}, {}, "events.symbol: int64 is no symbol"),
        ({"symbol": ["A"], "time": [1, 2]}, {}, "events: dict is no table"),
        (5, {}, "events: int is no table"),
        ({"symbol": ["A"], "time": [1]}, {"at": "after"}, "at"),
        ({"symbol": ["A"], "time": [1]}, {"max_age": "soon"}, "max_age"),
        ({"symbol": ["A"], "time": ["2026-01-05T10:00:00"]}, {"zone": "Mars"}, "zone"),
        ({"symbol": ["A"], "time": [1]}, {"symbols": ["A"]}, "symbols: is no option of a join"),
        ({"symbol": ["A"], "time": [1]}, {"out": {"bbo": "x.csv"}}, "out: is no option of a join"),
        ({"symbol": ["A"], "time": [1]}, {"out": {}}, "out: is no option of a join"),
        ({"symbol": ["A"], "time": [1]}, {"until": 3}, "until: is no option of a join"),
        ({"symbol": ["A"], "time": [1]}, {"on_error": "quarantine"}, "on_error: a join has no figures"),
    ],
)
def test_a_wrong_table_or_option_is_named(events: Any, options: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        asof(quotes(("A", 5, 1.0, 2.0)), events, **options, **RUN)


@pytest.mark.parametrize(
    ("changed", "options", "said"),
    [
        ({"end": [0]}, {}, "row 0: 'end' is before 'start'"),
        ({}, {"price": "paid"}, "side: slippage needs both"),
        ({}, {"side": "way"}, "price: slippage needs both"),
        ({"way": ["up"], "paid": [1.0]}, {"side": "way", "price": "paid"}, "orders.way: row 0: 'up' is no side"),
        ({"way": ["buy"], "paid": ["much"]}, {"side": "way", "price": "paid"}, "orders.paid: string is no price"),
        ({}, {"twap": "last"}, "twap"),
        ({}, {"starts": "begin"}, "no column 'begin'"),
    ],
)
def test_a_wrong_table_of_orders_is_named(changed: Any, options: Any, said: str) -> None:
    orders = {"symbol": ["A"], "start": [1], "end": [9]} | changed
    with pytest.raises(ConfigurationError, match=said):
        between(quotes(("A", 5, 1.0, 2.0)), orders, **options, **RUN)


@pytest.mark.parametrize("unit", [10**9, 10**6, 10**3])
def test_present_day_times_in_another_unit_than_ns_are_refused(unit: int) -> None:
    now = 1_767_623_400 * SECOND
    feed = quotes(("A", now, 1.0, 2.0), ("B", now + 1, 3.0, 4.0))
    with pytest.raises(ConfigurationError, match=rf"events\.when: {now // unit} ns since .* are of 2026-01-05"):
        asof(feed, {"symbol": ["B"], "when": [now // unit]}, time="when", **RUN)
    orders = {"symbol": ["A"], "start": [0], "end": [(now + SECOND) // unit]}
    with pytest.raises(ConfigurationError, match=rf"orders\.end: {(now + SECOND) // unit} ns since"):
        between(feed, orders, **RUN)
    # The beginning of all times, and ticks that are themselves of 1970.
    assert len(between(feed, {"symbol": ["A"], "start": [0], "end": [now]}, **RUN)) == 1
    assert len(asof(quotes(("A", 5, 1.0, 2.0)), {"symbol": ["A"], "time": [now // unit]}, **RUN)) == 1


def test_missing_symbols_are_told_with_the_number_of_their_orders() -> None:
    orders = {"symbol": ["X", "A", "X"], "start": [1, 1, 2], "end": [9, 9, 9]}
    assert between(quotes(("A", 5, 1.0, 2.0)), orders, **RUN).missing == {"X": 2}


def test_no_events_and_unknown_symbols_come_back_undefined() -> None:
    feed = quotes(("A", 5, 1.0, 2.0))
    none = {"symbol": pa.array([], pa.string()), "time": pa.array([], pa.int64())}
    assert asof(feed, none, **RUN).to_polars().shape == (0, 7)
    assert asof(feed, {"symbol": [], "time": []}, **RUN).to_polars().shape == (0, 7)
    joined = asof(feed, {"symbol": ["X", "X", "Y"], "time": [9, 9, 9]}, **RUN)
    assert joined.missing == {"X": 2, "Y": 1}
    assert "3 rows of missing symbols" in repr(joined)
    assert joined.to_arrow()["bid"].null_count == 3


def test_an_empty_source_and_a_damaged_one_are_errors() -> None:
    with pytest.raises(EmptyFeedError):
        asof(testing.feed(zeros(0), ["A"]), {"symbol": ["A"], "time": [9]}, **RUN)
    with pytest.raises(FeedError, match="cut"):
        asof(testing.feed(market(50, 1), NAMES, error=FeedError("cut")), {"symbol": ["A"], "time": [9]}, **RUN)


def test_a_feed_without_the_ticks_of_a_join_is_warned_of() -> None:
    ticks = market(200, 3)
    trades, quotes = (ticks[ticks["kind"] == kind] for kind in (KIND_TRADE, KIND_QUOTE))
    events, orders = {"symbol": ["A"], "time": [3000]}, {"symbol": ["A"], "start": [10], "end": [4000]}

    def kinds(joined: Any) -> list[str]:
        return [one.kind for one in joined.warnings]

    assert kinds(asof(testing.feed(trades, NAMES), events, **RUN)) == ["unusable ticks"]
    assert kinds(asof(testing.feed(quotes, NAMES), events, **RUN)) == []
    assert kinds(between(testing.feed(quotes, NAMES), orders, **RUN)) == ["unusable ticks"]
    assert kinds(between(testing.feed(trades, NAMES), orders, **RUN)) == []
    nothing = trades.copy()
    nothing["kind"], nothing["action"] = KIND_NONE, b"N"
    assert kinds(asof(testing.feed(nothing, NAMES), events, **RUN)) == ["unusable ticks"]
    trades["price"][:] = UNDEF_PRICE
    assert kinds(between(testing.feed(trades, NAMES), orders, **RUN)) == ["unpriced trades"]
