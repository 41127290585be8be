"""Files that were made to be slow: what books do for them, in counted steps; and that deep books are right."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from book_reference import PlainBook, as_tuples
from depth_reference import PlainDepth
from engine_support import ticks_for

from strand import UNDEF_PRICE, Dispatcher, depth

SUPPORT = Path(__file__).resolve().parents[3] / "support"
CSRC = SUPPORT.parent.parent / "csrc"
N = 40_000
CENT = 10_000_000
#: What f907e8f multiplied ids by, and its inverse: ids that all had one first bucket.
OLD_FACTOR = 0x9E3779B97F4A7C15
OLD_INVERSE = pow(OLD_FACTOR, -1, 1 << 64)

Ticks = npt.NDArray[Any]


@pytest.fixture(scope="module")
def counted(once: Any) -> Any:
    """``counted("book")`` and ``counted("depth")``: the counting builds of tests/support/book_steps.c."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    assert compiler is not None, "a C compiler"
    built: dict[str, Any] = {}
    for of, flags in (("book", []), ("depth", ["-DOF_DEPTH"])):
        options = ["-O2", "-shared", "-fPIC", "-std=gnu11", *flags, f"-I{CSRC}"]
        command = [compiler, *options, SUPPORT / "book_steps.c", "-lpthread", "-o"]
        path = once(f"steps_{of}.so", lambda to, command=command: subprocess.run([*command, to], check=True))
        built[of] = ctypes.CDLL(str(path)).steps_of
        built[of].restype = ctypes.c_uint64
    return built.__getitem__


def book_steps(counted: Any, ticks: Ticks, seed: int = 1) -> int:
    mask, factor = (int(x) for x in np.random.default_rng(seed).integers(0, 1 << 64, 2, np.uint64))
    return keyed_steps(counted, ticks, mask, factor | 1)


def keyed_steps(counted: Any, ticks: Ticks, mask: int, factor: int) -> int:
    ticks = np.ascontiguousarray(ticks)
    at, u64 = ctypes.c_void_p(ticks.ctypes.data), ctypes.c_uint64
    steps = int(counted("book")(at, ctypes.c_int64(len(ticks)), u64(mask), u64(factor)))
    assert steps, "a tick was not handled"
    return steps


def depth_steps(counted: Any, ticks: Ticks, max_levels: int = 1 << 20) -> int:
    ticks = np.ascontiguousarray(ticks)
    at = ctypes.c_void_p(ticks.ctypes.data)
    steps = int(counted("depth")(at, ctypes.c_int64(len(ticks)), ctypes.c_uint32(max_levels)))
    assert steps, "a tick was not handled"
    return steps


def adds(ids: Any, prices: Any) -> Ticks:
    made = ticks_for(np.zeros(len(ids), np.int64), kind=1)
    made["action"], made["side"], made["size"] = b"A", b"B", 100
    made["order_id"], made["price"] = ids, prices
    return made


def cancels(of: Ticks) -> Ticks:
    gone = of.copy()
    gone["action"], gone["size"] = b"C", 0
    return gone


def in_turn(*parts: Ticks) -> Ticks:
    """The first of each, the second of each, and so on."""
    made = np.empty(sum(len(part) for part in parts), parts[0].dtype)
    for at, part in enumerate(parts):
        made[at :: len(parts)] = part
    return made


def harmless(n: int) -> Ticks:
    ids = np.arange(1, n + 1, dtype=np.uint64)
    return adds(ids, CENT * (100 + np.arange(n) % 50))


def clears(n: int) -> Ticks:
    made = adds(np.arange(n) + 1, CENT)
    made["action"] = b"R"
    return made


IDS = np.arange(1, N + 1, dtype=np.uint64)
FALLING = CENT * (2 * N - np.arange(N))
RNG = np.random.default_rng(5)

#: Ids with one first bucket by the old hash, and ids that differ in few bits.
CRAFTED_IDS = {
    "crafted": IDS * np.uint64(OLD_INVERSE),
    "high bits": IDS << np.uint64(40),
    "multiples": IDS << np.uint64(13),
    "both halves": IDS << np.uint64(32) | IDS,
    "two lanes": np.where(IDS % 2, IDS, ~IDS),
}


@pytest.mark.python
@pytest.mark.parametrize("name", CRAFTED_IDS)
def test_ids_chosen_against_the_hash_cost_at_most_twice_as_much(name: str, counted: Any, one_in: Any) -> None:
    hostile = adds(CRAFTED_IDS[name], CENT * (100 + np.arange(N) % 50))
    for seed in range(0, 20, one_in(5)):
        assert book_steps(counted, hostile, seed) <= 2 * book_steps(counted, harmless(N), seed)


