"""A handler that asks for timers at times drawn from what it has seen, written in every way there is, and in one plain
loop to compare with."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from engine_support import ticks_for
from hypothesis import strategies as st

from strand import Handler, batch_handler, handler, native, object_handler

ALARM_ROW = np.dtype([("ticks", "<u8"), ("wakes", "<u8"), ("hash", "<u8"), ("finished", "<u8")])
ALARM_OUT = np.dtype([("hash", "<u8"), ("ticks", "<u4"), ("what", "<u4")])
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


class PlainAlarm:
    """One tick after the other. ``place``: in a chain."""

    def __init__(self, symbols: int, multiplier: int, place: int = 0) -> None:
        self.multiplier = multiplier | 1
        self.place = place
        self.rows = [[0, 0, 0, 0] for _ in range(symbols)]
        self.alarms = [0] * symbols
        self.out: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.now = 0

    def mix(self, key: int, value: int) -> None:
        row = self.rows[key]
        row[2] = ((row[2] ^ value) * self.multiplier) & MASK

    def ask(self, key: int, now: int) -> None:
        draw = self.rows[key][2] >> 33
        if draw % 3 == 0:
            alarm = 0 if draw % 7 == 0 else now + draw % 50 - 3
            self.alarms[key] = max(alarm, now + 1) if alarm else 0

    def say(self, order: tuple[int, ...], key: int, number: int, time: int, what: int) -> None:
        row = self.rows[key]
        self.out.append(((*order, self.place, len(self.out)), (number, time, key, row[2], row[0], what)))

    def fire(self, key: int, until: int) -> None:
        while self.alarms[key] and self.alarms[key] <= until:
            time, self.alarms[key] = self.alarms[key], 0
            self.rows[key][1] += 1
            self.mix(key, time)
            self.ask(key, time)
            self.say((0, time, 0, key), key, MASK, time, 1)

    def run(self, ticks: npt.NDArray[Any]) -> None:
        for number, tick in enumerate(ticks):
            key, time = int(tick["instrument_id"]), int(tick["ts_recv"])
            self.now = max(self.now, time)
            self.fire(key, self.now)
            self.rows[key][0] += 1
            self.mix(key, int(tick["sequence"]) * GOLDEN & MASK)
            if self.rows[key][2] >> 62 == 0:
                self.say((0, self.now, 1, number), key, number, self.now, 0)
            self.ask(key, self.now)
        for key in range(len(self.rows)):
            self.fire(key, self.now)
        for key, row in enumerate(self.rows):
            if row[0]:
                row[3] += 1
                self.mix(key, key + 1)
                self.say((1, key), key, MASK, self.now, 2)

    @property
    def records(self) -> list[tuple[int, ...]]:
        return merged([self])


def merged(parts: Sequence[PlainAlarm]) -> list[tuple[int, ...]]:
    """Records that several handlers in a chain emit to one output, in the output's order."""
    return [record for _, record in sorted(entry for part in parts for entry in part.out)]


# ---- the ways to write it


def in_c(
    library: Path, multiplier: int, *, yields: bool = False, never_publishes: bool = True, emits: bool = True
) -> Handler:
    return native(
        library,
        "on_alarm",
        state=ALARM_ROW,
        params=struct.pack("=QQ", multiplier, yields),
        never_publishes=never_publishes,
        outputs={"alarms": ALARM_OUT} if emits else None,
        wake="wake_alarm",
        finish="finish_alarm",
        yields=yields,
    )


@cache
def in_numba(multiplier: int, use: str = "") -> Handler:
    """Compiled once a ``use``: numba warns where functions see rows of several widths."""
    import numba

    factor, golden = np.uint64(multiplier | 1), np.uint64(GOLDEN)

    @numba.njit
    def mix(row, value):  # type: ignore[no-untyped-def]
        row.hash = (row.hash ^ np.uint64(value)) * factor

    @numba.njit
    def ask(row, ctx):  # type: ignore[no-untyped-def]
        draw = np.int64(row.hash >> np.uint64(33))
        if draw % 3 == 0:
            ctx.wake_at(0 if draw % 7 == 0 else ctx.time + draw % 50 - 3)

    def on_wake(row, time, ctx, emit):  # type: ignore[no-untyped-def]
        row.wakes += 1
        mix(row, time)
        ask(row, ctx)
        emit.alarms(row.hash, row.ticks, 1)

    def on_finish(row, emit, params):  # type: ignore[no-untyped-def]
        row.finished += 1
        mix(row, params.key + 1)
        emit.alarms(row.hash, row.ticks, 2)

    @handler(
        state=ALARM_ROW,
        params=[("key", "u4")],
        outputs={"alarms": ALARM_OUT},
        on_wake=on_wake,
        on_finish=on_finish,
        name="compiled_alarm",
        cache=False,
    )
    def on_tick(row, tick, params, ctx, emit):  # type: ignore[no-untyped-def]
        row.ticks += 1
        mix(row, np.uint64(tick.sequence) * golden)
        if row.hash >> np.uint64(62) == 0:
            emit.alarms(row.hash, row.ticks, 0)
        ask(row, ctx)

    return on_tick.with_params({"*": {"key": 0}, **{f"#{key}": {"key": key} for key in range(1, SYMBOLS)}})


