"""Each built-in handler against plain Python that reads the files itself: orders, trades and quotes of two days."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import bar_reference as reference
import market_reference as market
import numpy as np
import pytest
from itch_reference import directory, frame, message
from market_reference import Day, Event, ItchBook, Quote, Trade
from measure_reference import Top

import strand
from strand import UNDEF_PRICE

SECOND = 10**9
DATES = ("2026-01-05", "2026-01-06")
NAMES = {1: "AA", 2: "BB", 7: "CC"}
#: Row fields that are compared up to rounding: means, and logarithms.
ROUNDED = {"notional", "vwap", "size_mean", "size_variance", "interarrival_ns", "quoted", "relative", "effective",
           "effective_mean", "queue_mean", "rv", "bv", "sum"}  # fmt: skip


def midnight_ns(date: str, zone: str = "UTC") -> int:
    return int(dt.datetime.fromisoformat(date).replace(tzinfo=ZoneInfo(zone)).timestamp()) * SECOND


@dataclass(frozen=True)
class Market:
    """Files, how they are opened, and what plain Python reads in them: events by symbol, and the greatest time."""

    paths: list[str]
    options: dict[str, Any]
    events: dict[str, list[Event]]
    end: int

    def run(self, handler: Any, workers: int = 0) -> Any:
        return strand.replay(self.paths, handler, feed_options=self.options, workers=workers)


# ---- orders: ITCH


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Market:
    folder = tmp_path_factory.mktemp("orders")
    rng = random.Random(7)
    books = {name: ItchBook() for name in NAMES.values()}
    paths, end = [], 0
    for number, date in enumerate(DATES):
        made = []
        for locate, name in NAMES.items():
            start = 34_200 * SECOND + rng.randrange(SECOND)
            made += [(ns, locate, name, letter, fields) for letter, ns, fields in market.itch_messages(rng, start, 700)]
        made.sort(key=lambda one: one[0])
        midnight = midnight_ns(date, "America/New_York")
        if number:
            for book in books.values():
                book.begin_day(midnight + made[0][0])
        data = [message("S", 0, 1, b"O"), *(directory(locate, name.encode()) for locate, name in NAMES.items())]
        for ns, locate, name, letter, fields in made:
            data.append(_itch_bytes(locate, name.encode().ljust(8), ns, letter, fields))
            books[name].apply(letter, midnight + ns, *fields)
        end = midnight + made[-1][0]
        path = folder / f"{date}.itch50"
        path.write_bytes(b"".join(map(frame, data)))
        paths.append(str(path))
    return Market(paths, {}, {name: book.events for name, book in books.items()}, end)


def _itch_bytes(locate: int, name: bytes, ns: int, letter: str, fields: tuple[Any, ...]) -> bytes:
    if letter in "AF":
        order, side, shares, price = fields
        rest: tuple[Any, ...] = (order, side.encode(), shares, name, price)
        rest += (b"MPID",) if letter == "F" else ()
    elif letter == "C":
        order, shares, match, printable, price = fields
        rest = (order, shares, match, printable.encode(), price)
    elif letter == "P":
        shares, price = fields
        rest = (0, b"B", shares, name, price, 5)  # a buyer whatever it was
    elif letter == "Q":
        shares, price = fields
        rest = (shares, name, price, 6, b"O")
    else:
        rest = fields
    return message(letter, locate, ns, *rest)


# ---- trades and quotes: Tardis


def _amount(rng: random.Random) -> str:
    return rng.choice((f"{rng.randrange(1, 9)}", f"0.{rng.randrange(1, 10**8):08}", f"{rng.randrange(1, 10**6)}.5"))


def _units(text: str, digits: int) -> int:
    value = Fraction(text) * 10**digits
    assert value.denominator == 1
    return int(value)


def _clock(rng: random.Random) -> list[int]:
    """Times of two days, in microseconds: the second one after midnight of the first."""
    found = []
    for date in DATES:
        at = midnight_ns(date) // 1000 + rng.randrange(10**6)
        for _ in range(600):
            at += rng.choice((0, 1, 5_000, 800_000, 3_000_000))
            found.append(at)
    return found


def _with_days(events: dict[str, list[Event]], clock: list[int]) -> None:
    """Puts the boundary, which is the second day's first time, between the events of each symbol."""
    boundary = next(at for at in clock if at * 1000 >= midnight_ns(DATES[1])) * 1000
    for name, its in events.items():
        before = [e for e in its if e.ts < boundary]
        events[name] = [*before, Day(boundary), *its[len(before) :]]


