"""A chain tells a later object which changes of a row there were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strand.errors import ConfigurationError
from strand.handlers.host import Events, check_states, watches_of

pytestmark = pytest.mark.python


BOOK = np.dtype([("bid_price", "i8"), ("bid_size", "i8"), ("ask_price", "i8"), ("ask_size", "i8"), ("orders", "i8")])
BARS = np.dtype([("bars", "i8"), ("last_open", "i8"), ("last_close", "i8")])


class Both:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_book(self, top: Any) -> None:
        self.seen.append(("book", top.bid_price, top.orders))

    def on_bar(self, bar: Any) -> None:
        self.seen.append(("bar", bar.open, bar.close))


def rows(dtype: np.dtype[Any], **columns: list[int]) -> Any:
    found = np.zeros(len(next(iter(columns.values()))), dtype)
    for name, values in columns.items():
        found[name] = values
    return found


def test_each_change_is_a_call_and_what_stood_before_is_none() -> None:
    thing = Both()
    book, bar = watches_of(thing, "mine", {"book": BOOK, "bars": BARS})
    events: Events = {}
    # The number of orders alone is no change of the top.
    after = {
        "book": rows(BOOK, bid_price=[0, 5, 5, 6], orders=[0, 1, 2, 3]),
        "bars": rows(BARS, bars=[0, 0, 1, 1], last_open=[0, 0, 7, 7], last_close=[0, 0, 8, 8]),
    }
    for watch in (book, bar):
        watch.look(after, events)
        watch.stand(after, 3)
    assert sorted(events) == [1, 2, 3]
    for at in sorted(events):
        for method, values in events[at]:
            method(values)
    assert thing.seen == [("book", 5, 1), ("bar", 7, 8), ("book", 6, 3)]
    later: Events = {}
    book.look({"book": rows(BOOK, bid_price=[6, 7])}, later)
    assert list(later) == [1]


def test_of_two_books_the_last_one_is_watched() -> None:
    (watch,) = watches_of(type("Top", (), {"on_book": lambda self, top: None})(), "mine", {"a": BOOK, "b": BOOK})
    events: Events = {}
    watch.look({"a": rows(BOOK, bid_price=[1]), "b": rows(BOOK, bid_price=[0])}, events)
    assert events == {}


def test_a_method_that_nothing_in_the_chain_gives_cause_to_call_is_refused() -> None:
    check_states("mine", ("on_book",), {"book": BOOK})
    with pytest.raises(ConfigurationError, match="handler 'mine': on_bar is only called after bars"):
        check_states("mine", ("on_book", "on_bar"), {"book": BOOK})
