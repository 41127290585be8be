"""Which handler each symbol has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import PAIR_ROW, balanced
from market_ticks import market

from strand import Dispatcher, batch_handler, native
from strand import handlers as handlers_module
from strand.errors import ConfigurationError, UnknownSymbolError


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
        ({"handler": print}, ConfigurationError, "is not a handler; decorate a function"),
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
