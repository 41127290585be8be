"""VWAP of what trades outside the book, hidden orders and crosses, by a handler of one's own that numba compiles.

The built-in ``vwap`` counts executions of displayed orders too.

python examples/vwap_numba.py [ITCH-FILE DATE]; without them it runs on the sample that comes with the package.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.ticks import KIND_TRADE


@strand.handler(state=[("trades", "i8"), ("volume", "i8"), ("notional", "f8")])
def vwap(row: Any, tick: Any) -> None:
    """``row`` is the symbol's state and starts as zeros; prices are integers in units of 1e-9."""
    if tick.kind == KIND_TRADE:
        row.trades += 1
        row.volume += tick.size
        row.notional += tick.size * (tick.price * 1e-9)


def main(path: str, date: str) -> None:
    """Replays the file and prints the five symbols in which most money changed hands."""
    result = strand.replay(path, vwap, feed_options={"date": date})
    print(f"{result.ticks:,} ticks in {result.wall_s:.2f} s, {result.setup_s:.2f} s of it compiling and setting up")
    rows = result.rows.array
    for index in np.argsort(-rows["notional"], kind="stable")[:5].tolist():
        row = rows[index]
        price = row["notional"] / row["volume"]
        print(f"{result.symbols[index]:8} {row['trades']:6,} trades {row['volume']:9,} shares   VWAP {price:9.4f}")


if __name__ == "__main__":
    main(*(sys.argv[1:] or [str(sample_path()), SAMPLE_DATE]))
