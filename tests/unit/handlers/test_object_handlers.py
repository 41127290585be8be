"""Handlers that are objects, one a symbol; and what Python handlers know of where they are."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for

from strand import Context, Dispatcher, Tick, Trade, object_handler
from strand.caller.run import CallerRun
from strand.errors import ConfigurationError, HandlerError
from strand.handlers.sets import with_sets
from strand.ticks import BY_NAME, KIND_ORDER, KIND_QUOTE, KIND_STATUS, KIND_TRADE, TICK, TRADE, is_clear

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


# ---- Methods that name the fields they take


def recorder(method: str, fields: list[str], kept: list[Any]) -> type:
    """A class whose method takes fields by the names of its arguments."""
    names = ", ".join(fields)
    code = f"def {method}(self, {names}): kept.append(({names},))"
    scope: dict[str, Any] = {"kept": kept}
    exec(code, scope)
    return type("Recorder", (), {method: scope[method]})


def run(handler: Any, ticks: Any, workers: int, symbols: int = 3) -> Any:
    with (
        CallerRun(symbols, handler, feed="plain")
        if not workers
        else Dispatcher(symbols, handler, workers=workers, cores=None, feed="plain")
    ) as d:
        d.publish(ticks)
        if workers:
            d.drain()
    return d


def full_market() -> Any:
    ticks = market()
    rng = np.random.default_rng(5)
    for field in ("ts_event", "order_id", "price", "size", "ref_id", "publisher_id", "flags", "depth", "sequence_high"):
        ticks[field] = rng.integers(0, 200, len(ticks))
    ticks["side"] = rng.choice([b"A", b"B", b"N", b"\0"], len(ticks))
    return ticks


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("method", ["on_tick", "on_order", "on_trade", "on_day"])
def test_a_method_that_names_fields_gets_what_the_whole_record_has(method: str, workers: int) -> None:
    ticks = full_market()
    ticks["action"][5], ticks["kind"][5] = b"R", KIND_STATUS
    there = list(TRADE.names or ()) if method == "on_trade" else [*(TICK.names or ()), *BY_NAME]
    whole: list[Any] = []
    run(type("Whole", (), {method: lambda self, record: whole.append(record)}), ticks, workers)
    assert len(whole) == np.count_nonzero(is_clear(ticks)) if method == "on_day" else whole
    for fields in (there, there[::-1], ["price"], ["size", "price"], [there[-1]], ["sequence"]):
        kept: list[Any] = []
        run(recorder(method, fields, kept), ticks, workers)
        expected = [tuple(getattr(record, field) for field in fields) for record in whole]
        if workers:  # symbols come in another order
            kept, expected = sorted(kept), sorted(expected)
        assert kept == expected
        assert [type(value) for value in kept[0]] == [type(value) for value in expected[0]]


class Mixed:
    """One method takes whole records, others take fields."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_trade(self, size: int, sequence: int) -> None:
        self.calls.append(("trade", sequence, size))

    def on_quote(self, sequence: int) -> None:
        self.calls.append(("quote", sequence))

    def on_tick(self, tick: Tick) -> None:
        self.calls.append(("tick", tick.sequence))


@pytest.mark.parametrize("workers", [0, 1])
def test_for_one_tick_methods_are_called_in_one_order_whatever_they_take(workers: int) -> None:
    ticks = market()
    d = run(Mixed, ticks, workers)
    for key in range(3):
        expected: list[Any] = []
        for tick in ticks[ticks["instrument_id"] == key]:
            number = int(tick["sequence"])
            expected.append(("tick", number))
            expected += [("quote", number)] * int(tick["kind"] == KIND_QUOTE)
            expected += [("trade", number, int(tick["size"]))] * int(tick["kind"] == KIND_TRADE)
        assert d.objects[f"#{key}"].calls == expected
        assert d.rows[key]["ticks"] == 20


