"""Spreads, imbalance, volatility and statistics of trades against their definitions in plain Python."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import measure_reference as reference
import numpy as np
import pytest
from measure_reference import Top
from plain_run import AT_END, TIMER, plain_run

import strand
from strand import TICK, UNDEF_PRICE, Sessions, bars, book, imbalance, spread, trade_stats, volatility, vwap
from strand.caller.run import CallerRun
from strand.errors import ConfigurationError, HandlerError
from strand.feeds import FeedInfo
from strand.handlers import VWAP_ROW
from strand.handlers.builtin.measures import IMBALANCE, TRADE_STATS, TRADE_STATS_ROW, VWAP
from strand.ticks import KIND_QUOTE, KIND_TRADE, clear_records, zeros

SECOND = 1_000_000_000
SESSIONS = [(10 * SECOND, 40 * SECOND), (40 * SECOND, 45 * SECOND), (100 * SECOND, 260 * SECOND)]


def quote(ts: int, bid: int | None, bid_size: int, ask: int | None, ask_size: int) -> Any:
    tick = zeros(())
    tick["ts_recv"], tick["kind"], tick["action"], tick["side"] = ts, KIND_QUOTE, b"N", b"N"
    tick["price"], tick["size"] = UNDEF_PRICE if bid is None else bid, bid_size
    tick["order_id"], tick["ref_id"] = UNDEF_PRICE if ask is None else ask % 2**64, ask_size
    return tick


def trade(ts: int, price: int, size: int, side: bytes = b"N") -> Any:
    tick = zeros(())
    tick["ts_recv"], tick["kind"], tick["action"], tick["side"] = ts, KIND_TRADE, b"T", side
    tick["price"], tick["size"] = price, size
    return tick


def stream(*ticks: Any) -> Any:
    return np.stack([np.asarray(tick, TICK) for tick in ticks])


def market(n: int, seed: int, seconds: int = 300) -> Any:
    """One symbol's quotes, of both sides and of one, and trades near them; some sides empty, some tops locked."""
    rng = np.random.default_rng(seed)
    ticks = zeros(n)
    ticks["ts_recv"] = np.sort(rng.integers(0, seconds * SECOND, n))
    mid = 10**11 + np.cumsum(rng.integers(-2, 3, n)) * 10**7
    ticks["kind"] = rng.choice([KIND_QUOTE, KIND_TRADE], n, p=[0.7, 0.3])
    is_trade = ticks["kind"] == KIND_TRADE
    ticks["action"] = np.where(is_trade, b"T", b"N")
    ticks["side"] = rng.choice([b"A", b"B", b"N"], n)
    half = rng.integers(0, 6, n) * 10**7
    bid, ask = mid - half, mid + half
    ticks["price"] = np.where(is_trade, mid + rng.integers(-3, 4, n) * 10**7, np.where(ticks["side"] == b"A", ask, bid))
    ticks["order_id"] = np.where(is_trade, 0, ask)
    ticks["size"] = rng.integers(1, 9, n) * 100
    ticks["ref_id"] = np.where(is_trade, 0, rng.integers(1, 9, n) * 100)
    empty = ~is_trade & (rng.random(n) < 0.05)
    ticks["price"][empty] = UNDEF_PRICE
    ticks["order_id"][~is_trade & (rng.random(n) < 0.05)] = UNDEF_PRICE
    ticks["depth"][~is_trade & (rng.random(n) < 0.1)] = 1
    return ticks


@pytest.mark.parametrize("sessions", [None, SESSIONS])
def test_spreads_equal_their_definitions(sessions: Any) -> None:
    ticks = market(3_000, 1)
    ran = plain_run(spread(sessions=Sessions(np.array(sessions)) if sessions else None), ticks, 1)
    row = ran.rows[0]
    changes = reference.quotes_of(ticks)
    # Up to the last trade or top-of-book quote.
    relevant = (ticks["kind"] == KIND_TRADE) | (ticks["depth"] == 0)
    total, quoted, relative = reference.quoted(changes, int(ticks["ts_recv"][relevant].max()), sessions)
    assert row["quoted_ns"] == total
    assert row["quoted"] == pytest.approx(quoted, rel=1e-14)
    assert row["relative"] == pytest.approx(relative, rel=1e-12)
    pairs, unmatched, top = [], 0, Top()
    for t in ticks:
        if t["kind"] == KIND_TRADE:
            if reference.overlap(int(t["ts_recv"]), int(t["ts_recv"]) + 1, sessions):
                if top.sound:
                    pairs.append((int(t["price"]), int(t["size"]), top))
                else:
                    unmatched += 1
        else:
            top = reference.quotes_of([quote(0, top.bid, top.bid_size, top.ask, top.ask_size), t])[-1][1]
    assert (row["trades"], row["unmatched"]) == (len(pairs), unmatched)
    weighted, plain = reference.effective(pairs)
    assert row["effective"] == pytest.approx(weighted, rel=1e-14)
    assert row["effective_mean"] == pytest.approx(plain, rel=1e-14)
    assert row["volume"] == sum(size for _, size, _ in pairs)
    assert row["locked"] > 0
    assert row["one_sided"] > 0


