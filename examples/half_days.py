"""Bars of a half day by the calendar of its exchange: New York closes at 13:00 on the day after Thanksgiving.

python examples/half_days.py
"""

from __future__ import annotations

import numpy as np

import strand
from strand import testing
from strand.ticks import KIND_TRADE


def main() -> None:
    """A trade each ten minutes of 2026-11-27, from 08:00 to 16:00 of New York (13:00 to 21:00 UTC)."""
    times = np.datetime64("2026-11-27T13:00", "ns").astype(np.int64) + np.arange(49) * 600 * 10**9
    ticks = strand.ticks.zeros(len(times))
    ticks["ts_recv"], ticks["kind"], ticks["action"] = times, KIND_TRADE, b"T"
    ticks["price"], ticks["size"] = strand.PRICE_SCALE, 100
    result = strand.replay(testing.ListFeed(ticks, ["A"]), strand.bars("1h", sessions="XNYS"))
    for bar in result.outputs["bars"]:
        start, end = (str(np.datetime64(int(bar[name]), "ns"))[11:16] for name in ("start", "end"))
        print(f"{start} to {end} UTC: {bar['volume']} shares")
    print(f"{result.rows['A']['outside']} trades before 14:30 and from 18:00 on are outside")


if __name__ == "__main__":
    main()
