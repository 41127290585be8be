"""The exchange's rules for order books, one by one, from the messages of TotalView-ITCH 5.0 to the book."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import itch_reference as itch
import pytest

from strand import replay
from strand.output.books import Book

NAME = b"AAPL    "
CENT = 10_000_000
NS = 34_200_000_000_000


@pytest.fixture
def after(tmp_path: Path) -> Any:
    """The book and the row after messages: ``after(("A", 1, b"B", 100, NAME, 1_000_000), ...)``, prices in 1e-4."""

    def run(*messages: tuple[Any, ...]) -> tuple[Book, Any]:
        bodies = [itch.directory(7, b"AAPL")]
        bodies += [itch.message(letter, 7, NS + at, *fields) for at, (letter, *fields) in enumerate(messages)]
        path = tmp_path / "rules.itch50"
        path.write_bytes(b"".join(itch.frame(body) for body in bodies))
        result = replay(path, "book", workers=1, cores=None, feed_options={"date": "2026-01-05"})
        assert result.books is not None
        return result.books["AAPL"], result.rows["AAPL"]

    return run


def add(order: int, side: bytes, shares: int, cents: int) -> tuple[Any, ...]:
    return ("A", order, side, shares, NAME, cents * 100)


QUEUE = (add(1, b"B", 100, 1_000), add(2, b"B", 200, 1_000), add(3, b"B", 300, 1_000), add(4, b"S", 50, 1_001))


def bids(book: Book) -> list[tuple[int, int]]:
    return [(int(order["order_id"]), int(order["size"])) for order in book.orders("bid")]


def test_an_execution_takes_shares_off_its_order_and_counts_at_the_orders_price(after: Any) -> None:
    book, row = after(*QUEUE, ("E", 1, 40, 900))
    assert bids(book) == [(1, 60), (2, 200), (3, 300)]
    assert (row["volume"], row["trades"], row["last_price"]) == (40, 1, 1_000 * CENT)
    book, row = after(*QUEUE, ("E", 1, 40, 900), ("E", 1, 60, 901))
    assert bids(book) == [(2, 200), (3, 300)]
    assert (row["bid_size"], row["bid_orders"], row["volume"]) == (500, 2, 100)


def test_an_execution_with_a_price_counts_at_that_price_and_leaves_the_order_at_its_own(after: Any) -> None:
    book, row = after(*QUEUE, ("C", 2, 50, 900, b"Y", 99_900))
    assert bids(book) == [(1, 100), (2, 150), (3, 300)]
    assert (row["volume"], row["last_price"], row["bid_price"]) == (50, 999 * CENT, 1_000 * CENT)


def test_what_is_not_printable_changes_the_book_and_counts_nowhere(after: Any) -> None:
    book, row = after(*QUEUE, ("C", 2, 200, 900, b"N", 99_900))
    assert bids(book) == [(1, 100), (3, 300)]
    assert (row["volume"], row["trades"], row["last_price"]) == (0, 0, 0)


def test_a_partial_cancel_keeps_the_orders_place(after: Any) -> None:
    book, _ = after(*QUEUE, ("X", 1, 90))
    assert bids(book) == [(1, 10), (2, 200), (3, 300)]


def test_a_cancel_of_no_shares_takes_nothing(after: Any) -> None:
    book, row = after(*QUEUE, ("X", 2, 0), ("X", 99, 0))
    assert bids(book) == [(1, 100), (2, 200), (3, 300)]
    assert (row["orders"], row["ticks"]) == (4, 6)
    assert [row[name] for name in ("unknown", "duplicates", "clipped", "unusable")] == [0] * 4


def test_a_replacement_always_takes_the_old_order_off(after: Any) -> None:
    for new, shares, price in ((11, 0, 100_000), (3, 50, 100_000), (2, 0, 100_000)):
        book, row = after(*QUEUE, ("U", 2, new, shares, price))
        assert bids(book) == [(1, 100), (3, 300)]
        assert (row["unusable"], row["duplicates"]) == (shares == 0, shares != 0)
    # Under its own number it is a new order too, which queues anew.
    book, _ = after(*QUEUE, ("U", 2, 2, 50, 100_000))
    assert bids(book) == [(1, 100), (3, 300), (2, 50)]


def test_a_delete_takes_all_that_is_left(after: Any) -> None:
    book, row = after(*QUEUE, ("E", 2, 50, 900), ("D", 2))
    assert bids(book) == [(1, 100), (3, 300)]
    assert row["orders"] == 3


def test_a_replacement_goes_to_the_end_of_the_queue_whatever_its_size(after: Any) -> None:
    book, _ = after(*QUEUE, ("U", 1, 11, 50, 100_000))
    assert bids(book) == [(2, 200), (3, 300), (11, 50)]
    found = book.order(11)
    assert (found["ahead_orders"], found["ahead_size"], found["side"]) == (2, 500, ord("B"))
    book, _ = after(*QUEUE, ("U", 1, 11, 50, 100_050), ("D", 11))
    assert bids(book) == [(2, 200), (3, 300)]
    assert book.order(1) is None


def test_a_replacement_without_shares_takes_the_old_order_off(after: Any) -> None:
    book, row = after(*QUEUE, ("U", 1, 11, 0, 100_000))
    assert bids(book) == [(2, 200), (3, 300)]
    assert (row["unusable"], row["unknown"]) == (1, 0)


def test_a_trade_of_a_hidden_order_counts_and_leaves_the_book_alone(after: Any) -> None:
    before, _ = after(*QUEUE)
    shown = before.levels("bid").tolist(), before.levels("ask").tolist()
    book, row = after(*QUEUE, ("P", 0, b"B", 70, NAME, 100_050, 900))
    assert (book.levels("bid").tolist(), book.levels("ask").tolist()) == shown
    assert (row["volume"], row["last_price"], row["unknown"]) == (70, 10_005 * CENT // 10, 0)


def test_a_trade_through_the_displayed_book_leaves_what_it_passed(after: Any) -> None:
    """A hidden order behind the best bid trades at a worse price; the displayed orders are still there."""
    book, row = after(*QUEUE, ("P", 0, b"B", 70, NAME, 99_000, 900))
    assert bids(book) == [(1, 100), (2, 200), (3, 300)]
    assert (row["last_price"], row["bid_price"], row["crossed"]) == (990 * CENT, 1_000 * CENT, 0)


@pytest.mark.parametrize("letters", [b"T", b"TH", b"THQ", b"TPQT"])
def test_halts_are_the_state_of_the_row_and_leave_orders_where_they_are(after: Any, letters: bytes) -> None:
    states = [("H", NAME, bytes([letter]), b" ", b"T1  ") for letter in letters]
    book, row = after(*QUEUE, *states)
    assert chr(row["state"]) == chr(letters[-1])
    assert bids(book) == [(1, 100), (2, 200), (3, 300)]
    book, _ = after(*QUEUE, *states, ("D", 1))
    assert bids(book) == [(2, 200), (3, 300)]


@pytest.mark.parametrize("kind", [b"O", b"C", b"H", b"I"])
def test_a_cross_reports_what_its_executions_did_not_print(after: Any, kind: bytes) -> None:
    """Orders that took part go by executions that are not printable; the cross message has the volume of all."""
    book, row = after(
        *QUEUE,
        add(5, b"S", 100, 999),
        ("C", 1, 100, 900, b"N", 100_000),
        ("C", 5, 100, 900, b"N", 100_000),
        ("Q", 500, NAME, 100_000, 900, kind),
    )
    assert bids(book) == [(2, 200), (3, 300)]
    assert (row["volume"], row["trades"], row["last_price"]) == (500, 1, 1_000 * CENT)
    assert row["crossed"] == 2  # while the orders of the cross were in the book
    assert (row["ask_price"], row["bid_price"]) == (1_001 * CENT, 1_000 * CENT)


def test_a_broken_trade_and_an_imbalance_change_nothing(after: Any) -> None:
    _, before = after(*QUEUE, ("E", 1, 40, 900))
    _, row = after(*QUEUE, ("E", 1, 40, 900), ("B", 900), ("I", 10, 20, b"S", NAME, 1, 2, 100_000, b"O", b"L"))
    kept = [name for name in row.dtype.names if name not in ("ticks", "last_ts_recv")]
    assert [row[name] for name in kept] == [before[name] for name in kept]


def test_what_does_not_fit_is_counted_and_left_out(after: Any) -> None:
    book, row = after(*QUEUE, ("D", 99), add(1, b"S", 5, 2_000), ("E", 3, 400, 900), ("U", 2, 4, 10, 100_000))
    assert (row["unknown"], row["duplicates"], row["clipped"]) == (1, 2, 1)
    assert bids(book) == [(1, 100)]
