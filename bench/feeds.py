"""Feeds beside the usual tool for each format, in one run, on one core, in turn; ratios are of medians.
One symbol of many is looked for on one core, on two, and on all.

    python bench/feeds.py [PART...] [--turns 5] [--messages 10000000] [--json]
    python bench/feeds.py memory --gigabytes 2

Parts whose reader or whose other tool is not there are left out, with a line that says so. Tools come with the extra
``bench``. What a part needs is made for it, the same each time, and deleted behind it.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from turns import alone, in_turns, peak_mb, ratios, taken

import strand
from strand import TICK, feeds
from strand.errors import StrandError
from strand.feeds.io.streams import open_stream
from strand.feeds.synthetic import SyntheticFeed
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy

DATE = "2026-01-05"


class NotThereError(Exception):
    """A reader or a tool that a part needs is not installed."""


@dataclass(frozen=True)
class Work:
    """Folder of the files, number of messages in them, runs of each side, and the cores there are."""

    folder: Path
    messages: int
    turns: int
    cores: set[int]


@dataclass(frozen=True)
class Side:
    """One of two that are compared: ``run`` does the work once and says how many units it did."""

    name: str
    run: Callable[[], int]


@dataclass(frozen=True)
class Found:
    """Rates are units a second, medians of the turns; ``ratio`` is the first over the second."""

    part: str
    unit: str
    names: tuple[str, str]
    rates: tuple[float, float]
    ratio: float
    spread: tuple[float, float]
    needed: float | None = None
    needed_rate: float | None = None

    def line(self) -> str:
        ours, theirs = (f"{name} {rate:,.2f} {self.unit}/s" for name, rate in zip(self.names, self.rates, strict=True))
        needed = self.needed if self.needed_rate is None else f"{self.needed_rate:g} {self.unit}/s"
        verdict = "" if needed is None else f", needed {needed}: {'holds' if self.holds else 'MISSED'}"
        low, high = self.spread
        return f"{self.part:<20} {ours}, {theirs}: {self.ratio:.2f} ({low:.2f} to {high:.2f}){verdict}"

    @property
    def holds(self) -> bool:
        return self.ratio >= (self.needed or 0) and self.rates[0] >= (self.needed_rate or 0)


def compare(part: str, unit: str, ours: Side, theirs: Side, *, turns: int, **needed: float | None) -> Found:
    def rate(side: Side) -> float:
        done, its = taken(side.run)
        return done / its.wall / 1e6

    rates = in_turns({side.name: partial(rate, side) for side in (ours, theirs)}, turns, warm=0)
    turns_of = ratios(rates[ours.name], rates[theirs.name])
    found = (median(rates[ours.name]), median(rates[theirs.name]))
    ratio = found[0] / found[1]
    return Found(part, unit, (ours.name, theirs.name), found, ratio, (min(turns_of), max(turns_of)), **needed)


def drained(path: Path | list[Path], **options: Any) -> int:
    feed = feeds.open(path, **options)
    try:
        return sum(len(batch) for batch in feed.batches())
    finally:
        feed.close()


def tool(module: str) -> Any:
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        raise NotThereError(f"{module} is not installed (extra 'bench')")
    return importlib.import_module(module)


def itch_file(work: Work, messages: int) -> Path:
    path = work.folder / f"{messages}.itch50"
    if not path.exists():
        SyntheticFeed(messages=messages, date=DATE).write_itch(path)
    return path


# ---- the parts


def itch(work: Work) -> Iterator[Found]:
    """ITCH on one core, against Python packages, which get a shorter file."""
    long, short = itch_file(work, work.messages), itch_file(work, max(work.messages // 50, 1000))
    size = long.stat().st_size

    def ours() -> int:
        feed = feeds.open(long, date=DATE)
        for _ in feed.batches():
            pass
        feed.close()
        assert feed.statistics()["bytes_decoded"] == size
        return feed.statistics()["messages"]

    def itchfeed() -> int:
        with short.open("rb") as file:
            return sum(1 for _ in parser.MessageParser().parse_file(file))

    def meatpy() -> int:
        return sum(1 for _ in reader.ITCH50MessageReader().read_file(short))

    parser = tool("itch.parser")
    yield compare("itch", "M messages", Side("strand", ours), Side("itchfeed", itchfeed), turns=work.turns, needed=40)
    reader = tool("meatpy.itch50.itch50_message_reader")
    yield compare("itch", "M messages", Side("strand", ours), Side("meatpy", meatpy), turns=work.turns, needed=40)


def gz(work: Work) -> Iterator[Found]:
    """Inflating, without decoding: 100 MB of ITCH at most, lines of text, and what there is of recorded data."""
    with itch_file(work, work.messages).open("rb") as file:
        binary = file.read(100 << 20)
    prices = np.random.default_rng(1).integers(-3, 4, 1 << 20).cumsum() + 479_900
    text = b"".join(
        b"%d,%d,%d,P,2000,0\n" % (34_200_000 + 7 * i, price, i % 900) for i, price in enumerate(prices.tolist())
    )
    for name, content in (("gz of ITCH", binary), ("gz of text", text), *recorded()):
        path = work.folder / "day.gz"
        path.write_bytes(gzip.compress(content, 6))
        times = max(1, (32 << 20) // len(content))

        def ours(path: Path = path, times: int = times) -> int:
            return sum(inflated(path) for _ in range(times))

        def theirs(path: Path = path, times: int = times) -> int:
            return sum(by_zlib(path) for _ in range(times))

        yield compare(name, "MB", Side("strand", ours), Side("zlib", theirs), turns=work.turns, needed=2)


def recorded() -> Iterator[tuple[str, bytes]]:
    """The contents of files below the folder that STRAND_SHARED_DATA names, but for short ones."""
    folder = os.environ.get("STRAND_SHARED_DATA")
    for path in sorted(Path(folder).rglob("*")) if folder else ():
        if path.is_file() and path.stat().st_size >= 32 << 10:
            with open_stream(path) as stream:
                content = bytearray()
                while got := stream.readinto(ROOM):
                    content += ROOM[:got]
            if len(content) >= 256 << 10:
                yield f"gz of {path.name[:24]}", bytes(content)


ROOM = memoryview(bytearray(1 << 20))


def inflated(path: Path) -> int:
    total, data = 0, ROOM
    with open_stream(path) as stream:
        while got := stream.readinto(data):
            total += got
    return total


def by_zlib(path: Path) -> int:
    total, inflater = 0, zlib.decompressobj(31)
    with path.open("rb") as file:
        while piece := file.read(1 << 17):
            total += len(inflater.decompress(piece))
    return total


def csv(work: Work) -> Iterator[Found]:
    """Trades as Tardis has them and LOBSTER's messages, against Arrow reading the same files, both with one thread."""
    reader = tool("pyarrow.csv")
    if importlib.util.find_spec("strand.feeds.formats.csv.reader") is None:
        raise NotThereError("no reader strand.feeds.formats.csv.reader")
    count = max(work.messages // 5, 1000)
    tardis, lobster = work.folder / "trades.csv", work.folder / "AAPL_2026-01-05_34200000_57600000_message_10.csv"
    with tardis.open("w") as file:
        file.write("exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n")
        for i in range(count):
            at = 1_767_600_000_000_000 + 37 * i
            side = "sell" if i % 3 else "buy"
            file.write(
                f"binance,BTCUSDT,{at},{at + 1500},{i},{side},{90_000 + i % 977}.{i % 90 + 10},0.{i % 900 + 100}\n"
            )

    with lobster.open("w") as file:
        for i in range(count):
            at, order, price = 34200 + i / 100, 16_113_575 + i, 5_853_300 + 100 * (i % 977)
            file.write(f"{at:.9f},{1 + i % 3},{order},{i % 900 + 1},{price},{1 if i % 3 else -1}\n")
    for name, path in (("csv of Tardis", tardis), ("csv of LOBSTER", lobster)):

        def ours(path: Path = path) -> int:
            return drained(path)

        def theirs(path: Path = path) -> int:
            options = reader.ReadOptions(use_threads=False, autogenerate_column_names=path == lobster)
            return int(reader.read_csv(path, options).num_rows)

        yield compare(name, "M rows", Side("strand", ours), Side("pyarrow", theirs), turns=work.turns, needed=0.8)


def dbn(work: Work) -> Iterator[Found]:
    """MBO, uncompressed, against the library's own arrays."""
    if importlib.util.find_spec("strand.feeds.formats.dbn") is None:
        raise NotThereError("no reader strand.feeds.formats.dbn")
    client = tool("databento")
    path = work.folder / "day.mbo.dbn"
    convert(itch_file(work, max(work.messages // 5, 1000)), path, date=DATE, on_unwritable="skip")

    def theirs() -> int:
        return len(client.DBNStore.from_file(path).to_ndarray())

    yield compare(
        "dbn",
        "M records",
        Side("strand", lambda: drained(path)),
        Side("to_ndarray", theirs),
        turns=work.turns,
        needed=1,
    )


def merge(work: Work) -> Iterator[Found]:
    """Eight files of arrays into one, against numpy: all in memory and sorted. Needed: 10 M ticks/s."""
    if importlib.util.find_spec("strand.feeds.merge.feeds") is None:
        raise NotThereError("no module strand.feeds.merge.feeds")
    ticks = np.concatenate([batch.copy() for batch in SyntheticFeed(messages=work.messages // 2, date=DATE).batches()])
    paths = []
    for i in range(8):
        paths.append(work.folder / f"merge{i}.npz")
        part = ticks[ticks["instrument_id"] % 8 == i]
        write_npy(paths[-1], part, [f"S{n}" for n in range(int(part["instrument_id"].max()) + 1)])
    del ticks

    def theirs() -> int:
        whole = np.concatenate([np.load(path)["ticks"] for path in paths])
        return len(whole.view("V64")[np.argsort(whole["ts_recv"], kind="stable")].view(TICK))

    sides = Side("strand", lambda: drained(paths)), Side("numpy", theirs)
    yield compare("merge of 8", "M ticks", *sides, turns=work.turns, needed_rate=10)


def one_symbol(work: Work) -> Iterator[Found]:
    """One symbol of 8,172, against all of them, on one core, on two, and on all.

    Needed on four cores: a quarter of the time, that is 4. On one, reading alone takes a quarter of it.
    """
    path = itch_file(work, work.messages)
    feed = feeds.open(path, date=DATE)
    counts = np.zeros(feed.max_symbols, np.int64)
    for batch in feed.batches():
        counts += np.bincount(batch["instrument_id"], minlength=len(counts))
    names, ranked = list(feed.symbols), np.argsort(-counts, kind="stable")
    feed.close()
    size = path.stat().st_size
    one_core = os.sched_getaffinity(0)
    for cores in (one_core, set(sorted(work.cores)[-2:]), work.cores):
        os.sched_setaffinity(0, cores)
        for rank in (1, 100, 4000):
            key = int(ranked[rank - 1])

            def one(name: str = names[key], count: int = int(counts[key])) -> int:
                assert drained(path, date=DATE, symbols=[name]) == count
                return size

            def all_of_them() -> int:
                drained(path, date=DATE)
                return size

            sides = Side("one", one), Side("all", all_of_them)
            # The busiest is a symbol like no other: shown, and nothing asked of it.
            needed = 4 if rank > 1 and len(cores) >= 4 else None
            part = f"symbol {rank}, {len(cores)} core{'s' * (len(cores) > 1)}"
            yield compare(part, "MB", *sides, turns=work.turns, needed=needed)
    os.sched_setaffinity(0, one_core)


PARTS: dict[str, Callable[[Work], Iterator[Found]]] = {
    "itch": itch, "gz": gz, "csv": csv, "dbn": dbn, "merge": merge, "symbol": one_symbol,
}  # fmt: skip


# ---- memory


def replayed(path: Path) -> tuple[int, float, float]:
    """Ticks, time and peak memory in MiB of a replay, in a process of its own."""
    result = strand.replay(path, "count", feed_options={"date": DATE})
    return result.ticks, result.wall_s, peak_mb()


def replay_memory(gigabytes: float) -> dict[str, float]:
    """Peak resident memory, in MB, of a process that replays an ITCH file of that size."""
    with tempfile.TemporaryDirectory(prefix="strand-bench-") as folder:
        path = Path(folder) / "day.itch50"
        # A message is 30 bytes and some.
        SyntheticFeed(messages=int(gigabytes * 1e9 / 30), date=DATE).write_itch(path)
        size = path.stat().st_size
        ticks, wall_s, peak = alone(replayed, path)
    return {"file_mb": size / 1e6, "ticks": ticks, "peak_mb": peak * (1 << 20) / 1e6, "wall_s": wall_s}


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice([*PARTS, "memory"]))
@click.option("--messages", default=10_000_000, show_default=True, help="In the ITCH file; other files follow it.")
@click.option("--turns", default=5, show_default=True, help="Times each side runs.")
@click.option("--gigabytes", default=2.0, show_default=True, help="The file that memory is measured with.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
def main(parts: tuple[str, ...], messages: int, turns: int, gigabytes: float, as_json: bool) -> None:
    """Rates of feeds beside those of other tools; ``memory``: what replaying a large file takes."""
    missed = False
    everywhere = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory(prefix="strand-bench-") as folder:
        work = Work(Path(folder), messages, turns, everywhere)
        # One core for both sides, threads included.
        os.sched_setaffinity(0, {max(everywhere)})
        try:
            for part in parts or PARTS:
                if part == "memory":
                    continue
                try:
                    for found in PARTS[part](work):
                        missed |= not found.holds
                        click.echo(json.dumps(asdict(found)) if as_json else found.line())
                except NotThereError as error:
                    click.echo(json.dumps({"part": part, "skipped": str(error)}) if as_json else f"{part:<20} {error}")
                except StrandError as error:
                    raise click.ClickException(f"{part}: {error}") from error
        finally:
            os.sched_setaffinity(0, everywhere)
    if "memory" in parts:
        found_memory = replay_memory(gigabytes)
        missed |= found_memory["peak_mb"] > 300
        click.echo(json.dumps(found_memory) if as_json else memory_line(found_memory))
    sys.exit(missed)


def memory_line(found: dict[str, float]) -> str:
    return (
        f"memory         a file of {found['file_mb']:,.0f} MB, {found['ticks']:,} ticks in {found['wall_s']:.1f} s: "
        f"at most {found['peak_mb']:.0f} MB resident, needed 300"
    )


if __name__ == "__main__":
    main()
