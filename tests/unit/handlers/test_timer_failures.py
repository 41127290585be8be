"""Timers and ends that fail, and what may not be asked of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alarms import asks, times
from engine_support import PAIR_ROW, balanced

from strand import Dispatcher, Handler, batch_handler, chain, handler, native, object_handler
from strand.caller.run import CallerRun
from strand.errors import ConfigurationError, HandlerError
from strand.ticks import KIND_TRADE, zeros

ROW = [("ticks", "u8"), ("wakes", "u8"), ("ends", "u8")]
OUT = {"said": [("ticks", "u8")]}


def batches() -> Handler:
    """A timer 5 ns after the first tick, which fails after it has emitted."""

    def on_wake(symbol: str, time: int, row: Any, ctx: Any) -> None:
        row["wakes"] += 1
        ctx.emit((row["ticks"],))
        raise ValueError(f"boom at {time}")

    @batch_handler(state=ROW, outputs=OUT, on_wake=on_wake, name="bomb")
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> int:
        n = len(ticks)
        if row["ticks"] == 0:
            n = ctx.wake_at(int(ctx.times[0]) + 5, at=0)
        row["ticks"] += n
        return n

    return on_ticks


def objects() -> Handler:
    @object_handler(state=ROW, outputs=OUT, name="bomb")
    class Bomb:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx
            ctx.wake_at(5)

        def on_tick(self, tick: Any) -> None:
            self.ctx.row["ticks"] += 1

        def on_wake(self, time: int) -> None:
            self.ctx.row["wakes"] += 1
            self.ctx.emit((self.ctx.row["ticks"],))
            raise ValueError(f"boom at {time}")

    return Bomb  # type: ignore[return-value]


def compiled() -> Handler:
    pytest.importorskip("numba")

    def on_wake(row, time, emit):  # type: ignore[no-untyped-def]
        row.wakes += 1
        emit.said(row.ticks)
        raise ValueError("nobody hears this")

    @handler(state=ROW, outputs=OUT, on_wake=on_wake, name="bomb")
    def on_tick(row, tick, emit, ctx):  # type: ignore[no-untyped-def]
        if row.ticks == 0:
            ctx.wake_at(ctx.time + 5)
        row.ticks += 1

    return on_tick


KINDS = {"batches": batches, "objects": objects, "numba": compiled}
SAID = {"batches": "ValueError: boom at 5", "objects": "ValueError: boom at 5", "numba": "it raised an exception"}


@pytest.mark.cells(1)
@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_timer_s_failure_names_what_and_when_and_its_strand_goes_on_after_a_release(kind: str, chained: bool) -> None:
    one = KINDS[kind]()
    with Dispatcher(
        2, chain("count", one) if chained else one, workers=2, cores=None, on_error="quarantine", strands="per-symbol"
    ) as d:
        d.publish(times(list(range(10))))
        d.publish(times([20, 21], key=1))
        d.drain()
        assert d.inspect(0).quarantined
        (failure, *_) = [f for f in d.failures if f.symbol == "#0"]
        assert "its timer at 5 ns: " in str(failure)
        assert SAID[kind] in str(failure)
        assert failure.handler == ("count+bomb" if chained else "bomb")
        assert isinstance(failure.__cause__, ValueError) == (kind != "numba")
        assert (d.inspect(0).handled, d.inspect(0).failed) == (5, 0)
        d.release(0)
        d.drain()
        s = d.statistics()
        assert (s.accepted, s.handled + s.pending, s.dropped["failed"]) == (12, 12, 0)
        row = d.rows[0]["bomb"] if chained else d.rows[0]
        assert (row["ticks"], row["wakes"]) == (10, 1)
        balanced(d)
    assert len(d.outputs["said"].array()) == 0


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_timer_s_failure_stops_a_run_and_a_plain_loop(kind: str, chained: bool) -> None:
    like = (lambda: chain("count", KINDS[kind]())) if chained else KINDS[kind]
    for make in (partial(Dispatcher, workers=1, cores=None), CallerRun):
        with (
            pytest.raises(HandlerError, match=f"on #0: its timer at 5 ns: {SAID[kind]}"),
            make(2, like()) as d,
        ):
            d.publish(times(list(range(10))))
            d.drain()
        row = d.rows[0]["bomb"] if chained else d.rows[0]
        assert (row["ticks"], row["wakes"]) == (5, 1)
        assert len(d.outputs["said"].array()) == 0


def test_a_part_behind_one_whose_timer_failed_has_its_own_after_a_release(c_handlers: Path) -> None:
    @object_handler(state=ROW)
    class Later:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx
            ctx.wake_at(5)

        def on_tick(self, tick: Any) -> None:
            self.ctx.row["ticks"] += 1

        def on_wake(self, time: int) -> None:
            self.ctx.row["wakes"] += 1

    bomb = native(c_handlers, "on_bomb", state=PAIR_ROW, wake="wake_bomb")
    for like, failures in (
        (chain(bomb, Later), 1),
        (chain(bomb, "count", other=bomb), 2),
        (chain(chain(bomb, "count", other=bomb), Later), 2),
    ):
        with Dispatcher(1, like, workers=1, cores=None, on_error="quarantine") as d:
            d.publish(times(list(range(10))))
            d.drain()
            while d.inspect(0).quarantined:
                d.release(0)
                d.drain()
            assert d.rows[0]["on_bomb"]["ticks"] == 10
            assert len(d.failures) == failures
            if "Later" in d.rows[0].dtype.names:
                assert (d.rows[0]["Later"]["ticks"], d.rows[0]["Later"]["wakes"]) == (10, 1)


@pytest.mark.parametrize("kind", ["batches", "objects", "numba"])
def test_an_end_that_fails_is_raised_and_the_rows_are_there(kind: str) -> None:
    def batch() -> Handler:
        def on_finish(symbol: str, row: Any, ctx: Any) -> None:
            row["ends"] += 1
            ctx.emit((row["ticks"],))
            if symbol == "#1":
                raise ValueError("no end")

        @batch_handler(state=ROW, outputs=OUT, on_finish=on_finish)
        def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
            row["ticks"] += len(ticks)

        return on_ticks

    def objects() -> Handler:
        @object_handler(state=ROW, outputs=OUT)
        class Ends:
            def on_start(self, ctx: Any) -> None:
                self.ctx = ctx

            def on_tick(self, tick: Any) -> None:
                self.ctx.row["ticks"] += 1

            def on_finish(self) -> None:
                self.ctx.row["ends"] += 1
                self.ctx.emit((self.ctx.row["ticks"],))
                if self.ctx.key == 1:
                    raise ValueError("no end")

        return Ends  # type: ignore[return-value]

    def numba() -> Handler:
        pytest.importorskip("numba")

        def on_finish(row, emit):  # type: ignore[no-untyped-def]
            row.ends += 1
            emit.said(row.ticks)
            if row.ticks == 2:
                raise ValueError("no end")

        @handler(state=ROW, outputs=OUT, on_finish=on_finish)
        def on_tick(row, tick, emit):  # type: ignore[no-untyped-def]
            row.ticks += 1

        return on_tick

    make = {"batches": batch, "objects": objects, "numba": numba}[kind]
    ticks = np.concatenate([times([1]), times([2, 3], key=1), times([4], key=2)])
    for how, ends in ((partial(Dispatcher, workers=2, cores=None), 1), (CallerRun, 1)):
        d: Any = how(4, make())
        with pytest.raises(HandlerError, match=r"failed on #1: its end at 4 ns: "), d:
            d.publish(ticks)
        assert d.rows.array["ends"].tolist() == [1, 1, 0, 0]
        assert d.outputs["said"].array()[["ts", "instrument_id", "ticks"]].tolist() == [(4, 0, ends)]
    with Dispatcher(4, make(), workers=2, cores=None, on_error="quarantine") as d:
        d.publish(ticks)
    assert d.rows.array["ends"].tolist() == [1, 1, 1, 0]
    assert [f.symbol for f in d.failures] == ["#1"]
    assert d.outputs["said"].array()["instrument_id"].tolist() == [0, 2]


def test_a_run_that_is_not_complete_has_no_end() -> None:
    ended: list[str] = []

    class Ends:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_finish(self) -> None:
            ended.append("finish")

        def on_stop(self) -> None:
            ended.append("stop")

    for make in (partial(Dispatcher, workers=1, cores=None), CallerRun):
        with pytest.raises(KeyError), make(1, Ends) as d:
            d.publish(times([1]))
            d.drain()
            raise KeyError
        assert ended == ["stop"]
        ended.clear()
        with make(1, Ends) as d:
            d.publish(times([1]))
        assert ended == ["finish", "stop"]
        ended.clear()


def test_timers_are_refused_where_they_cannot_be(c_handlers: Path) -> None:
    with (
        pytest.raises(HandlerError, match="has no on_wake"),
        CallerRun(1, asks(lambda ctx, n: ctx.wake_at(5, at=0), timed=False)) as d,
    ):
        d.publish(times([1]))
    with pytest.raises(ConfigurationError, match="write on_ticks"):
        batch_handler(state=[("n", "u8")], on_wake=lambda symbol, time, row: None)(lambda symbol, ticks, row: None)
    record = np.dtype([("instrument_id", "<u4"), ("sequence", "<u8")])
    for make in (partial(Dispatcher, workers=1, cores=None), CallerRun):
        with pytest.raises(ConfigurationError, match="ts_recv"):
            make(1, asks(lambda ctx, n: None), dtype=record)

    class Wakes:
        def on_wake(self, time: int) -> None:
            pass

    def made() -> Wakes:
        return Wakes()

    with (
        pytest.raises(HandlerError, match="on_wake, which must be known before the run"),
        CallerRun(1, object_handler(made)) as d,
    ):
        d.publish(times([1]))
    with CallerRun(1, object_handler(partial(Wakes))) as d:
        d.publish(times([1]))


def tick_that_asks_and_fails(kind: str) -> Handler:
    """A handler, with a count first in its row, that asks for a timer at ticks of size 13 and then fails on them."""
    pytest.importorskip("numba")

    def on_wake(row, time):  # type: ignore[no-untyped-def]
        row.wakes += 1

    state = [("ticks", "u8"), ("wakes", "u8")]

    @handler(on="trade" if kind == "trades" else "tick", state=state, on_wake=on_wake)
    def asks_and_fails(row, tick, ctx):  # type: ignore[no-untyped-def]
        row.ticks += 1
        if tick.size == 13:
            ctx.wake_at(ctx.time + 1)
            raise ValueError("13")

    @handler(state=state, on_wake=on_wake)
    def asks_only(row, tick, ctx):  # type: ignore[no-untyped-def]
        row.ticks += 1
        if tick.size == 13:
            ctx.wake_at(ctx.time + 1)

    @handler(state=[("ticks", "u8")])
    def fails(row, tick):  # type: ignore[no-untyped-def]
        if tick.size == 13:
            raise ValueError("13")
        row.ticks += 1

    return chain(asks_only, fails) if kind == "chain" else asks_and_fails


@pytest.mark.parametrize("kind", ["ticks", "trades", "chain"])
def test_a_tick_that_asks_for_a_timer_and_fails_is_handled_once(kind: str) -> None:
    ticks = zeros(300)
    ticks["ts_recv"] = np.arange(1, 301) * 10
    ticks["kind"], ticks["action"], ticks["side"], ticks["price"], ticks["size"] = KIND_TRADE, b"T", b"N", 10**9, 5
    ticks["size"][[20, 100]] = 13
    with Dispatcher(["A"], tick_that_asks_and_fails(kind), workers=1, on_error="quarantine", cores=None) as dispatcher:
        dispatcher.publish(ticks)
        dispatcher.drain()
        while dispatcher.inspect("A").quarantined:
            dispatcher.release("A")
            dispatcher.drain()
        row = dispatcher.rows["A"]
    assert len(dispatcher.failures) == 2
    first = row["asks_only"] if kind == "chain" else row
    assert tuple(first) == (300, 2)
