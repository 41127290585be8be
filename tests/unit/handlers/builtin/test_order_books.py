"""Order books: against a plain one, on generated days, on any stream at all, and on a recorded day."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from book_reference import LEVEL_FIELDS, ORDER_FIELDS, PlainBook, as_tuples
from book_runs import run, tick
from engine_support import ticks_for
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from strand import UNDEF_PRICE, Dispatcher, book, feeds, replay
from strand.binding.books import BookMemory
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BOOK_ROW
from strand.handlers.builtin import order_books
from strand.output.books import Book
from strand.ticks import zeros


def same(found: Book, row: Any, plain: PlainBook) -> None:
    expected = plain.row()
    assert {name: int(row[name]) for name in expected} == expected
    assert len(found) == len(plain.orders)
    for side, letter in (("bid", b"B"), ("ask", b"A")):
        assert as_tuples(found.levels(side), LEVEL_FIELDS) == plain.levels(letter)
        assert as_tuples(found.orders(side), ORDER_FIELDS) == plain.queue(letter)
        for order in plain.queue(letter):
            answer = found.order(order[0])
            assert answer is not None
            assert (*(int(answer[name]) for name in ORDER_FIELDS), chr(answer["side"])) == (*order, letter.decode())


@pytest.mark.parametrize("workers", [1, 3])
def test_books_of_a_generated_day_equal_plain_ones(workers: int) -> None:
    result = replay(sample_path(), "book", workers=workers, cores=None, feed_options={"date": SAMPLE_DATE})
    feed = feeds.open(sample_path(), date=SAMPLE_DATE)
    ticks = np.concatenate([batch.copy() for batch in feed.batches()])
    feed.close()
    by_count = np.argsort(result.ticks_by_symbol)
    symbols = [*by_count[-3:], *by_count[-200::20]]
    plain = {int(index): PlainBook() for index in symbols}
    for t in ticks[np.isin(ticks["instrument_id"], symbols)]:
        plain[int(t["instrument_id"])].apply(t)
    assert result.books is not None
    for index, expected in plain.items():
        same(result.books[index], result.rows.at(index), expected)
    assert sum(p.count["unknown"] + p.count["clipped"] + p.count["duplicates"] for p in plain.values()) == 0
    assert result.books.live_orders == int(result.rows.array["orders"].sum())


#: Few ids and prices, so that everything meets everything.
CHANGES = st.lists(
    st.tuples(
        st.sampled_from("AAAACCFFMMRTN"),
        st.integers(1, 12),
        st.one_of(st.integers(1, 6), st.just(UNDEF_PRICE)),
        st.integers(0, 4),
        st.sampled_from("ABABN"),
        st.sampled_from([0, 0, 1, 3, 7, 12]),
        st.sampled_from([0, 0, 0, 1, ord("H"), ord("T")]),
        st.integers(0, 1),
    ),
    max_size=200,
)


@settings(max_examples=examples(150), deadline=None)
@given(CHANGES, st.integers(1, 50))
def test_any_stream_leaves_the_books_of_a_plain_reading(changes: list[Any], batch: int) -> None:
    ticks = zeros(len(changes))
    for t, (action, order_id, price, size, side, ref, flags, key) in zip(ticks, changes, strict=True):
        t["action"], t["order_id"], t["price"], t["size"] = action.encode(), order_id, price, size
        t["side"], t["ref_id"], t["flags"], t["instrument_id"] = side.encode(), ref, flags, key
        t["kind"] = 4 if action == "N" else 1
    parts = [ticks[i : i + batch] for i in range(0, len(ticks), batch)]
    d = run(*parts, symbols=2)
    for key in range(2):
        plain = PlainBook()
        for t in ticks[ticks["instrument_id"] == key]:
            plain.apply(t)
        if plain.count["ticks"]:
            same(d.books[key], d.rows[key], plain)
        else:
            assert d.rows[key] == np.zeros(1, BOOK_ROW)[0]


def test_many_levels_and_orders_grow_shrink_and_clear() -> None:
    rng = np.random.default_rng(3)
    n = 30_000
    adds = ticks_for(np.zeros(n, np.int64), kind=1)
    adds["order_id"] = rng.permutation(n) + 1
    adds["price"] = rng.integers(1, 5_000, n)
    adds["size"] = rng.integers(1, 100, n)
    adds["action"], adds["side"] = b"A", rng.choice([b"A", b"B"], n)
    gone = adds[rng.permutation(n)[: n - 500]].copy()
    gone["action"], gone["size"] = b"C", 0
    plain = PlainBook()
    for t in np.concatenate([adds, gone]):
        plain.count["ticks"] += 0
        if t["action"] == b"A":
            plain.orders[int(t["order_id"])] = [bytes(t["side"]), int(t["price"]), int(t["size"])]
        else:
            del plain.orders[int(t["order_id"])]
    d = run(adds, gone)
    found = d.books[0]
    for side, letter in (("bid", b"B"), ("ask", b"A")):
        assert as_tuples(found.levels(side), LEVEL_FIELDS) == plain.levels(letter)
        assert as_tuples(found.orders(side), ORDER_FIELDS) == plain.queue(letter)
    assert len(run(adds, tick("R")).books[0]) == 0


@pytest.mark.parametrize("n", [100, 700, 5_000])
def test_ids_that_all_fall_into_one_bucket_are_told_apart(n: int) -> None:
    """More than it holds, round the end of the table; then half of them go."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    spread = np.random.default_rng(7).permutation(n)
    ids = [((1 << 64) - 1 - k) * inverse % (1 << 64) for k in range(n)]
    plain = PlainBook()
    adds = ticks_for(np.zeros(n, np.int64), kind=1)
    adds["order_id"], adds["price"], adds["size"] = ids, 1 + np.arange(n) % 3, 1
    adds["action"], adds["side"] = b"A", b"B"
    gone = adds[spread[: n // 2]].copy()
    gone["action"], gone["size"] = b"C", 0
    again = adds[spread[: n // 4]]
    for t in np.concatenate([adds, gone, again]):
        if t["action"] == b"A":
            plain.orders[int(t["order_id"])] = [b"B", int(t["price"]), 1]
        else:
            del plain.orders[int(t["order_id"])]
    d = run(adds, gone, again)
    assert as_tuples(d.books[0].orders("bid"), ORDER_FIELDS) == plain.queue(b"B")
    assert all(d.books[0].order(int(i)) is None for i in adds["order_id"][spread[n // 4 : n // 2]])
    assert (d.rows[0]["unknown"], d.rows[0]["duplicates"]) == (0, 0)


def test_an_order_keeps_its_place_only_at_its_price_and_with_no_more_size() -> None:
    queue = [tick("A", i, 100, 10, side="B") for i in (1, 2, 3)]
    assert place(run(*queue, tick("M", 1, 100, 5)), 1) == (0, 0)
    assert place(run(*queue, tick("M", 1, 100, 10)), 1) == (0, 0), "to the same size it keeps its place"
    assert place(run(*queue, tick("M", 2, 100, 10)), 2) == (1, 10)
    assert place(run(*queue, tick("M", 1, 100, 11)), 1) == (2, 20)
    assert place(run(*queue, tick("M", 1, 101, 5)), 1) == (0, 0)
    assert place(run(*queue, tick("M", 1, 100, 5, ref_id=9)), 9) == (2, 20)


def test_queues_keep_their_order_where_a_book_begins_to_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_books, "BookMemory", partial(BookMemory, start=2**31 - 20))
    queue = [tick("A", i, 100 + i % 3, 10, side="BA"[i % 2]) for i in range(1, 31)]
    again = [tick("M", i, 100 + i % 3, 11) for i in (4, 1, 22)]
    gone = [tick("C", i) for i in (2, 7, 30)]
    plain = PlainBook()
    for t in (*queue[:18], *again, *gone[:2], *queue[18:], *gone[2:]):
        plain.apply(t[0])
    d = run(*queue[:18], *again, *gone[:2], *queue[18:], *gone[2:])
    same(d.books[0], d.rows[0], plain)


def place(d: Dispatcher, order_id: int) -> tuple[int, int]:
    order = d.books[0].order(order_id)
    assert order is not None
    return int(order["ahead_orders"]), int(order["ahead_size"])


def test_what_a_cross_reports_again_does_not_count_twice() -> None:
    d = run(
        tick("A", 1, 100, 10, side="B"),
        tick("F", 1, 99, 4, flags=1),
        tick("T", price=99, size=4, kind=2, flags=0x14),
    )
    row = d.rows[0]
    assert (row["volume"], row["trades"], row["last_price"], row["bid_size"]) == (4, 1, 99, 6)


def test_two_dispatchers_with_one_handler_keep_books_of_their_own() -> None:
    shared = book()
    with Dispatcher(1, shared, workers=1, cores=None) as one, Dispatcher(1, shared, workers=1, cores=None) as two:
        one.publish(tick("A", 1, 100, 10, side="B"))
        one.drain()
        two.drain()
        assert (len(one.books[0]), len(two.books[0])) == (1, 0)


class Unseen:
    """What only the exchange knew: orders from before the recording, changes while a level was not among the ten."""

    def __init__(self) -> None:
        self.seeds: dict[tuple[str, int], int] = {}
        self.corrections = 0

    def correct(self, book: Book, side: str, price: int, size: int) -> list[npt.NDArray[Any]]:
        """Ticks that make the size at a price what it is shown to be."""
        self.corrections += 1
        at_price = [o for o in book.orders("bid" if side == "B" else "ask") if o["price"] == price]
        more = size - sum(int(o["size"]) for o in at_price)
        if more > 0:
            self.seeds[side, price] = (1 << 60) + self.corrections
            return [tick("A", self.seeds[side, price], price, more, side=side)]
        made = []
        for order in reversed(at_price):
            made.append(tick("C", int(order["order_id"]), size=min(-more, int(order["size"]))))
            more += int(made[-1]["size"][0])
            if more == 0:
                break
        return made

    def next_tick(self, message: npt.NDArray[Any], book: Book) -> npt.NDArray[Any]:
        """A LOBSTER message as a tick; a change of an order that is not known is one of its level's seed."""
        kind, order_id, size, price, direction = (int(field) for field in message[1:])
        side, price = "B" if direction == 1 else "A", price * 100_000
        if kind == 1:
            return tick("A", order_id, price, size, side=side)
        if kind == 5:
            return tick("T", price=price, size=size)
        assert kind in (2, 3, 4)
        if book.order(order_id) is None:
            return tick("F" if kind == 4 else "C", self.seeds[side, price], size=size)
        return tick("F" if kind == 4 else "C", order_id, size=0 if kind == 3 else size)


def test_every_level_lobster_shows_is_the_books_too(shared_data: Path) -> None:
    """Ten levels a side after each message. A level that comes into sight may differ, one that stays may not."""
    folder = shared_data / "lobster"
    messages = np.loadtxt(next(folder.glob("*message_10.csv")), delimiter=",")
    shown = np.loadtxt(next(folder.glob("*orderbook_10.csv")), delimiter=",", dtype=np.int64).reshape(-1, 10, 4)
    shown[:, :, [0, 2]] *= 100_000
    unseen, compared = Unseen(), 0
    in_sight: dict[str, set[int]] = {"A": set(), "B": set()}
    with Dispatcher(1, "book", workers=1, cores=None) as d:
        found = d.books[0]
        for message, levels in zip(messages, shown, strict=True):
            if compared:  # the first row is what the book starts with
                d.publish(unseen.next_tick(message, found))
                d.drain()
            for side, column in (("A", 0), ("B", 2)):
                there = dict(levels[:, column : column + 2].tolist())
                mine = {int(x["price"]): int(x["size"]) for x in found.levels("ask" if side == "A" else "bid")}
                worst = levels[9, column]
                within = {p for p in mine if (p <= worst if side == "A" else p >= worst)}
                for price in there.keys() | within:
                    compared += 1
                    if mine.get(price, 0) == there.get(price, 0):
                        continue
                    assert price not in in_sight[side], (compared, side, price)
                    for correction in unseen.correct(found, side, price, there.get(price, 0)):
                        d.publish(correction)
                    d.drain()
                in_sight[side] = set(there)
    assert compared >= 20 * len(messages)
    assert unseen.corrections - 20 < compared / 100
    assert d.rows[0]["unknown"] == d.rows[0]["clipped"] == 0