@pytest.mark.python
def test_who_knows_the_key_of_the_hash_can_make_it_slow(counted: Any) -> None:
    """So the counting notices it, and the key matters: with the factor 1 the first product is the id itself."""
    n = 4_000
    last = IDS[:n] * np.uint64(OLD_INVERSE)  # what the second product makes small numbers of
    hostile = adds(last ^ last >> np.uint64(32), CENT)
    assert keyed_steps(counted, hostile, 0, 1) > 20 * book_steps(counted, hostile)


def test_each_process_draws_a_key_of_its_own() -> None:
    source = (CSRC / "books" / "book_table.c").read_text()
    assert "getrandom(&sd_book_key" in source


@cache
def hostile_levels() -> dict[str, Ticks]:
    """Streams that change levels where a sorted array is slowest. None is shorter than N."""
    fall = adds(IDS, FALLING)
    shuffled = RNG.permutation(N)
    later = adds(IDS + np.uint64(N), np.full(N, CENT))
    near = fall[:511]
    wave = np.concatenate([part for _ in range(20) for part in (fall[:1_000], cancels(fall[:1_000][::-1]))])
    better = adds(IDS[:2_000] + np.uint64(N), CENT * (2 * N + 1 + np.arange(2_000)))
    return {
        "falling": fall,
        "rising": fall[::-1],
        "at random": fall[shuffled],
        "fall, the worst goes first": np.concatenate([fall, cancels(fall[::-1])]),
        "fall, the best goes first": np.concatenate([fall, cancels(fall)]),
        "fall, gone at random": np.concatenate([fall, cancels(fall[shuffled])]),
        "a worst one comes and goes": np.concatenate([near, in_turn(later, cancels(later))]),
        "a worst one of many comes and goes": np.concatenate([fall, in_turn(later, cancels(later))]),
        "waves": wave,
        "waves at the top of many": np.concatenate([fall, *[better, cancels(better[::-1])] * 10]),
        "cleared with one order left": np.concatenate([fall, cancels(fall[1:]), in_turn(clears(N), later)]),
        "cleared as soon as there is one": in_turn(later, clears(N)),
    }


@pytest.mark.python
@pytest.mark.parametrize("name", hostile_levels())
def test_levels_that_come_and_go_at_the_worst_place_cost_at_most_three_times(name: str, counted: Any) -> None:
    ticks = hostile_levels()[name]
    assert book_steps(counted, ticks) <= 3 * book_steps(counted, harmless(len(ticks)))


def as_depth(ticks: Ticks) -> Ticks:
    """The same levels as updates of them."""
    made = ticks.copy()
    made["kind"], made["order_id"] = 3, 0
    made["size"][made["action"] == b"C"] = 0
    made["action"][made["action"] != b"R"] = b"M"
    return made


@pytest.mark.python
@pytest.mark.parametrize("name", [name for name in hostile_levels() if "clear" not in name])
def test_books_of_levels_cost_at_most_three_times_too(name: str, counted: Any) -> None:
    ticks = as_depth(hostile_levels()[name])
    assert depth_steps(counted, ticks) <= 3 * depth_steps(counted, as_depth(harmless(len(ticks))))


@pytest.mark.python
def test_a_full_side_drops_its_worst_level_at_no_greater_cost(counted: Any) -> None:
    rising = as_depth(adds(IDS, FALLING[::-1]))
    for most in (100, 500, 513, 16_384):
        assert depth_steps(counted, rising, most) <= 3 * depth_steps(counted, as_depth(harmless(N)), most)


@pytest.mark.python
def test_a_book_of_levels_that_is_cut_to_a_price_costs_no_more(counted: Any) -> None:
    fall = as_depth(adds(IDS[:2_000], FALLING[:2_000]))
    cuts = as_depth(adds(IDS[:2_000], FALLING[:2_000]))
    cuts["action"] = b"R"
    ticks = np.concatenate([fall, cuts] * 10)
    assert depth_steps(counted, ticks) <= 3 * depth_steps(counted, as_depth(harmless(len(ticks))))


