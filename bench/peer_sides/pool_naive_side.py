"""A process of a pool, as one writes it first: a Python object a symbol, called event by event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from protocol import TOP, VWAP, Task, main


class Average:
    def __init__(self) -> None:
        self.volume = 0
        self.notional = 0

    def on_event(self, _op: bytes, _side: bytes, _order: int, price: int, size: int) -> None:
        self.volume += size
        self.notional += price * size

    def row(self) -> tuple[int, ...]:
        return self.volume, self.notional


class Book:
    """Orders by id, sizes by price. The best price is looked for where it was taken away."""

    def __init__(self) -> None:
        self.orders: dict[int, tuple[bytes, int, int]] = {}
        self.levels: dict[bytes, dict[int, int]] = {b"B": {}, b"S": {}}
        self.best = {b"B": 0, b"S": 0}

    def on_event(self, op: bytes, side: bytes, order: int, price: int, size: int) -> None:
        levels = self.levels[side]
        if op == b"A":
            self.orders[order] = (side, price, size)
            levels[price] = levels.get(price, 0) + size
            best = self.best[side]
            if best == 0 or (price > best if side == b"B" else price < best):
                self.best[side] = price
            return
        _, price, had = self.orders.pop(order)
        if op == b"U":
            self.orders[order] = (side, price, size)
        left = levels[price] - had + (size if op == b"U" else 0)
        if left:
            levels[price] = left
            return
        del levels[price]
        if price == self.best[side]:
            self.best[side] = (max if side == b"B" else min)(levels, default=0)

    def row(self) -> tuple[int, ...]:
        bid, ask = self.best[b"B"], self.best[b"S"]
        return bid, self.levels[b"B"].get(bid, 0), ask, self.levels[b"S"].get(ask, 0)


def load(task: Task) -> Callable[[], Callable[[], Any]]:
    kind, dtype = (Book, TOP) if task.job == "book" else (Average, VWAP)
    events = task.events()
    columns = [events[name].tolist() for name in ("symbol", "op", "side", "order_id", "price", "size")]

    def run() -> Callable[[], Any]:
        states: dict[int, Any] = {}
        for symbol, op, side, order, price, size in zip(*columns, strict=True):
            state = states.get(symbol)
            if state is None:
                state = states[symbol] = kind()
            state.on_event(op, side, order, price, size)
        return lambda: np.array([(symbol, *state.row()) for symbol, state in states.items()], dtype)

    return run


if __name__ == "__main__":
    main(load)
