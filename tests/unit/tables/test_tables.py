"""Rows, outputs and feeds as tables of numpy, pandas, polars and Arrow."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for

import strand
from strand import UNDEF_PRICE, Dispatcher, batch_handler
from strand.errors import ConfigurationError, MissingExtraError
from strand.feeds import open as open_feed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.output.rows import Rows
from strand.tables.columns import Table
from strand.units import PRICE

pytestmark = pytest.mark.python


STATE = np.dtype(
    [
        ("n", "<u8"),
        ("last_price", PRICE),
        ("name", "S4"),
        ("hist", "<u4", (3,)),
        ("grid", "<f8", (2, 2)),
        ("bar", [("open", PRICE), ("change", "<i8")]),
        ("rest", "V4"),
    ]
)


@batch_handler(state=STATE)
def fills(symbol: str, ticks: Any, row: Any) -> None:
    row["n"] += len(ticks)
    row["last_price"] = UNDEF_PRICE if symbol == "BB" else 12_345_678_901
    row["name"] = symbol.encode()
    row["hist"] = [1, 2, 3]
    row["grid"] = [[0.5, 1.5], [2.5, 3.5]]
    row["bar"]["open"] = 2_500_000_000
    row["bar"]["change"] = -5


@pytest.fixture(scope="module")
def rows() -> Rows:
    with Dispatcher(["AA", "BB", "CC", "", ""], fills, workers=1, cores=None) as d:
        d.publish(ticks_for([0, 0, 1, 4]))
    return d.rows


COLUMNS = ["symbol", "n", "last_price", "name", "hist", "grid", "bar.open", "bar.change"]
SYMBOLS = ["AA", "BB", "CC", "#4"]


def test_numpy_has_the_symbol_first_and_leaves_out_who_has_neither_name_nor_state(rows: Rows) -> None:
    table = rows.to_numpy()
    assert table.dtype.names == ("symbol", *(STATE.names or ()))
    assert table["symbol"].tolist() == SYMBOLS
    assert table["n"].tolist() == [2, 1, 0, 1]
    assert table["hist"][0].tolist() == [1, 2, 3]


def test_arrow_has_all_columns(rows: Rows) -> None:
    pytest.importorskip("pyarrow")
    table = rows.to_arrow()
    assert table.column_names == COLUMNS
    first = table.to_pylist()[0]
    assert first == {
        "symbol": "AA",
        "n": 2,
        "last_price": 12.345678901,
        "name": "AA",
        "hist": [1, 2, 3],
        "grid": [[0.5, 1.5], [2.5, 3.5]],
        "bar.open": 2.5,
        "bar.change": -5,
    }
    assert table.to_pylist()[1]["last_price"] is None
    assert str(table.schema.field("n").type) == "uint64"


def test_polars_and_arrow_are_the_same_table(rows: Rows) -> None:
    polars = pytest.importorskip("polars")
    frame = rows.to_polars()
    assert frame.columns == COLUMNS
    assert frame.to_dicts() == rows.to_arrow().to_pylist()
    assert frame.schema["grid"] == polars.Array(polars.Float64, (2, 2))


def test_pandas_has_the_symbols_as_its_index(rows: Rows) -> None:
    pytest.importorskip("pandas")
    frame = rows.to_pandas()
    assert frame.index.tolist() == SYMBOLS
    assert frame.columns.tolist() == COLUMNS[1:]
    assert np.isnan(frame.loc["BB", "last_price"])
    assert frame.loc["AA", "hist"] == [1, 2, 3]


def test_prices_stay_exact_integers_where_that_is_asked_for(rows: Rows) -> None:
    frame = rows.to_pandas(prices="integer")
    assert (frame.loc["AA", "last_price"], str(frame["last_price"].dtype)) == (12_345_678_901, "Int64")
    assert frame["last_price"].isna().tolist() == [False, True, False, False]
    assert rows.to_arrow(prices="integer").to_pylist()[1]["last_price"] is None
    assert rows.to_polars(prices="integer")["last_price"].to_list()[:2] == [12_345_678_901, None]
    with pytest.raises(ConfigurationError, match="prices: 'floats'"):
        rows.to_arrow(prices="floats")


def test_of_several_handlers_one_is_named() -> None:
    with Dispatcher(["AA", "BB"], handlers={"AA": fills, "*": "count"}, workers=1, cores=None) as d:
        d.publish(ticks_for([0, 1, 1]))
    assert d.rows.to_numpy("fills")["symbol"].tolist() == ["AA"]
    assert d.rows.to_polars("count").to_dicts()[0]["ticks"] == 2
    with pytest.raises(ConfigurationError, match="different handlers"):
        d.rows.to_pandas()
    with pytest.raises(KeyError, match="no handler is named 'x'"):
        d.rows.to_pandas("x")


@pytest.mark.parametrize(("method", "package"), [
    ("to_pandas", "pandas"), ("to_polars", "polars"), ("to_arrow", "pyarrow"), ("to_pandas", "pyarrow"),
    ("to_polars", "pyarrow"), ("__arrow_c_stream__", "pyarrow"),
])  # fmt: skip
def test_without_the_package_its_extra_is_named(
    rows: Rows, bars: Any, monkeypatch: pytest.MonkeyPatch, method: str, package: str
) -> None:
    extra = "parquet" if package == "pyarrow" else package
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    real = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name == package:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    for made in (rows, bars.outputs["bars"], open_feed(sample_path(), date=SAMPLE_DATE)):
        with pytest.raises(MissingExtraError, match=rf"'{package}': .* pip install 'tickstrand\[{extra}\]'"):
            getattr(made, method)()


@pytest.fixture(scope="module")
def bars() -> Any:
    return strand.replay(sample_path(), strand.bars("30m"), feed_options={"date": SAMPLE_DATE}, workers=1, cores=None)


def plain_join(result: Any) -> list[tuple[str, int, int, int]]:
    """Each bar with the number of its symbol's bars, from the exact arrays alone."""
    found = []
    for record in result.outputs["bars"]:
        symbol = result.symbols[record["instrument_id"]]
        found.append((symbol, int(record["start"]), int(record["volume"]), int(result.rows[symbol]["bars"])))
    return found


