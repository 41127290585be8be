"""The same two jobs by Strand, by pools of processes split by hash, and by other packages, on the same events.

    make bench-peers                                       the table, with packages from the index
    python bench/peers.py [SIDE...] [--quick] [--turns 3]  what is installed here

A side is a program of bench/peer_sides: it loads, says so, runs when told to, and leaves its results, which have to be
those of the first side before a time is printed. One at a time, in turn; times are medians. A side that would take more
than ``--patience`` at a larger size is not asked for it. See docs/peers.md.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.typed import Dict

sys.path.insert(0, str(Path(__file__).resolve().parent / "peer_sides"))

from protocol import EVENT

from strand import TICK, feeds
from strand.feeds.npy import write_npy
from strand.feeds.synthetic import SyntheticFeed
from strand.ticks import KIND_TRADE

SIDES = Path(__file__).resolve().parent / "peer_sides"
DATE = "2026-01-05"
JOBS = ("vwap", "book")


class SideError(Exception):
    """A side could not do it; says why in a line."""


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


ALL = (
    Side("strand, from the file", "strand_side.py", 0, threads=True, way="file"),
    Side("strand, from the file, one core", "strand_side.py", 1, threads=True, way="file"),
    Side("strand, from memory", "strand_side.py", 0, threads=True, way="memory"),
    Side("pool, numba", "pool_numba_side.py", 0, "numba"),
    Side("pool, numba, one process", "pool_numba_side.py", 1, "numba"),
    Side("pool, plain Python", "pool_naive_side.py", 0),
    Side("hftbacktest", "hftbacktest_side.py", 1, "hftbacktest"),
    Side("hftbacktest, a process a core", "hftbacktest_side.py", 0, "hftbacktest"),
    Side("nautilus_trader", "nautilus_side.py", 1, "nautilus_trader"),
    Side("nautilus_trader, a process a core", "nautilus_side.py", 0, "nautilus_trader"),
)


#: Symbols and messages, the smaller ones first.
SIZES = [(50, 2_000_000), (8_172, 200_000), (8_172, 2_000_000), (8_172, 10_000_000)]

# ---- the events


def write_events(folder: Path, symbols: int, messages: int) -> None:
    """A day as ITCH and as plain events, and a tape of trades: a trade for each message, drawn as its orders are."""
    SyntheticFeed(symbols=symbols, messages=messages, date=DATE).write_itch(folder / "day.itch50")
    parts = [batch.copy() for batch in feeds.open(folder / "day.itch50", date=DATE).batches()]
    ticks = np.concatenate(parts)
    write_npy(folder / "day.npy", ticks)
    np.save(folder / "book.npy", order_events(ticks))
    tape = tape_of(ticks, messages)
    write_npy(folder / "tape.npy", tape)
    trades = np.zeros(len(tape), EVENT)
    trades["ts"], trades["price"] = tape["ts_recv"], tape["price"] // 100_000
    trades["size"], trades["symbol"], trades["op"], trades["side"] = tape["size"], tape["instrument_id"], b"T", b"B"
    np.save(folder / "vwap.npy", trades)


def tape_of(ticks: npt.NDArray[Any], messages: int) -> npt.NDArray[Any]:
    """``messages`` trades at the prices and sizes of the day's new orders, again and again until there are as many."""
    added = ticks[ticks["action"] == b"A"]
    tape = np.resize(added, messages)
    tape["kind"], tape["action"], tape["order_id"] = KIND_TRADE, b"T", 0
    tape["ts_event"] = tape["ts_recv"] = np.sort(tape["ts_recv"])
    return tape


