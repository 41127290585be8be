"""Fingerprints stand for what a run left, and for nothing else; what is recorded comes back from its file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_feed import order_feed

import strand
from strand.output.fingerprint import (
    OutputDigest,
    Running,
    layout_of,
    packed,
)

pytestmark = pytest.mark.python


def of(ticks: Any, names: Any, handler: Any = "count", **options: Any) -> str:
    return strand.replay(order_feed(ticks, names), handler, **{"workers": 1, "cores": None, **options}).fingerprint


def an_order(ticks: Any) -> int:
    """The position of an added order in the middle of the day."""
    return int(np.flatnonzero(ticks["action"] == b"A")[500])


@pytest.mark.parametrize("field", ["ts_recv", "sequence", "size", "price"])
def test_a_changed_field_of_one_tick_that_the_handler_uses_is_another_fingerprint(order_day: Any, field: str) -> None:
    ticks, names = order_day
    before = of(ticks, names)
    # The tick that its symbol's row remembers: the last trade for price and size, else the last of all.
    key = ticks["instrument_id"][ticks["kind"] == 2][0]
    mine = ticks["instrument_id"] == key
    if field in ("size", "price"):
        mine &= ticks["kind"] == 2
    last = ticks[np.flatnonzero(mine)[-1] :][:1]
    last[field] = last[field] + 1
    assert of(ticks, names) != before


@pytest.mark.parametrize("field", ["action", "side", "price", "size", "order_id"])
def test_a_changed_field_of_one_order_is_another_fingerprint_of_the_books(order_day: Any, field: str) -> None:
    """Of an order that rests until the end: what became of others may leave no trace in the row."""
    ticks, names = order_day
    one = ticks[an_order(ticks) : an_order(ticks) + 1].copy()
    one["order_id"], one["price"], one["side"], one["size"] = 2**40, 10**9, b"B", 100
    later = np.concatenate([ticks, one, one])
    later["order_id"][-1] += 1
    before = of(later, names, "book")
    change = {"action": b"C", "side": b"A", "price": 2 * 10**15, "size": 999, "order_id": 2**40}
    at = -1 if field == "order_id" else -2
    if field == "size":
        later["price"][-2:] = 10**15  # the best bid, whose size the row shows
        before = of(later, names, "book")
    later[field][at] = change[field]
    assert of(later, names, "book") != before


def test_a_field_no_handler_uses_leaves_the_fingerprint_and_shows_in_that_of_the_input(order_day: Any) -> None:
    ticks, names = order_day
    runs = []
    for _ in range(2):
        runs.append(strand.replay(order_feed(ticks, names), "vwap", workers=1, fingerprint_every=1000).intervals)
        ticks["flags"][1500] ^= 1
    assert [i.fingerprint for i in runs[0]] == [i.fingerprint for i in runs[1]]
    assert [a.input == b.input for a, b in zip(*runs, strict=True)] == [True, *([False] * (len(runs[0]) - 1))]


def test_two_ticks_of_a_symbol_that_change_places_are_another_fingerprint(order_day: Any) -> None:
    ticks, names = order_day
    before = of(ticks, names)
    last = np.flatnonzero(ticks["instrument_id"] == ticks["instrument_id"][-1])[-2:]
    ticks[last] = ticks[last[::-1]]
    assert of(ticks, names) != before


def test_one_tick_more_is_another_fingerprint_though_the_row_is_the_same(order_day: Any) -> None:
    ticks, names = order_day

    @strand.batch_handler(state=[("n", "u8")])
    def nothing(symbol: str, ticks: Any, row: Any) -> None:
        pass

    assert of(ticks, names, nothing) != of(ticks[:-1], names, nothing)


def test_two_symbols_with_each_other_s_rows_are_another_fingerprint(order_day: Any) -> None:
    ticks, names = order_day
    a, b = np.unique(ticks["instrument_id"])[:2]
    swapped = list(names)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    assert of(ticks, names) != of(ticks, swapped)


def test_how_symbols_are_numbered_does_not_matter(order_day: Any) -> None:
    ticks, names = order_day
    order = np.random.default_rng(3).permutation(len(names) + 7)  # with free numbers between
    again = ticks.copy()
    again["instrument_id"] = order[ticks["instrument_id"]]
    renamed = [""] * len(order)
    for i, name in enumerate(names):
        renamed[order[i]] = name
    results = [
        strand.replay(order_feed(t, n), "count", workers=1, fingerprint_every=700)
        for t, n in ((ticks, names), (again, renamed))
    ]
    assert results[0].fingerprint == results[1].fingerprint
    assert results[0].intervals == results[1].intervals


def test_the_same_bytes_under_other_field_names_or_types_are_another_fingerprint(order_day: Any) -> None:
    ticks, names = order_day

    def tally(fields: Any) -> Any:
        def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
            row[fields[0][0]] += len(ticks)

        return strand.batch_handler(state=fields)(on_ticks)

    made = [of(ticks, names, tally([field])) for field in (("n", "u8"), ("m", "u8"), ("n", "i8"))]
    assert len(set(made)) == 3


def test_padding_between_fields_is_left_out() -> None:
    inner = np.dtype([("a", "u1"), ("b", "u8")], align=True)
    dtype = np.dtype([("x", "u1"), ("y", "u8"), ("pair", inner, (2,)), ("z", "u2")], align=True)
    assert layout_of(dtype).itemsize == 1 + 8 + 2 * 9 + 2 < dtype.itemsize
    rows = np.zeros(3, dtype)
    rows.view(np.uint8)[:] = 0xAB
    again = np.zeros(3, dtype)
    for name in ("x", "y", "z"):
        again[name] = rows[name]
    again["pair"]["a"], again["pair"]["b"] = rows["pair"]["a"], rows["pair"]["b"]
    assert rows.tobytes() != again.tobytes()
    assert packed(rows).tobytes() == packed(again).tobytes() == b"\xab" * (3 * 29)


def test_symbols_without_a_tick_and_a_row_do_not_count(order_day: Any) -> None:
    ticks, names = order_day
    assert of(ticks, names) == of(ticks, [*names, "NEVER", "SEEN"])


def test_an_output_s_digest_depends_on_its_records_in_order_and_not_on_pieces() -> None:
    records = np.zeros(100, [("sequence", "u8"), ("v", "f8")])
    records["sequence"], records["v"] = np.arange(100), np.sqrt(np.arange(100))

    def digest(*pieces: Any) -> bytes:
        made = OutputDigest(records.dtype)
        for piece in pieces:
            made.add(piece)
        assert made.records == sum(map(len, pieces))
        return made.digest()

    assert digest(records) == digest(*np.array_split(records, 9)) != digest(records[::-1])
    other = records.copy()
    other["v"][50] = np.nextafter(other["v"][50], 9)
    assert digest(other) != digest(records)
    assert OutputDigest(np.dtype([("a", "u8")])).digest() != OutputDigest(np.dtype([("b", "u8")])).digest()


def test_input_digests_depend_on_each_symbol_s_ticks_in_order_and_not_on_numbers_or_pieces(order_day: Any) -> None:
    ticks, names = order_day
    keys = np.unique(ticks["instrument_id"]).tolist()

    def digests(ticks: Any, pieces: int) -> Any:
        running = Running()
        for piece in np.array_split(ticks, pieces):
            running.add(piece)
        return running.digests(names, keys)

    whole = digests(ticks, 1)
    assert (digests(ticks, 13) == whole).all()
    apart = ticks[np.argsort(ticks["instrument_id"], kind="stable")]
    assert (digests(apart, 1) == whole).all()
    mine = np.flatnonzero(ticks["instrument_id"] == keys[3])[4:6]
    ticks[mine] = ticks[mine[::-1]]
    assert np.flatnonzero((digests(ticks, 1) != whole).any(axis=1)).tolist() == [3]
