"""Books by Databento's rules: events, a book per publisher, tops, and changes of orders from before the file began."""

from __future__ import annotations

import datetime as dt
import struct
from pathlib import Path
from typing import Any

import dbn_reference as ref
import numpy as np
import numpy.typing as npt
import pytest
from book_reference import LEVEL_FIELDS, as_tuples
from databento_book import LAST, TOP, DatabentoBook
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_run import plain_run
from reading import ticks_of

import strand
from examples import examples
from strand import UNDEF_PRICE, Dispatcher, book, imbalance, replay, spread, volatility
from strand.caller.run import CallerRun
from strand.errors import ConfigurationError, HandlerError
from strand.ticks import KIND_ORDER, KIND_STATUS, KIND_TRADE, zeros

SNAPSHOT = 32 | 8
SECOND = 1_000_000_000

#: Levels of each side in a row.
TOP_LEVELS = 3


def records(*given: tuple[Any, ...]) -> npt.NDArray[Any]:
    """(action, order, side, price, size, flags) and a publisher, 1 by default; a second apart."""
    ticks = zeros(len(given))
    for i, (tick, (action, order, side, price, size, flags, *publisher)) in enumerate(
        zip(ticks, given, strict=True), 1
    ):
        tick["action"], tick["side"] = action.encode(), side.encode()
        tick["order_id"], tick["price"], tick["size"], tick["flags"] = order, price, size, flags
        tick["publisher_id"] = publisher[0] if publisher else 1
        tick["kind"] = KIND_TRADE if action == "T" else KIND_ORDER
        tick["ts_recv"] = tick["ts_event"] = i * SECOND
        tick["sequence_low"] = i
    return ticks


def clear_of_day(at: int) -> npt.NDArray[Any]:
    made = records(("R", 0, "N", UNDEF_PRICE, 0, 0, 0))
    made["kind"] = KIND_STATUS
    made["ts_recv"] = made["ts_event"] = at
    return made


def after_each(ticks: npt.NDArray[Any], *, symbols: int = 1) -> list[dict[str, Any]]:
    """The row of symbol 0 after each tick."""
    found = []
    handler = book(fills="report", top=TOP_LEVELS)
    with CallerRun(symbols, handler) as loop:
        for i in range(len(ticks)):
            loop.publish(ticks[i : i + 1])
            row = loop._engine.rows(handler.state)[0]
            found.append({name: row[name].tolist() for name in handler.state.names or ()})
    return found


def tops(rows: list[dict[str, Any]]) -> list[tuple[int, int, int, int]]:
    return [(row["bid_price"], row["bid_size"], row["ask_price"], row["ask_size"]) for row in rows]


def run(ticks: npt.NDArray[Any]) -> Dispatcher:
    with Dispatcher(["ES"], "book", workers=1, cores=None, feed="dbn-orders") as d:
        d.publish(ticks)
        d.drain()
    return d


QUOTED = (("A", 1, "B", 100, 5, LAST), ("A", 2, "A", 102, 7, LAST))
NONE = UNDEF_PRICE


# ---- events


def test_a_top_inside_an_event_is_never_seen() -> None:
    """A sweep of the ask that leaves a rest on the bid: in between the book is crossed."""
    ticks = records(
        *QUOTED,
        ("T", 0, "B", 102, 7, 0),
        ("F", 2, "A", 102, 7, 0),
        ("A", 3, "B", 103, 4, 0),
        ("C", 2, "A", 102, 7, 0),
        ("A", 4, "A", 105, 9, LAST),
    )
    rows = after_each(ticks)
    assert tops(rows) == [
        (100, 5, NONE, 0), *[(100, 5, 102, 7)] * 5, (103, 4, 105, 9),
    ]  # fmt: skip
    assert [row["orders"] for row in rows] == [1, 2, 2, 2, 2, 2, 3]
    assert [row["volume"] for row in rows] == [0, 0, 7, 7, 7, 7, 7]
    assert rows[-1]["crossed"] == 0
    quoted = plain_run(spread(book=True, fills="report"), ticks, 1).rows[0]
    assert (quoted["quotes"], quoted["locked"], quoted["trades"]) == (3, 0, 1)
    assert quoted["effective"] == pytest.approx(2e-9)  # of the quote of 100 to 102, which the event found
    prices = plain_run(volatility(ticks=1, price="mid", book=True, fills="report"), ticks, 1).rows[0]
    assert (prices["prices"], prices["price"]) == (2, 104)


