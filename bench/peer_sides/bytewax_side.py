"""bytewax: a keyed stream out of a source that hands out 10,000 items at once, and a stateful step of a batch a key.

Several processes have their own symbols each, and a dataflow of their own: a cluster of them would have to send its
items to one another, pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import bytewax.operators as op
import numpy as np
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.testing import TestingSink, run_main
from pool_naive_side import Average, Book
from protocol import TOP, VWAP, Task, main

BATCH = 10_000


class Items(StatelessSourcePartition):  # type: ignore[misc]
    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.at = 0

    def next_batch(self) -> list[Any]:
        batch = self.items[self.at : self.at + BATCH]
        if not batch:
            raise StopIteration
        self.at += BATCH
        return batch


class Source(DynamicSource):  # type: ignore[misc]
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def build(self, _step: str, _worker: int, _workers: int) -> Items:
        return Items(self.items)


class Kept(StatefulBatchLogic):  # type: ignore[misc]
    """The state of the pool in plain Python; its row comes out at the end."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def on_batch(self, values: list[Any]) -> tuple[Iterable[Any], bool]:
        on_event = self.state.on_event
        for value in values:
            on_event(*value)
        return (), StatefulBatchLogic.RETAIN

    def on_eof(self) -> tuple[Iterable[Any], bool]:
        return (self.state.row(),), StatefulBatchLogic.DISCARD

    def snapshot(self) -> None:
        return None


def load(task: Task) -> Callable[[], Callable[[], Any]]:
    kind, dtype = (Book, TOP) if task.job == "book" else (Average, VWAP)
    events = task.events()
    names = {symbol: str(symbol) for symbol in np.unique(events["symbol"]).tolist()}
    columns = [events[name].tolist() for name in ("op", "side", "order_id", "price", "size")]
    items = list(zip([names[symbol] for symbol in events["symbol"].tolist()], zip(*columns, strict=True), strict=True))
    found: list[tuple[str, Any]] = []
    flow = Dataflow("peers")
    stream = op.input("events", flow, Source(items))
    rows = op.stateful_batch("keep", stream, lambda _: Kept(kind()))
    op.output("rows", rows, TestingSink(found))

    def run() -> Callable[[], Any]:
        run_main(flow)
        return lambda: np.array([(int(name), *row) for name, row in found], dtype)

    return run


if __name__ == "__main__":
    main(load)
