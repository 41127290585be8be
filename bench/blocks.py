"""A raw ITCH day in blocks, beside a plain loop, one publisher, and a file that each process scans for its own symbols.

    python bench/blocks.py                       10,000,000 messages, 9 turns, all handlers
    python bench/blocks.py --turns 5 --messages 3000000 --only spin20
    python bench/blocks.py --dbn                 the same orders as a DBN file
    python bench/blocks.py --files 2             split by symbol into files, which are merged

``loop``: `workers=0`. ``publish``: one publisher and one worker, `ingest="publish"`. ``blocks`` and ``auto``: the same
threads with `ingest="blocks"` and with the choice left to the run. ``split``: two processes, each of which reads the
whole file and makes ticks of its own half of the symbols alone, dealt by counts, the busiest first: static routing
without a publisher. Each way is a process of its own that replays twice and tells the second time; all take turns on
the same two cores. A speed is ticks a second by the clock; behind it stands the ratio to ``loop``, turn by turn.

    python bench/blocks.py outputs               handlers whose outputs go to Parquet files

    python bench/blocks.py arrays                arrays of 64-byte ticks in memory, beside a loop and static routings
    python bench/blocks.py arrays --neighbour    while a thread keeps the worker's core busy

The static routings are rings in C (csrc/lab/bench). ``static_share``: the publisher handles a share too, symbols modulo
all threads. ``static_share_lpt``: largest first, and the publisher's share leaves it time to publish.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from turns import in_turns, ratios

import strand
from strand.bench.ways import WayName
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.write.conversion import convert

BUILD: Final = Path(__file__).resolve().parent.parent / "build"

HANDLERS = {
    "count": '"count"',
    "spin0": "strand.handlers.spin(work=0)",
    "spin5": "strand.handlers.spin(work=5)",
    "spin20": "strand.handlers.spin(work=20)",
    "spin100": "strand.handlers.spin(work=100)",
    "book": '"book"',
}
OUTPUTS = {
    "trades": ('"trades"', ["trades"]),
    "bbo": ('"bbo"', ["bbo"]),
    "chain": ('strand.chain("bbo", "trades")', ["bbo", "trades"]),
    "bars": ('strand.handlers.bars(every="1s")', ["bars"]),
}
WAYS = ("loop", "publish", "blocks", "auto", "split")
DAY = "2026-01-05"
TURN = """
import json, sys, time
import strand
paths, options, handler = *map(json.loads, sys.argv[1:]), {handler}
for turn in range(2):
    print("ready", flush=True)
    sys.stdin.readline()
    result = strand.replay(paths if len(paths) > 1 else paths[0], handler, timeline=False, **options)
print(json.dumps([time.time(), result.wall_s, result.ticks, result.statistics.handled_in_blocks]), flush=True)
"""


def day(folder: Path, messages: int, symbols: int) -> Path:
    """A generated day, made once."""
    from strand.feeds.synthetic import SyntheticFeed

    path = folder / f"blocks-{messages}-{symbols}.itch50"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        SyntheticFeed(symbols, messages, seed=7, date=DAY).write_itch(path)
    return path


def dbn_day(itch: Path) -> Path:
    """The day's ticks as MBO records, made once."""
    path = itch.with_suffix(".mbo.dbn")
    if not path.exists():
        convert(itch, path, date=DAY, on_unwritable="skip")
    return path


def divided(path: Path, files: int) -> list[Path]:
    """The day as so many files with some of its symbols each, made once. Messages of no symbol are in each file."""
    paths = [path.with_name(f"{path.stem}-{part}-of-{files}.itch50") for part in range(files)] if files > 1 else [path]
    if not all(each.exists() for each in paths):
        data, at = path.read_bytes(), 0
        made = [bytearray() for _ in paths]
        while at < len(data):
            end = at + 2 + int.from_bytes(data[at : at + 2], "big")
            locate = int.from_bytes(data[at + 3 : at + 5], "big")
            for part in [made[locate % files]] if locate else made:
                part += data[at:end]
            at = end
        for each, part in zip(paths, made, strict=True):
            with atomic_write(each) as file:
                file.write(part)
    return paths


def dated(paths: Sequence[Path]) -> dict[str, str]:
    """The options that tell the files' day."""
    return {} if paths[0].suffix == ".dbn" else {"date": DAY}


def halves(paths: Sequence[Path]) -> list[list[str]]:
    """The symbols of each of two processes: the busiest first, each to the one that has fewer ticks."""
    import strand

    result = strand.replay([*paths], "count", workers=0, timeline=False, **dated(paths))
    found: list[list[str]] = [[], []]
    ticks = [0, 0]
    for n, name in sorted(zip(result.ticks_by_symbol.tolist(), result.symbols, strict=False), reverse=True):
        if n:
            least = ticks.index(min(ticks))
            found[least].append(name)
            ticks[least] += n
    return found