def test_on_book_is_called_at_the_end_of_an_event() -> None:
    seen: list[tuple[int, ...]] = []

    class Tops:
        def on_book(self, top: Any) -> None:
            seen.append((top.ticks, top.bid_price, top.ask_price))

    ticks = records(*QUOTED, ("A", 3, "B", 101, 1, 0), ("C", 3, "B", 101, 1, 0), ("A", 4, "B", 101, 2, LAST))
    with Dispatcher(["ES"], strand.chain(book(), Tops), workers=1, cores=None, feed="dbn-orders") as d:
        for i in range(len(ticks)):
            d.publish(ticks[i : i + 1])
            d.drain()
    assert seen == [(1, 100, NONE), (2, 100, 102), (5, 101, 102)]


def test_a_snapshot_is_one_event_and_no_flow_comes_of_it() -> None:
    ticks = records(
        *QUOTED,
        ("R", 0, "N", NONE, 0, SNAPSHOT),
        ("A", 11, "B", 98, 3, SNAPSHOT),
        ("A", 12, "B", 99, 4, SNAPSHOT),
        ("A", 13, "A", 101, 6, SNAPSHOT | LAST),
        ("A", 14, "B", 99, 10, LAST),
    )
    assert tops(after_each(ticks))[1:] == [*[(100, 5, 102, 7)] * 4, (99, 4, 101, 6), (99, 14, 101, 6)]
    queued = plain_run(imbalance(book=True, fills="report"), ticks, 1).rows[0]
    # The second quote of all, an ask that comes to an empty side, and the last order's 10.
    before = plain_run(imbalance(book=True, fills="report"), ticks[:2], 1).rows[0]
    assert [int(np.frombuffer(row["ofi"].tobytes(), "<i8")[0]) for row in (before, queued)] == [-7, 3]
    assert (queued["quotes"], queued["events"]) == (4, before["events"] + 1)
    quoted = plain_run(spread(book=True, fills="report"), ticks, 1).rows[0]
    assert quoted["quotes"] == 4
    assert quoted["one_sided"] == 1  # the very first
    # 102 - 100 for the four seconds up to the snapshot's end, 101 - 99 for one more.
    assert (quoted["quoted_ns"], quoted["quoted"]) == (5 * SECOND, pytest.approx(2e-9))


def test_the_table_of_tops_has_one_row_for_an_event() -> None:
    ticks = records(
        *QUOTED,
        ("C", 2, "A", 102, 7, 0),
        ("A", 4, "A", 105, 9, LAST),
        ("R", 0, "N", NONE, 0, SNAPSHOT),
        ("A", 8, "B", 50, 1, SNAPSHOT),
        ("A", 9, "A", 60, 2, SNAPSHOT | LAST),
        ("R", 0, "N", NONE, 0, LAST),
    )
    told = plain_run(strand.bbo(book=True, fills="report"), ticks, 1).records
    assert as_tuples(told, ("sequence", "bid", "bid_size", "ask", "ask_size")) == [
        (1, 100, 5, NONE, 0), (2, 100, 5, 102, 7), (4, 100, 5, 105, 9), (7, 50, 1, 60, 2), (8, NONE, 0, NONE, 0)
    ]  # fmt: skip


