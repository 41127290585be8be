"""Arrow tables of records, and tables of ticks."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import strand
from strand.errors import ConfigurationError, FormatError
from strand.feeds import BaseFeed, FeedInfo, TickBatch
from strand.feeds.base import BATCH_ROWS, COLUMNS
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BUILTIN
from strand.output.records import merged_dtype
from strand.tables.arrow import arrow_table
from strand.tables.columns import Prices, Table
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE, UNDEF_PRICE, zeros
from strand.units import COUNT, PRICE, TIME, declare, meaning_of, undeclared

pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.python


#: Powers of the size unit that 1 in a field is worth.
SIZES = {"size": 1, "size squared": 2, "notional": 1}
#: Integers at which formats and sums break, beside ordinary ones.
EDGES = (0, 1, -1, 5 * 10**9, 12_345_678_901, 2**53 + 1, UNDEF_PRICE, UNDEF_PRICE - 1, -UNDEF_PRICE - 1, -UNDEF_PRICE)


def filled(dtype: np.dtype[Any], n: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """Records whose fields have all kinds of values, also those that stand for nothing."""
    rng = np.random.default_rng(seed)
    found = np.zeros(n, dtype)
    for place in leaves(found):
        place[...] = _values(place.dtype, place.shape, rng)
    return found


def leaves(records: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    if records.dtype.names is None:
        yield records
    for name in records.dtype.names or ():
        yield from leaves(records[name])


def _values(dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if dtype.kind in "iu":
        if meaning_of(dtype).quantity == "letter":
            return rng.choice([0, ord("Q"), ord("é")], shape)
        limits = np.iinfo(dtype)
        fits = [value for value in EDGES if limits.min <= value <= limits.max]
        return rng.choice(np.array(fits, dtype), shape)
    if dtype.kind == "f":
        return rng.choice([0.0, 1.5, math.nan, -2.25e9, 0.1], shape)
    if dtype.kind == "S":
        return rng.choice([b"A", b"B", b"", b"\xff"], shape)
    return rng.integers(0, 2, shape)


def expected(record: Any, declared: np.dtype[Any], size_unit: str, prices: str, prefix: str = "") -> dict[str, Any]:
    """One record's cells by column. Times are ns since the epoch."""
    found: dict[str, Any] = {}
    for name in declared.names or ():
        dtype, value = declared[name], record[name]
        if dtype.base.names is not None:
            several = [(f"{name}.{i}", part) for i, part in enumerate(value)] if dtype.shape else [(name, value)]
            for where, part in several:
                found |= expected(part, dtype.base, size_unit, prices, f"{prefix}{where}.")
        elif dtype.base.kind != "V" and meaning_of(dtype).quantity != "inner":
            cells = _cells(record, declared, name, value.tolist(), (size_unit, prices))
            if (each := meaning_of(dtype).each) and dtype.shape:
                found |= {f"{prefix}{each}_{at}": cell for at, cell in enumerate(cells, 1)}
            else:
                found[prefix + name] = cells
    return found


def _cells(record: Any, declared: np.dtype[Any], name: str, value: Any, form: tuple[str, str]) -> Any:
    if isinstance(value, list):
        return [_cells(record, declared, name, one, form) for one in value]
    return None if undefined(record, declared, name, value) else _shown(declared[name].base, value, *form)


def undefined(record: Any, declared: np.dtype[Any], name: str, value: Any) -> bool:
    meaning = meaning_of(declared[name])
    if meaning.quantity == "raw":
        return False
    if (isinstance(value, float) and math.isnan(value)) or value in meaning.none:
        return True
    for other, minimum in meaning.given.items():
        beside = record[other].item()
        if undefined(record, declared, other, beside) if minimum is None else beside < minimum:
            return True
    return False


