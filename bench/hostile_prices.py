"""Cost per order of a book of one symbol where a file's prices or ids are hostile, against harmless ones.

    python bench/hostile_prices.py [40000 200000 ...]

Harmless: 50 prices, ids in sequence. The fastest of five runs each, taken in turn, on one worker.
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
import numpy.typing as npt

import strand

CENT = 10**7


def ns_per_order(prices: Any, ids: npt.NDArray[np.uint64]) -> float:
    """Adds to one side of a book, published at one go and drained."""
    ticks = strand.ticks.zeros(len(ids))
    ticks["kind"], ticks["action"], ticks["side"], ticks["size"] = strand.ticks.KIND_ORDER, b"A", b"B", 1
    ticks["price"], ticks["order_id"] = prices * CENT + 10**9, ids
    ticks["ts_event"] = ticks["ts_recv"] = np.arange(len(ids)) + 10**18
    with strand.Dispatcher(1, "book", workers=1, feed="orders") as dispatcher:
        began = time.perf_counter()
        dispatcher.publish(ticks)
        dispatcher.drain()
        took = time.perf_counter() - began
        assert dispatcher.rows.array["orders"][0] == len(ids), "the book has not all orders"
    return took * 1e9 / len(ids)


@click.command()
@click.argument("orders", nargs=-1, type=click.IntRange(min=100))
def main(orders: tuple[int, ...]) -> None:
    """Multiples of a harmless file's cost."""
    chance = np.random.default_rng(1)
    for n in orders or (40_000, 200_000, 400_000, 1_000_000):
        places = np.arange(n)
        ids = places.astype(np.uint64) + 1
        files = {
            "harmless": (places % 50, ids),
            "ids in random order": (places % 50, chance.permutation(ids) * 7919),
            "prices falling": (places[::-1], ids),
            "prices in random order": (chance.permutation(places), ids),
        }
        rounds = [{name: ns_per_order(*file) for name, file in files.items()} for _ in range(5)]
        best = {name: min(each[name] for each in rounds) for name in files}
        harmless = best.pop("harmless")
        shown = ", ".join(f"{name} {ns / harmless:.2f}" for name, ns in best.items())
        click.echo(f"{n:,} orders, {harmless:.0f} ns each: {shown}")


if __name__ == "__main__":
    main()
