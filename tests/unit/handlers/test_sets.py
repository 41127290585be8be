"""A handler with many sets of parameters against one run for each set."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from python_set_handlers import span_objects

import strand
from strand.errors import ConfigurationError, HandlerError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import Handler
from strand.handlers.sets import part_with_sets, with_sets

pytest.importorskip("numba")

pytestmark = pytest.mark.python

Wraps = Callable[[Handler], Handler]
OPTIONS: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}, "symbols": ["AAAA*"], "timeline": False}


class Span:
    span: np.int64
    least: np.uint32 = np.uint32(0)


def _close(row, time, params, emit):  # type: ignore[no-untyped-def]
    emit.bars(time, row.volume)
    row.volume = 0
    row.open = False


def _end(row, emit, ctx):  # type: ignore[no-untyped-def]
    if row.open:
        emit.bars(ctx.time, row.volume)


@strand.handler(
    on="trade",
    state=[("volume", "i8"), ("open", "?"), ("sizes", "u4", (2,))],
    params=Span,
    outputs={"bars": [("end", "i8"), ("volume", "i8")]},
    on_wake=_close,
    on_finish=_end,
)
def spans(row, trade, params, emit, ctx):  # type: ignore[no-untyped-def]
    if trade.size < params.least:
        return
    row.volume += trade.size
    row.sizes[1 if trade.size > 100 else 0] += 1
    if not row.open:
        row.open = True
        ctx.wake_at((ctx.time // params.span + 1) * params.span)


def _alone(handler: Handler) -> Handler:
    return handler


def _behind_a_book(handler: Handler) -> Handler:
    return strand.chain(strand.book(), handler)


#: Two of them alike, and one that differs for a symbol.
SETS: list[dict[str, Any]] = [
    {"span": 1_000_000_000},
    {"span": 60_000_000_000, "least": 200},
    {"span": 60_000_000_000, "least": 200},
    {"*": {"span": 7_000_000_000}, "AAAAB": {"span": 1_000_000, "least": 5}},
]


def _singly(handler: Handler, values: dict[str, Any]) -> Handler:
    by_symbol = values if all(isinstance(value, dict) for value in values.values()) else {"*": values}
    return handler.with_params(by_symbol)


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("wraps", [_alone, _behind_a_book])
@pytest.mark.parametrize("sets", [SETS[:3], SETS], ids=["one for all symbols", "by symbol"])
def test_each_set_has_the_timers_and_records_of_a_run_of_its_own(workers: int, wraps: Wraps, sets: Any) -> None:
    numbers = list(range(5, 5 + len(sets)))
    many = strand.replay(sample_path(), wraps(with_sets(spans, sets, numbers)), workers=workers, **OPTIONS)
    records = many.outputs["bars"].to_numpy()
    rows = many.rows.array if wraps is _alone else many.rows.array["spans"]
    for place, values in enumerate(sets):
        one = strand.replay(sample_path(), wraps(_singly(spans, values)), workers=0, **OPTIONS)
        expected = one.outputs["bars"].to_numpy()
        found = records[records["set"] == numbers[place]]
        assert len(expected) > 100
        for name in expected.dtype.names or ():
            assert (found[name] == expected[name]).all(), name
        mine = one.rows.array if wraps is _alone else one.rows.array["spans"]
        assert (rows["sets"][:, place] == mine).all()


@pytest.mark.parametrize(
    ("handler", "sets", "said"),
    [
        (strand.book(), [{"a": 1}], "'book' takes no sets of parameters"),
        (spans, [], "from 1 to 4096 sets"),
        (span_objects, [], "from 1 to 4096 sets"),
        (span_objects, [{"span": 1}, {"spam": 1}], "set 1: .*'spam' is not a parameter"),
        (spans, [{"span": 1}, {"spam": 1}], "set 1: .*'spam' is not a parameter"),
        (spans, [{"span": 1}, 7], "set 1: params: 7 is not a dict"),
    ],
)
def test_what_cannot_have_sets_is_refused(handler: Handler, sets: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        with_sets(handler, sets)


def test_a_field_that_is_called_as_a_sets_number_is_refused() -> None:
    @strand.handler(state=[("n", "i8")], params=[("set", "i8")])
    def named(row, tick, params):  # type: ignore[no-untyped-def]
        row.n += params.set

    with pytest.raises(ConfigurationError, match="a field is named 'set'"):
        with_sets(named, [{"set": 1}])


def test_a_value_that_does_not_fit_is_refused_when_it_is_run() -> None:
    with pytest.raises(ConfigurationError, match=r"least: .* cannot hold -1"):
        strand.replay(sample_path(), with_sets(spans, [{"span": 1, "least": -1}]), **OPTIONS)


def test_the_part_with_sets_is_the_last_of_a_chain() -> None:
    called, part = part_with_sets(strand.chain(strand.book(), other=spans))
    assert (called, part.on_tick) == ("other", spans.on_tick)


def _divided(wake: bool = False, **options: Any) -> Any:
    """Fails with sets whose ``by`` is zero."""

    def on_wake(row, time, params):  # type: ignore[no-untyped-def]
        row.n += 1 // params.by

    def divided(row, tick, params, ctx):  # type: ignore[no-untyped-def]
        row.n += 1
        ctx.wake_at(ctx.time + 1)

    def plain(row, tick, params):  # type: ignore[no-untyped-def]
        row.n += 1
        row.sum += tick.size // params.by

    state, params = [("n", "i8"), ("sum", "i8")], [("by", "i8"), ("more", "i8")]
    more = {"on_wake": on_wake} if wake else {}
    return strand.handler(state=state, params=params, cache=False, **more)(divided if wake else plain)


DIVISORS: list[dict[str, Any]] = [{"by": by, "more": 7} for by in (1, 2, 0, 3)]


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("wraps", [_alone, _behind_a_book])
def test_an_error_names_the_set_that_it_came_with(workers: int, wraps: Wraps) -> None:
    many = wraps(with_sets(_divided(), DIVISORS, [10, 11, 12, 13]))
    options = OPTIONS | {"symbols": ["AAAAB"]}  # of several symbols, any may fail first
    with pytest.raises(
        HandlerError, match=r"with set 12 \(by=0, more=7\): (ZeroDivisionError, at .*|it raised an exception)"
    ) as caught:
        strand.replay(sample_path(), many, workers=workers, **options)
    with pytest.raises(HandlerError) as alone:
        strand.replay(sample_path(), wraps(_divided().with_params({"*": DIVISORS[2]})), workers=workers, **options)
    error = caught.value
    assert (error.set_number, error.params) == (12, {"by": 0, "more": 7})
    assert (error.symbol, error.sequence, error.row) == ("AAAAB", alone.value.sequence, alone.value.row)
    assert (alone.value.set_number, alone.value.params) == (None, None)
    sent = pickle.loads(pickle.dumps(error))
    assert (str(sent), sent.set_number, sent.params) == (str(error), 12, error.params)
    if wraps is _alone:
        assert error.line is not None
        assert error.line.text == "row.sum += tick.size // params.by"


def test_an_error_of_a_handler_before_names_no_set() -> None:
    @strand.handler(state=[("n", "i8")], cache=False)
    def before(row, tick):  # type: ignore[no-untyped-def]
        row.n += 1
        if row.n == 3:
            raise ValueError("the third one")

    with pytest.raises(HandlerError, match=r"ValueError, at .*: raise ValueError") as caught:
        strand.replay(sample_path(), strand.chain(before, with_sets(_divided(), DIVISORS[:1])), **OPTIONS)
    assert caught.value.set_number is None
