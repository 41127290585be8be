"""Handlers written for numba with all that such a handler may have, and what they come to on the sample."""

from __future__ import annotations

from typing import Any

import numpy as np

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path

MINUTE = 60_000_000_000


def close(row: Any, time: Any, emit: Any, params: Any) -> None:
    emit.minutes(time, row.volume * params.factor)
    row.volume = 0
    row.open = False


def close_last(row: Any, emit: Any, ctx: Any) -> None:
    emit.minutes(ctx.time, volume=row.volume)


@strand.handler(
    on="trade",
    state={"volume": "i8", "open": "?", "high": "i8", "seen": ("?", 4)},
    params={"factor": "i8"},
    outputs={"minutes": {"end": "i8", "volume": "i8"}},
    on_wake=close,
    on_finish=close_last,
)
def minutes(row: Any, trade: Any, ctx: Any, params: Any, emit: Any) -> None:
    row.volume += trade.size
    row.high = max(row.high, trade.price)
    row.seen[trade.size & 3] = True
    if not row.open:
        row.open = True
        ctx.wake_at((ctx.time // MINUTE + 1) * MINUTE)


@strand.handler(state={"ticks": "i8", "wide": "i8", "sequence": "u8", "buys": "i8"})
def signal(row: Any, tick: Any) -> None:
    if row.book.bid_orders and row.book.ask_orders:
        row.ticks += 1
        row.wide += row.book.ask_price - row.book.bid_price > 20_000_000
    row.sequence += tick.sequence
    row.buys += tick.side == b"B"


class State:
    n: np.uint64
    thirds: float


@strand.handler(state=State)
def thirds(row: Any, tick: Any) -> None:
    row.n += 1
    row.thirds += tick.size / 3


def fingerprints(workers: int) -> list[str]:
    """Of a replay of each."""
    handlers = (minutes.with_params({"*": {"factor": 3}}), strand.chain("book", signal), thirds)
    return [
        strand.replay(sample_path(), each, date=SAMPLE_DATE, workers=workers, limit=8_000).fingerprint
        for each in handlers
    ]