# ---- spread


def test_a_relative_spread_counts_no_time_whose_mid_is_at_or_below_0() -> None:
    ticks = stream(
        quote(10, -5, 1, 5, 1),  # 10 ns: mid 0
        quote(20, -10, 1, -5, 1),  # 20 ns: mid below 0
        quote(40, -5, 1, 15, 1),  # 40 ns: 20 of 5
        quote(80, -5, 1, -5, 1),  # locked
        quote(90, 100, 1, 104, 1),  # 10 ns: 4 of 102
        trade(100, 102, 1),
    )
    row = plain_run(spread(), ticks, 1).rows[0]
    assert (row["quoted_ns"], row["relative_ns"], row["unusable"]) == (80, 50, 2)
    assert row["quoted"] == pytest.approx((10 * 10 + 20 * 5 + 40 * 20 + 10 * 4) / 80 * 1e-9)
    assert row["relative"] == pytest.approx((40 * 20 / 5 + 10 * 4 / 102) / 50)


def test_a_relative_spread_without_any_usable_mid_is_undefined_and_the_run_says_so(tmp_path: Path) -> None:
    path = tmp_path / "spreads.npy"
    np.save(path, stream(quote(10, -5, 1, 5, 1), quote(20, -10, 1, -5, 1), quote(40, -5, 1, 5, 1)))
    result = strand.replay(path, spread())
    (row,) = result.rows.to_arrow().to_pylist()
    assert row["quoted"] == pytest.approx((10 * 10 + 20 * 5) / 30 * 1e-9)
    assert row["relative"] is None
    assert ("unusable mids", 3) in [(w.kind, w.count) for w in result.warnings]


def test_quotes_of_one_side_leave_the_other() -> None:
    both, bid, ask = quote(0, 100, 5, 110, 6), quote(1, 101, 7, None, 0), quote(2, 108, 9, None, 0)
    bid["side"], ask["side"] = b"B", b"A"
    row = plain_run(spread(), stream(both, bid, ask), 1).rows[0]
    assert (row["bid"], row["bid_size"], row["ask"], row["ask_size"]) == (101, 7, 108, 9)


def test_time_that_runs_backwards_counts_for_nothing() -> None:
    row = plain_run(spread(), stream(quote(100, 1, 1, 3, 1), quote(50, 1, 1, 4, 1), quote(110, 1, 1, 3, 1)), 1).rows[0]
    assert row["quoted_ns"] == 10
    assert row["quoted"] == pytest.approx(3e-9)


# ---- imbalance


@pytest.mark.parametrize("sessions", [pytest.param(None, marks=pytest.mark.python), SESSIONS])
@pytest.mark.parametrize("every", [None, 7.0])
def test_order_flow_and_queue_imbalance_equal_their_definitions(sessions: Any, every: float | None) -> None:
    ticks = market(3_000, 2)
    ran = plain_run(imbalance(every, sessions=Sessions(np.array(sessions)) if sessions else None), ticks, 1)
    row = ran.rows[0]
    changes = reference.quotes_of(ticks)
    flows = _flows(changes, sessions)
    assert row["ofi"] == sum(flow for _, flow in flows)
    assert row["events"] == len(flows)
    quotes = ticks[(ticks["kind"] == KIND_QUOTE) & (ticks["depth"] == 0)]
    end = int(quotes["ts_recv"].max())
    if every is None:
        weights = [(reference.queue(top), ns) for top, ns in reference.spans(changes, end, sessions)]
        total = sum(ns for q, ns in weights if q is not None)
        assert row["queue_ns"] == total
        mean = float(sum(q * ns for q, ns in weights if q is not None) / total)
        assert row["queue_mean"] == pytest.approx(mean, rel=1e-10)
        assert len(ran.records) == 0
        return
    feed_end = int(ticks["ts_recv"].max())
    assert len(ran.records) > 10
    for record in ran.records:
        start, stop = int(record["start"]), int(record["end"])
        inside = [flow for time, flow in flows if start <= time < stop]
        assert (record["ofi"], record["events"]) == (sum(inside), len(inside))
        assert record["flags"] == (stop > feed_end)
        first = min(int(q["ts_recv"]) for q in quotes if start <= q["ts_recv"] < stop)
        _check_queue_mean(record, changes, start if _top_at(changes, start) else first, min(stop, end))
        assert (record["bid"], record["bid_size"]) == _bid(_top_at(changes, min(stop, feed_end + 1) - 1))
    assert sum(ran.records["ofi"]) == row["ofi"]


