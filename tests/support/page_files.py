"""Small files of the names that the pages of the documentation use."""

from __future__ import annotations

import datetime as dt
import gzip
import re
import shutil
from pathlib import Path

import bi5_reference
import dbn_reference as dbn_ref
import feed_samples as samples
import numpy as np
import pytest
import scid_reference
from small_files import FILES

from strand.feeds.times import midnight_ns
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

__all__ = ["make_files"]

DOCS = Path(__file__).resolve().parents[2] / "docs"


def day(path: Path, date: dt.date, count: int = 400) -> None:
    """Orders of five symbols in 20 ms from half past nine on."""
    ticks = zeros(count)
    ticks["ts_event"] = ticks["ts_recv"] = midnight_ns(date) + 34_200 * 10**9 + np.arange(count) * 50_000
    ticks["order_id"], ticks["sequence"] = np.arange(count), np.arange(1, count + 1)
    ticks["price"], ticks["size"] = 10**11 + np.arange(count) * 10**7, 100
    ticks["instrument_id"] = np.arange(count) % 5
    ticks["action"], ticks["side"], ticks["kind"] = b"A", b"B", 1
    write_npy(path, ticks, ["AAPL", "AAL", "SPY", "MSFT", "QQQ"])


def dbn(path: Path, schema: str, **changes: object) -> None:
    import databento_dbn as library

    name = [(dt.date(2024, 1, 1), dt.date(2025, 1, 1), "7")]
    at = int(dt.datetime(2024, 5, 8, 14, tzinfo=dt.UTC).timestamp()) * 10**9
    start = {"start": at, "schema": library.Schema.from_str(schema)}
    ten_levels = dbn_ref.record(0x0A, dbn_ref.head() + dbn_ref.levels(10), event=at)
    records = dbn_ref.mbo(received=at, event=at) if schema == "mbo" else ten_levels
    path.write_bytes(samples.zstd(dbn_ref.metadata(3, {"AAPL": name}, **(start | changes)) + records))


def make_files(folder: Path) -> None:
    """Fills a folder. Skips the test that asks where a package for a format is not there."""
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("databento_dbn")
    pytest.importorskip("zstandard")
    day(folder / "day.npz", dt.date(2026, 1, 5))
    convert(folder / "day.npz", folder / "20260105.itch50")
    convert(folder / "day.npz", folder / "20260105.itch50.gz")
    (folder / "20260105.itch50").rename(folder / "day.itch50")
    (folder / "20260105.itch50.gz").rename(folder / "day.itch50.gz")
    day(folder / "2019.npz", dt.date(2019, 1, 30))
    convert(folder / "2019.npz", folder / "01302019.NASDAQ_ITCH50.gz", to="itch")
    for part in range(2):
        convert(folder / "2019.npz", folder / f"part-{part}.parquet", limit=100 + part)
    (folder / "2026-01-05").mkdir()
    for name in "ab":
        day(folder / "2026-01-05" / f"{name}.npz", dt.date(2026, 1, 5))
    dbn(folder / "glbx.mbo.dbn.zst", "mbo")
    dbn(folder / "glbx-mdp3-20240508.mbo.dbn.zst", "mbo")
    dbn(folder / "glbx-mdp3-20240508.mbp-10.dbn.zst", "mbp-10")
    dbn(folder / "xnas-itch-20240508.mbp-10.dbn.zst", "mbp-10", dataset="XNAS.ITCH")
    for name in ("XNAS", "XNYS"):
        dbn(folder / f"{name.lower()}.dbn.zst", "mbo", dataset=f"{name}.PILLAR")
    event = [("ev", "<u8"), ("exch_ts", "<i8"), ("local_ts", "<i8"), ("px", "<f8"), ("qty", "<f8"),
             ("order_id", "<u8"), ("ival", "<i8"), ("fval", "<f8")]  # fmt: skip
    np.savez(folder / "btcusdt.20240808.npz", data=np.array([(0xE0000002, 1, 2, 9.5, 0.001, 0, 0, 0)] * 2, event))
    table = pytest.importorskip("pyarrow").table
    trades = {"ts_event": [10**18], "symbol": ["X"], "price": [9.5], "size": [3]}
    parquet.write_table(table(trades), folder / "trades.parquet")
    bids = {"received": [10**12], "cents": [950], "taker": ["buyer"], "amount": [0.25]}
    parquet.write_table(table(bids), folder / "bids.parquet")
    coins = {"ts_event": [10**18], "arrived": [10**18 + 1], "p": [9.5], "flags": [1 << 40], "size": [3]}
    parquet.write_table(table(coins), folder / "coins.parquet")
    for name in ("freqtrade trades", "freqtrade candles"):
        next(file for file in FILES if file.name == name).write(folder)
    (folder / "lines.pcap").write_bytes(samples.pcap())
    (folder / "20260105_IEXTP1_DEEP1.0.pcap.gz").write_bytes(gzip.compress(samples.iex(0x8004)))
    for hour in (10, 11):
        data = bi5_reference.packed(bi5_reference.some(hour))
        bi5_reference.write(folder, "EURUSD", dt.datetime(2019, 2, 4, hour, tzinfo=dt.UTC), data)
    (folder / "ESH20-CME.scid").write_bytes(scid_reference.file(scid_reference.some(4)))
    (folder / "today.ws").write_bytes(samples.websocket())
    profile, *_ = re.findall(r"```toml\n(.*?)```", (DOCS / "feeds/json.md").read_text("utf-8"), re.DOTALL)
    (folder / "binance.toml").write_text(profile)
    deal = (
        b'1723161254024619568 {"data": {"e": "trade", "T": 1, "s": "ETHUSDT", "p": "2", "q": "3", "t": 7, "m": true}}\n'
    )
    (folder / "binance.jsonl.gz").write_bytes(gzip.compress(deal))
    (folder / "mymodule.py").write_text(
        "import strand\n\n\n@strand.batch_handler(state=[('n', 'u8')])\ndef quotes(symbol, ticks, row):\n"
        "    row['n'] += len(ticks)\n\n\n"
        "@strand.batch_handler(on='trade', state=[('n', 'u8')])\ndef trades(symbol, ticks, row):\n"
        "    row['n'] += len(ticks)\n"
    )
    shutil.copy(folder / "day.itch50", folder / "01052026.NASDAQ_ITCH50")
    shutil.copy(folder / "glbx.mbo.dbn.zst", folder / "cme.dbn.zst")