def _shown(dtype: np.dtype[Any], value: Any, size_unit: str, prices: str) -> Any:
    quantity = meaning_of(dtype).quantity
    if isinstance(value, bytes):
        return value.decode("ascii", "backslashreplace")
    if quantity == "letter":
        return chr(value)
    if quantity == "price" and isinstance(value, int) and prices != "float":
        with localcontext() as context:
            context.prec = 40
            return Decimal(value) / 10**9 if prices == "decimal" else value
    scale = Fraction(size_unit) ** SIZES[quantity] if quantity in SIZES else Fraction(1)
    if quantity == "price" and isinstance(value, int):
        scale = Fraction(1, 10**9)
    return value if scale == 1 else float(Fraction(value) * scale)


def same(found: Any, wanted: Any) -> bool:
    """Floats may differ by one rounding where the exact integer has more than 53 bits."""
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float) and isinstance(found, float):
        return (math.isnan(wanted) and math.isnan(found)) or math.isclose(found, wanted, rel_tol=2**-52)
    return type(found) is type(wanted) and bool(found == wanted)


EVERY: dict[str, Any] = {
    "bars": {"every": "1m"}, "spread": {"every": "1m"}, "imbalance": {"every": "1m"}, "vwap": {"every": "1m"},
    "trade_stats": {"every": "1m"}, "volatility": {"ticks": 1, "every": "1m"},
    "book": {"top": 3, "changes": True}, "depth": {"top": 2, "changes": True},
}  # fmt: skip
OWN = np.dtype(
    [("flag", "?"), ("word", "S3"), ("letters", "S1", (2,)), ("grid", PRICE, (2, 3)), ("mean", declare(PRICE, "<f8")),
     ("bar", [("open", PRICE), ("of", "<i4")]), ("two", [("at", TIME)], (2,)), ("small", "<u1"), ("raw", "<f4"),
     ("each", declare(PRICE, each="one"), (3,)), ("alone", declare(COUNT, each="no"))]
)  # fmt: skip


def dtypes(name: str) -> list[np.dtype[Any]]:
    if name == "own":
        return [OWN]
    found = []
    for options in ({}, EVERY.get(name, {})):
        made = BUILTIN[name](**options)
        found += [made.state, *(merged_dtype(dtype, merge=True) for _, dtype in made.emitted)]
    return found


@pytest.mark.cells(1)
@pytest.mark.parametrize("prices", ["float", "decimal", "integer"])
@pytest.mark.parametrize("size_unit", ["1.0", "1e-08"])
@pytest.mark.parametrize("name", ["own", *sorted(set(BUILTIN) - {"spin"})])
def test_each_field_of_each_handler_is_as_plain_python_has_it(name: str, size_unit: str, prices: Prices) -> None:
    for declared in dtypes(name):
        records = filled(declared, 60)
        table = arrow_table(Table(declared, float(size_unit)).shown(records, prices))
        table.validate(full=True)
        wanted = [expected(record, declared, size_unit, prices) for record in records]
        assert table.column_names == list(wanted[0])
        for column in table.column_names:
            found = table[column]
            times = pa.types.is_timestamp(found.type)
            cells = (found.cast(pa.int64()) if times else found).to_pylist()
            for cell, row in zip(cells, wanted, strict=True):
                assert same(cell, row[column]), (column, cell, row[column])
            if None in cells:
                assert table.schema.field(column).nullable


@pytest.mark.parametrize("name", ["own", *sorted(set(BUILTIN) - {"spin"})])
def test_types_are_those_of_the_declaration_whatever_the_values(name: str) -> None:
    for declared in dtypes(name):
        table = Table(declared, 1.0)
        empty = arrow_table(table.shown(np.zeros(0, declared), "decimal"))
        assert empty.num_rows == 0
        assert empty.schema == arrow_table(table.shown(filled(declared, 9), "decimal")).schema