@pytest.fixture(scope="module")
def trades(tmp_path_factory: pytest.TempPathFactory) -> Market:
    rng = random.Random(8)
    clock = _clock(rng)
    lines = ["exchange,symbol,timestamp,local_timestamp,id,side,price,amount"]
    events: dict[str, list[Event]] = {"BTC": [], "ETH": []}
    for number, us in enumerate(clock):
        name, side = rng.choice(list(events)), rng.choice(("buy", "sell", "unknown"))
        price, amount = f"{20_000 + rng.randrange(-9, 9) / 4}", _amount(rng)
        lines.append(f"x,{name},{us - 5},{us},{number},{side},{price},{amount}")
        aggressor = {"buy": "B", "sell": "A", "unknown": "N"}[side]
        events[name].append(Trade(us * 1000, _units(price, 9), _units(amount, 8), aggressor, Top(), match=number))
    path = tmp_path_factory.mktemp("trades") / "trades.csv"
    path.write_text("\n".join(lines) + "\n")
    _with_days(events, clock)
    return Market([str(path)], {"new_day": "date"}, events, clock[-1] * 1000)


@pytest.fixture(scope="module")
def quotes(tmp_path_factory: pytest.TempPathFactory) -> Market:
    rng = random.Random(9)
    clock = _clock(rng)
    lines = ["exchange,symbol,timestamp,local_timestamp,ask_amount,ask_price,bid_price,bid_amount"]
    events: dict[str, list[Event]] = {"BTC": [], "ETH": []}
    last: dict[str, list[tuple[str, str]]] = {}
    for us in clock:
        name = rng.choice(list(events))
        bid, ask = (f"{20_000 + rng.randrange(-4, 1) / 4}", f"{20_000 + rng.randrange(0, 5) / 4}")
        sizes = _amount(rng), _amount(rng)
        shown = [rng.random() > 0.1, rng.random() > 0.1]
        cells = [(bid, sizes[0]) if shown[0] else ("", ""), (ask, sizes[1]) if shown[1] else ("", "")]
        if rng.random() < 0.2 and name in last:
            cells = last[name]
        lines.append(f"x,{name},{us - 5},{us},{cells[1][1]},{cells[1][0]},{cells[0][0]},{cells[0][1]}")
        sides = [(_units(price, 9), _units(size, 8)) if price else (None, 0) for price, size in cells]
        events[name].append(Quote(us * 1000, Top(*sides[0], *sides[1])))
        last[name] = cells
    path = tmp_path_factory.mktemp("quotes") / "quotes.csv"
    path.write_text("\n".join(lines) + "\n")
    _with_days(events, clock)
    return Market([str(path)], {"new_day": "date"}, events, clock[-1] * 1000)


@pytest.fixture(scope="module")
def both(trades: Market, quotes: Market) -> Market:
    """Trades and quotes, merged in time: at one time the trades come first, as their file does."""
    boundary = min(e.ts for one in (trades, quotes) for e in one.events["BTC"] if isinstance(e, Day))
    events: dict[str, list[Event]] = {}
    for name in trades.events:
        its = [e for one in (trades, quotes) for e in one.events[name] if not isinstance(e, Day)]
        its.sort(key=lambda e: (e.ts, isinstance(e, Quote)))
        days = [[e for e in its if e.ts < boundary], [e for e in its if e.ts >= boundary]]
        events[name] = [*map_quotes(days[0]), Day(boundary), *map_quotes(days[1])]
    return Market(trades.paths + quotes.paths, {"new_day": "date"}, events, max(trades.end, quotes.end))


def map_quotes(day: list[Event]) -> list[Event]:
    """Trades with the quotes they met."""
    found: list[Event] = []
    top = Top()
    for event in day:
        if isinstance(event, Quote):
            top = event.top
        found.append(replace(event, before=top) if isinstance(event, Trade) else event)
    return found


@pytest.fixture(params=["orders", "trades"])
def traded(request: pytest.FixtureRequest) -> Market:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture(params=["orders", "quotes", "both"])
def quoted(request: pytest.FixtureRequest) -> Market:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


def check(found: Any, expected: dict[str, Any], where: str) -> None:
    for name, value in expected.items():
        if name in ROUNDED:
            assert float(found[name]) == pytest.approx(value, rel=1e-9, abs=1e-15), (where, name)
        else:
            assert found[name] == value, (where, name)


def check_rows(market_: Market, handler: Any, expected: Any) -> None:
    for workers in (0, 2):
        rows = market_.run(handler, workers).rows
        for name, events in market_.events.items():
            check(rows[name], expected(events), name)


