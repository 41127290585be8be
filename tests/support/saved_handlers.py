"""Handlers of every kind that tests save, and the rest of such a run in another process."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import strand
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE, UNDEF_PRICE

START_NS = 1_767_623_400 * 10**9
SYMBOLS = 12
RECORD = [("count", "<i8"), ("time", "<i8")]


def made_ticks(feed: str) -> tuple[npt.NDArray[Any], int]:
    """Some minutes of a few symbols: trades, or orders that come, go and are executed."""
    n = 4000
    draw = np.random.default_rng(11)
    ticks = strand.ticks.zeros(n)
    ticks["ts_recv"] = START_NS + np.cumsum(draw.integers(1, 200_000_000, n))
    ticks["ts_event"] = ticks["ts_recv"]
    ticks["instrument_id"] = draw.integers(0, SYMBOLS, n)
    ticks["size"] = draw.integers(1, 100, n)
    ticks["price"] = (1000 + draw.integers(-20, 21, n)) * 10_000_000
    if feed == "plain":
        ticks["kind"], ticks["action"], ticks["side"] = KIND_TRADE, b"T", b"N"
        return ticks, SYMBOLS
    ticks["kind"], ticks["action"] = KIND_ORDER, b"A"
    bid = draw.random(n) < 0.5
    ticks["side"] = np.where(bid, b"B", b"A")
    ticks["price"] = (1000 + np.where(bid, -1, 1) * draw.integers(1, 40, n)) * 10_000_000
    if feed == "plain-quotes":
        ticks["kind"], ticks["depth"] = KIND_QUOTE, 0
        return ticks, SYMBOLS
    if feed == "dbn-orders":
        ticks["publisher_id"] = draw.integers(1, 4, n)
        ticks["flags"] = 0x80
    ticks["order_id"] = np.arange(n) + 1
    gone: set[int] = set()
    for at in range(200, n):
        if draw.random() < 0.4:
            other = int(draw.integers(max(0, at - 400), at))
            if ticks["action"][other] == b"A" and other not in gone:
                gone.add(other)
                for field in ("order_id", "instrument_id", "side", "price", "publisher_id"):
                    ticks[field][at] = ticks[field][other]
                ticks["action"][at] = draw.choice([b"C", b"F"])
                ticks["size"][at] = 1
                if feed == "orders":
                    ticks["price"][at] = UNDEF_PRICE  # it is the order's, in a book
    return ticks, SYMBOLS


class Counted:
    """An object with a timer, that keeps all it knows in itself."""

    def on_start(self, ctx: Any) -> None:
        self.ctx, self.seen, self.woken = ctx, 0, 0

    def on_tick(self, tick: strand.Tick) -> None:
        self.seen += 1
        if self.seen % 7 == 1:
            self.ctx.wake_at(tick.ts_recv + 3_000_000_000)

    def on_wake(self, time: int) -> None:
        self.woken += 1
        self.ctx.emit((self.seen, time))
        if self.woken % 3:
            self.ctx.wake_at(time + 5_000_000_000)

    def on_finish(self) -> None:
        self.ctx.emit((-self.seen, self.woken))

    def save(self) -> bytes:
        return json.dumps([self.seen, self.woken]).encode()

    def load(self, data: bytes) -> None:
        self.seen, self.woken = json.loads(data)


class Forgetful:
    def on_tick(self, tick: strand.Tick) -> None:
        self.last = tick


class Watching:
    """After a book: it is told of changes of the top alone."""

    def on_start(self, ctx: Any) -> None:
        self.ctx, self.changes = ctx, 0

    def on_book(self, top: Any) -> None:
        self.changes += 1
        self.ctx.emit((self.changes, top.bid_price))

    def save(self) -> bytes:
        return str(self.changes).encode()

    def load(self, data: bytes) -> None:
        self.changes = int(data)


def _compiled() -> Any:
    """In numba, with timers, an end and a row of its own."""

    def on_wake(row, time, emit, ctx):  # type: ignore[no-untyped-def]
        row.wakes += 1
        emit.woken(row.volume, time)
        if row.wakes % 2:
            ctx.wake_at(time + 4_000_000_000)

    def on_finish(row, emit):  # type: ignore[no-untyped-def]
        emit.woken(-row.volume, row.wakes)

    def on_tick(row, tick, emit, ctx):  # type: ignore[no-untyped-def]
        row.volume += tick.size
        if row.volume % 5 == 0:
            ctx.wake_at(tick.ts_recv + 2_000_000_000)

    state = [("volume", "i8"), ("wakes", "i8")]
    make = strand.handler(state=state, outputs={"woken": RECORD}, on_wake=on_wake, on_finish=on_finish, name="compiled")
    return make(on_tick)


def _batches() -> Any:
    """A function of Python's, with timers."""

    def on_wake(symbol: str, time: int, row: Any, ctx: Any) -> None:
        row["wakes"] += 1
        ctx.emit((row["volume"], time))

    def on_ticks(symbol: str, ticks: npt.NDArray[Any], row: Any, ctx: Any) -> int:
        at, end = 0, len(ticks)
        while at < end:
            row["volume"] += ticks["size"][at]
            end = ctx.wake_at(int(ticks["ts_recv"][at]) + 2_000_000_000, at=at)
            at += 1
        return at

    state = [("volume", "i8"), ("wakes", "i8")]
    return strand.batch_handler(state=state, outputs={"batched": RECORD}, on_wake=on_wake, name="batches")(on_ticks)