class _Sums:
    """Common part of the two Python handlers."""

    def __init__(self, multiplier: int, row: Any, ctx: Any) -> None:
        self.multiplier = multiplier | 1
        self.row, self.ctx = row, ctx

    def mix(self, value: int) -> None:
        self.row["hash"] = ((int(self.row["hash"]) ^ value) * self.multiplier) & MASK

    def ask(self, now: int, at: int | None = None) -> int | None:
        draw = int(self.row["hash"]) >> 33
        if draw % 3:
            return None
        end: int = self.ctx.wake_at(0 if draw % 7 == 0 else now + draw % 50 - 3, at)
        return end

    def say(self, what: int, at: int | None = None) -> None:
        self.ctx.emit((int(self.row["hash"]), int(self.row["ticks"]), what), at)

    def tick(self, sequence: int, now: int, at: int | None = None) -> int | None:
        self.row["ticks"] += 1
        self.mix(sequence * GOLDEN & MASK)
        if int(self.row["hash"]) >> 62 == 0:
            self.say(0, at)
        return self.ask(now, at)

    def wake(self, time: int) -> None:
        assert self.ctx.time == time
        self.row["wakes"] += 1
        self.mix(time)
        self.ask(time)
        self.say(1)

    def finish(self) -> None:
        self.row["finished"] += 1
        self.mix(self.ctx.key + 1)
        self.say(2)


def in_batches(multiplier: int) -> Handler:
    def on_wake(symbol: str, time: int, row: Any, ctx: Any) -> None:
        _Sums(multiplier, row, ctx).wake(time)

    def on_finish(symbol: str, row: Any, ctx: Any) -> None:
        _Sums(multiplier, row, ctx).finish()

    @batch_handler(state=ALARM_ROW, outputs={"alarms": ALARM_OUT}, on_wake=on_wake, on_finish=on_finish, name="batches")
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> int:
        sums, end, i = _Sums(multiplier, row, ctx), len(ticks), 0
        times, sequences = ctx.times.tolist(), ticks["sequence"].tolist()
        while i < end:
            asked = sums.tick(sequences[i], times[i], i)
            end = end if asked is None else asked
            i += 1
        return i

    return on_ticks


def in_objects(multiplier: int) -> Handler:
    @object_handler(state=ALARM_ROW, outputs={"alarms": ALARM_OUT}, name="objects")
    class Alarm:
        def on_start(self, ctx: Any) -> None:
            self.sums = _Sums(multiplier, ctx.row, ctx)

        def on_tick(self, tick: Any) -> None:
            self.sums.tick(tick.sequence, self.sums.ctx.time)

        def on_wake(self, time: int) -> None:
            self.sums.wake(time)

        def on_finish(self) -> None:
            self.sums.finish()

    return Alarm  # type: ignore[return-value]


# ---- streams


#: In all streams; some have no tick.
SYMBOLS = 10


def stream(seed: int, n: int, symbols: int, gap: int) -> npt.NDArray[Any]:
    """Ticks of the first ``symbols``, at most ``gap`` ns apart, whose times run back now and then."""
    rng = np.random.default_rng(seed)
    ticks = ticks_for(rng.integers(0, symbols, n))
    ticks["ts_recv"] = 1000 + np.maximum(np.cumsum(rng.integers(-min(3, gap // 2), gap + 1, n)), 0)
    return ticks


def streams() -> st.SearchStrategy[npt.NDArray[Any]]:
    gaps = st.sampled_from([1, 4, 30])
    return st.builds(stream, st.integers(0, 2**32), st.integers(0, 400), st.integers(1, SYMBOLS), gaps)


def times(values: list[int], key: int = 0) -> npt.NDArray[Any]:
    ticks = ticks_for([key] * len(values))
    ticks["ts_recv"] = values
    return ticks


def asks(ask: Any, *, timed: bool = True) -> Handler:
    @batch_handler(state=[("n", "u8")], on_wake=(lambda symbol, time, row: None) if timed else None)
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> Any:
        return ask(ctx, len(ticks))

    return on_ticks
