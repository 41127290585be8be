"""Programs as processes of their own that take turns, and what they take: processor time and time."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Taken", "in_turns", "lines", "run", "spread"]


@dataclass(frozen=True)
class Taken:
    """What a process took, in seconds: user and system time of all its threads, and time by the clock."""

    cpu: float
    wall: float


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


def in_turns(commands: Mapping[str, Sequence[str]], turns: int) -> dict[str, list[Taken]]:
    """What each program took in each turn. A turn before the first one warms the machine. The order changes."""
    found: dict[str, list[Taken]] = {name: [] for name in commands}
    for turn in range(turns + 1):
        for name in list(commands)[:: 1 if turn % 2 else -1]:
            taken = run(commands[name])
            if turn:
                found[name].append(taken)
    return found


def spread(values: Sequence[float], decimals: int = 2) -> str:
    """The median, and the quartiles."""
    low, middle, high = statistics.quantiles(values) if len(values) > 1 else list(values) * 3
    return f"{middle:.{decimals}f} ({low:.{decimals}f} to {high:.{decimals}f})"


def lines(found: Mapping[str, Sequence[Taken]], rivals: Sequence[str]) -> list[str]:
    """A table: each program's times, and how many times as fast as each rival it was, turn by turn."""
    wide = max(map(len, found))
    shown = [f"{'':{wide}}  {'processor time, s':>22}  {'time, s':>22}"]
    for name, taken in found.items():
        cpu, wall = ([getattr(one, what) for one in taken] for what in ("cpu", "wall"))
        shown.append(f"{name:{wide}}  {spread(cpu):>22}  {spread(wall):>22}")
        for rival in rivals if name not in rivals else ():
            pairs = list(zip(taken, found[rival], strict=True))
            cpu, wall = ([getattr(b, what) / getattr(a, what) for a, b in pairs] for what in ("cpu", "wall"))
            shown.append(f"{'  speed of ' + rival:{wide}}  {spread(cpu):>22}  {spread(wall):>22}")
    return shown