def test_rows_and_an_output_join_in_polars(bars: Any) -> None:
    polars = pytest.importorskip("polars")
    output, rows = bars.outputs["bars"].to_polars(), bars.rows.to_polars()
    assert output.schema["symbol"] == rows.schema["symbol"] == polars.String
    joined = output.join(rows.select("symbol", "bars"), on="symbol", maintain_order="left")
    found = joined.select("symbol", polars.col("start").dt.epoch("ns"), "volume", "bars").rows()
    assert found == plain_join(bars)
    assert len(found) > 100
    assert joined.schema["symbol"] == polars.String


def test_tables_join_a_users_own_text_without_a_cast(bars: Any) -> None:
    polars, pandas, pa = (pytest.importorskip(name) for name in ("polars", "pandas", "pyarrow"))
    taken = strand.replay(sample_path(), "bbo", date=SAMPLE_DATE, snapshot=strand.snapshot(every="1h", fields=["bid"]))
    tables = (bars.rows, bars.outputs["bars"], taken.snapshots, open_feed(sample_path(), date=SAMPLE_DATE))
    names = list(bars.rows)[::7]
    own = {"symbol": names, "sector": [name[-1] for name in names]}
    for table in tables:
        expected = table.to_polars()["symbol"].is_in(names).sum()
        assert expected > 0
        for frame in (table.to_polars(), polars.DataFrame(table)):
            assert len(frame.join(polars.DataFrame(own), on="symbol")) == expected
            assert len(polars.DataFrame(own).join(frame, on="symbol")) == expected
        assert len(table.to_pandas().merge(pandas.DataFrame(own), on="symbol")) == expected
        assert table.to_arrow().join(pa.table(own), "symbol", join_type="inner").num_rows == expected


def test_rows_and_an_output_join_in_pandas(bars: Any) -> None:
    pytest.importorskip("pandas")
    output, rows = bars.outputs["bars"].to_pandas(), bars.rows.to_pandas()
    assert output["symbol"].dtype == rows.index.dtype == "string"
    for joined in (output.join(rows[["bars"]], on="symbol"), output.merge(rows[["bars"]], on="symbol")):
        starts = joined["start"].astype("int64").tolist()
        found = list(zip(joined["symbol"], starts, joined["volume"].tolist(), joined["bars"].tolist(), strict=True))
        assert found == plain_join(bars)
    assert output.merge(rows[["bars"]], on="symbol")["symbol"].dtype == output["symbol"].dtype