def _flows(changes: list[tuple[int, Top]], sessions: Any) -> list[tuple[int, int]]:
    found, was_in = [], None
    for (_, was), (time, now) in pairwise(changes):
        which = [i for i, (a, b) in enumerate(sessions or [(0, 2**63)]) if a <= time < b]
        if was_in is None:
            was_in = [i for i, (a, b) in enumerate(sessions or [(0, 2**63)]) if a <= changes[0][0] < b]
        if which and which == was_in:
            found.append((time, reference.order_flow(was, now)))
        was_in = which
    return found


def _top_at(changes: list[tuple[int, Top]], time: int) -> Top | None:
    earlier = [top for at, top in changes if at <= time]
    return earlier[-1] if earlier else None


def _bid(top: Top | None) -> tuple[int, int]:
    assert top is not None
    return (UNDEF_PRICE if top.bid is None else top.bid, top.bid_size)


def _check_queue_mean(record: Any, changes: list[tuple[int, Top]], start: int, end: int) -> None:
    total, summed = 0, 0.0
    times = [time for time, _ in changes[1:]] + [2**63]
    for (time, top), until in zip(changes, times, strict=True):
        ns, q = max(0, min(until, end) - max(time, start)), reference.queue(top)
        if q is not None:
            total, summed = total + ns, summed + float(q) * ns
    if total:
        assert record["queue_mean"] == pytest.approx(summed / total, abs=1e-9)
    else:
        assert math.isnan(record["queue_mean"])


def test_an_interval_of_flow_closes_without_a_tick_and_the_last_one_is_partial() -> None:
    ticks = stream(quote(10, 100, 5, 102, 5), quote(20, 100, 8, 102, 5), quote(250, 100, 9, 102, 5))
    other = quote(300, 1, 1, 2, 1)
    other["instrument_id"] = 1
    ran = plain_run(imbalance("100ns"), stream(*ticks, quote(255, 100, 7, 102, 5), other), 2)
    assert ran.records[["start", "end", "ofi", "events"]].tolist() == [(0, 100, 3, 1), (200, 300, -1, 2)]
    assert ran.records["number"].tolist() == [TIMER, TIMER]
    assert ran.records["queue_mean"][0] == pytest.approx(80 * 3 / 13 / 90)
    ran = plain_run(imbalance("100ns"), ticks, 1)
    assert (ran.records["number"][-1], ran.records["flags"][-1]) == (AT_END, 1)
    assert len(plain_run(imbalance("100ns", partial=False), ticks, 1).records) == 1
    assert [*IMBALANCE.names] == [*ran.records.dtype.names[4:]]


# ---- volatility


def same_variation(found: Any, expected: dict[str, float], prefix: str = "") -> None:
    assert found[prefix + "returns"] == expected["returns"]
    for name in ("rv", "bv", "volatility", "sum"):
        assert found[prefix + name] == pytest.approx(expected[name], rel=1e-9, abs=1e-15)


def test_no_return_spans_two_sessions() -> None:
    sessions = Sessions(np.array([[0, 100], [200, 300]]))
    prices = ((5, 100), (15, 110), (95, 120), (150, 5), (205, 990), (215, 1000), (299, 1100))
    ticks = stream(*(trade(ts, price, 1) for ts, price in prices))
    other = trade(1_000, 1, 1)
    other["instrument_id"] = 1
    row = plain_run(volatility("10ns", sessions=sessions), stream(*ticks, other), 2).rows[0]
    squares = (math.log(b / a) ** 2 for a, b in ((100, 110), (110, 120), (990, 1000), (1000, 1100)))
    assert row["rv"] == pytest.approx(sum(squares), rel=1e-12)
    assert row["prices"] == 6


def test_the_mid_is_sampled_where_quotes_are_meant() -> None:
    ticks = stream(quote(5, 99, 1, 101, 1), trade(6, 500, 1), quote(15, 109, 1, 111, 1), quote(16, 109, 2, 111, 1),
                   quote(17, 109, 2, None, 0), quote(25, 119, 1, 121, 1))  # fmt: skip
    row = plain_run(volatility(ticks=1, price="mid"), ticks, 1).rows[0]
    assert row["prices"] == 3
    assert row["rv"] == pytest.approx(math.log(110 / 100) ** 2 + math.log(120 / 110) ** 2)
    assert row["bv"] == pytest.approx(math.pi / 2 * math.log(110 / 100) * math.log(120 / 110))


