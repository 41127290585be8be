"""One checkout against another on this machine: ratios of speed, taken in pairs, one after the other.

    python bench/paired.py OLD NEW [PART ...] [--pairs 25]

OLD and NEW are checkouts that `make install` has been run in; a process of each takes turns (bench/paired_turns.py).
The order changes from pair to pair, so that what slows the machine for a while slows both. A ratio above 1 says that
NEW is faster. A row is the median of its pairs, between their quartiles, and the ratio of the sides' upper quartiles:
what they do when nothing is in their way. OLD may be NEW: the ratios then say how far the machine's noise goes, and a
result counts where these are within 1 %.

How long a line takes from core to core decides much of what two cores do, and on a virtual machine it changes while one
looks: the host moves its cores. It is measured before and after each pair. A pair in which it changed is left out, and
counted; ratios are also given by distance, where there were two.

``books``: a generated day into full books on one core and on two. ``bars``: bars of trades in memory. ``csv`` and
``parquet``: trades of such a file, counted and into bars. ``python``: ticks of a file through handlers in Python, by
the caller and by a worker. ``tasks``: empty tasks of a Scheduler. ``route``: what `strand bench route` has for the
handlers and streams of the README's table on two cores, and their geometric mean. ``latency``: one tick to a worker
that spins or sleeps. ``caller``: a generated day through `count` and `book` with `workers=0`. ``sweep``: 64 sets of
parameters over such a day. These two are of processor time.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from typing import Any

import click

from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.synthetic import SyntheticFeed

ROUTES = [(skew, symbols, work) for skew, symbols in (("calibrated", 8172), ("1.2", 50)) for work in (1, 5, 30, 100)]
PARTS = ("books", "bars", "csv", "parquet", "python", "tasks", "route", "latency", "caller", "sweep")
#: Rows of parts of processor time over a generated day, with their arguments.
PROCESSOR: dict[str, dict[str, list[Any]]] = {
    "caller": {f"{handler}, workers=0": [handler] for handler in ("count", "book")},
    "sweep": {f"64 sets, {kind}": [kind, 64] for kind in ("array", "machine")},
}
TASKS = ("submit", "submit_many", "with key, priority and deadline")
Figures = dict[str, float]
#: Between ticks whose latency is measured.
GAPS_NS = [0, 400, 530, 660, 790, 920, 1050, 1180, 1310, 1440]
#: Two distances between cores are the same below this ratio.
STEADY = 1.3
#: So many pairs are tried for each that is wanted.
TRIES = 3


class Side:
    """A checkout's process, which takes turns when asked."""

    def __init__(self, checkout: Path) -> None:
        turns = Path(__file__).with_name("paired_turns.py")
        command = [checkout / ".venv/bin/python", turns]
        own = {**os.environ, "NUMBA_CACHE_DIR": str(checkout / "build/numba")}  # what one compiled is not the other's
        self.process = subprocess.Popen(
            command, cwd=checkout, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )  # fmt: skip

    def take(self, part: str, *arguments: Any) -> Figures:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([part, arguments]) + "\n")
        self.process.stdin.flush()
        found: Figures = json.loads(self.process.stdout.readline() or "null")
        if found is None:
            raise click.ClickException(f"{part}: the turn failed")
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def _quartiles(values: list[float]) -> tuple[float, float]:
    """The lower and the upper one."""
    low, _, high = quantiles(values, n=4) if len(values) > 1 else values * 3
    return low, high


@dataclass
class Ratios:
    """Of one figure, new to old, with the distance of the cores, in ns. ``moved``: pairs left out as it changed."""

    name: str
    pairs: list[tuple[float, float]] = field(default_factory=list)
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    moved: int = 0

    @property
    def median(self) -> float:
        return median(ratio for ratio, _ in self.pairs)

    def add(self, was: float, now: float, distance_ns: float) -> None:
        self.pairs.append((now / was, distance_ns))
        self.old.append(was)
        self.new.append(now)

    def __str__(self) -> str:
        ratios = [ratio for ratio, _ in self.pairs]
        low, high = _quartiles(ratios)
        line = f"{self.name:42} {self.median:6.3f}   {low:.3f} to {high:.3f}   "
        line += f"upper quartiles {_quartiles(self.new)[1] / _quartiles(self.old)[1]:.3f}   {len(ratios)} pairs"
        nearest = min(distance for _, distance in self.pairs)
        groups = [[pair for pair in self.pairs if (pair[1] > nearest * STEADY) is far] for far in (False, True)]
        if all(groups):
            for name, group in zip(("near", "far"), groups, strict=True):
                ns = median(distance for _, distance in group)
                line += f"; {name} ({ns:.0f} ns) {median(ratio for ratio, _ in group):.3f} of {len(group)}"
        return line + (f"; left out, as the cores moved: {self.moved}" if self.moved else "")


