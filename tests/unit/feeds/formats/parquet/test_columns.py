"""Arrow's columns become prices and times exactly, whatever their type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import T0, arrow, pa, parquet, pq, table
from reading import names_of, read

from strand import feeds
from strand.errors import FormatError
from strand.feeds import Selection
from strand.feeds.formats.parquet.reader import ParquetFeed
from strand.feeds.mapping.records import arrow_column
from strand.feeds.mapping.values import Target, scaled
from strand.ticks import UNDEF_PRICE

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("times", "options"),
    [
        (pa.array([T0 // 10**9] * 2, pa.timestamp("s")), {}),
        (pa.array([T0 // 10**6] * 2, pa.timestamp("ms", "America/New_York")), {}),
        (pa.array([T0 // 10**3] * 2, pa.timestamp("us", "+05:30")), {}),
        (pa.array([T0] * 2, pa.timestamp("ns")), {}),
        (pa.array([T0 // 10**3] * 2, pa.int64()), {"time_unit": "us"}),
        (pa.array([T0] * 2, pa.uint64()), {}),
        (pa.array([T0 - 5 * 3600 * 10**9] * 2, pa.timestamp("ns")), {"zone": "America/New_York"}),
    ],
)
def test_times_of_any_unit_and_zone_are_the_same_instant(tmp_path: Path, times: Any, options: Any) -> None:
    ticks, error = read(ParquetFeed(arrow(tmp_path, table(2, timestamp=times)), **options))
    assert error is None
    assert ticks["ts_recv"].tolist() == [T0] * 2


@pytest.mark.parametrize(
    ("prices", "options", "expected"),
    [
        (pa.array([0.1, 100.1, 1e-9, -3.7]), {}, [10**8, 100_100_000_000, 1, -3_700_000_000]),
        (pa.array([150_000_000.5, 9_007_199.25]), {}, [150_000_000_500_000_000, 9_007_199_250_000_000]),
        (pa.array([100.1, 0.3], pa.float32()), {}, [100_100_000_000, 300_000_000]),
        (pa.array([1_000_100, 7]), {"price_unit": "0.0001"}, [100_010_000_000, 700_000]),
        (pa.array([Decimal("1.23"), Decimal("-5.00")]), {}, [1_230_000_000, -5 * 10**9]),
        (pa.array([Decimal("1.234567891000")]), {}, [1_234_567_891]),
        (pa.array([Decimal("1.5")], pa.decimal256(60, 30)), {}, [1_500_000_000]),
        (pa.array([0.1 + 0.2, 6e-10]), {"inexact": "round"}, [300_000_000, 1]),
    ],
)
def test_prices_become_units_of_a_billionth_exactly(
    tmp_path: Path, prices: Any, options: Any, expected: list[int]
) -> None:
    ticks, error = read(ParquetFeed(parquet(tmp_path, table(len(prices), price=prices)), **options))
    assert error is None
    assert ticks["price"].tolist() == expected


@given(st.lists(st.decimals(-(10**9), 10**9, places=9), min_size=1, max_size=20))
def test_a_float_means_its_shortest_decimal(prices: list[Decimal]) -> None:
    floats = [float(price) for price in prices]
    found = scaled(arrow_column(pa.array(floats)), Target("price", 9, 9, -UNDEF_PRICE, UNDEF_PRICE), rounds=True)
    assert not isinstance(found, str)
    for i, number in enumerate(floats):
        units = Decimal(repr(number)) * 10**9
        inexact = found.inexact is not None and bool(found.inexact[i])
        assert inexact == (units != int(units))
        assert found.bad is None or not found.bad[i] or (number and not round(units))
        assert int(found.values[i]) == round(units)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("price", pa.array([True] * 2)),
        ("timestamp", pa.array([1.5] * 2)),
        ("timestamp", pa.array([dt.date(2020, 1, 1)] * 2)),
        ("size", pa.array([[1]] * 2)),
        ("symbol", pa.array([1.5] * 2)),
        ("side", pa.array([[1], [2]])),
    ],
)
def test_a_column_of_the_wrong_type_is_named_with_its_type(tmp_path: Path, column: str, values: Any) -> None:
    ticks, error = read(ParquetFeed(parquet(tmp_path, table(2, **{column: values}))))
    assert len(ticks) == 0
    assert isinstance(error, FormatError)
    assert column in str(error)
    assert str(values.type).split("<")[0] in str(error)


# ---- Symbols are numbered in the order of rows, however a column holds them


def keys_of(path: Path, column: str, batches: list[Any], **options: Any) -> tuple[ParquetFeed, list[str]]:
    """A feed of an Arrow stream whose batches have these columns of symbols, and the names of its ticks; read twice."""
    with pa.ipc.new_stream(str(path), pa.schema([("ts", pa.timestamp("ns")), (column, batches[0].type)])) as writer:
        for values in batches:
            writer.write_batch(
                pa.record_batch([pa.array(range(len(values)), pa.timestamp("ns")), values], ["ts", column])
            )
    feed = ParquetFeed(path, on_bad_record="skip", **options)
    ticks, error = read(feed)
    assert error is None
    again, _ = read(feed)
    np.testing.assert_array_equal(ticks, again)
    return feed, names_of(feed, ticks)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int64(), pa.uint32(), pa.uint64(), pa.string(), pa.large_string(), pa.string_view()]
)
def test_symbols_are_numbered_in_the_order_in_which_rows_first_have_them(tmp_path: Path, kind: Any) -> None:
    batches = [[7, 5, 7], [5, 5], [], [None, 9, 5, 1], [1, 127, 0, 7]]
    made = [pa.array([v if v is None or pa.types.is_integer(kind) else str(v) for v in b], kind) for b in batches]
    feed, names = keys_of(tmp_path / "a", "symbol", made)
    word = "id:" if pa.types.is_integer(kind) else ""
    assert list(feed.symbols) == [f"{word}{v}" for v in (7, 5, 9, 1, 127, 0)]
    assert names == [f"{word}{v}" for b in batches for v in b if v is not None]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [5, -(1 << 63), (1 << 63) - 1, -1, 0]),
        (pa.uint64(), [5, (1 << 64) - 1, 1 << 63, 0]),
        (pa.uint32(), [5, (1 << 20) - 1, 1 << 20, (1 << 32) - 1]),
    ],
)
def test_any_number_can_name_an_instrument(tmp_path: Path, kind: Any, values: list[int]) -> None:
    # By themselves and together: small numbers are looked up in another way than large ones.
    batches = [[v] for v in values] + [values, values[::-1]]
    feed, names = keys_of(tmp_path / "a", "instrument_id", [pa.array(b, kind) for b in batches])
    assert list(feed.symbols) == [f"id:{v}" for v in values]
    assert names == [f"id:{v}" for b in batches for v in b]


def coded(values: list[Any], places: list[int | None]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(values, pa.string()))


def test_of_a_dictionary_what_occurs_is_numbered_by_its_first_row(tmp_path: Path) -> None:
    one, other = ["unused", "B", None, "A", "B", "C"], ["C", "D", "A"]
    batches = [
        coded(one, [3, 1, 3]),
        coded(one, [2, 4, 1, None]),  # a null in the dictionary, one in the rows, and B at another place
        coded(other, [1, 0, 0]),
        coded(other, [2]),
        coded(one, [5, 3, 0]),
        coded([], [None]),
    ]
    feed, names = keys_of(tmp_path / "a", "symbol", batches)
    assert list(feed.symbols) == ["A", "B", "D", "C", "unused"]
    assert names == ["A", "B", "A", "B", "B", "D", "C", "C", "A", "C", "A", "unused"]
    assert feed.skipped.total == 3


def test_of_a_dictionary_a_selection_passes_over_what_it_does_not_want(tmp_path: Path) -> None:
    batches = [coded(["A", "B", None], [1, 0, 2]), coded(["A", "B", "C"], [2, 2, 0, 1, None])]
    feed, names = keys_of(tmp_path / "a", "symbol", batches, select=Selection(("B",)))
    assert names == ["B", "B"]
    assert feed.statistics()["not_selected"] == 4
    assert feed.skipped.total == 2


def test_text_of_parquet_is_numbered_by_rows_whatever_the_pages_hold(tmp_path: Path) -> None:
    names = ["B", "C", "A", "B", "D", "A"] * 50
    for options in ({}, {"use_dictionary": False}, {"data_page_size": 1, "dictionary_pagesize_limit": 1}):
        path = parquet(tmp_path, table(300, symbol=pa.array(names)), row_group_size=70, **options)
        feed = ParquetFeed(path, batch_ticks=4)
        assert names_of(feed, read(feed)[0]) == names
        assert list(feed.symbols) == ["B", "C", "A", "D"]
        assert feed.info.details["columns"]["symbol"] == "symbol"
    # A column that something else is read from too is left as it is.
    path = parquet(tmp_path, table(3, symbol=pa.array(["A", "T", "A"])))
    ticks, error = read(ParquetFeed(path, columns={"action": "symbol"}))
    assert error is None
    assert ticks["action"].tolist() == [b"A", b"T", b"A"]


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}])
def test_a_name_that_is_not_text_is_an_error_where_it_is_used(tmp_path: Path, options: Any) -> None:
    names = pa.array([b"A"] * 5 + [b"\xff"] + [b"A"] * 4).view(pa.string())
    feed = ParquetFeed(parquet(tmp_path, table(10, symbol=names), **options), batch_ticks=2)
    ticks, error = read(feed)
    assert len(ticks) == 5
    assert isinstance(error, FormatError)
    assert "row 6: column 'symbol' holds a value that is not a symbol's name, which is UTF-8 text" in str(error)
    assert [name for name in feed.symbols if name] == ["A"]


def test_of_a_dictionary_that_is_not_text_only_what_is_used_counts(tmp_path: Path) -> None:
    values = pa.array([b"A", b"\xff"]).view(pa.string())
    for places, good in (([0] * 4, 4), ([0, 0, 0, 1], 3)):
        coded = pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), values)
        ticks, error = read(ParquetFeed(parquet(tmp_path, table(4, symbol=coded)), batch_ticks=2))
        assert len(ticks) == good
        assert (error is None) == (good == 4)


@pytest.mark.parametrize("values", [pa.array([1.5, 2.5]), pa.array([b"A", b"B"])])
def test_a_dictionary_of_what_is_no_name_is_refused(tmp_path: Path, values: Any) -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int32()), values)
    ticks, error = read(ParquetFeed(arrow(tmp_path, table(2, symbol=coded))))
    assert len(ticks) == 0
    assert "cannot name symbols" in str(error)


def test_a_place_beyond_its_dictionary_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ParquetFeed(parquet(tmp_path, table(2, symbol=coded(["A"], [0, 0]))))
    for place in (1, -1):
        symbols = pa.DictionaryArray.from_arrays(pa.array([0, place], pa.int32()), pa.array(["A"]), safe=False)
        batch = pa.record_batch(table(2, symbol=symbols).to_batches()[0])
        monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, batch=batch, **__: iter([batch]))
        ticks, error = read(feed)
        assert len(ticks) == 0
        assert "row group 0 cannot be read: index not in dictionary" in str(error)


def test_text_does_not_become_an_instruments_number(tmp_path: Path) -> None:
    _, error = read(ParquetFeed(parquet(tmp_path, table(2, symbol=None, instrument_id=pa.array(["1", "2"])))))
    assert "column 'instrument_id' (string) for instrument_id cannot name symbols" in str(error)


@pytest.mark.parametrize("values", [list("ABBC"), [1, 2, 2, 3]])
@pytest.mark.parametrize("encoded", [False, True])
def test_what_there_is_room_for_keeps_its_number_after_an_overflow(
    tmp_path: Path, values: list[Any], encoded: bool
) -> None:
    column = pa.array(values)
    feed = ParquetFeed(
        arrow(tmp_path, table(4, symbol=column.dictionary_encode() if encoded else column)), max_symbols=2
    )
    for _ in range(2):
        ticks, error = read(feed)
        assert len(ticks) == 3, "the rows before it"
        assert f"row 4: column 'symbol' is full: {values[3]!r} is one symbol more than the 2" in str(error)
        assert len(feed.symbols) == 2


@pytest.mark.parametrize(
    ("text", "ids"),
    [(None, ["7", "18446744073709551615", "0"]), ("hash", ["7", "5dc9-b1", "x"]), ("hex", ["ff", "0", "aA"])],
)
def test_ids_that_are_texts_become_the_numbers_that_csv_makes_of_them(
    tmp_path: Path, text: str | None, ids: list[str]
) -> None:
    times = 1_767_571_200_000_000_000
    table = pa.table({"ts_event": pa.array([times] * 3, pa.timestamp("ns")), "price": [1.0] * 3, "trade_id": ids})
    pq.write_table(table, tmp_path / "a.parquet")
    key = f', text = "{text}"' if text else ""
    (tmp_path / "c.toml").write_text(
        'name = "c"\n[symbol]\nconstant = "A"\n[fields]\nprice = "p"\nts_event = { column = "t", unit = "ns" }\n'
        f'ref_id = {{ column = "i"{key} }}\nkind = {{ constant = "trade" }}\n'
    )
    (tmp_path / "a.csv").write_text("i,p,t\n" + "".join(f"{each},1,{times}\n" for each in ids))
    expected = feeds.open(tmp_path / "a.csv", profile=tmp_path / "c.toml").to_numpy()["ref_id"].tolist()
    column = {"column": "trade_id", "text": text} if text else "trade_id"
    found = feeds.open(tmp_path / "a.parquet", symbol="A", columns={"ref_id": column}).to_numpy()["ref_id"].tolist()
    assert found == expected
    assert len(set(found)) == 3


def test_an_id_that_is_no_number_is_an_error_with_its_cures(tmp_path: Path) -> None:
    table = pa.table({"ts_event": pa.array([10**18], pa.timestamp("ns")), "price": [1.0], "trade_id": ["5dc9-b1"]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(FormatError, match="row 1: column 'trade_id' '5dc9-b1' is no whole number: give 'text': 'hash'"):
        feeds.open(tmp_path / "a.parquet", symbol="A").to_numpy()
    assert len(feeds.open(tmp_path / "a.parquet", symbol="A", columns={"ref_id": None}).to_numpy()) == 1


@pytest.mark.parametrize(
    "kind",
    [pa.int64(), pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.decimal128(20, 0), pa.float64()],
    ids=str,
)
def test_sequences_that_no_tick_holds_are_left_out_whatever_the_type_of_their_column(tmp_path: Path, kind: Any) -> None:
    numbers = [5, 1 << 40, (1 << 40) + 1]
    column = pa.array(list(map(str, numbers))).cast(kind) if "string" in str(kind) else pa.array(numbers).cast(kind)
    times = pa.array([10**18] * 3, pa.timestamp("ns"))
    pq.write_table(pa.table({"ts_event": times, "price": [1.0] * 3, "sequence": column}), tmp_path / "a.parquet")
    feed = feeds.open(tmp_path / "a.parquet", symbol="A")
    assert feed.to_numpy()["sequence"].tolist() == [5, 2, 3]
    assert feed.statistics()["sequences_left_out"] == 2


@pytest.mark.parametrize("unused", ["no number", "\u00fc", "7"])
def test_numbers_as_text_may_lie_in_a_dictionary_with_more_than_rows_use(tmp_path: Path, unused: str) -> None:
    values = pa.array([unused, unused, "1.5", None, "2.5"])
    prices = pa.DictionaryArray.from_arrays(pa.array([4, 2, 4, None], pa.int32()), values)
    times = pa.DictionaryArray.from_arrays(
        pa.array([2, 2, 3, 3], pa.int32()), pa.array([unused, unused, "7000", "8000"])
    )
    path = arrow(tmp_path, table(4, price=prices, timestamp=times))
    ticks, error = read(ParquetFeed(path, nulls="undefined", time_unit="s"))
    assert error is None
    assert ticks["price"].tolist() == [2_500_000_000, 1_500_000_000, 2_500_000_000, UNDEF_PRICE]
    assert ticks["ts_event"].tolist() == [7000 * 10**9] * 2 + [8000 * 10**9] * 2


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        (pa.array([219.2, None, 1.1], pa.float32()), [219_200_000_000, UNDEF_PRICE, 1_100_000_000]),
        (pa.array(np.array([206.75, 0.1, 7], np.float16)), [206_800_000_000, 100_000_000, 7 * 10**9]),
        (pa.array([7, None, 9], pa.uint8()), [7 * 10**9, UNDEF_PRICE, 9 * 10**9]),
        (
            pa.array([Decimal("3E2"), None, Decimal("7E2")], pa.decimal128(38, -2)),
            [300 * 10**9, UNDEF_PRICE, 700 * 10**9],
        ),
        (pa.array([Decimal("1.5"), None, Decimal(2)], pa.decimal128(38, 30)), [1_500_000_000, UNDEF_PRICE, 2 * 10**9]),
    ],
)
def test_numbers_mean_the_same_in_a_dictionary_beside_nulls_and_in_a_part_of_a_column(
    tmp_path: Path, prices: Any, expected: list[int]
) -> None:
    numbers = pa.concat_arrays([prices[1:], prices])[2:]
    times = pa.array([T0 // 10**6] * 3, pa.timestamp("ms", "UTC"))
    for one, when in ((numbers, times), (numbers.dictionary_encode(), times.dictionary_encode())):
        path = arrow(tmp_path, table(3, price=one, timestamp=when))
        ticks, error = read(ParquetFeed(path, nulls="undefined"))
        assert error is None
        assert ticks["price"].tolist() == expected
        assert ticks["ts_event"].tolist() == [T0] * 3
