"""Cost of sweeps on this machine: python bench/sweep.py [PART ...] [--turns 9] [--messages 2000000]

    sets      a book and 64 sets of an array signal, and of a state machine, against one set: processor time, in turn
    days      20 files by two processes of one core each, against one process: wall time, in turn. Each of four
              generated markets of --messages stands for five of them
    again     a second run of an unchanged sweep: wall time
    memory    peak memory of one set and of 1,000, against the bytes of their rows

Run it while the machine is quiet.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from swept_signals import MACHINE, SETS, SIGNAL, machine_sets, signal_sets
from turns import alone, peak_mb, run_parts

import strand
from strand.feeds.synthetic import SyntheticFeed

MESSAGES, DAYS, MARKETS, MANY_SYMBOLS = 2_000_000, 20, 4, 5_000
DATE = "2026-01-05"


def market(path: Path, messages: int, seed: int, symbols: int = 300) -> Path:
    """An ITCH file of a generated market."""
    SyntheticFeed(symbols, messages, seed=seed, date=DATE).write_itch(path)
    return path


def took(clock: Callable[[], float], run: Callable[..., Any], *args: Any) -> float:
    begun = clock()
    run(*args)
    return clock() - begun


def say(what: str, ones: list[float], others: list[float], unit: str) -> None:
    ratios = sorted(b / a for a, b in zip(ones, others, strict=True))
    print(
        f"{what}: {statistics.median(ones):.2f} and {statistics.median(others):.2f} {unit}, ratio "
        f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        flush=True,
    )


def sets(folder: Path, turns: int, messages: int) -> None:
    path = market(folder / f"{DATE}.itch50", messages, 7)

    def run(handler: Any, params: Any) -> None:
        strand.sweep(path, handler, params, feed_options={"date": DATE}, workers=1)

    for name, handler, make in (("array signal", SIGNAL, signal_sets), ("state machine", MACHINE, machine_sets)):
        one, many = make(1), make(SETS)
        run(handler, one)
        run(handler, many)
        times = [[took(time.process_time, run, handler, params) for params in (one, many)] for _ in range(turns)]
        say(f"a book and {name}, 1 and {SETS} sets", [t[0] for t in times], [t[1] for t in times], "s of a core")


def days(folder: Path, turns: int, messages: int) -> None:
    names = [f"2026-02-{day + 1:02}" for day in range(DAYS)]
    markets = [market(folder / f"{seed}.bin", messages, seed) for seed in range(100, 100 + MARKETS)]
    for day, name in enumerate(names):
        (folder / f"{name}.itch50").hardlink_to(markets[day % MARKETS])

    def run(workers: int) -> None:
        strand.sweep(str(folder / "{date}.itch50"), SIGNAL, signal_sets(8), days=names, workers=workers)

    run(1)
    run(2)
    times = [[took(time.perf_counter, run, workers) for workers in (2, 1)] for _ in range(turns)]
    say(
        f"{DAYS} days of {messages:,} messages by two processes, and by one",
        [t[0] for t in times],
        [t[1] for t in times],
        "s",
    )


def again(folder: Path, turns: int, messages: int) -> None:
    path = market(folder / f"{DATE}.itch50", messages, 7)

    def run(out: Path) -> None:
        strand.sweep(path, SIGNAL, signal_sets(SETS), feed_options={"date": DATE}, workers=1, out=out)

    times = [[took(time.perf_counter, run, folder / f"turn{turn}") for _ in range(2)] for turn in range(turns)]
    first, second = (statistics.median(turn[i] for turn in times) for i in range(2))
    print(f"a sweep of {SETS} sets: {first:.2f} s, and once more: {second:.3f} s")


def memory(folder: Path, turns: int, messages: int) -> None:
    path = market(folder / f"{DATE}.itch50", messages, 7, MANY_SYMBOLS)
    peaks = {n: alone(peak, n, path) for n in (1, 1000)}
    rows = 1000 * MANY_SYMBOLS * MACHINE.parts[-1][1].state.itemsize
    more = peaks[1000] - peaks[1]
    print(
        f"peak of 1 set {peaks[1] / 1e6:.0f} MB, of 1,000 {peaks[1000] / 1e6:.0f} MB: {more / rows:.2f} of their rows"
    )


def peak(n: int, path: Path) -> float:
    """The most memory, in bytes."""
    strand.sweep(path, MACHINE, machine_sets(n), feed_options={"date": DATE}, workers=1)
    return peak_mb() * (1 << 20)


def in_a_folder(part: Callable[..., None], turns: int, messages: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        part(Path(folder), turns, messages)


if __name__ == "__main__":
    parts = {part.__name__: partial(in_a_folder, part) for part in (sets, days, again, memory)}
    run_parts(__doc__, parts, 9, messages={"type": int, "default": MESSAGES, "help": "of a day"})
