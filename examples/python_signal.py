"""A signal in plain Python and numpy on a few symbols, beside a C handler on all the others.

The signal is the order flow imbalance: what is added and taken on the bid side less that on the ask side, decayed by
half every 30 seconds of feed time. A batch handler sees many ticks of its symbol at once, and computes with arrays.

python examples/python_signal.py [ITCH-FILE DATE]; without them it runs on the sample that comes with the package.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path

HALF_LIFE_NS = 30e9
STATE = [("last_ns", "i8"), ("flow", "f8"), ("highest", "f8"), ("lowest", "f8"), ("ticks", "i8")]


@strand.batch_handler(state=STATE)
def order_flow(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:  # noqa: ARG001 - the handler's form
    """The same values whatever the batches are: a tick's weight is that of its own time."""
    signs = np.where(ticks["side"] == b"B", 1.0, -1.0) * np.where(ticks["action"] == b"A", 1.0, -1.0)
    signs[~np.isin(ticks["action"], [b"A", b"C", b"F"])] = 0.0
    times = ticks["ts_recv"]
    flow, last_ns = float(row["flow"]), int(row["last_ns"]) or int(times[0])
    for change, ns in zip((signs * ticks["size"]).tolist(), times.tolist(), strict=True):
        flow = flow * 0.5 ** ((ns - last_ns) / HALF_LIFE_NS) + change
        row["highest"], row["lowest"] = max(row["highest"], flow), min(row["lowest"], flow)
        last_ns = ns
    row["flow"], row["last_ns"] = flow, last_ns
    row["ticks"] += len(ticks)


def main(path: str, date: str) -> None:
    """Finds the three busiest symbols, then replays with the signal on those."""
    first = strand.replay(path, "count", date=date)
    busiest = [first.symbols[i] for i in np.argsort(-first.ticks_by_symbol, kind="stable")[:3].tolist()]
    handlers = {**dict.fromkeys(busiest, order_flow), "*": "count"}
    result = strand.replay(path, handlers=handlers, date=date)
    for name in busiest:
        row = result.rows[name]
        print(f"{name}: {row['ticks']:,} ticks, order flow {row['lowest']:+,.0f} to {row['highest']:+,.0f} shares")
    print(f"{result.ticks:,} ticks in all, {result.ticks_per_s / 1e6:.1f} M per second")


if __name__ == "__main__":
    main(*(sys.argv[1:] or [str(sample_path()), SAMPLE_DATE]))
