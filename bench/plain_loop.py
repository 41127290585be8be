"""``replay(workers=0)`` beside ``workers=1``, by kind of handler that Python runs.

    python bench/plain_loop.py [FILE] [--turns 5] [--kind TEXT] [--json]

FILE: by default the sample. Each turn is a process of its own: it replays the file once in both ways to warm up, and
then once more in each; which one comes first alternates. Rows, baskets and outputs of both are compared. Ratios are of
wall time, and of the process's processor time, which a busy machine disturbs less.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import click

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.testing import assert_same

STEP_NS = 60 * 1_000_000_000


class Ticks:
    def __init__(self) -> None:
        self.n = self.last = 0

    def on_tick(self, tick: strand.Tick) -> None:
        self.n += 1
        self.last = tick.price


class Timers(Ticks):
    def on_start(self, ctx: Any) -> None:
        self.ctx, self.due, self.wakes = ctx, 0, 0

    def on_tick(self, tick: strand.Tick) -> None:
        self.n += 1
        if tick.ts_recv >= self.due:
            self.due = tick.ts_recv + STEP_NS
            self.ctx.wake_at(self.due)

    def on_wake(self, time: int) -> None:
        self.wakes += 1


class Tops:
    def __init__(self) -> None:
        self.spread = 0

    def on_book(self, top: Any) -> None:
        self.spread = top.ask_price - top.bid_price


class Bars:
    def __init__(self) -> None:
        self.volume = 0

    def on_bar(self, bar: Any) -> None:
        self.volume += bar.volume


@strand.batch_handler(state=[("n", "i8"), ("size", "i8")])
def batch(symbol: str, ticks: Any, row: Any) -> None:
    row["n"] += len(ticks)
    row["size"] += int(ticks["size"].sum())


def woken(symbol: str, time: int, row: Any) -> None:
    row["wakes"] += 1


@strand.batch_handler(state=[("n", "i8"), ("due", "i8"), ("wakes", "i8")], on_wake=woken)
def timed_batch(symbol: str, ticks: Any, row: Any, ctx: Any) -> int:
    end = len(ticks)
    if ctx.times[0] >= row["due"]:
        row["due"] = int(ctx.times[0]) + STEP_NS
        end = ctx.wake_at(int(row["due"]), at=0)
    row["n"] += end
    return end


def group(symbol: str) -> str:
    """Baskets of symbols whose names end in the same letter, and begin with one of the same kind."""
    return symbol[:1] + symbol[-1:]


@strand.basket_handler(baskets=group, basket_state=[("n", "i8"), ("turns", "i8")])
class BasketObjects:
    def on_start(self, ctx: Any) -> None:
        self.last = -1

    def on_tick(self, basket: Any, member: int) -> None:
        if member != self.last:
            basket["turns"] += 1
            self.last = member


@strand.basket_handler(baskets=group, basket_state=[("n", "i8"), ("size", "i8")], kind="batch")
def basket_batch(ticks: Any, basket: Any, members: Any) -> None:
    basket["n"] += len(ticks)
    basket["size"] += int(ticks["size"].sum())


KINDS: dict[str, Callable[[], Any]] = {
    "object, on_tick": lambda: Ticks,
    "object, on_tick and on_wake": lambda: Timers,
    "book, object with on_book": lambda: strand.chain(strand.book(), Tops),
    "bars, object with on_bar": lambda: strand.chain(strand.bars("1m"), Bars),
    "batch": lambda: batch,
    "batch with timers": lambda: timed_batch,
    "basket, objects": lambda: BasketObjects,
    "basket, batch": lambda: basket_batch,
}


def timed(path: str, handler: Any, workers: int) -> tuple[tuple[float, float], Any]:
    """Wall and processor time in seconds, and the result."""
    options = {"date": SAMPLE_DATE} if path == str(sample_path()) else {}
    begun = time.perf_counter(), time.process_time()
    result = strand.replay(path, handler, workers=workers, feed_options=options, progress=False)
    return (time.perf_counter() - begun[0], time.process_time() - begun[1]), result


def turn(path: str, kind: str, number: int) -> dict[int, tuple[float, float]]:
    """Times of a run with workers=0 and with workers=1."""
    handler = KINDS[kind]()
    assert_same(*(timed(path, handler, workers)[1] for workers in (0, 1)))
    order = (0, 1) if number % 2 else (1, 0)
    took = {workers: timed(path, handler, workers)[0] for workers in order}
    return {workers: took[workers] for workers in (0, 1)}


@click.command()
@click.argument("file", default=None, required=False)
@click.option("--turns", default=5, show_default=True)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="All of them by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--turn", "number", type=int, hidden=True, help="Runs one turn of one kind.")
def main(file: str | None, turns: int, kinds: tuple[str, ...], as_json: bool, number: int | None) -> None:
    path = file or str(sample_path())
    if number is not None:
        click.echo(json.dumps(turn(path, kinds[0], number)))
        return
    found: dict[str, Any] = {}
    for kind in kinds or KINDS:
        took = []
        for each in range(turns):
            command = [sys.executable, str(Path(__file__)), path, "--kind", kind, "--turn", str(each)]
            said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            took.append((*said["0"], *said["1"]))
        found[kind] = {
            "loop_s": median(loop for loop, *_ in took),
            "worker_s": median(worker for _, _, worker, _ in took),
            "wall_ratio": median(loop / worker for loop, _, worker, _ in took),
            "processor_ratio": median(loop / worker for _, loop, _, worker in took),
        }
        if not as_json:
            one = found[kind]
            click.echo(
                f"{kind:30} {one['loop_s']:8.3f} s {one['worker_s']:8.3f} s  ratio {one['wall_ratio']:6.2f}, "
                f"of processor time {one['processor_ratio']:6.2f}"
            )
    if as_json:
        click.echo(json.dumps({"date": date.today().isoformat(), "file": path, "turns": turns, "kinds": found}))


if __name__ == "__main__":
    main()
