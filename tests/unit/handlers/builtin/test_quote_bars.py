"""Bars of the best bid, the best ask and the mid, against a grouping in plain Python, and their edges by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import bar_reference as reference
import numpy as np
import pytest
from plain_run import plain_run

import strand
from strand import UNDEF_PRICE, Sessions, quote_bars
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BAR_CUT, BAR_EMPTY, BAR_HALVES, BAR_OUTSIDE, BAR_PARTIAL, QUOTE_BAR
from strand.ticks import KIND_QUOTE, KIND_STATUS, zeros

PRICES = ("bid", "ask", "mid")


def or_none(price: int | None) -> int:
    return UNDEF_PRICE if price is None else price


def quotes(*rows: tuple[int, int | None, int | None]) -> Any:
    """Quotes of both sides of symbol 0: (ts_recv, bid, ask); None: the side is empty."""
    ticks = zeros(len(rows))
    ticks["kind"], ticks["action"], ticks["side"] = KIND_QUOTE, b"N", b"N"
    ticks["size"], ticks["ref_id"] = 5, 7
    for tick, (ts, bid, ask) in zip(ticks, rows, strict=True):
        tick["ts_recv"] = ts
        tick["price"], tick["order_id"] = or_none(bid), or_none(ask) % 2**64
    return ticks


def market(n: int, seed: int) -> list[tuple[int, int | None, int | None]]:
    """Quotes in bursts and lulls, some without a side, some as the one before."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.choice(rng.integers(0, 60_000, 12), n) + rng.integers(0, 700, n)).tolist()
    made: list[tuple[int, int | None, int | None]] = []
    for ts in times:
        bid, ask = int(rng.integers(-6, 60)), int(rng.integers(-6, 60))
        gone = rng.random()
        made.append((ts, None if gone < 0.15 else bid, None if 0.1 < gone < 0.25 else ask))
        if rng.random() < 0.1:
            made.append((ts, *made[-1][1:]))
    return made


def changes(rows: list[tuple[int, int | None, int | None]], price: str) -> list[tuple[int, Fraction | None]]:
    """The price after each change of the top."""
    found, top = [], (None, None)
    for ts, *now in rows:
        if tuple(now) != top:
            found.append((ts, reference.quoted(now[0], now[1], price)))
        top = tuple(now)
    return found


def shown(records: Any) -> list[dict[str, Any]]:
    halves = sum(BAR_HALVES.values())
    return [
        {"start": int(bar["start"]), "end": int(bar["end"])}
        | reference.exact_prices(bar)
        | {"changes": int(bar["changes"]), "flags": int(bar["flags"]) & ~halves & ~BAR_PARTIAL}
        for bar in records
    ]


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("fill", [False, True])
@pytest.mark.parametrize("step", [100, 1_700])
def test_bars_of_time_are_a_grouping_of_changes_of_the_top(step: int, fill: bool, price: Any) -> None:
    rows = market(900, 3)
    like = quote_bars(step * 1e-9, price=price, fill=fill)
    ran = plain_run(like, quotes(*rows), 1)
    assert shown(ran.records) == reference.quote_bars(changes(rows, price), step=step, fill=fill)
    assert ran.rows[0]["quotes"] == len(changes(rows, price))
    assert ran.rows[0]["undefined"] == sum(p is None for _, p in changes(rows, price)) > 0
    assert ran.rows[0]["halved"] == sum(p is not None and p.denominator == 2 for _, p in changes(rows, price))


@pytest.mark.parametrize("price", PRICES)
def test_bars_by_count_have_so_many_changes_that_leave_a_price(price: Any) -> None:
    rows = market(700, 4)
    ran = plain_run(quote_bars(ticks=13, price=price), quotes(*rows), 1)
    assert shown(ran.records) == reference.quote_bars(changes(rows, price), ticks=13)
    assert set(ran.records["changes"][:-1]) == {13}


def test_a_mid_between_two_units_is_exact_by_its_flag() -> None:
    ran = plain_run(quote_bars("1us"), quotes((1, 10, 12), (2, 10, 13), (3, 10, 10), (4, -1, 0)), 1)
    (bar,) = ran.records
    assert [int(bar[name]) for name in BAR_HALVES] == [11, 11, -1, -1]
    flags = BAR_HALVES["high"] | BAR_HALVES["low"] | BAR_HALVES["close"] | BAR_PARTIAL
    assert bar["flags"] == flags
    assert ran.rows[0]["halved"] == 2


