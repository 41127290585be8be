"""Trial of `Fair` on this machine: python bench/fair_trial.py [SECONDS] [--share 0.5]

Two groups, of weights 1 and 3, are kept backlogged with compiled `spin` handlers on two workers, first without a cap
and then with one. Each group has its own publisher: a single one would wait for the slower group, and the other one
would run empty. The shares are those that the dispatcher counts. The cap is measured from outside: on-CPU time of the
worker threads by /proc/self/task/*/schedstat, so that what they use while they wait counts too. The time that workers
waited for a core comes from there too: where it is more than a few per cent, others use the machine, and the pool got
what they left rather than what the cap allows. Run it while the machine is quiet, or before all others: chrt -r 1.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import numpy as np

import strand
from strand.handlers.builtin.counting import spin
from strand.ticks import TICK

N_SYMBOLS, BATCH, WORKERS = 8, 2000, 2


def on_cpu_s(threads: set[int]) -> tuple[float, float]:
    """On-CPU time of threads of this process so far, and for how long they waited for a core."""
    tasks = Path("/proc/self/task")
    found = [(tasks / str(thread) / "schedstat").read_text().split() for thread in threads]
    return sum(int(times[0]) for times in found) / 1e9, sum(int(times[1]) for times in found) / 1e9


def threads_here() -> set[int]:
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


def run(seconds: float, share: float | None, idle: str) -> None:
    names = [f"S{i}" for i in range(N_SYMBOLS)]
    groups = {name: "one" if i % 2 else "three" for i, name in enumerate(names)}
    ticks = np.zeros(BATCH, TICK)
    ticks["instrument_id"] = np.arange(BATCH) % N_SYMBOLS
    before = threads_here()
    dispatcher = strand.Dispatcher(
        names,
        spin(2000),
        policy=strand.Fair(cpu_share=share, weights={"three": 3.0}),
        groups=groups,
        strands="per-symbol",
        workers=WORKERS,
        cores=None,
        idle=idle,
        capacity_ticks=20_000,
        publisher_drains=False,
    )
    with dispatcher:
        workers = threads_here() - before
        stop = threading.Event()

        def publish(group: int) -> None:
            mine = ticks[ticks["instrument_id"] % 2 == group]
            while not stop.is_set():
                try:
                    dispatcher.publish(mine, timeout_s=0.2)
                except strand.errors.BackpressureError:
                    continue

        publishers = [threading.Thread(target=publish, args=(group,)) for group in (0, 1)]
        for thread in publishers:
            thread.start()
        time.sleep(1)  # until all are backlogged, and the first burst is used up
        found = dispatcher.statistics()
        start, before_s = time.monotonic(), on_cpu_s(workers)
        time.sleep(seconds)
        took = time.monotonic() - start
        ran, waited = (now_s - then_s for now_s, then_s in zip(on_cpu_s(workers), before_s, strict=True))
        now = dispatcher.statistics()
        stop.set()
        assert found.fair is not None
        assert now.fair is not None
        ns = {name: g.on_cpu_ns - found.fair.groups[name].on_cpu_ns for name, g in now.fair.groups.items()}
        total = sum(ns.values())
        shares = ", ".join(f"{name} {part / total:.1%}" for name, part in sorted(ns.items()))
        print(
            f"cap {share}, idle {idle}: workers ran {ran / took / WORKERS:.1%} of {WORKERS} cores over {took:.1f} s, "
            f"charged {total / 1e9 / took / WORKERS:.1%}, waited for one {waited / took / WORKERS:.1%}; {shares}; "
            f"held {(now.fair.cap_holds or 0) - (found.fair.cap_holds or 0)} times, "
            f"{now.parks - found.parks} sleeps, {now.fair.long_stretches - found.fair.long_stretches} long stretches"
        )
        for thread in publishers:
            thread.join()
        dispatcher.stop(drain=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=10.0)
    parser.add_argument("--share", type=float, default=0.5)
    given = parser.parse_args()
    run(given.seconds, None, "backoff")
    for idle in ("backoff", "spin", "park"):
        run(given.seconds, given.share, idle)


if __name__ == "__main__":
    main()