def test_an_interval_that_ends_inside_an_event_has_the_top_of_the_event_before() -> None:
    ticks = records(*QUOTED, ("C", 2, "A", 102, 7, 0), ("A", 3, "A", 104, 7, 0), ("N", 0, "N", NONE, 0, LAST))
    ran = plain_run(spread("1s", fill=True, book=True, fills="report"), ticks, 1)
    told = {int(r["start"]) // SECOND: int(r["ask"]) for r in ran.records}
    assert [told[second] for second in (2, 3, 4)] == [102, 102, 102]
    assert ran.rows[0]["ask"] == 104


def test_what_no_event_has_ended_stays_unseen_until_a_day_clears_it() -> None:
    ticks = np.concatenate(
        [
            records(*QUOTED, ("A", 3, "B", 101, 1, 0)),
            clear_of_day(10 * SECOND),
            records(("A", 1, "B", 90, 2, 0), ("A", 2, "A", 95, 3, LAST)),
        ]
    )
    rows = after_each(ticks)
    assert tops(rows)[2:] == [(100, 5, 102, 7), (NONE, 0, NONE, 0), (NONE, 0, NONE, 0), (90, 2, 95, 3)]
    assert [row["duplicates"] for row in rows] == [0] * 6


def test_books_are_asked_as_the_last_record_left_them() -> None:
    d = run(records(*QUOTED, ("A", 3, "B", 101, 1, 0)))
    found = d.books["ES"]
    assert as_tuples(found.bids(), LEVEL_FIELDS) == [(101, 1, 1), (100, 5, 1)]
    assert len(found) == 3
    assert len(found.orders("bid")) == 2
    row = d.rows["ES"]
    assert (row["bid_price"], row["orders"], row["bid_levels"], row["ticks"]) == (100, 2, 1, 3)


# ---- orders


def test_a_change_of_an_unknown_order_adds_it() -> None:
    d = run(records(*QUOTED, ("M", 9, "B", 101, 3, LAST), ("M", 9, "B", 101, 2, LAST), ("C", 8, "B", 100, 1, LAST)))
    row = d.rows["ES"]
    assert (row["bid_price"], row["bid_size"], row["orders"], row["unknown"], row["unusable"]) == (101, 2, 3, 1, 0)


def test_a_record_of_a_top_is_all_of_its_side() -> None:
    ticks = records(
        *QUOTED,
        ("A", 3, "B", 99, 1, LAST),
        ("A", 0, "B", 98, 30, LAST | TOP),
        ("A", 0, "A", 103, 20, LAST | TOP),
        ("A", 0, "B", 97, 10, LAST | TOP),
        ("A", 0, "A", NONE, 0, LAST | TOP),
        ("A", 5, "B", 99, 1, LAST),
    )
    rows = after_each(ticks)
    assert tops(rows)[2:] == [
        (100, 5, 102, 7), (98, 30, 102, 7), (98, 30, 103, 20), (97, 10, 103, 20), (97, 10, NONE, 0), (97, 10, NONE, 0)
    ]  # fmt: skip
    # Nobody says how many orders make such a top, and beside it there is no order.
    assert [row["orders"] for row in rows] == [1, 2, 3, 1, 0, 0, 0, 0]
    assert [row["bid_orders"] for row in rows[-3:]] == [0] * 3
    assert [row["bid_levels"] for row in rows[-3:]] == [1] * 3
    assert rows[-1]["unusable"] == 1
    found = run(ticks).books["ES"]
    assert (len(found), len(found.orders("bid")), found.order(2**64 - 2)) == (0, 0, None)
    assert as_tuples(found.bids(), LEVEL_FIELDS) == [(97, 10, 0)]


# ---- publishers


def test_each_publisher_has_a_book_and_the_row_the_best_of_all() -> None:
    ticks = records(
        ("A", 1, "B", 100, 5, LAST, 3),
        ("A", 2, "A", 104, 1, LAST, 3),
        ("A", 1, "B", 101, 2, LAST, 7),  # the same id is another order
        ("A", 2, "A", 104, 6, LAST, 7),
        ("C", 1, "B", 101, 2, 0, 7),
        ("A", 9, "B", 99, 8, LAST, 3),  # ends its own event, and not the other one's
        ("A", 4, "B", 100, 1, LAST, 7),
        ("R", 0, "N", NONE, 0, LAST, 3),
    )
    rows = after_each(ticks)
    assert tops(rows)[2:] == [
        (101, 2, 104, 1), (101, 2, 104, 7), (101, 2, 104, 7), (101, 2, 104, 7), (100, 6, 104, 7), (100, 1, 104, 6)
    ]  # fmt: skip
    assert [(row["unknown"], row["duplicates"]) for row in rows] == [(0, 0)] * 8
    found = run(ticks[:-1]).books["ES"]
    assert found.publishers == (3, 7)
    assert as_tuples(found.bids(), LEVEL_FIELDS) == [(100, 6, 2), (99, 8, 1)]
    assert as_tuples(found.bids(1), LEVEL_FIELDS) == [(100, 6, 2)]
    assert as_tuples(found.asks(), LEVEL_FIELDS) == [(104, 7, 2)]
    assert as_tuples(found.publisher(7).bids(), LEVEL_FIELDS) == [(100, 1, 1)]
    assert as_tuples(found.publisher(3).orders("bid"), ("order_id", "size")) == [(1, 5), (9, 8)]
    assert found.publisher(7).order(1) is None
    assert (len(found), len(found.publisher(3)), len(found.publisher(7))) == (5, 3, 2)
    for ask in (lambda: found.orders("bid"), lambda: found.order(1)):
        with pytest.raises(ConfigurationError, match=r"give a publisher, book.publisher\(id\)"):
            ask()
    with pytest.raises(ConfigurationError, match="publisher_id: 4 is not one of ES's publishers: 3, 7"):
        found.publisher(4)


def test_too_many_publishers_are_an_error() -> None:
    ticks = records(*(("A", 1, "B", 100, 5, LAST, i) for i in range(65)))
    assert run(ticks[:64]).rows["ES"]["bid_size"] == 64 * 5
    with pytest.raises(HandlerError, match="more than 64 publishers"):
        run(ticks)


CHANGE = st.tuples(
    st.sampled_from("AAAAAACCMMMRTFN"),
    st.integers(1, 8),
    st.sampled_from("ABABABN"),
    st.one_of(st.integers(1, 6), st.just(UNDEF_PRICE)),
    st.integers(0, 4),
    st.sampled_from([0, 0, 0, LAST, LAST, LAST, LAST | TOP, TOP, 32, 32, 32 | LAST]),
    st.sampled_from([1, 1, 1, 2, 3]),
)
#: Lists without a least length have five elements in the mean.
CHANGES = st.lists(CHANGE, max_size=120) | st.lists(CHANGE, min_size=40, max_size=120)


@settings(max_examples=examples(120), deadline=None)
@given(CHANGES, st.integers(1, 3), st.integers(0, 120))
def test_any_stream_leaves_the_rows_and_books_of_a_plain_reading(changes: Any, most: int, day: int) -> None:
    ticks = records(*((*change[:6], min(change[6], most)) for change in changes))
    ticks = np.concatenate([ticks[:day], clear_of_day(0), ticks[day:]])
    plain = DatabentoBook()
    rows = after_each(ticks)
    for tick, row in zip(ticks, rows, strict=True):
        plain.apply(tick)
        expected = plain.row()
        assert {name: row[name] for name in expected} == expected
        for side, letter in (("bid", b"B"), ("ask", b"A")):
            none = [(UNDEF_PRICE, 0, 0)] * TOP_LEVELS
            levels = (plain.shown(letter) + none)[:TOP_LEVELS]
            assert list(zip(row[f"{side}_prices"], row[f"{side}_sizes"], row[f"{side}_counts"], strict=True)) == levels
    found = run(ticks)
    for side, letter in (("bid", b"B"), ("ask", b"A")):
        assert as_tuples(found.books["ES"].levels(side), LEVEL_FIELDS) == plain.levels(letter)
        for number, publisher in plain.publishers.items():
            one = found.books["ES"].publisher(number)
            assert as_tuples(one.levels(side), LEVEL_FIELDS) == publisher.levels(letter)
            assert len(one) == len(publisher.orders) == len(one.orders("bid")) + len(one.orders("ask"))
    assert found.books.live_orders == sum(len(publisher.orders) for publisher in plain.publishers.values())
    assert found.books.bytes > found.books.order_bytes


# ---- snapshots

#: Of Monday: a bid, an ask, and a bid whose cancel was lost.
MONDAY = [("A", 1, "B", 100, 3, LAST), ("A", 2, "A", 102, 4, LAST), ("A", 3, "B", 99, 5, LAST)]
WITH_CLEAR = [("R", 0, "N", UNDEF_PRICE, 0, SNAPSHOT)]
RESTING = [("A", 1, "B", 100, 3, SNAPSHOT), ("A", 2, "A", 102, 4, SNAPSHOT | LAST)]


@pytest.mark.parametrize("begins", [[], WITH_CLEAR], ids=["as it is", "with a clear record"])
def test_a_snapshot_replaces_the_book_whatever_stood_before(begins: list[Any]) -> None:
    for ticks in (
        records(*MONDAY, *begins, *RESTING),
        records(*MONDAY, *begins, ("A", 9, "A", 101, 1, SNAPSHOT | LAST), *begins, *RESTING),  # two in a row
    ):
        found = run(ticks)
        row = found.rows["ES"]
        assert as_tuples(found.books["ES"].levels("bid"), LEVEL_FIELDS) == [(100, 3, 1)]
        assert as_tuples(found.books["ES"].levels("ask"), LEVEL_FIELDS) == [(102, 4, 1)]
        assert (row["orders"], row["duplicates"], row["unknown"], row["crossed"]) == (2, 0, 0, 0)


def test_records_of_a_snapshot_that_end_an_event_each_are_one_snapshot() -> None:
    ticks = records(*MONDAY, ("A", 7, "B", 98, 1, SNAPSHOT | LAST), ("A", 8, "A", 103, 2, SNAPSHOT | LAST))
    ticks["ts_recv"][3:] = 10 * SECOND
    found = run(ticks)
    assert as_tuples(found.books["ES"].levels("bid"), LEVEL_FIELDS) == [(98, 1, 1)]
    assert as_tuples(found.books["ES"].levels("ask"), LEVEL_FIELDS) == [(103, 2, 1)]


def test_a_snapshot_makes_no_order_flow() -> None:
    # A better bid comes with the snapshot; then one is added to it.
    ticks = records(
        *MONDAY, ("A", 4, "B", 101, 8, SNAPSHOT), ("A", 2, "A", 102, 4, SNAPSHOT | LAST), ("A", 5, "B", 101, 2, LAST)
    )
    for handler in (imbalance(book=True, fills="report"), imbalance(book=True, fills="report", every="1h")):
        with CallerRun(["ES"], handler) as loop:
            loop.publish(ticks[:3])
            before = int(loop.rows["ES"]["ofi"])
            loop.publish(ticks[3:5])
            assert int(loop.rows["ES"]["ofi"]) == before
            loop.publish(ticks[5:])
            assert int(loop.rows["ES"]["ofi"]) == before + 2


# ---- files


@pytest.mark.parametrize("name", ["esh4", pytest.param("orderbooks", marks=pytest.mark.python)])
def test_recorded_futures_show_the_tops_of_a_plain_reading_of_events(shared_data: Path, name: str) -> None:
    pytest.importorskip("databento_dbn")
    (path,) = (shared_data / "dbn-es").glob(f"{name}*")
    with strand.feeds.open(path) as feed:
        ticks = ticks_of(feed)
    key = int(ticks["instrument_id"][0])
    # An empty book is told with the first record.
    expected: list[tuple[int, ...]] = [(NONE, 0, NONE, 0)]
    plain = DatabentoBook()
    row: dict[str, int] = {}
    for tick in ticks:
        plain.apply(tick)
        if tick["flags"] & LAST:  # else nothing that is shown is another
            row = plain.row()
            expected.append(tuple(row[field] for field in ("bid_price", "bid_size", "ask_price", "ask_size")))
    seen: list[tuple[int, ...]] = []

    class Tops:
        def on_book(self, top: Any) -> None:
            seen.append((top.bid_price, top.bid_size, top.ask_price, top.ask_size))

    result = replay(path, strand.chain(book(), Tops), workers=1, cores=None)
    assert seen == [top for top, before in zip(expected, [None, *expected], strict=False) if top != before]
    found = result.rows.at(key)["book"]
    assert {field: int(found[field]) for field in row if field != "ticks"} == {
        field: value for field, value in plain.row().items() if field != "ticks"
    }
    assert result.books is not None
    for side, letter in (("bid", b"B"), ("ask", b"A")):
        assert as_tuples(result.books[key].levels(side), LEVEL_FIELDS) == plain.levels(letter)


def day_file(folder: Path, day: int, *parts: bytes) -> Path:
    import databento_dbn as library

    start = ref.NOON + day * ref.DAY
    names = {"ES": [(dt.date(1970, 1, 1), dt.date(2500, 1, 1), "7")]}
    path = folder / f"day{day}.mbo.dbn"
    head = ref.metadata(3, names, schema=library.Schema.MBO, start=start, dataset="XNAS.ITCH")
    path.write_bytes(head + b"".join(parts))
    return path


def test_of_two_files_each_is_a_day_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("databento_dbn")
    later = {"received": ref.NOON + ref.DAY, "event": ref.NOON + ref.DAY}
    # Monday ends in the middle of an event. Tuesday gives its ids out anew.
    monday = day_file(
        tmp_path, 0, ref.mbo(order=1), ref.mbo(order=2, side=b"A", price=2 * 10**9), ref.mbo(order=3, flags=0)
    )
    tuesday = day_file(tmp_path, 1, ref.mbo(order=1, price=10**9 + 5, size=8, **later))
    alone = replay(tuesday, "book", workers=1, cores=None)
    both = replay([monday, tuesday], "book", workers=1, cores=None, per_day=True)
    assert [day.rows["ES"]["ask_price"] for day in both.days] == [2 * 10**9, UNDEF_PRICE]
    assert both.days[1].fingerprint == alone.fingerprint
    row = both.rows["ES"]
    assert (row["bid_price"], row["bid_size"], row["orders"]) == (10**9 + 5, 8, 1)
    assert (row["duplicates"], row["unknown"]) == (0, 0)
    assert both.books is not None
    assert len(both.books["ES"]) == 1
    carried = replay([monday, tuesday], "book", workers=1, cores=None, feed_options={"carry_over": True})
    assert (carried.rows["ES"]["duplicates"], carried.rows["ES"]["ask_price"]) == (1, 2 * 10**9)


@pytest.mark.parametrize("flags", [0, 128])
def test_views_beside_trades_and_samples_are_whole_whatever_their_flags(tmp_path: Path, flags: int) -> None:
    """Trades of one sweep come without F_LAST but for the last one, and a sample is of no event at all."""
    databento_dbn = pytest.importorskip("databento_dbn")
    tops = [((99 + i) * 10**9, (101 + i) * 10**9) for i in range(4)]
    views = [struct.pack("<qqIIII", bid, ask, 3, 4, 1, 1) for bid, ask in tops]
    for schema, rtype, heads in (
        (
            databento_dbn.Schema.TBBO,
            0x01,
            [struct.pack("<qIccBBQiI", 10**11, 1, b"T", b"A", flags, 0, ref.NOON, 1, i) for i in range(4)],
        ),
        (
            databento_dbn.Schema.BBO_1S,
            0xC3,
            [struct.pack("<qIxcBxQ4xI", 5, 6, b"N", flags, ref.NOON, i) for i in range(4)],
        ),
    ):
        path = tmp_path / f"{flags}.{rtype}.dbn"
        path.write_bytes(
            ref.metadata(3, {"ES": [(*ref.ALL_DAYS, "7")]}, schema=schema)
            + b"".join(ref.record(rtype, head + view, event=ref.NOON) for head, view in zip(heads, views, strict=True))
        )
        quotes = strand.replay(path, "bbo").outputs["bbo"]
        assert list(zip(quotes["bid"].tolist(), quotes["ask"].tolist(), strict=True)) == tops
        assert strand.replay(path, "depth").rows["ES"]["bid_price"] == tops[-1][0]
    spread = strand.replay(tmp_path / f"{flags}.1.dbn", strand.spread()).rows["ES"]
    assert (spread["trades"], spread["unmatched"]) == (4, 0)


@pytest.mark.parametrize(
    ("rtype", "count", "names", "mixed"),
    [(0x01, 1, 1, 9), (0x0A, 10, 1, 9), (0xC3, 1, 1, 9), (0xC4, 1, 1, 9), (0xB1, 1, 1, 0), (0x01, 1, 2, 0)],
    ids=["mbp-1", "mbp-10", "bbo-1s", "bbo-1m", "cmbp-1", "a name each"],
)
def test_quotes_of_several_publishers_under_one_name_are_warned_of(
    tmp_path: Path, rtype: int, count: int, names: int, mixed: int
) -> None:
    """Each is its own publisher's top, as in DBEQ.BASIC; only consolidated schemas have one of all."""
    records = [
        ref.record(
            rtype, ref.head(depth=0) + ref.levels(count), event=ref.NOON + at, publisher=39 + at % 2,
            instrument=7 + at % 2 if names == 2 else 7,
        )
        for at in range(10)
    ]  # fmt: skip
    path = tmp_path / "several.dbn"
    mappings = {name: [(*ref.ALL_DAYS, str(7 + at))] for at, name in enumerate(["A", "B"])}
    path.write_bytes(ref.metadata(3, mappings, dataset="DBEQ.BASIC") + b"".join(records))
    for handler in ("spread", "bbo", "imbalance", "depth"):
        found = [w for w in strand.replay(path, handler, workers=0).warnings if w.kind == "mixed quotes"]
        assert [w.count for w in found] == [mixed] * (mixed > 0)
    joined = strand.asof(path, {"symbol": ["A"], "time": [ref.NOON + 5]}, workers=0)
    assert [w.count for w in joined.warnings if w.kind == "mixed quotes"] == [mixed] * (mixed > 0)
    result = strand.replay(path, "vwap", workers=0)
    assert result.feed_statistics["mixed_quotes"] == mixed
    assert "mixed quotes" not in [w.kind for w in result.warnings]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("publishers", "together", "mixed"), [((39, 40, 40), "ct", 9), ((39, 39, 39), "ct", 0), ((39, 40, 40), "pb", 0)]
)
def test_quotes_of_several_publishers_in_databentos_tables_are_warned_of(
    tmp_path: Path, kind: str, publishers: tuple[int, ...], together: str, mixed: int
) -> None:
    """``pb``: columns of the publishers that made the best price together. A clear record leaves no quote."""
    n = 16
    columns: dict[str, Any] = {
        "ts_recv": [ref.NOON + at for at in range(n)],
        "ts_event": [ref.NOON + at for at in range(n)],
        "rtype": [177 if together == "pb" else 1] * n,
        "publisher_id": [publishers[at % 3] for at in range(n)],
        "instrument_id": [7 if at < 10 else 8 for at in range(n)],
        "action": ["A"] * n,
        "side": ["B"] * n,
        "price": [100 * 10**9] * n,
        "size": [1] * n,
        "flags": [128] * n,
        "sequence": list(range(n)),
        "bid_px_00": [100 * 10**9 + at * 10**7 for at in range(n)],
        "ask_px_00": [101 * 10**9 + at * 10**7 for at in range(n)],
        **{f"{name}_00": [5] * n for name in ("bid_sz", "ask_sz", f"bid_{together}", f"ask_{together}")},
        "symbol": ["AA"] * n,
    }
    path = tmp_path / f"xnas-itch-20240508.mbp-1.{kind}"
    if kind == "csv":
        rows = (",".join(map(str, row)) for row in zip(*columns.values(), strict=True))
        path.write_text("\n".join([",".join(columns), *rows, ""]))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        types = {"publisher_id": pyarrow.uint16(), "instrument_id": pyarrow.uint32(), "rtype": pyarrow.uint8()}
        arrays = {name: pyarrow.array(values, types.get(name)) for name, values in columns.items()}
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(arrays), path)
    result = strand.replay(path, "spread", workers=0)
    assert result.feed_statistics["rolled_instruments"] == 1
    assert result.feed_statistics["mixed_quotes"] == mixed
    assert [w.count for w in result.warnings if w.kind == "mixed quotes"] == [mixed] * (mixed > 0)