def _trades() -> Any:
    """A function that is called with trades: they are looked up in books."""

    def on_trades(symbol: str, trades: npt.NDArray[Any], row: Any) -> None:
        row["volume"] += trades["size"].sum()
        row["paid"] += (trades["size"] * trades["price"]).sum()

    return strand.batch_handler(state=[("volume", "i8"), ("paid", "i8")], on="trade", name="trades")(on_trades)


def counted(ticks: npt.NDArray[Any]) -> dict[str, int]:
    """Ticks by symbol's name."""
    return {f"#{key}": n for key, n in Counter(ticks["instrument_id"].tolist()).items()}


def _objects(cls: type, **options: Any) -> Any:
    return strand.object_handler(outputs={cls.__name__.lower(): RECORD}, name=cls.__name__, **options)(cls)


#: By name: what makes it, and what the ticks mean.
HANDLERS: dict[str, tuple[Any, str]] = {
    "bars": (lambda: strand.bars("1m"), "plain"),
    "books and bars": (lambda: strand.chain(strand.book(), strand.bars("1m")), "orders"),
    "counted objects": (lambda: _objects(Counted), "plain"),
    "objects after a book": (lambda: strand.chain(strand.book(), _objects(Watching)), "orders"),
    "measures": (
        lambda: strand.chain(
            strand.book(), strand.vwap(every="1m"), strand.spread(every="1m"), strand.volatility(every="1m", step="1s")
        ),
        "orders",
    ),
    "imbalance": (lambda: strand.imbalance(every="1m"), "orders"),
    "levels": (strand.depth, "plain-quotes"),
    "books of publishers": (strand.book, "dbn-orders"),
    "compiled": (_compiled, "plain"),
    "batches": (_batches, "plain"),
    "trades": (_trades, "orders"),
    "objects after bars": (lambda: strand.chain(strand.bars("10s"), _objects(Counted)), "plain"),
}


def dispatcher_of(name: str, symbols: int, **options: Any) -> strand.Dispatcher:
    make, feed = HANDLERS[name]
    meaning: Any = feed.removesuffix("-quotes")
    return strand.Dispatcher(symbols, make(), feed=meaning, workers=2, cores=None, **options)


def finish_apart(name: str, folder: str) -> None:
    """Goes on from a folder's ``state`` with the ticks in ``rest.npz``; rows and outputs are in ``left.npz`` then."""
    with np.load(Path(folder) / "rest.npz") as rest:
        ticks, symbols = rest["ticks"], int(rest["symbols"])
    with dispatcher_of(name, symbols, load=Path(folder) / "state") as dispatcher:
        dispatcher.publish(ticks)
    dispatcher.verify()
    outputs = {name: output.array() for name, output in dispatcher.outputs.items()}
    np.savez(Path(folder) / "left.npz", rows=np.ascontiguousarray(dispatcher.rows.array), **outputs)
