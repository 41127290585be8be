"""The kinds of handlers, and what is said of those that cannot work."""

from __future__ import annotations

import ctypes
import gc
import pickle
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import pytest
from engine_support import COUNT_ROW, PAIR_ROW, ticks_for
from market_ticks import market, run

import strand
from strand import Dispatcher, Handler, batch_handler, handler, native
from strand.errors import ConfigurationError, MissingExtraError

numba = pytest.importorskip("numba")


@pytest.mark.parametrize("size", [1, 7, 63, 64, 65, 200, 5_000])
def test_rows_may_have_any_size_and_do_not_run_into_each_other(size: int) -> None:
    @batch_handler(state=np.dtype([("bytes", "u1", (size,))]))
    def fills(symbol: str, ticks: Any, row: Any) -> None:
        assert (row["bytes"] == 0).all()
        row["bytes"] = int(symbol[1:]) + 1

    rows = run(ticks_for(range(50)), 51, fills)
    assert (rows["bytes"][:50] == np.arange(1, 51)[:, None]).all()
    assert (rows["bytes"][50] == 0).all()


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

    with pytest.raises(MissingExtraError, match=r"pip install 'tickstrand\[numba\]'") as caught:
        Dispatcher(1, plain)
    assert (caught.value.package, caught.value.extra) == ("numba", "numba")
    assert isinstance(plain, Handler)


# ---- Handlers in C: from a shared object, by address, by a pointer


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


BUILT_IN = [
    strand.bars("1m"), strand.bars(volume=2, partial=False), strand.book(crosses=False), strand.depth(top=3),
    strand.vwap(30.0, sessions=strand.Sessions.parse("09:30-16:00 America/New_York")), strand.trades(), strand.bbo(),
    strand.handlers.BUILTIN["count"](), strand.handlers.spin(3), strand.spread(), strand.imbalance("1m"),
    strand.volatility("1m"), strand.trade_stats(), strand.chain(strand.book(), strand.bars("1m")),
    strand.handlers.resolve("bars"),
]  # fmt: skip


@pytest.mark.parametrize("handler", BUILT_IN, ids=lambda handler: handler.described)
def test_a_built_in_handler_is_pickled_and_gives_the_same_rows(handler: Any) -> None:
    loaded = pickle.loads(pickle.dumps(handler))
    assert repr(loaded) == repr(handler)
    ticks = market(2_000, 3)
    assert repr(run(ticks, 3, loaded).tolist()) == repr(run(ticks, 3, handler).tolist())


def test_a_c_handler_of_ones_own_says_that_it_cannot_be_pickled(c_handlers: Path) -> None:
    own = native(c_handlers, "on_sum", state=PAIR_ROW)
    with pytest.raises(ConfigurationError, match=r"handler 'on_sum' has functions in C, .* call of strand\.native"):
        pickle.dumps(own)
