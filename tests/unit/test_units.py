"""The meaning of numbers, from the declaration of a field to the tables people read."""

from __future__ import annotations

import csv
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from command_here import run_here
from engine_support import ticks_for

import strand
from strand import Dispatcher, ReplayResult, replay
from strand.errors import ConfigurationError
from strand.feeds.merge.feeds import merge_feeds
from strand.handlers import BUILTIN
from strand.report.result_rows import write_rows
from strand.ticks import zeros
from strand.units import NOTIONAL, PRICE, SIZE, Unit, declare, meaning_of, undeclared

pytestmark = pytest.mark.python

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pytest.importorskip("pyarrow")

#: Amounts that real files mix, and prices; the second symbol has a quote's row, and no trade.
AMOUNTS = ("1000000", "150000", "2000.5", "0.00000001", "120.25")
PRICES = ("8700", "8701.5", "8702", "8703.123456789", "8699.000000001")
SIDES = ("buy", "sell", "buy", "unknown", "sell")


@pytest.fixture(scope="module")
def crypto(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crypto") / "trades.csv"
    lines = ["exchange,symbol,timestamp,local_timestamp,id,side,price,amount"]
    for i, (price, amount, side) in enumerate(zip(PRICES, AMOUNTS, SIDES, strict=True)):
        time = 1_585_699_200_000_000 + 1000 * i
        lines.append(f"bitmex,XBTUSD,{time},{time},{i},{side},{price},{amount}")
    path.write_text("\n".join(lines) + "\n")
    return path


def exact(text: str) -> Fraction:
    return Fraction(Decimal(text))


VOLUME = sum(map(exact, AMOUNTS))
TURNOVER = sum(exact(p) * exact(a) for p, a in zip(PRICES, AMOUNTS, strict=True))


def close(found: Any, expected: Fraction) -> bool:
    return math.isclose(float(found), float(expected), rel_tol=1e-14)


def test_sizes_of_a_handler_that_is_called_with_trades_are_in_units_of_the_instrument(crypto: Path) -> None:
    @strand.batch_handler(state=[("volume", SIZE)], on="trade")
    def traded(symbol: str, trades: Any, row: Any) -> None:
        row["volume"] += trades["size"].sum()

    result = replay(crypto, traded, workers=1, cores=None)
    assert close(result.rows.to_pandas()["volume"].loc["XBTUSD"], VOLUME)


def test_sizes_of_a_crypto_feed_are_in_units_of_the_instrument(crypto: Path) -> None:
    result = replay(crypto, "trade_stats")
    row, shown = result.rows["XBTUSD"], result.rows.to_pandas().loc["XBTUSD"]
    assert row["volume"] == VOLUME * 10**8  # exact, in the feed's unit
    assert result.rows.units["volume"] == Unit("size", Decimal("1E-8"))
    assert shown["volume"] == float(VOLUME)
    assert close(shown["notional"], TURNOVER)
    assert close(shown["size_mean"], VOLUME / 5)
    mean = VOLUME / 5
    assert close(shown["size_variance"], sum((exact(a) - mean) ** 2 for a in AMOUNTS) / 4)
    assert (shown["size_min"], shown["size_max"]) == (1e-8, 1e6)
    assert (shown["price_min"], shown["price_max"]) == (8699.000000001, 8703.123456789)
    assert str(shown["first_time"]) == "2020-04-01 00:00:00+00:00"
    assert shown["interarrival_ns"] == 1e6


def test_emitted_bars_name_their_units_and_become_tables(crypto: Path) -> None:
    bars = replay(crypto, strand.bars(ticks=2)).outputs["bars"]
    assert bars["volume"].tolist() == [115_000_000_000_000, 200_050_000_001, 12_025_000_000]
    assert str(bars.units["volume"]) == "1E-8 units of the instrument"
    assert str(bars.units["open"]) == "1E-9 units of currency"
    assert str(bars.units["ts"]) == "1E-9 s since 1970-01-01 UTC"
    frame = bars[:2].to_polars()
    assert frame["symbol"].to_list() == ["XBTUSD", "XBTUSD"]
    assert frame["volume"].to_list() == [1_150_000, 2000.50000001]
    assert frame["high"].to_list() == [8701.5, 8703.123456789]
    assert close(frame["notional"][1], 8702 * exact("2000.5") + exact("8703.123456789") * exact("0.00000001"))
    table = bars.to_arrow()
    assert table["number"].to_pylist() == [1, 3, None]  # the last was emitted by the end of the run
    assert bars.to_pandas()["number"].isna().tolist() == [False, False, True]


def test_rows_written_as_csv_are_in_natural_units_and_as_npy_exact(crypto: Path, tmp_path: Path) -> None:
    result = replay(crypto, "trade_stats")
    write_rows(tmp_path / "rows.csv", result)
    write_rows(tmp_path / "rows.npy", result)
    (row,) = csv.DictReader((tmp_path / "rows.csv").read_text().splitlines())
    assert float(row["volume"]) == float(VOLUME)
    assert float(row["price_last"]) == 8699.000000001
    assert row["first_time"] == "2020-04-01T00:00:00.000000000Z"
    assert "notional_low" not in row
    assert np.load(tmp_path / "rows.npy")["volume"].tolist() == [VOLUME * 10**8]
    one = replay(crypto, "trade_stats", limit=1)
    write_rows(tmp_path / "one.csv", one)
    (row,) = csv.DictReader((tmp_path / "one.csv").read_text().splitlines())
    assert (row["volume"], row["size_variance"], row["interarrival_ns"]) == ("1000000.0", "", "")


@pytest.mark.parametrize(
    "options", [{"volume": "1000.00000001"}, {"volume": 2000}, {"notional": 1e6}, {"notional": "0.5"}]
)
def test_bars_close_by_units_of_the_instrument_and_of_currency(crypto: Path, options: dict[str, Any]) -> None:
    ((kind, least),) = options.items()
    expected, volume, notional = [], Fraction(0), Fraction(0)
    for price, amount in zip(PRICES, AMOUNTS, strict=True):
        volume, notional = volume + exact(amount), notional + exact(price) * exact(amount)
        if (volume if kind == "volume" else notional) >= exact(str(least)):
            expected.append(float(volume))
            volume = notional = Fraction(0)
    expected += [float(volume)] if volume else []
    bars = replay(crypto, strand.bars(**options)).outputs["bars"]
    assert bars.to_polars()["volume"].to_list() == expected
    assert len(expected) > 1


def test_an_amount_that_the_feed_cannot_count_is_refused(crypto: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"volume: give a multiple of 1E-8, not 1E-9: sizes are in units of 1e-08"
    ):
        replay(crypto, strand.bars(volume="1e-9"))
    with pytest.raises(ConfigurationError, match=r"volume: give a multiple of 1, not 0.5: sizes are in units of 1"):
        Dispatcher(["A"], strand.bars(volume="0.5"))
    with pytest.raises(ConfigurationError, match=r"notional: give a multiple of 1E-9, not 1E-10"):
        Dispatcher(["A"], strand.bars(notional="1e-10"))
    other = tmp_path / "other.csv"
    other.write_text(crypto.read_text().replace("XBTUSD", "ETHUSD"))
    with pytest.raises(ConfigurationError, match="volume: the merged files have sizes in different units: read them"):
        replay(merge_feeds([strand.feeds.open(crypto), _whole(other)]), strand.bars(volume=10))


def test_a_symbol_without_trades_has_no_price() -> None:
    with Dispatcher(["A", "B"], "trade_stats", workers=1, cores=None) as d:
        ticks = ticks_for([0])
        ticks["kind"], ticks["action"], ticks["price"], ticks["size"] = strand.ticks.KIND_TRADE, b"T", 5 * 10**9, 3
        d.publish(ticks)
    (one, none) = d.rows.to_arrow().to_pylist()
    undefined = {
        "size_mean", "size_variance", "size_min", "size_max", "price_min", "price_max", "price_first", "price_last",
        "first_time", "last_time", "interarrival_ns",
    }  # fmt: skip
    assert {name for name, value in none.items() if value is None} == undefined
    assert {name for name, value in one.items() if value is None} == {"size_variance", "interarrival_ns"}
    assert (one["price_min"], one["volume"]) == (5.0, 3)
    assert np.isnan(d.rows.to_pandas().loc["B", "price_last"])


EVERY: dict[str, Any] = {
    "bars": {"every": "1m"}, "spread": {"every": "1m"}, "imbalance": {"every": "1m"}, "vwap": {"every": "1m"},
    "trade_stats": {"every": "1m"}, "volatility": {"ticks": 1, "every": "1m"},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(BUILTIN) - {"spin"}))
