"""Requests that cost 200 ms beside hundreds that cost 1 ms, on two workers.

As they come, the slow ones take both workers, and quick ones wait behind them. With a key the slow ones run one at a
time, so a worker is always left to the quick ones.

python examples/slow_requests.py
"""

from __future__ import annotations

import time

import numpy as np

import strand

SLOW_S, QUICK_S = 0.2, 0.001
EVERY_S = 0.0015


def answer(seconds: float) -> float:
    """Answers a request, which waits for a database so long. Returns when it was answered."""
    time.sleep(seconds)
    return time.monotonic()


def trial(title: str, key: str | None) -> None:
    """Six slow requests, and then a quick one each 1.5 ms."""
    with strand.Scheduler(workers=2) as scheduler:
        slow = scheduler.options(key=key).submit_many(answer, [SLOW_S] * 6)
        start = time.monotonic()
        due = [start + n * EVERY_S for n in range(800)]
        quick = []
        for moment in due:
            time.sleep(max(0.0, moment - time.monotonic()))
            quick.append(scheduler.submit(answer, QUICK_S))
    took = [future.result() - moment for future, moment in zip(quick, due, strict=True)]
    p99 = np.percentile(took, 99) * 1e3
    print(f"{title}: {len(slow)} slow and {len(quick)} quick requests; quick ones took {p99:.1f} ms at p99")


def main() -> None:
    """Both ways, one after the other."""
    trial("as they come", None)
    trial("slow ones one at a time", "slow")


if __name__ == "__main__":
    main()
