"""Chains: each handler runs on each tick in turn, and sees what those before it have made of that very tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import PAIR_ROW, balanced, ticks_for

import strand
from strand import TICK, UNDEF_PRICE, Dispatcher, batch_handler, book, chain, handler, native, replay, testing
from strand.errors import ConfigurationError
from strand.feeds import Flags
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BOOK_ROW
from strand.ticks import KIND_ORDER, KIND_STATUS, KIND_TRADE

#: Of orders at random.
FLAGS = Flags(unprinted=1, cross=2, last=128)
OPTIONS: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}}


class Tops:
    """Keeps the top after each tick that changed it."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self.trades = 0

    def on_book(self, top: Any) -> None:
        self.seen.append((top.bid_price, top.ask_price))

    def on_trade(self, tick: Any) -> None:
        self.trades += 1


@batch_handler(state=[("ticks", "u8"), ("sum", "u8")])
def python(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    tops = ctx.after["book"]
    assert len(tops) == len(ticks)
    row["ticks"] += len(ticks)
    row["sum"] += (tops["bid_size"] + tops["ask_size"]).sum(dtype=np.uint64)


def compiled() -> Any:
    pytest.importorskip("numba")

    @handler(state=[("ticks", "u8"), ("sum", "u8")])
    def signal(row, tick):  # type: ignore[no-untyped-def]
        row.ticks += 1
        row.signal.sum += row.book.bid_size + row.book.ask_size

    return signal


@pytest.mark.parametrize("workers", [1, 3])
def test_a_compiled_and_a_python_signal_see_the_same_tops(workers: int) -> None:
    alone = replay(sample_path(), "book", **OPTIONS)
    one = replay(sample_path(), chain(book(), compiled()), workers=workers, cores=None, **OPTIONS)
    other = replay(sample_path(), chain(book(), python), workers=workers, cores=None, **OPTIONS)
    for result, name in ((one, "signal"), (other, "python")):
        assert (result.rows.array["book"] == alone.rows.array).all()
        assert result.rows.array[name]["ticks"].tolist() == alone.rows.array["ticks"].tolist()
    assert (one.rows.array["signal"]["sum"] == other.rows.array["python"]["sum"]).all()
    assert one.rows.array["signal"]["sum"].any()


def test_books_of_a_chain_are_asked_as_others_are() -> None:
    one = replay(sample_path(), "book", **OPTIONS).books
    other = replay(sample_path(), chain(book(), "count"), **OPTIONS).books
    assert one is not None
    assert other is not None
    assert (one["AAAHD"].bids() == other["AAAHD"].bids()).all()
    assert len(other["AAAHD"]) == len(one["AAAHD"]) > 0


@pytest.mark.python
def test_an_object_is_told_of_each_change_of_the_top() -> None:
    result = replay(sample_path(), chain(book(), Tops), **OPTIONS)
    expected: dict[str, list[tuple[int, int]]] = {}

    @batch_handler(state=[("n", "u8")])
    def remembers(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        fields = ["bid_price", "ask_price", "bid_size", "ask_size"]
        expected.setdefault(symbol, []).extend(ctx.after["book"][fields].tolist())

    replay(sample_path(), chain(book(), remembers), **OPTIONS)
    for symbol, tops in expected.items():
        changes = [top[:2] for before, top in zip([(0, 0, 0, 0), *tops], tops, strict=False) if top != before]
        assert result.objects[symbol].seen == changes
    assert sum(thing.trades for thing in result.objects.values()) > 0


def test_an_object_is_told_of_each_bar_that_a_handler_before_it_closes() -> None:
    pytest.importorskip("numba")

    @handler(state=[("bars", "u8"), ("n", "u8"), ("open", "i8"), ("last_open", "i8"), ("last_close", "i8")])
    def threes(row, tick):  # type: ignore[no-untyped-def]
        if row.n % 3 == 0:
            row.open = tick.price
        row.n += 1
        if row.n % 3 == 0:
            row.bars += 1
            row.last_open, row.last_close = row.open, tick.price

    class Bars:
        def __init__(self) -> None:
            self.bars: list[Any] = []

        def on_bar(self, bar: Any) -> None:
            self.bars.append((bar.open, bar.close))

    ticks = ticks_for([0] * 11)
    with Dispatcher(1, chain(threes, Bars), workers=1, cores=None, budget_ticks=4) as d:
        d.publish(ticks)
    prices = ticks["price"].tolist()
    assert d.objects["#0"].bars == [(prices[i], prices[i + 2]) for i in (0, 3, 6)]


def test_native_handlers_are_chained_and_each_finds_its_own_row_and_parameters(c_handlers: Path) -> None:
    raw = native(c_handlers, "on_raw", state=[("ticks", "u8")], params=np.array([40, 60], "<u4").tobytes())
    summed = native(c_handlers, "on_sum", state=PAIR_ROW)
    like = chain(raw, "count", last=summed)
    assert like.state.names == ("on_raw", "count", "last")
    ticks = ticks_for(np.arange(1_000) % 7)
    with Dispatcher(7, like, workers=2, cores=None) as d:
        d.publish(ticks)
        d.drain()
        balanced(d)
    counts = np.bincount(ticks["instrument_id"])
    rows = d.rows.array
    assert rows["on_raw"]["ticks"].tolist() == rows["count"]["ticks"].tolist() == counts.tolist()
    for key in range(7):
        assert rows["last"]["total"][key] == ticks["size"][ticks["instrument_id"] == key].sum()


def test_a_handler_works_alone_and_in_a_chain_as_it_is() -> None:
    pytest.importorskip("numba")

    @handler(state=[("ticks", "u8")])
    def counts(row, tick):  # type: ignore[no-untyped-def]
        row.ticks += 1

    for like, path in ((counts, ()), (chain("count", counts), ("counts",)), (chain(book(), mine=counts), ("mine",))):
        with Dispatcher(1, like, workers=1, cores=None) as d:
            d.publish(ticks_for([0] * 9))
        row = d.rows[0]
        for name in path:
            row = row[name]
        assert row["ticks"] == 9


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: chain(book()), "from 2 to 16 handlers, not 1"),
        (lambda: chain(python, book()), "'python' is run by Python and must be the last one"),
        (lambda: chain(book(), book()), "two handlers are named 'book'"),
        (lambda: chain(book(), "no such"), "is not one of"),
        (lambda: chain("count", native(1, state=PAIR_ROW)), "'0x1' cannot be a field's name"),
        (lambda: chain(*(["count"] * 17)), "not 17"),
    ],
)
def test_what_cannot_be_chained_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make()


