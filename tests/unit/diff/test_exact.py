"""The first tick at which two runs part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_runs import record

from strand.diff import diff_runs, narrow

pytestmark = pytest.mark.python


@pytest.mark.parametrize("field", ["size", "price", "ts_recv", "flags", "publisher_id"])
@pytest.mark.parametrize("at", [0, 499, 500, 1234, -1])
def test_one_other_tick_of_the_input_is_found(tmp_path: Path, order_day: Any, field: str, at: int) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names)
    at %= len(ticks)
    before = ticks[at].copy()
    ticks[field][at] ^= 1
    b = record(tmp_path, "b", ticks, names)
    found = diff_runs(a, b)
    symbol = names[int(ticks["instrument_id"][at])]
    assert not found.same
    assert found.after <= at < (found.by or 0) <= found.after + 500
    assert [s.symbol for s in found.symbols] == [symbol]
    assert found.symbols[0].input_differs
    exact = narrow(found).exact
    assert exact is not None
    assert (exact.what, exact.symbol, exact.position) == ("input", symbol, at)
    assert (exact.sequence, exact.ts_recv) == (before["sequence"], before["ts_recv"])
    assert exact.fields == {field: (int(before[field]), int(ticks[field][at]))}


def test_of_many_other_ticks_the_first_is_found(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names)
    ticks["size"][1100:1400] += 1
    b = record(tmp_path, "b", ticks, names)
    found = diff_runs(a, b)
    assert (found.after, found.by) == (1000, 1500)
    assert len(found.symbols) > 3
    exact = narrow(found).exact
    assert exact is not None
    assert exact.position == 1100


def test_a_tick_that_only_one_run_has_is_found(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names)
    # A symbol's last tick of the interval: without it the symbol goes on with what comes later in B.
    b = record(tmp_path, "b", np.delete(ticks, 700), names)
    exact = narrow(diff_runs(a, b)).exact
    assert exact is not None
    assert exact.symbol == names[int(ticks["instrument_id"][700])]
    assert exact.position == 700
    assert exact.sequence == ticks["sequence"][700]


def test_two_ticks_that_changed_places_are_found(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names)
    mine = np.flatnonzero(ticks["instrument_id"] == ticks["instrument_id"][900])
    pair = mine[np.searchsorted(mine, 900)] + 0, mine[np.searchsorted(mine, 900) + 1]
    ticks[list(pair)] = ticks[list(pair)[::-1]]
    b = record(tmp_path, "b", ticks, names)
    exact = narrow(diff_runs(a, b)).exact
    assert exact is not None
    assert (exact.what, exact.position) == ("input", 900)
