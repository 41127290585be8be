"""IEX's DEEP out of a capture, beside the Python package meatpy and a C++ reader, interleaved, on one core.

    python bench/captures.py [--messages 2000000] [--turns 5] [--reader COMMAND]

The capture is made up: packets of one to eight messages, as a busy minute has them. ``meatpy`` (pip install meatpy)
makes an object of each message; it gets a twentieth of the messages. ``--reader`` is a program of another reader: it
gets the file's path as its argument, prints the number of messages, and what it took is measured whole.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import iex_reference as iex
import pcap_reference as capture

from strand import feeds

_SIZES = (1, 1, 1, 2, 3, 8)


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


@click.command(help=__doc__)
@click.option("--messages", default=2_000_000)
@click.option("--turns", default=5)
@click.option("--reader")
def main(messages: int, turns: int, reader: str | None) -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        whole, part = Path(folder) / "whole.pcap", Path(folder) / "part.pcap"
        make(whole, messages)
        make(part, messages // 20)
        sides: dict[str, tuple[Callable[[Path], int], Path]] = {"strand": (by_strand, whole)}
        try:
            by_meatpy(part)
            sides["meatpy"] = (by_meatpy, part)
        except ImportError:
            click.echo("meatpy is not installed: left out")
        if reader:
            sides[reader] = (by_program(reader), whole)
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(turns):
            for name, (read, path) in sides.items():
                begun = time.perf_counter()
                count = read(path)
                rates[name].append(count / (time.perf_counter() - begun) / 1e6)
                assert count == (messages if path is whole else messages // 20), name
        ours = statistics.median(rates["strand"])
        for name, found in rates.items():
            rate = statistics.median(found)
            click.echo(
                f"{name:<12} {rate:8.2f} million messages/s ({min(found):.2f} to {max(found):.2f}), {ours / rate:.1f}"
            )


if __name__ == "__main__":
    main()