def test_built_in_handlers_declare_all_their_fields(name: str) -> None:
    for options in ({}, EVERY.get(name, {})):
        made = BUILTIN[name](**options)
        for dtype in (made.state, *(dtype for _, dtype in made.emitted)):
            quiet = [field for field in dtype.names or () if meaning_of(dtype[field]).quantity == "raw"]
            assert quiet == []


@pytest.mark.parametrize("name", sorted(set(BUILTIN) - {"spin"}))
def test_no_table_of_a_symbol_without_ticks_shows_a_price_or_a_time(name: str) -> None:
    made = BUILTIN[name](**EVERY.get(name, {}))
    with Dispatcher(["A"], made, workers=1, cores=None) as d:
        pass
    (row,) = d.rows.to_arrow().to_pylist()
    shown = {field: value for field, value in row.items() if d.rows.units.get(field) is not None}
    for field, value in shown.items():
        if d.rows.units[field].quantity in ("price", "time", "ratio", "letter"):
            assert value is None or value == [None] * len(value), field


def numbers(column: Any) -> Any:
    """The numbers of a column, or of the lists in it, that are not null; none of a column of times or letters."""
    import pyarrow as pa

    column = column.combine_chunks()
    while pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return column.drop_null().to_numpy(zero_copy_only=False) if is_number else np.zeros(0)


