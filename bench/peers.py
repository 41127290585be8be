"""The same two jobs by Strand, by pools of processes split by hash, and by others, on the same events.

    make bench-peers                                       the tables of docs/peers.md, with packages from the index
    python bench/peers.py [SIDE...] [--quick] [--turns 3]  what is installed here

A side is a program of bench/peer_sides: it loads, says so, runs when told to, and leaves its results, which have to be
Strand's before a time is printed. One at a time, in turn; times are medians. Each job is begun with a hundredth and a
tenth of its messages: a side that by then would take more than ``--patience`` for the next size stays there, and its
line says so. See docs/peers.md.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from peer_events import write_events
from peer_table import Times, machine, put_into, table

SIDES = Path(__file__).resolve().parent / "peer_sides"
JOBS = ("vwap", "book")


class SideError(Exception):
    """A side could not do it; says why in a line."""


class TooSlowError(SideError):
    """It was stopped."""


@dataclass(frozen=True)
class Side:
    """``shards``: into how many parts symbols are split, 0 for as many as there are cores; a process has each, but for
    ``threads``, where one process has all. ``package``: what has to be installed. ``way``: what the program is told."""

    name: str
    program: str
    shards: int
    package: str | None = None
    threads: bool = False
    way: str = ""


#: The first one's results are what the others have to come to.
ALL = (
    Side("strand, from the file", "strand_side.py", 0, threads=True, way="file"),
    Side("strand, from the file, one core", "strand_side.py", 1, threads=True, way="file"),
    Side("strand, from memory", "strand_side.py", 0, threads=True, way="memory"),
    Side("boost::asio::strand", "asio_side.cpp", 0, threads=True, way="tick"),
    Side("boost::asio::strand, in batches", "asio_side.cpp", 0, threads=True, way="batch"),
    Side("boost::asio::strand, one core", "asio_side.cpp", 1, threads=True, way="tick"),
    Side("pool, numba", "pool_numba_side.py", 0, "numba"),
    Side("pool, numba, one process", "pool_numba_side.py", 1, "numba"),
    Side("pool, plain Python", "pool_naive_side.py", 0),
    Side("hftbacktest", "hftbacktest_side.py", 1, "hftbacktest"),
    Side("hftbacktest, a process a core", "hftbacktest_side.py", 0, "hftbacktest"),
    Side("csp", "csp_side.py", 1, "csp"),
    Side("csp, a process a core", "csp_side.py", 0, "csp"),
    Side("bytewax", "bytewax_side.py", 1, "bytewax"),
    Side("bytewax, a process a core", "bytewax_side.py", 0, "bytewax"),
    Side("nautilus_trader", "nautilus_side.py", 1, "nautilus_trader"),
    Side("nautilus_trader, a process a core", "nautilus_side.py", 0, "nautilus_trader"),
)

#: Symbols and messages.
SIZES = [(50, 2_000_000), (8_172, 10_000_000)]

# ---- what is there


def missing(side: Side) -> str | None:
    """``PEER_NAME`` says why the package NAME could not be installed, where somebody has tried."""
    if side.package is None or importlib.util.find_spec(side.package) is not None:
        return None
    reason = os.environ.get(f"PEER_{side.package.upper()}")
    return f"not installed: {reason}" if reason else "not installed"


def build(source: Path, into: Path) -> list[str]:
    """Compiles a side in C++, by ``CXX`` or c++. Returns the command that runs it."""
    command = [*shlex.split(os.environ.get("CXX", "c++")), "-O3", "-std=c++17", "-pthread", source, "-o", into]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise SideError(f"not built: {command[0]}: {error.strerror}") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise SideError(f"not built: {errors[0].split('error: ')[-1] if errors else f'{command[0]} failed'}")
    return [str(into)]


def programs(sides: list[Side], folder: Path) -> dict[str, list[str] | SideError]:
    """How each program is run, or why it cannot be."""
    found: dict[str, list[str] | SideError] = {}
    for program in {side.program for side in sides}:
        found[program] = [sys.executable, str(SIDES / program)]
        if program.endswith(".cpp"):
            try:
                found[program] = build(SIDES / program, folder / Path(program).stem)
            except SideError as error:
                found[program] = error
    return found


def version_of(command: list[str] | SideError | None) -> list[str]:
    """What a side in C++ says it is made with."""
    if not isinstance(command, list):
        return []
    return [subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout.strip()]


# ---- running a side


def run_side(
    side: Side, command: list[str], job: str, folder: Path, patience: float
) -> tuple[float, float, npt.NDArray[Any]]:
    """Seconds to load, seconds to run from the word to the last process's answer, and the results."""
    cores = len(os.sched_getaffinity(0))
    shards = side.shards or cores
    outs = [folder / f"out{i}.npy" for i in range(1 if side.threads else shards)]
    running = [
        subprocess.Popen(
            [*command, job, folder, str(i), str(shards), out, side.way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i, out in enumerate(outs)
    ]
    # As long again for what is not counted: starting, compiling, and collecting the results.
    late = threading.Timer(2 * patience, lambda: [process.kill() for process in running])
    late.start()
    try:
        load_s = max(answer(process)["load_s"] for process in running)
        begun = time.perf_counter()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in running:
            answer(process)
        run_s = time.perf_counter() - begun
        for process in running:
            answer(process)
    except SideError:
        if late.is_alive():
            raise
        raise TooSlowError(f"stopped after {2 * patience:.0f} s") from None
    finally:
        late.cancel()
        for process in running:
            process.kill()
            process.communicate()
    results = np.concatenate([np.load(out) for out in outs])
    return load_s, run_s, results[np.argsort(results["symbol"])]


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    said = process.stderr.read().strip().splitlines()
    raise SideError("failed: " + (said[-1] if said else f"it ended with status {process.wait()}"))


def assert_same(job: str, ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> None:
    """Tops of book to the share; of averages the volumes, and the notionals to a relative 1e-9, floats being summed."""
    if job == "book":
        # A symbol of which there were only trades and states has no book, and no events.
        ours = ours[np.isin(ours["symbol"], theirs["symbol"])]
        same = np.array_equal(ours, theirs)
    else:
        same = np.array_equal(ours[["symbol", "volume"]], theirs[["symbol", "volume"]])
        same = same and bool(np.allclose(ours["notional"], theirs["notional"], rtol=1e-9, atol=0))
    if not same:
        raise SideError("failed: its results are not those of the first side")


# ---- measuring


@dataclass(frozen=True)
class Rules:
    """``patience``: seconds to load and run."""

    turns: int
    patience: float


def expected_s(times: Times, before: Times, larger: int) -> float:
    """Seconds that a larger size would take. Running grows with the size; loading, not all of which does, as it did."""
    load_s = times.load_s
    if before.load:
        load_s += (load_s - before.load_s) * (larger - times.messages) / (times.messages - before.messages)
    return load_s + times.run_s * larger / times.messages


class Race:
    """The sides at one job, through its sizes. ``times``: of each side at the largest size that it came to."""

    def __init__(self, job: str, sides: list[Side], commands: dict[str, list[str] | SideError], rules: Rules) -> None:
        self.times = {side.name: Times() for side in sides}
        self._job = job
        self._rules = rules
        self._commands: dict[str, list[str]] = {}
        self._running: list[Side] = []
        for side in sides:
            command = commands[side.program]
            note = missing(side) or (str(command) if isinstance(command, SideError) else "")
            if note:
                self.times[side.name].note = note
            elif not isinstance(command, SideError):
                self._commands[side.name] = command
                self._running.append(side)

    def run(self, folder: Path, messages: int, larger: int | None) -> None:
        """Every side once; those that go no further, to ``larger``, as often as the rules say."""
        expected: list[npt.NDArray[Any]] = []
        stay: list[Side] = []
        go_on: list[Side] = []
        for side in self._running:
            taken = Times(messages=messages)
            try:
                self._take(side, folder, taken, expected)
            except TooSlowError as error:
                # What a smaller size gave stands, with the reason why it is not this one.
                self.times[side.name].note = f"{messages / 1e6:g} M: {error}"
            except SideError as error:
                self.times[side.name] = Times(note=str(error))
            else:
                before, self.times[side.name] = self.times[side.name], taken
                enough = larger is None or expected_s(taken, before, larger) > self._rules.patience
                (stay if enough else go_on).append(side)
        self._running = go_on
        for _ in range(self._rules.turns - 1):
            for side in list(stay):
                taken = self.times[side.name]
                if taken.whole_s > self._rules.patience / 6:
                    taken.note = "one turn"
                    stay.remove(side)
                    continue
                try:
                    self._take(side, folder, taken, expected)
                except SideError as error:
                    self.times[side.name] = Times(note=str(error))
                    stay.remove(side)

    def _take(self, side: Side, folder: Path, into: Times, expected: list[npt.NDArray[Any]]) -> None:
        """A turn of a side, whose results have to be those of the first that had one. Raises SideError."""
        load_s, run_s, results = run_side(side, self._commands[side.name], self._job, folder, self._rules.patience)
        if not expected:
            expected.append(results)
        assert_same(self._job, expected[0], results)
        into.load.append(load_s)
        into.run.append(run_s)
        click.echo(f"{self._job}, {into.messages / 1e6:g} M: {side.name}: {load_s:.2f} s, {run_s:.3f} s", err=True)


def chosen(names: tuple[str, ...]) -> list[Side]:
    """Those whose names begin so, all without names; and the first, which says what the results are."""
    return [side for side in ALL if side is ALL[0] or not names or side.name.startswith(names)]


def steps(messages: int) -> list[int]:
    """The sizes that lead to this one."""
    return [n for n in (messages // 100, messages // 10) if n >= 20_000] + [messages]


def size_of(_context: Any, _parameter: Any, given: tuple[str, ...]) -> list[tuple[int, int]]:
    try:
        return [(int(symbols), int(messages)) for symbols, messages in (size.split("x") for size in given)]
    except ValueError:
        raise click.BadParameter("a size is SYMBOLSxMESSAGES, like 50x2000000") from None


@click.command()
@click.argument("names", nargs=-1)
@click.option("--size", "sizes", multiple=True, callback=size_of, help="SYMBOLSxMESSAGES; may be repeated.")
@click.option("--turns", default=3, show_default=True, help="Times each side runs.")
@click.option("--patience", default=60.0, show_default=True, help="Seconds a side may take to load and run.")
@click.option("--quick", is_flag=True, help="One turn of 50 symbols and 50,000 messages.")
@click.option("--out", type=click.Path(path_type=Path, exists=True), help="Puts the tables into this file.")
def main(  # noqa: PLR0917
    names: tuple[str, ...], sizes: list[tuple[int, int]], turns: int, patience: float, quick: bool, out: Path | None
) -> None:
    """Strand beside pools of processes and others; NAMES: sides whose names begin so, beside the first."""
    sides = chosen(names)
    if quick:
        sizes, turns = [(50, 50_000)], 1
    with tempfile.TemporaryDirectory(prefix="strand-peers-") as name:
        folder = Path(name)
        commands = programs(sides, folder)
        about = machine({side.package for side in ALL if side.package}, version_of(commands.get("asio_side.cpp")))
        lines = [f"{about} Medians of {turns}, sides in turn.", ""]
        click.echo(lines[0])
        for symbols, messages in sizes or SIZES:
            races = {job: Race(job, sides, commands, Rules(turns, patience)) for job in JOBS}
            way = steps(messages)
            for step, larger in zip(way, [*way[1:], None], strict=True):
                write_events(folder, symbols, step)
                for job in JOBS:
                    races[job].run(folder, step, larger)
            for job in JOBS:
                found = list(table(job, symbols, messages, races[job].times))
                click.echo("\n".join(found))
                lines += found
    if out:
        put_into(out, lines)


if __name__ == "__main__":
    main()
