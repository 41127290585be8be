"""Handlers that are objects, one a symbol; and what Python handlers know of where they are."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for

from strand import Context, Dispatcher, Tick, Trade, object_handler
from strand.errors import ConfigurationError, HandlerError
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_STATUS, KIND_TRADE

pytestmark = pytest.mark.python
KINDS = {"order": KIND_ORDER, "trade": KIND_TRADE, "quote": KIND_QUOTE, "status": KIND_STATUS}


class All:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def on_start(self, ctx: Context) -> None:
        self.ctx = ctx
        self.calls.append(("start", ctx.key))

    def on_tick(self, tick: Tick) -> None:
        self.calls.append(("tick", tick.sequence))

    def on_order(self, tick: Tick) -> None:
        self.calls.append(("order", tick.sequence))

    def on_trade(self, trade: Trade) -> None:
        self.calls.append(("trade", trade.sequence))

    def on_quote(self, tick: Tick) -> None:
        self.calls.append(("quote", tick.sequence))

    def on_status(self, tick: Tick) -> None:
        self.calls.append(("status", tick.sequence))


class Trades:
    def __init__(self, least: int = 0) -> None:
        self.least = least
        self.trades: list[Trade] = []

    def on_trade(self, trade: Trade) -> None:
        if trade.publisher_id == 66:
            raise ValueError("no 66")
        if trade.size >= self.least:
            self.trades.append(trade)


class Quotes:
    def __init__(self) -> None:
        self.ticks: list[Tick] = []

    def on_quote(self, tick: Tick) -> None:
        self.ticks.append(tick)


def market(n: int = 60, symbols: int = 3) -> Any:
    ticks = ticks_for(np.arange(n) % symbols)
    ticks["kind"] = np.random.default_rng(3).integers(0, 6, n)
    ticks["side"] = b"N"
    ticks["size"] += 1
    ticks["action"] = np.where(ticks["kind"] == KIND_TRADE, b"T", b"A")
    return ticks


def trades_for(n: int) -> Any:
    """Trades of one symbol."""
    ticks = ticks_for([0] * n, kind=KIND_TRADE)
    ticks["action"] = b"T"
    ticks["size"] += 1
    return ticks


def test_each_symbol_has_an_object_and_each_tick_calls_what_is_defined_for_it() -> None:
    ticks = market()
    with Dispatcher(["A", "B", "C", "D"], All, workers=2, cores=None, batch_ticks=16, feed="plain") as d:
        d.publish(ticks)
    assert list(d.objects) == ["A", "B", "C"]
    for key, symbol in enumerate("ABC"):
        expected = [("start", key)]
        for tick in ticks[ticks["instrument_id"] == key]:
            expected.append(("tick", tick["sequence"]))
            expected += [(name, tick["sequence"]) for name, kind in KINDS.items() if kind == tick["kind"]]
        assert d.objects[symbol].calls == expected
        assert d.rows[symbol]["ticks"] == 20
    assert d.rows["D"]["ticks"] == 0


def test_only_ticks_of_the_kinds_that_are_wanted_are_made() -> None:
    ticks = market()
    with Dispatcher(3, Quotes, workers=1, cores=None) as d:
        d.publish(ticks)
    for key in range(3):
        mine = ticks[(ticks["instrument_id"] == key) & (ticks["kind"] == KIND_QUOTE)]
        assert [tuple(tick) for tick in d.objects[f"#{key}"].ticks] == mine.tolist()
        assert d.rows[key]["ticks"] == 20


def test_a_factory_makes_objects_with_arguments() -> None:
    ticks = trades_for(10)
    like = object_handler(name="large", state=[("n", "u8")])(functools.partial(Trades, least=7))
    with Dispatcher(1, like, workers=1, cores=None) as d:
        d.publish(ticks)
    assert [trade.size for trade in d.objects["#0"].trades] == [7, 8, 9, 10]
    assert d.rows.of_handler("large").dtype.names == ("n",)


def test_a_failure_is_that_of_the_very_tick_and_the_others_come_again() -> None:
    ticks = trades_for(10)
    ticks["kind"][:3], ticks["action"][:3] = KIND_ORDER, b"A"
    ticks["publisher_id"][5] = 66
    with Dispatcher(1, Trades, workers=1, cores=None, on_error="quarantine", feed="plain") as d:
        d.publish(ticks)
        d.drain()
        (error,) = d.failures
        assert (error.sequence, error.reason) == (6, "ValueError: no 66")
        assert isinstance(error.__cause__, ValueError)
        d.release(0)
        d.drain()
    assert [trade.sequence for trade in d.objects["#0"].trades] == [4, 5, 7, 8, 9, 10]


def test_what_fails_at_the_start_fails_on_the_first_tick() -> None:
    class Broken:
        def on_start(self, ctx: Context) -> None:
            raise RuntimeError("no start")

    with (
        pytest.raises(HandlerError, match=r"'Broken' failed on A at sequence 1 \(its tick 1\): RuntimeError: no start"),
        Dispatcher(["A"], Broken, workers=1, cores=None) as d,
    ):
        d.publish(ticks_for([0, 0]))


@pytest.mark.parametrize("drain", [True, False])
def test_each_object_is_told_of_the_end_once_after_its_last_tick(drain: bool) -> None:
    order: list[tuple[int, int]] = []

    class Ends:
        def on_start(self, ctx: Context) -> None:
            self.ctx, self.n = ctx, 0

        def on_tick(self, tick: Tick) -> None:
            self.n += 1

        def on_stop(self) -> None:
            order.append((self.ctx.key, self.n))
            self.ctx.row["n"] = self.n

    like = object_handler(state=[("n", "u8")])(Ends)
    with Dispatcher(4, like, workers=2, cores=None) as d:
        d.publish(ticks_for([2, 0, 2, 2]))
        d.drain()
        d.stop(drain=drain)
    assert order == [(0, 1), (2, 3)]
    assert d.rows.array["n"].tolist() == [1, 0, 3, 0]


def test_a_failure_at_the_end_is_raised_and_the_others_are_told_all_the_same() -> None:
    told: list[int] = []

    class Ends:
        def on_start(self, ctx: Context) -> None:
            self.ctx = ctx

        def on_stop(self) -> None:
            told.append(self.ctx.key)
            if self.ctx.key == 0:
                raise ValueError("no end")

    with (
        pytest.raises(HandlerError, match="'Ends' failed on #0 at sequence 0: ValueError: no end, in on_stop"),
        Dispatcher(2, Ends, workers=1, cores=None) as d,
    ):
        d.publish(ticks_for([0, 1]))
    assert told == [0, 1]


class Misspelt:
    def on_trades(self, tick: Tick) -> None: ...
    def on_tick(self, tick: Tick) -> None: ...


class Waits:
    async def on_trade(self, tick: Tick) -> None: ...


class Mistyped:
    def on_tikc(self, tick: Tick) -> None: ...


class Nothing:
    def trade(self, tick: Tick) -> None: ...


def test_a_class_without_methods_or_with_strange_ones_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'Misspelt': 'on_trades' is never called; there are on_order"):
        Dispatcher(1, Misspelt)
    with pytest.raises(ConfigurationError, match="'Mistyped': it has none of the methods on_order"):
        Dispatcher(1, Mistyped)
    with pytest.raises(ConfigurationError, match="'Waits': on_trade is async or a generator, and would not run"):
        Dispatcher(1, Waits)
    with pytest.raises(ConfigurationError, match="is not a handler"):
        Dispatcher(1, Nothing)
    with pytest.raises(ConfigurationError, match="'Nothing': it has none of the methods on_order"):
        object_handler(Nothing)
