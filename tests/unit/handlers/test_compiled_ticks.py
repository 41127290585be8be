"""Ticks as compiled handlers read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emitting import OUTPUTS, ROW, run
from engine_support import ticks_for
from quote_ticks import EXPECTED, quotes

import strand
from strand import Dispatcher, handler, ticks
from strand.errors import ConfigurationError, HandlerError
from strand.ticks import zeros

pytestmark = pytest.mark.python


def test_letters_are_bytes_in_a_compiled_handler() -> None:
    @handler(state=[("adds", "u8"), ("others", "u8")])
    def letters(row, tick):  # type: ignore[no-untyped-def]
        if tick.action == b"A":
            row.adds += 1
        else:
            row.others += 1

    ticks = ticks_for([0] * 10)
    ticks["action"][3:5] = b"C"
    with Dispatcher(1, letters, workers=1, cores=None) as d:
        d.publish(ticks)
    assert d.rows[0].tolist() == (8, 2)


def test_handlers_of_every_kind_read_the_same_by_name() -> None:
    pytest.importorskip("numba")
    names = list(EXPECTED)

    @strand.handler(state=[("n", "i8")], outputs={"seen": [(f"its_{name}", "i8") for name in names]})
    def compiled(row, tick, emit):  # type: ignore[no-untyped-def]
        emit.seen(tick.sequence, tick.bid_price, tick.bid_size, tick.ask_price, tick.ask_size)

    @strand.batch_handler(state=[("n", "i8")], outputs={"seen": [(f"its_{name}", "i8") for name in names]})
    def batches(symbol: str, batch: Any, row: Any, ctx: Any) -> None:
        named = batch[names].view([(f"its_{name}", "<i8") for name in names])
        ctx.emit(named, at=np.arange(len(batch)), output="seen")

    objects: list[Any] = []

    class Objects:
        def on_quote(self, tick: strand.Tick) -> None:
            objects.append([getattr(tick, name) for name in names])

    for made in (compiled, batches):
        with strand.Dispatcher(1, made, workers=1, cores=None) as d:
            d.publish(quotes())
            d.drain()
            seen = d.outputs["seen"].array()
        assert {name: seen[f"its_{name}"].tolist() for name in names} == EXPECTED
    with strand.Dispatcher(1, Objects, workers=1, cores=None) as d:
        d.publish(quotes())
    assert [list(row) for row in zip(*EXPECTED.values(), strict=True)] == objects


@pytest.mark.parametrize("handler", ["count", "vwap", "trade_stats", "book", "bars", "depth", "spread"])
def test_a_sum_that_its_field_does_not_hold_is_an_error_and_never_wraps(handler: str) -> None:
    made = zeros(4)
    made["kind"], made["action"], made["side"], made["price"] = ticks.KIND_TRADE, b"T", b"N", 1
    made["size"], made["ts_recv"] = 1 << 62, np.arange(1, 5)
    made[:1]["kind"], made[:1]["action"] = ticks.KIND_QUOTE, b"N"  # a quote for the spread to measure by
    made[:1]["order_id"], made[:1]["ref_id"], made[:1]["size"] = 3, 1, 1
    with pytest.raises(strand.errors.HandlerError, match="coarser unit"), strand.Dispatcher(1, handler, workers=1) as d:
        d.publish(made)


def test_an_id_plus_a_signed_number_is_signed_and_plus_an_unsigned_one_is_right(tmp_path: Path) -> None:
    @strand.handler(state=[("signed", "i8"), ("unsigned", "u8"), ("below_0", "i8")])
    def next_id(row, tick):  # type: ignore[no-untyped-def]
        row.signed = tick.order_id + 1
        row.unsigned = tick.order_id + np.uint64(1)
        row.below_0 = tick.order_id + 1 < 0

    for order, below_0 in ((2**53 + 1, 0), (2**63 + 1025, 1)):
        ticks = strand.ticks.zeros(1)
        ticks["kind"], ticks["action"], ticks["order_id"] = 1, b"A", order
        np.save(tmp_path / "a.npy", ticks)
        row = strand.replay(tmp_path / "a.npy", next_id).rows[0]
        assert int(row["unsigned"]) == order + 1
        assert int(row["signed"]) % 2**64 == order + 1
        assert int(row["below_0"]) == below_0


# ---- What compiled handlers emit


def test_a_compiled_handler_that_fails_has_not_emitted_for_the_tick_it_failed_on() -> None:
    @handler(state=ROW, outputs={"x": [("n", "<u8")]}, cache=False)
    def fails(row: Any, tick: Any, emit: Any) -> None:
        row.ticks += 1
        emit.x(row.ticks)
        if tick.size == 3:
            raise ValueError

    d = Dispatcher(1, fails, workers=1, cores=None)
    with pytest.raises(HandlerError), d:
        d.publish(ticks_for([0] * 9))
        d.drain()
    assert d.outputs["x"].array()["n"].tolist() == [1, 2, 3]


def test_a_compiled_handler_takes_params_and_emit_in_either_order() -> None:
    rows = [("n", "<u8")]

    @handler(state=ROW, params=[("factor", "<u8")], outputs={"x": rows}, cache=False)
    def first(row: Any, tick: Any, params: Any, emit: Any) -> None:
        emit.x(tick.size * params.factor)

    @handler(state=ROW, params=[("factor", "<u8")], outputs={"x": rows}, cache=False)
    def last(row: Any, tick: Any, emit: Any, params: Any) -> None:
        emit.x(tick.size * params.factor)

    for one in (first, last):
        found = run(one.with_params({"*": {"factor": 3}}), ticks_for([0, 1, 2]), workers=1)
        assert [record[-1] for record in found["x"]] == [0, 3, 6]


def test_a_compiled_handler_that_emits_a_field_too_few_is_refused_with_its_name() -> None:
    @handler(state=ROW, outputs=OUTPUTS, cache=False)
    def short(row: Any, tick: Any, emit: Any) -> None:
        emit.seen(row.ticks)

    with pytest.raises(ConfigurationError, match="short"):
        Dispatcher(1, short)


# ---- What does not compile, said in one line


def plain(x: Any) -> Any:
    return x + 1


def no_field(row, tick):  # type: ignore[no-untyped-def]
    row.n += 1
    row.volume += tick.size


def no_field_of_a_tick(row, tick):  # type: ignore[no-untyped-def]
    row.n += 1
    row.n += tick.pirce


def no_field_by_index(row, tick):  # type: ignore[no-untyped-def]
    row["volume"] += 1


def no_name(row, tick):  # type: ignore[no-untyped-def]
    row.n += undefined  # type: ignore[name-defined]  # noqa: F821


def not_compiled(row, tick):  # type: ignore[no-untyped-def]
    row.n += plain(tick.size)


def two_types(row, tick):  # type: ignore[no-untyped-def]
    if tick.size > 1:
        x = 1
    else:
        x = "one"  # type: ignore[assignment]
    row.n += len(str(x))


def wrong_type(row, tick):  # type: ignore[no-untyped-def]
    row.n = "one"


def empty_list(row, tick):  # type: ignore[no-untyped-def]
    seen: list[int] = []
    row.n += len(seen)


def opens_a_file(row, tick):  # type: ignore[no-untyped-def]
    with open("x") as file:  # noqa: PTH123
        row.n += len(file.read())


def bytes_and_text(row, tick):  # type: ignore[no-untyped-def]
    if tick.size > 0 and tick["action"] != "A":
        row.n += 1


def bytes_among_text(row, tick):  # type: ignore[no-untyped-def]
    row.n += 1
    if tick.side in ("A", "B"):
        row.n += 1


@pytest.mark.parametrize(
    ("function", "line", "said"),
    [
        (bytes_and_text, 1, r"bytes are compared with text, which they never equal \(write b\"A\" in place of \"A\"\)"),
        (bytes_among_text, 2, r"bytes are compared with text"),
        (no_field, 2, r"row has no field 'volume'; row has n, last$"),
        (no_field_of_a_tick, 2, r"tick has no field 'pirce'; tick has ts_event, .*, price, "),
        (no_field_by_index, 1, r"row has no field 'volume'; row has n, last$"),
        (no_name, 0, r"name 'undefined' is not defined \(define it at the top of the module"),
        (not_compiled, 1, r"Untyped global name 'plain'.*decorate plain with @numba.njit"),
        (two_types, None, r"Cannot unify .* \(a variable has one type throughout"),
        (wrong_type, 1, r"Cannot cast .* to uint64 \(the field has another type"),
        (empty_list, None, r"keep a fixed-size array in the row instead"),
        (opens_a_file, None, r"for the rest of Python use @strand.batch_handler"),
    ],
)
def test_what_does_not_compile_is_said_in_one_line_with_its_place(function: Any, line: int | None, said: str) -> None:
    wrong = handler(state=[("n", "u8"), ("last", "i8")], name="mine")(function)
    with pytest.raises(ConfigurationError, match=said) as caught:
        Dispatcher(1, wrong)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"handler 'mine' does not compile: {__file__}:")
    if line:
        assert f"{__file__}:{function.__code__.co_firstlineno + line}:" in text
    assert caught.value.__suppress_context__  # a traceback has none of numba's own text
    assert caught.value.__context__ is not None


def no_field_of_an_earlier_row(row, tick):  # type: ignore[no-untyped-def]
    quote = row.bbo
    row.n += quote.bid_price


def test_a_field_that_is_missing_in_the_row_of_an_earlier_handler_names_those_that_are_there() -> None:
    wrong = handler(state=[("n", "u8")], name="mine")(no_field_of_an_earlier_row)
    with pytest.raises(
        ConfigurationError, match=r"no field 'bid_price'; row has .*; row\.bbo has bid, ask, "
    ) as caught:
        Dispatcher(1, strand.chain("bbo", wrong))
    assert "row.mine" not in str(caught.value)


def no_output(row, tick, emit):  # type: ignore[no-untyped-def]
    emit.ticks(1, 2.0)


def too_few(row, tick, emit):  # type: ignore[no-untyped-def]
    emit.seen(tick.size)


def other_names(row, tick, emit):  # type: ignore[no-untyped-def]
    emit.seen(n=1, x=2.0)


def other_types(row, tick, emit):  # type: ignore[no-untyped-def]
    emit.seen("one", 2.0)


def no_name_of_an_output(row, tick, emit):  # type: ignore[no-untyped-def]
    emit(1, 2.0)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_output, r"emit has no output 'ticks'; write emit\.seen\(n, share\)$"),
        (too_few, r"what emit\.seen is given does not fit; write emit\.seen\(n, share\), of types uint64, float64$"),
        (other_names, r"what emit\.seen is given does not fit; write emit\.seen\(n, share\)"),
        (other_types, r"what emit\.seen is given does not fit; write emit\.seen\(n, share\)"),
        (no_name_of_an_output, r"emit is called by the name of an output; write emit\.seen\(n, share\)$"),
    ],
)
def test_what_cannot_be_emitted_is_said_in_the_words_of_the_outputs(function: Any, said: str) -> None:
    wrong = handler(state=[("n", "u8")], outputs={"seen": [("n", "u8"), ("share", "f8")]}, name="mine")(function)
    with pytest.raises(ConfigurationError, match=said) as caught:
        Dispatcher(1, wrong)
    assert f"{__file__}:{function.__code__.co_firstlineno + 1}: " in str(caught.value)


def test_a_generator_is_no_handler() -> None:
    def lazy(row, tick):  # type: ignore[no-untyped-def]
        row.n += 1
        yield

    with pytest.raises(ConfigurationError, match="handler 'lazy': lazy is async or a generator, and would not run"):
        handler(state=[("n", "u8")])(lazy)
