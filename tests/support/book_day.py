"""A whole day through the handler ``book``, and every order of it accounted for by other means.

    python tests/support/book_day.py [--messages 10000000] [--symbols 8172] [--seed 1] [--workers 3]

What rests at the end is worked out again from the ticks of the whole day at once, by sorting and adding up: no book is
kept there, and nothing of the handler is used. Exits with 1, and says why, when anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from reading import ticks_of

from strand import feeds, replay
from strand.feeds.synthetic import SyntheticFeed

Array = npt.NDArray[Any]
DATE = "2026-01-05"
#: Counts of a row that are 0 on a day without faults. A generated one never crosses outside an auction, nor in one.
NEVER = ("unknown", "duplicates", "clipped", "unusable", "crossed")


@dataclass(frozen=True)
class Orders:
    """Every order that was ever added: a row each, in the order they came."""

    symbol: Array
    side: Array
    price: Array
    left: Array  # after the whole day; negative where more was taken than there was
    is_gone: Array  # deleted or replaced


def read_day(path: Path) -> tuple[Array, list[str]]:
    """All ticks of a file."""
    feed = feeds.open(path, date=DATE)
    ticks = ticks_of(feed)
    names = list(feed.symbols)
    feed.close()
    return ticks, names


def orders_of(ticks: Array) -> Orders:
    """Follows every order from where it is added to what is left of it, for all at once."""
    action = ticks["action"]
    made = np.flatnonzero((action == b"A") | (action == b"M"))
    replaced = action[made] == b"M"
    ids = np.where(replaced, ticks["ref_id"][made], ticks["order_id"][made])
    by_id = np.argsort(ids, kind="stable")
    ordered = ids[by_id]
    assert len(np.unique(ordered)) == len(ordered), "an order's id comes twice"

    def place(of: Array) -> Array:
        at = np.minimum(np.searchsorted(ordered, of), len(ordered) - 1)
        assert (ordered[at] == of).all(), "an order is spoken of that was never added"
        return by_id[at]

    # The side of a replacement is that of what it replaces: from the first of each chain on.
    side, parent = ticks["side"][made].copy(), np.arange(len(made))
    parent[replaced] = place(ticks["order_id"][made[replaced]])
    assert (parent <= np.arange(len(made))).all(), "an order is replaced before it is added"
    while not (parent[parent] == parent).all():
        parent = parent[parent]
    side = side[parent]

    left = ticks["size"][made].astype(np.int64)
    takes = np.flatnonzero((action == b"F") | ((action == b"C") & (ticks["size"] > 0)))
    np.subtract.at(left, place(ticks["order_id"][takes]), ticks["size"][takes].astype(np.int64))
    is_gone = np.zeros(len(made), np.bool_)
    ends = np.flatnonzero(((action == b"C") & (ticks["size"] == 0)) | (action == b"M"))
    ended = place(ticks["order_id"][ends])
    assert len(np.unique(ended)) == len(ended), "an order goes twice"
    is_gone[ended] = True
    assert (left[is_gone] > 0).all(), "an order goes that has nothing left"
    return Orders(ticks["instrument_id"][made], side, ticks["price"][made], left, is_gone)


def check_day(path: Path, workers: int) -> Mapping[str, float]:
    """Holds what rests after a replay against ``orders_of``. Raises AssertionError; returns figures."""
    ticks, _ = read_day(path)
    orders = orders_of(ticks)
    assert (orders.left >= 0).all(), "more is taken from an order than it had"
    rests = ~orders.is_gone & (orders.left > 0)
    result = replay(path, "book", workers=workers, cores=None, feed_options={"date": DATE})
    rows, books = result.rows.array, result.books
    assert books is not None
    for name in NEVER:
        assert not rows[name].any(), f"{name}: {rows[name].sum()}"
    assert int(rows["ticks"].sum()) == len(ticks)
    assert books.live_orders == int(rests.sum()), (books.live_orders, int(rests.sum()))
    counted = np.bincount(orders.symbol[rests], minlength=len(rows))
    assert (rows["orders"] == counted[: len(rows)]).all(), "a symbol has another number of orders"
    traded = (ticks["action"] == b"F") | (ticks["action"] == b"T")
    printed = traded & (ticks["flags"] & 1 == 0)
    volume = np.bincount(ticks["instrument_id"][printed], ticks["size"][printed], minlength=len(rows))
    assert (rows["volume"] == volume[: len(rows)]).all(), "a symbol has another volume"
    levels = _check_levels(orders, rests, books)
    adds, ends = len(orders.left), int(orders.is_gone.sum())
    return {
        "messages": len(ticks),
        "symbols with orders": int((counted > 0).sum()),
        "orders added": adds,
        "deleted or replaced": ends,
        "executed or cancelled to nothing": adds - ends - int(rests.sum()),
        "resting": int(rests.sum()),
        "levels": levels,
        "bytes an order, with index": books.order_bytes / max(1, int(rests.sum())),
    }


def _check_levels(orders: Orders, rests: Array, books: Any) -> int:
    """Every level of every symbol: its price, what rests there, and the queue in the order of arrival."""
    found = np.flatnonzero(rests)
    sign = np.where(orders.side[found] == b"B", -1, 1)
    by_place = np.lexsort((found, sign * orders.price[found], orders.side[found], orders.symbol[found]))
    found = found[by_place]
    key = np.stack((orders.symbol[found].astype(np.int64), orders.side[found] == b"B")).T
    starts = np.flatnonzero(np.r_[True, (key[1:] != key[:-1]).any(axis=1)]) if len(found) else np.empty(0, np.int64)
    levels = 0
    for start, end in zip(starts, [*starts[1:], len(found)], strict=True):
        mine = found[start:end]
        book, side = books[int(orders.symbol[mine[0]])], "bid" if orders.side[mine[0]] == b"B" else "ask"
        queue = book.orders(side)
        assert queue["price"].tolist() == orders.price[mine].tolist(), (book, side)
        assert queue["size"].tolist() == orders.left[mine].tolist(), (book, side)
        price, at = np.unique(orders.price[mine], return_index=True)
        shown = book.levels(side)
        assert np.sort(shown["price"]).tolist() == price.tolist(), (book, side)
        size = np.add.reduceat(orders.left[mine], np.sort(at))
        assert shown["size"].tolist() == size.tolist(), (book, side)
        levels += len(shown)
    return levels


def main() -> int:
    parser = argparse.ArgumentParser(description="A generated day through the handler book, every order accounted for.")
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--symbols", type=int, default=8_172)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="strand-book-day-") as folder:
        path = Path(folder) / "day.itch50"
        SyntheticFeed(options.symbols, options.messages, seed=options.seed, date=DATE).write_itch(path)
        start = time.perf_counter()
        try:
            found = check_day(path, options.workers)
        except AssertionError as error:
            print(f"the books are wrong: {error}", file=sys.stderr)
            return 1
    for name, value in found.items():
        print(f"{name:<34}{value:>14,.1f}" if isinstance(value, float) else f"{name:<34}{value:>14,}")
    print(f"every order accounted for, in {time.perf_counter() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
