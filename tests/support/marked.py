"""One handler in every code and shape, by public names, and as a plain one: every field of every tick leaves its mark.

It sums floats in order, asks for timers at times drawn from its mark, emits to two outputs, and has an end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from plain import Here, Plain, PlainError, Row

import strand

STATE = [("ticks", "u8"), ("hash", "u8"), ("wakes", "u8"), ("finished", "u8"), ("sum", "f8"), ("last", "i8")]
OUTPUTS = {"marks": [("hash", "u8"), ("what", "u4")], "late": [("time", "i8"), ("ticks", "i8")]}
PARAMS = [("factor", "u8"), ("span", "i8"), ("fail_at", "i8")]
BASKET_STATE = [("ticks", "u8"), ("hash", "u8"), ("first", "i8"), ("others", "i8")]
BASKET_ROW = [("ticks", "u8"), ("hash", "u8")]
MASK = 2**64 - 1
#: What an end emits in the place of a count of ticks.
END = 1_000_000
#: What a failing handler in C returns.
CODE = 77


# ---- plain


def _mix(row: Row, params: Any, *values: int) -> None:
    for value in values:
        row["hash"] = ((row["hash"] ^ value & MASK) * (params["factor"] | 1)) & MASK


def _tick_values(tick: Any) -> tuple[int, ...]:
    small = tick.publisher_id << 24 | tick.flags << 16 | tick.depth << 8 | tick.kind
    letters = (tick.action == b"T") * 4 + (tick.action == b"A") * 2 + (tick.side == b"B")
    return tick.price, tick.size, tick.order_id, tick.ref_id, tick.ts_event, tick.sequence, small, letters


def _trade_values(trade: Any) -> tuple[int, ...]:
    letters = trade.hidden * 8 + trade.cross * 4 + (trade.aggressor == b"B") * 2 + (trade.aggressor == b"A")
    return trade.price, trade.size, trade.order_id, trade.match_id, trade.sequence, letters


def _ask(here: Any, row: Any, params: Any, *at: int) -> Any:
    draw = int(row["hash"]) >> 33
    if draw % 3:
        return None
    now = here.time if not at else int(here.times[at[0]])
    wanted = 0 if draw % 7 == 0 else now + draw % int(params["span"])
    return here.wake_at(wanted, at=at[0]) if at else here.wake_at(wanted)


def _on_tick(here: Here, row: Row, tick: Any) -> None:
    row["ticks"] += 1
    _mix(row, here.params, *_tick_values(tick))
    row["sum"] += tick.size / 3.0
    row["last"] = tick.price
    if row["ticks"] == here.params["fail_at"]:
        raise PlainError
    if row["hash"] >> 62 == 0:
        here.emit("marks", row["hash"], row["ticks"])
    _ask(here, row, here.params)


def _on_wake(here: Here, row: Row, time: int) -> None:
    row["wakes"] += 1
    _mix(row, here.params, time)
    here.emit("late", time, row["ticks"])
    _ask(here, row, here.params)


def _on_finish(here: Here, row: Row) -> None:
    row["finished"] += 1
    _mix(row, here.params, 1)
    here.emit("marks", row["hash"], END)


def _on_basket_tick(here: Here, row: Row, tick: Any, basket: Row, member: int) -> None:
    row["ticks"] += 1
    basket["ticks"] += 1
    _mix(row, here.params, *_tick_values(tick))
    _mix(basket, here.params, row["hash"], member)
    basket["others" if member else "first"] = tick.price
    if row["ticks"] == here.params["fail_at"]:
        raise PlainError
    if basket["hash"] >> 62 == 0:
        here.emit("marks", basket["hash"], member)


PLAIN = Plain(STATE, _on_tick, _on_wake, _on_finish, OUTPUTS)


def plain_basket(baskets: Mapping[str, Sequence[str]]) -> Plain:
    """The handler of baskets, as a plain one."""
    outputs = {"marks": OUTPUTS["marks"]}
    return Plain(BASKET_ROW, _on_basket_tick, outputs=outputs, baskets=baskets, basket_state=BASKET_STATE)


# ---- in Strand


class AskedError(Exception):
    """The exception of handlers in Python."""


@cache
def _library(folder: Path) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise FileNotFoundError("a C compiler")
    source, built = Path(__file__).with_suffix(".c"), folder / "marked.so"
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-std=gnu11", f"-I{strand.get_include()}", "-o", built, source],
        check=True,
    )
    return built


def in_c(folder: Path, on: str) -> Any:
    """By ``strand.native``."""
    if on == "trade":
        outputs = {"marks": OUTPUTS["marks"]}
        return strand.native(_library(folder), "on_trades", on="trade", state=STATE, params=PARAMS, outputs=outputs,
                             never_publishes=True)  # fmt: skip
    return strand.native(
        _library(folder), "on_ticks", state=STATE, params=PARAMS, outputs=OUTPUTS, wake="on_wake", finish="on_finish",
        yields=True, never_publishes=True,
    )  # fmt: skip


def _mixers() -> tuple[Any, Any]:
    """Compiled functions of their own for each kind of row: numba warns where one sees rows of several widths."""
    import numba

    @numba.njit
    def mix(row, value, params):  # type: ignore[no-untyped-def]
        row.hash = (row.hash ^ np.uint64(value)) * (params.factor | np.uint64(1))

    @numba.njit
    def mix_tick(row, t, params):  # type: ignore[no-untyped-def]
        mix(row, t.price, params)
        mix(row, t.size, params)
        mix(row, t.order_id, params)
        mix(row, t.ref_id, params)
        mix(row, t.ts_event, params)
        mix(row, t.sequence, params)
        mix(
            row,
            np.int64(t.publisher_id) << 24 | np.int64(t.flags) << 16 | np.int64(t.depth) << 8 | np.int64(t.kind),
            params,
        )
        mix(row, (t.action == b"T") * 4 + (t.action == b"A") * 2 + (t.side == b"B") * 1, params)

    return mix, mix_tick


@cache
def _compiled() -> dict[str, Any]:
    import numba

    mix, mix_tick = _mixers()
    mix_trade, _ = _mixers()
    _, mix_member_tick = _mixers()
    mix_basket, _ = _mixers()

    @numba.njit
    def ask(row, params, ctx):  # type: ignore[no-untyped-def]
        draw = np.int64(row.hash >> np.uint64(33))
        if draw % 3 == 0:
            ctx.wake_at(0 if draw % 7 == 0 else ctx.time + draw % params.span)

    def on_wake(row, time, params, emit, ctx):  # type: ignore[no-untyped-def]
        row.wakes += 1
        mix(row, time, params)
        emit.late(time, np.int64(row.ticks))
        ask(row, params, ctx)

    def on_finish(row, params, emit):  # type: ignore[no-untyped-def]
        row.finished += 1
        mix(row, 1, params)
        emit.marks(row.hash, 1_000_000)

    def on_tick(row, tick, params, emit, ctx):  # type: ignore[no-untyped-def]
        row.ticks += 1
        mix_tick(row, tick, params)
        row.sum += tick.size / 3.0
        row.last = tick.price
        if np.int64(row.ticks) == params.fail_at:
            raise ValueError("as asked")
        if row.hash >> np.uint64(62) == 0:
            emit.marks(row.hash, row.ticks)
        ask(row, params, ctx)

    def on_trade(row, trade, params, emit):  # type: ignore[no-untyped-def]
        row.ticks += 1
        mix_trade(row, trade.price, params)
        mix_trade(row, trade.size, params)
        mix_trade(row, trade.order_id, params)
        mix_trade(row, trade.match_id, params)
        mix_trade(row, trade.sequence, params)
        sides = (trade.aggressor == b"B") * 2 + (trade.aggressor == b"A") * 1
        mix_trade(row, np.int64(trade.hidden) * 8 + np.int64(trade.cross) * 4 + sides, params)
        row.sum += trade.size / 3.0
        row.last = trade.price
        if row.hash >> np.uint64(62) == 0:
            emit.marks(row.hash, row.ticks)

    def on_basket_tick(tick, row, basket, member, params, emit):  # type: ignore[no-untyped-def]  # noqa: PLR0917
        row.ticks += 1
        basket.ticks += 1
        mix_member_tick(row, tick, params)
        mix_basket(basket, row.hash, params)
        mix_basket(basket, member, params)
        if member:
            basket.others = tick.price
        else:
            basket.first = tick.price
        if np.int64(row.ticks) == params.fail_at:
            raise ValueError("as asked")
        if basket.hash >> np.uint64(62) == 0:
            emit.marks(basket.hash, member)

    marks = {"marks": OUTPUTS["marks"]}
    return {
        "tick": strand.handler(state=STATE, params=PARAMS, outputs=OUTPUTS, on_wake=on_wake, on_finish=on_finish)(
            on_tick
        ),
        "trade": strand.handler(on="trade", state=STATE, params=PARAMS, outputs=marks)(on_trade),
        "basket": on_basket_tick,
    }


def compiled(on: str) -> Any:
    """By ``strand.handler``."""
    return _compiled()[on]


class _Row:
    """A numpy row with Python's numbers."""

    def __init__(self, row: Any) -> None:
        self.row = row

    def __getitem__(self, name: str) -> Any:
        return self.row[name].item()

    def __setitem__(self, name: str, value: Any) -> None:
        self.row[name] = value


