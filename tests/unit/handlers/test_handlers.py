"""The kinds of handlers, and what is said of those that cannot work."""

from __future__ import annotations

import ctypes
import functools
import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import pytest
from engine_support import COUNT_ROW, PAIR_ROW, balanced, run_python, spin_rows, ticks_for

from strand import TICK, UNDEF_PRICE, Dispatcher, Handler, batch_handler, handler, native
from strand import handlers as handlers_module
from strand.errors import ConfigurationError, HandlerError, MissingExtraError, UnknownSymbolError
from strand.handlers import spin
from strand.ticks import KIND_ORDER, KIND_TRADE


def market(n: int, symbols: int, seed: int = 1) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    ticks = ticks_for(rng.integers(0, symbols, n))
    ticks["kind"] = rng.choice([KIND_ORDER, KIND_TRADE], n)
    ticks["price"] = rng.integers(1, 10**12, n)
    ticks["price"][rng.random(n) < 0.05] = UNDEF_PRICE
    ticks["size"] = rng.integers(0, 1_000, n)
    ticks["action"] = rng.choice([b"A", b"C", b"T"], n)
    return ticks


def run(ticks: Any, symbols: int, like: Any, **options: Any) -> Any:
    with Dispatcher(symbols, like, workers=2, cores=None, feed="plain", **options) as d:
        for part in np.array_split(ticks, 5):
            d.publish(part)
        d.drain()
        balanced(d)
    return d.rows.array


def test_count_equals_a_numpy_computation() -> None:
    ticks = market(20_000, 30)
    rows = run(ticks, 31, "count")
    for key in range(30):
        mine = ticks[ticks["instrument_id"] == key]
        trades = mine[mine["kind"] == KIND_TRADE]
        row = rows[key]
        assert row["ticks"] == len(mine)
        assert row["trades"] == len(trades)
        assert row["volume"] == trades["size"].sum(dtype=np.uint64)
        assert row["last_price"] == trades["price"][-1]
        assert (row["first_ts_recv"], row["last_ts_recv"]) == (mine["ts_recv"][0], mine["ts_recv"][-1])
        assert row["last_sequence"] == mine["sequence"][-1]
    assert rows[30] == np.zeros(1, rows.dtype)[0]


def test_vwap_equals_a_numpy_computation() -> None:
    ticks = market(20_000, 30)
    rows = run(ticks, 31, "vwap")
    for key in range(30):
        mine = ticks[(ticks["instrument_id"] == key) & (ticks["action"] == b"T")]
        unpriced = (mine["price"] == UNDEF_PRICE) & (mine["size"] != 0)
        assert rows[key]["unpriced"] == unpriced.sum()
        mine = mine[(mine["price"] != UNDEF_PRICE) & (mine["size"] != 0)]
        assert rows[key]["trades"] == len(mine)
        assert rows[key]["volume"] == mine["size"].sum(dtype=np.uint64)
        expected = (mine["price"] * 1e-9 * mine["size"]).sum()
        assert rows[key]["notional"] == pytest.approx(expected, rel=1e-12)
        assert rows[key]["vwap"] == pytest.approx(np.average(mine["price"] * 1e-9, weights=mine["size"]), rel=1e-12)
    assert rows[30]["vwap"] == 0


@pytest.mark.parametrize("work", [0, 1, 5])
def test_spin_equals_a_plain_loop(work: int) -> None:
    ticks = ticks_for(np.random.default_rng(2).integers(0, 9, 2_000))
    assert (run(ticks, 9, spin(work)) == spin_rows(ticks, 9, work)).all()


