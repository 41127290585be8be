"""The same two jobs by Strand, by pools of processes split by hash, and by others, on the same events.

    make bench-peers                                       the tables of docs/peers.md, with packages from the index
    python bench/peers.py [SIDE...] [--quick] [--turns 3]  what is installed here

A side is a program of bench/peer_sides: it loads, says so, runs when told to, and leaves its results, which have to be
Strand's before a time is printed. One at a time, in turn; times are medians. Each job is begun with a hundredth and a
tenth of its messages: a side that by then would take more than ``--patience`` for the next size stays there, and its
line says so. See docs/peers.md.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from peer_events import write_events
from peer_running import Side, SideError, TooSlowError, missing, programs, run_side, version_of
from peer_table import Times, machine, put_into, table

JOBS = ("vwap", "book")

#: The first one's results are what the others have to come to.
ALL = (
    Side("strand, from the file", "strand_side.py", 0, threads=True, way="file"),
    Side("strand, from the file, one core", "strand_side.py", 1, threads=True, way="file"),
    Side("strand, from memory", "strand_side.py", 0, threads=True, way="memory"),
    Side("boost::asio::strand", "asio_side.cpp", 0, threads=True, way="tick"),
    Side("boost::asio::strand, in batches", "asio_side.cpp", 0, threads=True, way="batch"),
    Side("boost::asio::strand, one core", "asio_side.cpp", 1, threads=True, way="tick"),
    # First, so that one process compiles what the others find compiled.
    Side("pool, numba, one process", "pool_numba_side.py", 1, "numba"),
    Side("pool, numba", "pool_numba_side.py", 0, "numba"),
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


def assert_same(job: str, ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> None:
    """Tops of book to the share; of averages the volumes, and the notionals to a relative 1e-9, floats being summed."""
    if job == "book":
        # A symbol of which there were only trades and states has no book, and no events.
        known = np.isin(ours["symbol"], theirs["symbol"])
        left_out = ours[~known]
        same = np.array_equal(ours[known], theirs) and not (left_out["bid_size"].any() or left_out["ask_size"].any())
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
            before = self.times[side.name]
            try:
                self.times[side.name] = taken = self._first_turn(side, folder, messages, larger, expected)
            except TooSlowError as error:
                # What a smaller size gave stands, with the reason why it is not this one.
                before.note = f"{messages / 1e6:g} M: {error}"
            except SideError as error:
                self.times[side.name] = Times(note=str(error))
            else:
                (stay if self._is_enough(side, taken, before, larger) else go_on).append(side)
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

    def _is_enough(self, side: Side, taken: Times, before: Times, larger: int | None) -> bool:
        """Tells whether a side goes no further. The side that the others are held to always does."""
        if larger is None or side.name == next(iter(self.times)):
            return larger is None
        return expected_s(taken, before, larger) > self._rules.patience

    def _first_turn(
        self, side: Side, folder: Path, messages: int, larger: int | None, expected: list[npt.NDArray[Any]]
    ) -> Times:
        """Again if it would be the last and was short: the machine may have been busy with something else."""
        taken = Times(messages=messages)
        self._take(side, folder, taken, expected)
        short = larger is not None and taken.whole_s <= self._rules.patience / 6
        if short and self._is_enough(side, taken, self.times[side.name], larger):
            taken = Times(messages=messages)
            self._take(side, folder, taken, expected)
        return taken

    def _take(self, side: Side, folder: Path, into: Times, expected: list[npt.NDArray[Any]]) -> None:
        """A turn of a side, whose results have to be those of the first one. Raises SideError."""
        load_s, run_s, results = run_side(side, self._commands[side.name], self._job, folder, self._rules.patience)
        if side.name == next(iter(self.times)) and not expected:
            expected.append(results)
        if not expected:
            raise SideError("the first side has no results that its own could be compared with")
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
        lines = [f"{about} Medians of {turns}, sides in turn, {patience:g} s for each.", ""]
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