# ---- the handlers


def test_the_days_hold_what_they_are_to_prove(orders: Market, trades: Market, quotes: Market) -> None:
    """Each kind of event is there, so that no comparison below is one of nothing."""
    found = [e for events in orders.events.values() for e in events]
    executed = [e for e in found if isinstance(e, Trade)]
    assert sum(isinstance(e, Day) for e in found) == len(NAMES)
    assert sum(e.hidden for e in executed) > 50
    assert sum(e.cross for e in executed) > 20
    assert sum(e.price is None for e in executed) > 5
    assert {e.aggressor for e in executed} == {"A", "B", "N"}
    assert sum(isinstance(e, Quote) and not e.top.sound for e in found) > 50
    assert sum(isinstance(e, Trade) for events in trades.events.values() for e in events) == 1200
    assert sum(isinstance(e, Quote) and None in (e.top.bid, e.top.ask) for e in quotes.events["BTC"]) > 20


@pytest.mark.parametrize("crosses", [True, False])
def test_average_prices_are_those_of_plain_python(traded: Market, crosses: bool) -> None:
    check_rows(traded, strand.vwap(crosses=crosses), lambda e: market.average(market.trades_of(e, crosses=crosses)))


@pytest.mark.parametrize("sign", ["tick", "aggressor"])
@pytest.mark.parametrize("crosses", [True, False])
def test_statistics_of_trades_are_those_of_plain_python(traded: Market, sign: str, crosses: bool) -> None:
    def expected(events: list[Event]) -> dict[str, Any]:
        days = [market.trades_of(day, crosses=crosses) for day in market.days_of(events)]
        return market.statistics(days, sign=sign)

    check_rows(traded, strand.trade_stats(sign=sign, crosses=crosses), expected)


@pytest.mark.parametrize("crosses", [True, False])
def test_spreads_are_those_of_plain_python(quoted: Market, crosses: bool) -> None:
    check_rows(quoted, strand.spread(crosses=crosses), lambda e: market.spreads(e, crosses=crosses))


def test_a_quote_without_an_ask_says_that_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    lines = [
        "exchange,symbol,timestamp,local_timestamp,ask_amount,ask_price,bid_price,bid_amount",
        "x,BTC,5,5,1,101,99,1",
    ]
    path.write_text("\n".join([*lines, "x,BTC,6,6,,,100,1", ""]))
    row = strand.replay(path, strand.spread()).rows["BTC"]
    assert (row["bid"], row["ask"], row["one_sided"]) == (100 * 10**9, UNDEF_PRICE, 1)


def test_changes_of_price_levels_are_quotes_where_they_change_the_top(tmp_path: Path) -> None:
    path = tmp_path / "book.csv"
    lines = ["exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount"]
    lines += [
        f"x,BTC,{at},{at},false,{side},{price},1"
        for at, (side, price) in enumerate((("bid", 99), ("ask", 101), ("bid", 50)), 5)
    ]
    path.write_text("\n".join([*lines, ""]))
    for handler in (strand.spread(), strand.imbalance()):
        result = strand.replay(path, handler)
        assert (result.rows["BTC"]["quotes"], [w.kind for w in result.warnings]) == (2, [])
    assert strand.replay(path, "depth").rows["BTC"]["bid_price"] == 99 * 10**9


def test_order_flow_is_that_of_plain_python(quoted: Market) -> None:
    check_rows(quoted, strand.imbalance(), market.flows)


@pytest.mark.parametrize(("given", "step", "ticks"), [("1s", SECOND, 0), ("90s", 90 * SECOND, 0), (None, 0, 7)])
def test_volatility_is_that_of_plain_python(traded: Market, given: str | None, step: int, ticks: int) -> None:
    handler = strand.volatility(given) if given else strand.volatility(ticks=ticks)
    check_rows(traded, handler, lambda e: market.variations(e, traded.end, step=step, ticks=ticks))


@pytest.mark.parametrize("step", ["10s", "1m"])
@pytest.mark.parametrize("crosses", [True, False])
def test_bars_by_time_are_those_of_plain_python(traded: Market, step: str, crosses: bool) -> None:
    ns = {"10s": 10 * SECOND, "1m": 60 * SECOND}[step]
    handler = strand.bars(step, crosses=crosses)
    check_bars(traded, handler, lambda e: market.time_bars(e, ns, traded.end, crosses=crosses))


