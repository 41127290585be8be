"""Symbols and a span of time are chosen of a feed as a mask over all its ticks would choose them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feed_samples import itch_seconds
from hypothesis import given
from hypothesis import strategies as st
from reading import ticks_of

from strand import feeds
from strand.feeds.selection import Selection
from strand.feeds.trading_day import midnight_ns
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python


def midnight() -> int:
    return midnight_ns(dt.date(2020, 1, 30))


@pytest.mark.parametrize(
    ("options", "seconds", "names"),
    [
        ({"symbols": ["S1"]}, range(10), ["S1"]),
        ({"symbols": ["S[23]"]}, range(10), ["S2"]),
        ({"start": "09:30:03"}, range(3, 10), ["S1", "S2"]),
        ({"start": "09:30:02.000000001", "end": "09:30:04"}, range(3, 4), ["S1", "S2"]),
        ({"end": "2020-01-30T14:30:02Z"}, range(2), ["S1", "S2"]),
        ({"end": "2020-01-30 09:30:02.5-05:00", "symbols": ["S2"]}, range(3), ["S2"]),
        ({"start": 1580394600 * 10**9 + 8 * 10**9}, range(8, 10), ["S1", "S2"]),
        ({"start": str(1580394609 * 10**9)}, range(9, 10), ["S1", "S2"]),
        ({"start": "10:00"}, range(0), ["S1", "S2"]),
    ],
)
@pytest.mark.parametrize("kind", ["itch", "npy"])
def test_a_selection_keeps_symbols_and_a_half_open_span(
    tmp_path: Path, kind: str, options: dict[str, Any], seconds: range, names: list[str]
) -> None:
    path = itch_seconds(tmp_path / "20200130.itch")
    whole = feeds.open(path)
    everything = ticks_of(whole)
    if kind == "npy":
        path = tmp_path / "20200130.npz"
        write_npy(path, everything, list(whole.symbols))
    feed = feeds.open(path, **options)
    kept = np.isin((everything["ts_recv"] - np.uint64(midnight())) // 10**9 - 34_200, list(seconds))
    kept &= np.isin(np.array(whole.symbols)[everything["instrument_id"]], names)
    np.testing.assert_array_equal(ticks_of(feed), everything[kept])


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=30),
    st.lists(st.sampled_from(["A", "AB", "A*", "?", "[!A]", "b"]), max_size=2).map(tuple),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(10, 20),
)
def test_a_mask_keeps_what_is_named_and_in_the_span(
    rows: list[tuple[int, int]], symbols: tuple[str, ...], start: int | None, end: int | None
) -> None:
    names, matching = ["A", "AB", "B", ""], {
        "A": {0}, "AB": {1}, "A*": {0, 1}, "?": {0, 2}, "[!A]": {2}, "b": set(),
    }  # fmt: skip
    select = Selection(symbols, start, end)
    assert bool(select) == (bool(symbols) or start is not None or end is not None)
    ticks = zeros(len(rows))
    ticks["instrument_id"], ticks["ts_recv"] = [key for key, _ in rows], [at for _, at in rows]
    wanted = set(range(4)) if not symbols else set().union(*(matching[pattern] for pattern in symbols))
    expected = [key in wanted and (start is None or at >= start) and (end is None or at < end) for key, at in rows]
    assert select.mask(ticks, select.keys(names)).tolist() == expected