def test_on_the_calling_thread_objects_with_other_methods_than_those_before_them_are_called_in_order() -> None:
    seen: list[tuple[str, int]] = []

    class Ticks:
        def on_tick(self, sequence: int) -> None:
            seen.append(("tick", sequence))

    class Orders:
        def on_start(self, ctx: Context) -> None:
            seen.append(("start", ctx.key))

        def on_order(self, tick: Tick) -> None:
            seen.append(("order", tick.sequence))

    class Own:
        def on_status(self, tick: Tick) -> None:
            raise AssertionError("the object has another one")

        def __init__(self) -> None:
            self.on_status = lambda size: seen.append(("own", size))  # type: ignore[method-assign]

    kinds = iter([Orders, Ticks, Own, Orders])
    handler = object_handler(name="various")(lambda: next(kinds)())  # noqa: PLW0108
    ticks = ticks_for([0, 1, 0, 2, 1, 2, 3, 0])
    ticks["kind"] = [KIND_QUOTE, KIND_ORDER, KIND_ORDER, KIND_STATUS, KIND_STATUS, KIND_ORDER, KIND_QUOTE, KIND_ORDER]
    ticks["size"] = 70 + np.arange(8)
    with CallerRun(4, handler, feed="plain") as d:
        d.publish(ticks)
        d.publish(ticks[5:])
    expected = [("start", 0), ("tick", 1), ("order", 2), ("own", 73), ("tick", 2), ("start", 3), ("order", 3)]
    assert seen == [*expected, ("order", 3)]
    assert [d.rows[key]["ticks"] for key in range(4)] == [4, 2, 3, 2]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_method_of_fields_fails_at_its_tick_and_can_be_called_again(workers: int) -> None:
    times: list[int] = []

    class Fails:
        def on_start(self, ctx: Context) -> None:
            self.ctx = ctx

        def on_trade(self, size: int) -> None:
            times.append(self.ctx.time)
            if size == 4:
                raise ValueError("no 4")

    ticks = trades_for(10)
    ticks["ts_recv"] = 10 * (1 + np.arange(10))
    with pytest.raises(HandlerError, match="no 4") as caught:
        run(Fails, ticks, workers, symbols=1)
    error = caught.value
    assert (error.sequence, error.row["ticks"]) == (4, 3)
    with pytest.raises(ValueError, match="no 4"):
        error.replay()
    assert times == [10, 20, 30, 40, 40]


def test_objects_of_sets_take_fields_too() -> None:
    class Scaled:
        def on_start(self, ctx: Context) -> None:
            self.ctx = ctx

        def on_trade(self, size: int) -> None:
            self.ctx.row["sum"] += size * self.ctx.params["by"]

    like = object_handler(state=[("sum", "i8")], params=[("by", "i8")])(Scaled)
    d = run(with_sets(like, [{"by": 1}, {"by": 10}]), trades_for(10), 1, symbols=1)
    assert d.rows.array["sets"]["sum"].tolist() == [[55, 550]]


class TakesMore:
    def on_tick(self, tick: Tick, price: int) -> None: ...


class TakesUnknown:
    def on_trade(self, price: int, aggresor: bytes) -> None: ...


class TakesBehind:
    def on_trade(self, price: int, scale: int = 1, *, size: int = 0) -> None: ...


@pytest.mark.parametrize("cls", [TakesMore, TakesUnknown, TakesBehind])
def test_a_method_that_takes_more_than_a_record_or_its_fields_is_refused(cls: type) -> None:
    with pytest.raises(ConfigurationError, match=r"'Takes.*': on_t.* takes \(.*: give it one argument, for the whole"):
        Dispatcher(1, cls)


def test_arguments_that_are_no_fields_keep_their_defaults() -> None:
    class Scales:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def on_tick(self, tick: Tick, scale: int = 3) -> None:
            self.seen.append(tick.size * scale)

        def on_trade(self, size: int, scale: int = 3) -> None:
            self.seen.append(size * scale)

    assert run(Scales, trades_for(2), 1, symbols=1).objects["#0"].seen == [3, 3, 6, 6]


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
