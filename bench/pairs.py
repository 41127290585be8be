"""Cost of a pair beside its two symbols apart: python bench/pairs.py [--turns 9] [--ticks 2000000]

Two symbols' trades come in a random order. *Apart*, a compiled handler keeps price, volume and a difference in the
symbol's row. As a *pair*, a basket handler keeps price and volume there, and both prices and their spread in the
basket's row. What is measured is processor time per tick of publishing and draining, in turn; the ratio is the median
of those of each turn.

    in place    the publisher drains what it publishes, as a replay with workers to spare does
    queued      it publishes, and one worker drains

Run it while the machine is quiet.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import numpy.typing as npt

import strand

Ticks = npt.NDArray[Any]
NAMES = ["A", "B"]
STEP = 65_536


@strand.handler(state=[("price", "i8"), ("volume", "i8"), ("change", "i8"), ("changes", "i8")])
def apart(row: Any, tick: Any) -> None:
    row.change = tick.price - row.price
    row.price = tick.price
    row.volume += tick.size
    row.changes += 1


@strand.basket_handler(
    baskets={"pair": NAMES},
    state=[("price", "i8"), ("volume", "i8")],
    basket_state=[("price", "i8", 2), ("spread", "i8"), ("changes", "i8")],
)
def pair(row: Any, tick: Any, basket: Any, member: Any) -> None:
    row.price = tick.price
    row.volume += tick.size
    basket.price[member] = tick.price
    basket.spread = basket.price[0] - basket.price[1]
    basket.changes += 1


def trades(count: int) -> Ticks:
    draw = np.random.default_rng(1)
    ticks = strand.ticks.zeros(count)
    ticks["ts_recv"] = np.arange(count)
    ticks["instrument_id"] = draw.integers(0, len(NAMES), count)
    ticks["size"] = draw.integers(1, 100, count)
    ticks["price"] = draw.integers(1, 1_000_000, count)
    ticks["kind"] = strand.ticks.KIND_TRADE
    ticks["action"] = b"T"
    return ticks


def processor_ns(handler: Any, ticks: Ticks, **options: Any) -> float:
    """Nanoseconds of processor time per tick, of all threads, of publishing and draining."""
    with strand.Dispatcher(NAMES, handler, strands="per-symbol", cores=None, workers=1, **options) as dispatcher:
        dispatcher.publish(ticks[:STEP])
        dispatcher.drain()
        begun = time.process_time_ns()
        for first in range(0, len(ticks), STEP):
            dispatcher.publish(ticks[first : first + STEP])
        dispatcher.drain()
        return (time.process_time_ns() - begun) / len(ticks)


WAYS: dict[str, dict[str, Any]] = {"in place": {}, "queued": {"publisher_drains": False, "idle": "park"}}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--turns", type=int, default=9)
    asked.add_argument("--ticks", type=int, default=2_000_000)
    said = asked.parse_args()
    ticks = trades(said.ticks)
    for way, options in WAYS.items():
        figures = []
        for turn in range(said.turns + 1):
            pairs = [
                (which, processor_ns(which, ticks, **options))
                for which in ((apart, pair) if turn % 2 else (pair, apart))
            ]
            figures.append([ns for which in (apart, pair) for at, ns in pairs if at is which])
        counted = figures[1:]  # the first turn compiles
        ratios = sorted(together / alone for alone, together in counted)
        alone, together = (statistics.median(column) for column in zip(*counted, strict=True))
        print(
            f"{way}: {alone:.1f} ns apart, {together:.1f} ns as a pair, "
            f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
