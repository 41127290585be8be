"""The kinds of handlers, and what is said of those that cannot work."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for
from market_ticks import run

from strand import Dispatcher, Handler, batch_handler, handler
from strand.errors import ConfigurationError, MissingExtraError


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("u8", "structured dtype"),
        ("no such", "is not a dtype"),
        ([("o", object)], "cannot hold Python objects"),
        (3, "is not a dtype"),
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


numba = pytest.importorskip("numba")


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
