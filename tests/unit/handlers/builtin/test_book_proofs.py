"""Order books held against independent readings: of generated ITCH, PITCH and DBN, of recorded DBN, of a whole day."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import book_day
import dbn_reference
import itch_reference
import numpy as np
import numpy.typing as npt
import pitch_reference
import pytest
from book_reference import LEVEL_FIELDS, ORDER_FIELDS, PlainBook, as_tuples

from strand import book, chain, replay
from strand.errors import ConfigurationError
from strand.feeds.synthetic import SyntheticFeed, write_mbo, write_pitch
from strand.output.books import Book

pytestmark = pytest.mark.python

DATE = "2026-01-05"


def same(found: Book, plain: PlainBook) -> None:
    for side, letter in (("bid", b"B"), ("ask", b"A")):
        assert as_tuples(found.levels(side), LEVEL_FIELDS) == plain.levels(letter)
        assert as_tuples(found.orders(side), ORDER_FIELDS) == plain.queue(letter)


def plain_books(ticks: npt.NDArray[Any], keys: npt.NDArray[Any]) -> dict[int, PlainBook]:
    books = {int(key): PlainBook() for key in keys}
    for t in ticks[np.isin(ticks["instrument_id"], keys)]:
        books[int(t["instrument_id"])].apply(t)
    return books


@pytest.mark.parametrize("workers", [1, 3])
def test_itch_read_by_struct_leads_a_plain_book_to_the_same_books(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "day.itch50"
    SyntheticFeed(60, 60_000, seed=11, date=DATE, halts=3).write_itch(path)
    result = replay(path, "book", workers=workers, cores=None, feed_options={"date": DATE})
    decoded = itch_reference.decode(path.read_bytes())
    assert result.books is not None
    for key, plain in plain_books(decoded.ticks, np.unique(decoded.ticks["instrument_id"])[::6]).items():
        same(result.books[key], plain)
        expected = plain.row()
        assert {name: int(result.rows.at(key)[name]) for name in expected} == expected
        assert plain.count["crossed"] == plain.count["unknown"] == plain.count["clipped"] == 0


def test_pitch_read_by_slices_leads_a_plain_book_to_the_same_books(tmp_path: Path) -> None:
    path = tmp_path / "day.pitch"
    write_pitch(SyntheticFeed(40, 40_000, seed=12, date=DATE, halts=2), path)
    result = replay(path, "book", workers=2, cores=None, feed_options={"date": DATE})
    decoded = pitch_reference.decode(path.read_bytes())
    by_count = np.argsort(np.bincount(decoded.ticks["instrument_id"]))
    assert result.books is not None
    rested = 0
    for key, plain in plain_books(decoded.ticks, by_count[-8:]).items():
        same(result.books[key], plain)
        assert int(result.rows.at(key)["volume"]) == plain.count["volume"]
        rested += len(plain.orders)
    assert rested > 50


class MboBook:
    """Databento's MBO schema, by its documentation: fills and trades do not touch the book."""

    def __init__(self) -> None:
        self.plain = PlainBook()
        self.volume = 0

    def apply(self, record: Any) -> None:
        action, side = str(record.action), str(record.side)
        orders, order_id, size = self.plain.orders, record.order_id, record.size
        if action == "R":
            orders.clear()
        elif action == "A":
            assert order_id not in orders
            orders[order_id] = [side.encode(), record.price, size]
        elif action == "C":
            orders[order_id][2] -= size
            assert orders[order_id][2] >= 0
            if orders[order_id][2] == 0:
                del orders[order_id]
        elif action == "M":
            before = orders.get(order_id)
            if before is not None and (before[1] != record.price or size > before[2]):
                del orders[order_id]  # and it loses its place
            orders[order_id] = [side.encode(), record.price, size]
        elif action == "T":
            self.volume += size


