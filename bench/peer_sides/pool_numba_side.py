"""A process of a pool, well made: arrays with the events of a symbol together, and compiled loops over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from protocol import EVENT, TOP, VWAP, Task, by_symbol, main, not_counted

ADDED, UPDATED = ord("A"), ord("U")


@njit(cache=True)  # type: ignore[untyped-decorator]
def averages(events: Any, begins: Any, out: Any) -> None:
    for i in range(len(begins) - 1):
        volume, notional = 0, 0
        for j in range(begins[i], begins[i + 1]):
            volume += events[j]["size"]
            notional += events[j]["price"] * events[j]["size"]
        out[i]["volume"] = volume
        out[i]["notional"] = notional


@njit(cache=True)  # type: ignore[untyped-decorator]
def place(orders: Any, mask: int, order: int) -> int:
    """Position of the order in a table of open addressing, or the one where it would be."""
    at = (order * 11400714819323198485 >> 20) & mask
    while orders[at, 0] != 0 and orders[at, 0] != order:
        at = (at + 1) & mask
    return at


@njit(cache=True)  # type: ignore[untyped-decorator]
def level_of(prices: Any, n: int, price: int) -> int:
    """The first of ``prices[:n]``, which rise, that is not below ``price``. Looked for from the best, the last one."""
    at = n
    while at > 0 and prices[at - 1] >= price:
        at -= 1
    return at


@njit(cache=True)  # type: ignore[untyped-decorator]
def tops(events: Any, begins: Any, out: Any) -> None:
    """Orders in a hash table, price levels a side in a sorted array whose best is last (asks negated)."""
    longest = 0
    for i in range(len(begins) - 1):
        longest = max(longest, begins[i + 1] - begins[i])
    room = 64
    while room < 2 * longest:
        room *= 2
    orders = np.zeros((room, 3), np.int64)
    prices = np.zeros((2, longest + 1), np.int64)
    sizes = np.zeros((2, longest + 1), np.int64)
    for i in range(len(begins) - 1):
        count = begins[i + 1] - begins[i]
        mask = 63
        while mask + 1 < 2 * count:
            mask = 2 * mask + 1
        orders[: mask + 1] = 0
        levels = np.zeros(2, np.int64)
        for j in range(begins[i], begins[i + 1]):
            event = events[j]
            side = 0 if event["side"] == 66 else 1
            at = place(orders, mask, event["order_id"])
            if event["op"] == ADDED:
                price = event["price"] if side == 0 else -event["price"]
                change = np.int64(event["size"])
                orders[at, 0], orders[at, 1], orders[at, 2] = event["order_id"], price, change
            else:
                price = orders[at, 1]
                left = np.int64(event["size"]) if event["op"] == UPDATED else np.int64(0)
                change = left - orders[at, 2]
                orders[at, 2] = left
            n = levels[side]
            level = level_of(prices[side], n, price)
            if level == n or prices[side, level] != price:
                for k in range(n, level, -1):
                    prices[side, k] = prices[side, k - 1]
                    sizes[side, k] = sizes[side, k - 1]
                prices[side, level] = price
                sizes[side, level] = 0
                levels[side] = n = n + 1
            sizes[side, level] += change
            if sizes[side, level] == 0:
                for k in range(level, n - 1):
                    prices[side, k] = prices[side, k + 1]
                    sizes[side, k] = sizes[side, k + 1]
                levels[side] = n - 1
        if levels[0] > 0:
            out[i]["bid_price"] = prices[0, levels[0] - 1]
            out[i]["bid_size"] = sizes[0, levels[0] - 1]
        if levels[1] > 0:
            out[i]["ask_price"] = -prices[1, levels[1] - 1]
            out[i]["ask_size"] = sizes[1, levels[1] - 1]


#: numba compares numbers faster than letters.
NUMBERS = np.dtype([(name, "u1" if kind == "|S1" else kind) for name, kind in EVENT.descr])


def load(task: Task) -> Callable[[], Callable[[], Any]]:
    function, dtype = (tops, TOP) if task.job == "book" else (averages, VWAP)
    events, begins = by_symbol(task.events())
    events = events.view(NUMBERS)
    out = np.zeros(len(begins) - 1, dtype)
    out["symbol"] = events["symbol"][begins[:-1]]
    with not_counted():
        function(events[:0], begins[:1], out[:0])  # compiled now

    def run() -> Callable[[], Any]:
        function(events, begins, out)
        return lambda: out

    return run


if __name__ == "__main__":
    main(load)