def test_prices_without_a_logarithm_are_left_out() -> None:
    ticks = stream(*(trade(i, price, 1) for i, price in enumerate((100, 0, -5, UNDEF_PRICE, 110))))
    row = plain_run(volatility(ticks=1), ticks, 1).rows[0]
    assert (row["left_out"], row["prices"], row["returns"]) == (3, 2, 1)


# ---- statistics of trades


def test_statistics_keep_to_sessions_and_count_what_has_no_price() -> None:
    like = trade_stats(sessions=Sessions(np.array([[10, 20]])))
    row = plain_run(like, stream(trade(9, 1, 1), trade(10, 2, 2), trade(19, UNDEF_PRICE, 4), trade(20, 3, 8)), 1).rows[
        0
    ]
    assert (row["trades"], row["volume"], row["unpriced"]) == (1, 2, 1)


# ---- by intervals


def within(ticks: Any, record: Any) -> Any:
    return ticks[(ticks["ts_recv"] >= record["start"]) & (ticks["ts_recv"] < record["end"])]


def sessions_of(given: Any) -> Any:
    return Sessions(np.array(given)) if given else None


@pytest.mark.parametrize("sessions", [None, SESSIONS])
@pytest.mark.parametrize(
    ("make", "row", "declared", "exact"),
    [
        (lambda **o: trade_stats(sign="aggressor", **o), TRADE_STATS_ROW, TRADE_STATS, ("volume", "trades")),
        (vwap, VWAP_ROW, VWAP, ("volume", "trades")),
    ],
)
def test_an_interval_of_trades_has_what_its_trades_alone_have(
    make: Any, row: Any, declared: Any, exact: tuple[str, ...], sessions: Any
) -> None:
    ticks = market(2_000, 6)
    ran = plain_run(make(every="7s", sessions=sessions_of(sessions)), ticks, 1)
    assert len(ran.records) > 10
    for record in ran.records:
        assert (record["start"], record["end"]) in spans_of(7 * SECOND, sessions)
        alone = plain_run(make(), within(ticks, record), 1).rows[0]
        for name in declared.names[2:-1]:
            assert record[name] == alone[name], name
        assert record["flags"] == (record["end"] > ticks["ts_recv"].max())
    # The whole run's figures are as without intervals.
    total = plain_run(make(sessions=sessions_of(sessions)), ticks, 1).rows[0]
    for name in row.names:
        assert ran.rows[0][name] == total[name], name
    for name in exact:
        assert ran.records[name].sum() == total[name]


def spans_of(step: int, sessions: Any) -> set[tuple[int, int]]:
    """The intervals there can be: from each session's start on, cut by its end."""
    return {(start, min(start + step, b)) for a, b in sessions or [(0, 400 * SECOND)] for start in range(a, b, step)}


@pytest.mark.cells(1)
@pytest.mark.parametrize("sessions", [pytest.param(None, marks=pytest.mark.python), SESSIONS])
@pytest.mark.parametrize("fill", [False, True])
def test_an_interval_s_spreads_equal_their_definitions(sessions: Any, fill: bool) -> None:
    ticks = market(300, 1)
    every = SECOND
    ran = plain_run(spread(1.0, fill=fill, sessions=sessions_of(sessions)), ticks, 1)
    changes = reference.quotes_of(ticks)
    last = int(ticks["ts_recv"][(ticks["kind"] == KIND_TRADE) | (ticks["depth"] == 0)].max())

    @cache
    def before(at: int) -> Any:
        return plain_run(spread(), ticks[ticks["ts_recv"] < at], 1).rows[0].copy()

    for record in ran.records:
        a, b = int(record["start"]), int(record["end"])
        assert (a, b) in spans_of(every, sessions)
        counted = [(top, ns) for top, ns in reference.spans(changes, last, [(a, b)]) if top.sound and ns]
        assert record["quoted_ns"] == sum(ns for _, ns in counted)
        if counted:
            _, quoted, relative = reference.quoted(changes, last, [(a, b)])
            assert record["quoted"] == pytest.approx(quoted, rel=1e-14)
            assert record["relative"] == pytest.approx(relative, rel=1e-12)
        else:
            assert math.isnan(record["quoted"])
            assert math.isnan(record["relative"])
        # Its trades meet the top that stood before: all ticks up to its end, less those up to its start.
        upto = [before(at) for at in (a, b)]
        for name in ("trades", "volume", "unmatched"):
            assert record[name] == upto[1][name] - upto[0][name]
        sums = [int(row["effective_high"]) * 2**64 + int(row["effective_low"]) for row in upto]
        if record["trades"]:
            assert record["effective"] == pytest.approx((sums[1] - sums[0]) / int(record["volume"]) * 1e-9, rel=1e-14)
        else:
            assert math.isnan(record["effective"])
        top = _top_at(changes, min(b, last + 1) - 1)
        assert (record["bid"], record["bid_size"]) == ((UNDEF_PRICE, 0) if top is None else _bid(top))
        assert record["flags"] == (b > last)
    starts = ran.records["start"].tolist()
    assert starts == sorted(set(starts))
    told = {(a, b) for a, b in spans_of(every, sessions) if _told(ticks, changes, (a, b), last, fill)}
    assert set(zip(starts, ran.records["end"].tolist(), strict=True)) == told
    if fill:
        assert len(told) > 1.2 * len(plain_run(spread(1.0, sessions=sessions_of(sessions)), ticks, 1).records)


