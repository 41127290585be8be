"""The levels of all books as a table."""

from __future__ import annotations

from typing import Any

import pytest

from strand import Dispatcher, depth, replay, testing
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python

PRICE = 10**9


FIELDS = ("symbol", "time", "order_id", "side", "price", "size")
ORDERS: list[dict[str, Any]] = [
    {"action": b"A"} | dict(zip(FIELDS, values, strict=True))
    for values in [
        ("B", 1, 1, b"B", 10.0, 5),
        ("B", 2, 2, b"B", 10.5, 7),
        ("B", 3, 3, b"B", 10.5, 1),
        ("B", 4, 4, b"A", 11.0, 2),
        ("A", 5, 5, b"A", 20.25, 3),
    ]
]


def test_levels_of_all_books_are_one_table_asks_first_and_the_best_level_first() -> None:
    levels = replay(testing.feed(ORDERS, ticks="orders"), "book").books.levels()
    assert len(levels) == len(levels.array) == 4
    assert repr(levels) == "<BookLevels: 4 levels, 2 symbols>"
    assert levels.to_numpy().tolist() == [
        ("B", b"A", 0, 11 * PRICE, 2, 1),
        ("B", b"B", 0, 10_500_000_000, 8, 2),
        ("B", b"B", 1, 10 * PRICE, 5, 1),
        ("A", b"A", 0, 20_250_000_000, 3, 1),
    ]


def test_tables_of_levels_are_in_natural_units() -> None:
    pytest.importorskip("polars")
    books = replay(testing.feed(ORDERS, ticks="orders"), "book").books
    table = books.levels(1).to_polars()
    assert table.rows() == [("B", "A", 0, 11.0, 2, 1), ("B", "B", 0, 10.5, 8, 2), ("A", "A", 0, 20.25, 3, 1)]
    assert books.levels(1).to_arrow(prices="integer")["price"].to_pylist()[0] == 11 * PRICE
    assert books.levels(0).to_polars().columns == table.columns


def test_books_of_levels_have_no_orders_and_sizes_count_in_the_feeds_unit() -> None:
    pytest.importorskip("polars")
    quote = {"symbol": "C", "time": 1, "kind": 3, "action": b"M", "side": b"B", "price": 2.0, "size": 25}
    feed = testing.feed([quote], size_unit=0.1)
    levels = replay(feed, depth()).books.levels(5)
    assert levels.array["orders"].tolist() == [-1]
    assert levels.to_polars().rows() == [("C", "B", 0, 2.0, 2.5, None)]


def test_symbols_whose_handler_keeps_no_book_have_no_levels() -> None:
    feed = testing.feed(ORDERS, ticks="orders")
    levels = replay(feed, handlers={"A": "book", "*": "count"}).books.levels()
    assert levels.to_numpy()["symbol"].tolist() == ["A"]
    with Dispatcher(1, "count", workers=1, cores=None) as none, pytest.raises(ConfigurationError, match="keeps books"):
        none.books.levels()
