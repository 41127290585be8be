"""Tables in memory as feeds: of polars, pandas, pyarrow and numpy."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
from strand import feeds
from strand.errors import ConfigurationError, FeedError, FormatError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.ticks import zeros

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.python

#: The table of a feed has null where a tick has no id, and says nothing of what its ticks mean.
OF_TICKS: Any = {"nulls": "undefined", "ticks": "orders"}


@pytest.fixture(scope="module")
def day() -> Any:
    """The first ticks of the sample as a table of Arrow, with exact prices."""
    with feeds.open(sample_path(), date=SAMPLE_DATE) as feed:
        return feed.to_arrow(prices="decimal").slice(0, 30_000).combine_chunks()


@pytest.fixture(scope="module")
def fingerprint(day: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """That of the same ticks in a file."""
    from pyarrow import feather

    path = tmp_path_factory.mktemp("day") / "day.arrow"
    feather.write_feather(day, path, compression="uncompressed")
    return strand.replay(path, "vwap", feed_options=OF_TICKS).fingerprint


FORMS: dict[str, Callable[[Any], Any]] = {
    "polars.DataFrame": pl.from_arrow,
    "polars.LazyFrame": lambda table: pl.from_arrow(table).lazy(),
    "polars, symbols as categories": lambda table: pl.from_arrow(table).with_columns(
        pl.col("symbol").cast(pl.Categorical)
    ),
    "polars, times in a zone": lambda table: pl.from_arrow(table).with_columns(
        pl.col("ts_recv", "ts_event").dt.convert_time_zone("America/New_York")
    ),
    "pandas.DataFrame": lambda table: table.to_pandas(),
    "pandas, symbols as categories": lambda table: table.to_pandas().astype({"symbol": "category"}),
    "pandas, types of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pyarrow.Table": lambda table: table,
    "pyarrow.RecordBatch": lambda table: table.to_batches()[0],
    "pyarrow, dictionary": lambda table: table.set_column(
        table.schema.get_field_index("symbol"), "symbol", table["symbol"].dictionary_encode()
    ),
    "pyarrow.RecordBatchReader": lambda table: table.to_reader(1000),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_table_gives_what_a_file_of_it_gives(form: str, day: Any, fingerprint: str) -> None:
    result = strand.replay(FORMS[form](day), "vwap", feed_options=OF_TICKS)
    assert result.fingerprint == fingerprint
    assert result.ticks == 30_000
    assert result.info.path == (form if "." in form else f"{form.partition(',')[0]}.{result.info.path.split('.')[1]}")


def test_selections_and_options_are_those_of_files(day: Any) -> None:
    frame = pl.from_arrow(day)
    chosen = {"symbols": ["AAAH*"], "start": "2026-01-05T09:30-05:00", "end": "2026-01-05T09:30:02-05:00"}
    result = strand.replay(frame, "count", **chosen, feed_options=OF_TICKS)
    wanted = frame.filter(
        pl.col("symbol").str.starts_with("AAAH"),
        pl.col("ts_recv") >= pl.datetime(2026, 1, 5, 14, 30, time_zone="UTC"),
        pl.col("ts_recv") < pl.datetime(2026, 1, 5, 14, 30, 2, time_zone="UTC"),
    )
    assert result.ticks == len(wanted) > 0
    with feeds.open(frame, nulls="undefined", start="09:30", zone="America/New_York") as feed:
        assert feed.info.zone == "America/New_York"


def test_categories_in_files_of_polars_are_chosen_too(day: Any, tmp_path: Path) -> None:
    pl.from_arrow(day).with_columns(pl.col("symbol").cast(pl.Categorical)).write_ipc(tmp_path / "day.arrow")
    assert strand.replay(tmp_path / "day.arrow", "count", symbols=["AAAH*"], feed_options=OF_TICKS).ticks > 0


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_may_have_any_unit_and_zone(unit: str, zone: str | None) -> None:
    start = 1_700_000_000
    times = pl.Series([start * 1000, start * 1000 + 1]).cast(pl.Datetime("ms")).cast(pl.Datetime(unit))
    frame = pl.DataFrame({"time": times, "ticker": ["A", "B"], "px": [1.5, 2.25], "qty": [1, 2]})
    if zone is not None:
        frame = frame.with_columns(pl.col("time").dt.replace_time_zone("UTC").dt.convert_time_zone(zone))
    columns = {"ts_event": "time", "symbol": "ticker", "price": "px", "size": "qty"}
    for table in (frame, frame.to_pandas()):
        ticks = feeds.open(table, columns=columns).to_numpy()
        assert ticks["ts_event"].tolist() == [start * 10**9, start * 10**9 + 10**6]
        assert ticks["price"].tolist() == [1_500_000_000, 2_250_000_000]
    if zone is None:
        ticks = feeds.open(frame, columns=columns, zone="Europe/Berlin").to_numpy()
        assert ticks["ts_event"][0] == (start - 3600) * 10**9


def test_decimals_and_the_shortest_text_of_a_float_are_exact() -> None:
    times = np.arange(3) + 10**18
    made = {"ts_event": times, "symbol": ["A"] * 3, "size": [1, 2, 3]}
    prices = [Decimal("0.123456789"), Decimal("-5.1"), Decimal("9223372036.000000001")]
    exact = feeds.open(pl.DataFrame({**made, "price": pl.Series(prices, dtype=pl.Decimal(38, 9))})).to_numpy()
    assert exact["price"].tolist() == [123_456_789, -5_100_000_000, 9_223_372_036_000_000_001]
    floats = feeds.open(pd.DataFrame({**made, "price": [0.1, 35821.09, 1e-9]})).to_numpy()
    assert floats["price"].tolist() == [100_000_000, 35_821_090_000_000, 1]


def test_structured_arrays_are_read_as_files_of_numpy_are(tmp_path: Path) -> None:
    ticks = zeros(2500)
    ticks["ts_event"] = ticks["ts_recv"] = 10**18 + np.arange(2500)
    ticks["instrument_id"] = np.arange(2500) % 7
    np.save(tmp_path / "ticks.npy", ticks)
    one, other = (strand.replay(source, "count") for source in (ticks, tmp_path / "ticks.npy"))
    assert one.fingerprint == other.fingerprint
    strided = feeds.open(ticks[::2]).to_numpy()
    assert strided.tobytes() == ticks[::2].tobytes()
    own = np.zeros(5, [("t", "M8[us]"), ("px", "f8"), ("qty", "u4")])
    own["t"], own["px"] = np.arange(5).astype("M8[us]"), np.arange(5) / 4
    columns: Any = {"ts_event": "t", "price": "px", "size": "qty"}
    read = feeds.open(own, columns=columns, symbol="A").to_numpy()
    assert read["ts_event"].tolist() == [0, 1000, 2000, 3000, 4000]
    assert read["price"].tolist() == [0, 250_000_000, 500_000_000, 750_000_000, 10**9]


def test_an_array_is_neither_copied_nor_written_to() -> None:
    ticks = zeros(10)
    batch = next(iter(feeds.open(ticks)))
    assert np.shares_memory(batch, ticks)
    with pytest.raises(ValueError, match="read-only"):
        batch["size"] = 1
    ticks["size"] = 1


@pytest.mark.parametrize("kind", ["U8", "S8"])
def test_records_may_name_their_symbols(kind: str) -> None:
    array = np.zeros(3, [("ts_event", "M8[ns]"), ("symbol", kind), ("price", "f8"), ("size", "i8")])
    array["symbol"], array["ts_event"] = ["A", "B", "A"], np.arange(3)
    with feeds.open(array) as feed:
        assert feed.to_arrow()["symbol"].to_pylist() == ["A", "B", "A"]


def test_an_index_of_pandas_is_a_column(day: Any) -> None:
    frame = day.to_pandas().drop(columns="ts_event").set_index("ts_recv")
    assert strand.replay(frame, "count", feed_options=OF_TICKS).ticks == 30_000


def test_a_reader_of_batches_is_read_once_and_a_table_as_often_as_one_likes(day: Any) -> None:
    feed = feeds.open(day.to_reader(1000), nulls="undefined")
    assert sum(map(len, feed)) == 30_000
    with pytest.raises(
        FeedError, match=r"pyarrow.RecordBatchReader: was read before, and cannot begin anew: give a table"
    ):
        list(feed)
    again = feeds.open(day, nulls="undefined")
    assert [sum(map(len, again)), sum(map(len, again)), again.count()] == [30_000] * 3


def test_a_reader_that_fails_ends_with_its_words_after_its_ticks(day: Any) -> None:
    def batches() -> Any:
        yield from day.to_batches(1000)[:2]
        raise ValueError("the source is gone")

    feed = feeds.open(pa.RecordBatchReader.from_batches(day.schema, batches()), nulls="undefined")
    read = 0
    with pytest.raises(FormatError, match=r"cannot be read on after row 2000: .*the source is gone"):
        for batch in feed:
            read += len(batch)
    assert read == 2000


GOOD = {"ts_event": [10**18, 10**18 + 1], "symbol": ["A", "B"], "price": [1.0, 2.0], "size": [1, 2]}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (GOOD | {"price": ["1", "x"]}, "polars.DataFrame: row 2: column 'price' 'x' is not a number"),
        (GOOD | {"ts_event": [True, False]}, r"column 'ts_event' \(bool\) for ts_event is neither a timestamp"),
        (GOOD | {"symbol": [1.5, 2.5]}, r"column 'symbol' \(double\)"),
        (GOOD | {"size": [1, None]}, "row 2: column 'size' holds null"),
        (GOOD | {"size": [[1], [2]]}, "column 'size' "),
        (GOOD | {"price": [1.0, 1e-10]}, "row 2: column 'price' 1e-10 is not a whole number of units of 1e-9"),
        ({"a": [1]}, "polars.DataFrame: no column looks like times"),
    ],
)
def test_a_wrong_type_or_value_names_its_column(table: Any, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        feeds.open(pl.DataFrame(table, strict=False)).to_numpy()


def test_what_is_no_table_is_refused() -> None:
    for wrong in (np.zeros(3), np.zeros((2, 2)), np.array([None]), zeros(4).reshape(2, 2)):
        with pytest.raises(FormatError, match=r"records|structured"):
            feeds.open(wrong)
    for other in ({"a": 1}, 5):
        with pytest.raises(ConfigurationError, match="is neither a path, nor a list of them, nor a table or array"):
            strand.replay(other, "count")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="profile"):
        feeds.open(pl.DataFrame(GOOD), profile="tardis-trades")


def test_tables_are_converted_and_their_runs_have_fingerprint_files(day: Any, tmp_path: Path) -> None:
    written = convert(pl.from_arrow(day), tmp_path / "day.npz", feed_options=OF_TICKS)
    assert written.ticks == 30_000
    strand.replay(day, "count", feed_options=OF_TICKS, fingerprint_every=10_000, fingerprints=tmp_path / "a.fp")
    header = json.loads((tmp_path / "a.fp").read_text().splitlines()[0])
    assert header["source"] == [{"path": "pyarrow.Table", "size": None, "head": None}]
