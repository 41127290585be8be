"""The handlers of bench/sweep.py, in a module of their own so that other processes find them."""

from __future__ import annotations

import numpy as np

import strand

__all__ = ["MACHINE", "SETS", "SIGNAL", "machine_sets", "signal_sets"]

SETS = 64


class Imbalance:
    least: np.int64
    weight: np.float64


@strand.handler(state=[("n", "i8"), ("sum", "f8")], params=Imbalance)
def signal(row, tick, params):  # type: ignore[no-untyped-def]
    """No branch depends on the set."""
    book = row.book
    if book.bid_orders and book.ask_orders:
        imbalance = (book.bid_size - book.ask_size) * params.weight
        row.n += imbalance > params.least
        row.sum += imbalance


class Levels:
    ratio: np.int64
    drop: np.int64


@strand.handler(
    state=[("position", "i4"), ("trades", "i4"), ("entry", "i8"), ("pnl", "i8"), ("peak", "i8")], params=Levels
)
def machine(row, tick, params):  # type: ignore[no-untyped-def]
    """Each set is in a state of its own, and takes branches of its own."""
    book = row.book
    if not (book.bid_orders and book.ask_orders):
        return
    middle = (book.bid_price + book.ask_price) // 2
    if row.position == 0:
        if book.bid_size > params.ratio * book.ask_size:
            row.position, row.entry, row.peak = 1, book.ask_price, middle
            row.trades += 1
        elif book.ask_size > params.ratio * book.bid_size:
            row.position, row.entry, row.peak = -1, book.bid_price, middle
            row.trades += 1
    elif row.position > 0:
        row.peak = max(row.peak, middle)
        if row.peak - middle > params.drop:
            row.pnl += book.bid_price - row.entry
            row.position = 0
    else:
        row.peak = min(row.peak, middle)
        if middle - row.peak > params.drop:
            row.pnl += row.entry - book.ask_price
            row.position = 0


SIGNAL = strand.chain(strand.book(), signal)
MACHINE = strand.chain(strand.book(), machine)


def signal_sets(n: int) -> list[dict[str, float]]:
    """``n`` sets of ``SIGNAL``."""
    return [{"least": 100 * k, "weight": 1.0 + k / 8} for k in range(n)]


def machine_sets(n: int) -> list[dict[str, float]]:
    """``n`` sets of ``MACHINE``."""
    return [{"ratio": 1 + k % 8, "drop": 10_000_000 * (1 + k // 8)} for k in range(n)]
