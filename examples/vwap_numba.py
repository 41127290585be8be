"""VWAP by a handler of one's own that numba compiles: the same trades, volume and price as the built-in ``vwap``.

python examples/vwap_numba.py [ITCH-FILE DATE]; without them it runs on the sample that comes with the package.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path


@strand.handler(on="trade", state=[("trades", "i8"), ("volume", "i8"), ("notional", "f8")])
def vwap(row: Any, trade: Any) -> None:
    """``row`` is the symbol's state and starts as zeros; prices are integers in units of 1e-9."""
    row.trades += 1
    row.volume += trade.size
    row.notional += trade.price * 1e-9 * trade.size


def main(path: str, date: str) -> None:
    """Replays the file and prints the five symbols in which most money changed hands."""
    result = strand.replay(path, vwap, date=date)
    print(f"{result.ticks:,} ticks in {result.wall_s:.2f} s, {result.setup_s:.2f} s of it compiling and setting up")
    rows = result.rows.array
    for index in np.argsort(-rows["notional"], kind="stable")[:5].tolist():
        row = rows[index]
        price = row["notional"] / row["volume"]
        print(f"{result.symbols[index]:8} {row['trades']:6,} trades {row['volume']:9,} shares   VWAP {price:9.4f}")


if __name__ == "__main__":
    main(*(sys.argv[1:] or [str(sample_path()), SAMPLE_DATE]))
