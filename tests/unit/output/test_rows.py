"""Rows by symbol."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import strand
from strand import batch_handler, testing
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.output.fingerprint import fingerprint_of_rows
from strand.output.rows import Rows, near_filled
from strand.symbols import SymbolTable
from strand.ticks import zeros

pytestmark = pytest.mark.python


@batch_handler(state=[("n", "<i8")])
def first(symbol: str, ticks: Any, row: Any) -> None: ...


@batch_handler(state=[("n", "<i8"), ("m", "<i8")])
def second(symbol: str, ticks: Any, row: Any) -> None: ...


class Memory:
    """Rows of 64 bytes each, outside an engine."""

    def __init__(self, n: int) -> None:
        self.bytes = np.zeros((n, 64), np.uint8)

    def rows(self, dtype: np.dtype[Any]) -> Any:
        return np.ndarray((len(self.bytes),), dtype, self.bytes, strides=(64,))


@pytest.fixture
def rows() -> Rows:
    found = Rows(SymbolTable(["A", "B", "C"]), Memory(3), [first, second], np.array([0, 1, 0], np.uint16))
    for symbol, n in (("A", 1), ("B", 2), ("C", 3)):
        found[symbol]["n"] = n
    return found


def test_each_symbol_has_the_row_of_its_handler(rows: Rows) -> None:
    assert rows["B"].dtype.names == ("n", "m")
    assert rows[2]["n"] == rows["C"]["n"] == 3
    assert len(rows) == 3
    with pytest.raises(UnknownSymbolError):
        rows["D"]


def test_rows_of_several_handlers_are_asked_for_by_its_name(rows: Rows) -> None:
    with pytest.raises(ConfigurationError, match="symbols have different handlers \\(first, second\\)"):
        _ = rows.array
    with pytest.raises(KeyError, match="no handler is named 'third'"):
        rows.of_handler("third")
    assert rows.to_numpy("first")["symbol"].tolist() == ["A", "C"]
    assert [at.tolist() for at, _ in rows.by_handler()] == [[0, 2], [1]]


def test_some_symbols_are_copied_and_those_alike_have_one_handler(rows: Rows) -> None:
    taken = rows.alike(np.array([2, 1, 0]))
    assert list(taken.symbols) == ["C", "A"]
    rows["C"]["n"] = 9
    assert taken.array["n"].tolist() == [3, 1]


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 128, 129, 1000])
@pytest.mark.parametrize(("bytes_a_row", "apart"), [(8, 8), (3, 3), (24, 64)])
def test_a_row_that_is_not_zeros_is_found_wherever_it_lies(n: int, bytes_a_row: int, apart: int) -> None:
    for filled in {0, 1, 62, 63, 64, n // 2, n - 65, n - 64, n - 2, n - 1} & set(range(n)):
        memory = np.zeros(n * apart - (apart - bytes_a_row), np.uint8)  # there is nothing behind the last row
        rows: Any = np.ndarray((n,), [("a", "S1"), ("b", f"S{bytes_a_row - 1}")], memory, strides=(apart,))
        memory[filled * apart + bytes_a_row - 1] = 1
        assert filled in near_filled(rows)


@pytest.mark.parametrize("place", [0, 70, 199])
def test_what_is_kept_is_every_byte_of_every_row(place: int) -> None:
    memory = Memory(200)
    kept = Rows(SymbolTable(200), memory, [second], np.zeros(200, np.uint16))
    memory.bytes[:] = 0
    kept[place]["m"] = 5
    before = kept.array.copy()
    kept.keep()
    memory.bytes[:] = 9
    assert kept.array.tolist() == before.tolist()
    assert kept[place]["m"] == 5


def test_what_lies_between_two_fields_makes_no_row_of_zeros_a_filled_one() -> None:
    @batch_handler(state=np.dtype([("n", "<i8"), ("flag", "?"), ("m", "<i8")], align=True))
    def padded(symbol: str, ticks: Any, row: Any) -> None: ...

    rows = Rows(SymbolTable(20), Memory(20), [padded], np.zeros(20, np.uint16))
    rows.keep()
    rows[3]["n"] = 1
    for _ in range(8):  # numpy gives memory out again that was just freed, as it is
        dirty = [np.full(n * 24, 255, np.uint8) for n in (20, 20, 20, 84, 84)]
        del dirty
        assert rows.kept().tolist() == [3]
    assert "1 symbol of 20" in rows._repr_html_()


def test_of_a_selection_the_symbols_that_were_asked_for_are_shown() -> None:
    result = strand.replay(sample_path(), "count", symbols=["AAAA*"], date=SAMPLE_DATE, workers=2)
    chosen = [name for name in result.symbols if name.startswith("AAAA")]
    assert 1 < len(chosen) < result.symbols.n_shown
    assert np.array(result.rows.to_numpy()["symbol"]).tolist() == chosen
    assert result.rows.table()["symbol"].tolist() == chosen
    assert f"{len(chosen)} symbols" in repr(result.rows)
    assert f"of {len(chosen)} with a row" in result.rows._repr_html_()
    assert result.rows._ipython_key_completions_() == chosen
    # Symbols that were not asked for can be looked up, and are part of nothing.
    other = next(name for name in result.symbols if name not in chosen)
    assert result.rows[other]["ticks"] == 0
    digests = result._digests()
    result.rows._chosen = None
    assert len(result.rows.to_numpy()) == result.symbols.n_shown
    assert result.fingerprint == fingerprint_of_rows(result.rows, result.symbols, result.ticks_by_symbol, digests)


def test_a_chosen_symbol_without_ticks_is_shown_and_a_row_that_is_not_zeros_always() -> None:
    ticks = zeros(3)
    ticks["instrument_id"] = [0, 1, 1]
    feed = testing.feed(ticks, symbols=["A", "B", "C"])
    result = strand.replay(feed, "count", symbols=["A", "C"], workers=1)
    assert result.rows.to_numpy()["symbol"].tolist() == ["A", "C"]
    result.rows["B"]["ticks"] = 1
    assert result.rows.to_numpy()["symbol"].tolist() == ["A", "B", "C"]


def test_days_and_tables_of_a_selection_have_its_symbols() -> None:
    pytest.importorskip("pyarrow")
    given: dict[str, Any] = {"symbols": ["AAAHD", "AAAA*"], "date": SAMPLE_DATE, "workers": 1}
    (day,) = strand.replay(sample_path(), "count", per_day=True, **given).days
    result = strand.replay(sample_path(), "count", **given)
    for rows in (result.rows, day.rows):
        assert rows.to_arrow()["symbol"].to_pylist() == list(day.symbols)
    assert day.fingerprint == result.fingerprint


def test_rows_are_gone_through_by_the_symbols_that_tables_have(rows: Rows) -> None:
    assert list(rows) == list(rows.keys()) == ["A", "B", "C"]
    assert len(rows) == 3
    assert [int(row["n"]) for row in rows.values()] == [1, 2, 3]
    assert {symbol: int(row["n"]) for symbol, row in rows.items()} == {"A": 1, "B": 2, "C": 3}
    assert "B" in rows
    assert "D" not in rows
    assert 1 not in rows


def test_rows_of_a_feed_are_gone_through_without_the_room_that_it_leaves_free() -> None:
    result = strand.replay(sample_path(), "book", symbols=["AAAHD", "AAAA*"], date=SAMPLE_DATE, workers=1)
    names = result.rows.to_numpy()["symbol"].tolist()
    assert list(result.rows) == names
    assert len(result.rows) == len(names)
    other = next(name for name in result.symbols if name not in names)
    assert other not in result.rows
    assert list(result.books) == names
    assert len(result.books) == len(names)
    assert "AAAHD" in result.books
    assert other not in result.books
    assert {book.symbol for book in result.books.values()} == set(names)


def test_without_names_the_rows_that_are_not_zeros_are_there() -> None:
    with strand.Dispatcher(1_000_000, "count", workers=1) as dispatcher:
        ticks = zeros(2)
        ticks["instrument_id"] = [7, 70_000]
        dispatcher.publish(ticks)
        dispatcher.drain()
        assert list(dispatcher.rows) == ["#7", "#70000"]


def test_books_are_those_of_the_symbols_whose_handler_keeps_one() -> None:
    handlers = {"A": strand.book(), "*": "count"}
    with strand.Dispatcher(["A", "B"], handlers=handlers, workers=1) as dispatcher:
        assert list(dispatcher.rows) == ["A", "B"]
        assert list(dispatcher.books) == ["A"]
        assert "B" not in dispatcher.books