@pytest.mark.parametrize("name", sorted(set(BUILTIN) - {"spin"}))
def test_no_table_of_the_sample_day_shows_a_sentinel(name: str) -> None:
    from strand.feeds.sample import SAMPLE_DATE, sample_path

    for options in ({}, EVERY.get(name, {})):
        result = replay(sample_path(), BUILTIN[name](**options), feed_options={"date": SAMPLE_DATE})
        for table in (result.rows.to_arrow(), *(records.to_arrow() for records in result.outputs.values())):
            for field in table.column_names:
                assert (np.abs(numbers(table[field]).astype(float)) <= 1e18).all(), field  # NaN is not either


def test_files_that_count_sizes_differently_have_no_unit_together(crypto: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(crypto.read_text().replace("XBTUSD", "ETHUSD"))
    merged = merge_feeds([strand.feeds.open(crypto), _whole(other)])
    result: ReplayResult = replay(merged, "count")
    assert result.rows.units["volume"] == Unit("size", None)
    (warning,) = result.warnings
    assert (warning.kind, warning.count) == ("mixed size units", result.ticks)
    with pytest.raises(ConfigurationError, match="volume: the merged files have sizes in different units: read them"):
        result.rows.to_pandas()


def test_an_output_of_mixed_sizes_is_refused_as_a_table_before_the_run_and_not_as_integers(
    crypto: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.csv"
    other.write_text(crypto.read_text().replace("XBTUSD", "ETHUSD"))
    whole = _whole(other)
    for ending in (".csv", ".npy"):
        out = tmp_path / f"trades{ending}"
        merged = merge_feeds([strand.feeds.open(crypto), whole])
        if ending == ".csv":
            with pytest.raises(
                ConfigurationError, match="size: the merged files have sizes in different units: read them"
            ) as refused:
                replay(merged, strand.trades(), out={"trades": out})
            assert getattr(refused.value, "partial", None) is None
            assert not out.exists()
            whole = strand.feeds.open(other, size_unit="1")
        else:
            assert replay(merged, strand.trades(), out={"trades": out}).written["trades"][1] > 0


def test_rows_of_mixed_sizes_are_refused_as_a_table_before_the_run(crypto: Path, tmp_path: Path) -> None:
    """A long run would else end with nothing to show for it."""
    other = tmp_path / "other.npz"
    ticks = zeros(3)
    ticks["ts_event"] = ticks["ts_recv"] = 1_585_699_200_000_000_000
    np.savez(other, ticks=ticks, symbols=np.array(["B"]))
    command = ["replay", crypto, other, "--workers", "1", "--json", "--out"]
    refused = run_here(*command, tmp_path / "rows.csv")
    assert refused.returncode == 2
    assert "size_unit" in refused.stderr
    assert not refused.stdout
    assert not (tmp_path / "rows.csv").exists()
    assert run_here(*command, tmp_path / "rows.npy").returncode == 0
    assert len(np.load(tmp_path / "rows.npy")) == 2


def _whole(path: Path) -> Any:
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "." not in line) + "\n")
    return strand.feeds.open(path, size_unit="1")


