"""Days of ITCH beside itch-book, handlers beside the full book, and many symbols beside few.

    python bench/days.py                        all parts, 9 turns, a made-up day of 10,000,000 messages, 8,172 symbols
    python bench/days.py parquet --messages 3000000 --turns 5
    python bench/days.py --old ../old           with another checkout, which `make install` has been run in
    pip install 'itch-book[cli]'                the other, which is named where it is missing

``memory``: best bids and asks and trades of a .gz day into memory, on one core, and what inflating alone takes, by
strand's library and by Python's, which itch-book uses. ``parquet``: the same into Parquet files, on one core and on
two; itch-book computes no checksum of the file. Each is a process of its own, and all take turns.

``handlers``: processor time of replays of the unpacked day on one core, as multiples of the full book's. ``symbols``:
ticks per second of processor time of 5,000,000 ticks of few and of many symbols in a .npy file, into ``count``. The
replays take turns in one process, without its start, and a first turn that warms it does not count.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
from turns import in_turns, lines, ratios, run, spread

DATE, SYMBOLS, TICKS = "2026-01-05", 8_172, 5_000_000
FOLDER = Path(__file__).parent.parent / "build"
HANDLERS = ("book", "count", "trades", "vwap", "bars", "bbo", "bbo and trades")
#: In a process of a checkout: the processor time of replays in turns, by the name of each.
REPLAYS = """
import json, os, resource, sys
import strand
turns, workers, *jobs = json.loads(sys.argv[1])
handlers = {"bars": strand.bars("1m"), "bbo and trades": strand.chain("bbo", "trades")}
found = {name: [] for name, _, _ in jobs}
for turn in range(turns + 1):
    for name, file, options in jobs[:: 1 if turn % 2 else -1]:
        before = resource.getrusage(resource.RUSAGE_SELF)
        strand.replay(file, handlers.get(name, name) if options else "count", workers=workers, feed_options=options)
        after = resource.getrusage(resource.RUSAGE_SELF)
        found[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
print(json.dumps({name: values[1:] for name, values in found.items()}))
"""
INFLATE = """
import sys
from pathlib import Path
from strand.feeds.io.streams import open_stream
data = memoryview(bytearray(1 << 20))
with open_stream(Path(sys.argv[1])) as stream:
    while stream.readinto(data):
        pass
"""
GZIP = """
import gzip, sys
with gzip.open(sys.argv[1]) as stream:
    while stream.read(8 << 20):
        pass
"""
CHAIN = f"""
import sys
import strand
out = dict(zip(("bbo", "trades"), sys.argv[3:])) or None
strand.replay(sys.argv[1], strand.chain("bbo", "trades"), workers=int(sys.argv[2]), out=out,
              feed_options={{"date": "{DATE}"}})
"""
FEED = f"""
import datetime, sys
from itch_book import Feed
batches = Feed(sys.argv[1], date=datetime.date.fromisoformat("{DATE}")).batches(tables=("bbo", "trades"))
kept = list(batches)
"""


def day(messages: int) -> tuple[Path, Path]:
    """A made-up day, and the same packed. They stay in the build folder."""
    from strand.feeds.synthetic import SyntheticFeed

    plain = FOLDER / f"day-{messages}.itch50"
    packed = plain.with_suffix(".itch50.gz")
    if not (plain.exists() and packed.exists()):
        FOLDER.mkdir(exist_ok=True)
        SyntheticFeed(SYMBOLS, messages, seed=1, date=DATE).write_itch(plain)
        partial = packed.with_suffix(".partial")  # gzip that is killed leaves what it has written
        with partial.open("wb") as file:
            subprocess.run(["gzip", "-c", "-6", str(plain)], stdout=file, check=True)
        partial.replace(packed)
    return plain, packed


def ticks_of(symbols: int) -> Path:
    """Ticks of so many symbols, each as likely as any other."""
    path = FOLDER / f"ticks-{TICKS}-{symbols}.npy"
    if not path.exists():
        import numpy as np

        import strand
        from strand.feeds.io.atomic_write import atomic_write

        FOLDER.mkdir(exist_ok=True)
        ticks = strand.ticks.zeros(TICKS)
        ticks["instrument_id"] = np.random.default_rng(1).integers(0, symbols, TICKS)
        ticks["kind"], ticks["ts_recv"] = 1, np.arange(1, TICKS + 1)
        with atomic_write(path) as file:
            np.save(file, ticks)
    return path


def beside_rival(file: Path, turns: int, pythons: dict[str, str], cores: int, *, parquet: bool) -> None:
    """Prints a table of the programs on so many cores."""
    on = [shutil.which("taskset") or "taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[-cores:]))]
    out = [str(FOLDER / f"{name}.parquet") for name in ("bbo", "trades")] if parquet else []
    commands = {
        name: [*on, python, "-c", CHAIN, str(file), str(max(1, cores - 1)), *out] for name, python in pythons.items()
    }
    if not parquet:
        commands["inflating alone"] = [*on, sys.executable, "-c", INFLATE, str(file)]
        commands["inflating by gzip"] = [*on, sys.executable, "-c", GZIP, str(file)]
    converter, rivals = shutil.which("itch2parquet", path=str(Path(sys.executable).parent)), ["itch-book"]
    if converter is None:
        click.echo("itch-book is not installed: pip install 'itch-book[cli]'")
        rivals = []
    elif parquet:
        arguments = ["convert", "--no-md5", "--date", DATE, str(file), str(FOLDER / "itch-book")]
        commands["itch-book"] = [*on, converter, *arguments]
    else:
        commands["itch-book"] = [*on, sys.executable, "-c", FEED, str(file)]
    found = in_turns({name: partial(run, command) for name, command in commands.items()}, turns)
    click.echo("\n".join(lines(found, rivals)))


def replays(python: str, turns: int, workers: int, jobs: Sequence[tuple[str, Path, object]]) -> dict[str, list[float]]:
    """Processor time of replays, on one core: name, file, and options of the feed."""
    on = [shutil.which("taskset") or "taskset", "-c", str(max(os.sched_getaffinity(0)))]
    asked = json.dumps([turns, workers, *[(name, str(file), options) for name, file, options in jobs]])
    done = subprocess.run([*on, python, "-c", REPLAYS, asked], capture_output=True, text=True, check=True)
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


@click.command(help=__doc__)
@click.argument("parts", nargs=-1, type=click.Choice(["memory", "parquet", "handlers", "symbols"]))
@click.option("--turns", default=9, show_default=True, type=click.IntRange(min=1))
@click.option("--messages", default=10_000_000, show_default=True, type=click.IntRange(min=1))
@click.option("--old", type=click.Path(exists=True, path_type=Path), help="Another checkout.")
def main(parts: tuple[str, ...], turns: int, messages: int, old: Path | None) -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else what was never imported is compiled in every turn
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    pythons = {"strand": sys.executable} | ({} if old is None else {"old": str(old.resolve() / ".venv/bin/python")})
    click.echo(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}, {turns} turns")
    for part in parts or ("memory", "parquet", "handlers", "symbols"):
        if part in ("memory", "parquet"):
            packed = day(messages)[1]
            for cores in (1, 2) if part == "parquet" else (1,):
                click.echo(f"{part}, {messages:,} messages, {cores} cores")
                beside_rival(packed, turns, pythons, cores, parquet=part == "parquet")
            continue
        for name, python in pythons.items():
            for workers in (1, 0):
                if part == "handlers":
                    jobs = [(handler, day(messages)[0], {"date": DATE}) for handler in HANDLERS]
                    found = replays(python, turns, workers, jobs)
                    for handler, values in found.items():
                        of_book = spread(ratios(values, found["book"]))
                        click.echo(f"{name}, workers={workers}, {handler:15} {spread(values)} s, {of_book} of book")
                else:
                    jobs = [(f"{n:,} symbols", ticks_of(n), {}) for n in (50, 8_172, 1_000_000)]
                    for symbols, values in replays(python, turns, workers, jobs).items():
                        rates = [TICKS / value / 1e6 for value in values]
                        click.echo(f"{name}, workers={workers}, {symbols:17} {spread(rates)} million per second")


if __name__ == "__main__":
    main()
