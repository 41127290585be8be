"""Handlers in Python that tests run with many sets of parameters: objects, and functions of batches."""

from __future__ import annotations

from typing import Any

import numpy as np

import strand

__all__ = [
    "SPANS",
    "SpanObjects",
    "counting",
    "emitting",
    "plain_batches",
    "span_batches",
    "span_objects",
    "spans_after_a_book",
]


class Span:
    span: np.int64
    least: np.uint32 = np.uint32(0)


#: Two of them alike, and one that differs for a symbol.
SPANS: list[dict[str, Any]] = [
    {"span": 1_000_000_000},
    {"span": 60_000_000_000, "least": 200},
    {"span": 60_000_000_000, "least": 200},
    {"*": {"span": 7_000_000_000}, "AAAAB": {"span": 1_000_000, "least": 5}},
]
STATE = [("volume", "i8"), ("wakes", "i8"), ("sum", "f8")]
RECORDS = {"spans": [("end", "i8"), ("volume", "i8")]}


class SpanObjects:
    """Asks for a timer before its first tick, at trades, at timers, and when the book changes where there is one."""

    def on_start(self, ctx: Any) -> None:
        self.ctx, self.params = ctx, ctx.params
        ctx.wake_at(int(ctx.params["span"]))  # long ago: at the first tick

    def on_trade(self, trade: strand.Trade) -> None:
        if trade.size < self.params["least"]:
            return
        self.ctx.row["volume"] += trade.size
        self.ctx.row["sum"] += trade.price * 1e-9
        self.ctx.wake_at(self.ctx.time + int(self.params["span"]))

    def on_wake(self, time: int) -> None:
        row = self.ctx.row
        row["wakes"] += 1
        self.ctx.emit((time, row["volume"]))
        if row["wakes"] % 3 == 0:
            self.ctx.wake_at(time + int(self.params["span"]) // 3)

    def on_finish(self) -> None:
        self.ctx.emit((self.ctx.time, -int(self.ctx.row["volume"])))


class _SpansAfterABook(SpanObjects):
    def on_book(self, top: Any) -> None:
        self.ctx.row["sum"] += top.bid_price * 1e-9
        if top.bid_orders % 5 == 4:
            self.ctx.wake_at(0)
            self.ctx.emit((self.ctx.time, top.bid_orders))


span_objects = strand.object_handler(state=STATE, params=Span, outputs=RECORDS, name="spans")(SpanObjects)
spans_after_a_book = strand.object_handler(state=STATE, params=Span, outputs=RECORDS, name="spans")(_SpansAfterABook)


def _wake(symbol: str, time: int, row: Any, ctx: Any) -> None:
    row["wakes"] += 1
    row["closes"] = 0
    ctx.emit((time, row["volume"]))
    if row["wakes"] % 3 == 0:
        row["closes"] = time + int(ctx.params["span"]) // 3
        ctx.wake_at(int(row["closes"]))


def _finish(symbol: str, row: Any, ctx: Any) -> None:
    ctx.emit((ctx.time, -int(row["volume"])))


@strand.batch_handler(
    state=[("volume", "i8"), ("wakes", "i8"), ("closes", "i8")], params=Span, outputs=RECORDS, name="spans", on="trade",
    on_wake=_wake, on_finish=_finish,
)  # fmt: skip
def span_batches(symbol, trades, row, ctx):  # type: ignore[no-untyped-def]
    """Its results do not depend on how many trades it is called with."""
    large, n = np.flatnonzero(trades["size"] >= ctx.params["least"]), len(trades)
    if not row["closes"] and len(large):
        row["closes"] = int(ctx.times[large[0]]) + int(ctx.params["span"])
        n = ctx.wake_at(int(row["closes"]), at=int(large[0]))
    taken = large[large < n]
    row["volume"] += trades["size"][taken].sum()
    found = np.zeros(len(taken), span_batches.outputs["spans"])
    found["end"], found["volume"] = ctx.times[taken], trades["size"][taken]
    if "book" in ctx.after:
        found["volume"] += ctx.after["book"]["bid_orders"][taken]
    ctx.emit(found, at=taken)
    return n


@strand.batch_handler(state=STATE, params=Span, outputs=RECORDS, name="spans")
def plain_batches(symbol, ticks, row, ctx):  # type: ignore[no-untyped-def]
    large = np.flatnonzero(ticks["size"] >= ctx.params["least"])
    row["volume"] += ticks["size"][large].sum()
    row["wakes"] = ctx.time - int(ctx.params["span"])
    if "book" in ctx.after:
        row["sum"] += float((ctx.after["book"]["bid_orders"][large] % 7).sum())
    for place in large[ticks["order_id"][large] % 50 == 0].tolist():
        ctx.emit((ticks["ts_event"][place], ticks["size"][place]), at=place)


class _Emitting:
    """Without timers, and without a state: its ticks are counted."""

    def on_start(self, ctx: Any) -> None:
        self.ctx, self.n = ctx, 0

    def on_order(self, tick: strand.Tick) -> None:
        self.n += tick.size >= self.ctx.params["least"]
        if self.n % 100 == 99:
            self.ctx.emit((self.ctx.time, self.n))


class _Counting:
    """Without timers and outputs."""

    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_tick(self, tick: strand.Tick) -> None:
        self.ctx.row["volume"] += tick.size >= self.ctx.params["least"]

    def on_trade(self, trade: strand.Trade) -> None:
        self.ctx.row["sum"] += trade.price * 1e-9 * float(self.ctx.params["span"] % 1000)


emitting = strand.object_handler(params=Span, outputs=RECORDS, name="spans")(_Emitting)
counting = strand.object_handler(state=STATE, params=Span, name="spans")(_Counting)