def test_spin_takes_longer_for_dear_symbols_and_notices_gaps() -> None:
    ticks = ticks_for([0, 1, 2, 3] * 10)
    dear, plain = run(ticks, 4, spin(2, dear_every=2, dear_times=3)), spin_rows(ticks, 4, 2)
    assert (dear["value"] != plain["value"]).tolist() == [True, False, True, False]
    assert (dear["value"][[0, 2]] == spin_rows(ticks, 4, 6)["value"][[0, 2]]).all()
    assert run(np.delete(ticks, 4), 4, "spin")["broken"].tolist() == [1, 0, 0, 0]
    for wrong in ({"work": -1}, {"work": 1, "dear_every": -1}, {"work": 1, "dear_times": 0}):
        with pytest.raises(ConfigurationError, match=next(name for name, value in wrong.items() if value < 1)):
            spin(**wrong)


def test_a_handler_from_a_shared_object_finds_its_parameters_and_rows(c_handlers: Path) -> None:
    dtype = np.dtype([("key", "<u4"), ("fails", "<u4"), ("rest", "V12")])
    records = np.zeros(1_000, dtype)
    records["key"] = np.arange(1_000) % 10
    like = native(str(c_handlers), "on_raw", state=[("ticks", "u8")], params=np.array([0, 4], "<u4").tobytes())
    assert like.name == "on_raw"
    assert run(records, 10, like, dtype=dtype, key="key")["ticks"].tolist() == [100] * 10


def test_a_handler_may_be_given_by_address(c_handlers: Path) -> None:
    library = ctypes.CDLL(str(c_handlers))
    address = ctypes.cast(library.on_sum, ctypes.c_void_p).value
    assert address is not None
    ticks = market(1_000, 3)
    rows = run(ticks, 3, native(address, state=PAIR_ROW))
    assert rows["ticks"].sum() == 1_000
    assert native(address, "mine", state=PAIR_ROW).name == "mine"
    assert native(address, state=PAIR_ROW).name == hex(address)


@pytest.mark.parametrize("tool", ["ctypes", "cffi", "numba"])
def test_a_handler_may_be_given_by_a_pointer_to_it_which_is_kept_alive(c_handlers: Path, tool: str) -> None:
    def pointer() -> Any:
        if tool == "ctypes":
            return ctypes.CDLL(str(c_handlers)).on_sum
        if tool == "cffi":
            ffi = cffi.FFI()
            ffi.cdef("int64_t on_sum(void *, const void *, int64_t, void *);")
            return ffi.addressof(ffi.dlopen(str(c_handlers)), "on_sum")
        numba = pytest.importorskip("numba")
        types = numba.types

        @numba.cfunc(types.int64(types.voidptr, types.CPointer(types.uint8), types.int64, types.voidptr))
        def handled(rows: Any, ticks: Any, n: int, context: Any) -> int:
            return n

        return handled

    given = pointer()
    alive = weakref.ref(given) if tool == "numba" else None
    like = native(given, state=PAIR_ROW)
    del given
    gc.collect()
    assert alive is None or alive() is not None
    with Dispatcher(3, like, workers=1, cores=None) as d:
        d.publish(market(1_000, 3))
        d.drain()
        assert d.statistics().handled == 1_000
        assert d.rows.array["ticks"].sum() == (0 if tool == "numba" else 1_000)


