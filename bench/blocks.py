"""A raw ITCH day in blocks, beside a plain loop, one publisher, and a file that each process scans for its own symbols.

    python bench/blocks.py                       10,000,000 messages, 9 turns, all handlers
    python bench/blocks.py --turns 5 --messages 3000000 --only spin20

``loop``: `workers=0`. ``publish``: one publisher and one worker, `ingest="publish"`. ``blocks`` and ``auto``: the same
threads with `ingest="blocks"` and with the choice left to the run. ``split``: two processes, each of which reads the
whole file and makes ticks of its own half of the symbols alone, dealt by counts, the busiest first: static routing
without a publisher. Each way is a process of its own that replays twice and tells the second time; all take turns on
the same two cores. A speed is ticks a second by the clock; behind it stands the ratio to ``loop``, turn by turn.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import click

HANDLERS = {
    "count": '"count"',
    "spin0": "strand.handlers.spin(work=0)",
    "spin5": "strand.handlers.spin(work=5)",
    "spin20": "strand.handlers.spin(work=20)",
    "spin100": "strand.handlers.spin(work=100)",
    "book": '"book"',
}
WAYS = ("loop", "publish", "blocks", "auto", "split")
DAY = "2026-01-05"
TURN = """
import json, sys, time
import strand
path, handler, options = sys.argv[1], {handler}, json.loads(sys.argv[2])
for turn in range(2):
    print("ready", flush=True)
    sys.stdin.readline()
    result = strand.replay(path, handler, date="{day}", timeline=False, **options)
print(json.dumps([time.time(), result.wall_s, result.ticks, result.statistics.handled_in_blocks]), flush=True)
"""


def day(folder: Path, messages: int, symbols: int) -> Path:
    """A generated day, made once."""
    from strand.feeds.synthetic import SyntheticFeed

    path = folder / f"blocks-{messages}.itch50"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        SyntheticFeed(symbols, messages, seed=7, date=DAY).write_itch(path)
    return path


def halves(path: Path) -> list[list[str]]:
    """The symbols of each of two processes: the busiest first, each to the one that has fewer ticks."""
    import strand

    result = strand.replay(path, "count", workers=0, date=DAY, timeline=False)
    found: list[list[str]] = [[], []]
    ticks = [0, 0]
    for n, name in sorted(zip(result.ticks_by_symbol.tolist(), result.symbols, strict=False), reverse=True):
        if n:
            least = ticks.index(min(ticks))
            found[least].append(name)
            ticks[least] += n
    return found


def speed(path: Path, handler: str, way: str, parts: list[list[str]]) -> tuple[float, float]:
    """Ticks a second of one turn, and the share that was handled in blocks."""
    options: list[dict[str, object]] = [{"workers": 0}]
    if way == "split":
        options = [{"workers": 0, "symbols": part} for part in parts]
    elif way != "loop":
        options = [{"workers": 1, "ingest": way}]
    code = TURN.format(handler=HANDLERS[handler], day=DAY)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), json.dumps(each)],
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


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.option("--messages", default=10_000_000, show_default=True, help="Messages of the day.")
@click.option("--symbols", default=8_172, show_default=True, help="Symbols of the day.")
@click.option("--turns", default=9, show_default=True, help="Turns of each way.")
@click.option("--only", type=click.Choice(sorted(HANDLERS)), multiple=True, help="Handlers, in place of all.")
def main(messages: int, symbols: int, turns: int, only: tuple[str, ...]) -> None:
    path = day(Path(__file__).resolve().parent.parent / "build", messages, symbols)
    parts = halves(path)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    print(f"{'':9}" + "".join(f"{way:>24}" for way in WAYS))
    for handler in only or HANDLERS:
        speeds: dict[str, list[float]] = {way: [] for way in WAYS}
        shares: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(turns):
            for way in WAYS[:: 1 if turn % 2 else -1]:
                rate, share = speed(path, handler, way, parts)
                speeds[way].append(rate / 1e6)
                shares[way].append(share)
        line = f"{handler:9}"
        for way in WAYS:
            ratio = statistics.median(a / b for a, b in zip(speeds[way], speeds["loop"], strict=True))
            share = f", {statistics.median(shares[way]):.0%}" if way in ("blocks", "auto") else ""
            line += f"{f'{statistics.median(speeds[way]):.1f} M/s, x{ratio:.2f}{share}':>24}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
