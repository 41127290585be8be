"""Handlers in C: from a shared object, by address, by a pointer."""

from __future__ import annotations

import ctypes
import gc
import pickle
import subprocess
import weakref
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import pytest
from engine_support import COUNT_ROW, PAIR_ROW
from market_ticks import market, run

import strand
from strand import Dispatcher, native
from strand.errors import ConfigurationError


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


numba = pytest.importorskip("numba")


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
