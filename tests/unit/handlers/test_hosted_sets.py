"""Handlers that Python runs with many sets of parameters, against one run for each set."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from python_set_handlers import (
    SPANS,
    counting,
    emitting,
    plain_batches,
    span_batches,
    span_objects,
    spans_after_a_book,
)

import strand
from strand.errors import ConfigurationError, HandlerError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import Handler
from strand.handlers.sets import with_sets

pytestmark = pytest.mark.python

Wraps = Callable[[Handler], Handler]
OPTIONS: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}, "symbols": ["AAAA[BCH]", "AAAHD"], "timeline": False}
ONE = OPTIONS | {"symbols": ["AAAAB"]}


def _alone(handler: Handler) -> Handler:
    return handler


def _behind_a_book(handler: Handler) -> Handler:
    return strand.chain(strand.book(), handler)


def _behind_bars(handler: Handler) -> Handler:
    """The handler behind bars, which have timers of their own."""
    return strand.chain(strand.bars("1m"), strand.book(), handler)


def _singly(handler: Handler, values: dict[str, Any]) -> Handler:
    by_symbol = values if all(isinstance(value, dict) for value in values.values()) else {"*": values}
    return handler.with_params(by_symbol)


def _own(rows: Any) -> Any:
    return rows["spans"] if "spans" in (rows.dtype.names or ()) else rows


@pytest.mark.cells(1)
@pytest.mark.parametrize(("n", "workers"), [(1, 0), (4, 2)])
@pytest.mark.parametrize(
    ("handler", "wraps"),
    [
        (span_objects, _alone),
        (span_objects, _behind_bars),
        (spans_after_a_book, _behind_a_book),
        (spans_after_a_book, _behind_bars),
        (counting, _alone),
        (counting, _behind_a_book),
        (emitting, _alone),
        (emitting, _behind_a_book),
        (plain_batches, _alone),
        (plain_batches, _behind_a_book),
        (span_batches, _alone),
        (span_batches, _behind_a_book),
        (span_batches, _behind_bars),
    ],
)
def test_each_set_has_the_rows_records_and_timers_of_a_run_of_its_own(
    handler: Any, wraps: Wraps, n: int, workers: int
) -> None:
    numbers = list(range(5, 5 + n))
    many = strand.replay(sample_path(), wraps(with_sets(handler, SPANS[-n:], numbers)), workers=workers, **OPTIONS)
    rows = _own(many.rows.array)
    for place, values in enumerate(SPANS[-n:]):
        one = strand.replay(sample_path(), wraps(_singly(handler, values)), workers=0, **OPTIONS)
        expected = _own(one.rows.array)
        assert expected.view(f"V{expected.dtype.itemsize}").tobytes().strip(b"\0")
        assert ((rows["sets"][:, place] if "sets" in rows.dtype.names else rows) == expected).all()
        for name in handler.outputs:
            records, found = one.outputs[name].to_numpy(), many.outputs[name].to_numpy()
            found = found[found["set"] == numbers[place]]
            assert len(records) > 20
            for field in records.dtype.names or ():
                assert (found[field] == records[field]).all(), field


class _Fails:
    """Fails at a place that its parameter names: in which method, and at which of its calls."""

    def on_start(self, ctx: Any) -> None:
        self.ctx, self.what, self.left = ctx, ctx.params["what"].decode(), int(ctx.params["left"])
        self.fail("start")

    def fail(self, what: str) -> None:
        self.left -= what == self.what
        self.ctx.row["left"] = self.left
        if self.what == what and not self.left:
            raise ValueError("by its parameter")

    def on_tick(self, tick: strand.Tick) -> None:
        self.ctx.wake_at(self.ctx.time + 1)
        self.fail("tick")

    def on_wake(self, time: int) -> None:
        self.fail("wake")

    def on_finish(self) -> None:
        self.fail("finish")

    def on_stop(self) -> None:
        self.fail("stop")


class _FailsAtBooks(_Fails):
    def on_book(self, top: Any) -> None:
        self.fail("book")


def _batch(symbol, ticks, row, ctx):  # type: ignore[no-untyped-def]
    first, row["left"] = int(row["left"]), row["left"] + len(ticks)
    if ctx.params["what"] == b"tick" and first < ctx.params["left"] <= row["left"]:
        raise ValueError("by its parameter")


_PARAMS = [("what", "S8"), ("left", "i8")]
WHEN = ["start", "tick", "wake", "finish", "stop"]
FAILS = strand.object_handler(state=[("left", "i8")], params=_PARAMS, name="fails")(_Fails)
FAILS_AT_BOOKS = strand.object_handler(state=[("left", "i8")], params=_PARAMS, name="fails")(_FailsAtBooks)
BATCH_FAILS = strand.batch_handler(state=[("left", "i8")], params=_PARAMS, name="fails")(_batch)


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("handler", "wraps", "what"),
    [
        *((FAILS, wraps, what) for wraps in (_alone, _behind_a_book) for what in WHEN),
        (FAILS_AT_BOOKS, _behind_a_book, "book"),
        (BATCH_FAILS, _alone, "tick"),
        (BATCH_FAILS, _behind_a_book, "tick"),
    ],
)
def test_an_error_names_the_set_and_is_else_as_that_of_a_run_of_its_own(
    handler: Any, wraps: Wraps, what: str, workers: int
) -> None:
    sets = [{"what": "none", "left": 7}, {"what": what, "left": 1 if what in ("start", "finish", "stop") else 5}]
    with pytest.raises(HandlerError, match=r"with set 11 \(what=\w+, left=\d\): .*ValueError: by its") as caught:
        strand.replay(sample_path(), wraps(with_sets(handler, [*sets, sets[0]], [10, 11, 12])), workers=workers, **ONE)
    with pytest.raises(HandlerError) as alone:
        strand.replay(sample_path(), wraps(_singly(handler, sets[1])), workers=workers, **ONE)
    error, expected = caught.value, alone.value
    assert (error.set_number, error.params) == (11, sets[1])
    assert (expected.set_number, expected.params) == (None, None)
    assert (error.symbol, error.sequence, error.reason) == (expected.symbol, expected.sequence, expected.reason)
    assert error.line is not None
    assert error.line == expected.line
    if what == "stop":
        return
    assert _own_row(error.row) == _own_row(expected.row)
    if expected.tick is None:
        return
    if handler is BATCH_FAILS and workers == 0:  # the first set had the whole batch before
        counted = error.partial.rows["AAAAB"]
        assert (counted["fails"] if "fails" in counted.dtype.names else counted)["sets"]["left"].tolist() == [5, 5, 4]
    assert (error.tick, error.number) == (expected.tick, expected.number)
    if handler is not BATCH_FAILS and what != "start":
        for one in (error, expected):
            one._again.args[1].object.left = 1
            with pytest.raises(ValueError, match="by its parameter"):
                one.replay()


def _own_row(row: Any) -> Any:
    return row["fails"] if "fails" in row.dtype.names else row


def test_methods_that_an_object_puts_in_place_at_its_start_are_called() -> None:
    class Replaces:
        def on_start(self, ctx: Any) -> None:
            self.row, self.ctx = ctx.row, ctx
            if ctx.params["by"] > 1:
                self.on_tick, self.on_wake, self.on_finish = self.other, self.woken, self.last

        def on_tick(self, tick: strand.Tick) -> None:
            self.row["n"] += 1
            self.on_wake = self.never
            self.ctx.wake_at(self.ctx.time + 1)

        def other(self, tick: strand.Tick) -> None:
            Replaces.on_tick(self, tick)
            self.row["n"] += 1

        def on_wake(self, time: int) -> None:
            self.row["wakes"] += 1

        def woken(self, time: int) -> None:
            self.row["wakes"] += 2

        def never(self, time: int) -> None:
            self.row["wakes"] = -1

        def on_finish(self) -> None:
            self.row["ends"] = 1

        def last(self) -> None:
            self.row["ends"] = 2

    state = [("n", "i8"), ("wakes", "i8"), ("ends", "i8")]
    handler = strand.object_handler(state=state, params=[("by", "i8")])(Replaces)
    sets = [{"by": 1}, {"by": 2}]
    rows = strand.replay(sample_path(), with_sets(handler, sets), workers=0, **ONE).rows.array["sets"]
    for place, values in enumerate(sets):
        one = strand.replay(sample_path(), _singly(handler, values), workers=0, **ONE).rows.array
        assert (one["wakes"] > 0).any()
        assert (rows[:, place] == one).all()
    assert (rows[:, 0] != rows[:, 1]).any()


def test_a_batch_function_that_fails_only_on_the_whole_batch_names_the_set() -> None:
    @strand.batch_handler(state=[("n", "i8")], params=[("most", "i8")])
    def long(symbol, ticks, row, ctx):  # type: ignore[no-untyped-def]
        row["n"] += len(ticks)
        if len(ticks) > ctx.params["most"]:
            raise ValueError("too long")

    with pytest.raises(HandlerError, match=r"with set 1 \(most=1\).*too long"):
        strand.replay(sample_path(), with_sets(long, [{"most": 10**9}, {"most": 1}]), workers=0, **OPTIONS)


@pytest.mark.parametrize("workers", [0, 2])
def test_every_object_is_told_of_the_end_where_one_fails_then(workers: int) -> None:
    told = []

    @strand.object_handler(state=[("n", "i8")], params=[("least", "i8")])
    class Told:
        def on_start(self, ctx: Any) -> None:
            self.least = int(ctx.params["least"])

        def on_tick(self, tick: strand.Tick) -> None:
            """Nothing to do."""

        def on_stop(self) -> None:
            told.append(self.least)
            if self.least == 2:
                raise ValueError("two")

    with pytest.raises(HandlerError, match=r"with set 1 \(least=2\)"):
        strand.replay(sample_path(), with_sets(Told, [{"least": n} for n in (1, 2, 3)]), workers=workers, **ONE)
    assert told == [1, 2, 3]


def test_a_row_that_only_has_ticks_counted_is_not_written_to() -> None:
    """It is the same with all sets."""

    @strand.object_handler(params=[("least", "i8")], outputs={"seen": [("n", "i8")]})
    class Writes:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: strand.Tick) -> None:
            self.ctx.row["ticks"] += 1

    with pytest.raises(HandlerError, match="read-only"):
        strand.replay(sample_path(), with_sets(Writes, [{"least": 1}]), workers=0, **ONE)


class _WritesAfter:
    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_tick(self, tick: strand.Tick) -> None:
        self.ctx.after["book"]["bid_orders"] += 1


class _WritesAtTheEnd(_WritesAfter):
    def on_tick(self, tick: strand.Tick) -> None:
        """Nothing to do."""

    def on_finish(self) -> None:
        self.ctx.after["book"]["bid_orders"] += 1


@pytest.mark.parametrize("cls", [_WritesAfter, _WritesAtTheEnd])
@pytest.mark.parametrize("n", [0, 2])
def test_the_rows_of_handlers_before_cannot_be_changed(cls: Any, n: int) -> None:
    """All sets see the same ones; and one set alone is refused as they are."""
    handler = strand.object_handler(state=[("n", "i8")], params=[("least", "i8")])(cls)
    sets = [{"least": place} for place in range(n)]
    given = with_sets(handler, sets) if n else _singly(handler, {"least": 1})
    with pytest.raises(HandlerError, match="read-only"):
        strand.replay(sample_path(), _behind_a_book(given), workers=0, **ONE)


def test_an_object_with_several_sets_asks_in_the_name_of_the_tick_in_hand() -> None:
    @strand.object_handler(state=[("n", "i8")], params=[("least", "i8")])
    class Asks:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: strand.Tick) -> None:
            self.ctx.wake_at(self.ctx.time + 1, at=self.ctx.at + 1)

        def on_wake(self, time: int) -> None:
            """Nothing to do."""

    with pytest.raises(HandlerError, match=r"at: .* leaves it out"):
        strand.replay(sample_path(), with_sets(Asks, [{"least": 1}]), workers=0, **ONE)


def test_objects_go_with_their_run() -> None:
    seen: list[Any] = []

    class Keeps:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx
            ctx.wake_at(1)
            seen.append(weakref.ref(self))

        def on_wake(self, time: int) -> None:
            """Nothing to do."""

    keeps = strand.object_handler(state=[("n", "i8")], params=[("least", "i8")])(Keeps)
    gc.collect()
    gc.disable()
    try:
        strand.replay(sample_path(), with_sets(keeps, [{"least": 1}, {"least": 2}]), workers=0, **ONE)
        assert len(seen) == 2
        assert [each() for each in seen] == [None, None]
    finally:
        gc.enable()


def test_a_number_of_a_set_is_no_field_that_an_output_may_have() -> None:
    @strand.batch_handler(state=[("n", "i8")], params=[("least", "i8")], outputs={"seen": [("set", "i8")]})
    def emits(symbol, ticks, row, ctx):  # type: ignore[no-untyped-def]
        """Nothing to do."""

    with pytest.raises(ConfigurationError, match="'set', which is the name of the set's number"):
        with_sets(emits, [{"least": 1}])


def test_a_random_mix_of_timers_is_as_runs_of_their_own() -> None:
    """Each set asks, asks again and forgets at ticks and timers of its own."""

    class Random:
        def on_start(self, ctx: Any) -> None:
            self.ctx, self.random = ctx, np.random.default_rng(int(ctx.params["seed"]))
            self.ask(1_700_000_000_000_000_000)

        def ask(self, now: int) -> None:
            what = self.random.integers(0, 8)
            if what < 5:
                self.ctx.wake_at(now + int(self.random.choice([-5, 0, 1, 2, 1000, 10**6, 10**9, 10**12])))
            elif what == 5:
                self.ctx.wake_at(0)

        def on_tick(self, tick: strand.Tick) -> None:
            self.ctx.row["n"] += 1
            self.ask(self.ctx.time)

        def on_book(self, top: Any) -> None:
            self.ctx.row["n"] += 100
            self.ask(self.ctx.time)

        def on_wake(self, time: int) -> None:
            self.ctx.row["wakes"] += 1
            self.ctx.emit((time, self.ctx.row["n"]))
            self.ask(time)

    handler = strand.object_handler(
        state=[("n", "i8"), ("wakes", "i8")], params=[("seed", "i8")], outputs={"woken": [("at", "i8"), ("n", "i8")]},
        name="spans",
    )(Random)  # fmt: skip
    sets = [{"seed": seed} for seed in range(3)]
    many = strand.replay(sample_path(), _behind_bars(with_sets(handler, sets)), workers=0, **OPTIONS)
    records = many.outputs["woken"].to_numpy()
    for place, values in enumerate(sets):
        one = strand.replay(sample_path(), _behind_bars(_singly(handler, values)), workers=0, **OPTIONS)
        expected = one.outputs["woken"].to_numpy()
        found = records[records["set"] == place][list(expected.dtype.names or ())]
        assert len(expected) > 1000
        assert found.tolist() == expected.tolist()
        assert (_own(many.rows.array)["sets"][:, place] == _own(one.rows.array)).all()