@dataclass
class Comparison:
    """``gauge`` measures how far the cores are from each other."""

    old: Side
    new: Side
    gauge: Side
    pairs: int

    def distance_ns(self) -> float:
        return 1e9 / self.gauge.take("latency", [0], 3000, 0)[", spin"]

    def of(self, name: str, part: str, *arguments: Any) -> Iterator[Ratios]:
        """The ratios of each figure of a part."""
        for side in (self.old, self.new):
            side.take(part, *arguments)
        found: dict[str, Ratios] = {}
        taken = 0
        before = self.distance_ns()
        for turn in range(self.pairs * TRIES):
            order = (self.old, self.new) if turn % 2 == 0 else (self.new, self.old)
            one, other = (side.take(part, *arguments) for side in order)
            was, now = (one, other) if turn % 2 == 0 else (other, one)
            after = self.distance_ns()
            steady = max(before, after) < STEADY * min(before, after)
            for what, value in now.items():
                ratios = found.setdefault(what, Ratios(name + what))
                if steady:
                    ratios.add(was[what], value, (before + after) / 2)
                else:
                    ratios.moved += 1
            before = after
            taken += steady
            if taken == self.pairs:
                break
        if not taken:
            raise click.ClickException(f"{name}: the cores moved in every pair")
        yield from found.values()

    def show(self, name: str, part: str, *arguments: Any) -> float:
        """Prints them. Returns the first's median."""
        found = list(self.of(name, part, *arguments))
        for ratios in found:
            click.echo(str(ratios))
        return found[0].median


@click.command(help=__doc__)
@click.argument("old", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--pairs", default=25, show_default=True, type=click.IntRange(min=1))
@click.option("--count", default=3_000_000, show_default=True, help="Messages of the day, trades of bars, ticks.")
def main(old: Path, new: Path, parts: tuple[str, ...], pairs: int, count: int) -> None:
    sides = [Side(checkout.resolve()) for checkout in (old, new, new)]
    compare = Comparison(*sides, pairs=pairs)
    for part in parts or PARTS:
        if part == "books":
            day = str(_day(count))
            for cores in (1, 2):
                compare.show(f"books, {cores} cores", part, day, cores)
        elif part == "bars":
            compare.show("bars in memory", part, str(_trades(count)))
        elif part in ("csv", "parquet"):
            for handler, workers in (("count", 0), ("count", 1), ("bars", 1)):
                compare.show(
                    f"{part}, {handler}, workers={workers}", "table", str(_table(part, count)), handler, workers
                )
        elif part == "python":
            for kind, workers in (("object", 0), ("object", 1), ("batch", 0), ("batch", 1)):
                compare.show(f"{kind} handler, workers={workers}", "in_python", str(_trades(count)), kind, workers)
        elif part == "tasks":
            for how in TASKS:
                compare.show(f"tasks, {how}", part, how, 20_000)
        elif part in PROCESSOR:
            for name, arguments in PROCESSOR[part].items():
                compare.show(name, part, str(_day(count)), *arguments)
        elif part == "latency":
            compare.show("latency", part, GAPS_NS, 3000, 200)
        else:
            rows = [
                compare.show(f"route, {one[0]}, {one[1]} symbols, {one[2]} steps", part, *one, count) for one in ROUTES
            ]
            click.echo(f"{'route, geometric mean':42} {geometric_mean(rows):6.3f}   {min(rows):.3f} to {max(rows):.3f}")
    for side in sides:
        side.close()


def _kept(name: str) -> Path:
    """A place for data, in the build folder of this checkout."""
    path = Path(__file__).parent.parent / "build" / name
    path.parent.mkdir(exist_ok=True)
    return path


def _day(messages: int) -> Path:
    path = _kept(f"2026-01-05-{messages}.itch50")
    if not path.exists():
        SyntheticFeed(8172, messages, seed=7, date="2026-01-05").write_itch(path)
    return path


def _trades(count: int) -> Path:
    from bars import made_ticks

    path = _kept(f"trades-{count}.npy")
    if not path.exists():
        import numpy as np

        with atomic_write(path) as file:
            np.save(file, made_ticks(count, 8172))
    return path


def _table(ending: str, count: int) -> Path:
    """Trades as Tardis has them, 50 symbols, in a file of this kind."""
    path = _kept(f"trades-{count}.{ending}")
    if not path.exists():
        import numpy as np
        import polars as pl

        rng = np.random.default_rng(1)
        at = 1_700_000_000_000_000 + np.cumsum(rng.integers(1, 2000, count))
        symbols = np.array([f"S{i}USDT" for i in range(50)])[rng.integers(0, 50, count)]
        rows = pl.DataFrame(
            {
                "exchange": "binance",
                "symbol": symbols,
                "timestamp": at,
                "local_timestamp": at + 150,
                "id": np.arange(count),
                "side": np.array(["buy", "sell"])[rng.integers(0, 2, count)],
                "price": rng.integers(300_000, 400_000, count) / 10,
                "amount": rng.integers(1, 400_000, count) / 1000,
            }
        )
        with atomic_write(path) as file:
            if ending == "csv":
                rows.write_csv(file)
            else:
                # A type says the unit of its times, and the sizes are whole.
                rows.select(
                    "symbol",
                    pl.from_epoch("timestamp", "us").alias("ts_event"),
                    "price",
                    pl.col("id").alias("size"),
                ).write_parquet(file)
    return path


if __name__ == "__main__":
    main()
