"""Full books of a day, from a file to the last book: messages a second on one core and on all, and from .gz.

    python bench/books.py [FILE] [--messages 10000000] [--symbols 8172] [--turns 5] [--json]

Each turn is a process of its own that may use so many cores and no more, decoding included; the ways take turns.
A worker a core but the publisher's has one, and from .gz but two: inflating takes one whole. Rates
are medians of the turns by the clock on the wall, and beside it by the processor time all threads took together: that
is the one to look at where others use the machine. Without FILE a day is generated, the same each time, and deleted
behind it.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import click
from turns import alone, in_turns, processor_s

from strand import replay
from strand.feeds.io.streams import open_stream
from strand.feeds.synthetic import SyntheticFeed

DATE = "2026-01-05"


@dataclass(frozen=True)
class Way:
    """``handler``: "" only inflates. ``cores``: how many the process may use; ``spare``: those no worker has, for who
    publishes and who inflates."""

    name: str
    file: Path
    cores: int
    handler: str = "book"
    spare: int = 1


@dataclass(frozen=True)
class Turn:
    """Figures of one process: seconds on the wall and of processor time, for so many ticks."""

    ticks: int
    wall_s: float
    processor_s: float
    order_bytes: float


def once(way: Way) -> Turn:
    """A turn, in a process of its own."""
    file, before, start = way.file, processor_s(), time.perf_counter()
    if not way.handler:
        data = memoryview(bytearray(1 << 20))
        with open_stream(file) as stream:
            while stream.readinto(data):
                pass
        return Turn(0, time.perf_counter() - start, processor_s() - before, 0.0)
    result = replay(file, way.handler, workers=max(1, way.cores - way.spare), feed_options={"date": DATE})
    books = result.books if way.handler == "book" else None
    each = 0.0 if books is None else books.order_bytes / max(1, books.live_orders)
    return Turn(result.ticks, result.wall_s, processor_s() - before, each)


def report(way: Way, turns: list[Turn], messages: int) -> dict[str, object]:
    wall, processor = (median(getattr(turn, name) for turn in turns) for name in ("wall_s", "processor_s"))
    return {
        "way": way.name,
        "cores": way.cores,
        "turns": len(turns),
        "million_a_s": messages / wall / 1e6,
        "lowest": messages / max(turn.wall_s for turn in turns) / 1e6,
        "highest": messages / min(turn.wall_s for turn in turns) / 1e6,
        "million_a_processor_s": messages / processor / 1e6,
        "bytes_an_order": median(turn.order_bytes for turn in turns),
    }


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--messages", default=10_000_000, show_default=True)
@click.option("--symbols", default=8_172, show_default=True)
@click.option("--turns", default=5, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON a way.")
def main(file: Path | None, messages: int, symbols: int, turns: int, as_json: bool) -> None:
    """Full books of a day: messages a second."""
    with tempfile.TemporaryDirectory(prefix="strand-bench-books-") as folder:
        packed = Path(folder) / "day.itch50.gz"
        if file is None:
            file = Path(folder) / "day.itch50"
            SyntheticFeed(symbols, messages, seed=1, date=DATE).write_itch(file)
        with packed.open("wb") as out:
            subprocess.run(["gzip", "-c", "-1", str(file)], stdout=out, check=True)
        cores = min(4, len(os.sched_getaffinity(0)))
        ways = [Way("one core", file, 1), Way("one core, count", file, 1, "count")]
        if cores > 1:
            ways += [Way(f"{cores} cores", file, cores), Way(f"{cores} cores, .gz", packed, cores, spare=2)]
        ways.append(Way("inflate alone", packed, 1, ""))
        allowed = sorted(os.sched_getaffinity(0))
        sides = {way.name: partial(alone, once, way, cores=allowed[-way.cores :]) for way in ways}
        found = in_turns(sides, turns, warm=0)
        ticks = found["one core"][0].ticks
        for way in ways:
            line = report(way, found[way.name], ticks)
            print(json.dumps(line) if as_json else _line(line))


def _line(found: dict[str, object]) -> str:
    each = found["bytes_an_order"]
    rates = "{million_a_s:6.2f} M/s ({lowest:.2f} to {highest:.2f}), {million_a_processor_s:6.2f} M a processor second"
    return f"{found['way']:<18}" + rates.format(**found) + (f", {each:.0f} bytes an order" if each else "")


if __name__ == "__main__":
    main()
