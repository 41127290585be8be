"""The plain loop: handlers over ticks where they are published, and what it says of what it cannot do."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_feed import order_feed, synthetic_day
from engine_support import PAIR_ROW, RELAY_ROW, spin_rows, ticks_for

import strand
from strand import native
from strand.caller.run import CallerRun
from strand.errors import (
    ConfigurationError,
    HandlerError,
    RecordTypeError,
    StoppedError,
    UnknownSymbolError,
)
from strand.options import options_of
from strand.ticks import KIND_TRADE

pytestmark = pytest.mark.python


def test_rows_are_those_of_a_computation_in_python() -> None:
    ticks = ticks_for(np.random.default_rng(2).integers(0, 9, 2000))
    with CallerRun(10, "spin") as loop:
        for part in np.array_split(ticks, 7):
            assert loop.publish(part) == len(part)
        assert loop.drain()
    assert (loop.rows.array == spin_rows(ticks, 10)).all()
    s = loop.statistics()
    assert (s.accepted, s.handled, s.pending, sum(s.dropped.values())) == (2000, 2000, 0, 0)
    assert s.watermark == 2000


def test_it_takes_what_a_dispatcher_takes_and_says_what_it_cannot_do() -> None:
    known = {name: parameter.default for name, parameter in signature(strand.Dispatcher).parameters.items()}
    options = {name: known[name] for name in options_of(strand.Dispatcher) - {"load"}}
    with CallerRun(3, "count", **(options | {"workers": 0})) as loop:
        loop.publish(ticks_for([0, 1]))
    assert loop.statistics().handled == 2
    with pytest.raises(ConfigurationError, match=r"attachable: a plain loop \(workers=0\) has no memory to attach to"):
        CallerRun(3, "count", attachable=True)


def test_every_kind_of_handler_runs_and_each_symbol_has_its_own(c_handlers: Path) -> None:
    pytest.importorskip("numba")

    @strand.handler(state=[("n", "u8"), ("total", "u8")])
    def compiled(row: Any, tick: Any) -> None:
        row.n += 1
        row.total += tick.size

    @strand.batch_handler(state=[("n", "u8"), ("total", "u8")])
    def batches(symbol: str, ticks: Any, row: Any) -> None:
        assert len(np.unique(ticks["instrument_id"])) == 1
        assert not ticks.flags.writeable
        row["n"] += len(ticks)
        row["total"] += ticks["size"].sum(dtype=np.uint64)

    in_c = native(c_handlers, "on_sum", state=PAIR_ROW)
    ticks = ticks_for(np.random.default_rng(2).integers(0, 4, 2000))
    handlers = {"#0": compiled, "#1": batches, "#2": in_c, "*": "count"}
    with CallerRun(4, handlers=handlers) as loop:
        loop.publish(ticks)
    for key, name in enumerate(("n", "n", "ticks", "ticks")):
        mine = ticks[ticks["instrument_id"] == key]
        assert loop.rows[key][name] == len(mine)
        if key < 3:
            assert loop.rows[key]["total"] == mine["size"].sum()


def test_books_are_there_after_the_run() -> None:
    ticks, names = synthetic_day()
    result = strand.replay(order_feed(ticks, names), "book", workers=0)
    other = strand.replay(order_feed(ticks, names), "book", workers=2)
    assert result.books is not None
    assert other.books is not None
    assert result.workers == result.n_strands == 0
    for name in names[1:6]:
        assert (result.books[name].bids() == other.books[name].bids()).all()
        assert (result.books[name].orders("ask") == other.books[name].orders("ask")).all()


def test_a_failing_handler_ends_the_run_with_its_symbol_and_sequence(c_handlers: Path) -> None:
    ticks = ticks_for([0, 1, 0, 1, 0])
    ticks["action"][2] = b"X"
    with CallerRun(["AAA", "BBB"], native(c_handlers, "on_sum", state=PAIR_ROW)) as loop:
        with pytest.raises(HandlerError, match="'on_sum' failed on AAA at sequence 2: action X") as caught:
            loop.publish(ticks)
        assert caught.value.code == 42
        for again in (lambda: loop.publish(ticks), loop.drain):
            with pytest.raises(HandlerError):
                again()
    assert loop.rows.array["ticks"].tolist() == [1, 1]
    s = loop.statistics()
    assert (s.accepted, s.handled, s.dropped["failed"], s.dropped["abandoned"]) == (5, 2, 1, 2)
    assert len(loop.failures) == 1


Calls = list[tuple[str, list[int]]]


def noting(calls: Calls, bad: dict[str, int], **options: Any) -> Any:
    """Notes the sequences that it is called with, emits each, and fails on one of a symbol."""

    @strand.batch_handler(state=[("n", "i8")], outputs={"seen": [("what", "i8")]}, **options)
    def notes(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        sequences = ticks["sequence"].tolist()
        calls.append((symbol, sequences))
        for at, sequence in enumerate(sequences):
            row["n"] += 1
            ctx.emit((sequence,), at=at)
            if bad.get(symbol) == sequence:
                raise ValueError(symbol)

    return notes


def in_turn(*keys: int) -> Any:
    ticks = ticks_for(keys)
    ticks["sequence"], ticks["ts_recv"] = np.arange(len(keys)), np.arange(10, 10 + len(keys))
    return ticks


def test_a_batch_is_what_one_publish_has_of_a_symbol_and_in_order_what_comes_in_a_row() -> None:
    found, calls = [], Calls()
    for in_order in (False, True):
        with CallerRun(["A", "B"], noting(calls, {}), in_order=in_order) as loop:
            loop.publish(in_turn(1, 0, 1, 1))
            loop.publish(in_turn(0))
        found.append((loop.rows.array.tolist(), loop.outputs["seen"].array().tolist()))
    assert calls[:3] == [("A", [1]), ("B", [0, 2, 3]), ("A", [0])]
    assert calls[3:] == [("B", [0]), ("A", [1]), ("B", [2, 3]), ("A", [0])]
    assert found[0] == found[1]


def test_the_first_tick_that_fails_is_named_whichever_symbol_is_called_first() -> None:
    ticks = in_turn(0, 1, 0, 1, 0, 1, 2, 2)
    calls = Calls()
    loop = CallerRun(["A", "B", "C"], noting(calls, {"A": 4, "B": 3}))
    with pytest.raises(HandlerError, match="failed on B at sequence 3: ValueError: B"), loop:
        loop.publish(ticks)
    assert loop.outputs["seen"].array()["what"].tolist() == [0, 1, 2]
    assert all(symbol != "C" for symbol, _ in calls)
    assert loop.rows["B"]["n"] == 2
    assert len(loop.failures) == 1


@pytest.mark.parametrize("before", [(), ("count",)])
@pytest.mark.parametrize("on", ["tick", "trade"])
def test_a_function_that_fails_on_a_batch_is_told_its_ticks_one_by_one(before: tuple[str, ...], on: Any) -> None:
    calls = Calls()
    ticks = in_turn(0, 0, 0, 0)
    ticks["kind"], ticks["action"], ticks["size"], ticks["price"] = KIND_TRADE, b"T", 5, 7
    last = noting(calls, {"A": 2}, on=on)
    loop = CallerRun(["A"], strand.chain(*before, last) if before else last)
    with pytest.raises(HandlerError, match="on A at sequence 2: ValueError: A") as caught, loop:
        loop.publish(ticks)
    assert [sequences for _, sequences in calls] == [[0, 1, 2, 3], [0], [1], [2]]
    assert caught.value.row is not None
    row = caught.value.row["notes"] if before else caught.value.row
    assert row["n"] == 3
    assert loop.outputs["seen"].array()["what"].tolist() == [0, 1]
    assert loop.statistics().handled == 2


def test_a_function_that_fails_on_no_tick_alone_is_named_by_its_batch() -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def pairs(symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += len(ticks)
        if len(ticks) > 1:
            raise ValueError("two")

    loop = CallerRun(2, pairs)
    with pytest.raises(HandlerError, match="failed on #1 at sequence 1: ValueError: two"), loop:
        loop.publish(in_turn(0, 1, 1))


SAID = {"said": [("what", "i8"), ("by_timer", "?")]}


@strand.object_handler(outputs=SAID)
class Says:
    """Says what it is called with, asks for a timer now and then, and fails on an order."""

    fails_on = -1

    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_tick(self, tick: Any) -> None:
        self.ctx.emit((tick.sequence, False))
        if tick.sequence == type(self).fails_on:
            raise ValueError("enough")
        if tick.sequence % 3 == 0:
            self.ctx.wake_at(tick.ts_recv + 2_000_000)

    def on_book(self, top: Any) -> None:
        self.ctx.emit((top.bid_price, False))

    def on_wake(self, time: int) -> None:
        self.ctx.emit((time, True))


@strand.basket_handler(
    baskets=lambda symbol: [f"of {symbol[-1]}", *["odd"] * (symbol[-1] in "13")],
    basket_state=[("n", "i8")],
    outputs=SAID,
)
class SaysOfBaskets:
    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_tick(self, tick: Any, basket: Any) -> None:
        basket["n"] += 1
        self.ctx.emit((basket["n"] * 1000 + tick.sequence, False))
        if tick.sequence == Says.factory.fails_on:  # type: ignore[attr-defined]
            raise ValueError("enough")


@pytest.mark.parametrize("fails_on", [-1, 1500])
@pytest.mark.parametrize("kind", ["objects of symbols", "objects of baskets"])
def test_rows_outputs_and_a_failure_are_those_of_a_loop_in_order(
    kind: str, fails_on: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, names = synthetic_day()
    monkeypatch.setattr(Says.factory, "fails_on", fails_on)  # type: ignore[attr-defined]
    found = []
    for in_order in (False, True):
        last = Says if kind == "objects of symbols" else SaysOfBaskets
        loop = CallerRun(names, strand.chain(strand.book(), last), in_order=in_order)
        failed = ""
        try:
            with loop:
                for part in np.array_split(ticks, 3):
                    loop.publish(part)
        except HandlerError as error:
            failed = f"{error} {error.row}"
        rows = None if failed else (loop.rows.array.tolist(), [row.tolist() for row in loop.baskets.values()])
        found.append((failed, rows, loop.outputs["said"].array().tolist()))
    assert found[0] == found[1]
    assert len(found[0][2]) > 1000
    assert bool(found[0][0]) == (fails_on > 0)


def test_a_python_handler_s_exception_is_the_cause() -> None:
    @strand.batch_handler(state=[("n", "u8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        raise ValueError("no")

    with CallerRun(2, fails) as loop:
        with pytest.raises(HandlerError, match="ValueError: no") as caught:
            loop.publish(ticks_for([1]))
        assert isinstance(caught.value.__cause__, ValueError)


def test_an_interrupt_leaves_what_was_handled_and_nothing_published_beyond_it() -> None:
    ends = []

    def on_finish(symbol: str, row: Any) -> None:
        ends.append(symbol)

    @strand.batch_handler(state=[("n", "u8")], outputs={"x": [("n", "u8")]}, on_finish=on_finish)
    def counts(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit(ticks[["sequence"]].astype([("n", "u8")]), at=np.arange(len(ticks)))
        if symbol == "#2":
            raise KeyboardInterrupt
        row["n"] += len(ticks)

    ticks = ticks_for([0, 0, 1, 2, 3])
    ticks["ts_recv"] = [10, 20, 30, 40, 50]
    with CallerRun(4, counts) as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.publish(ticks)
        s = loop.statistics()
        assert (s.accepted, s.handled, s.dropped["abandoned"]) == (3, 3, 0)
        loop.publish(ticks[4:])
    assert loop.rows.array["n"].tolist() == [2, 1, 0, 1]
    assert ends == ["#0", "#1", "#2", "#3"]
    assert loop.outputs["x"].array()["number"].tolist() == [0, 1, 2, 5]  # 3 and 4 are not given again


def test_an_interrupt_among_symbols_counts_what_was_handled_of_each(tmp_path: Path) -> None:
    @strand.batch_handler(state=[("n", "u8")], outputs={"x": [("n", "u8")]})
    def counts(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit(ticks[["sequence"]].astype([("n", "u8")]), at=np.arange(len(ticks)))
        if symbol == "B":
            raise KeyboardInterrupt
        row["n"] += len(ticks)

    feed = strand.testing.feed([(symbol, i, 1.0, 1) for i, symbol in enumerate("ABABAC")])
    with pytest.raises(KeyboardInterrupt) as caught:
        strand.replay(feed, counts, workers=0, out={"x": tmp_path / "x.csv"})
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert partial.ticks_by_symbol.tolist() == partial.rows.array["n"].tolist() == [3, 0, 0]
    assert partial.written["x"][1] == 3


def test_what_is_emitted_up_to_a_failure_is_there_and_nothing_of_it(c_handlers: Path) -> None:
    outputs = {"seen": [("count", "<u8"), ("size", "<u4"), ("place", "u1")], "fifths": [("n", "<u4")]}
    ticks = ticks_for([0, 1, 0, 1, 0, 1])
    ticks["depth"], ticks["flags"][3] = 2, 255
    loop = CallerRun(2, native(c_handlers, "on_echo", state=[("ticks", "u8")], outputs=outputs))
    with pytest.raises(HandlerError), loop:
        loop.publish(ticks)
    seen = loop.outputs["seen"].array()
    assert seen["number"].tolist() == [0, 0, 1, 1, 2, 2]
    assert seen["place"].tolist() == [0, 1] * 3
    assert seen["instrument_id"].tolist() == [0, 0, 1, 1, 0, 0]


def test_a_handler_that_returns_what_it_may_not_or_publishes_is_told_so(c_handlers: Path) -> None:
    loop = CallerRun(2, native(c_handlers, "on_nonsense", state=PAIR_ROW))
    with pytest.raises(HandlerError, match="returned 10 for 3 records"):
        loop.publish(ticks_for([1, 0, 1]))
    ticks = ticks_for([1, 0])
    ticks["order_id"] = 1
    loop = CallerRun(2, native(c_handlers, "on_relay", state=RELAY_ROW))
    with pytest.raises(HandlerError, match=r"it publishes, which a plain loop \(workers=0\) cannot do"):
        loop.publish(ticks)


def test_a_part_of_a_chain_that_publishes_is_told_so_before_a_python_one(c_handlers: Path) -> None:
    ticks = ticks_for([1, 0])
    ticks["order_id"] = 1
    last = strand.batch_handler(state=[("n", "<i8")], name="last")(lambda symbol, ticks, row: None)
    loop = CallerRun(2, strand.chain(native(c_handlers, "on_relay", state=RELAY_ROW), last))
    with pytest.raises(HandlerError, match=r"it publishes, which a plain loop \(workers=0\) cannot do"):
        loop.publish(ticks)


def test_keys_dtypes_and_arguments_are_checked() -> None:
    with CallerRun(2, "count") as loop:
        with pytest.raises(UnknownSymbolError, match="record 1: instrument_id is 2") as caught:
            loop.publish(ticks_for([1, 2, 0]))
        assert caught.value.position == 1
        assert loop.rows.array["ticks"].tolist() == [0, 1]
        with pytest.raises(RecordTypeError):
            loop.publish(np.zeros(3))
    with pytest.raises(StoppedError):
        loop.publish(ticks_for([1]))
    with pytest.raises(ConfigurationError, match="wrokers"):
        CallerRun(2, "count", wrokers=2)
    with pytest.raises(ConfigurationError, match="on_error"):
        CallerRun(2, "count", on_error="quarantine")
    assert CallerRun(2, "count", workers=0, strands=7, cores=None, idle="spin").workers == 0
