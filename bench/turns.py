"""Parts of the benchmarks: sides that take turns, processes of their own, their times, and parts on the command line.

A side is a function that is called once a turn, and says what it found. With ``alone`` it runs in a fresh process.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def in_turns(sides: Mapping[str, Callable[[], T]], turns: int, *, warm: int = 1) -> dict[str, list[T]]:
    """Calls each side in each turn, and returns what it found. The order changes from turn to turn;
    ``warm`` turns before do not count."""
    found: dict[str, list[T]] = {name: [] for name in sides}
    for turn in range(-warm, turns):
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            one = sides[name]()
            if turn >= 0:
                found[name].append(one)
    return found


def alone(function: Callable[..., T], *given: Any, cores: Collection[int] | None = None) -> T:
    """Calls a function of a module in a fresh process on these cores alone (None: all), and returns its value."""
    here = os.sched_getaffinity(0)
    with ProcessPoolExecutor(1, get_context("spawn"), _write_bytecode) as pool:
        os.sched_setaffinity(0, here if cores is None else cores)  # the process inherits them
        try:
            return pool.submit(function, *given).result()
        finally:
            os.sched_setaffinity(0, here)


def _write_bytecode() -> None:
    """Lets this process keep what Python compiles, as an installed package is compiled. Else each turn of a benchmark
    that runs with PYTHONDONTWRITEBYTECODE would compile its imports anew."""
    sys.dont_write_bytecode = False


@dataclass(frozen=True)
class Taken:
    """Times of a process or a call, in seconds: user and system time of all its threads, and time by the clock."""

    cpu: float
    wall: float


def taken(function: Callable[..., T], *given: Any) -> tuple[T, Taken]:
    """Calls a function, and returns its value with the times that this process took for it."""
    before, begun = processor_s(), time.perf_counter()
    found = function(*given)
    return found, Taken(processor_s() - before, time.perf_counter() - begun)


def run(command: Sequence[str]) -> Taken:
    """Runs a program without its output. Raises SystemExit, with its last words, where it fails."""
    with tempfile.TemporaryFile() as said:
        quiet = [
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, said.fileno(), 2),
        ]
        begun = time.perf_counter()
        _, status, used = os.wait4(os.posix_spawn(command[0], command, os.environ, file_actions=quiet), 0)
        wall = time.perf_counter() - begun
        if status:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} failed: {said.read().decode(errors='replace').strip()}")
    return Taken(used.ru_utime + used.ru_stime, wall)


def processor_s() -> float:
    """User and system time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mb() -> float:
    """The most memory this program took. getrusage's figure begins with that of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def spread(values: Sequence[float], decimals: int = 2) -> str:
    """The median, and the quartiles."""
    low, middle, high = statistics.quantiles(values) if len(values) > 1 else list(values) * 3
    return f"{middle:.{decimals}f} ({low:.{decimals}f} to {high:.{decimals}f})"


def ratios(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    """The first ones over the others, turn by turn."""
    return [a / b for a, b in zip(ones, others, strict=True)]


def lines(found: Mapping[str, Sequence[Taken]], rivals: Sequence[str]) -> list[str]:
    """A table: each program's times, and how many times as fast as each rival it was, turn by turn."""
    wide = max(map(len, found))
    shown = [f"{'':{wide}}  {'processor time, s':>22}  {'time, s':>22}"]
    for name, times in found.items():
        cpu, wall = ([getattr(one, what) for one in times] for what in ("cpu", "wall"))
        shown.append(f"{name:{wide}}  {spread(cpu):>22}  {spread(wall):>22}")
        for rival in rivals if name not in rivals else ():
            its_cpu, its_wall = ([getattr(one, what) for one in found[rival]] for what in ("cpu", "wall"))
            speeds = [f"{spread(ratios(*both)):>22}" for both in ((its_cpu, cpu), (its_wall, wall))]
            shown.append(f"{'  speed of ' + rival:{wide}}  {speeds[0]}  {speeds[1]}")
    return shown


def is_there(package: str) -> bool:
    """Tells whether a package is installed, and how to install it where it is not."""
    found = importlib.util.find_spec(package) is not None
    if not found:
        print(f"{package} is not installed, and left out: pip install {package}", flush=True)
    return found


def run_parts(
    about: str | None, parts: Mapping[str, Callable[..., None]], turns: int, **options: Mapping[str, Any]
) -> None:
    """Runs the parts that the command line names, or all.

    ``turns``: how often each measures, where ``--turns`` does not say it. ``options``: further ones, each with the
    arguments of ``add_argument``; a part gets their values by name.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)}; all if none is given")
    parser.add_argument("--turns", type=int, default=turns)
    for name, arguments in options.items():
        parser.add_argument(f"--{name}", **arguments)
    given = vars(parser.parse_args())
    chosen = given.pop("parts")
    if unknown := set(chosen) - set(parts):
        parser.error(f"{', '.join(sorted(unknown))}: the parts are {', '.join(parts)}")
    print(f"load of the last minute: {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} cores", flush=True)
    for name in chosen or parts:
        parts[name](given["turns"], **{key: value for key, value in given.items() if key != "turns"})