def test_a_mid_of_the_greatest_prices_does_not_wrap() -> None:
    top = UNDEF_PRICE - 1
    ran = plain_run(quote_bars("1us"), quotes((1, top, top), (2, -top, -top), (3, top - 1, top)), 1)
    assert shown(ran.records) == reference.quote_bars(
        [(1, Fraction(top)), (2, Fraction(-top)), (3, Fraction(2 * top - 1, 2))], step=1_000
    )


def test_a_close_is_undefined_where_the_last_change_left_a_side_empty() -> None:
    ran = plain_run(quote_bars("100ns"), quotes((1, 10, 20), (5, None, 20), (110, 10, 20), (250, 12, 20)), 1)
    assert [int(bar["close"]) for bar in ran.records] == [UNDEF_PRICE, 15, 16]
    assert ran.records["open"].tolist() == [15, 15, 16]


def test_a_size_alone_is_a_change_as_it_is_for_bbo() -> None:
    ticks = quotes((1, 10, 20), (2, 10, 20), (3, 10, 20))
    ticks["size"][1:] = 6
    (bar,) = plain_run(quote_bars("100ns"), ticks, 1).records
    assert bar["changes"] == 2


def test_changes_outside_of_sessions_set_the_price_that_stands() -> None:
    rows = quotes((110, 10, 20), (250, 40, 50), (2_090, 60, 70), (2_250, 20, 30))
    sessions = Sessions(np.array([[100, 200], [2_000, 2_500]]))
    ran = plain_run(quote_bars("50ns", sessions=sessions, fill=True), rows, 1)
    found = [(int(b["start"]), int(b["close"]), int(b["flags"])) for b in ran.records]
    assert found[:3] == [(100, 15, 0), (150, 15, BAR_EMPTY), (2_000, 45, BAR_EMPTY)]
    assert (2_050, 65, 0) in found
    assert (2_100, 65, BAR_EMPTY) in found
    assert ran.rows[0]["outside"] == 1
    ran = plain_run(quote_bars("50ns", sessions=sessions, outside="bars"), rows, 1)
    assert [int(b["flags"]) for b in ran.records] == [0, BAR_OUTSIDE, 0, BAR_PARTIAL]


def test_a_new_day_ends_the_bar_and_empties_the_top() -> None:
    ticks = quotes((110, 10, 20), (150, 0, 0), (160, 30, None), (180, 30, 40))
    ticks["kind"][1], ticks["action"][1] = KIND_STATUS, b"R"
    ran = plain_run(quote_bars("100ns"), ticks, 1)
    assert [(int(b["end"]), int(b["close"]), int(b["flags"])) for b in ran.records] == [
        (150, 15, BAR_CUT),
        (200, 35, BAR_PARTIAL),
    ]


def test_bars_of_books_are_those_of_the_table_of_the_best_bid_and_ask() -> None:
    both = strand.chain(strand.bbo(), quote_bars("1m", partial=False), strand.book())
    result = strand.replay(sample_path(), both, date=SAMPLE_DATE, cores=None)
    tops, bars = (np.asarray(result.outputs[name]) for name in ("bbo", "quote_bars"))
    assert bars.dtype.names[-len(QUOTE_BAR.names) :] == QUOTE_BAR.names
    assert len(bars) > 1_000
    for key in np.unique(bars["instrument_id"])[:200]:
        mine = tops[tops["instrument_id"] == key]
        sides = [[None if p == UNDEF_PRICE else int(p) for p in mine[side]] for side in ("bid", "ask")]
        after = [(int(ts), reference.quoted(b, a, "mid")) for ts, b, a in zip(mine["ts"], *sides, strict=True)]
        whole = reference.quote_bars(after, step=60 * 10**9)
        found = shown(bars[bars["instrument_id"] == key])
        assert found == whole[: len(found)]
        assert len(whole) - len(found) <= 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "exactly one of every and ticks"),
        ({"every": "1m", "ticks": 3}, "exactly one of every and ticks"),
        ({"every": "1m", "price": "last"}, "price"),
        ({"ticks": 3, "fill": True}, "fill"),
        ({"ticks": 0}, "ticks"),
        ({"every": "1m", "outside": "drop"}, "outside"),
    ],
)
def test_options_that_cannot_be_are_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        quote_bars(**given)


def test_a_feed_without_quotes_is_warned_of() -> None:
    feed = strand.testing.feed([("A", 1, 10.0, 2), ("A", 2, 11.0, 2)])
    result = strand.replay(feed, "quote_bars", cores=None)
    assert len(result.outputs["quote_bars"]) == 0
    assert any("quote_bars" in warning.cure for warning in result.warnings)
