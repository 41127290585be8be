"""Looks at a replay from another process, at full speed: whether each adds up, and what they cost the replay.

    python bench/looks.py sums [--looks 10000] [--symbols 2000] [--json]
    python bench/looks.py cost [--turns 9] [--seconds 2.5] [--symbols 2000] [--json]

The replay runs in a process of its own until it is told to end: the handler ``count``, a strand per symbol. ``sums``: a
look takes the totals, and one strand with its rows: in turn each of them, and that of a tick drawn from the feed, as
busy ones have more. Totals have to balance and not go back, and the rows of a strand to add up to what it has handled.
A look is repeated where the strand's owner was at work on it. Exit status 1: a sum was wrong. ``cost``: ticks a second
beside ten full looks a second (totals, and all strands with their rows) and without, in turn. The replay keeps to all
cores but the last, from which it is looked at. Each turn beside looks is divided by the one without that follows; the
figure is the median of these ratios.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import click
import numpy as np

import strand
from strand.errors import AttachError
from strand.feeds import BaseFeed, FeedInfo, TickBatch
from strand.feeds.synthetic.market import route_stream
from strand.outside.attached import PATIENCE_NS, Attached, view_of
from strand.units import undeclared

CORES = sorted(os.sched_getaffinity(0))
BATCH = 65_536
TICKS = 32 * BATCH
LOOKS_A_SECOND = 10


# ---- the replay


class Endless(BaseFeed):
    """The same day again and again, until standard input ends."""

    info = FeedInfo("endless", "memory")
    symbols: Sequence[str] = ()

    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.symbols = [f"S{i}" for i in range(symbols)]
        self._ticks = route_stream(TICKS, symbols)

    def batches(self) -> Iterator[TickBatch]:
        while True:
            for first in range(0, TICKS, BATCH):
                if select.select([sys.stdin], [], [], 0)[0]:
                    return
                yield self._ticks[first : first + BATCH]


@dataclass(frozen=True)
class Hosted:
    """A replay that runs: ``end`` ends it, and returns how many ticks it had."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> int:
        told, _ = self.process.communicate()
        return int(told.split()[-1])


@contextmanager
def hosted(symbols: int, cores: int) -> Iterator[Hosted]:
    """The replay on so many cores, from its first ticks on."""
    asked = [sys.executable, __file__, "host", str(symbols), str(cores)]
    process = subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        while not _handled(process.pid):
            if process.poll() is not None:
                raise click.ClickException("the replay ended before it began")
            time.sleep(0.05)
        yield Hosted(process)
    finally:
        process.kill()
        process.wait()


def _handled(pid: int) -> int:
    try:
        return strand.attach(pid).statistics().handled
    except AttachError:
        return 0  # it is not made yet


# ---- whether looks add up


@dataclass(frozen=True)
class Sums:
    """``repeated``: looks whose first try was not to be believed; ``in_visit``: those that gave up after 100 ms;
    ``strands``: how many were looked at; ``ticks``: of the replay meanwhile; ``wrong``: what did not add up."""

    looks: int
    repeated: int
    in_visit: int
    strands: int
    ticks: int
    seconds: float
    wrong: tuple[str, ...]


def look_at_sums(symbols: int, looks: int) -> Sums:
    drawn = route_stream(looks, symbols)["instrument_id"]
    with hosted(symbols, len(CORES)) as replay:
        view, about = view_of(replay.pid, None)
        attached, row = Attached(view, about), undeclared(about.handlers[0].row)
        keys = [np.flatnonzero(view.strand_of_symbol == at).astype(np.uint32) for at in range(view.n_strands)]
        wrong: list[str] = []
        seen: set[int] = set()
        repeated = in_visit = 0
        first = before = attached.statistics().handled
        begun = time.perf_counter()
        for turn in range(looks):
            totals = attached.statistics()
            if totals.accepted != totals.handled + sum(totals.dropped.values()) + totals.pending:
                wrong.append(f"look {turn}: totals do not balance: {totals}")
            if totals.handled < before:
                wrong.append(f"look {turn}: handled goes back from {before} to {totals.handled}")
            before = totals.handled
            at = int(view.strand_of_symbol[drawn[turn]]) if turn % 2 else turn // 2 % view.n_strands
            counts, rows, busy = view.look(at, keys[at], 0)
            if busy:
                repeated += 1
                counts, rows, busy = view.look(at, keys[at], PATIENCE_NS)
            seen.add(at)
            in_visit += busy
            ticks = _ticks(rows, row)
            if not busy and ticks != counts.handled:
                wrong.append(f"look {turn}: strand {at} has handled {counts.handled}, and its rows say {ticks}")
        seconds = time.perf_counter() - begun
        ended = replay.end()
        total = attached.statistics().handled
        rows_total = sum(_ticks(view.look(at, keys[at], 0)[1], row) for at in range(view.n_strands))
        if not ended == total == rows_total:
            wrong.append(f"at the end: {ended} ticks replayed, {total} handled, and rows say {rows_total}")
    return Sums(looks, repeated, in_visit, len(seen), before - first, seconds, tuple(wrong))