@pytest.mark.parametrize("step", ["1s", "10s"])
def test_filled_bars_are_those_of_plain_python(traded: Market, step: str) -> None:
    ns = {"1s": SECOND, "10s": 10 * SECOND}[step]
    check_bars(traded, strand.bars(step, fill=True), lambda e: market.time_bars(e, ns, traded.end, fill=True))


@pytest.mark.parametrize("kind", ["ticks", "volume", "notional"])
def test_bars_by_trades_are_those_of_plain_python(traded: Market, kind: str) -> None:
    unit = Fraction(1) if "itch50" in traded.paths[0] else Fraction(1, 10**8)
    handler, full = {
        "ticks": (strand.bars(ticks=9), lambda of: len(of) >= 9),
        "volume": (strand.bars(volume=1500), lambda of: sum(t.size for t in of) * unit >= 1500),
        "notional": (
            strand.bars(notional="250000"),
            lambda of: sum(t.price * t.size for t in of) * unit >= 250_000 * 10**9,
        ),
    }[kind]
    check_bars(traded, handler, lambda e: market.counted_bars(e, full))


@pytest.mark.parametrize("price", ["bid", "mid"])
def test_bars_of_quotes_are_those_of_plain_python(quoted: Market, price: str) -> None:
    """Of each day: the bars of a day know nothing of the day before."""
    result = quoted.run(strand.quote_bars("10s", price=price), 2)
    bars = np.asarray(result.outputs["quote_bars"])
    for name, events in quoted.events.items():
        mine = bars[bars["instrument_id"] == result.symbols.index(name)]
        right = []
        for day in market.days_of(events):
            tops = [(ts, reference.quoted(top.bid, top.ask, price)) for ts, top in market.changes_of(day)]
            right += reference.quote_bars(tops, step=10 * SECOND)
        assert len(mine) == len(right) > 3
        for one, other in zip(mine, right, strict=True):
            assert reference.exact_prices(one) == {field: other[field] for field in reference.HALVES}
            assert (one["start"], one["changes"]) == (other["start"], other["changes"])


def check_bars(market_: Market, handler: Any, expected: Any) -> None:
    check_records(market_, handler, "bars", expected)


def check_records(market_: Market, handler: Any, output: str, expected: Any) -> None:
    for workers in (0, 2):
        result = market_.run(handler, workers)
        bars = result.outputs[output]
        for name, events in market_.events.items():
            mine = bars[bars["instrument_id"] == result.symbols.index(name)]
            right = expected(events)
            assert len(mine) == len(right) > 3
            for one, other in zip(mine, right, strict=True):
                check(one, other, name)


