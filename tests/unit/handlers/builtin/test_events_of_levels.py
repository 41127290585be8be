"""Levels change when their event ends: no book, quote or question shows a state in the middle of a message."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from depth_reference import PlainDepth
from hypothesis import given, settings
from hypothesis import strategies as st
from measure_reference import Top, overlap, queue

import strand
from examples import examples
from strand import UNDEF_PRICE, Dispatcher, bbo, depth, imbalance, spread, volatility
from strand.feeds import FeedInfo, Flags
from strand.feeds.mapping.events import with_ends
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_STATUS, KIND_TRADE, TICK, zeros

LAST, SNAPSHOT, BEST = 128, 32, 4
NANO = 10**9
FLAGS = Flags(best=BEST, snapshot=SNAPSHOT, last=LAST)
INFO = FeedInfo("made up", "memory", flags=FLAGS)
WITHOUT = FeedInfo("made up", "memory", flags=Flags(best=BEST, snapshot=SNAPSHOT))

Ticks = npt.NDArray[Any]


def as_lists(row: Any) -> dict[str, Any]:
    return {name: row[name].tolist() for name in row.dtype.names if name != "last_ts_recv"}


STREAMS = st.lists(
    st.tuples(
        st.sampled_from("MMMMMACCRN"),
        st.sampled_from("ABABABNNZ"),
        st.one_of(st.integers(1, 12), st.just(UNDEF_PRICE)),
        st.integers(0, 3),
        st.sampled_from([0, 0, 0, 5, 6, UNDEF_PRICE]),
        st.integers(0, 3),
        st.sampled_from([0, 0, 0, SNAPSHOT, SNAPSHOT, BEST]),
        st.sampled_from([0, 0, LAST]),
        st.sampled_from([0, 0, 1, 2]),
        st.sampled_from([KIND_QUOTE, KIND_QUOTE, KIND_QUOTE, KIND_QUOTE, KIND_TRADE, 1, KIND_STATUS]),
        st.integers(0, 1),
    ),
    max_size=150,
)


def stream(changes: list[Any]) -> Ticks:
    ticks = zeros(len(changes))
    for t, (action, side, price, size, order, ref, flags, last, level, kind, key) in zip(ticks, changes, strict=True):
        t["action"], t["side"], t["price"], t["size"] = action.encode(), side.encode(), price, size
        t["order_id"], t["ref_id"], t["flags"], t["depth"] = order, ref, flags | last, level
        t["kind"], t["instrument_id"] = kind, key
    return ticks


@settings(max_examples=examples(200), deadline=None)
@given(STREAMS, st.tuples(st.integers(1, 4), st.integers(1, 6)), st.integers(1, 50), st.integers(1, 3), st.booleans())
def test_rows_and_books_are_those_of_the_last_end_wherever_one_looks(
    changes: list[Any], sizes: tuple[int, int], batch: int, workers: int, ends: bool
) -> None:
    """Each tick ends an event where the feed says no ends."""
    top, most = sizes
    ticks = stream(changes)
    plain = [PlainDepth(top, most, last=LAST if ends else 0) for _ in range(2)]
    handler = depth(top=top, max_levels=most)
    with Dispatcher(2, handler, workers=workers, cores=None, feed=INFO if ends else WITHOUT) as d:
        for at in range(0, len(ticks), batch):
            d.publish(ticks[at : at + batch])
            d.drain()
            for t in ticks[at : at + batch]:
                plain[int(t["instrument_id"])].apply(t)
            for key, one in enumerate(plain):
                if one.count["ticks"]:
                    assert as_lists(d.rows[key]) == one.row()
                    assert d.books[key].bids().tolist() == one.levels("B")
                    assert d.books[key].asks().tolist() == one.levels("A")
                    assert len(d.books[key]) == len(one.sides["A"]) + len(one.sides["B"])
    for key, one in enumerate(plain):
        one.finish()
        if one.count["ticks"]:
            assert as_lists(d.rows[key]) == one.row()
            assert d.books[key].bids().tolist() == one.levels("B")


def messages(seed: int, count: int = 400) -> Ticks:
    """Changes of levels around a price that moves, several to a message; between its ticks tops that never stand."""
    rng = np.random.default_rng(seed)
    parts: list[Ticks] = []
    middle, sides = 1_000, {"B": set(), "A": set()}  # type: dict[str, set[int]] | Any
    for number in range(count):
        middle += int(rng.integers(-2, 3))
        made: list[tuple[str, int, int]] = []
        for side, sign in (("B", -1), ("A", 1)):
            wrong = [price for price in sides[side] if sign * (price - middle) <= 0]
            new = [middle + sign * int(distance) for distance in rng.integers(1, 6, int(rng.integers(1, 4)))]
            made += [(side, price, int(rng.integers(1, 9))) for price in new] + [(side, price, 0) for price in wrong]
            sides[side] = (sides[side] | set(new)) - set(wrong)
        ticks = zeros(len(made))
        for tick, (side, price, size) in zip(ticks, made, strict=True):
            tick["side"], tick["price"], tick["size"], tick["action"] = side.encode(), price * 10**9, size, b"M"
        ticks["kind"] = KIND_QUOTE
        ticks["ts_event"] = ticks["ts_recv"] = 10**9 * (1_700_000_000 + number)
        ticks["flags"][-1] = LAST
        parts.append(ticks)
        if number % 3 == 0:
            trade = zeros(1)
            trade["kind"], trade["action"], trade["side"], trade["flags"] = KIND_TRADE, b"T", b"B", LAST
            trade["price"], trade["size"] = (middle + 1) * 10**9, 2
            trade["ts_event"] = trade["ts_recv"] = ticks["ts_recv"][0] + 1
            parts.append(trade)
    return np.concatenate(parts)


def as_views(ticks: Ticks) -> Ticks:
    """The same market as quotes of both sides, one at the end of each event; trades stay."""
    plain, found = PlainDepth(last=LAST), []
    for tick in ticks:
        if tick["kind"] == KIND_TRADE:
            found.append(tick.copy())
        plain.apply(tick)
        if tick["kind"] == KIND_QUOTE and tick["flags"] & LAST:
            view = tick.copy()
            (bid, bid_size), (ask, ask_size) = plain.levels("B")[0], plain.levels("A")[0]
            view["side"], view["action"], view["price"], view["size"] = b"N", b"N", bid, bid_size
            view["order_id"], view["ref_id"] = ask, ask_size
            found.append(view)
    return np.array(found, TICK)


HANDLERS = {
    "bbo": bbo,
    "spread": lambda: spread(every="10s"),
    "imbalance": lambda: imbalance(every="10s"),
    "volatility": lambda: volatility(step="5s", price="mid"),
}


@pytest.mark.parametrize("name", HANDLERS)
def test_quotes_of_levels_are_those_of_the_tops_that_stood(name: str) -> None:
    ticks = messages(3)
    found, wanted = (
        strand.replay(strand.testing.feed(each, symbols=["ABC"], flags=FLAGS), HANDLERS[name](), workers=1, cores=None)
        for each in (ticks, as_views(ticks))
    )
    mine, theirs = (run.rows["ABC"] for run in (found, wanted))
    for field in mine.dtype.names or ():
        np.testing.assert_allclose(mine[field], theirs[field], rtol=1e-12, err_msg=field)
    for output in found.outputs:
        mine, theirs = (np.asarray(run.outputs[output]) for run in (found, wanted))
        assert len(mine) > 10 or name == "volatility"
        for field in mine.dtype.names or ():
            if field != "number":  # the tick's, of which there are more
                np.testing.assert_allclose(mine[field], theirs[field], rtol=1e-12, err_msg=field)
    if name == "bbo":
        assert found.rows["ABC"]["locked"] == 0
    assert not [w for w in found.warnings if w.kind in ("crossed quotes", "unusable ticks")]


def test_crossed_is_judged_at_ends_alone() -> None:
    ticks = messages(4)
    with Dispatcher(1, depth(), workers=1, cores=None, feed=INFO) as d:
        d.publish(ticks)
        d.drain()
    assert (d.rows[0]["crossed"], d.rows[0]["unended"]) == (0, 0)
    with Dispatcher(1, depth(), workers=1, cores=None, feed=WITHOUT) as each:
        each.publish(ticks)
        each.drain()
    assert each.rows[0]["crossed"] > 20
    assert each.books[0].bids().tolist() == d.books[0].bids().tolist()


def test_an_event_that_stays_open_ends_with_the_run_and_the_run_says_so() -> None:
    ticks = messages(5)
    ticks["flags"][-8:] = 0
    result = strand.replay(strand.testing.feed(ticks, symbols=["ABC"], flags=FLAGS), depth(), workers=1, cores=None)
    assert result.rows["ABC"]["unended"] == 1
    (warning,) = [w for w in result.warnings if w.kind == "unended events"]
    assert warning.count == 1


@pytest.mark.cells(1)
@pytest.mark.parametrize("name", HANDLERS)
@pytest.mark.parametrize("like", [messages, lambda seed: as_views(messages(seed))], ids=["levels", "views"])
def test_a_quote_whose_event_stays_open_is_warned_of(name: str, like: Any) -> None:
    ticks = like(5)
    ticks = ticks[: 1 + int(np.flatnonzero(ticks["kind"] == KIND_QUOTE)[-1])]  # no trade ends the last event
    day = zeros(1)
    day["kind"], day["action"], day["ts_recv"] = KIND_STATUS, b"R", ticks["ts_recv"][-1] + 1
    both = np.concatenate([ticks, day, ticks])
    both["ts_recv"][len(ticks) + 1 :] += ticks["ts_recv"][-1] + 2 - ticks["ts_recv"][0]

    def warned(ticks: Ticks, **options: Any) -> list[tuple[int, str]]:
        feed = strand.testing.feed(ticks, symbols=["ABC"], flags=FLAGS)
        result = strand.replay(feed, HANDLERS[name](), workers=1, cores=None, **options)
        return [(w.count, w.example) for w in result.warnings if w.kind == "unended events"]

    for each, count in ((ticks, 1), (both, 2)):
        assert warned(each) == []
        ends = np.isin(np.arange(len(each)), [len(ticks) - 1, len(each) - 1])
        each["flags"][ends] &= ~np.uint8(LAST)
        assert warned(each) == [(count, f"{count} of ABC")]
        assert warned(each, until=("ABC", len(each))) == ([(1, "1 of ABC")] if count == 2 else [])


def test_rows_are_the_same_on_any_number_of_workers_and_in_any_pieces() -> None:
    parts = []
    for key in range(5):
        ticks = messages(key, 120)
        ticks["instrument_id"] = key
        parts.append(ticks)
    ticks = np.concatenate(parts)
    ticks = ticks[np.argsort(ticks["ts_recv"], kind="stable")]
    names = [f"S{key}" for key in range(5)]
    for handler in (depth, lambda: strand.chain(depth(), bbo()), lambda: spread(every="7s")):
        prints = {
            strand.replay(
                strand.testing.feed(ticks, symbols=names, flags=FLAGS, batches=batch), handler(), workers=workers,
                cores=None,
            ).fingerprint
            for workers, batch in ((0, 1), (0, 10_000), (1, 13), (2, 1), (4, 13))
        }  # fmt: skip
        assert len(prints) == 1


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(1, 4)), max_size=60), st.integers(1, 9))
def test_rows_of_one_time_and_symbol_are_one_event_in_any_pieces(given_rows: list[Any], batch: int) -> None:
    ticks = zeros(len(given_rows))
    for tick, (time, key, kind) in zip(ticks, sorted(given_rows, key=lambda row: row[0]), strict=True):
        tick["ts_recv"], tick["instrument_id"], tick["kind"] = time, key, kind
    wanted = ticks.copy()
    last = {(int(t["ts_recv"]), int(t["instrument_id"])): at for at, t in enumerate(ticks) if t["kind"] != KIND_STATUS}
    wanted["flags"][list(last.values())] = LAST
    pieces = (ticks[at : at + batch] for at in range(0, len(ticks), batch))
    found = [each.copy() for each in with_ends(pieces, ("ts_recv",), LAST)]
    np.testing.assert_array_equal(np.concatenate([zeros(0), *found]), wanted)


def test_a_trade_at_the_end_of_a_snapshot_met_the_book_of_before() -> None:
    level, trade = (KIND_QUOTE, b"M"), (KIND_TRADE, b"T")
    rows = [
        (1, *level, b"B", 99, SNAPSHOT), (1, *level, b"A", 101, SNAPSHOT | LAST),
        (2, *level, b"B", 109, SNAPSHOT), (2, *level, b"A", 113, SNAPSHOT), (2, *trade, b"B", 103, LAST),
        (3, *trade, b"B", 113, LAST),
    ]  # fmt: skip
    ticks = zeros(len(rows))
    for tick, (time, kind, action, side, price, flags) in zip(ticks, rows, strict=True):
        tick["kind"], tick["action"], tick["side"], tick["flags"], tick["size"] = kind, action, side, flags, 1
        tick["ts_event"] = tick["ts_recv"] = time * 10**9
        tick["price"] = price * 10**9
    orders = ticks.copy()
    orders["order_id"], orders["kind"][ticks["kind"] == KIND_QUOTE] = np.arange(1, len(ticks) + 1), 1
    orders["action"][ticks["kind"] == KIND_QUOTE] = b"A"
    for each, what in ((ticks, "plain"), (orders, "dbn-orders")):
        feed = strand.testing.feed(each, symbols=["ABC"], flags=FLAGS, ticks=what)
        result = strand.replay(feed, spread(every="1s"), workers=1, cores=None)
        row = result.rows["ABC"]
        # 2 |103 - 100| and 2 |113 - 111|
        assert (row["trades"], row["unmatched"], row["effective_mean"]) == (2, 0, 5.0)
        assert result.outputs["spread"]["effective_mean"][1:].tolist() == [6.0, 4.0]


# ---- a recorded stream

PROFILE: dict[str, Any] = {
    "name": "binance",
    "size_unit": "0.00000001",
    "message": [
        *(
            {
                "where": {"data.e": "depthUpdate"}, "each": each, "kind": "quote", "symbol": "data.s", "more": more,
                "gapless": {"first": "data.U", "last": "data.u"},
                "fields": {"price": "0", "size": "1", "action": {"constant": "M"}, "side": {"constant": side},
                           "ts_event": {"column": "data.E", "unit": "ms"}},
            }
            for each, side, more in (("data.b", "B", True), ("data.a", "A", False))
        ),
        {"where": {"stream": "ethusdt@bookTicker"}, "kind": "none", "symbol": "data.s",
         "fields": {"sequence": "data.u"}},
        {"where": {"data.e": "trade"}, "kind": "trade", "symbol": "data.s",
         "fields": {"price": "data.p", "size": "data.q", "ts_event": {"column": "data.T", "unit": "ms"}}},
        *(
            {
                "each": each, "kind": "quote", "symbol": {"constant": "ETHUSDT"}, "more": more, "snapshot": "rest",
                "gapless": {"last": "lastUpdateId"},
                "fields": {"price": "0", "size": "1", "action": {"constant": "M"}, "side": {"constant": side}},
            }
            for each, side, more in (("bids", "B", True), ("asks", "A", False))
        ),
    ],
}  # fmt: skip


def tops_of(path: Path) -> list[tuple[int, int, int, int]]:
    """Best bid and ask after each message, by plain dicts."""
    sides: tuple[dict[int, int], ...] = {}, {}
    tops = []
    for line in gzip.decompress(path.read_bytes()).splitlines():
        message = json.loads(line.partition(b" ")[2])
        if "lastUpdateId" in message:
            sides, changes = ({}, {}), (message["bids"], message["asks"])
        elif message["data"].get("e") == "depthUpdate":
            changes = (message["data"]["b"], message["data"]["a"])
        else:
            continue
        for side, rows in zip(sides, changes, strict=True):
            side.update({int(Decimal(price) * 10**9): int(Decimal(size) * 10**8) for price, size in rows})
        bids, asks = sides = tuple({price: size for price, size in side.items() if size} for side in sides)
        if bids and asks:
            tops.append((max(bids), bids[max(bids)], min(asks), asks[min(asks)]))
    return tops


@pytest.fixture(scope="module")
def recording(shared_data: Path) -> Path:
    return shared_data / "jsonl" / "binance_spot_ethusdt_20240808.jsonl.gz"


@pytest.mark.python
def test_a_recorded_stream_shows_the_tops_after_whole_messages_and_no_other(recording: Path) -> None:
    seen: list[tuple[int, ...]] = []

    class Tops:
        def on_book(self, top: Any) -> None:
            if UNDEF_PRICE not in (top.bid_price, top.ask_price):
                seen.append((top.bid_price, top.bid_size, top.ask_price, top.ask_size))

    result = strand.replay(
        recording,
        strand.chain(depth(), Tops),
        workers=1,
        cores=None,
        feed_options={"profile": PROFILE, "batch_ticks": 997},
    )
    truth = tops_of(recording)
    changes = [top for top, before in zip(truth, [None, *truth], strict=False) if top != before]
    # Before the snapshot the book has what the changes say; from it on all of the book.
    assert seen == changes
    assert len(set(seen)) == 2_600
    assert not result.warnings
    assert all(bid < ask for bid, _, ask, _ in seen)


# ---- one market as orders and as levels


def as_orders_and_levels(seed: int, *, ends: bool) -> tuple[Ticks, Ticks, list[tuple[int, Top, bool]]]:
    """A market of one symbol as single orders and as price levels; and of each message its last time, the top that it
    left, and whether it clears the book. Times run back now and then. ``ends``: messages have several ticks, of which
    the last one ends an event."""
    rng = np.random.default_rng(seed)
    live: dict[int, tuple[bytes, int, int]] = {}
    rows: tuple[list[Any], list[Any]] = [], []
    messages: list[tuple[int, Top, bool]] = []
    now, number = 1000 * NANO, 0
    for _ in range(60):
        now += int(rng.choice([0, 1, 10**8, 10**8, 9 * 10**8, 3 * 10**9])) - 2 * 10**9 * int(rng.integers(0, 12) == 0)
        orders: list[Any] = []
        levels: list[Any] = []
        what = rng.random()
        if what < 0.15:
            orders = levels = [(now, KIND_TRADE, b"T", b"B", int(rng.integers(95, 105)) * 10**9, 2, 0, 0)]
        elif what < 0.2:
            orders = [(now, KIND_ORDER, b"R", b"N", 0, 0, 0, 0)]
            levels = [(now, KIND_QUOTE, b"R", b"N", UNDEF_PRICE, 0, UNDEF_PRICE, 0)]
            live.clear()
        while not orders or (ends and what > 0.2 and len(orders) < 3):
            if live and rng.random() < 0.5:
                key = int(rng.choice(list(live)))
                side, price, size = live.pop(key)
                action = b"C"
            else:
                number, action = number + 1, b"A"
                key, side, size = number, rng.choice([b"A", b"B"]), int(rng.integers(1, 5))
                price = (100 + (-1 if side == b"B" else 1) * int(rng.integers(0, 4))) * 10**9
                live[key] = (side, price, size)
            left = sum(size for its, at, size in live.values() if (its, at) == (side, price))
            orders.append((now, KIND_ORDER, action, side, price, size, key, 0))
            levels.append((now, KIND_QUOTE, b"M", side, price, left, 0, 0))
            now += int(rng.choice([0, 0, 10**9])) * ends
        now = orders[-1][0]
        for made, more in zip(rows, (orders, levels), strict=True):
            made.extend(more)
            made[-1] = (*made[-1][:-1], LAST * ends)
        best = []
        for its, choose in ((b"B", max), (b"A", min)):
            price = choose((at for side, at, _ in live.values() if side == its), default=None)
            best += [price, sum(size for side, at, size in live.values() if (side, at) == (its, price))]
        messages.append((now, Top(*best), orders[0][2] == b"R"))
    made = [zeros(len(each)) for each in rows]
    for ticks, each in zip(made, rows, strict=True):
        for tick, (at, kind, action, side, price, size, order, flags) in zip(ticks, each, strict=True):
            tick["ts_event"] = tick["ts_recv"] = at
            tick["kind"], tick["action"], tick["side"], tick["flags"] = kind, action, side, flags
            tick["price"], tick["size"], tick["order_id"] = price, size, order
    return made[0], made[1], messages


@pytest.mark.parametrize("ends", [False, True])
@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10**6), workers=st.sampled_from([0, 1]))
def test_records_have_the_same_times_from_levels_as_from_orders(ends: bool, seed: int, workers: int) -> None:
    orders, levels, messages = as_orders_and_levels(seed, ends=ends)
    flags = FLAGS if ends else WITHOUT.flags
    handlers = {
        "imbalance": [imbalance("1s"), imbalance("1s", partial=False), imbalance("1s", sessions="00:16:45-00:17 UTC")],
        "spread": [spread("1s"), spread("1s", fill=True), spread("1s", sessions="00:16:45-00:17 UTC")],
    }
    for name, several in handlers.items():
        for at, handler in enumerate(several):
            one, other = (
                strand.replay(
                    strand.testing.feed(ticks, symbols=["ABC"], flags=flags, ticks=what),
                    handler, workers=workers, cores=None,
                ).outputs[name]
                for ticks, what in ((orders, "dbn-orders" if ends else "orders"), (levels, "plain"))
            )  # fmt: skip
            places = ["number"] if ends else []  # the message's tick, which both have
            mine, theirs = (np.asarray(each)[[f for f in each.dtype.names if f not in places]] for each in (one, other))
            for field in mine.dtype.names or ():
                np.testing.assert_array_equal(mine[field], theirs[field], err_msg=f"{name} {at} {field}")
            if name == "imbalance" and at == 0:
                assert_plain(mine, messages)


def assert_plain(found: Ticks, messages: list[tuple[int, Top, bool]]) -> None:
    """Compares records of imbalance by the second, the unfinished one aside, with the changes of the top.

    A change counts at the latest time of a change or clear so far, to which the timer of an interval counts too.
    """
    events: Counter[int] = Counter()
    ended, tops = [], [(0, Top())]
    latest = feed = end = alarm = 0
    counts = False
    for time, top, clears in messages:
        feed = max(feed, time)
        changes = clears or top != tops[-1][1]
        if end and (alarm <= feed or (changes and end <= max(latest, time))):
            ended.append(end // NANO - 1)
            latest, end = max(latest, end if alarm <= feed else 0), 0
        if not changes:
            continue
        latest = max(latest, time)
        was = tops[-1][1]
        if not end and top != was:
            end = latest // NANO * NANO + NANO
            alarm = max(end, feed + 1)
        tops.append((latest, top))
        events[latest // NANO] += (clears and was != Top()) or (counts and not clears)
        counts = not clears
    done = found[found["flags"] == 0]
    assert done["end"].tolist() == (done["start"] + NANO).tolist()
    assert (done["ts"] >= done["end"]).all()
    ended = [second for second in ended if events[second]]
    assert done["start"].tolist() == [second * NANO for second in ended]
    assert done["events"].tolist() == [events[second] for second in ended]
    stood = [
        (top, time, until) for (time, top), (until, _) in pairwise([*tops, (feed, Top())]) if queue(top) is not None
    ]
    for record in done:
        parts = [(queue(top), overlap(time, until, [(record["start"], record["end"])])) for top, time, until in stood]
        total = sum(ns for _, ns in parts)
        mean = float(sum(each * ns for each, ns in parts) / total) if total else np.nan
        np.testing.assert_allclose(record["queue_mean"], mean, rtol=1e-9, atol=1e-9)
