"""Timers come at the same place among a symbol's ticks, whoever handles what and whenever."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from alarms import SYMBOLS, PlainAlarm, asks, in_batches, in_c, in_numba, in_objects, merged, streams, times
from engine_support import PAIR_ROW, balanced, ticks_for, wait_until
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from strand import Dispatcher, Handler, bars, batch_handler, chain, native, object_handler, replay
from strand import handler as compiled
from strand.caller.run import CallerRun
from strand.errors import ConfigurationError, HandlerError
from strand.handlers import BAR_PARTIAL
from strand.testing import feed
from strand.ticks import KIND_TRADE

#: Every way to write a handler, and chains of them: made of the path to C handlers, with the multipliers of its parts.
FIRST, SECOND, THIRD = 0xD1342543DE82EF95, 0x2545F4914F6CDD1D, 0xAF251AF3B0F025B5
KINDS: dict[str, tuple[Callable[[Path], Handler], tuple[int, ...]]] = {
    "C": (lambda c: in_c(c, FIRST), (FIRST,)),
    "C, which yields": (lambda c: in_c(c, FIRST, yields=True), (FIRST,)),
    "batches": (lambda c: in_batches(FIRST), (FIRST,)),
    "objects": (lambda c: in_objects(FIRST), (FIRST,)),
    "chain of C": (lambda c: chain(one=in_c(c, FIRST), two=in_c(c, SECOND, yields=True)), (FIRST, SECOND)),
    "chain to batches": (lambda c: chain(one=in_c(c, FIRST), two=in_batches(SECOND)), (FIRST, SECOND)),
    "chain to objects": (
        lambda c: chain(one=in_c(c, FIRST), two=in_c(c, SECOND), three=in_objects(THIRD)),
        (FIRST, SECOND, THIRD),
    ),
}
if importlib.util.find_spec("numba") is not None:
    KINDS |= {
        "numba": (lambda _: in_numba(FIRST), (FIRST,)),
        "chain of numba and C": (lambda c: chain(one=in_numba(FIRST, "two"), two=in_c(c, SECOND)), (FIRST, SECOND)),
        "chain of all": (
            lambda c: chain(one=in_numba(FIRST, "three"), two=in_c(c, SECOND), three=in_batches(THIRD)),
            (FIRST, SECOND, THIRD),
        ),
    }
#: What numba compiles is no code of ours.
MARKED = [pytest.param(kind, marks=pytest.mark.python if "numba" in kind or "all" in kind else ()) for kind in KINDS]
NEVER = 2**63 - 1


def collected(d: Dispatcher | CallerRun) -> list[tuple[int, ...]]:
    array = d.outputs["alarms"].array()
    # The end's records have a number of their own, and what a timer has is not of interest.
    fields = ("ts", "instrument_id", "hash", "ticks", "what")
    return list(zip(*(array[f].tolist() for f in fields), strict=True)) if len(array) else []


def plain_runs(multipliers: tuple[int, ...], ticks: npt.NDArray[Any]) -> list[PlainAlarm]:
    """Of all parts of a chain, of which none hangs on another."""
    parts = [PlainAlarm(SYMBOLS, multiplier, place) for place, multiplier in enumerate(multipliers)]
    for part in parts:
        part.run(ticks)
    return parts


def left(d: Dispatcher | CallerRun) -> tuple[list[list[list[int]]], list[tuple[int, ...]]]:
    """Rows of each part, and what was emitted."""
    rows = d.rows.array
    parts = [rows[name] for name in rows.dtype.names] if "one" in rows.dtype.names else [rows]
    return [[list(row) for row in part.tolist()] for part in parts], collected(d)


@pytest.mark.parametrize("kind", MARKED)
@settings(max_examples=examples(36))
@given(data=st.data())
def test_any_workers_grouping_and_batches_give_what_one_tick_after_the_other_gives(
    c_handlers: Path, kind: str, data: st.DataObject
) -> None:
    make, multipliers = KINDS[kind]
    ticks = data.draw(streams())
    parts = plain_runs(multipliers, ticks)
    options = {
        "workers": data.draw(st.integers(0, 4)),
        "strands": data.draw(st.sampled_from(["auto", "per-symbol", 1, 3])),
        "capacity_ticks": data.draw(st.sampled_from([1, 7, 100, 65_536])),
        "budget_ticks": data.draw(st.sampled_from([1, 3, 4096])),
        "batch_ticks": data.draw(st.sampled_from([1, 5, 64, 4096])),
        "idle": data.draw(st.sampled_from(["spin", "backoff", "park"])),
        "publisher_drains": data.draw(st.booleans()),
    }
    cuts = data.draw(st.integers(1, 60))
    run = Dispatcher(SYMBOLS, make(c_handlers), cores=None, **options) if options["workers"] else None
    with run or CallerRun(SYMBOLS, make(c_handlers)) as d:
        for at in range(0, len(ticks), cuts):
            d.publish(ticks[at : at + cuts])
            if data.draw(st.integers(0, 20)) == 0:
                d.drain()
        d.drain()
        if run:
            balanced(run)
    assert left(d) == ([part.rows for part in parts], [record[1:] for record in merged(parts)])


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("kind", [kind for kind, (_, multipliers) in KINDS.items() if len(multipliers) == 1])
def test_a_time_that_is_undefined_fires_what_there_is_and_nothing_else(
    c_handlers: Path, kind: str, workers: int
) -> None:
    make, multipliers = KINDS[kind]
    ticks = ticks_for([0, 1, 2, 1, 0, 1])
    ticks["ts_recv"] = [5, 50, 60, 2**63 - 1, 2**63 - 1, 70]
    parts = plain_runs(multipliers, ticks)
    with (
        CallerRun(SYMBOLS, make(c_handlers))
        if not workers
        else Dispatcher(SYMBOLS, make(c_handlers), workers=workers, cores=None) as d
    ):
        d.publish(ticks)
        assert d.drain(20)
    assert left(d) == ([part.rows for part in parts], [record[1:] for record in merged(parts)])


@cache
def asks_for_never() -> Handler:
    def on_wake(row, time):  # type: ignore[no-untyped-def]
        row.wakes += 1

    @compiled(state=[("wakes", "u8")], on_wake=on_wake, cache=False)
    def asks(row, tick, ctx):  # type: ignore[no-untyped-def]
        ctx.wake_at(NEVER)

    return asks


@pytest.mark.cells(1)
@pytest.mark.parametrize("make", [CallerRun, partial(Dispatcher, workers=2, cores=None)])
@pytest.mark.parametrize(
    "kind", ["batches", "objects", pytest.param("numba", marks=pytest.mark.python), "chain", "chain to batches"]
)
def test_the_greatest_time_is_never_also_where_a_tick_has_it(kind: str, make: Any) -> None:
    """A part of a chain that took it for a time would wait for a timer that nothing fires."""
    fired = []

    @batch_handler(state=[("n", "u8")], on_wake=lambda *_: fired.append("batches"))
    def batches(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        assert [ctx.wake_at(NEVER, i) for i in range(len(ticks))] == [len(ticks)] * len(ticks)

    class Objects:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx
            ctx.wake_at(NEVER)

        def on_tick(self, tick: Any) -> None:
            self.ctx.wake_at(NEVER)

        def on_wake(self, time: int) -> None:
            fired.append("objects")

    made: Any = {"batches": batches, "objects": Objects}.get(kind)
    if made is None:
        pytest.importorskip("numba")

        asks = asks_for_never()
        made = {"numba": asks, "chain": chain(asks, "count"), "chain to batches": chain(asks, batches)}[kind]
    ticks = ticks_for([0, 1, 0, 0, 1])
    ticks["ts_recv"] = [10, 20, NEVER, NEVER, 30]
    with make(2, made) as d:
        d.publish(ticks)
        assert d.drain(20)
    rows = d.rows.array["asks"] if kind.startswith("chain") else d.rows.array
    assert not fired
    assert "wakes" not in rows.dtype.names or not rows["wakes"].any()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_timer_for_which_no_time_is_left_never_fires(workers: int) -> None:
    """The feed's time is the one before the greatest when a bar of an earlier time begins, in the middle of a batch."""
    ticks = ticks_for([0, 0, 1, 0])
    ticks["ts_recv"] = [1, NEVER - 1, 5, NEVER]
    ticks["action"], ticks["size"] = [b"N", b"N", b"T", b"N"], 1
    found = replay(feed(ticks, ["A", "B"]), bars("1d"), workers=workers, cores=None).outputs["bars"]
    assert found["flags"].tolist() == [BAR_PARTIAL]


