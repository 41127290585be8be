"""``strand demo``: the sample day through per-symbol handlers, and dynamic beside static routing."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console

from strand import feeds
from strand.bench.streams import numbered
from strand.bench.ways import Job, WayName, rounds
from strand.errors import EngineError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import batch_handler, spin
from strand.machine import choose_cores
from strand.replaying.replay import replay
from strand.replaying.result import ReplayResult
from strand.report.quantities import duration
from strand.report.tables import numbers_table

__all__ = ["demo"]

#: The comparison's handler costs, in the spin handler's steps a tick, and how often the sample is repeated for it.
WORKS: Final = (0, 20, 100, 300)
REPEATS: Final = 5
ROUNDS: Final = 3
WAYS: Final[tuple[WayName, ...]] = ("serial", "static", "static_lpt", "strand")


@batch_handler(state=[("ticks", "u8"), ("adds", "u8"), ("highest_bid", "i8")])
def highest_bid(_symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
    """A handler in Python: counts, and the highest price a buyer ever asked for, in units of 1e-9."""
    bids = ticks[(ticks["action"] == b"A") & (ticks["side"] == b"B")]
    row["ticks"] += len(ticks)
    row["adds"] += np.count_nonzero(ticks["action"] == b"A")
    if len(bids):
        row["highest_bid"] = max(int(row["highest_bid"]), int(bids["price"].max()))


@dataclass(frozen=True)
class Comparison:
    """Million ticks per second by way for one handler cost, medians."""

    work: int
    handler_ns: float
    rates: dict[str, float]


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def demo(as_json: bool) -> None:
    """Replay the sample file that ships with strand, and compare with static routing."""
    cores = len(os.sched_getaffinity(0))
    workers = max(1, cores - 1)
    console = Console(quiet=as_json)
    path = sample_path()
    console.rule("[bold]1[/] a synthetic day's file through per-symbol handlers")
    results = [replay(path, "vwap", workers=n, date=SAMPLE_DATE) for n in sorted({1, 2, workers})]
    _same_rows(results)
    _show_vwap(console, results[-1])
    console.rule("[bold]2[/] two symbols with a handler of their own, in Python")
    own = _own_handlers(results[-1], workers)
    _show_own(console, own)
    console.rule("[bold]3[/] the same ticks by dynamic and by static routing")
    comparisons = _compare(workers)
    _show_comparison(console, comparisons, cores)
    if as_json:
        click.echo(json.dumps(_plain(results[-1], own, comparisons, cores)))


def _same_rows(results: list[ReplayResult]) -> None:
    first = results[0].rows.array
    for result in results[1:]:
        if not np.array_equal(result.rows.array, first):
            raise EngineError(f"rows differ between {results[0].workers} and {result.workers} workers")


def _busiest(result: ReplayResult, n: int) -> list[int]:
    return [int(i) for i in np.argsort(-result.ticks_by_symbol, kind="stable")[:n]]


def _show_vwap(console: Console, result: ReplayResult) -> None:
    table = numbers_table("symbol", "ticks", "trades", "volume", "vwap", title="busiest symbols")
    for i in _busiest(result, 5):
        row = result.rows[i]
        table.add_row(
            result.symbols[i],
            f"{result.ticks_by_symbol[i]:,}",
            f"{row['trades']:,}",
            f"{row['volume']:,}",
            f"{row['vwap']:.4f}",
        )
    console.print(table)
    s = result.statistics
    console.print(
        f"{result.ticks:,} ticks of {np.count_nonzero(result.ticks_by_symbol)} symbols (ITCH 5.0, gzip) in "
        f"{result.wall_s:.2f} s on {result.workers} pinned workers and the publisher; order kept within each "
        f"symbol, nothing dropped ({s.accepted:,} accepted = {s.handled:,} handled), rows the same for "
        f"{'1 and 2' if result.workers <= 2 else f'1, 2 and {result.workers}'} workers"
    )


def _own_handlers(result: ReplayResult, workers: int) -> ReplayResult:
    first, second = (result.symbols[i] for i in _busiest(result, 2))
    return replay(
        sample_path(),
        handlers={first: highest_bid, second: highest_bid, "*": "count"},
        workers=workers,
        date=SAMPLE_DATE,
    )


def _show_own(console: Console, result: ReplayResult) -> None:
    for i in _busiest(result, 2):
        row = result.rows[i]
        console.print(
            f"{result.symbols[i]}: {row['ticks']:,} ticks, {row['adds']:,} orders added, highest bid "
            f"{row['highest_bid'] / 1e9:.2f} (Python); the other symbols' [i]count[/] ran beside it in C"
        )


def _stream() -> tuple[npt.NDArray[Any], int]:
    """The sample's ticks a few times over, numbered from 1 within each symbol: what the spin handler checks."""
    feed = feeds.open(sample_path(), date=SAMPLE_DATE)
    try:
        day = np.concatenate([batch.copy() for batch in feed.batches()])
        symbols = len(feed.symbols)
    finally:
        feed.close()
    ticks = numbered(np.tile(day, REPEATS))
    ticks["price"] = np.arange(len(ticks))
    return ticks, symbols


def _compare(workers: int) -> list[Comparison]:
    ticks, symbols = _stream()
    counts = np.bincount(ticks["instrument_id"], minlength=symbols)
    found = []
    for work in WORKS:
        job = Job(ticks, symbols, counts, spin(work), choose_cores(workers), idle="backoff")
        outcomes = rounds(job, WAYS, ROUNDS)
        medians: dict[str, float] = {
            way: len(ticks) / median(outcome.seconds for outcome in each) / 1e6 for way, each in outcomes.items()
        }
        found.append(Comparison(work, 1e3 / medians["serial"], medians))
    return found


def _show_comparison(console: Console, comparisons: list[Comparison], cores: int) -> None:
    title = f"million ticks per second, {cores} cores, median of {ROUNDS}"
    table = numbers_table("handler", *WAYS, "strand / static", title=title)
    for c in comparisons:
        best = max(c.rates.values())
        cells = [f"[bold]{rate:.1f}[/]" if rate == best else f"{rate:.1f}" for rate in c.rates.values()]
        table.add_row(f"{duration(c.handler_ns)} per tick", *cells, f"{c.rates['strand'] / c.rates['static']:.2f}")
    console.print(table)
    console.print(
        "serial: a plain loop on one core. static: symbol modulo workers, one ring each. static_lpt: largest first, by "
        "counts known in advance. Longer runs and other streams: strand bench route, strand bench scenarios."
    )


def _plain(result: ReplayResult, own: ReplayResult, comparisons: list[Comparison], cores: int) -> dict[str, Any]:
    return {
        "cores": cores,
        "ticks": result.ticks,
        "wall_s": result.wall_s,
        "statistics": result.statistics.as_dict(),
        "own_handlers": {own.symbols[i]: int(own.rows[i]["highest_bid"]) for i in _busiest(own, 2)},
        "comparison": [{"work": c.work, "handler_ns": c.handler_ns, "mticks_s": c.rates} for c in comparisons],
    }
