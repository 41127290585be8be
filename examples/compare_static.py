"""Dynamic routing beside static routing on this machine: the same ticks, the same handler, the same cores.

python examples/compare_static.py [TICKS]; 500,000 without. Longer runs and more streams: strand bench route, strand
bench scenarios.
"""

from __future__ import annotations

import os
import sys

from strand.bench.route import RouteOptions, route


def main(ticks: int) -> None:
    """A stream of few symbols and one of many, with a handler of some 100 ns."""
    workers = max(1, len(os.sched_getaffinity(0)) - 1)
    print(f"million ticks per second (workers: {workers}, and the publisher):")
    for symbols, skew in ((50, 1.2), (8_172, "calibrated")):
        options = RouteOptions(ticks, symbols, skew, work=100, workers=workers, rounds=3, idle="backoff")  # type: ignore[arg-type]
        rates = route(options)["mticks_s"]
        shown = ", ".join(f"{way.replace('_', ' ')} {rate:.1f}" for way, rate in rates.items())
        print(f"{symbols:>6,} symbols: {shown}")
    print("serial: one core; static: symbol modulo workers; static lpt: largest first, by counts known ahead")


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["500000"])[0]))