def test_decimals_are_exact_at_extreme_prices() -> None:
    declared = np.dtype([("price", PRICE)])
    prices = np.zeros(len(EDGES), declared)
    prices["price"] = EDGES
    found = arrow_table(Table(declared, 1.0).shown(prices, "decimal"))["price"]
    assert found.type == pa.decimal128(19, 9)
    never = {UNDEF_PRICE, -UNDEF_PRICE - 1}
    digits = [None if edge in never else edge for edge in EDGES]
    assert [None if cell is None else int(cell.scaleb(9)) for cell in found.to_pylist()] == digits
    assert found.to_pylist()[4] == Decimal("12.345678901")
    assert found.to_pylist()[7] == Decimal("9223372036.854775806")
    assert found.to_pylist()[9] == Decimal("-9223372036.854775807")


def test_a_time_is_a_moment_in_utc_to_the_nanosecond() -> None:
    at = datetime.datetime(2026, 1, 5, 14, 30, 0, 123456, datetime.UTC)
    exact = (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1) * 1000
    declared = np.dtype([("at", TIME)])
    times = np.array([(exact,), (exact + 7,), (UNDEF_PRICE,), (0,), (-1,)], undeclared(declared))
    found = arrow_table(Table(declared, 1.0).shown(times))["at"]
    assert found.type == pa.timestamp("ns", "UTC")
    assert found.cast(pa.int64()).to_pylist() == [exact, exact + 7, None, 0, -1]
    assert found[:1].cast(pa.timestamp("us", "UTC")).to_pylist() == [at]


# ---- Feeds as tables: streams of record batches


class Made(BaseFeed):
    """Ticks in batches of a size, all in the same memory, as readers have them."""

    info = FeedInfo("made", "memory")
    symbols: Sequence[str] = ()
    max_symbols = 100

    def __init__(self, ticks: Any, size: int, *, size_unit: float | None = 1.0, fails: bool = False) -> None:
        super().__init__()
        self.info = FeedInfo("made", "memory", size_unit=size_unit)
        self._names: list[str] = []
        self.symbols = self._names
        self._ticks, self._size, self._fails = ticks, size, fails
        self.given = 0

    def batches(self) -> Iterator[TickBatch]:
        memory = zeros(self._size)
        for at in range(0, len(self._ticks), self._size):
            part = self._ticks[at : at + self._size]
            known = int(part["instrument_id"].max()) + 1
            self._names.extend(f"S{i}" for i in range(len(self._names), known))
            memory[: len(part)] = part
            self.given += 1
            yield memory[: len(part)]
            memory["price"] = 77
        if self._fails:
            raise FormatError("the rest is missing", path="made")


