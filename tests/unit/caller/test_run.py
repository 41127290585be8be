"""The caller's driver: a run on the calling thread, its Python handlers, and order tick by tick."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import PAIR_ROW, RELAY_ROW, ticks_for
from let_go import HANDLERS, kept_by

import strand
from strand import basket_handler, batch_handler, chain, native, object_handler
from strand.caller.python_handlers import TicksInTurn
from strand.caller.run import CallerRun
from strand.errors import (
    ConfigurationError,
    HandlerError,
    RecordTypeError,
    StoppedError,
    UnknownSymbolError,
)
from strand.options import options_of
from strand.ticks import KIND_QUOTE, KIND_TRADE

pytestmark = pytest.mark.python


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


# ---- Handlers in Python on the calling thread: their timers between their ticks, interrupts, and that nothing


@pytest.mark.parametrize("kind", ["object", "batch"])
def test_what_an_interrupt_comes_upon_after_others_in_a_chain_can_be_published_again(kind: str) -> None:
    interrupted = True

    class Adds:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            if interrupted and tick.sequence == 2:
                raise KeyboardInterrupt
            self.ctx.row["n"] += 1

        def on_wake(self, time: int) -> None:
            pass

    @batch_handler(state=[("n", "i8")])
    def adds(symbol: str, ticks: Any, row: Any) -> None:
        if interrupted and 2 in ticks["sequence"]:
            raise KeyboardInterrupt
        row["n"] += len(ticks)

    last = adds if kind == "batch" else object_handler(state=[("n", "i8")], name="adds")(Adds)
    ticks = ticks_for([0] * 5)
    ticks["sequence"] = range(5)
    with CallerRun(1, chain("count", last)) as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.publish(ticks)
        done = loop.statistics().accepted
        assert done == (0 if kind == "batch" else 2)
        interrupted = False
        loop.publish(ticks[done:])
    assert (loop.rows[0]["adds"]["n"], loop.rows[0]["count"]["ticks"]) == (5, 5)


@pytest.mark.parametrize("n", [1, 5])
def test_what_an_interrupt_comes_upon_in_the_middle_of_a_batch_has_written_nothing(n: int) -> None:
    interrupted = True

    @batch_handler(state=[("n", "i8")])
    def adds(symbol: str, ticks: Any, row: Any) -> None:
        for tick in ticks:
            row["n"] += 1
            if interrupted and tick["sequence"] == n // 2:
                raise KeyboardInterrupt

    ticks = ticks_for([0] * n)
    ticks["sequence"] = range(n)
    with CallerRun(1, adds) as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.publish(ticks)
        assert (loop.statistics().accepted, loop.rows[0]["n"]) == (0, 0)
        interrupted = False
        loop.publish(ticks)
    assert loop.rows[0]["n"] == n


@pytest.mark.parametrize("before", [(), ("count",)])
def test_a_function_of_baskets_fails_on_the_tick_that_it_would_fail_on_alone(before: tuple[str, ...]) -> None:
    @basket_handler(
        baskets={"one": ["A", "B"], "two": ["B", "C"], "other": ["D"]}, basket_state=[("n", "i8")],
        state=[("n", "i8")], outputs={"seen": [("n", "i8")]}, kind="batch",
    )  # fmt: skip
    def adds(ticks: Any, rows: Any, basket: Any, members: Any, ctx: Any) -> None:
        for at, member in enumerate(members):
            basket["n"] += 1
            rows[member]["n"] += 1
            if ticks["sequence"][at] == 6:
                raise ValueError("six")
            ctx.emit((int(basket["n"]),), at=at)

    ticks = ticks_for([3, 0, 0, 1, 2, 3, 0, 2, 3, 0])
    ticks["sequence"] = range(10)
    found = []
    for batch in (10, 1):
        loop = CallerRun(["A", "B", "C", "D"], chain(*before, adds) if before else adds)
        with pytest.raises(HandlerError, match="on A at sequence 6: ValueError: six"), loop:
            for at in range(0, len(ticks), batch):
                loop.publish(ticks[at : at + batch])
        rows = loop.rows.array["adds"] if before else loop.rows.array
        together = np.array([0, 1, 2])  # the symbol beside them has gone on
        found.append((rows[together].tolist(), *(loop.baskets[name]["n"] for name in ("one", "two"))))
        assert loop.outputs["seen"].array()["number"].tolist() == [0, 1, 2, 3, 3, 4, 5]
    assert found[0] == found[1] == ([(3,), (2,), (1,)], 4, 2)


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_a_run_goes_with_the_last_reference_to_it(handler: Any) -> None:
    assert kept_by([CallerRun(2, handler)]) == []


# ---- Object handlers in a plain loop, over ticks of symbols that take turns


KEYS = [0, 1, 0, 2, 1, 0, 2, 2]


def ticks_in_turn() -> Any:
    """Trades and quotes of three symbols, of one price each."""
    ticks = ticks_for(KEYS)
    ticks["ts_recv"] = np.arange(10, 18)
    ticks["size"], ticks["price"] = np.arange(1, 9), 7
    ticks["kind"] = [KIND_TRADE if i % 2 else KIND_QUOTE for i in range(8)]
    ticks["action"] = [b"T" if i % 2 else b"A" for i in range(8)]
    return ticks


def test_ticks_of_symbols_that_take_turns_go_to_their_objects_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = TicksInTurn.call
    monkeypatch.setattr(TicksInTurn, "call", lambda self, ticks: calls.append(len(ticks)) or real(self, ticks))
    notes: list[tuple[str, int]] = []

    class Notes:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            notes.append((self.ctx.symbol, tick.size))

    with CallerRun(["A", "B", "C"], Notes) as loop:
        loop.publish(ticks_in_turn()[:5])
        loop.publish(ticks_in_turn()[5:])
    assert calls == [5, 3]
    assert notes == [("ABC"[key], i + 1) for i, key in enumerate(KEYS)]
    assert loop.rows.array["ticks"].tolist() == [3, 2, 3]


def test_what_an_interrupt_comes_upon_can_be_published_again() -> None:
    interrupted = True
    sizes: list[int] = []

    class Adds:
        def on_trade(self, trade: Any) -> None:
            if interrupted and trade.size == 4:
                raise KeyboardInterrupt
            sizes.append(trade.size)

    ticks = ticks_in_turn()
    with CallerRun(["A", "B", "C"], Adds) as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.publish(ticks)
        done = loop.statistics().accepted
        assert done == 3
        interrupted = False
        loop.publish(ticks[done:])
    assert sizes == [2, 4, 6, 8]