def order_events(ticks: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What the ticks do to orders, with what is left of each. A replace is one order gone and another added."""
    numbers = np.dtype([(name, "u1" if kind == "|S1" else kind) for name, kind in TICK.descr])
    events = np.zeros(2 * len(ticks), np.dtype([(name, "u1" if kind == "|S1" else kind) for name, kind in EVENT.descr]))
    return events[: _order_events(ticks.view(numbers), events)].view(EVENT)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _order_events(ticks: Any, events: Any) -> int:
    added, canceled, filled, replaced = ord("A"), ord("C"), ord("F"), ord("M")
    where = Dict.empty(types.uint64, types.int64)  # the latest event of an order
    n = 0
    for tick in ticks:
        action = tick["action"]
        if action not in (added, canceled, filled, replaced):
            continue
        event = events[n]
        event["ts"], event["symbol"], event["order_id"] = tick["ts_recv"], tick["instrument_id"], tick["order_id"]
        if action == added:
            event["op"], event["price"], event["size"] = ord("A"), tick["price"] // 100_000, tick["size"]
            event["side"] = ord("B") if tick["side"] == ord("B") else ord("S")
            where[tick["order_id"]] = n
            n += 1
            continue
        old = events[where[tick["order_id"]]]
        event["price"], event["side"] = old["price"], old["side"]
        left = np.int64(old["size"]) - tick["size"] if tick["size"] != 0 and action != replaced else 0
        event["op"], event["size"] = (ord("U"), left) if left > 0 else (ord("D"), 0)
        where[tick["order_id"]] = n
        n += 1
        if action == replaced:
            event = events[n]
            event["ts"], event["symbol"], event["side"] = tick["ts_recv"], tick["instrument_id"], old["side"]
            event["op"], event["price"], event["size"] = ord("A"), tick["price"] // 100_000, tick["size"]
            event["order_id"] = tick["ref_id"]
            where[tick["ref_id"]] = n
            n += 1
    return n


# ---- running a side


def run_side(side: Side, job: str, folder: Path, patience: float) -> tuple[float, float, npt.NDArray[Any]]:
    """Seconds to load, seconds to run from the word to the last process's answer, and the results."""
    cores = len(os.sched_getaffinity(0))
    shards = side.shards or cores
    outs = [folder / f"out{i}.npy" for i in range(1 if side.threads else shards)]
    running = [
        subprocess.Popen(
            [sys.executable, SIDES / side.program, job, folder, str(i), str(shards), out, side.way],
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
        raise SideError(f"stopped after {2 * patience:.0f} s") from None
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


@dataclass
class Times:
    """Of a side at one job and size: seconds, a turn each. ``note``: why there are none, or none any more."""

    load: list[float] = field(default_factory=list)
    run: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def load_s(self) -> float:
        return median(self.load)

    @property
    def run_s(self) -> float:
        return median(self.run)


@dataclass(frozen=True)
class Rules:
    """``patience``: seconds to load and run."""

    turns: int
    patience: float


def measure(sides: list[Side], job: str, folder: Path, rules: Rules, given_up: dict[str, str]) -> dict[str, Times]:
    """Each side in turn, as often as the rules say; one that took a sixth of the patience, once."""
    times = {side.name: Times(note=missing(side) or given_up.get(side.name, "")) for side in sides}
    first: npt.NDArray[Any] | None = None
    for _ in range(rules.turns):
        for side in sides:
            found = times[side.name]
            if found.note:
                continue
            try:
                load_s, run_s, results = run_side(side, job, folder, rules.patience)
                if first is None:
                    first = results
                assert_same(job, first, results)
            except SideError as error:
                found.note = str(error)
                found.run.clear()
                continue
            found.load.append(load_s)
            found.run.append(run_s)
            if load_s + run_s > rules.patience / 6:
                found.note = "one turn"
    return times


def missing(side: Side) -> str | None:
    """``PEER_NAME`` says why the package NAME could not be installed, where somebody has tried."""
    if side.package is None or importlib.util.find_spec(side.package) is not None:
        return None
    reason = os.environ.get(f"PEER_{side.package.upper()}")
    return f"not installed: {reason}" if reason else "not installed"


def machine() -> str:
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in info if "model name" in line), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = sorted({"numpy"} | {side.package for side in ALL if side.package})
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages if importlib.util.find_spec(name)]
    return (
        f"{model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB; load {os.getloadavg()[0]:.1f} at first. "
        f"Python {platform.python_version()}, " + ", ".join(versions) + "."
    )


# ---- the table


def table(job: str, symbols: int, messages: int, events: int, times: dict[str, Times]) -> Iterator[str]:
    yield f"### {job}: {messages / 1e6:g} M messages, {symbols:,} symbols"
    yield ""
    yield "| side | load, s | run, s | M messages/s of run | of load and run | |"
    yield "|---|---|---|---|---|---|"
    timed = {name: found for name, found in times.items() if found.run}
    least_run = min(timed, key=lambda name: timed[name].run_s, default=None)
    least_all = min(timed, key=lambda name: timed[name].load_s + timed[name].run_s, default=None)
    for name, found in times.items():
        if not found.run:
            yield f"| {name} | | | | | {found.note} |"
            continue
        rate, whole = messages / found.run_s / 1e6, messages / (found.load_s + found.run_s) / 1e6
        of_run = f"**{rate:.2f}**" if name == least_run else f"{rate:.2f}"
        of_all = f"**{whole:.2f}**" if name == least_all else f"{whole:.2f}"
        yield f"| {name} | {found.load_s:.2f} | {found.run_s:.3f} | {of_run} | {of_all} | {found.note} |"
    yield ""
    yield f"{events:,} events. Least time to run: {least_run}; to load and run: {least_all}."
    yield ""


def too_slow(times: Times, messages: int, larger: int, patience: float) -> str | None:
    """Why a side is not asked for the next larger size."""
    if not times.run:
        if not times.note or times.note.startswith("not "):
            return times.note or None
        return f"not measured: {messages / 1e6:g} M: {times.note}"
    took = times.load_s + times.run_s
    if took * larger / messages <= patience:
        return None
    return f"not measured: {messages / 1e6:g} M took it {took:.0f} s"


def put_into(path: Path, lines: list[str]) -> None:
    """Replaces what is between the marks."""
    begin, end = "<!-- measured:begin -->", "<!-- measured:end -->"
    text = path.read_text()
    before, after = text[: text.index(begin) + len(begin)], text[text.index(end) :]
    path.write_text("\n".join([before, *lines, after]))


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
    """Strand beside pools of processes and other packages; NAMES: sides whose names begin so."""
    sides = [side for side in ALL if not names or side.name.startswith(names)]
    if quick:
        sizes, turns = [(50, 50_000)], 1
    lines = [f"{machine()} Medians of {turns}, sides in turn.", ""]
    click.echo(lines[0])
    given_up: dict[tuple[str, int, str], str] = {}
    for symbols, messages in sizes or SIZES:
        larger = min((m for s, m in sizes or SIZES if s == symbols and m > messages), default=messages)
        with tempfile.TemporaryDirectory(prefix="strand-peers-") as name:
            folder = Path(name)
            write_events(folder, symbols, messages)
            for job in JOBS:
                known = {side: why for (of, n, side), why in given_up.items() if (of, n) == (job, symbols)}
                times = measure(sides, job, folder, Rules(turns, patience), known)
                found = list(table(job, symbols, messages, len(np.load(folder / f"{job}.npy", mmap_mode="r")), times))
                click.echo("\n".join(found))
                lines += found
                for side, at in times.items():
                    if (why := too_slow(at, messages, larger, patience)) is not None:
                        given_up[job, symbols, side] = why
                if out:
                    put_into(out, lines)


if __name__ == "__main__":
    main()
