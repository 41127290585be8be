"""freqtrade's tables of trades and candles: the ticks of its JSON with the same rows, and tables that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from reading import read
from small_files import freqtrade, freqtrade_candles, freqtrade_trades

import strand
from strand import feeds
from strand.errors import ConfigurationError, FormatError
from strand.ticks import UNDEF_PRICE

pytestmark = pytest.mark.python

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("ending", ["feather", "parquet"])
@pytest.mark.parametrize("batch_ticks", [3, 131_072])
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("BTC_USDT-trades", freqtrade_trades(300)),
        ("BTC_USDT-5m", freqtrade_candles(300)),
        ("BTC_USDT_USDT-1h-futures", freqtrade_candles(300, 60)),
        ("BTC_USDT-1Mo", freqtrade_candles(3, 44_640)),
    ],
)
def test_its_tables_give_the_ticks_of_its_json(
    name: str, rows: list[Any], batch_ticks: int, ending: str, *, tmp_path: Path
) -> None:
    (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    wanted = feeds.open(tmp_path / f"{name}.json")
    ticks = wanted.to_numpy()
    feed = feeds.open(freqtrade(tmp_path, f"{name}.{ending}", rows), batch_ticks=batch_ticks)
    assert feed.to_numpy().tobytes() == ticks.tobytes()
    assert (list(feed.symbols), feed.info.bars, feed.info.size_unit, feed.info.has_sizes) == (
        list(wanted.symbols), wanted.info.bars, 1e-8, True,
    )  # fmt: skip


def test_bars_of_a_table_are_resampled(tmp_path: Path) -> None:
    rows = freqtrade_candles(12)
    result = strand.replay(freqtrade(tmp_path, "BTC_USDT-5m.feather", rows), strand.bars("15m"))
    table = result.outputs["bars"].to_polars()
    assert table["volume"].to_list() == pytest.approx(
        [sum(row[5] for row in rows[at : at + 3]) for at in range(0, 12, 3)]
    )


@pytest.mark.parametrize("name", ["candles.feather", "BTC_USDT-1h-mark.feather", "BTC_USDT-8h-funding_rate.feather"])
def test_candles_of_another_name_are_tables_like_any_other(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the table has bars"):
        feeds.open(freqtrade(tmp_path, name, freqtrade_candles(3)))


def test_nulls_are_no_values_and_other_rows_that_are_none_are_named(tmp_path: Path) -> None:
    rows = freqtrade_trades(9)
    rows[5], rows[7] = (*rows[5][:4], None, *rows[5][5:]), (rows[7][0], None, *rows[7][2:])
    ticks = feeds.open(freqtrade(tmp_path, "BTC_USDT-trades.parquet", rows)).to_numpy()
    assert (ticks["price"] == UNDEF_PRICE).tolist() == [at == 5 for at in range(9)]
    assert ticks["ref_id"].tolist() == [*range(7, 14), 0, 15]
    rows[5] = (*rows[5][:3], "both", *rows[6][4:])
    ticks, error = read(feeds.open(freqtrade(tmp_path, "BTC_USDT-trades.parquet", rows)))
    assert len(ticks) == 5
    with pytest.raises(FormatError, match="row 6"):
        raise error or AssertionError
    candles = freqtrade_candles(9)
    candles[5] = (*candles[5][:5], 0.1 + 0.2)
    ticks, error = read(feeds.open(freqtrade(tmp_path, "BTC_USDT-5m.parquet", candles)))
    with pytest.raises(FormatError, match="inexact"):
        raise error or AssertionError
    rounded = feeds.open(tmp_path / "BTC_USDT-5m.parquet", inexact="round")
    assert int(rounded.to_numpy()["size"][23]) == 30_000_000
    assert rounded.statistics()["rows_rounded"] == 1
    candles[5] = (None, *candles[4][1:])
    ticks, error = read(feeds.open(freqtrade(tmp_path, "BTC_USDT-5m.feather", candles)))
    assert isinstance(error, FormatError)
    assert len(ticks) == 20
