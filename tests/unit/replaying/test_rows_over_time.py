"""Rows of watched symbols over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import strand
from strand import feeds, replay
from strand.errors import UnknownSymbolError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.replaying.timeline import Timeline

pytestmark = pytest.mark.python
OPTIONS: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}}


@strand.batch_handler(state=[("trades", "u8"), ("filler", "u8", (64,)), ("volume", "u8")])
def sums(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
    """Two fields that go together, with time between their writes for a reader to see them apart."""
    row["trades"] += len(ticks)
    row["filler"][:] = row["trades"]
    row["volume"] += ticks["size"].sum(dtype=np.uint64)


def timeline_of(result: strand.ReplayResult) -> Timeline:
    assert result.timeline is not None
    return result.timeline


def test_the_time_of_a_handler_is_not_known_of_symbols_that_share_a_strand_or_are_not_watched() -> None:
    for options in ({"strands": 1, "watch": 1}, {"strands": "per-symbol"}):
        t = timeline_of(replay(sample_path(), "count", workers=1, publisher_drains=False, **options, **OPTIONS))
        assert not t.handler_ticks.any()
        assert not t.handler_ns.any()


def all_ticks() -> npt.NDArray[Any]:
    return np.concatenate([batch.copy() for batch in feeds.open(sample_path(), date=SAMPLE_DATE).batches()])


@pytest.mark.parametrize("workers", [1, 3])
def test_a_watched_row_is_the_one_after_exactly_the_ticks_before_it(workers: int) -> None:
    result = replay(sample_path(), sums, workers=workers, watch=4, **OPTIONS)
    ticks = all_ticks()
    symbols = timeline_of(result).symbols
    assert len(symbols) == 4
    for series in symbols.values():
        mine = ticks["instrument_id"] == series.index
        at = series.rows["position"].astype(np.int64) - 1
        assert (np.diff(at) > 0).all()
        assert at[-1] == len(ticks) - 1
        assert series.rows["trades"].tolist() == np.cumsum(mine)[at].tolist()
        assert series.rows["volume"].tolist() == np.cumsum(np.where(mine, ticks["size"], 0))[at].tolist()
        assert series.rows["feed_ns"].tolist() == ticks["ts_recv"][at].tolist()


def test_what_is_watched_is_the_same_on_any_number_of_workers() -> None:
    runs = [timeline_of(replay(sample_path(), "book", workers=n, watch=3, **OPTIONS)).symbols for n in (1, 2, 3)]
    assert list(runs[0]) == list(runs[1]) == list(runs[2])
    for name, series in runs[0].items():
        assert len(series.rows) > 150
        assert all(np.array_equal(series.rows, run[name].rows) for run in runs[1:])


def test_watched_books_are_those_of_one_worker_in_one_go() -> None:
    series = timeline_of(replay(sample_path(), "book", workers=3, watch=["AAAHD"], **OPTIONS)).symbols["AAAHD"].rows
    for moment in series[:: max(1, len(series) // 5)]:
        row = replay(sample_path(), "book", workers=1, limit=int(moment["position"]), timeline=False, **OPTIONS).rows[
            "AAAHD"
        ]
        for name in ("bid_price", "ask_price", "bid_size", "ask_size", "volume", "last_price"):
            assert moment[name] == row[name]


def test_the_busiest_are_watched_in_the_order_of_their_ticks() -> None:
    result = replay(sample_path(), "count", watch=3, **OPTIONS)
    ranked = np.argsort(-result.ticks_by_symbol, kind="stable")[:3]
    assert list(timeline_of(result).symbols) == [result.symbols[i] for i in ranked.tolist()]


def test_named_symbols_are_watched_in_the_order_given_and_unknown_ones_are_an_error_behind_the_run() -> None:
    result = replay(sample_path(), "count", watch=["AAAOA", "AAAHD", "AAAOA"], **OPTIONS)
    assert list(timeline_of(result).symbols) == ["AAAOA", "AAAHD"]
    with pytest.raises(UnknownSymbolError, match=r"watch .* is named 'NOSUCH', 'NONE'") as raised:
        replay(sample_path(), "count", watch=["NOSUCH", "AAAHD", "NONE"], **OPTIONS)
    assert raised.value.partial is not None
    assert list(timeline_of(raised.value.partial).symbols) == ["AAAHD"]
    # Of a part of the feed nobody knows whom it would have told of.
    assert replay(sample_path(), "count", watch=["NOSUCH"], limit=1000, **OPTIONS).ticks == 1000


def test_without_watch_no_rows_are_looked_at() -> None:
    assert timeline_of(replay(sample_path(), "count", **OPTIONS)).symbols == {}
