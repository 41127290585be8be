"""Feeds made of a list."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from seeded_cases import trades

import strand
from strand import testing
from strand.errors import (
    ConfigurationError,
    TruncatedFeedError,
)
from strand.feeds import FeedInfo
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE, UNDEF_PRICE


def test_dicts_become_ticks_in_natural_units_and_symbols_in_their_order() -> None:
    feed = testing.feed(
        [
            {"symbol": "B", "time": 5, "price": 10.25, "size": 3},
            {"symbol": "A", "price": Decimal("0.1"), "size": 1, "action": "A", "side": "B", "order_id": 2**63},
            {"symbol": "B", "time": 9, "bid": 10, "bid_size": 7, "ask": 10.5, "ask_size": 8},
            {"symbol": "A", "bid": 1},
        ]
    )
    assert list(feed.symbols) == ["B", "A"]
    (ticks,) = feed.batches()
    assert ticks["instrument_id"].tolist() == [0, 1, 0, 1]
    assert ticks["ts_recv"].tolist() == ticks["ts_event"].tolist() == [5, 6, 9, 10]
    assert ticks["price"].tolist() == [10_250_000_000, 100_000_000, 10_000_000_000, 1_000_000_000]
    assert ticks["sequence"].tolist() == [1, 2, 3, 4]
    assert ticks["kind"].tolist() == [KIND_TRADE, KIND_ORDER, KIND_QUOTE, KIND_QUOTE]
    assert ticks["order_id"][1] == 2**63
    assert ticks["ask_price"].tolist()[2:] == [10_500_000_000, UNDEF_PRICE]
    assert (ticks["bid_size"][2], ticks["ask_size"][2]) == (7, 8)
    assert feed.info.span == (5, 10)


def test_tuples_are_trades_and_arrays_are_taken_as_they_are() -> None:
    written = testing.feed([("A", 5, 1.5, 2), ("B", 6, 2, 3)])
    taken = testing.feed(written.ticks, ["A", "B"])
    assert testing.reference(taken, "vwap").rows["B"]["volume"] == 3
    testing.assert_same(testing.reference(taken, "vwap"), testing.reference(written, "vwap"))


@pytest.mark.parametrize(
    ("batches", "sizes"),
    [(None, [5]), (2, [2, 2, 1]), ([1, 1, 4], [1, 0, 3, 1]), ([0, 5], [5, 0]), ([], [5])],
)
def test_batches_begin_where_they_are_told_to(batches: Any, sizes: list[int]) -> None:
    feed = testing.feed(trades(5), batches=batches)
    assert [len(batch) for batch in feed.batches()] == sizes
    assert (
        testing.reference(feed, "count").fingerprint == testing.reference(testing.feed(trades(5)), "count").fingerprint
    )


def test_a_batch_that_is_kept_does_not_keep_its_ticks() -> None:
    kept = list(testing.feed(trades(4), batches=2).batches())
    assert kept[0]["ts_recv"].tolist() == kept[1]["ts_recv"].tolist()


@pytest.mark.parametrize(("error_at", "handled"), [(None, 5), (1, 1), (3, 3)])
def test_an_error_is_raised_in_the_place_of_a_tick(error_at: int | None, handled: int) -> None:
    fault = TruncatedFeedError("cut", offset=7)
    feed = testing.feed(trades(5), batches=2, error=fault, error_at=error_at)
    with pytest.raises(TruncatedFeedError) as caught:
        testing.reference(feed, "count")
    assert caught.value is fault
    assert fault.partial.ticks == handled
    assert feed.closed == 1


def test_what_the_ticks_mean_may_be_told() -> None:
    feed = testing.feed([{"symbol": "A", "action": "F", "price": 1, "size": 2}], ticks="orders", venue="XNAS")
    assert (feed.info.ticks, feed.info.venue) == ("orders", "XNAS")
    assert testing.reference(feed, "vwap").rows["A"]["volume"] == 2


def test_names_may_come_to_be_known_in_mid_stream() -> None:
    feed = testing.feed(trades(6), batches=2, known_from=4)
    known = [list(feed.symbols) for _ in feed.batches()]
    assert known == [[], ["A", "C", "E", "B", "D"], ["A", "C", "E", "B", "D"]]


@pytest.mark.parametrize("unit", ["0.001", 0.001, Decimal("0.001")])
def test_a_size_unit_is_a_power_of_ten_as_a_number_or_text(unit: Any) -> None:
    feed = testing.feed([("A", 1, 2.0, 500)], size_unit=unit)
    assert feed.info.size_unit == 0.001
    bars = strand.replay(feed, strand.bars(volume="0.5")).outputs["bars"].to_arrow(prices="float")
    assert (bars["volume"].to_pylist(), bars["notional"].to_pylist()) == ([0.5], [1.0])


@pytest.mark.parametrize("unit", ["x", 0, -1, True, 0.003, float("nan"), [1]])
def test_another_size_unit_is_refused(unit: Any) -> None:
    with pytest.raises(ConfigurationError, match="size_unit: give a power of ten"):
        testing.feed([("A", 1, 2.0, 500)], size_unit=unit)
    with pytest.raises(ConfigurationError, match="size_unit: give a power of ten"):
        FeedInfo("list", "memory", size_unit=unit)


def test_a_size_that_is_no_whole_number_of_units_is_refused_with_the_unit() -> None:
    with pytest.raises(ConfigurationError, match=r"0: size: 0\.5 is not .*: it counts units of size_unit"):
        testing.feed([("A", 1, 2.0, 0.5)], size_unit="0.001")  # type: ignore[list-item]
