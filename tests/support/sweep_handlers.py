"""Handlers that the tests of sweeps run."""

from __future__ import annotations

import numpy as np

import strand

__all__ = ["SETS", "breaks", "wide"]


class Least:
    least: np.int64
    weight: np.float64 = 1.0


@strand.handler(state=[("n", "i8"), ("sum", "f8")], params=Least, outputs={"wider": [("by", "i8")]})
def signal(row, tick, params, emit):  # type: ignore[no-untyped-def]
    if row.book.bid_orders and row.book.ask_orders:
        by = row.book.ask_price - row.book.bid_price - params.least
        if by > 0:
            row.n += 1
            row.sum += params.weight * by
            if row.n % 100 == 0:
                emit.wider(by)


wide = strand.chain(strand.book(), signal)
SETS = [{"least": 10_000_000}, {"least": 50_000_000}, {"least": 50_000_000, "weight": 0.5}]


@strand.handler(state=[("seen", "i8"), ("n", "i8")], params=[("after", "i8")])
def breaks(row, tick, params):  # type: ignore[no-untyped-def]
    """Fails at the tick of a symbol that is the one of this number, and at all after it."""
    row.seen += 1
    row.n = 1 // max(params.after - row.seen, 0)
