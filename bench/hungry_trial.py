"""A hungry group beside many light symbols, under first in first out and under `Fair`:
python bench/hungry_trial.py [SECONDS] [--load 0.2]

Fifty symbols of one group have a backlog of ticks that take 10 ms each, longer than the trial. Beside them 150 symbols,
each a group of its own, get ticks that take 50 us, at random times (a Poisson process) and so often that they fill
`load` of the one worker. The wait of a light tick counts from when it was due to when its handler was done. What the
hungry group gets is its handled ticks by the time that one takes, measured alone, and is compared with what the light
ones leave. Run it while the machine is quiet.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding import lab
from strand.binding.engine_words import histogram_floors_ns
from strand.dispatch.configuration import Pool
from strand.dispatch.dispatcher import Dispatcher
from strand.feeds.synthetic.market import route_stream
from strand.handlers import spin
from strand.machine import Cores, choose_cores, pinned
from strand.policies.fair import Fair
from strand.policies.policy import Fifo, Policy
from strand.stats import Latency

SYMBOLS, DEAR_EVERY, DEAR_TIMES, LIGHT_US = 200, 4, 200, 50.0
PUBLISHERS = 8


def steps_of(us: float, core: int | None) -> int:
    """Steps of the handler that take so long on a core."""
    work, ticks = 20_000, route_stream(200, 1)
    rows = np.zeros(64, np.uint8).view(spin(1).state)[:1]
    with pinned(core):
        took = min(lab.serial(spin(work).function, rows, ticks).seconds for _ in range(5))  # type: ignore[arg-type]
    return round(work * us * 1e-6 / (took / len(ticks)))


def arrivals(seconds: float, load: float) -> npt.NDArray[Any]:
    draw = np.random.default_rng(1)
    hungry = np.arange(0, SYMBOLS, DEAR_EVERY)
    backlog = np.tile(hungry, int(np.ceil(2 * seconds / (LIGHT_US * 1e-6 * DEAR_TIMES) / len(hungry))))
    n = round(load * seconds / (LIGHT_US * 1e-6))
    ticks = route_stream(len(backlog) + n, 1)
    light = draw.integers(0, SYMBOLS, 2 * n)
    ticks["instrument_id"] = np.concatenate([backlog, light[light % DEAR_EVERY != 0][:n]])
    ticks["ts_recv"][: len(backlog)] = 0
    ticks["ts_recv"][len(backlog) :] = np.cumsum(draw.exponential(seconds * 1e9 / n, n))
    return ticks


def run(name: str, policy: Policy, ticks: npt.NDArray[Any], cores: Cores, *, work: int, load: float) -> None:
    handler = spin(work, dear_every=DEAR_EVERY, dear_times=DEAR_TIMES)
    group_of = (np.arange(SYMBOLS) % DEAR_EVERY != 0).astype(np.uint8)  # 0: hungry, 1: light
    probe = lab.Probe(handler.function, 1 + PUBLISHERS, group_of)  # type: ignore[arg-type]
    function = dataclasses.replace(probe.function, never_publishes=False)
    groups = {"groups": dict.fromkeys(range(0, SYMBOLS, DEAR_EVERY), "hungry")} if isinstance(policy, Fair) else {}
    n_light = int((ticks["instrument_id"] % DEAR_EVERY != 0).sum())
    dispatcher = Dispatcher(
        SYMBOLS, dataclasses.replace(handler, function=function), policy=policy, strands="per-symbol",
        pool=Pool(workers=1, cores=cores.pinned_workers, max_publishers=PUBLISHERS), publisher_drains=False, **groups,
    )  # fmt: skip
    dispatcher.start()
    with pinned(cores.publisher):
        held = dispatcher._engine.held_participant()
        held.take()
        assert held.number is not None
        start = time.monotonic()
        lab.publish_paced(dispatcher._engine, held.number, ticks, 64, probe)
        held.give()
        while dispatcher.rows.array["ticks"][group_of == 1].sum() < n_light:
            time.sleep(0.01)
        took = time.monotonic() - start
    hungry = int(dispatcher.rows.array["ticks"][group_of == 0].sum())
    dispatcher.stop(drain=False)
    waits = Latency.from_histogram(probe.counts(1), histogram_floors_ns())
    p50, p99 = waits.percentile(50), waits.percentile(99)
    assert p50 is not None
    assert p99 is not None
    left = took - n_light * LIGHT_US * 1e-6
    got = hungry * LIGHT_US * 1e-6 * DEAR_TIMES
    print(
        f"{name}: light ticks wait p50 {p50 / 1e6:.2f} ms, p99 {p99 / 1e6:.2f} ms; the hungry group got {got:.2f} s of "
        f"the {left:.2f} s that the light ones left in {took:.2f} s: {got / left:.1%} (load {load:.0%})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=10.0)
    parser.add_argument("--load", type=float, default=0.2)
    given = parser.parse_args()
    cores = choose_cores(1)
    work = steps_of(LIGHT_US, cores.workers[0])
    ticks = arrivals(given.seconds, given.load)
    for name, policy in (("fifo", Fifo()), ("fair", Fair()), ("fair, slice 2 ms", Fair(slice_ms=2.0))):
        run(name, policy, ticks, cores, work=work, load=given.load)


if __name__ == "__main__":
    main()
