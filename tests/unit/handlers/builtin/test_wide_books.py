"""Books with sizes that 32 bits do not hold: right from the first one on, wherever in a run it comes."""

from __future__ import annotations

from functools import partial
from typing import Any

import book_runs
import numpy as np
import numpy.typing as npt
import pytest
from array_feed import order_feed
from book_reference import LEVEL_FIELDS, ORDER_FIELDS, PlainBook, as_tuples
from book_runs import run
from engine_support import ticks_for

from strand import UNDEF_PRICE, Dispatcher, replay
from strand.errors import HandlerError

TOP = 2**32 - 1
MAX_I64 = 2**63 - 1

Ticks = npt.NDArray[Any]
tick = partial(book_runs.tick, side="B")


def plain_of(ticks: Ticks) -> PlainBook:
    plain = PlainBook()
    for t in ticks:
        plain.apply(t)
    return plain


def same(d: Dispatcher, key: int, plain: PlainBook) -> None:
    expected = plain.row()
    assert {name: int(d.rows[key][name]) for name in expected} == expected
    for side, letter in (("bid", b"B"), ("ask", b"A")):
        assert as_tuples(d.books[key].levels(side), LEVEL_FIELDS) == plain.levels(letter)
        queue = plain.queue(letter)
        assert as_tuples(d.books[key].orders(side), ORDER_FIELDS) == queue
        for order in queue[:: max(1, len(queue) // 20)]:
            answer = d.books[key].order(order[0])
            assert tuple(int(answer[name]) for name in ORDER_FIELDS) == order


#: Around what 32 bits hold; with a lower half of 0; the largest sum of some that 63 bits hold.
SIZES = [0, 1, 2, 5, TOP - 1, TOP, 2**32, TOP + 2, 2**33, 2**40, 3 * 2**32, 10**14, 10**14 + 1, 2**52]


def long_run(seed: int, n: int, wide_from: int) -> Ticks:
    """Two symbols, thousands of orders on more levels than a ladder has; sizes beyond 32 bits from a tick on."""
    rng = np.random.default_rng(seed)
    ticks = ticks_for(rng.integers(0, 2, n), kind=1)
    ticks["action"] = rng.choice([b"A", b"C", b"M", b"F"], n, p=[0.7, 0.1, 0.1, 0.1])
    ticks["side"] = rng.choice([b"A", b"B"], n)
    ticks["order_id"] = rng.integers(0, 6_000, n)
    ticks["price"] = 10_000 + rng.integers(-700, 700, n)
    ticks["size"] = rng.integers(0, 50, n)
    wide = (np.arange(n) >= wide_from) & (rng.random(n) < 0.3)
    ticks["size"][wide] = rng.choice(SIZES, int(wide.sum()))
    ticks["ref_id"] = np.where(rng.random(n) < 0.5, 0, rng.integers(1, 6_000, n))
    for at in (wide_from // 2, (n + wide_from) // 2):  # days, and wide ones after one
        ticks["action"][at : at + 8], ticks["kind"][at : at + 8] = b"R", 4
    return ticks


@pytest.mark.parametrize("wide_from", [0, 6_000])
def test_a_book_that_meets_large_sizes_in_the_middle_of_a_run_goes_on_as_a_plain_one(wide_from: int) -> None:
    ticks = long_run(3, 12_000, wide_from)
    plain = [PlainBook(), PlainBook()]
    largest = 0
    with Dispatcher(2, "book", workers=2, cores=None) as d:
        for part in np.array_split(ticks, 8):
            d.publish(part)
            d.drain()
            for t in part:
                plain[t["instrument_id"]].change(t)
            for key in range(2):
                plain[key].count["crossed"] = int(d.rows[key]["crossed"])
                same(d, key, plain[key])
                largest = max(largest, len(plain[key].orders))
    assert largest > 1_500


def test_small_orders_whose_sum_passes_32_bits_leave_the_book_narrow() -> None:
    adds = [tick("A", i, 100, TOP) for i in range(1, 101)]
    small = [tick("A", i, 100, 1) for i in range(1, 101)]
    d = run(*adds, tick("C", 7, size=1))
    assert as_tuples(d.books[0].bids(), LEVEL_FIELDS) == [(100, 100 * TOP - 1, 100)]
    assert int(d.books[0].order(100)["ahead_size"]) == 99 * TOP - 1
    assert d.books.order_bytes == run(*small).books.order_bytes


def test_the_first_large_size_costs_8_bits_in_32_for_each_bucket() -> None:
    n = 20_000
    adds = ticks_for(np.zeros(n, np.int64), kind=1)
    adds["order_id"], adds["price"], adds["size"] = np.arange(n) + 1, 100 + np.arange(n) % 200, 1
    adds["action"], adds["side"] = b"A", b"B"
    narrow = run(adds).books.order_bytes
    for at in (0, n // 2, n - 1):
        wide = adds.copy()
        wide["size"][at] = 2**32
        d = run(wide)
        assert d.books.order_bytes * 4 == narrow * 5
        assert int(d.books[0].order(at + 1)["size"]) == 2**32
    gone = adds[: n - 5].copy()
    gone["action"], gone["size"] = b"C", 0
    assert run(wide, gone, tick("R"), adds[:1]).books.order_bytes == run(adds[:1]).books.order_bytes


def test_an_order_of_whole_multiples_of_32_bits_is_not_taken_for_a_free_place() -> None:
    ids = range(40)  # 0 is what a free place has for an id
    ticks = np.concatenate([tick("A", i, 100 + i % 3, 2**32 * (1 + i)) for i in ids])
    again = np.concatenate([tick("A", i, 101, 7) for i in ids])
    d = run(ticks, again)
    same(d, 0, plain_of(np.concatenate([ticks, again])))
    assert int(d.rows[0]["duplicates"]) == 40


def fails(*parts: Ticks) -> tuple[str, Dispatcher]:
    with pytest.raises(HandlerError) as caught, Dispatcher(1, "book", workers=1) as d:
        for part in parts:
            d.publish(part)
        d.drain()
    return str(caught.value), d


#: Ticks that are too much behind the first ones, which leave a book that stays as it is.
BEFORE = [tick("A", 1, 100, 2**62), tick("A", 2, 100, 2**62 - 1), tick("A", 3, 101, 9), tick("A", 4, 99, 2**62)]
TOO_MUCH = {
    "one more": tick("A", 5, 100, 1),
    "the largest": tick("A", 5, 100, MAX_I64),
    "more of one that is there": tick("M", 1, 100, 2**62 + 1),
    "from another price": tick("M", 3, 100, 1),
    "a replacement from another price": tick("M", 3, 100, 1, ref_id=9),
    "a larger replacement": tick("M", 1, 100, 2**62 + 1, ref_id=9),
    "a second one at another price": tick("M", 2, 99, 2**62, ref_id=9),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_price_whose_sum_63_bits_do_not_hold_is_an_error_and_leaves_the_book_as_it_was(name: str) -> None:
    message, d = fails(*BEFORE, TOO_MUCH[name])
    assert "the sizes at one price add up to more than 2**63 - 1: read its sizes in a coarser unit" in message
    same(d, 0, plain_of(np.concatenate(BEFORE)))


@pytest.mark.parametrize(
    "last",
    [
        tick("A", 5, 102, MAX_I64),
        tick("A", 5, 100, MAX_I64, side="A"),
        tick("M", 1, 100, 2**62, ref_id=9),
        tick("M", 1, 98, MAX_I64, ref_id=9),
        tick("M", 4, 99, MAX_I64),
        tick("M", 1, 100, MAX_I64, ref_id=2),  # the new one's id is an order's: only the old one goes
        tick("A", 2, 100, MAX_I64),  # a duplicate, which is left out
        tick("C", 1, size=MAX_I64),
        tick("F", 1, size=MAX_I64),
    ],
)
def test_a_sum_that_63_bits_just_hold_is_no_error(last: Ticks) -> None:
    ticks = np.concatenate([*BEFORE, last])
    same(run(ticks), 0, plain_of(ticks))


def test_deep_levels_hold_large_sums_too() -> None:
    levels = [tick("A", i, 5_000 - i, 2**40 + i) for i in range(1, 1_001)]
    more = [tick("A", 2_000 + i, 5_000 - i, 2**62) for i in range(1, 1_001, 3)]
    ticks = np.concatenate([*levels, *more])
    d = run(ticks)
    plain = PlainBook()
    for t in ticks:
        plain.change(t)
    plain.count["crossed"] = 0
    same(d, 0, plain)
    message, _ = fails(*levels, *more, tick("A", 9_999, 5_000 - 1_000, 2**62 - 2**40 - 1_000))
    assert "add up to more than 2**63 - 1" in message


# ---- from files: coins, whose sizes in 1e-8 pass 32 bits, and meme coins beside them


def test_handlers_that_keep_books_of_their_own_count_large_fills_at_their_orders_prices() -> None:
    ticks = long_run(5, 4_000, 500)
    ticks["instrument_id"] = 0
    plain, volume, notional = PlainBook(), 0, 0
    for t in ticks:
        order = plain.orders.get(int(t["order_id"]))
        if t["action"] == b"F" and t["size"] > 0:
            price = int(t["price"])
            if price == UNDEF_PRICE and order is not None:
                price = order[1]
            if price != UNDEF_PRICE:
                volume, notional = volume + int(t["size"]), notional + price * int(t["size"])
        plain.change(t)
    rows = {
        name: replay(order_feed(ticks, ["X"]), name, workers=1).rows["X"]
        for name in ("vwap", "trade_stats", "book", "spread")
    }
    assert {name: int(row["volume"]) for name, row in rows.items() if name != "spread"} == dict.fromkeys(
        ("vwap", "trade_stats", "book"), volume
    )
    assert volume > 2**50
    assert float(rows["vwap"]["vwap"]) == pytest.approx(notional / volume / 1e9, rel=1e-12)
    (bid, bid_size, _), (ask, ask_size, _) = plain.levels(b"B")[0], plain.levels(b"A")[0]
    assert [int(rows["spread"][name]) for name in ("bid", "bid_size", "ask", "ask_size")] == [
        bid, bid_size, ask, ask_size,
    ]  # fmt: skip