def _told(ticks: Any, changes: list[tuple[int, Top]], span: tuple[int, int], last: int, fill: bool) -> bool:
    a, b = span
    events = [time for time, _ in changes] + ticks["ts_recv"][ticks["kind"] == KIND_TRADE].tolist()
    stood = sum(ns for top, ns in reference.spans(changes, last, [(a, b)]) if top.sound)
    return any(a <= time < b for time in events) or (fill and stood > 0)


def test_spreads_go_on_while_a_top_only_stands_and_with_the_next_session() -> None:
    like = spread("100ns", fill=True, sessions=Sessions(np.array([[0, 250], [400, 700]])))
    other = quote(620, 1, 1, 2, 1)
    other["instrument_id"] = 1
    ran = plain_run(like, stream(quote(10, 100, 1, 104, 1), other, quote(630, 100, 1, 104, 1)), 2)
    mine = ran.records[ran.records["key"] == 0]
    spans = [(0, 100, 90), (100, 200, 100), (200, 250, 50), (400, 500, 100), (500, 600, 100)]
    assert mine[["start", "end", "quoted_ns"]].tolist()[:5] == spans
    assert mine["quoted"][:5] == pytest.approx([4e-9] * 5)
    # Timers go on to the session's end. The symbol's next quote tells of the session after it.
    assert mine["number"][:5].tolist() == [TIMER] * 3 + [2] * 2
    assert len(plain_run(like, stream(quote(10, 100, 1, 104, 1), other), 2).records) == 3 + 1
    # Quoted between sessions: from the next one's start on.
    ran = plain_run(like, stream(quote(300, 100, 1, 104, 1), other, quote(630, 100, 1, 104, 1)), 2)
    assert ran.records[ran.records["key"] == 0][["start", "quoted_ns"]].tolist()[:2] == [(400, 100), (500, 100)]
    with pytest.raises(ConfigurationError, match="every"):
        spread(fill=True)


def test_a_row_has_the_averages_of_the_interval_under_way() -> None:
    ticks = stream(quote(5, 99, 1, 101, 1), quote(20, 99, 1, 103, 1), trade(30, 102, 5))
    ran = plain_run(spread("100ns"), ticks, 1)
    assert ran.records["quoted_ns"].tolist() == [25]
    left = plain_run(spread("100ns", partial=False), ticks, 1).rows[0]
    for name in ("quoted_ns", "quoted", "relative", "trades", "effective", "effective_mean"):
        assert left[f"interval_{name}"] == ran.records[0][name] == ran.rows[0][f"interval_{name}"], name
    unquoted = plain_run(spread("100ns"), stream(trade(5, 100, 1)), 1).rows[0]
    assert all(math.isnan(unquoted[f"interval_{name}"]) for name in ("quoted", "relative", "effective"))


@pytest.mark.parametrize("make", [vwap, trade_stats, spread])
def test_what_the_end_leaves_unfinished_is_emitted_by_choice(make: Any) -> None:
    ticks = stream(quote(5, 99, 1, 101, 1), trade(10, 100, 5), trade(150, 100, 5))
    ran = plain_run(make("100ns"), ticks, 1)
    assert ran.records[["start", "end", "flags"]].tolist() == [(0, 100, 0), (100, 200, 1)]
    assert ran.records["number"].tolist() == [TIMER, AT_END]
    assert len(plain_run(make("100ns", partial=False), ticks, 1).records) == 1