def speed(
    paths: Sequence[Path], handler: str, way: str, parts: Sequence[list[str]], **others: object
) -> tuple[float, float]:
    """Ticks a second of one turn, and the share that was handled in blocks. ``others``: further options."""
    options: list[dict[str, object]] = [{"workers": 0}]
    if way == "split":
        options = [{"workers": 0, "symbols": part} for part in parts]
    elif way != "loop":
        options = [{"workers": 1, "ingest": way}]
    code = TURN.format(handler=handler)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, json.dumps([*map(str, paths)]), json.dumps(each | others | dated(paths))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for each in options
    ]
    begun = 0.0
    for _ in range(2):
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        begun = time.time()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
    told = [json.loads(child.communicate()[0]) for child in children]
    ticks = sum(each[2] for each in told)
    spent = max(each[0] for each in told) - begun if way == "split" else told[0][1]
    return ticks / spent, sum(each[3] for each in told) / ticks


@click.group(help=(__doc__ or "").partition("\n")[0], invoke_without_command=True)
@click.pass_context
@click.option("--messages", default=10_000_000, show_default=True, help="Messages of the day.")
@click.option("--symbols", default=8_172, show_default=True, help="Symbols of the day.")
@click.option("--turns", default=9, show_default=True, help="Turns of each way.")
@click.option("--only", type=click.Choice(sorted(HANDLERS)), multiple=True, help="Handlers, in place of all.")
@click.option("--dbn", is_flag=True, help="The day as a DBN file.")
@click.option("--files", default=1, show_default=True, help="Files of the day, each with some of its symbols.")
def command(
    context: click.Context, messages: int, symbols: int, turns: int, only: tuple[str, ...], *, dbn: bool, files: int
) -> None:
    if context.invoked_subcommand is not None:
        return
    paths = [dbn_day(each) if dbn else each for each in divided(day(BUILD, messages, symbols), files)]
    parts = halves(paths)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    print(f"{'':9}" + "".join(f"{way:>24}" for way in WAYS))
    for handler in only or HANDLERS:
        print(told(paths, handler, HANDLERS[handler], WAYS, turns=turns, parts=parts), flush=True)


def told(
    paths: Sequence[Path],
    name: str,
    handler: str,
    ways: Sequence[str],
    *,
    turns: int,
    parts: Sequence[list[str]] = (),
    **others: object,
) -> str:
    """The line of a handler: medians of all ways, which take turns."""
    found = in_turns({way: partial(speed, paths, handler, way, parts, **others) for way in ways}, turns, warm=0)
    speeds = {way: [rate / 1e6 for rate, _ in found[way]] for way in ways}
    line = f"{name:9}"
    for way in ways:
        ratio = statistics.median(ratios(speeds[way], speeds["loop"]))
        share = f", {statistics.median(share for _, share in found[way]):.0%}" if way in ("blocks", "auto") else ""
        line += f"{f'{statistics.median(speeds[way]):.1f} M/s, x{ratio:.2f}{share}':>24}"
    return line


@command.command()
@click.option("--messages", default=10_000_000, show_default=True, help="Messages of the day.")
@click.option("--symbols", default=8_172, show_default=True, help="Symbols of the day.")
@click.option("--turns", default=5, show_default=True, help="Turns of each way.")
@click.option("--only", type=click.Choice(sorted(OUTPUTS)), multiple=True, help="Handlers, in place of all.")
def outputs(*, messages: int, symbols: int, turns: int, only: tuple[str, ...]) -> None:
    """Handlers with outputs, which go to Parquet files."""
    paths, ways = [day(BUILD, messages, symbols)], WAYS[:4]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    print(f"{'':9}" + "".join(f"{way:>24}" for way in ways))
    for name in only or OUTPUTS:
        handler, files = OUTPUTS[name]
        out = {each: str(BUILD / f"{each}.parquet") for each in files}
        print(told(paths, name, handler, ways, turns=turns, out=out), flush=True)


# ---- arrays

MIXES: Final = ("8,172 symbols", "50 symbols, Zipf 1.2", "one symbol has 40 %", "1,000,000 symbols")
ARRAY_WAYS: Final[tuple[WayName, ...]] = (
    "serial", "static", "static_lpt", "static_share", "static_share_lpt", "strand_publish", "strand_blocks", "strand",
)  # fmt: skip