def test_own_handlers_declare_units_in_their_dtypes() -> None:
    state = [
        ("high", PRICE),
        ("volume", SIZE),
        ("turnover", NOTIONAL),
        ("last", declare(PRICE, given={"n": 1})),
        ("n", "<i8"),
    ]

    @strand.batch_handler(state=state, outputs={"seen": [("price", PRICE), ("what", "<i8")]})
    def mine(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        row["high"], row["volume"], row["turnover"] = 2_500_000_000, 7, 17.5
        ctx.emit((3_000_000_000, 4), at=0)

    with Dispatcher(["A"], mine, workers=1, cores=None) as d:
        d.publish(ticks_for([0]))
    (row,) = d.rows.to_arrow().to_pylist()
    assert row == {"symbol": "A", "high": 2.5, "volume": 7, "turnover": 17.5, "last": None, "n": 0}
    assert {name: unit.quantity for name, unit in d.rows.units.items()} == {
        "high": "price", "volume": "size", "turnover": "notional", "last": "price", "n": "raw",
    }  # fmt: skip
    (record,) = d.outputs["seen"].array().to_polars().to_dicts()
    assert (record["price"], record["what"]) == (3.0, 4)
    assert str(d.outputs["seen"].units["what"]) == "not declared"


def test_annotations_declare_units_by_name() -> None:
    class State:
        high: Annotated[np.int64, "price"]
        volume: Annotated[np.int64, "size"]
        mean: Annotated[float, "price"]
        seen: Annotated[int, "time"]

    @strand.batch_handler(state=State)
    def mine(symbol: str, ticks: Any, row: Any) -> None:
        row["high"], row["volume"], row["mean"] = 2_500_000_000, 7, 1.25
        row["seen"] = 1_767_623_400 * 10**9

    with Dispatcher(["A"], mine, workers=1, cores=None) as d:
        d.publish(ticks_for([0]))
    assert [str(unit) for unit in d.rows.units.values()] == [
        "1E-9 units of currency", "units of the instrument", "units of currency", "1E-9 s since 1970-01-01 UTC",
    ]  # fmt: skip
    assert d.rows.to_polars().row(0)[:4] == ("A", 2.5, 7, 1.25)
    assert str(d.rows.to_pandas().loc["A", "seen"]) == "2026-01-05 14:30:00+00:00"
    for hint, said in (
        (Annotated[int, "money"], "state.x: 'money' is not the size .* none of price"),
        (Annotated[bool, "price"], "state.x: a field of bool"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            strand.batch_handler(state=type("State", (), {"__annotations__": {"x": hint}}))(mine)


def test_arrays_that_users_get_declare_nothing_that_numpy_cannot_save(tmp_path: Path, crypto: Path) -> None:
    result = replay(crypto, strand.bars(ticks=2))
    for array in (result.rows.array, result.outputs["bars"]):
        assert undeclared(array.dtype) is array.dtype
        np.save(tmp_path / "x.npy", array)
        np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), array)
