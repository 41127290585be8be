"""One checkout against another on this machine: ratios of speed, taken in pairs, one after the other.

    python bench/paired.py OLD NEW [books] [bars] [route] [--pairs 9]

OLD and NEW are checkouts that `make install` has been run in; each runs its own benchmarks. The order changes from pair
to pair, so that what slows the machine for a while slows both. A ratio above 1 says that NEW is faster. A row is the
median of its pairs, between the least and the greatest of them. OLD may be NEW: the ratios then say how far the
machine's noise goes, and a result counts where these are within 1 %.

``books``: a generated day into full books on one core and on all. ``bars``: bars of trades in memory. ``route``: what
`strand bench route` has for the handlers and streams of the README's table on two cores, and their geometric mean.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean, median

import click

ROUTES = [(skew, symbols, work) for skew, symbols in (("calibrated", 8172), ("1.2", 50)) for work in (1, 5, 30, 100)]
Figures = dict[str, float]
TURNS = 3


def run(checkout: Path, *arguments: str) -> list[dict[str, object]]:
    """What a benchmark of a checkout prints as JSON, a line an object."""
    python = checkout / ".venv/bin/python"
    found = subprocess.run([python, *arguments], cwd=checkout, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in found.stdout.splitlines() if line.startswith(("{", "["))]


def books(checkout: Path, day: Path) -> Figures:
    """Messages a second, by the clock and of processor time: medians of three turns, each in a process of its own."""
    found: Figures = {}
    for name, cores in (("one core", 1), ("2 cores", 2)):
        turns = [run(checkout, "bench/books.py", "--once", str(day), str(cores), "book", "1")[0] for _ in range(TURNS)]
        for what, spent in (("", "wall_s"), (", processor time", "processor_s")):
            found[f"books, {name}{what}"] = median(float(str(t["ticks"])) / float(str(t[spent])) for t in turns)
    return found


def bars(checkout: Path, trades: int) -> Figures:
    """Trades a second, in memory."""
    (parts,) = run(
        checkout, "bench/bars.py", "memory", "--trades", str(trades), "--turns", str(TURNS), "--json", "--cores", "2"
    )
    part = parts[0]  # type: ignore[index]
    return {"bars in memory": trades / float(part["seconds"]["strand"])}


def route(checkout: Path, skew: str, symbols: int, work: int, ticks: int) -> Figures:
    """Million ticks a second through strands."""
    options = ("--skew", skew, "--symbols", str(symbols), "--work", str(work), "--ticks", str(ticks))
    (found,) = run(
        checkout, "-m", "strand", "bench", "route", *options, "--workers", "1", "--rounds", str(TURNS), "--json"
    )
    return {f"route, {skew}, {symbols} symbols, {work} steps": float(found["mticks_s"]["strand"])}  # type: ignore[index]


def pairs_of(old: Path, new: Path, pairs: int, measure: Callable[[Path], Figures]) -> Iterator[tuple[str, list[float]]]:
    """The ratios of each figure, new to old."""
    ratios: dict[str, list[float]] = {}
    for pair in range(pairs):
        first, second = (old, new) if pair % 2 == 0 else (new, old)
        one, other = measure(first), measure(second)
        was, now = (one, other) if pair % 2 == 0 else (other, one)
        for name, value in now.items():
            ratios.setdefault(name, []).append(value / was[name])
    yield from ratios.items()


@click.command()
@click.argument("old", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("parts", nargs=-1, type=click.Choice(["books", "bars", "route"]))
@click.option("--pairs", default=9, show_default=True, type=click.IntRange(min=1))
@click.option("--count", default=3_000_000, show_default=True, help="Messages of the day, trades of bars, ticks.")
def main(old: Path, new: Path, parts: tuple[str, ...], pairs: int, count: int) -> None:
    """One checkout against another: medians of paired ratios, new to old."""
    old, new = old.resolve(), new.resolve()

    def show(measure: Callable[[Path], Figures]) -> list[float]:
        found = []
        for name, ratios in pairs_of(old, new, pairs, measure):
            found.append(median(ratios))
            click.echo(f"{name:45} {found[-1]:6.3f}   {min(ratios):.3f} to {max(ratios):.3f}")
        return found

    for part in parts or ("books", "bars", "route"):
        if part == "books":
            file = _made(new, count)
            show(lambda checkout, file=file: books(checkout, file))
        elif part == "bars":
            show(lambda checkout: bars(checkout, count))
        else:
            rows = [show(lambda checkout, one=one: route(checkout, *one, count))[0] for one in ROUTES]
            click.echo(f"{'route, geometric mean':45} {geometric_mean(rows):6.3f}   {min(rows):.3f} to {max(rows):.3f}")


def _made(checkout: Path, messages: int) -> Path:
    """A generated day, kept in the checkout's build folder: its name has its size."""
    path = checkout / "build" / f"2026-01-05-{messages}.itch50"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        options = ("--symbols", "8172", "--messages", str(messages), "--seed", "7", "--date", "2026-01-05")
        subprocess.run(
            [checkout / ".venv/bin/python", "-m", "strand", "gen", "itch", *options, "--out", path], check=True
        )
    return path


if __name__ == "__main__":
    main()