def mix(name: str, n: int) -> tuple[Any, int]:
    """The ticks of a mix, made once, and how many symbols it has."""
    from strand.bench.streams import with_hot_symbol
    from strand.feeds.synthetic import route_stream

    symbols = {"50 symbols, Zipf 1.2": 50, "1,000,000 symbols": 1_000_000}.get(name, 8_172)
    path = BUILD / f"array-{MIXES.index(name)}-{n}.npy"
    if not path.exists():
        BUILD.mkdir(exist_ok=True)
        if name == "one symbol has 40 %":
            ticks = with_hot_symbol(n, symbols, 0.4)
        else:
            ticks = route_stream(n, symbols, 1.2 if symbols == 50 else "calibrated")
        with atomic_write(path) as file:
            np.save(file, ticks)
    return np.ascontiguousarray(np.load(path)), symbols


def told_of_arrays(runs: Path) -> None:
    """Prints medians of all runs in a file, and ratios to the best other way, turn by turn."""
    found: dict[tuple[str, int, int], dict[str, list[float]]] = {}
    for line in runs.read_text().splitlines():
        what, ticks, work, way, rate = json.loads(line)
        found.setdefault((what, ticks, work), {}).setdefault(way, []).append(rate)
    ways = [*ARRAY_WAYS]
    heads = ["symbols", "ticks", "steps", *ways, "choice to the best"]
    print(f"| {' | '.join(heads)} |\n" + "|---" * len(heads) + "|")
    for (what, ticks, work), rates in sorted(found.items()):
        middle = {way: statistics.median(rates[way]) for way in ways}
        best = max(ways, key=lambda way: middle[way])
        n = min(len(rates[way]) for way in ways)
        ratio = statistics.median(rates["strand"][i] / max(rates[way][i] for way in ways[:-1]) for i in range(n))
        cells = [f"**{middle[way]:.1f}**" if way == best else f"{middle[way]:.1f}" for way in ways]
        print(f"| {what} | {ticks:,} | {work} | {' | '.join(cells)} | {ratio:.2f} |")


@command.command()
@click.option("--ticks", default=2_000_000, show_default=True, help="Ticks of each array.")
@click.option("--turns", default=5, show_default=True, help="Turns of each way.")
@click.option("--work", type=int, multiple=True, default=(0, 5, 20, 100, 300), show_default=True, help="Steps a tick.")
@click.option("--only", type=click.Choice(MIXES), multiple=True, help="Mixes, in place of all.")
@click.option("--neighbour", is_flag=True, help="A process burns the worker's core meanwhile.")
@click.option("--read-only", is_flag=True, help="Nobody can change the arrays, so Strand does not copy their ticks.")
@click.option("--told", type=click.Path(path_type=Path), default=BUILD / "array-runs.jsonl", help="A run a line.")
@click.option("--tell", is_flag=True, help="Shows what was told before, and runs nothing.")
def arrays(
    *,
    ticks: int,
    turns: int,
    work: tuple[int, ...],
    only: tuple[str, ...],
    neighbour: bool,
    read_only: bool,
    told: Path,
    tell: bool,
) -> None:
    """Arrays of 64-byte ticks, beside a loop and static routings. Strand gets them twice; the second time counts."""
    from strand.bench.ways import Job, expected_rows, run
    from strand.binding.lab import Neighbour
    from strand.machine import choose_cores

    if tell:
        told_of_arrays(told)
        return
    cores = choose_cores(1, None)
    around = Neighbour if neighbour else lambda _: nullcontext()
    way_of_run = f"{', a busy neighbour' if neighbour else ''}{', read-only' if read_only else ''}"
    jobs = []
    for name in only or MIXES:
        made, symbols = mix(name, ticks)
        if read_only:
            made = made.copy()  # not a view of an array that can be changed
            made.flags.writeable = False
        counts = np.bincount(made["instrument_id"], minlength=symbols)
        for steps in work:
            job = Job(made, symbols, counts, strand.handlers.spin(steps), cores, counts_known=False, again=True)
            jobs.append((name, steps, job, expected_rows(job)))
    with told.open("a") as to:
        for turn in range(turns):
            for name, steps, job, expected in jobs:
                for way in ARRAY_WAYS[:: 1 if turn % 2 else -1]:
                    with around(cores.workers[0] or 0):
                        outcome, _ = run(way, job, expected)
                    told_now = json.dumps([name + way_of_run, ticks, steps, way, ticks / outcome.seconds / 1e6])
                    print(told_now, file=to, flush=True)
    told_of_arrays(told)


if __name__ == "__main__":
    command()
