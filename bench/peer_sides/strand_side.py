"""Strand on SHARDS cores. ``file``: reads and decodes within the time that is taken; ``memory``: publishes ticks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from protocol import TOP, VWAP, Task, main

import strand


def load(task: Task) -> Callable[[], Callable[[], Any]]:
    if task.shards == 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    workers = max(task.shards - 1, 1)  # one core publishes
    collect = tops if task.job == "book" else averages
    if task.way == "memory":
        return from_memory(task, workers, collect)
    path = task.folder / ("day.itch50" if task.job == "book" else "tape.npy")
    options = {"date": "2026-01-05"} if task.job == "book" else {}
    strand.feeds.open(path, **options).close()  # imports what reads it

    def run() -> Callable[[], Any]:
        rows = strand.replay(path, task.job, workers=workers, feed_options=options).rows.array
        return lambda: collect(rows)

    return run


def from_memory(task: Task, workers: int, collect: Callable[[Any], Any]) -> Callable[[], Callable[[], Any]]:
    ticks = np.load(task.folder / ("day.npy" if task.job == "book" else "tape.npy"))
    names = [str(i) for i in range(int(ticks["instrument_id"].max()) + 1)]

    def run() -> Callable[[], Any]:
        with strand.Dispatcher(names, task.job, workers=workers) as dispatcher:
            dispatcher.publish(ticks)
        rows = dispatcher.rows.array
        return lambda: collect(rows)

    return run


def averages(rows: Any) -> Any:
    found = np.flatnonzero(rows["volume"])
    out = np.zeros(len(found), VWAP)
    out["symbol"], out["volume"], out["notional"] = (
        found,
        rows["volume"][found],
        rows["vwap"][found] * rows["volume"][found] * 1e4,
    )
    return out


def tops(rows: Any) -> Any:
    found = np.flatnonzero(rows["ticks"])
    out = np.zeros(len(found), TOP)
    out["symbol"] = found
    for side in ("bid", "ask"):
        there = rows[f"{side}_size"][found] > 0
        out[f"{side}_price"][there] = rows[f"{side}_price"][found][there] // 100_000
        out[f"{side}_size"] = rows[f"{side}_size"][found]
    return out


if __name__ == "__main__":
    main(load)