@pytest.mark.parametrize("name", ["esh4", "orderbooks"])
def test_recorded_futures_read_by_databentos_reader_lead_a_plain_book_to_the_same_book(
    shared_data: Path, name: str
) -> None:
    databento = pytest.importorskip("databento_dbn")
    zstandard = pytest.importorskip("zstandard")
    (path,) = (shared_data / "dbn-es").glob(f"{name}*")
    decoder = databento.DBNDecoder()
    decoder.write(zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read())
    plain = MboBook()
    for record in decoder.decode():
        if isinstance(record, databento.MBOMsg):
            plain.apply(record)
    result = replay(path, "book", workers=1, cores=None)  # fills chosen by the format
    (key,) = np.flatnonzero(result.ticks_by_symbol)
    assert result.books is not None
    same(result.books[int(key)], plain.plain)
    row = result.rows.at(int(key))
    assert int(row["volume"]) == plain.volume
    assert [int(row[name]) for name in book_day.NEVER] == [0] * len(book_day.NEVER)
    assert len(plain.plain.orders) > 8_000


@pytest.mark.parametrize("workers", [1, 3])
def test_every_order_of_a_day_is_accounted_for(tmp_path: Path, workers: int) -> None:
    """In short what ``make book-day`` does for ten million messages of 8,172 symbols."""
    path = tmp_path / "day.itch50"
    SyntheticFeed(500, 200_000, seed=3, date=DATE).write_itch(path)
    found = book_day.check_day(path, workers)
    assert found["resting"] > 5_000


def test_the_account_of_a_day_notices_an_order_that_is_not_taken_off() -> None:
    ticks, _ = _small_day()
    cut = ticks[ticks["action"] == b"C"][-1]
    whole = book_day.orders_of(ticks)
    less = book_day.orders_of(ticks[ticks["sequence"] != cut["sequence"]])
    assert (whole.left.tolist(), whole.is_gone.tolist()) != (less.left.tolist(), less.is_gone.tolist())


def _small_day() -> tuple[npt.NDArray[Any], list[str]]:
    feed = SyntheticFeed(5, 2_000, seed=4, date=DATE)
    return np.concatenate([batch.copy() for batch in feed.batches()]), list(feed.symbols)


def generated_dbn(feed: SyntheticFeed, folder: Path) -> Path:
    """The day of a feed as a DBN file of market-by-order records: each execution a trade, a fill and a cancel."""
    write_mbo(feed, folder / "day.npy")
    records = np.load(folder / "day.npy")
    names = {name: [(dt.date(1970, 1, 1), dt.date(2500, 1, 1), str(i))] for i, name in enumerate(feed.symbols) if name}
    path = folder / "day.dbn"
    path.write_bytes(dbn_reference.metadata(3, names) + records.tobytes())
    return path


def test_fills_are_read_as_the_format_of_the_feed_means_them(tmp_path: Path) -> None:
    pytest.importorskip("databento_dbn")
    day = SyntheticFeed(20, 20_000, seed=6, date=DATE)
    dbn, itch = generated_dbn(day, tmp_path), tmp_path / "20260105-day.itch50"
    day.write_itch(itch)
    by_itch = replay(itch, "book", workers=1, cores=None)
    by_dbn = replay(dbn, "book", workers=1, cores=None)
    chained = replay(dbn, handlers={"*": chain(book(), "count")}, workers=1, cores=None)
    wrong = replay(dbn, book(fills="reduce"), workers=1, cores=None)
    assert by_dbn.rows.array["unknown"].sum() == 0
    assert wrong.rows.array["unknown"].sum() > 0
    for name in filter(None, day.symbols):
        for field in ("bid_price", "ask_price", "bid_size", "ask_size", "orders", "bid_levels"):
            expected = by_itch.rows[name][field]
            assert by_dbn.rows[name][field] == chained.rows[name]["book"][field] == expected, (name, field)
    with pytest.raises(ConfigurationError, match="give handlers by symbol"):
        replay([itch, dbn], "book", workers=1, cores=None)