def test_a_field_that_is_called_as_a_part_is_refused() -> None:
    pytest.importorskip("numba")
    named = handler(state=[("book", "u8")], name="mine")(lambda row, tick: None)
    with pytest.raises(ConfigurationError, match="'mine' has a field 'book'"):
        Dispatcher(1, chain(book(), named))


def test_a_method_that_would_never_be_called_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'Tops': on_book is only called after a book: strand.chain"):
        Dispatcher(1, Tops)
    with pytest.raises(ConfigurationError, match="on_book is only called after a book"):
        Dispatcher(1, chain("count", Tops))


def test_a_chain_s_row_has_its_parts_as_fields() -> None:
    like = chain(book(), python)
    assert like.state["book"] == BOOK_ROW
    assert like.name == "book+python"


class FailsOnTheThird:
    def on_tick(self, tick: Any) -> None:
        if tick.sequence == 3:
            raise ValueError("the third")


@pytest.mark.parametrize("on_full", ["block", "drop_oldest", "conflate"])
def test_a_failure_has_the_rows_of_earlier_parts_at_its_tick(on_full: str) -> None:
    """On a lossy strand that goes on, the earlier parts have been through the whole batch by then."""
    d = Dispatcher(
        ["A"], chain("count", FailsOnTheThird), workers=1, cores=None, on_full=on_full, on_error="quarantine",
        publisher_drains=False,
    )  # fmt: skip
    with d:
        d.pause("A")
        d.publish(ticks_for([0] * 6))
        d.resume("A")
        d.drain()
        (error,) = d.failures
        assert (error.sequence, error.row["count"]["ticks"]) == (3, 3)


def orders_at_random(seed: int, symbols: int) -> Any:
    """Ticks of orders: adds, changes, fills, cancels, trades, clears and days, some of orders that are not there."""
    drawn, n = np.random.default_rng(seed), 20_000
    ticks = np.zeros(n, TICK)
    ticks["ts_recv"] = ticks["ts_event"] = 1_700_000_000 * 10**9 + np.cumsum(drawn.integers(0, 10**9, n))
    ticks["instrument_id"] = drawn.integers(0, symbols, n)
    odds = {b"A": 0.5, b"C": 0.15, b"M": 0.1, b"F": 0.14, b"T": 0.1, b"R": 0.01}
    ticks["action"] = drawn.choice(list(odds), n, p=list(odds.values()))
    ticks["kind"] = np.where(ticks["action"] == b"T", KIND_TRADE, KIND_ORDER)
    ticks["kind"][drawn.random(n) < 0.001] = KIND_STATUS
    ticks["side"] = drawn.choice([b"A", b"B"], n)
    ticks["price"] = (100 + drawn.integers(-3, 4, n)) * 10**9
    ticks["price"][(ticks["action"] == b"F") & (drawn.random(n) < 0.5)] = UNDEF_PRICE
    ticks["size"] = drawn.integers(1, 100, n)
    ticks["order_id"] = drawn.integers(1, 200, n)
    ticks["flags"] = drawn.choice([0, FLAGS.last, FLAGS.cross, FLAGS.unprinted], n)
    return ticks


def by_tape() -> dict[str, Any]:
    """Handlers that read trades and quotes from books of orders, each with a name."""

    @handler(on="trade", state=[("calls", "i8"), ("volume", "i8")])
    def on_trades(row, trade):  # type: ignore[no-untyped-def]
        row.calls += 1
        row.volume += trade.size

    return {
        "bbo": strand.bbo(),
        "trades": strand.trades(),
        "vwap": strand.vwap("1m"),
        "bars": strand.bars("1m", crosses=False),
        "spread": strand.spread("10s"),
        "imbalance": strand.imbalance("10s"),
        "book": book(),
        "on_trades": on_trades,
    }


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["orders", "dbn-orders"])
def test_parts_that_read_the_same_books_have_what_each_has_alone(kind: str, workers: int) -> None:
    pytest.importorskip("numba")
    symbols = [f"S{n}" for n in range(7)]
    source = testing.feed(orders_at_random(workers, len(symbols)), symbols, flags=FLAGS, ticks=kind)
    parts = by_tape()
    whole = replay(source, chain(**parts), workers=workers, cores=None)
    for name, part in parts.items():
        alone = replay(source, part, workers=workers, cores=None)
        assert alone.rows.array.tobytes() != bytes(alone.rows.array.nbytes)
        alike(whole.rows.array[name], alone.rows.array, name)
        for output, table in alone.outputs.items():
            alike(np.asarray(whole.outputs[output]), np.asarray(table), f"{name}, {output}")


def alike(one: Any, other: Any, what: str) -> None:
    assert one.dtype.names == other.dtype.names
    for field in one.dtype.names:
        np.testing.assert_array_equal(one[field], other[field], err_msg=f"{what}: {field}")