def test_a_quiet_symbol_s_timer_fires_when_the_others_pass_its_time(c_handlers: Path) -> None:
    """No drain, no further tick of its own."""
    handler = native(c_handlers, "on_bomb", state=PAIR_ROW, wake="wake_bomb")
    first, others = ticks_for([0]), ticks_for([1] * 5)
    first["ts_recv"], others["ts_recv"] = 100, [101, 102, 103, 104, 105]
    with Dispatcher(2, handler, workers=1, cores=None, on_error="quarantine", strands="per-symbol") as d:
        d.publish(first)
        d.drain()
        d.publish(others[:4])
        d.drain()
        assert d.failures == []
        d.publish(others[4:])
        d.call(1, lambda view: None)  # the strand's own, which asks for nothing of the first's
        d.drain()
        (failure,) = d.failures
        assert (failure.symbol, failure.code) == (d.symbols[0], 7)
        assert "its timer at 105 ns: boom at 105" in str(failure)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("kind", ["objects", "batches"])
def test_a_quiet_symbol_s_timer_fires_at_the_run_s_last_time_itself(kind: str, workers: int) -> None:
    def wake(symbol: str, time: int, row: Any) -> None:
        row["woken"] = time

    @batch_handler(state=[("woken", "i8")], on_wake=wake)
    def batches(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        if symbol == "A":
            ctx.wake_at(10, at=0)

    @object_handler(state=[("woken", "i8")])
    class Objects:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            if tick.ts_recv == 1:
                self.ctx.wake_at(10)

        def on_wake(self, time: int) -> None:
            self.ctx.row["woken"] = time

    ticks = feed([("A", 1, 5, 1), ("B", 10, 5, 1)])
    result = replay(ticks, {"objects": Objects, "batches": batches}[kind], workers=workers, cores=None)
    assert result.rows["A"]["woken"] == 10


def test_a_timer_that_was_left_to_a_strand_s_records_fires_though_none_of_them_is_late_enough() -> None:
    """The strand has a record when the feed's time passes it, but of an earlier time. No drain, no further tick."""
    minute = 60 * 10**9
    ticks = ticks_for([0, 0, 1])
    ticks["kind"], ticks["action"], ticks["size"] = KIND_TRADE, b"T", 1
    ticks["ts_recv"] = [10 * minute + 1, 10 * minute + 2, 12 * minute]
    with Dispatcher(2, bars("1m"), workers=1, cores=None, strands="per-symbol") as d:
        d.publish(ticks[:1])
        d.drain()
        d.pause(0)
        d.publish(ticks[1:])
        assert d.outputs["bars"].records == 0
        d.resume(0)
        wait_until(lambda: d.outputs["bars"].records == 1)
        (bar,) = d.outputs["bars"].array()
        assert (bar["instrument_id"], bar["start"], bar["trades"]) == (0, 10 * minute, 2)


def test_the_end_comes_only_after_everything_was_handled(c_handlers: Path) -> None:
    ticks = ticks_for([0, 2])
    d = Dispatcher(3, in_c(c_handlers, 3), workers=1, cores=None).start()
    d.publish(ticks)
    d.drain()
    d.stop(drain=False)
    assert d.rows.array["finished"].tolist() == [0, 0, 0]
    with Dispatcher(3, in_c(c_handlers, 3), workers=1, cores=None) as d:
        d.publish(ticks)
        d.drain()
        assert d.rows.array["finished"].tolist() == [0, 0, 0]
    assert d.rows.array["finished"].tolist() == [1, 0, 1]
    with Dispatcher(3, in_c(c_handlers, 3), workers=1, cores=None) as d:
        d.pause(0)
        d.publish(ticks)
    assert d.rows.array["finished"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("several", [1, 2])
@pytest.mark.parametrize("moments", [1, 3, 300])
def test_timers_of_one_moment_are_handed_out_by_symbol_and_as_they_emitted(moments: int, several: int) -> None:
    """Hundreds at once, at one time, at a few, and each at its own."""
    symbols = 600

    def on_wake(symbol: str, time: int, row: Any, ctx: Any) -> None:
        for i in range(several):
            ctx.emit((i,))

    @batch_handler(state=[("n", "u8")], outputs={"rung": [("i", "u8")]}, on_wake=on_wake)
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> int:
        ctx.wake_at(1_000 * (1 + ctx.key % moments), at=0)
        return 1

    ticks = ticks_for([*np.random.default_rng(moments).permutation(symbols), 0])
    ticks["ts_recv"] = 1
    ticks["ts_recv"][-1] = 10**9
    with Dispatcher(symbols, on_ticks, workers=3, cores=None) as d:
        d.publish(ticks[:-1])
        d.drain()
        d.publish(ticks[-1:])
    found = d.outputs["rung"].array()[["ts", "instrument_id", "i"]].tolist()
    assert found == [
        (1_000 * (1 + moment), key, i)
        for moment in range(moments)
        for key in range(moment, symbols, moments)
        for i in range(several)
    ]


# ---- Timers of handlers in Python


def test_timers_need_records_with_a_time(c_handlers: Path) -> None:
    record = np.dtype([("instrument_id", "<u4"), ("sequence", "<u8")])
    raw = native(c_handlers, "on_raw", state=PAIR_ROW, wake="wake_bomb", params=bytes(8))
    with pytest.raises(ConfigurationError, match="ts_recv"):
        Dispatcher(1, raw, dtype=record, workers=1, cores=None)
    with pytest.raises(ConfigurationError, match="'nothing'"):
        native(c_handlers, "on_raw", state=PAIR_ROW, wake="nothing")


WRONG = {
    "not a place": (lambda ctx, n: ctx.wake_at(5), "say which tick asks"),
    "a place outside": (lambda ctx, n: ctx.wake_at(5, at=n), "not a place in a batch of 9 ticks"),
    "a float": (lambda ctx, n: ctx.wake_at(5.0, at=0), "5.0 is not a time"),
    "a time before the epoch": (lambda ctx, n: ctx.wake_at(-1, at=0), "-1 is not a time"),
    "out of order": (lambda ctx, n: (ctx.wake_at(50, at=2), ctx.wake_at(50, at=1)), "tick 1 asks after tick 2"),
    "behind its timer": (lambda ctx, n: (ctx.wake_at(5, at=0), ctx.wake_at(6, at=4)), "handle the 4 before it"),
    "all ticks all the same": (lambda ctx, n: ctx.wake_at(5, at=0) and None, "comes before tick 4 of 9"),
    "more than there are before": (lambda ctx, n: ctx.wake_at(5, at=0) + 1, "returned 5 for 9 ticks, but only 4 come"),
    "fewer than have asked": (lambda ctx, n: ctx.wake_at(5, at=2) - 3, "which tick 2 asked for"),
    "none": (lambda ctx, n: 0, "returned 0 for 9 ticks"),
    "no number": (lambda ctx, n: "all", "return how many ticks it handled"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_batch_handler_is_told_what_it_asks_wrongly(what: str) -> None:
    ask, said = WRONG[what]
    for make in (partial(Dispatcher, workers=1, cores=None), CallerRun):
        with pytest.raises(HandlerError, match=said), make(1, asks(ask)) as d:
            d.publish(times([1, 2, 3, 4, 5, 6, 7, 8, 9]))
            d.drain()
        assert d.statistics().handled == 0


def test_at_the_end_no_timer_is_asked_for() -> None:
    class Late:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_wake(self, time: int) -> None:
            pass

        def on_finish(self) -> None:
            self.ctx.wake_at(10)

    with pytest.raises(HandlerError, match="the run has ended"), CallerRun(1, Late) as d:
        d.publish(times([1]))
