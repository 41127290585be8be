"""csp: a time series a symbol, from arrays, and the graph built before the clock runs.

The averages are nodes of csp's own, in C++: a sum of sizes, and one of price times size. For the books there is none,
so each symbol's events go to a node in Python, which keeps the book of the pool in plain Python.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from typing import Any

import csp
import numpy as np
from csp import ts
from pool_naive_side import Book
from protocol import TOP, VWAP, Task, by_symbol, main


@csp.node  # type: ignore[untyped-decorator]
def keep(book: object, event: ts[object]):  # type: ignore[no-untyped-def, valid-type]
    if csp.ticked(event):
        book.on_event(*event)


def one_by_one(times: Any) -> Any:
    """Times moved on by as little as makes each later than the one before: of those at one time a curve keeps one."""
    steps = np.arange(len(times))
    return np.maximum.accumulate(times - steps) + steps


def load(task: Task) -> Callable[[], Callable[[], Any]]:
    events, begins = by_symbol(task.events())
    symbols = events["symbol"][begins[:-1]].tolist()
    parts = [events[begin:end] for begin, end in itertools.pairwise(begins)]
    times = [one_by_one(part["ts"]).view("datetime64[ns]") for part in parts]
    start = dt.datetime.fromtimestamp(int(events["ts"].min()) // 1_000_000_000, dt.UTC).replace(tzinfo=None)
    end = start + dt.timedelta(days=2)
    books = [Book() for _ in symbols]

    def averages() -> None:
        for symbol, part, at in zip(symbols, parts, times, strict=True):
            size = csp.curve(int, (at, part["size"].astype(np.int64)))
            price = csp.curve(int, (at, part["price"].astype(np.int64)))
            csp.add_graph_output(f"volume {symbol}", csp.accum(size), tick_count=1)
            csp.add_graph_output(f"notional {symbol}", csp.accum(price * size), tick_count=1)

    def tops() -> None:
        for book, part, at in zip(books, parts, times, strict=True):
            columns = (part[name].tolist() for name in ("op", "side", "order_id", "price", "size"))
            values = np.empty(len(part), object)
            values[:] = list(zip(*columns, strict=True))
            keep(book, csp.curve(object, (at, values)))

    graph = csp.build_graph(csp.graph(tops if task.job == "book" else averages))

    def run() -> Callable[[], Any]:
        outputs = csp.run(graph, starttime=start, endtime=end)
        if task.job == "book":
            return lambda: np.array([(symbol, *book.row()) for symbol, book in zip(symbols, books, strict=True)], TOP)
        return lambda: np.array(
            [(symbol, *(outputs[f"{name} {symbol}"][-1][1] for name in ("volume", "notional"))) for symbol in symbols],
            VWAP,
        )

    return run


if __name__ == "__main__":
    main(load)
