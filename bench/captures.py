"""Readers of binary formats beside those of others, interleaved, on one core.

    python bench/captures.py iex [--messages 2000000] [--turns 5] [--reader COMMAND]
    python bench/captures.py bi5 [--hours 24] [--turns 5]

The files are made up. ``iex``: a capture of DEEP in packets of one to eight messages, as a busy minute has them.
``meatpy`` (pip install meatpy) makes an object of each message; it gets a twentieth of the messages. ``--reader`` is a
program of another reader: it gets the file's path as its argument, prints the number of messages, and what it took is
measured whole. ``bi5``: hours of 60,000 quotes of Dukascopy. LZMA alone, the floor, gives the bytes of all hours and
reads none of them; ``numpy`` reads them as arrays of its own.
"""

from __future__ import annotations

import datetime as dt
import lzma
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import bi5_reference as bi5
import iex_reference as iex
import pcap_reference as capture
from turns import in_turns, is_there, taken

from strand import feeds

_SIZES = (1, 1, 1, 2, 3, 8)
_QUOTES = 60_000


def make(path: Path, messages: int) -> None:
    """A capture of levels and trades of 2,000 symbols."""
    rng, frames, at, first = random.Random(1), [], iex.OPEN, 1
    while first <= messages:
        bodies = []
        for number in range(first, min(first + rng.choice(_SIZES), messages + 1)):
            at += rng.randint(0, 2000)
            symbol, price = f"S{int(rng.paretovariate(0.8)) % 2000}", 990_000 + rng.randint(-500, 500)
            if rng.random() < 0.05:
                bodies.append(iex.message("T", rng.choice([0, 0x20]), at, symbol, rng.randint(1, 400), price, number))
            else:
                size = rng.choice([0, 100, 200, 300])
                bodies.append(iex.message(rng.choice("85"), rng.choice([0, 1, 1]), at, symbol, size, price))
        frames.append((at + 1000, iex.datagram(iex.segment(first, bodies, protocol=iex.DEEP))))
        first += len(bodies)
    path.write_bytes(capture.pcap(frames, nanoseconds=False))


def by_strand(path: Path) -> int:
    with feeds.open(path) as feed:
        return sum(len(batch) for batch in feed.batches())


def by_meatpy(path: Path) -> int:
    from meatpy.iex_deep import IEXDEEPMessageReader

    with IEXDEEPMessageReader(path) as reader:
        return sum(1 for _ in reader)


def by_program(command: str) -> Callable[[Path], int]:
    return lambda path: int(subprocess.run([command, str(path)], check=True, capture_output=True, text=True).stdout)


def by_lzma(folder: Path) -> int:
    return sum(len(lzma.decompress(path.read_bytes())) // bi5.ENTRY.size for path in sorted(folder.rglob("*.bi5")))


def by_numpy(folder: Path) -> int:
    entry = np.dtype([("ms", ">u4"), ("ask", ">u4"), ("bid", ">u4"), ("ask_volume", ">f4"), ("bid_volume", ">f4")])
    count = 0
    for path in sorted(folder.rglob("*.bi5")):
        read = np.frombuffer(lzma.decompress(path.read_bytes()), entry)
        count += len(read.astype(entry.newbyteorder("=")))
    return count


def compare(sides: dict[str, tuple[Callable[[Path], int], Path, int]], turns: int, unit: str) -> None:
    """Rates of all sides, turn by turn. A side is its reader, its file and the number that is right."""

    def rate(name: str) -> float:
        read, path, count = sides[name]
        found, its = taken(read, path)
        assert found == count, name
        return found / its.wall / 1e6

    rates = in_turns({name: partial(rate, name) for name in sides}, turns, warm=0)
    ours = statistics.median(rates["strand"])
    for name, seen in rates.items():
        rate = statistics.median(seen)
        click.echo(f"{name:<12} {rate:8.2f} million {unit}/s ({min(seen):.2f} to {max(seen):.2f}), {ours / rate:.2f}")


@click.group(help=__doc__)
def main() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@main.command("iex")
@click.option("--messages", default=2_000_000)
@click.option("--turns", default=5)
@click.option("--reader")
def of_iex(messages: int, turns: int, reader: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole, part = Path(folder) / "whole.pcap", Path(folder) / "part.pcap"
        make(whole, messages)
        make(part, messages // 20)
        sides = {"strand": (by_strand, whole, messages)}
        if is_there("meatpy"):
            sides["meatpy"] = (by_meatpy, part, messages // 20)
        if reader:
            sides[reader] = (by_program(reader), whole, messages)
        compare(sides, turns, "messages")


@main.command("bi5")
@click.option("--hours", default=24)
@click.option("--turns", default=5)
def of_bi5(hours: int, turns: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for hour in range(hours):
            at = dt.datetime(2024, 3, 5, tzinfo=dt.UTC) + dt.timedelta(hours=hour)
            bi5.write(Path(folder), "EURUSD", at, bi5.packed(bi5.some(hour, _QUOTES)))
        sides = {
            name: (read, Path(folder), hours * _QUOTES)
            for name, read in (("strand", by_strand), ("lzma alone", by_lzma), ("numpy", by_numpy))
        }
        compare(sides, turns, "quotes")


if __name__ == "__main__":
    main()
