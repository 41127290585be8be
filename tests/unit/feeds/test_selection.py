"""Symbols and a span of time are chosen of a feed as a mask over all its ticks would choose them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feed_samples import itch_seconds
from reading import ticks_of

from strand import feeds
from strand.errors import ConfigurationError
from strand.feeds.trading_day import midnight_ns
from strand.feeds.write.npy import write_npy

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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": "half past nine"}, "start: 'half past nine' is no time"),
        ({"end": "25:00"}, "end: '25:00' is no time"),
        ({"start": "2020-01-30T09:30:00"}, "has no time zone"),
        ({"start": "2020-02-30T09:30:00Z"}, "is no time"),
        ({"start": -1}, "give ns since the epoch"),
        ({"start": 1 << 63}, "the year 2262"),
        ({"start": 5, "end": 5}, "not before end"),
        ({"symbols": "AAPL"}, "sequence of names"),
    ],
)
def test_a_selection_that_cannot_be_is_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        feeds.open(itch_seconds(tmp_path / "20200130.itch"), **options)
