"""A call runs on its symbol's strand: after all that was published before, before all that comes after."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import threading
import weakref
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dispatch_cases import Case, cases, spin_in_python
from engine_support import PAIR_ROW, balanced, beside, counting, in_threads, ticks_for
from hypothesis import given
from hypothesis import strategies as st

from strand import Dispatcher, RetryPolicy, TaskGroup, batch_handler, checkpoint, native
from strand.binding.engine_words import EngineConfig
from strand.dispatch.calls import SymbolView
from strand.errors import (
    BackpressureError,
    CallTimeoutError,
    ConfigurationError,
    HandlerError,
    QuarantinedError,
    StoppedError,
    UnknownSymbolError,
    WouldDeadlockError,
)
from strand.tasks import current_task


def ticks_seen(view: SymbolView) -> int:
    return int(view.row["ticks"])


@given(cases(publishers=1), st.data())
def test_each_call_finds_what_a_plain_loop_has_at_its_place(case: Case, data: st.DataObject) -> None:
    """Without waiting for one before the next comes: their places are between the batches, wherever the workers are."""
    ticks = ticks_for(case.streams[0])
    asked: list[tuple[int, int, Any]] = []
    handler: Any = spin_in_python if case.python else "spin"
    with Dispatcher(case.symbols, handler, strands=case.strands, **case.options) as d:
        for at in range(0, len(ticks), case.cuts):
            for symbol in data.draw(st.lists(st.integers(0, case.symbols - 1), max_size=4)):
                asked.append((at, symbol, d.submit_call(symbol, lambda view: view.row)))
            d.publish(ticks[at : at + case.cuts])
        asked.append((len(ticks), 0, d.submit_call(0, lambda view: view.row)))
        assert d.drain()
        assert all(future.done() for _, _, future in asked)
        balanced(d)
        s = d.statistics()
        assert (s.accepted, s.handled, s.pending, sum(s.dropped.values())) == (len(ticks), len(ticks), 0, 0)
        assert all(d.inspect(i).calls == 0 for i in range(case.symbols))
    for at, symbol, future in asked:
        before = ticks[:at][ticks["instrument_id"][:at] == symbol]
        row = future.result()
        assert row["broken"] == 0
        assert row["ticks"] == len(before) == row["last_sequence"]
        assert row["value"] == np.sum(before["price"].astype(np.uint64))


@given(cases(publishers=1), st.sampled_from(["drop_newest", "drop_oldest", "conflate"]), st.booleans(), st.data())
def test_no_bound_drops_a_call_and_none_finds_what_was_published_after_it(
    case: Case, on_full: str, paused: bool, data: st.DataObject
) -> None:
    ticks = ticks_for(case.streams[0])
    asked: list[tuple[int, int, Any]] = []
    handler: Any = spin_in_python if case.python else "spin"
    options = case.options | ({"capacity_ticks": 2 * case.symbols} if on_full == "conflate" else {})
    with Dispatcher(case.symbols, handler, strands=case.strands, on_full=on_full, **options) as d:
        for symbol in range(case.symbols if paused else 0):
            d.pause(symbol)
        for at in range(0, len(ticks), case.cuts):
            symbol = data.draw(st.integers(0, case.symbols - 1))
            asked.append((at, symbol, d.submit_call(symbol, lambda view: view.row)))
            d.publish(ticks[at : at + case.cuts])
        d.drain()
        assert not (paused and any(future.done() for _, _, future in asked))
        for symbol in range(case.symbols):
            d.resume(symbol)
        d.drain()
        balanced(d)
        s = d.statistics()
        assert s.accepted == s.handled + sum(s.dropped.values()) == len(ticks)
    found = [0] * case.symbols
    for at, symbol, future in asked:
        last = int(future.result()["last_sequence"])
        assert found[symbol] <= last <= np.count_nonzero(ticks["instrument_id"][:at] == symbol)
        found[symbol] = last


def test_what_waits_before_a_call_when_a_bound_conflates_is_what_it_finds() -> None:
    with Dispatcher(2, "count", workers=1, cores=None, strands=1, on_full="conflate", capacity_ticks=4) as d:
        d.pause(0)
        d.publish(ticks_for([0, 1]))
        between = [d.submit_call(i, lambda view: view.row["last_sequence"]) for i in range(2)]
        d.publish(ticks_for([0, 0, 0, 0])[1:])
        after = d.submit_call(0, lambda view: view.row["last_sequence"])
        assert (d.inspect(0).pending, d.inspect(0).calls) == (2, 3)
        d.resume(0)
        assert ([future.result() for future in between], after.result()) == ([0, 1], 4)


def test_a_bound_counts_no_calls() -> None:
    with Dispatcher(1, "count", workers=1, cores=None, capacity_ticks=2, on_full="raise") as d:
        d.pause(0)
        futures = [d.submit_call(0, ticks_seen) for _ in range(10)]
        d.publish(ticks_for([0, 0]))
        assert (d.inspect(0).pending, d.inspect(0).calls) == (2, 10)
        with pytest.raises(BackpressureError):
            d.publish(ticks_for([0]))
        d.resume(0)
        assert [future.result() for future in futures] == [0] * 10


@pytest.mark.parametrize("handler", ["count", counting])
def test_calls_from_many_threads_while_ticks_are_published(handler: Any) -> None:
    """Each thread finds what it has published itself, and never less than it found before."""
    failed: list[BaseException] = []

    def publish_and_ask(d: Dispatcher, symbol: int) -> None:
        try:
            for i in range(200):
                d.publish(ticks_for([symbol] * 7))
                assert d.call(symbol, ticks_seen) == 7 * (i + 1)
        except BaseException as error:
            failed.append(error)

    with Dispatcher(4, handler, workers=3, cores=None, strands=2 if handler == "count" else "auto") as d:
        in_threads(partial(publish_and_ask, d), range(4))
        assert failed == []
        assert d.drain()
        balanced(d)


def test_a_book_answers_while_the_run_goes_on() -> None:
    with Dispatcher(["A", "B"], "book", workers=2, cores=None) as d:
        orders = ticks_for([0, 0, 0], kind=1)
        orders["order_id"], orders["price"], orders["size"] = [1, 2, 3], [100, 100, 110], [5, 7, 9]
        orders["side"] = [b"B", b"B", b"A"]
        d.publish(orders)
        bids = d.call("A", lambda view: view.book.levels("bid", 5))
        assert bids.tolist() == [(100, 12, 2)]
        assert d.call("A", lambda view, order: view.book.order(order)["ahead_size"], 2) == 5
        assert d.call("B", lambda view: (view.symbol, view.index, len(view.book))) == ("B", 1, 0)
    with (
        Dispatcher(["A"], "count", workers=1, cores=None) as d,
        pytest.raises(ConfigurationError, match="the handler of A keeps no book"),
    ):
        d.call("A", lambda view: view.book)


def test_what_a_call_returns_of_the_row_stays_as_it_was() -> None:
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        row = d.call(0, lambda view: view.row)
        d.publish(ticks_for([0] * 3))
        d.drain()
        assert (row["ticks"], d.rows[0]["ticks"]) == (0, 3)


def test_what_the_function_raises_is_raised_and_the_strand_goes_on() -> None:
    with Dispatcher(1, counting, workers=1, cores=None) as d:
        for error in (ZeroDivisionError, KeyboardInterrupt, SystemExit, TimeoutError):

            def raises(view: SymbolView, error: type[BaseException] = error) -> None:
                raise error

            with pytest.raises(error) as caught:
                d.call(0, raises)
            assert not isinstance(caught.value, CallTimeoutError)
        d.publish(ticks_for([0] * 3))
        assert d.call(0, ticks_seen) == 3
        assert d.failures == []
    with Dispatcher(1, counting, workers=1, cores=None) as d:
        with pytest.raises(ConfigurationError, match=r"fn: .*cannot be called"):
            d.call(0, 7)  # type: ignore[arg-type]
        with pytest.raises(UnknownSymbolError):
            d.call("nobody", ticks_seen)


def test_a_paused_strand_answers_when_it_is_resumed() -> None:
    with Dispatcher(2, "count", workers=1, cores=None, strands="per-symbol") as d:
        d.pause(0)
        d.publish(ticks_for([0] * 5))
        future = d.submit_call(0, ticks_seen)
        assert d.drain()  # but for what is paused
        assert not future.done()
        assert d.call(1, ticks_seen) == 0
        d.resume(0)
        assert future.result() == 5


def test_a_call_that_is_given_up_never_runs_and_leaves_nothing_behind() -> None:
    ran = []

    class Argument:
        pass

    with Dispatcher(1, "count", workers=1, cores=None) as d:
        d.pause(0)
        argument = Argument()
        gone = weakref.ref(argument)
        with pytest.raises(CallTimeoutError, match="given up") as caught:
            d.call(0, lambda view, it: ran.append(it), argument, timeout_s=0.01)
        assert caught.value.began is False
        assert isinstance(caught.value, TimeoutError)
        del argument, caught
        gc.collect()
        assert gone() is None
        future = d.submit_call(0, ran.append)
        assert future.cancel()
        assert future.cancel()
        later = d.submit_call(0, ticks_seen)
        d.resume(0)
        assert later.result() == 0
        d.drain()
        assert ran == []
        assert d.inspect(0).calls == 0
        balanced(d)


def test_calls_given_up_on_a_paused_strand_pile_up_nothing() -> None:
    """There are places for some thousand calls only."""
    with Dispatcher(2, "count", workers=1, cores=None, strands="per-symbol") as d:
        d.pause(0)
        for _ in range(3000):
            assert d.submit_call(0, ticks_seen).cancel()
        assert d.inspect(0).calls == 1
        waiting = [d.submit_call(0, ticks_seen) for _ in range(500)]
        for future in waiting[::2]:
            future.cancel()
        d.publish(ticks_for([0, 1]))
        assert d.call(1, ticks_seen) == 1
        d.resume(0)
        assert [f.result() for f in waiting[1::2]] == [0] * 250
        d.drain()
        assert d.inspect(0).calls == 0


@pytest.mark.python
def test_more_calls_than_there_is_room_for_are_refused_and_those_there_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = {field.name: field.default for field in dataclasses.fields(EngineConfig)}
    assert usual["n_tasks"] == 65_536  # tests of big tables have a million
    monkeypatch.setattr("strand.dispatch.configuration.EngineConfig", partial(EngineConfig, n_tasks=4_096))
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        d.pause(0)
        futures = []
        with pytest.raises(BackpressureError, match="4,096 calls or more wait for their strands"):
            for _ in range(9_000):
                futures.append(d.submit_call(0, ticks_seen))
        assert 4_096 <= len(futures) < 9_000
        with pytest.raises(BackpressureError):
            d.call(0, ticks_seen, timeout_s=0.01)
        d.resume(0)
        assert {f.result() for f in futures} == {0}


def test_a_call_that_has_begun_cannot_be_given_up() -> None:
    begun, go = threading.Event(), threading.Event()

    def waits(view: SymbolView) -> int:
        begun.set()
        go.wait()
        return 7

    with Dispatcher(2, "count", workers=1, cores=None) as d:
        # One that a busy machine has not begun by then is given up, and is asked for again.
        for patience in (0.05, 1.0, 30.0):
            with pytest.raises(CallTimeoutError) as caught:
                d.call(0, waits, timeout_s=patience)
            if caught.value.began:
                break
        assert caught.value.began is True
        assert "still runs" in str(caught.value)
        assert not d.drain(timeout_s=0)
        begun.clear()
        go.set()
        assert d.drain()
        future = d.submit_call(0, waits)
        assert begun.wait(60)
        assert future.result() == 7
        assert not future.cancel()


def test_a_handler_cannot_wait_for_a_call_but_may_leave_one() -> None:
    refused: list[BaseException] = []
    left: list[Any] = []

    @batch_handler(state=[("ticks", "u8")])
    def asks(symbol: str, ticks: Any, row: Any) -> None:
        row["ticks"] += len(ticks)
        try:
            d.call(0, ticks_seen)
        except WouldDeadlockError as error:
            refused.append(error)
        left.append(d.submit_call(0, ticks_seen))

    with Dispatcher(1, asks, workers=1, cores=None) as d:
        d.publish(ticks_for([0]))
        d.drain()
        assert len(refused) == 1
        assert left[0].result() == 1

        def nests(view: SymbolView) -> int:
            d.publish(ticks_for([0] * 2))
            return ticks_seen(view)

        assert d.call(0, nests) == 1
        assert d.call(0, ticks_seen) == 3
        with pytest.raises(WouldDeadlockError):
            d.call(0, lambda view: d.call(0, ticks_seen))


def test_what_a_call_publishes_is_drained_too() -> None:
    with Dispatcher(8, "count", workers=2, cores=None, strands="per-symbol") as d:
        for i in range(1, 200):
            d.submit_call(7, lambda view: d.publish(ticks_for([0])))
            assert d.drain()
            assert d.rows[0]["ticks"] == i


def test_calls_on_a_quarantined_strand_are_refused_with_the_failure(c_handlers: Path) -> None:
    sums = native(c_handlers, "on_sum", state=PAIR_ROW)
    bad = ticks_for([0, 0])
    bad["action"][1] = b"X"
    with Dispatcher(2, sums, workers=1, cores=None, strands="per-symbol", on_error="quarantine") as d:
        d.publish(bad)
        d.drain()
        with pytest.raises(QuarantinedError, match="release") as caught:
            d.call(0, ticks_seen)
        assert isinstance(caught.value.__cause__, HandlerError)
        assert d.call(1, ticks_seen) == 0
        d.release(0)
        assert d.call(0, ticks_seen) == 1


def test_a_strand_that_is_quarantined_while_a_call_waits_ends_it(c_handlers: Path) -> None:
    fails = native(c_handlers, "on_fail", state=PAIR_ROW)
    with Dispatcher(1, fails, workers=1, cores=None, on_error="quarantine") as d:
        d.pause(0)
        d.publish(ticks_for([0]))
        threading.Timer(0.05, d.resume, (0,)).start()
        with pytest.raises(QuarantinedError):
            d.call(0, ticks_seen)
        assert d.inspect(0).quarantined
        d.drain()
        balanced(d)


def test_a_stop_answers_all_that_waits_with_an_error() -> None:
    d = Dispatcher(1, "count", workers=1, cores=None)
    with pytest.raises(StoppedError, match="no worker runs"):
        d.call(0, ticks_seen)
    d.start()
    d.pause(0)
    future = d.submit_call(0, ticks_seen)
    threading.Timer(0.05, lambda: d.stop(drain=False)).start()
    with pytest.raises(StoppedError):
        d.call(0, ticks_seen)
    with pytest.raises(StoppedError):
        future.result()
    d.stop()
    with pytest.raises(StoppedError):
        d.submit_call(0, ticks_seen)
    d.verify()


def test_a_handler_s_failure_that_stops_the_run_is_the_answer_of_all_that_waits(c_handlers: Path) -> None:
    fails = native(c_handlers, "on_fail", state=PAIR_ROW)
    with pytest.raises(HandlerError), Dispatcher(2, fails, workers=1, cores=None, strands="per-symbol") as d:
        d.pause(0)
        future = d.submit_call(0, ticks_seen)
        d.publish(ticks_for([1]))
        with pytest.raises(HandlerError):
            future.result(timeout=60)
        with pytest.raises(HandlerError):
            d.call(0, ticks_seen)
        d.drain()


def test_publishers_that_handle_ticks_inline_go_on_beside_calls() -> None:
    """A handler so cheap that the publisher runs it itself, and a call that comes in between its runs."""
    ticks = ticks_for(np.arange(200_000) % 50)
    answers: list[int] = []
    with Dispatcher(50, "count", workers=2, cores=None) as d:
        with beside(lambda: answers.append(d.call(7, ticks_seen))):
            for _ in range(10):
                d.publish(ticks)
        assert d.call(7, ticks_seen) == 40_000
        assert d.drain()
        balanced(d)
    assert answers == sorted(answers)
    assert len(answers) > 0


def test_a_call_is_a_task_of_its_symbol_that_is_not_tried_again_and_is_in_no_group() -> None:
    def fails(view: SymbolView) -> None:
        raise ZeroDivisionError

    async def waits(view: SymbolView) -> int:
        await asyncio.sleep(0)
        return view.index

    begun = threading.Event()

    def loops(view: SymbolView) -> None:
        begun.set()
        while True:
            checkpoint()

    with Dispatcher(2, "count", workers=1, cores=None, retry=RetryPolicy(base_delay="1ms")) as d:
        assert d.call(0, lambda view: current_task().state) == "running"  # type: ignore[union-attr]
        with TaskGroup() as group:
            future: Any = d.submit_call(0, fails)
            assert len(group) == 0
            assert isinstance(future.exception(60), ZeroDivisionError)
        assert (future.state, future.attempts) == ("failed", 1)
        answer: Any = d.call(1, waits)
        assert answer == 1
        running: Any = d.submit_call(0, loops)
        assert begun.wait(60)
        assert running.cancel(running=True)
        with pytest.raises(CancelledError):
            running.result(60)
        assert d.drain(timeout_s=30)
        assert d.tasks.statistics().ended == {
            "done": 2, "failed": 1, "cancelled": 1, "expired": 0, "dropped": 0, "dead": 0,
        }  # fmt: skip


def test_a_stop_without_a_drain_cancels_tasks_of_symbols_and_tells_calls_why() -> None:
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        d.pause(0)
        task, call = d.tasks.options(symbol=0).submit(int), d.submit_call(0, ticks_seen)
        d.stop(drain=False)
        assert task.cancelled()
        assert isinstance(call.exception(60), StoppedError)


def test_the_error_of_a_call_keeps_neither_its_future_nor_its_function() -> None:
    def fails(_: Any) -> None:
        raise ValueError

    gc.collect()
    gc.disable()
    try:
        with Dispatcher(1, "count", workers=1, cores=None) as d:
            future = d.submit_call(0, fails)
            assert isinstance(future.exception(60), ValueError)
            assert d.drain(timeout_s=60)
            left = weakref.ref(future)
            del future
            assert left() is None
    finally:
        gc.enable()