def test_intervals_of_averages_add_up_to_plain_python_s(traded: Market) -> None:
    minute = 60 * SECOND
    result = traded.run(strand.vwap("1m"), workers=2)
    for name, events in traded.events.items():
        mine = result.outputs["vwap"][result.outputs["vwap"]["instrument_id"] == result.symbols.index(name)]
        right = []
        for day in market.days_of(events):
            participants = sorted({t.ts // minute for t in market.trades_of(day)})
            right += [
                market.average([t for t in market.trades_of(day) if t.ts // minute == participant])
                for participant in participants
            ]
        right = [one for one in right if one["trades"]]
        assert len(mine) == len(right)
        for one, other in zip(mine, right, strict=True):
            check(one, other, name)


@pytest.mark.cells(1)
@pytest.mark.parametrize("fill", [False, True])
@pytest.mark.parametrize("every", ["7s", "1m"])
def test_intervals_of_spreads_are_those_of_plain_python(quoted: Market, every: str, fill: bool) -> None:
    handler, ns = strand.spread(every, fill=fill), {"7s": 7 * SECOND, "1m": 60 * SECOND}[every]
    check_rows(quoted, handler, market.spreads)
    check_records(quoted, handler, "spread", lambda e: market.spread_intervals(e, quoted.end, every=ns, fill=fill))


def test_intervals_of_flow_leave_the_totals_of_plain_python(quoted: Market) -> None:
    check_rows(quoted, strand.imbalance("1m"), market.flows)


@pytest.mark.parametrize(("given", "every"), [(1, 10), (1, 90), (5, 15)])
def test_windows_of_volatility_are_those_of_plain_python(traded: Market, given: int, every: int) -> None:
    handler = strand.volatility(f"{given}s", every=f"{every}s")
    step, ns = given * SECOND, every * SECOND
    check_rows(traded, handler, lambda e: market.variations(e, traded.end, step=step))
    check_records(traded, handler, "volatility", lambda e: market.windows(e, traded.end, step=step, every=ns))


def test_books_are_those_of_plain_python(orders: Market) -> None:
    for workers in (0, 2):
        rows = orders.run("book", workers).rows
        for name, events in orders.events.items():
            top = next(e.top for e in reversed(events) if isinstance(e, Quote))
            found = rows[name]
            sides = [top.bid if top.bid is not None else UNDEF_PRICE, top.ask if top.ask is not None else UNDEF_PRICE]
            assert [found["bid_price"], found["ask_price"]] == sides
            assert (found["bid_size"], found["ask_size"]) == (top.bid_size, top.ask_size)
            priced = [t for t in market.trades_of(events) if t.price is not None]
            assert (found["trades"], found["volume"]) == (len(priced), sum(t.size for t in priced))
            assert found["last_price"] == priced[-1].price


def test_trades_of_one_s_own_handlers_are_those_of_plain_python(traded: Market) -> None:
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in traded.events}

    class Collect:
        def on_start(self, context: Any) -> None:
            self.symbol = context.symbol

        def on_trade(self, trade: Any) -> None:
            found[self.symbol].append(
                (
                    trade.ts_recv,
                    trade.price,
                    trade.size,
                    _letter(trade.aggressor),
                    bool(trade.hidden),
                    bool(trade.cross),
                )
            )

    traded.run(Collect)
    for name, events in traded.events.items():
        right = [
            (t.ts, t.price, t.size, t.aggressor, t.hidden, t.cross)
            for t in market.trades_of(events)
            if t.price is not None
        ]
        assert found[name] == right


def records_of(result: Any, output: str, name: str) -> Any:
    records = result.outputs[output]
    return records[records["instrument_id"] == result.symbols.index(name)]


@pytest.mark.parametrize("crosses", [True, False])
def test_the_table_of_trades_is_that_of_plain_python(traded: Market, crosses: bool) -> None:
    of_orders = "itch50" in traded.paths[0]
    for workers in (0, 2):
        result = traded.run(strand.trades(crosses=crosses), workers)
        for name, events in traded.events.items():
            every = market.trades_of(events, crosses=crosses)
            right = [t for t in every if t.price is not None]
            mine = records_of(result, "trades", name)
            assert len(mine) == len(right) > 300
            for one, t in zip(mine, right, strict=True):
                # Tardis has the venue's time of a trade 5 us before its own.
                assert (one["ts"], one["ts_event"]) == (t.ts, t.ts - (0 if of_orders else 5_000))
                assert (one["price"], one["size"], one["order_id"], one["match_id"]) == (
                    t.price, t.size, t.order, t.match
                )  # fmt: skip
                assert (one["aggressor"].decode(), one["hidden"], one["cross"]) == (t.aggressor, t.hidden, t.cross)
            row = result.rows[name]
            assert (row["trades"], row["volume"]) == (len(right), sum(t.size for t in right))
            assert (row["last_price"], row["last_size"]) == (right[-1].price, right[-1].size)
            assert row["unpriced"] == len(every) - len(right)


def test_the_table_of_the_best_bid_and_ask_is_that_of_plain_python(quoted: Market) -> None:
    for workers in (0, 2):
        result = quoted.run(strand.bbo(), workers)
        for name, events in quoted.events.items():
            right = market.tops(events)
            mine = records_of(result, "bbo", name)
            assert len(mine) == len(right) > 50
            for one, (ts, top) in zip(mine, right, strict=True):
                prices = [UNDEF_PRICE if price is None else price for price in (top.bid, top.ask)]
                assert (one["ts"], one["bid"], one["ask"]) == (ts, *prices)
                assert (one["bid_size"], one["ask_size"]) == (top.bid_size, top.ask_size)
            row, tops = result.rows[name], [top for _, top in right]
            two = [top for top in tops if None not in (top.bid, top.ask)]
            assert (row["changes"], row["one_sided"]) == (len(tops), len(tops) - len(two))
            assert row["locked"] == sum(top.bid >= top.ask for top in two)
            assert [row[field] for field in ("bid", "ask", "bid_size", "ask_size")] == [
                mine[-1][field] for field in ("bid", "ask", "bid_size", "ask_size")
            ]
        assert any(top == Top() for top in tops)


def _letter(value: Any) -> str:
    return value.decode() if isinstance(value, bytes | np.bytes_) else str(value)


def test_counts_are_those_of_plain_python(trades: Market) -> None:
    lines = Path(trades.paths[0]).read_text().splitlines()[1:]
    rows = trades.run("count", 2).rows
    for name in trades.events:
        # One more for the clear record of the second day.
        assert rows[name]["ticks"] == sum(line.split(",")[1] == name for line in lines) + 1