def _ticks(rows: Any, row: np.dtype[Any]) -> int:
    return int(np.ascontiguousarray(rows[:, : row.itemsize]).view(row)["ticks"].sum())


# ---- what looks cost


@dataclass(frozen=True)
class Cost:
    """Ticks a second beside looks and without, by turn; ``looks_a_second``: full ones, by turn; the median ratio."""

    beside: tuple[float, ...]
    without: tuple[float, ...]
    looks_a_second: tuple[float, ...]
    ratio: float


def look_at_cost(symbols: int, turns: int, seconds: float) -> Cost:
    if len(CORES) < 2:
        raise click.ClickException("cost: it takes two cores, one to look from")
    beside, without, rates = [], [], []
    with hosted(symbols, len(CORES) - 1) as replay:
        os.sched_setaffinity(0, CORES[-1:])
        attached = strand.attach(replay.pid)
        _turn(attached, seconds, looking=True)
        for _ in range(turns):
            speed, looks = _turn(attached, seconds, looking=True)
            beside.append(speed)
            rates.append(looks)
            without.append(_turn(attached, seconds, looking=False)[0])
            click.echo(f"{beside[-1] / 1e6:8.1f} {without[-1] / 1e6:8.1f} M ticks/s, {looks:.1f} looks/s", err=True)
    ratio = median(one / other for one, other in zip(beside, without, strict=True))
    return Cost(tuple(beside), tuple(without), tuple(rates), ratio)


def _turn(attached: Attached, seconds: float, *, looking: bool) -> tuple[float, float]:
    """Ticks a second, and full looks a second."""
    begun, looks = time.perf_counter(), 0
    before = attached.statistics().handled
    while (now := time.perf_counter()) < begun + seconds:
        if looking:
            attached.statistics()
            for _ in attached.looks():
                pass
            looks += 1
        time.sleep(max(0.0, min(now + 1 / LOOKS_A_SECOND, begun + seconds) - time.perf_counter()))
    handled = attached.statistics().handled - before
    spent = time.perf_counter() - begun
    return handled / spent, looks / spent


# ---- the command


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command(hidden=True)
@click.argument("symbols", type=int)
@click.argument("cores", type=int)
def host(symbols: int, cores: int) -> None:
    """The replay, in a process of its own. Prints how many ticks it had."""
    os.sched_setaffinity(0, CORES[:cores])
    result = strand.replay(
        Endless(symbols), "count", strands="per-symbol", workers=max(1, cores - 1), timeline=False, attachable=True
    )
    print(result.ticks)


SYMBOLS = click.option("--symbols", type=click.IntRange(1), default=2000, show_default=True)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")


@main.command()
@click.option("--looks", type=click.IntRange(1), default=10_000, show_default=True)
@SYMBOLS
@AS_JSON
def sums(looks: int, symbols: int, as_json: bool) -> None:
    """Checks that looks add up."""
    found = look_at_sums(symbols, looks)
    click.echo(
        json.dumps(asdict(found))
        if as_json
        else f"{found.looks:,} looks at {found.strands:,} strands in {found.seconds:.1f} s, "
        f"beside {found.ticks:,} ticks: {found.repeated:,} repeated, "
        f"{found.in_visit:,} in a visit for 100 ms, {len(found.wrong):,} wrong"
    )
    for line in found.wrong[:20]:
        click.echo(line, err=True)
    if found.wrong:
        sys.exit(1)


@main.command()
@click.option("--turns", type=click.IntRange(1), default=9, show_default=True, help="Each way.")
@click.option("--seconds", type=click.FloatRange(0.1), default=2.5, show_default=True, help="Of a turn.")
@SYMBOLS
@AS_JSON
def cost(turns: int, seconds: float, symbols: int, as_json: bool) -> None:
    """Measures the cost of looks for the replay."""
    found = look_at_cost(symbols, turns, seconds)
    click.echo(
        json.dumps(asdict(found))
        if as_json
        else f"beside {median(found.looks_a_second):.1f} looks a second {median(found.beside) / 1e6:.1f} M ticks/s, "
        f"without {median(found.without) / 1e6:.1f}; median of {len(found.beside)} ratios {found.ratio:.3f}"
    )


if __name__ == "__main__":
    main()
