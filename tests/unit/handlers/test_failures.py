"""Handlers that fail: the run stops or the strand is set aside, the books balance, and the error says where."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_feed import order_feed
from engine_support import COUNT_ROW, PAIR_ROW, balanced, ticks_for, wait_until, worker_threads

import strand
from strand import Dispatcher, batch_handler, native
from strand.errors import BackpressureError, EngineError, HandlerError, StoppedError


@batch_handler(state=[("ticks", "u8")], name="picky")
def picky(symbol: str, ticks: Any, row: Any) -> None:
    """Refuses a batch that begins with an X."""
    if ticks["action"][0] == b"X":
        raise ValueError(f"no X for {symbol}")
    row["ticks"] += len(ticks)


def poisoned(keys: Any, at: int) -> np.ndarray[Any, Any]:
    ticks = ticks_for(keys)
    ticks["action"][at] = b"X"
    return ticks


def test_a_python_handler_that_raises_stops_the_run_and_is_named_with_its_cause() -> None:
    d = Dispatcher(["A", "B"], picky, workers=2, cores=None)
    with pytest.raises(HandlerError) as caught, d:
        d.publish(poisoned([1], 0))
        d.drain()
    error = caught.value
    assert (error.symbol, error.sequence, error.handler) == ("B", 1, "picky")
    assert str(error) == "handler 'picky' failed on B at sequence 1 (its tick 1): ValueError: no X for B"
    assert isinstance(error.__cause__, ValueError)
    s = d.statistics()
    assert s.dropped["failed"] == 1
    balanced(d)
    assert worker_threads() == []


def test_a_stopped_run_tells_every_caller_why() -> None:
    d = Dispatcher(["A", "B"], picky, workers=2, cores=None).start()
    d.publish(poisoned([0], 0))
    for call in (d.drain, lambda: [d.publish(ticks_for([1])) for _ in range(10**6)], d.stop):
        with pytest.raises(HandlerError, match="failed on A at sequence 1"):
            call()
    assert worker_threads() == []
    assert d.stop() is False
    with pytest.raises(HandlerError, match="failed on A"):
        d.publish(ticks_for([1]))


def test_a_publisher_that_waits_for_room_learns_of_the_failure() -> None:
    with (
        pytest.raises(HandlerError, match="failed on A"),
        Dispatcher(["A", "B"], picky, workers=1, cores=None, capacity_ticks=4) as d,
    ):
        d.pause("B")
        d.pause("A")
        d.publish(poisoned([0], 0))
        d.publish(ticks_for([1] * 4))
        d.resume("A")
        d.publish(ticks_for([1] * 4))  # waits for room that never comes


def test_after_the_exit_by_a_failure_nothing_is_left_behind_even_when_the_body_failed_too() -> None:
    with pytest.raises(KeyError), Dispatcher(1, picky, workers=1, cores=None) as d:
        d.publish(poisoned([0], 0))
        wait_until(lambda: bool(d.failures))
        raise KeyError("the body's own")
    assert worker_threads() == []
    assert len(d.failures) == 1


def test_a_quarantined_strand_goes_on_after_the_poison_tick() -> None:
    with Dispatcher(["A", "B"], picky, workers=2, cores=None, on_error="quarantine", budget_ticks=1) as d:
        d.publish(poisoned([0, 0, 0, 0, 1, 1], 2))
        assert d.drain()
        look = d.inspect("A")
        assert look.quarantined
        assert (look.handled, look.failed, look.pending) == (2, 1, 1)
        assert d.inspect("B").handled == 2
        balanced(d)
        d.publish(ticks_for([0, 1]))
        assert d.drain()
        assert d.inspect("A").pending == 2
        d.release("A")
        assert d.drain()
        assert (d.inspect("A").handled, d.inspect("A").pending) == (4, 0)
        assert not d.inspect("A").quarantined
        balanced(d)
        assert [(e.symbol, e.sequence) for e in d.failures] == [("A", 3)]
    assert d.statistics().pending == 0
    with pytest.raises(StoppedError):  # a failure that was set aside is not why it was stopped
        d.publish(ticks_for([0]))


def test_what_a_quarantined_strand_still_holds_at_the_end_is_abandoned_and_counted() -> None:
    with Dispatcher(1, picky, workers=1, cores=None, on_error="quarantine", budget_ticks=1) as d:
        d.publish(poisoned([0] * 10, 4))
        d.drain()
    s = d.statistics()
    assert (s.handled, s.dropped["failed"], s.dropped["abandoned"], s.pending) == (4, 1, 5, 0)
    balanced(d)
    assert d.stop() is False


def test_a_quarantined_strand_at_its_bound_drops_and_stops_no_publisher() -> None:
    with Dispatcher(
        ["A", "B"], picky, workers=1, cores=None, on_error="quarantine", budget_ticks=1, capacity_ticks=8
    ) as d:
        d.publish(poisoned([0], 0))
        d.drain()
        assert d.publish(ticks_for([0] * 20 + [1] * 4)) == 24
        d.drain()
        s = d.statistics()
        assert s.dropped["quarantined"] == 12
        assert d.inspect("A").pending == 8
        assert d.rows["B"]["ticks"] == 4
        balanced(d)


@pytest.mark.parametrize("never_publishes", [False, True])
@pytest.mark.parametrize("capacity", [65_536, 100])
def test_a_c_handler_that_fails_is_named_with_its_code_and_message(
    c_handlers: Path, never_publishes: bool, capacity: int
) -> None:
    handler = native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=never_publishes)
    with Dispatcher(3, handler, workers=2, cores=None, on_error="quarantine", capacity_ticks=capacity) as d:
        ticks = poisoned(np.arange(300) % 3, 151)
        d.publish(ticks)
        d.drain()
        (error,) = d.failures
        assert (error.symbol, error.sequence, error.code, error.handler) == ("#1", 51, 42, "on_sum")
        assert "action X at sequence 51" in str(error)
        assert d.inspect(1).handled == 50
        d.release(1)
        d.drain()
        balanced(d)
        good = ticks[ticks["action"] != b"X"]
        assert d.rows.array["total"].tolist() == [int(good["size"][good["instrument_id"] == i].sum()) for i in range(3)]
        assert d.statistics().dropped["failed"] == 1


def test_a_handler_may_fail_on_every_tick_and_each_is_counted(c_handlers: Path) -> None:
    with Dispatcher(
        1, native(c_handlers, "on_fail", state=COUNT_ROW), workers=1, cores=None, on_error="quarantine"
    ) as d:
        d.publish(ticks_for([0] * 100))
        for done in range(1, 101):
            d.drain()
            assert d.inspect(0).failed == done
            d.release(0)
        d.drain()
        balanced(d)
        assert len(d.failures) == 64
        assert [e.sequence for e in d.failures] == list(range(1, 65))
        assert str(d.failures[0]).endswith("failed on #0 at sequence 1 (its tick 1): code 0")


def test_a_c_handler_that_returns_nonsense_is_a_failure_on_the_first_tick(c_handlers: Path) -> None:
    with (
        pytest.raises(HandlerError, match="returned 8 for 1 records") as caught,
        Dispatcher(1, native(c_handlers, "on_nonsense", state=COUNT_ROW), workers=1, cores=None) as d,
    ):
        d.publish(ticks_for([0, 0, 0]))
    assert caught.value.sequence == 1
    assert d.statistics().handled == 0


@pytest.mark.parametrize("budget", [1, 7, 4096])
def test_a_failure_among_records_without_a_sequence_has_none(c_handlers: Path, budget: int) -> None:
    record = np.dtype([("key", "<u4"), ("fails", "<u4")])
    handler = native(c_handlers, "on_raw", state=COUNT_ROW, params=np.array([0, 4], "<u4").tobytes())
    with Dispatcher(
        2, handler, workers=1, cores=None, dtype=record, key="key", on_error="quarantine", budget_ticks=budget,
        strands="per-symbol", _counters_start=2**64 - 5,
    ) as d:  # fmt: skip
        records = np.zeros(1_000, record)
        records["key"] = np.arange(1_000) % 2
        records["fails"][[601, 801]] = 1  # the 301st and the 401st of symbol 1
        d.publish(records)
        d.drain()
        d.release(1)
        d.drain()
        assert [(e.symbol, e.sequence) for e in d.failures] == [("#1", None), ("#1", None)]
        assert str(d.failures[0]).startswith("handler 'on_raw' failed on #1 (its tick 301): ")


@pytest.mark.parametrize("on_full", ["drop_oldest", "conflate"])
def test_what_a_failing_handler_of_a_lossy_strand_had_in_its_hands_is_counted_as_lost(
    c_handlers: Path, on_full: str
) -> None:
    handler = native(c_handlers, "on_sum", state=PAIR_ROW)
    with Dispatcher(
        2, handler, workers=1, cores=None, on_error="quarantine", on_full=on_full, capacity_ticks=50,
        strands="per-symbol", publisher_drains=False,
    ) as d:  # fmt: skip
        d.pause(0)
        d.publish(poisoned([0] * 10, 3))
        d.resume(0)
        d.drain()
        s = d.statistics()
        assert (s.handled, s.dropped["failed"], s.dropped["lost"], s.pending) == (3, 1, 6, 0)
        balanced(d)
        d.release(0)
        d.publish(ticks_for([0] * 5))
        d.drain()
        assert d.inspect(0).handled == 8
        balanced(d)


@pytest.mark.parametrize("never_publishes", [False, True])
def test_many_workers_fail_at_once_and_every_cause_stays_with_its_own_failure(
    never_publishes: bool, c_handlers: Path
) -> None:
    @batch_handler(state=[("ticks", "u8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        raise RuntimeError(f"{symbol} {ticks['sequence'][0]}")

    handlers = {f"#{i}": fails for i in range(8)} | {
        "*": native(c_handlers, "on_sum", state=PAIR_ROW, never_publishes=never_publishes)
    }
    with Dispatcher(16, handlers=handlers, workers=4, cores=None, on_error="quarantine", budget_ticks=1) as d:
        ticks = ticks_for(np.arange(160) % 16)
        ticks["action"][ticks["instrument_id"] >= 8] = b"X"
        d.publish(ticks)
        for _ in range(3):
            d.drain()
            for symbol in range(16):
                d.release(symbol)
        d.drain()
        balanced(d)
        failures = d.failures
    assert len(failures) == 64
    for error in failures:
        if int(error.symbol[1:]) < 8:
            assert str(error.__cause__) == f"{error.symbol} {error.sequence}"
        else:
            assert error.__cause__ is None
            assert error.code == 42


class Unspeakable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Unspeakable(), "Unspeakable: \\(it cannot be shown as text\\)"),
        (ValueError("\udc80 no text"), "no text"),
        (KeyError(), r"failed on #0 at sequence 1 \(its tick 1\): KeyError$"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError("é" * 400), "é"),
    ],
)
def test_whatever_a_handler_raises_ends_the_run_and_is_shown(error: BaseException, text: str) -> None:
    @batch_handler(state=[("ticks", "u8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        raise error

    with pytest.raises(HandlerError, match=text) as caught, Dispatcher(1, fails, workers=1, cores=None) as d:
        d.publish(ticks_for([0]))
    assert caught.value.__cause__ is error


def test_a_worker_that_cannot_go_on_ends_the_run_instead_of_leaving_it_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> Any:
        raise MemoryError("no room for a view")

    monkeypatch.setattr("strand.binding.engine.PyBatches.more", breaks)
    with (
        pytest.raises(EngineError, match="no room for a view") as caught,
        Dispatcher(1, picky, workers=1, cores=None) as d,
    ):
        d.publish(ticks_for([0]))
        d.drain()
    assert isinstance(caught.value.__cause__, MemoryError)
    assert worker_threads() == []


def test_a_poison_symbol_takes_no_tick_from_any_other() -> None:
    """Rule 4: the same rows as without it."""
    keys = np.random.default_rng(11).integers(0, 20, 20_000)
    ticks = ticks_for(keys)
    ticks["action"][np.flatnonzero(keys == 13)[::3]] = b"X"
    with Dispatcher(20, picky, workers=3, cores=None, on_error="quarantine", capacity_ticks=64) as d:
        for part in np.array_split(ticks, 40):
            d.publish(part)
        d.drain()
        balanced(d)
        counts = np.bincount(keys, minlength=20)
        for i in range(20):
            if i != 13:
                assert d.rows[i]["ticks"] == counts[i]
        assert d.statistics().dropped["quarantined"] > 0


def test_a_handler_that_raises_backpressure_of_its_own_publishing_is_a_failure_like_any_other() -> None:
    @batch_handler(state=[("ticks", "u8")])
    def floods(symbol: str, ticks: Any, row: Any) -> None:
        while True:
            d.publish(ticks)

    with pytest.raises(HandlerError) as caught, Dispatcher(1, floods, workers=1, cores=None, capacity_ticks=16) as d:
        d.publish(ticks_for([0]))
    assert isinstance(caught.value.__cause__, BackpressureError)


# ---- whatever is raised


class Ends(BaseException):
    """As little an Exception as SystemExit is."""


TIMED: dict[str, Any] = {"state": [("ticks", "u8")], "name": "ends"}


def raising(what: type[BaseException], where: str) -> Any:
    """A handler in Python that raises there."""

    def at(place: str) -> None:
        if place == where:
            raise what("here")

    if where.startswith("object"):

        class One:
            def on_start(self, ctx: Any) -> None:
                self.ctx = ctx
                at("object on_start")

            def on_tick(self, tick: Any) -> None:
                at("object")
                self.ctx.wake_at(tick.ts_recv + 1)

            def on_wake(self, time: int) -> None:
                at("object on_wake")

            def on_finish(self) -> None:
                at("object on_finish")

            def on_stop(self) -> None:
                at("object on_stop")

        return One

    @batch_handler(
        on_wake=lambda symbol, time, row, ctx: at("on_wake"),
        on_finish=lambda symbol, row, ctx: at("on_finish"),
        **TIMED,
    )
    def ends(symbol: str, ticks: Any, row: Any, ctx: Any) -> int:
        at("batch")
        ctx.wake_at(int(ticks["ts_recv"][0]) + 1, 0)
        return 1

    return ends


PLACES = ["batch", "on_wake", "on_finish", "object", "object on_start", "object on_wake", "object on_finish"]


@pytest.mark.parametrize("where", [*PLACES, "object on_stop"])
@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_no_exception_is_a_handlers_failure_like_any(where: str, workers: int) -> None:
    ticks = ticks_for([0, 0, 0])
    ticks["ts_recv"] = [10, 20, 30]
    for what in (SystemExit, Ends, GeneratorExit, asyncio.CancelledError):
        with pytest.raises(HandlerError) as caught:
            strand.replay(order_feed(ticks, ["A"], batches=3), raising(what, where), workers=workers)
        assert isinstance(caught.value.__cause__, what), (where, workers)
        assert what.__name__ in str(caught.value)
    assert worker_threads() == []


@pytest.mark.parametrize("where", PLACES)
def test_an_interrupt_while_a_plain_loop_runs_a_handler_stays_one(where: str) -> None:
    ticks = ticks_for([0, 0, 0])
    ticks["ts_recv"] = [10, 20, 30]
    with pytest.raises(KeyboardInterrupt):
        strand.replay(order_feed(ticks, ["A"], batches=3), raising(KeyboardInterrupt, where), workers=0)


@pytest.mark.parametrize("where", ["on_finish", "object on_stop"])
def test_an_interrupt_at_the_end_stays_one_with_workers_too(where: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        strand.replay(order_feed(ticks_for([0]), ["A"], batches=1), raising(KeyboardInterrupt, where), workers=1)
    assert worker_threads() == []


def test_an_interrupt_that_a_handler_raises_in_a_worker_is_its_failure() -> None:
    """The user's Ctrl-C comes in the main thread alone."""
    with pytest.raises(HandlerError) as caught:
        strand.replay(order_feed(ticks_for([0]), ["A"], batches=1), raising(KeyboardInterrupt, "batch"), workers=1)
    assert isinstance(caught.value.__cause__, KeyboardInterrupt)


def test_a_call_that_raises_what_is_no_exception_raises_it_where_it_was_asked_and_the_run_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def leaves(view: Any) -> None:
        raise SystemExit(3)

    def ends(future: Any) -> None:
        raise Ends("in a callback")

    with Dispatcher(1, "count", workers=1, cores=None) as d:
        with pytest.raises(SystemExit):
            d.call(0, leaves)
        d.pause(0)
        future = d.submit_call(0, leaves)
        future.add_done_callback(ends)
        d.resume(0)
        assert isinstance(future.exception(), SystemExit)
        d.publish(ticks_for([0]))
        d.drain()
        assert d.rows[0]["ticks"] == 1
    assert "Ends: in a callback" in caplog.text
