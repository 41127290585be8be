"""Parameters a symbol: from dicts and frames to compiled, native and Python handlers."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import PAIR_ROW, ticks_for

from strand import Dispatcher, Handler, batch_handler, handler, native
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python

TABLE = {"AA": {"least": 3, "factor": 2.0}, "BB": {"least": 0, "factor": 0.5}, "*": {"least": 5, "factor": 1.0}}
SYMBOLS = ["AA", "BB", "CC", ""]


class Params:
    least: np.uint32
    factor: np.float64 = 1.0  # type: ignore[assignment]


@batch_handler(state=[("n", "u8"), ("sum", "f8")], params=Params)
def sums(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    chosen = ticks["size"][ticks["size"] >= ctx.params["least"]]
    row["n"] += len(chosen)
    row["sum"] += ctx.params["factor"] * chosen.sum()


def run(like: Handler) -> Any:
    ticks = ticks_for(np.repeat(np.arange(4), 10))
    ticks["size"] = np.tile(np.arange(10), 4)
    with Dispatcher(SYMBOLS, like, workers=1, cores=None) as d:
        d.publish(ticks)
    return d.rows.array


EXPECTED = [(7, 2.0 * 42), (10, 0.5 * 45), (5, 35.0), (5, 35.0)]


def test_parameters_reach_a_python_handler() -> None:
    assert run(sums.with_params(TABLE)).tolist() == EXPECTED


def test_parameters_reach_a_compiled_handler() -> None:
    pytest.importorskip("numba")

    @handler(state=[("n", "u8"), ("sum", "f8")], params=Params)
    def compiled(row, tick, params):  # type: ignore[no-untyped-def]
        if tick.size >= params.least:
            row.n += 1
            row.sum += params.factor * tick.size

    assert run(compiled.with_params(TABLE)).tolist() == EXPECTED
    other = {"*": {"least": 9, "factor": 3}}
    assert run(compiled.with_params(other)).tolist() == [(1, 27.0)] * 4
    assert run(compiled.with_params(TABLE)).tolist() == EXPECTED


def test_parameters_reach_a_handler_in_c_as_an_array_by_key(c_handlers: Path) -> None:
    """on_raw reads two offsets from the first record; with all the same it does not matter which."""
    library = ctypes.CDLL(str(c_handlers))
    address = ctypes.cast(library.on_raw, ctypes.c_void_p).value
    assert address is not None
    like = native(address, state=PAIR_ROW, params=[("key", "<u4"), ("fails", "<u4")])
    offsets = {"*": {"key": 40, "fails": 60}}  # instrument_id, and flags to sequence_high, all 0 here
    assert run(like.with_params(offsets))["ticks"].tolist() == [10] * 4


def test_frames_of_pandas_and_polars_are_taken() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    symbols = list(TABLE)
    columns = {"least": [TABLE[s]["least"] for s in symbols], "factor": [TABLE[s]["factor"] for s in symbols]}
    for frame in (
        pandas.DataFrame(columns, index=symbols),
        pandas.DataFrame({"symbol": symbols, **columns}),
        polars.DataFrame({"symbol": symbols, **columns}),
    ):
        assert run(sums.with_params(frame)).tolist() == EXPECTED
    with pytest.raises(ConfigurationError, match="no column 'symbol'"):
        sums.with_params(polars.DataFrame(columns))
    with pytest.raises(ConfigurationError, match="'AA' is in the frame twice"):
        sums.with_params(pandas.DataFrame({"symbol": ["AA", "AA"], "least": [1, 2]}))


def test_what_a_symbol_is_not_given_it_has_from_the_others_and_then_from_the_class() -> None:
    rows = run(sums.with_params({"AA": {"factor": 4.0}, "*": {"least": 8}}))
    assert rows.tolist() == [(2, 68.0), (2, 17.0), (2, 17.0), (2, 17.0)]


def test_parameters_that_are_declared_have_to_be_given() -> None:
    with pytest.raises(ConfigurationError, match="handler 'sums': params: 'AA' has none; give some for it"):
        run(sums)


def test_a_handler_without_parameters_takes_none() -> None:
    with pytest.raises(ConfigurationError, match="params: handler 'mine' has none: declare them"):
        batch_handler(state=[("n", "u8")], name="mine")(lambda symbol, ticks, row: None).with_params({})


def test_parameters_are_read_only() -> None:
    @batch_handler(state=[("n", "u8")], params=Params)
    def writes(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        with pytest.raises(ValueError, match="read-only"):
            ctx.params["least"] = 1
        row["n"] += 1

    assert run(writes.with_params(TABLE))["n"].all()