def test_rows_outputs_and_feeds_have_the_same_types_of_the_same_quantities(bars: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    result = strand.replay(sample_path(), "bbo", feed_options={"date": SAMPLE_DATE}, workers=1, cores=None)
    for prices, price in (("float", pa.float64()), ("decimal", pa.decimal128(19, 9)), ("integer", pa.int64())):
        feed = open_feed(sample_path(), date=SAMPLE_DATE).to_arrow(prices=prices)
        output, rows = result.outputs["bbo"].to_arrow(prices=prices), result.rows.to_arrow(prices=prices)
        assert output.schema.field("bid").type == rows.schema.field("bid").type == price
        assert feed.schema.field("price").type == price
        for table in (feed, output, rows):
            assert table.schema.field("symbol").type == pa.string()
        for name in ("number", "sequence", "ts_event", "instrument_id"):
            assert feed.schema.field(name) == output.schema.field(name)


@pytest.mark.parametrize("prices", ["float", "decimal", "integer"])
def test_dtypes_of_pandas_follow_from_the_declaration(rows: Rows, prices: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = rows.to_pandas(prices=prices)
    dtype = {"float": "float64", "decimal": "decimal128(19, 9)[pyarrow]", "integer": "Int64"}[prices]
    assert str(frame["last_price"].dtype) == str(frame["bar.open"].dtype) == dtype
    assert frame["last_price"].isna().tolist() == [False, True, False, False]
    assert str(frame["n"].dtype) == "uint64"
    assert frame.iloc[:0].dtypes.equals(frame.dtypes)
    frame.loc["AA", "n"] = 7  # a frame is the user's own
    assert (frame.loc["AA", "n"], rows["AA"]["n"]) == (7, 2)
    assert isinstance(frame.index.dtype, pandas.StringDtype)


def test_an_output_without_records_has_the_types_of_one_with_records(bars: Any) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    records = bars.outputs["bars"]
    assert records[:0].to_arrow().schema == records.to_arrow().schema
    assert records[:0].to_polars().schema == records.to_polars().schema
    assert len(records[:0].to_polars()) == 0
    pandas.testing.assert_series_equal(records[:0].to_pandas().dtypes, records.to_pandas().dtypes)
    assert records[:0].to_numpy().dtype.names == records.to_numpy().dtype.names


def test_others_take_the_object_itself(rows: Rows, bars: Any) -> None:
    pa, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    records = bars.outputs["bars"]
    assert pa.table(rows).equals(rows.to_arrow())
    assert pa.table(records).equals(records.to_arrow())
    assert polars.DataFrame(rows).equals(rows.to_polars())
    assert polars.DataFrame(records).equals(records.to_polars())
    assert polars.DataFrame(records[5:9]).equals(records[5:9].to_polars())


def test_numpy_has_the_exact_records_of_an_output_with_their_symbols(bars: Any) -> None:
    records = bars.outputs["bars"]
    found = records.to_numpy()
    assert type(found) is np.ndarray
    names = list(records.dtype.names)
    assert list(found.dtype.names) == [*names[:3], "symbol", *names[3:]]
    assert found["symbol"].tolist() == [bars.symbols[key] for key in records["instrument_id"].tolist()]
    for name in names:
        np.testing.assert_array_equal(found[name], records[name])


def test_a_dispatchers_output_is_a_table_of_what_is_final() -> None:
    pytest.importorskip("pyarrow")

    @batch_handler(state=[("n", "<i8")], outputs={"seen": [("price", PRICE)]})
    def seen(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit((2_500_000_000,), at=0)

    with Dispatcher(["AA", "BB"], seen, workers=1, cores=None) as d:
        d.publish(ticks_for([1]))
        d.drain()
        output = d.outputs["seen"]
        (record,) = output.to_arrow(prices="decimal").to_pylist()
        assert (record["symbol"], str(record["price"])) == ("BB", "2.500000000")
        assert output.to_numpy()["symbol"].tolist() == ["BB"]
        polars = pytest.importorskip("polars")
        pytest.importorskip("pandas")
        assert polars.DataFrame(output).equals(output.to_polars())
        assert output.to_polars().height == len(output.to_pandas()) == 1


# ---- Columns of numpy, and the names of symbols


DECLARED = np.dtype([("high", PRICE), ("low", PRICE)])


def test_a_price_that_is_none_is_nan_whichever_value_stands_for_it() -> None:
    rows = np.zeros(3, DECLARED)
    rows["high"], rows["low"] = [-(1 << 63), 5 * 10**8, -(10**9)], [UNDEF_PRICE, 1, 0]
    table = Table(DECLARED, 1.0).columns(rows)
    np.testing.assert_array_equal(np.asarray(table["high"]), [np.nan, 0.5, -1.0])
    np.testing.assert_array_equal(np.asarray(table["low"]), [np.nan, 1e-9, 0.0])


def test_prices_of_another_name_are_refused_with_the_names_there_are() -> None:
    table, rows = Table(DECLARED, 1.0), np.zeros(1, DECLARED)
    with pytest.raises(ConfigurationError, match="prices: 'floats' is not 'float' or 'decimal' or 'integer'"):
        table.shown(rows, "floats")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="prices: 'decimal' is not 'float' or 'integer'"):
        table.columns(rows, "decimal")  # type: ignore[arg-type]


def test_single_letters_are_text_and_what_is_no_ascii_is_seen() -> None:
    records = np.array([(b"A", b"ab"), (b"", b"\xff"), (b"\xfe", b"")], [("one", "S1"), ("two", "S2")])
    found = Table(records.dtype, 1.0).columns(records)
    assert found["one"].tolist() == ["A", "", "\\xfe"]
    assert found["two"].tolist() == ["ab", "\\xff", ""]
    assert Table(records.dtype, 1.0).columns(records[:2])["one"].tolist() == ["A", ""]