@pytest.mark.parametrize("make", [vwap, trade_stats, spread])
def test_a_trade_that_comes_after_its_interval_was_told_counts_in_the_next(make: Any) -> None:
    ticks = stream(
        quote(5, 99, 1, 101, 1), trade(10, 100, 5), trade(150, 100, 5), trade(90, 100, 7), trade(160, 100, 5)
    )
    records = plain_run(make("100ns"), ticks, 1).records
    assert records[["start", "end", "volume", "trades"]].tolist() == [(0, 100, 5, 1), (100, 200, 17, 3)]
    # Also where another symbol's tick has passed its end, and no interval is under way.
    other = trade(150, 1, 1)
    other["instrument_id"] = 1
    records = plain_run(
        make("100ns"), stream(quote(5, 99, 1, 101, 1), trade(10, 100, 5), other, trade(90, 100, 7)), 2
    ).records
    mine = records[records["key"] == 0]
    assert mine[["start", "end", "volume"]].tolist() == [(0, 100, 5), (100, 200, 7)]


def with_late_trades(n: int, seed: int) -> Any:
    """Three symbols' trades, one in five of them with a time that runs back by up to 30 s behind the others' times."""
    rng = np.random.default_rng(seed)
    ticks = zeros(n)
    ticks["instrument_id"] = rng.integers(0, 3, n)
    late = np.where(rng.random(n) < 0.2, rng.integers(0, 30 * SECOND, n), 0)
    ticks["ts_recv"] = np.maximum(SECOND, np.sort(rng.integers(SECOND, 300 * SECOND, n)) - late)
    ticks["kind"], ticks["action"], ticks["side"] = KIND_TRADE, b"T", b"N"
    ticks["price"] = 10**11 + rng.integers(-3, 4, n) * 10**7
    ticks["size"] = rng.integers(1, 9, n)
    return ticks


LATE_MAKERS = {
    "vwap": vwap,
    "spread": spread,
    "trade_stats": trade_stats,
    "volatility": lambda every, **options: volatility(1.0, every=every, **options),
    "volatility by prices": lambda every, **options: volatility(ticks=3, every=every, **options),
}


@pytest.mark.parametrize("given", [None, SESSIONS])
@pytest.mark.parametrize("make", LATE_MAKERS.values(), ids=LATE_MAKERS)
def test_intervals_change_no_total_where_times_run_back(make: Any, given: Any) -> None:
    ticks = with_late_trades(1_500, 31)
    # Quotes, for spreads, from the first moment of all times on.
    tops = stream(*(quote(1, 10**11 - 10**7, 1, 10**11 + 10**7, 1) for _ in range(3)))
    tops["instrument_id"] = range(3)
    ticks = np.concatenate([tops, ticks])
    alone, each = (plain_run(make(every, sessions=sessions_of(given)), ticks, 3).rows for every in (None, 5.0))
    of_intervals = ("interval_", "window_", "stretch_", "inside", "start", "end")
    under_way = (*of_intervals, "now", "accounted", "events", "empty_left")
    names = [name for name in alone.dtype.names or () if not name.startswith(under_way)]
    assert len(names) > 1
    for name in names:
        np.testing.assert_array_equal(alone[name], each[name], err_msg=name)


@pytest.mark.parametrize("make", [vwap, trade_stats, spread])
def test_a_late_trade_from_outside_of_sessions_counts_for_nothing(make: Any) -> None:
    ticks = stream(quote(105, 99, 1, 101, 1), trade(110, 100, 5), trade(50, 100, 7), trade(120, 100, 5))
    ran = plain_run(make("100ns", sessions=Sessions(np.array([[100, 300]]))), ticks, 1)
    assert ran.rows[["trades", "volume"]].tolist() == [(2, 10)]
    assert ran.records[["start", "trades", "volume"]].tolist() == [(100, 2, 10)]


@pytest.mark.parametrize("given", [None, SESSIONS])
def test_statistics_of_late_trades_equal_pythons(given: Any) -> None:
    ticks = with_late_trades(1_500, 32)
    ran = plain_run(trade_stats("5s", sessions=sessions_of(given)), ticks, 3)
    for key, row in enumerate(ran.rows):
        mine = ticks[ticks["instrument_id"] == key]
        if given:
            mine = mine[[any(start <= ts < end for start, end in given) for ts in mine["ts_recv"].tolist()]]
        assert (row["trades"], row["volume"]) == (len(mine), mine["size"].sum())
        assert row["first_time"] == mine["ts_recv"][0]
        assert row["last_time"] == mine["ts_recv"].max()
        signs = np.sign(np.diff(mine["price"].astype(np.int64)))
        rule = [0]
        for sign in signs.tolist():
            rule.append(sign or rule[-1])
        assert (row["buys"], row["sells"]) == (rule.count(1), rule.count(-1))