def far_apart(seed: int, n: int) -> tuple[Ticks, Any]:
    """Ticks of two symbols and both sides, on more levels than a ladder has: a drifting middle, bursts of cancels."""
    rng = np.random.default_rng(seed)
    ticks = ticks_for(rng.integers(0, 2, n), kind=1)
    phase = np.arange(n) // 2_000 % 3
    ticks["action"] = rng.choice([b"A", b"C", b"M", b"F"], n, p=[0.6, 0.25, 0.1, 0.05])
    ticks["action"][(phase == 2) & (rng.random(n) < 0.6)] = b"C"
    ticks["side"] = rng.choice([b"A", b"B"], n)
    ticks["order_id"] = rng.integers(1, 4_000, n)
    ticks["price"] = 10_000 + rng.integers(-1_500, 1_500, n) + 500 * phase
    ticks["size"] = rng.integers(0, 50, n)
    ticks["ref_id"] = np.where(rng.random(n) < 0.5, 0, rng.integers(1, 4_000, n))
    ticks["action"][rng.integers(n // 2, n, 2)] = b"R"
    return ticks, rng


def counted_parts(ticks: Ticks, parts: int) -> list[Ticks]:
    return [part for part in np.array_split(ticks, parts) if len(part)]


def test_deep_books_are_those_of_a_plain_one() -> None:
    ticks, _ = far_apart(0, 24_000)
    plain = [PlainBook(), PlainBook()]
    deepest = 0
    with Dispatcher(2, "book", workers=2, cores=None) as d:
        for part in counted_parts(ticks, 12):
            d.publish(part)
            d.drain()
            for t in part:
                plain[t["instrument_id"]].change(t)
            for key in range(2):
                found, row = d.books[key], d.rows[key]
                for side, letter in (("bid", b"B"), ("ask", b"A")):
                    assert as_tuples(found.levels(side), ("price", "size", "orders")) == plain[key].levels(letter)
                    fields = ("order_id", "price", "size", "ahead_orders", "ahead_size")
                    assert as_tuples(found.orders(side), fields) == plain[key].queue(letter)
                    deepest = max(deepest, len(found.levels(side)))
                expected = plain[key].row()
                del expected["crossed"], expected["ticks"]
                assert {name: int(row[name]) for name in expected} == expected
    assert deepest > 800


ORDERS = {
    "random": lambda prices, rng: rng.permutation(prices),
    "rising": lambda prices, _: np.sort(prices),
    "falling": lambda prices, _: np.sort(prices)[::-1],
}


@pytest.mark.cells(1)
@pytest.mark.parametrize("gone", ORDERS)
@pytest.mark.parametrize("come", ORDERS)
def test_tens_of_thousands_of_levels_come_and_go_in_any_order(come: str, gone: str) -> None:
    """Twice, with a clear between: more than a tree of two chunks one above the other holds."""
    rng = np.random.default_rng(11)
    prices = rng.choice(10**6, 20_000, replace=False) + 1
    first = ORDERS[come](prices, rng)
    leaving = ORDERS[gone](prices, rng)[:19_000]
    ids = {int(price): at + 1 for at, price in enumerate(first)}
    came = adds(np.arange(len(first)) + 1, first)
    came["side"] = np.where(first % 2, b"A", b"B")
    left = cancels(adds([ids[int(price)] for price in leaving], leaving))
    left["side"] = np.where(leaving % 2, b"A", b"B")
    there: set[int] = set()
    handlers = {"orders": "book", "levels": depth(max_levels=1 << 20)}
    with Dispatcher(list(handlers), handlers=handlers, workers=1) as d:
        for part in (*np.array_split(came, 3), *np.array_split(left, 5), clears(1), came, left):
            d.publish(part)
            updates = as_depth(part)
            updates["instrument_id"] = 1
            if (part["action"] == b"R").any():
                updates = np.concatenate([updates, updates])
                updates["side"], updates["price"] = [b"A", b"B"], UNDEF_PRICE
            d.publish(updates)
            d.drain()
            changed = {int(price) for price in part["price"]}
            there = there | changed if part["action"][0] == b"A" else there - changed
            if part["action"][0] == b"R":
                there = set()
            for letter, side in enumerate(("bid", "ask")):
                expected = sorted((price for price in there if price % 2 == letter), reverse=side == "bid")
                for key in range(2):
                    found = d.books[key].levels(side)
                    assert found["price"].tolist() == expected
                    assert set(found["size"].tolist()) <= {100}
                assert int(d.rows[0][f"{side}_levels"]) == len(expected)


@pytest.mark.parametrize("most", [600, 1 << 20])
def test_deep_books_of_levels_are_those_of_a_plain_one(most: int) -> None:
    ticks, rng = far_apart(9, 24_000)
    ticks["kind"] = 3
    ticks["price"] += np.where(ticks["side"] == b"B", -1, 1) * 1_000
    ticks["action"] = rng.choice([b"M", b"C", b"R"], len(ticks), p=[0.799, 0.2, 0.001])
    ticks["flags"] = np.where(rng.random(len(ticks)) < 0.0005, 4, 0)
    plain = [PlainDepth(64, most), PlainDepth(64, most)]
    deepest = 0
    with Dispatcher(2, depth(top=64, max_levels=most), workers=2, cores=None) as d:
        for part in counted_parts(ticks, 12):
            d.publish(part)
            d.drain()
            for t in part:
                plain[t["instrument_id"]].change(t)
            for key in range(2):
                found, row = d.books[key], d.rows[key]
                assert found.bids().tolist() == plain[key].levels("B")
                assert found.asks().tolist() == plain[key].levels("A")
                deepest = max(deepest, len(found.bids()))
                expected = plain[key].row()
                del expected["crossed"], expected["ticks"]
                assert {name: row[name].tolist() for name in expected} == expected
    assert deepest >= min(most, 700)