def some(n: int) -> Any:
    rng = np.random.default_rng(5)
    ticks = zeros(n)
    ticks["ts_event"] = ticks["ts_recv"] = 1_767_623_400 * 10**9 + np.arange(n)
    ticks["instrument_id"] = np.minimum(np.arange(n) // 3, 90)
    ticks["kind"] = rng.choice([KIND_ORDER, KIND_TRADE, KIND_QUOTE], n)
    ticks["side"], ticks["action"] = rng.choice([b"A", b"B", b"N"], n), rng.choice([b"A", b"T", b""], n)
    ticks["price"] = rng.choice([UNDEF_PRICE, 1, -5, UNDEF_PRICE - 1, 10**9], n)
    ticks["size"], ticks["order_id"] = rng.integers(0, 99, n), rng.integers(0, 3, n)
    ticks["ref_id"], ticks["publisher_id"] = rng.integers(0, 3, n), rng.integers(0, 3, n)
    ticks["sequence"] = (1 << 33) + np.arange(n)
    ticks["ts_recv"][:2] = -1, 0
    return ticks


def wanted(tick: Any, number: int) -> dict[str, Any]:
    """A row of a tick, in plain Python, prices as decimals."""

    def price(value: int) -> Decimal | None:
        return None if value == UNDEF_PRICE else Decimal(value).scaleb(-9)

    row: dict[str, Any] = {"number": number, "sequence": int(tick["sequence"])}
    row |= {"symbol": f"S{tick['instrument_id']}", "instrument_id": int(tick["instrument_id"])}
    row |= {name: int(tick[name]) for name in ("ts_event", "kind", "size", "flags", "depth")}
    row |= {name: tick[name].decode() for name in ("action", "side")}
    row["ts_recv"] = int(tick["ts_recv"]) if tick["ts_recv"] >= 0 else None
    row["price"], row["publisher_id"] = price(int(tick["price"])), int(tick["publisher_id"]) or None
    row["order_id"], row["ref_id"] = int(tick["order_id"]) or None, int(tick["ref_id"]) or None
    bid = ask = (None, None)
    if tick["kind"] == KIND_QUOTE:
        own = (price(int(tick["price"])), int(tick["size"]))
        bid = own if tick["side"] != b"A" else bid
        ask = own if tick["side"] == b"A" else ask
        if tick["side"] == b"N":
            ask = (price(int(tick["order_id"])), int(tick["ref_id"]))
            row["order_id"] = row["ref_id"] = None
    for side, (at, size) in (("bid", bid), ("ask", ask)):
        row[f"{side}_price"], row[f"{side}_size"] = at, None if at is None else size
    return row


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_each_tick_is_a_row_as_plain_python_has_it(size: int) -> None:
    ticks = some(300)
    table = Made(ticks, size).to_arrow(prices="decimal")
    for name in ("ts_event", "ts_recv"):
        assert table.schema.field(name).type == pa.timestamp("ns", "UTC")
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int64()))
    for number, row in enumerate(table.to_pylist()):
        assert row == wanted(ticks[number], number)


def test_a_stream_has_few_rows_at_a_time_and_asks_for_no_batch_before_it_is_wanted() -> None:
    feed = Made(some(BATCH_ROWS + 10), BATCH_ROWS + 5)
    reader = pa.RecordBatchReader.from_stream(feed)
    assert feed.given == 0
    first = reader.read_next_batch()
    kept = first["price"].to_pylist()
    assert (first.num_rows, feed.given) == (BATCH_ROWS, 1)
    rest = [batch.num_rows for batch in reader]
    assert rest == [5, 5]
    assert first["price"].to_pylist() == kept
    assert feed.given == 2


def test_polars_and_pandas_take_names_that_are_learnt_on_the_way() -> None:
    pytest.importorskip("polars")
    pytest.importorskip("pandas")
    ticks = some(120)
    feed = Made(ticks, 10)
    names = [f"S{key}" for key in ticks["instrument_id"].tolist()]
    assert feed.to_polars()["symbol"].to_list() == names
    assert Made(ticks, 10).to_pandas()["symbol"].tolist() == names
    import polars

    assert polars.DataFrame(Made(ticks, 10))["symbol"].to_list() == names


def test_a_name_is_shown_from_the_batch_on_in_which_it_is_known() -> None:
    polars = pytest.importorskip("polars")

    class Late(Made):
        def batches(self) -> Iterator[TickBatch]:
            ticks = zeros(3)
            ticks["instrument_id"] = 0, 2, 99
            for names in ([], ["", "B"], ["A", "B"], ["A", "B", "the third of the names"]):
                self._names[:] = names
                yield ticks

    named = ["#0", "#0", "A", "A"], ["#2", "#2", "#2", "the third of the names"], ["#99"] * 4
    expected = [name for batch in zip(*named, strict=True) for name in batch]
    assert Late(zeros(0), 1).to_arrow()["symbol"].to_pylist() == expected
    frame = Late(zeros(0), 1).to_polars()
    assert frame["symbol"].to_list() == expected
    assert frame.schema["symbol"] == polars.String


