"""Order books: against a plain one, on generated days, on any stream at all, and on a recorded day."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any, Final

import itch_reference as itch
import numpy as np
import numpy.typing as npt
import pytest
from book_reference import LEVEL_FIELDS, ORDER_FIELDS, PlainBook, as_tuples
from book_runs import ORDER_CHANGES, order_stream, run, tick
from engine_support import ticks_for
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from strand import Dispatcher, feeds, replay
from strand.binding.books import BookMemory
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BOOK_ROW
from strand.handlers.builtin import books
from strand.output.books import Book


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


def test_books_of_a_generated_day_equal_plain_ones() -> None:
    result = replay(sample_path(), "book", workers=3, cores=None, feed_options={"date": SAMPLE_DATE})
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


@settings(max_examples=examples(200), deadline=None)
@given(ORDER_CHANGES, st.integers(1, 50))
def test_any_stream_leaves_the_books_of_a_plain_reading(changes: list[Any], batch: int) -> None:
    ticks = order_stream(changes)
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


def test_an_order_keeps_its_place_only_at_its_price_and_with_no_more_size() -> None:
    queue = [tick("A", i, 100, 10, side="B") for i in (1, 2, 3)]
    assert place(run(*queue, tick("M", 1, 100, 5)), 1) == (0, 0)
    assert place(run(*queue, tick("M", 1, 100, 10)), 1) == (0, 0), "to the same size it keeps its place"
    assert place(run(*queue, tick("M", 2, 100, 10)), 2) == (1, 10)
    assert place(run(*queue, tick("M", 1, 100, 11)), 1) == (2, 20)
    assert place(run(*queue, tick("M", 1, 101, 5)), 1) == (0, 0)
    assert place(run(*queue, tick("M", 1, 100, 5, ref_id=9)), 9) == (2, 20)


def test_queues_keep_their_order_where_a_book_begins_to_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "BookMemory", partial(BookMemory, start=2**31 - 20))
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


class Unseen:
    """Facts that only the exchange knew: orders from before the recording, changes of levels beyond the ten."""

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


# ---- The exchange's rules for order books, one by one, from the messages of TotalView-ITCH 5.0 to the book


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


ALL = [(1, 100), (2, 200), (3, 300)]
STATES = [("H", NAME, bytes([letter]), b" ", b"T1  ") for letter in b"TPQTH"]
#: What follows QUEUE, the bids that it leaves, and fields of the row.
RULES: dict[str, tuple[list[tuple[Any, ...]], list[tuple[int, int]], dict[str, int]]] = {
    "an execution counts at its order's price": (
        [("E", 1, 40, 900)], [(1, 60), *ALL[1:]], {"volume": 40, "trades": 1, "last_price": 1_000 * CENT}),
    "an execution of all of it": (
        [("E", 1, 40, 900), ("E", 1, 60, 901)], ALL[1:], {"volume": 100, "bid_size": 500, "bid_orders": 2}),
    "an execution at a price of its own": (
        [("C", 2, 50, 900, b"Y", 99_900)], [(1, 100), (2, 150), (3, 300)],
        {"volume": 50, "last_price": 999 * CENT, "bid_price": 1_000 * CENT}),
    "what is not printable counts nowhere": (
        [("C", 2, 200, 900, b"N", 99_900)], [(1, 100), (3, 300)], {"volume": 0, "trades": 0, "last_price": 0}),
    "a partial cancel keeps the place": ([("X", 1, 90)], [(1, 10), *ALL[1:]], {}),
    "a cancel of no shares": (
        [("X", 2, 0), ("X", 99, 0)], ALL,
        {"orders": 4, "ticks": 6, "unknown": 0, "duplicates": 0, "clipped": 0, "unusable": 0}),
    "a delete takes what is left": ([("E", 2, 50, 900), ("D", 2)], [(1, 100), (3, 300)], {"orders": 3}),
    "a replacement queues anew": ([("U", 1, 11, 50, 100_000)], [(2, 200), (3, 300), (11, 50)], {}),
    "under its own number too": ([("U", 2, 2, 50, 100_000)], [(1, 100), (3, 300), (2, 50)], {}),
    "at another price": ([("U", 1, 11, 50, 100_050), ("D", 11)], ALL[1:], {"unknown": 0}),
    "a replacement without shares": (
        [("U", 1, 11, 0, 100_000)], ALL[1:], {"unusable": 1, "duplicates": 0, "unknown": 0}),
    "a replacement by a number that stands": (
        [("U", 2, 3, 50, 100_000)], [(1, 100), (3, 300)], {"unusable": 0, "duplicates": 1}),
    "a trade of a hidden order": (
        [("P", 0, b"B", 70, NAME, 100_050, 900)], ALL,
        {"volume": 70, "last_price": 10_005 * CENT // 10, "unknown": 0, "ask_size": 50}),
    "a trade through the displayed book": (
        [("P", 0, b"B", 70, NAME, 99_000, 900)], ALL,
        {"last_price": 990 * CENT, "bid_price": 1_000 * CENT, "crossed": 0}),
    "halts are the state": (STATES, ALL, {"state": ord("H")}),
    "orders go in a halt": ([*STATES, ("D", 1)], ALL[1:], {"state": ord("H")}),
    "a broken trade and an imbalance": (
        [("E", 1, 40, 900), ("B", 900), ("I", 10, 20, b"S", NAME, 1, 2, 100_000, b"O", b"L")], [(1, 60), *ALL[1:]],
        {"volume": 40, "trades": 1, "last_price": 1_000 * CENT, "ask_size": 50, "unknown": 0}),
    "what does not fit": (
        [("D", 99), add(1, b"S", 5, 2_000), ("E", 3, 400, 900), ("U", 2, 4, 10, 100_000)], [(1, 100)],
        {"unknown": 1, "duplicates": 2, "clipped": 1}),
    # Orders that took part go by executions that are not printable; the cross message has the volume of all.
    **{
        f"a cross reports what its executions did not print, {kind!r}": (
            [add(5, b"S", 100, 999), ("C", 1, 100, 900, b"N", 100_000), ("C", 5, 100, 900, b"N", 100_000),
             ("Q", 500, NAME, 100_000, 900, kind)], ALL[1:],
            {"volume": 500, "trades": 1, "last_price": 1_000 * CENT, "crossed": 2, "ask_price": 1_001 * CENT,
             "bid_price": 1_000 * CENT})
        for kind in (b"O", b"C", b"H", b"I")
    },
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_messages_of_itch_change_the_book_and_the_row_by_the_exchanges_rules(rule: str, after: Any) -> None:
    messages, left, fields = RULES[rule]
    book, row = after(*QUEUE, *messages)
    assert bids(book) == left
    assert {name: int(row[name]) for name in fields} == fields


# ---- The tree of levels far below the best price, against a sorted array; short chunks make it a high one


SUPPORT = Path(__file__).resolve().parents[3] / "support"
CSRC = SUPPORT.parent.parent / "csrc"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    assert compiler is not None, "a C compiler"
    folder = tmp_path_factory.mktemp("deep")
    (folder / "books").mkdir()
    header = (CSRC / "books" / "deep.h").read_text()
    short = header.replace("SD_CHUNK = 62", "SD_CHUNK = 6").replace("SD_DEEP_HEIGHT = 12", "SD_DEEP_HEIGHT = 24")
    assert short.count("= 6,") + short.count("= 24") == 2
    (folder / "books" / "deep.h").write_text(short)
    sources = [SUPPORT / "deep_trial.c"]
    for name in ("books/deep.c", "memory/pool.c", "memory/space.c"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text((CSRC / name).read_text())
        sources.append(folder / name)
    options = ["-O1", "-shared", "-fPIC", "-std=gnu11", f"-I{folder}", f"-I{CSRC}"]
    subprocess.run([compiler, *options, "-o", folder / "trial.so", *sources, "-lpthread"], check=True)
    found = ctypes.CDLL(str(folder / "trial.so")).deep_trial
    found.argtypes, found.restype = [ctypes.c_uint64, ctypes.c_uint64], ctypes.c_uint32
    return found


@pytest.mark.python
def test_levels_that_come_and_go_at_random_are_those_of_a_sorted_array(trial: Any, one_in: Any) -> None:
    heights = [trial(seed, 30_000) for seed in range(0, 100, one_in(4))]
    assert all(heights), f"height {heights.index(0)}"
    assert max(heights) >= 5


# ---- moved memory


#: tests/support/moved_memory.c has the same.
KINDS: Final = {"book": 0, "publishers": 1, "depth": 2, "tape": 3, "tape by event": 4}
SOURCES: Final = (
    "books/book", "books/book_events", "books/book_levels", "books/book_questions", "books/book_shown",
    "books/book_top", "books/book_store", "books/book_table", "books/deep", "books/depth", "books/depth_side",
    "books/publishers", "measures/tape", "memory/pool", "memory/space",
)  # fmt: skip
ORDER, QUOTE = 1, 3
EVENT_LAST = 0x80
SYMBOLS = 4
ROOM = 1 << 24

Ticks = npt.NDArray[Any]


@pytest.fixture(scope="module")
def moved(once: Any) -> Any:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    assert compiler is not None, "a C compiler"
    sources = [SUPPORT / "moved_memory.c", *(CSRC / f"{name}.c" for name in SOURCES)]
    options = ["-O1", "-shared", "-fPIC", "-std=gnu11", f"-I{CSRC}"]
    path = once(
        "moved.so", lambda to: subprocess.run([compiler, *options, "-o", to, *sources, "-lpthread"], check=True)
    )
    function = ctypes.CDLL(str(path)).moved_memory
    function.restype = ctypes.c_int64
    return function


def answers(moved: Any, kind: str, ticks: Ticks, *, moves: bool) -> bytes:
    ticks = np.ascontiguousarray(ticks)
    said = ctypes.create_string_buffer(ROOM)
    at = ctypes.c_void_p(ticks.ctypes.data)
    n = moved(
        KINDS[kind], int(moves), ctypes.c_uint64(SYMBOLS), at, ctypes.c_int64(len(ticks)), said, ctypes.c_uint64(ROOM)
    )
    assert n >= 0, {-1: "a tick was not handled", -2: "an address lies in the memory", -3: "more answers than room"}[n]
    return said.raw[:n]


def order_ticks(seed: int, n: int) -> Ticks:
    """Orders that come, change and go, half of them of symbol 0: on more prices than a ladder holds, some of 2**32 and
    more, of six publishers."""
    rng = np.random.default_rng(seed)
    ticks = ticks_for(np.maximum(rng.integers(-SYMBOLS, SYMBOLS, n), 0), kind=ORDER)
    ticks["action"] = rng.choice(np.array([b"A", b"C", b"F", b"M", b"R"]), n, p=[0.7, 0.1, 0.05, 0.1499, 0.0001])
    ticks["side"] = rng.choice(np.array([b"A", b"B"]), n)
    ticks["order_id"] = rng.integers(1, n, n)
    ticks["ref_id"] = np.where(rng.random(n) < 0.5, rng.integers(1, n, n), 0)
    ticks["size"] = np.where(rng.random(n) < 0.05, 1 << 40, rng.integers(0, 1000, n))
    ticks["price"] = CENT * np.where(rng.random(n) < 0.5, rng.integers(1, 20_000, n), rng.integers(9_990, 10_010, n))
    ticks["publisher_id"] = rng.integers(1, 7, n)
    ticks["flags"] = np.where(rng.random(n) < 0.5, EVENT_LAST, 0)
    return ticks


def level_ticks(seed: int, n: int) -> Ticks:
    rng = np.random.default_rng(seed)
    ticks = ticks_for(np.maximum(rng.integers(-SYMBOLS, SYMBOLS, n), 0), kind=QUOTE)
    ticks["action"] = b"M"
    ticks["side"] = rng.choice(np.array([b"A", b"B"]), n)
    ticks["size"] = np.maximum(rng.integers(-300, 1000, n), 0)
    ticks["price"] = CENT * rng.integers(1, 20_000, n)
    # Many wait for the end of their event.
    ticks["flags"] = np.where(rng.random(n) < 0.1, EVENT_LAST, 0)
    return ticks


@pytest.mark.python
@pytest.mark.cells(1)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_lies_elsewhere_answers_and_goes_on_as_it_would_have(moved: Any, kind: str, seed: int) -> None:
    ticks = level_ticks(seed, 30_000) if kind == "depth" else order_ticks(seed, 30_000)
    if kind in ("tape", "book"):
        ticks["flags"] = 0
    still = answers(moved, kind, ticks, moves=False)
    assert len(still) > 100_000
    assert answers(moved, kind, ticks, moves=True) == still