@pytest.mark.parametrize("address", [0, -1, None, True, 1.5, b"f", ctypes.CFUNCTYPE(None)()], ids=type)
def test_an_address_that_is_none_is_refused(address: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not the address of a function"):
        native(address, state=COUNT_ROW)


def test_a_shared_object_that_cannot_be_used_is_named(c_handlers: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no shared object .*missing\.so"):
        native(tmp_path / "missing.so", "f", state=COUNT_ROW)
    with pytest.raises(ConfigurationError, match="does not give a function 'absent'"):
        native(c_handlers, "absent", state=COUNT_ROW)
    with pytest.raises(ConfigurationError, match="symbol: name the function"):
        native(c_handlers, state=COUNT_ROW)
    text = tmp_path / "text.so"
    text.write_text("no object")
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        native(text, "f", state=COUNT_ROW)


# ---- Python


def test_a_batch_handler_gets_one_symbol_s_ticks_in_a_row_of_at_most_a_budget() -> None:
    sizes: list[int] = []

    @batch_handler(state=[("volume", "u8"), ("last", "i8")])
    def volume(symbol: str, ticks: Any, row: Any) -> None:
        assert ticks.dtype == TICK
        assert ticks.flags["C_CONTIGUOUS"]
        assert not ticks.flags.writeable
        assert {f"#{key}" for key in ticks["instrument_id"]} == {symbol}
        sizes.append(len(ticks))
        row["volume"] += ticks["size"].sum(dtype=np.uint64)
        row["last"] = ticks["price"][-1]

    ticks = market(5_000, 4)
    rows = run(ticks, 4, volume, budget_ticks=100)
    assert max(sizes) <= 100
    assert sum(sizes) == 5_000
    for key in range(4):
        mine = ticks[ticks["instrument_id"] == key]
        assert (rows[key]["volume"], rows[key]["last"]) == (mine["size"].sum(dtype=np.uint64), mine["price"][-1])


@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_ticks_that_a_handler_keeps_do_not_outlive_their_memory(on_full: str) -> None:
    """They are other ticks by then, but reading them must not end the process."""
    code = f"""
        import gc, numpy as np, strand
        kept = []

        @strand.batch_handler(state=[("n", "u8")])
        def keeps(symbol, ticks, row):
            kept.append(ticks)

        with strand.Dispatcher(3, keeps, workers=2, cores=None, on_full={on_full!r}, budget_ticks=100) as d:
            d.publish(strand.ticks.zeros(1000))
        del d
        gc.collect()
        print(sum(len(ticks) for ticks in kept), sum(int(ticks["price"].sum()) for ticks in kept))
    """
    result = run_python(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "1000 0\n", "")


@pytest.mark.parametrize("returned", [0, 1, np.arange(3), "done"], ids=str)
def test_what_a_batch_handler_without_timers_returns_is_not_asked_for(returned: Any) -> None:
    @batch_handler(state=[("n", "u8")])
    def plain(symbol: str, ticks: Any, row: Any) -> Any:
        row["n"] += len(ticks)
        return returned

    @batch_handler(state=[("n", "u8")])
    def with_context(symbol: str, ticks: Any, row: Any, ctx: Any) -> Any:
        row["n"] += len(ticks)
        return returned

    for like in (plain, with_context):
        assert run(ticks_for([0] * 10), 1, like)["n"].tolist() == [10]


def test_what_is_callable_may_be_a_batch_handler() -> None:
    class Adds:
        def __call__(self, symbol: str, ticks: Any, row: Any) -> None:
            row["n"] += len(ticks)

        def method(self, symbol: str, ticks: Any, row: Any) -> None:
            row["n"] += len(ticks)

    def scaled(by: int, symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += by * len(ticks)

    decorate = batch_handler(state=[("n", "i8")])
    for like, factor, name in (
        (decorate(Adds()), 1, "Adds"),
        (decorate(Adds().method), 1, "method"),
        (decorate(functools.partial(scaled, 3)), 3, "partial"),
        (batch_handler(state=[("n", "i8")], name="mine")(functools.partial(scaled, 2)), 2, "mine"),
    ):
        assert like.name == name
        assert run(ticks_for([0] * 10), 1, like)["n"].tolist() == [10 * factor]


@pytest.mark.parametrize(
    ("function", "others", "text"),
    [
        (lambda row: None, {}, r"its arguments are \(row\); write on_ticks\(symbol, ticks, row\)"),
        (lambda symbol, ticks, row, ctx, more: None, {}, r"write on_ticks\("),
        (lambda symbol, ticks, row, *, least: None, {}, r"write on_ticks\("),
        (lambda symbol, ticks, row: None, {"on_finish": lambda row: None}, r"write on_finish\(symbol, row\)"),
        (lambda s, t, r, ctx: None, {"on_wake": lambda time: None}, r"write on_wake\(symbol, time, row\)"),
        (lambda symbol, ticks, row: None, {"on_finish": 3}, "handler 'mine': 3 is no function"),
        (3, {}, "handler 'mine': 3 is no function"),
    ],
)
def test_a_batch_handler_with_other_arguments_is_refused_where_it_is_made(
    function: Any, others: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        batch_handler(state=[("n", "u8")], name="mine", **others)(function)


def test_a_batch_handler_that_would_not_run_when_called_is_refused() -> None:
    async def waits(symbol: str, ticks: Any, row: Any) -> None: ...

    def lazy(symbol: str, ticks: Any, row: Any) -> Any:
        yield

    class Waits:
        async def __call__(self, symbol: str, ticks: Any, row: Any) -> None: ...

    for function in (waits, lazy, Waits(), functools.partial(lazy), functools.partial(Waits())):
        with pytest.raises(ConfigurationError, match="is async or a generator, and would not run"):
            batch_handler(state=[("n", "u8")])(function)  # type: ignore[arg-type]


def test_a_batch_handler_may_have_arguments_that_need_not_be_given() -> None:
    def optional(symbol: str, ticks: Any, row: Any, least: int = 2) -> None:
        row["n"] += least * len(ticks)

    def starred(*arguments: Any) -> None:
        arguments[2]["n"] += 2 * len(arguments[1])

    for function in (optional, starred):
        assert run(ticks_for([0] * 10), 1, batch_handler(state=[("n", "u8")])(function))["n"].tolist() == [20]


def test_symbols_have_names_where_there_are_some() -> None:
    seen: set[str] = set()
    keeps = batch_handler(state=[("n", "u8")])(lambda symbol, ticks, row: seen.add(symbol))
    with Dispatcher(["A", "", "C"], keeps, workers=1, cores=None) as d:
        d.publish(ticks_for([0, 1, 2]))
    assert seen == {"A", "#1", "C"}


# ---- a table of handlers


def test_each_symbol_runs_its_own_handler_and_the_others_the_default(c_handlers: Path) -> None:
    @batch_handler(state=[("n", "u8"), ("names", "S4")])
    def python(symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += len(ticks)
        row["names"] = symbol.encode()

    summed = native(c_handlers, "on_sum", state=PAIR_ROW)
    table = {"AA": python, "BB": summed, "CC": summed, "#5": "vwap", "*": "count"}
    ticks = market(8_000, 8)
    for strands in ("auto", "per-symbol", 1, 3):
        with Dispatcher(
            ["AA", "BB", "CC", "DD", "EE", "", "", ""],
            handlers=table,
            workers=3,
            cores=None,
            strands=strands,
            feed="plain",
        ) as d:
            for part in np.array_split(ticks, 20):
                d.publish(part)
            d.drain()
            balanced(d)
        counts = np.bincount(ticks["instrument_id"], minlength=8)
        assert (d.rows["AA"]["n"], d.rows["AA"]["names"]) == (counts[0], b"AA")
        for key in (1, 2):
            assert d.rows[key]["ticks"] == counts[key]
            assert d.rows[key]["total"] == ticks["size"][ticks["instrument_id"] == key].sum()
        for key in (3, 4, 6, 7):
            assert d.rows[key]["ticks"] == counts[key]
            assert d.rows[key].dtype.names == handlers_module.COUNT_ROW.names
        assert d.rows[5].dtype == handlers_module.VWAP_ROW
        assert d.rows.of_handler("count")["ticks"][3] == counts[3]
        with pytest.raises(ConfigurationError, match="different handlers \\(python, on_sum, vwap, count\\)"):
            _ = d.rows.array
        with pytest.raises(KeyError, match="no handler is named 'x'"):
            d.rows.of_handler("x")


def test_names_of_built_in_handlers_are_one_handler_however_often_they_are_given() -> None:
    name = "".join(["co", "unt"])
    with Dispatcher(["A", "B"], handlers={"A": "count", "B": name}, workers=1, cores=None, strands=1) as d:
        assert d.n_strands == 1
        assert len(d.rows.array) == 2


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, ConfigurationError, "either one handler"),
        ({"handler": "count", "handlers": {"*": "count"}}, ConfigurationError, "either one handler"),
        ({"handler": "no such"}, ConfigurationError, "'no such' is not one of bars, bbo, book, count"),
        ({"handler": print}, ConfigurationError, "is no handler; decorate a function"),
        ({"handlers": {"A": "count"}}, ConfigurationError, "there is none for 'B'; give one for '\\*'"),
        ({"handlers": {"A": "count", "B": None}}, ConfigurationError, "there is none for 'B'"),
        ({"handlers": ["count"]}, ConfigurationError, "list is not a dict of handlers by symbol"),
        ({"handlers": {}}, ConfigurationError, "there is none for 'A'"),
        ({"handlers": {"A": "count", "X": "count", "*": "vwap"}}, UnknownSymbolError, "there is no symbol 'X'"),
    ],
)
def test_a_table_of_handlers_that_cannot_work_is_refused(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Dispatcher(["A", "B"], **options)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("u8", "structured dtype"),
        ("no such", "is no dtype"),
        ([("o", object)], "cannot hold Python objects"),
        (3, "is no dtype"),
    ],
)
def test_a_state_that_cannot_be_a_row_is_refused(state: Any, text: str) -> None:
    for make in (batch_handler, handler):
        with pytest.raises(ConfigurationError, match=text):
            make(state=state)


@pytest.mark.parametrize("size", [1, 7, 63, 64, 65, 200, 5_000])
def test_rows_may_have_any_size_and_do_not_run_into_each_other(size: int) -> None:
    @batch_handler(state=np.dtype([("bytes", "u1", (size,))]))
    def fills(symbol: str, ticks: Any, row: Any) -> None:
        assert (row["bytes"] == 0).all()
        row["bytes"] = int(symbol[1:]) + 1

    rows = run(ticks_for(range(50)), 51, fills)
    assert (rows["bytes"][:50] == np.arange(1, 51)[:, None]).all()
    assert (rows["bytes"][50] == 0).all()


# ---- compiled by numba

numba = pytest.importorskip("numba")


@handler(state=[("buys", "u8"), ("notional", "f8"), ("last", "S1"), ("hist", "u4", (4,))])
def flow(row, tick):  # type: ignore[no-untyped-def]
    if tick.action == b"T":
        row.buys += tick.size
        row.notional += tick.price * 1e-9 * tick.size
    row.last = tick.action
    row.hist[tick.size % 4] += 1


def test_a_compiled_handler_reads_ticks_and_writes_rows() -> None:
    ticks = market(10_000, 6)
    rows = run(ticks, 6, flow)
    for key in range(6):
        mine = ticks[ticks["instrument_id"] == key]
        trades = mine[mine["action"] == b"T"]
        assert rows[key]["buys"] == trades["size"].sum(dtype=np.uint64)
        assert rows[key]["notional"] == pytest.approx((trades["price"] * 1e-9 * trades["size"]).sum(), rel=1e-9)
        assert rows[key]["last"] == mine["action"][-1]
        assert rows[key]["hist"].tolist() == np.bincount(mine["size"] % 4, minlength=4).tolist()


def test_a_compiled_handler_reads_records_of_one_s_own_and_rows_of_another_size() -> None:
    dtype = np.dtype({"names": ["x", "key"], "formats": ["<f4", "<u4"], "offsets": [3, 9], "itemsize": 21})

    @handler(state=[("total", "f8"), ("wide", "u1", (100,))])
    def adds(row, record):  # type: ignore[no-untyped-def]
        row["total"] += record["x"]

    @handler(state=[("total", "f8")])
    def subtracts(row, record):  # type: ignore[no-untyped-def]
        row["total"] -= record["x"]

    records = np.zeros(1_000, dtype)
    records["x"], records["key"] = np.arange(1_000) % 7, np.arange(1_000) % 5
    with Dispatcher(5, handlers={"#1": adds, "*": subtracts}, workers=2, cores=None, dtype=dtype, key="key") as d:
        d.publish(records)
    for key in range(5):
        assert abs(d.rows[key]["total"]) == records["x"][records["key"] == key].sum()
        assert (d.rows[key]["total"] > 0) == (key == 1)


@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_a_compiled_handler_that_raises_names_the_very_tick(on_full: str) -> None:
    @handler(state=[("ticks", "u8")])
    def refuses(row, tick):  # type: ignore[no-untyped-def]
        if tick.action == b"X":
            raise ValueError("no X")
        row.ticks += 1

    ticks = ticks_for([0, 1] * 500)
    ticks["action"][601] = b"X"
    with Dispatcher(2, refuses, workers=1, cores=None, on_error="quarantine", on_full=on_full) as d:
        d.pause(1)
        d.publish(ticks)
        d.resume(1)
        d.drain()
        (error,) = d.failures
        assert (error.symbol, error.sequence, error.handler) == ("#1", 301, "refuses")
        assert "raised an exception" in str(error)
        assert d.rows.array["ticks"].tolist() == [500, 300]
        d.release(1)
        d.drain()
        balanced(d)
        assert d.rows[1]["ticks"] == (499 if on_full == "block" else 300)


def test_a_compiled_handler_that_divides_by_nought_fails_instead_of_going_on() -> None:
    @handler(state=[("x", "i8")])
    def divides(row, tick):  # type: ignore[no-untyped-def]
        row.x = 100 // tick.size

    ticks = ticks_for([0] * 3)
    ticks["size"] = [1, 0, 2]
    with pytest.raises(HandlerError, match="sequence 2"), Dispatcher(1, divides, workers=1, cores=None) as d:
        d.publish(ticks)
    assert d.rows[0]["x"] == 100


def test_a_handler_that_does_not_compile_is_refused_when_the_dispatcher_is_made() -> None:
    @handler(state=[("ticks", "u8")], name="wrong")
    def wrong(row, tick):  # type: ignore[no-untyped-def]
        row.no_such_field += 1

    with pytest.raises(ConfigurationError, match="handler 'wrong' does not compile") as caught:
        Dispatcher(1, wrong)
    assert "no_such_field" in str(caught.value)


def test_a_handler_that_is_compiled_already_and_helpers_of_one_s_own_are_taken() -> None:
    @numba.njit
    def twice(x):  # type: ignore[no-untyped-def]
        return 2 * x

    @handler(state=[("total", "u8")])
    @numba.njit
    def doubles(row, tick):  # type: ignore[no-untyped-def]
        row.total += twice(tick.size)

    ticks = ticks_for([0] * 100)
    assert run(ticks, 1, doubles)["total"].tolist() == [2 * int(ticks["size"].sum())]


def test_without_numba_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    # As in an environment that has none: what imports it has not been imported, whatever other tests have done.
    for name in [name for name in sys.modules if name.startswith("strand.handlers.compiled_")]:
        monkeypatch.delitem(sys.modules, name)

    @handler(state=[("n", "u8")])
    def plain(row, tick):  # type: ignore[no-untyped-def]
        row.n += 1

    with pytest.raises(MissingExtraError, match=r"pip install 'strand\[numba\]'") as caught:
        Dispatcher(1, plain)
    assert (caught.value.package, caught.value.extra) == ("numba", "numba")
    assert isinstance(plain, Handler)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("long on_ticks(void *rows, const void *ticks, long n, void *ctx) { return n; }\n", "earlier layout"),
        ("const unsigned sd_handler_layout = 1;\n", "for layout 1"),
    ],
)
def test_a_shared_object_built_for_another_layout_is_refused(tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "old.c").write_text(source)
    library = tmp_path / "old.so"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "old.c"], check=True)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
    with pytest.raises(ConfigurationError, match=f"{words}.*strand include"):
        native(library, "on_ticks", state=COUNT_ROW)