class _Params:
    def __init__(self, params: Any) -> None:
        self.params = params

    def __getitem__(self, name: str) -> int:
        return int(self.params[name])


def _values_of(records: Any) -> list[Any]:
    """Records as objects with Python's values."""
    from types import SimpleNamespace

    names = [*records.dtype.names, "sequence"]
    columns = [records[name].tolist() for name in names]
    return [SimpleNamespace(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def _batch_tick(row: Any, params: Any, tick: Any, emit: Callable[[int, int], None]) -> None:
    row["ticks"] += 1
    _mix(row, params, *_tick_values(tick))
    row["sum"] += tick.size / 3.0
    row["last"] = tick.price
    if row["ticks"] == params["fail_at"]:
        raise AskedError("as asked")
    if row["hash"] >> 62 == 0:
        emit(row["hash"], row["ticks"])


def _wake(row: Any, params: Any, ctx: Any, time: int) -> None:
    row["wakes"] += 1
    _mix(row, params, time)
    ctx.emit((time, row["ticks"]), output="late")
    _ask(ctx, row, params)


def _finish(row: Any, params: Any, ctx: Any) -> None:
    row["finished"] += 1
    _mix(row, params, 1)
    ctx.emit((row["hash"], END), output="marks")


def _one_trade(row: Any, params: Any, trade: Any, emit: Callable[[int, int], None]) -> None:
    row["ticks"] += 1
    _mix(row, params, *_trade_values(trade))
    row["sum"] += trade.size / 3.0
    row["last"] = trade.price
    if row["hash"] >> 62 == 0:
        emit(row["hash"], row["ticks"])


def batch(on: str) -> Any:
    """By ``strand.batch_handler``."""
    if on == "trade":

        @strand.batch_handler(on="trade", state=STATE, params=PARAMS, outputs={"marks": OUTPUTS["marks"]})
        def on_trades(symbol: str, trades: Any, row: Any, ctx: Any) -> None:
            row, params = _Row(row), _Params(ctx.params)
            for i, trade in enumerate(_values_of(trades)):
                _one_trade(row, params, trade, lambda *record, i=i: ctx.emit(record, at=i))  # type: ignore[misc]

        return on_trades

    def on_wake(symbol: str, time: int, row: Any, ctx: Any) -> None:
        _wake(_Row(row), _Params(ctx.params), ctx, time)

    def on_finish(symbol: str, row: Any, ctx: Any) -> None:
        _finish(_Row(row), _Params(ctx.params), ctx)

    @strand.batch_handler(state=STATE, params=PARAMS, outputs=OUTPUTS, on_wake=on_wake, on_finish=on_finish)
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> int:
        row, params, end = _Row(row), _Params(ctx.params), len(ticks)
        values, i = _values_of(ticks), 0
        while i < end:
            _batch_tick(row, params, values[i], lambda *record, i=i: ctx.emit(record, at=i, output="marks"))  # type: ignore[misc]
            asked = _ask(ctx, row, params, i)
            end = end if asked is None else asked
            i += 1
        return i

    return on_ticks


class Marked:
    """An object per symbol."""

    def on_start(self, ctx: Any) -> None:
        self.ctx, self.row, self.params = ctx, _Row(ctx.row), _Params(ctx.params)

    def on_tick(self, tick: Any) -> None:
        _batch_tick(self.row, self.params, tick, lambda *record: self.ctx.emit(record, output="marks"))
        _ask(self.ctx, self.row, self.params)

    def on_wake(self, time: int) -> None:
        _wake(self.row, self.params, self.ctx, time)

    def on_finish(self) -> None:
        _finish(self.row, self.params, self.ctx)

    def save(self) -> bytes:
        return b"all is in the row"

    def load(self, data: bytes) -> None:
        assert data == b"all is in the row"


class MarkedTrades:
    """An object per symbol that gets trades."""

    def on_start(self, ctx: Any) -> None:
        self.ctx, self.row, self.params = ctx, _Row(ctx.row), _Params(ctx.params)

    def on_trade(self, trade: Any) -> None:
        _one_trade(self.row, self.params, trade, lambda *record: self.ctx.emit(record))


def objects(on: str) -> Any:
    """By ``strand.object_handler``."""
    outputs = {"marks": OUTPUTS["marks"]} if on == "trade" else OUTPUTS
    make = strand.object_handler(state=STATE, params=PARAMS, outputs=outputs)
    return make(MarkedTrades if on == "trade" else Marked)


# ---- baskets


def _basket_tick(rows: tuple[Any, Any], params: Any, tick: Any, member: int, emit: Callable[[int, int], None]) -> None:
    row, basket = _Row(rows[0]), _Row(rows[1])
    row["ticks"] += 1
    basket["ticks"] += 1
    _mix(row, params, *_tick_values(tick))
    _mix(basket, params, row["hash"], member)
    basket["others" if member else "first"] = tick.price
    if row["ticks"] == params["fail_at"]:
        raise AskedError("as asked")
    if basket["hash"] >> 62 == 0:
        emit(basket["hash"], member)


class MarkedBasket:
    """An object per basket."""

    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_tick(self, tick: Any, row: Any, basket: Any, member: int) -> None:
        params = _Params(self.ctx.params[member])
        _basket_tick((row, basket), params, tick, member, lambda *record: self.ctx.emit(record))


def in_baskets(code: str, baskets: Mapping[str, Sequence[str]]) -> Any:
    """By ``strand.basket_handler``; the same object for the same baskets, so that it is compiled once."""
    return _in_baskets(code, tuple((name, tuple(members)) for name, members in baskets.items()))


@cache
def _in_baskets(code: str, baskets: tuple[tuple[str, tuple[str, ...]], ...]) -> Any:
    options: dict[str, Any] = {
        "baskets": {name: list(members) for name, members in baskets}, "basket_state": BASKET_STATE,
        "state": BASKET_ROW, "params": PARAMS, "outputs": {"marks": OUTPUTS["marks"]},
    }  # fmt: skip
    if code == "compiled":
        return strand.basket_handler(**options)(_compiled()["basket"])
    if code == "object":
        return strand.basket_handler(**options)(MarkedBasket)

    @strand.basket_handler(kind="batch", **options)
    def on_ticks(ticks: Any, rows: Any, basket: Any, members: Any, ctx: Any) -> None:
        for i, (tick, member) in enumerate(zip(_values_of(ticks), members.tolist(), strict=True)):
            params = _Params(ctx.params[member])
            emit = lambda *record, i=i: ctx.emit(record, at=i)  # type: ignore[misc]  # noqa: E731
            _basket_tick((rows[member], basket), params, tick, member, emit)

    return on_ticks


@cache
def of_code(code: str, folder: Path, on: str = "tick") -> Any:
    """The handler of symbols in C, compiled, batches or objects: one object for all runs."""
    if code == "C":
        return in_c(folder, on)
    return {"compiled": compiled, "batch": batch, "object": objects}[code](on)