def test_mixed_quotes_are_counted_of_the_symbols_that_are_chosen(tmp_path: Path) -> None:
    """AA has quotes of two publishers, and BB of one, in a file and in a feed that was open before they were chosen."""
    publishers = {"AA": (39, 40, 40, 39), "BB": (41, 41, 41, 41)}
    records = [
        ref.record(0x01, ref.head(depth=0) + ref.levels(1), event=ref.NOON + at, publisher=publishers[name][at],
                   instrument=7 + number)
        for at in range(4) for number, name in enumerate(publishers)
    ]  # fmt: skip
    path = tmp_path / "several.dbn"
    mappings = {name: [(*ref.ALL_DAYS, str(7 + at))] for at, name in enumerate(publishers)}
    path.write_bytes(ref.metadata(3, mappings, dataset="DBEQ.BASIC") + b"".join(records))
    renames = {"renames": [(None, None, "BB", "CC")]}
    for symbols, mixed in ((["AA"], 2), (["BB"], 0), (["AA", "BB"], 2)):
        renamed = ["CC" if name == "BB" else name for name in symbols]
        runs = [
            strand.replay(path, "bbo", symbols=symbols, workers=0),
            strand.replay(strand.feeds.open(path), "bbo", symbols=symbols, workers=0),
            strand.replay(path, "bbo", symbols=renamed, feed_options=renames, workers=0),
        ]
        for result in runs:
            assert result.feed_statistics["mixed_quotes"] == mixed
            assert [w.count for w in result.warnings if w.kind == "mixed quotes"] == [mixed] * (mixed > 0)
