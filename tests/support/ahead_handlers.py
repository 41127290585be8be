"""Chains whose compiled part runs ahead of the Python one, with failures, timers and emits of both, and their runs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from engine_support import ticks_for
from hypothesis import strategies as st

from strand import Dispatcher, Handler, batch_handler, chain, handler, object_handler
from strand.caller.run import CallerRun
from strand.errors import HandlerError

#: A tick's flags: which part fails on it, and which asks for a timer.
COMPILED_FAILS, PYTHON_FAILS, COMPILED_ASKS, PYTHON_ASKS = 1, 2, 4, 8
ROW: Final = [("n", "i8"), ("wakes", "i8")]
OUT: Final = [("n", "i8")]
SYMBOLS: Final = 2


@cache
def compiled(*, timed: bool, use: str) -> Handler:
    """Its timer fails at a time that 7 divides. Compiled once a ``use``, as numba warns of rows of several widths."""

    def on_wake(row, time, emit):  # type: ignore[no-untyped-def]
        row.wakes += 1
        emit.before(-row.wakes)
        if time % 7 == 0:
            raise ValueError("nobody hears this")

    if timed:

        @handler(state=ROW, outputs={"before": OUT}, on_wake=on_wake, name="before", cache=False)
        def on_timed(row, tick, ctx, emit):  # type: ignore[no-untyped-def]
            row.n += 1
            emit.before(row.n)
            if tick.flags & 4:
                ctx.wake_at(ctx.time + tick.size % 5)
            if tick.flags & 1:
                raise ValueError("nobody hears this")

        return on_timed

    @handler(state=ROW, outputs={"before": OUT}, name="before", cache=False)
    def on_tick(row, tick, emit):  # type: ignore[no-untyped-def]
        row.n += 1
        emit.before(row.n)
        if tick.flags & 1:
            raise ValueError("nobody hears this")

    return on_tick


#: What Python's parts were called with: the symbol, the tick or the time, and what the compiled part had counted.
Log = list[tuple[str, int, int]]


class _Part:
    """Common part of the two Python handlers. A timer fails at a time that 11 divides."""

    def __init__(self, ctx: Any, log: Log) -> None:
        self.ctx, self.log = ctx, log

    def tick(self, tick: Any, at: int, place: int | None = None) -> int | None:
        ctx, flags = self.ctx, int(tick["flags"])
        ctx.row["n"] += 1
        self.log.append((ctx.symbol, int(tick["sequence"]), int(ctx.after["before"]["n"][at])))
        ctx.emit((int(ctx.row["n"]),), place)
        end = None
        if flags & PYTHON_ASKS:
            time = ctx.time if place is None else int(ctx.times[place])
            end = ctx.wake_at(time + int(tick["size"]) % 3, place)
        if flags & PYTHON_FAILS:
            raise ValueError(f"no tick {int(tick['sequence'])}")
        return end

    def wake(self, time: int) -> None:
        ctx = self.ctx
        ctx.row["wakes"] += 1
        self.log.append((ctx.symbol, -time, int(ctx.after["before"]["n"][0])))
        ctx.emit((-int(ctx.row["wakes"]),))
        if time % 11 == 0:
            raise ValueError(f"no time {time}")


def objects(log: Log) -> Handler:
    @object_handler(state=ROW, outputs={"behind": OUT}, name="behind")
    class Behind:
        def on_start(self, ctx: Any) -> None:
            self.part = _Part(ctx, log)

        def on_tick(self, tick: Any) -> None:
            fields = {"flags": tick.flags, "sequence": tick.sequence, "size": tick.size}
            self.part.tick(fields, self.part.ctx.at)

        def on_wake(self, time: int) -> None:
            self.part.wake(time)

    return Behind  # type: ignore[return-value]


def batches(log: Log) -> Handler:
    """It handles the ticks up to one that fails, and fails on that one in its next call."""

    def on_wake(symbol: str, time: int, row: Any, ctx: Any) -> None:
        _Part(ctx, log).wake(time)

    @batch_handler(state=ROW, outputs={"behind": OUT}, on_wake=on_wake, name="behind")
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> int:
        part, end, i = _Part(ctx, log), len(ticks), 0
        while i < end:
            if i and int(ticks["flags"][i]) & PYTHON_FAILS:
                return i
            asked = part.tick(ticks[i], i, i)
            end = end if asked is None else asked
            i += 1
        return i

    return on_ticks


PARTS: Final = {"objects": objects, "batches": batches}


class Ran(NamedTuple):
    """Result of a run, by symbol: the calls of the Python part, its failures, its row and its outputs."""

    log: dict[str, list[tuple[int, int]]]
    failures: dict[str, list[tuple[Any, ...]]]
    rows: list[Any]
    outputs: dict[tuple[str, int], list[tuple[int, ...]]]


def run(part: str, pieces: Iterable[npt.NDArray[Any]], *, timed: bool, on_error: str, workers: int = 1) -> Ran:
    """Publishes ticks piece by piece, and drains behind each; after each failure of a quarantined strand goes on."""
    log: Log = []
    found = chain(compiled(timed=timed, use=part), PARTS[part](log))
    options: dict[str, Any] = {"workers": workers, "cores": None, "on_error": on_error, "strands": "per-symbol"}
    failures: list[HandlerError] = []
    d: Any = Dispatcher(SYMBOLS, found, **options) if workers else CallerRun(SYMBOLS, found)
    try:
        with d:
            for ticks in pieces:
                d.publish(ticks)
                d.drain()
                while quarantined := [key for key in range(SYMBOLS) if workers and d.inspect(key).quarantined]:
                    for key in quarantined:
                        d.release(key)
                    d.drain()
            failures += d.failures if on_error == "quarantine" else []
    except HandlerError as error:
        failures.append(error)
    names = sorted({symbol for symbol, *_ in log} | {error.symbol for error in failures})
    outputs = {name: d.outputs[name].array() for name in ("before", "behind")}
    return Ran(
        {name: [entry[1:] for entry in log if entry[0] == name] for name in names},
        {name: [_told(error, on_error) for error in failures if error.symbol == name] for name in names},
        [d.rows[key].tolist() for key in range(SYMBOLS)],
        {
            (name, key): records[records["instrument_id"] == key][["ts", "n"]].tolist()
            for name, records in outputs.items()
            for key in range(SYMBOLS)
        },
    )


def _told(error: HandlerError, on_error: str) -> tuple[Any, ...]:
    """With the row where the run ended there: that of a quarantined symbol is copied when it is asked for."""
    return error.sequence, error.reason, *([error.row.tolist()] if on_error == "stop" and error.row is not None else [])


def ticks_with(flags: dict[int, int], n: int, *, size: int = 1) -> npt.NDArray[Any]:
    """Ticks of one symbol, 11 ns apart, with flags by place: timers do not fail at the times that they ask for."""
    ticks = ticks_for([0] * n)
    ticks["ts_recv"] = 1001 + 11 * np.arange(n)
    ticks["size"] = size
    for place, value in flags.items():
        ticks["flags"][place] = value
    return ticks


def _drawn(seed: int, n: int, symbols: int, gap: int, rare: int) -> npt.NDArray[Any]:
    rng = np.random.default_rng(seed)
    ticks = ticks_for(rng.integers(0, symbols, n))
    ticks["ts_recv"] = 1000 + np.cumsum(rng.integers(0, gap + 1, n))
    ticks["size"] = rng.integers(0, 1000, n)
    fails = rng.integers(0, rare, n) == 0
    ticks["flags"] = (rng.integers(0, 4, n) << 2) | np.where(fails, rng.integers(1, 4, n), 0)
    return ticks


def streams(symbols: int) -> st.SearchStrategy[npt.NDArray[Any]]:
    gaps, rare = st.sampled_from([1, 4, 30]), st.sampled_from([5, 40])
    return st.builds(_drawn, st.integers(0, 2**32), st.integers(1, 80), st.integers(1, symbols), gaps, rare)