def test_frames_have_what_tables_have_and_letters_that_are_no_ascii_are_seen() -> None:
    polars = pytest.importorskip("polars")
    ticks = some(700)
    ticks["side"][5:7] = b"\x9c", b"\xff"
    names = ["a name beyond twelve bytes" if i % 7 else f"N{i}" * (i % 4 + 1) for i in range(91)]
    feed = Made(ticks, 300)
    feed._names.extend(f"{name}{i}" for i, name in enumerate(names))
    assert feed.to_arrow()["side"].to_pylist()[4:8] == [
        ticks["side"][4].decode(),
        "\\x9c",
        "\\xff",
        ticks["side"][7].decode(),
    ]
    for prices in ("float", "decimal", "integer"):
        assert feed.to_polars(prices=prices).equals(polars.from_arrow(feed.to_arrow(prices=prices)))
    assert feed.to_arrow()["symbol"].to_pylist() == [feed.symbols[key] for key in ticks["instrument_id"].tolist()]


def test_a_feed_without_ticks_has_the_same_types() -> None:
    empty, full = Made(zeros(0), 5), Made(some(20), 5)
    assert empty.to_arrow().schema == full.to_arrow().schema
    assert empty.to_arrow().num_rows == 0
    assert len(empty.to_numpy()) == 0


def test_numpy_has_the_exact_ticks() -> None:
    ticks = some(50)
    found = Made(ticks, 7).to_numpy()
    np.testing.assert_array_equal(found, ticks)
    assert found["sequence"].tolist() == ticks["sequence"].tolist()


def test_an_error_of_the_feed_comes_out_of_the_table_and_of_the_stream() -> None:
    with pytest.raises(FormatError, match="the rest is missing"):
        Made(some(20), 5, fails=True).to_arrow()
    reader = pa.RecordBatchReader.from_stream(Made(some(20), 5, fails=True))
    with pytest.raises(Exception, match="the rest is missing"):
        reader.read_all()


def test_sizes_are_in_units_of_the_instrument_or_refused() -> None:
    ticks = some(20)
    sizes = Made(ticks, 5, size_unit=1e-8).to_arrow()["size"].to_pylist()
    assert sizes == [float(Decimal(size).scaleb(-8)) for size in ticks["size"].tolist()]
    with pytest.raises(ConfigurationError, match="size: the merged files have sizes in different units: read them"):
        Made(ticks, 5, size_unit=None).to_arrow()
    with pytest.raises(ConfigurationError, match="prices: 'int' is not "):
        Made(ticks, 5).to_arrow(prices="int")  # type: ignore[arg-type]


def test_an_outputs_records_find_their_ticks_by_number() -> None:
    polars = pytest.importorskip("polars")
    ticks = strand.feeds.open(sample_path(), date=SAMPLE_DATE).to_polars()
    trades = strand.replay(sample_path(), "trades", feed_options={"date": SAMPLE_DATE}).outputs["trades"].to_polars()
    joined = trades.join(ticks, on=["number", "symbol", "sequence", "ts_event"], how="inner")
    assert len(joined) == len(trades) > 1000
    assert joined["size"].to_list() == joined["size_right"].to_list()
    assert joined.schema["symbol"] == polars.String


def test_every_column_that_may_be_undefined_says_so() -> None:
    schema = Made(some(5), 5).to_arrow().schema
    for name in COLUMNS.names or ():
        meaning = meaning_of(COLUMNS[name])
        assert schema.field(name).nullable == bool(meaning.none or meaning.given), name


def test_more_text_than_the_offsets_of_a_column_count_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    result = strand.replay(sample_path(), "count", date=SAMPLE_DATE, workers=0, limit=20_000)
    names = result.rows.to_arrow()["symbol"].to_pylist()
    monkeypatch.setattr("strand.tables.arrow.MOST_TEXT", sum(map(len, names)))
    assert result.rows.to_arrow()["symbol"].to_pylist() == names
    monkeypatch.setattr("strand.tables.arrow.MOST_TEXT", sum(map(len, names)) - 1)
    with pytest.raises(ConfigurationError, match=r"a column has [\d,]+ bytes of text, .* take fewer rows or symbols"):
        result.rows.to_arrow()