def sampled(ticks: Any, symbols: int, step: int) -> list[list[int]]:
    """The samples of each symbol's prices on a grid. One of a price that changed is taken once the time of all ticks
    has passed its point, one of the same price once the symbol's own times have."""
    now = 0
    taken: list[list[int]] = [[] for _ in range(symbols)]
    points, own, due = [0] * symbols, [0] * symbols, [0] * symbols
    prices = [0] * symbols
    for tick in ticks:
        key, ts = int(tick["instrument_id"]), int(tick["ts_recv"])
        now = max(now, ts)
        for other in range(symbols):
            if due[other] and due[other] <= now:
                taken[other].append(prices[other])
                points[other] += step
                due[other] = 0
        own[key] = max(own[key], ts)
        while points[key] and points[key] <= own[key]:
            taken[key].append(prices[key])
            points[key] += step
        prices[key] = int(tick["price"])
        points[key] = points[key] or (own[key] // step + 1) * step
        changed = not taken[key] or prices[key] != taken[key][-1]
        due[key] = max(points[key], now + 1) if changed else 0
    return taken


@pytest.mark.parametrize("every", [None, 1.0, 7.0])
def test_volatility_of_late_prices_equals_its_definition(every: float | None) -> None:
    ticks = with_late_trades(1_500, 33)
    ran = plain_run(volatility("1s", every=every), ticks, 3)
    for key, samples in enumerate(sampled(ticks, 3, SECOND)):
        same_variation(ran.rows[key], reference.variation(samples))
        if every is not None:
            mine = ran.records[ran.records["key"] == key]
            assert (np.diff(mine["start"]) >= every * SECOND).all()
            assert sum(mine["rv"]) == pytest.approx(ran.rows[key]["rv"], rel=1e-12)
            assert sum(mine["sum"]) == pytest.approx(ran.rows[key]["sum"], rel=1e-9, abs=1e-12)


def test_the_tick_rule_looks_back_beyond_an_interval_s_start() -> None:
    ticks = stream(trade(10, 100, 5), trade(20, 101, 5), trade(150, 101, 5), trade(160, 100, 5))
    assert plain_run(trade_stats("100ns"), ticks, 1).records[["buys", "sells"]].tolist() == [(1, 0), (1, 1)]


# ---- what a feed says


def info(ticks: Any) -> FeedInfo:
    return FeedInfo("any", "somewhere", ticks=ticks)


def test_a_merge_of_orders_and_quotes_has_to_be_told() -> None:
    for like in (bars("1m"), vwap(), book()):
        with pytest.raises(ConfigurationError, match="give handlers by symbol"):
            like.known(info(None))


# ---- no time, and times far off


NOW = 1_767_623_400 * SECOND  # 2026-01-05 09:30 in New York


@pytest.mark.parametrize("sessions", [None, "09:30-16:00 America/New_York"])
@pytest.mark.parametrize("timers", [True, False])
@pytest.mark.parametrize(
    ("handler", "ticks"),
    [
        (spread, (quote(0, 100, 1, 102, 1), quote(NOW, 100, 1, 104, 1), quote(NOW + 3 * SECOND, 100, 1, 103, 1))),
        (bars, (trade(0, 100, 1), trade(NOW, 101, 1), trade(NOW + 3 * SECOND, 102, 1))),
    ],
    ids=["spread", "bars"],
)
def test_empty_intervals_begin_where_a_symbol_has_a_time(handler: Any, ticks: Any, timers: bool, sessions: Any) -> None:
    ran = plain_run(handler("1s", fill=True, sessions=sessions), stream(*ticks), 1, timers=timers)
    first = [] if sessions else [0]
    assert ran.records["start"].tolist() == [*first, *(NOW + i * SECOND for i in range(4))]


def test_a_quote_without_a_time_stands_for_no_time() -> None:
    ticks = stream(quote(0, 100, 2, 102, 1), quote(NOW, 100, 1, 104, 1), quote(NOW + 5, 100, 1, 105, 1))
    for every in (None, "1s"):
        quoted = plain_run(spread(every), ticks, 1).rows[0]
        assert (quoted["quoted_ns"], quoted["quoted"], quoted["quotes"]) == (5, pytest.approx(4e-9), 3)
        queued = plain_run(imbalance(every), ticks, 1).rows[0]
        assert (queued["queue_ns"], queued["queue_mean"], queued["quotes"]) == (5, 0, 3)


def test_a_price_without_a_time_is_no_sample_of_a_grid() -> None:
    ticks = stream(trade(0, 100, 1), *(trade(NOW + i * SECOND, 100 + i, 1) for i in range(4)))
    ran = plain_run(volatility("1s", every="2s"), ticks, 1)
    assert ran.rows[0]["returns"] == 2
    assert ran.records["start"].tolist() == [NOW, NOW + 2 * SECOND]


@pytest.mark.parametrize(
    ("handler", "output", "tick"),
    [
        (spread("1s", fill=True), "spread", lambda ts: quote(ts, 100, 1, 104, 1)),
        (bars("1s", fill=True), "bars", lambda ts: trade(ts, 100, 1)),
        (volatility("1s", every="1s"), "volatility", lambda ts: trade(ts, 100, 1)),
    ],
    ids=["spread", "bars", "volatility"],
)
def test_too_many_empty_intervals_in_a_row_are_an_error(handler: Any, output: str, tick: Any) -> None:
    loop = CallerRun(1, handler)
    with pytest.raises(HandlerError, match="empty intervals in a row: the next tick's time is wrong"), loop:
        loop.publish(stream(tick(NOW), tick(NOW + SECOND), tick(NOW + 2 * SECOND)))
        left = loop._engine.rows(handler.state)["empty_left"]
        assert left[0] == 4_194_304
        left[0] = 10
        loop.publish(stream(tick(NOW + 9 * SECOND)))
        assert left[0] == 4_194_304
        left[0] = 10
        loop.publish(stream(tick(NOW + 10**6 * SECOND)))
    assert len(loop.outputs[output].array()) < 30


@pytest.mark.parametrize("handler", [vwap(every="100ns"), trade_stats(every="100ns")])
def test_a_new_day_whose_time_runs_back_ends_its_interval_at_the_latest_time(handler: Any) -> None:
    day = clear_records(np.zeros(1, np.uint32), 50)
    ticks = np.concatenate(
        [stream(trade(105, 10, 1), trade(130, 10, 1)), day, stream(trade(50, 10, 1), trade(250, 10, 1))]
    )
    with CallerRun(["A"], handler) as loop:
        loop.publish(ticks)
    (name,) = loop.outputs
    found = loop.outputs[name].array()
    intervals = [(int(each["start"]), int(each["end"]), int(each["trades"])) for each in found]
    assert intervals[0] == (100, 130, 2)
    assert all(start < end for start, end, _ in intervals)
    assert sum(trades for _, _, trades in intervals) == 4


def test_the_average_price_of_one_trade_is_its_price() -> None:
    prices = [7_500_000_000, 100_100_000_000, 300_000_000, 10**9 // 3]
    ticks = strand.ticks.zeros(len(prices))
    ticks["kind"], ticks["action"], ticks["size"] = KIND_TRADE, b"T", 1
    ticks["instrument_id"], ticks["price"] = range(len(prices)), prices
    with strand.Dispatcher(len(prices), "vwap") as dispatcher:
        dispatcher.publish(ticks)
    assert [row["vwap"] for row in dispatcher.rows.array] == [price / 10**9 for price in prices]


@pytest.mark.parametrize("n", [1, 2, 1000, 300_000])
def test_the_error_of_average_prices_is_within_its_bound(n: int) -> None:
    """Trades of 0.1, whose sum drifts; of any price and size; and of prices around 0, as those of calendar spreads."""
    rng = np.random.default_rng(n)
    anything = rng.integers(1, 10**14, n), rng.integers(1, 10**6, n)
    spreads = rng.integers(-(10**9), 10**9, n), rng.integers(1, 10**3, n)
    for prices, sizes in ((np.full(n, 10**8), np.ones(n, np.int64)), anything, spreads):
        ticks = strand.ticks.zeros(n)
        ticks["kind"], ticks["action"] = KIND_TRADE, b"T"
        ticks["price"], ticks["size"] = prices, sizes
        with strand.Dispatcher(1, "vwap") as dispatcher:
            dispatcher.publish(ticks)
        (row,) = dispatcher.rows.array
        paid = [price * size for price, size in zip(prices.tolist(), sizes.tolist(), strict=True)]
        volume, unit = sum(sizes.tolist()), Fraction(112, 10**18)
        absolute = Fraction(sum(map(abs, paid)), 10**9)
        assert abs(Fraction(float(row["notional"])) - Fraction(sum(paid), 10**9)) <= (n + 3) * unit * absolute
        off = abs(Fraction(float(row["vwap"])) - Fraction(sum(paid), 10**9 * volume))
        assert off <= (n + 5) * unit * absolute / volume
