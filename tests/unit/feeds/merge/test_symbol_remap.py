"""A name is one symbol in a merge, whatever number each feed has for it."""

from __future__ import annotations

import pytest
from merge_support import ArrayFeed, merged, read, read_until_fault, stamped

from strand.errors import ConfigurationError, FeedError


def test_a_name_is_one_symbol_whatever_its_number_in_a_feed() -> None:
    one = ArrayFeed(stamped([1, 3], 0, [0, 1]), ["AAPL", "MSFT"])
    other = ArrayFeed(stamped([2, 4], 1, [1, 0]), ["MSFT", "AAPL"])
    feed = merged(one, other)
    assert list(feed.symbols) == ["AAPL", "MSFT"]
    assert feed.max_symbols == 2
    assert read(feed)["instrument_id"].tolist() == [0, 0, 1, 1]


def test_with_venues_in_the_names_the_same_name_at_two_venues_is_two_symbols() -> None:
    feeds = [ArrayFeed(stamped([i], i), ["AAPL"], venue=venue) for i, venue in enumerate(["XNAS", "XNYS", "XNAS"])]
    feed = merged(*feeds, venue_in_name=True)
    assert list(feed.symbols) == ["AAPL.XNAS", "AAPL.XNYS"]
    assert read(feed)["instrument_id"].tolist() == [0, 1, 0]


def test_venues_are_asked_of_feeds_that_say_them() -> None:
    with pytest.raises(ConfigurationError, match=r"venue_in_name: day\.npy"):
        merged(ArrayFeed(stamped([1]), ["A"], path="day.npy"), venue_in_name=True)


def test_the_table_grows_with_those_of_the_feeds() -> None:
    learns = [["A"], ["A", "B"], ["A", "B", "", "C"]]
    ticks = stamped([0, 1, 2, 3, 4, 5, 6, 7, 8], 0, [0, 0, 0, 1, 1, 1, 3, 3, 3])
    growing = ArrayFeed(ticks, [], max_symbols=10, learns=learns)
    fixed = ArrayFeed(stamped([0, 9], 1, [0, 1]), ["C", "B"])
    feed = merged(growing, fixed)
    assert list(feed.symbols) == ["C", "B"]
    assert feed.max_symbols == 12
    found = read(feed)
    assert list(feed.symbols) == ["C", "B", "A"]
    names = [feed.symbols[number] for number in found["instrument_id"]]
    assert names == ["A", "C", "A", "A", "B", "B", "B", "C", "C", "C", "B"]
    assert read(feed)["instrument_id"].tolist() == found["instrument_id"].tolist()


def test_an_index_that_is_named_late_keeps_its_number() -> None:
    late = ArrayFeed(stamped([1, 2, 3, 4], 0, 1), ["A"], max_symbols=5, learns=[["A"], ["A", "LATE"]])
    feed = merged(ArrayFeed(stamped([0], 1), ["B"]), late)
    numbers = read(feed)["instrument_id"].tolist()
    assert len(set(numbers[1:])) == 1
    assert feed.symbols[numbers[1]] == "LATE"


def test_an_index_that_is_named_late_with_a_name_another_feed_has_goes_over_to_it() -> None:
    late = ArrayFeed(stamped([1, 2, 3, 4], 0, 0), [], max_symbols=5, learns=[[], ["B"]])
    feed = merged(ArrayFeed(stamped([0], 1), ["B"]), late)
    numbers = read(feed)["instrument_id"].tolist()
    assert [feed.symbols[number] for number in numbers] == ["B", "", "", "", "B"]


def test_indices_without_names_are_one_symbol_where_they_are_equal() -> None:
    one = ArrayFeed(stamped([1, 2], 0, [0, 1]), ["", ""])
    other = ArrayFeed(stamped([3, 4], 1, [1, 2]), ["", "", ""])
    assert read(merged(one, other))["instrument_id"].tolist() == [0, 1, 1, 2]


def test_an_index_beyond_a_feeds_max_symbols_is_its_fault() -> None:
    ticks, error = read_until_fault(merged(ArrayFeed(stamped([1, 2], 0, [0, 9]), ["A", "B"], path="day.npy")))
    assert len(ticks) == 1
    assert isinstance(error, FeedError)
    assert str(error) == "day.npy: a tick's instrument_id is 9, but the feed's max_symbols is 2"


def test_more_symbols_than_max_symbols_are_an_error_that_says_so() -> None:
    growing = ArrayFeed(stamped([1, 2, 3], 0, [0, 1, 2]), [], max_symbols=100)
    feed = merged(growing, max_symbols=2)
    ticks, error = read_until_fault(feed)
    assert len(ticks) == 2
    assert isinstance(error, FeedError)
    assert "max_symbols=" in str(error)
