"""Sierra Chart's intraday data: trades with their quotes, and records and files that are something else."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scid_reference as ref

import strand
from strand import feeds
from strand.errors import ConfigurationError, FormatError, TruncatedFeedError, UnknownFormatError

pytestmark = pytest.mark.python

US = ref.at(ref.NOON)


def written(folder: Path, records: list[ref.Record], name: str = "ESH20-CME.scid", **head: int) -> Path:
    path = folder / name
    path.write_bytes(ref.file(records, **head))
    return path


def one(**changes: Any) -> ref.Record:
    names = ("us", "open", "high", "low", "close", "trades", "volume", "at_bid", "at_ask")
    values = dict(zip(names, ref.trade(US, 3300.0, 3300.25, 3300.25, volume=3, at_ask=True), strict=True)) | changes
    return tuple(values.values())  # type: ignore[return-value]


def test_trades_and_quotes_are_those_of_an_independent_decoder(tmp_path: Path) -> None:
    path = written(tmp_path, ref.some(3, 5000))
    wanted = ref.read(path.read_bytes())
    for batch_ticks in (65_536, 700):
        with feeds.open(path, batch_ticks=batch_ticks) as feed:
            ticks = feed.to_numpy()
            assert feed.symbols == ("ESH20-CME",)
        assert len(ticks) == len(wanted) == 10_000
        for tick, want in zip(ticks, wanted, strict=True):
            assert {name: tick[name] for name in want} == want
    assert ticks["sequence"].tolist() == [number for number in range(1, 5001) for _ in range(2)]
    # Each symbol's quote comes before its trade, at the same time.
    assert (ticks["ts_recv"][::2] == ticks["ts_recv"][1::2]).all()


def test_handlers_get_trades_with_their_aggressor_and_the_quote(tmp_path: Path) -> None:
    path = written(tmp_path, [one(), one(us=US + 1, close=3300.0, at_bid=2, at_ask=0, volume=2)])
    row = strand.replay(path, strand.trade_stats(sign="aggressor")).rows["ESH20-CME"]
    assert (row["trades"], row["volume"], row["signed_volume"]) == (2, 5, 1)
    assert strand.replay(path, "bbo").rows["ESH20-CME"]["ask"] == 3_300_250_000_000


def test_prices_stand_for_the_shortest_decimals_of_their_floats(tmp_path: Path) -> None:
    path = written(tmp_path, [one(high=1.09387, low=1.09385, close=1.09386), one(high=0.1, low=0.0, close=1e-7)])
    ticks = feeds.open(path).to_numpy()
    assert ticks["price"].tolist() == [1_093_850_000, 1_093_860_000, strand.UNDEF_PRICE, 100]
    assert ticks["ask_price"][[0, 2]].tolist() == [1_093_870_000, 100_000_000]
    cents = written(tmp_path, [one(high=330_025, low=330_000, close=330_025)])
    assert feeds.open(cents, price_unit="0.01").to_numpy()["price"].tolist() == [3300 * 10**9, 3_300_250_000_000]


def test_a_trade_whose_four_prices_are_one_has_no_quote(tmp_path: Path) -> None:
    path = written(tmp_path, [one(open=5.5, high=5.5, low=5.5, close=5.5), one(high=0.0, low=0.0)])
    assert feeds.open(path).to_numpy()["action"].tolist() == [b"T", b"T"]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [({"open": 3299.0, "trades": 12}, "is a bar of 12 trades"), ({"us": -5}, "column 'time'"),
     ({"us": 1 << 62}, "column 'time'"), ({"close": float("nan")}, "column 'close'"),
     ({"high": float("inf")}, "column 'high'"), ({"close": 1e-10}, "column 'close'")],
)  # fmt: skip
def test_a_bad_record_is_an_error_at_its_place_or_left_out(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    path = written(tmp_path, [one(), one(us=US + 1), one(**{"us": US + 2, **changes}), one(us=US + 3)])
    with pytest.raises(FormatError, match="byte 136: record 3: ") as error:
        feeds.open(path).to_numpy()
    assert fault in str(error.value)
    with feeds.open(path, on_bad_record="skip") as feed:
        assert feed.to_numpy()["sequence"].tolist() == [1, 1, 2, 2, 4, 4]
        assert feed.skipped.counts == {"bad record": 1}


def test_a_cut_record_is_named_by_its_number_or_counted(tmp_path: Path) -> None:
    path = written(tmp_path, ref.some(1, 5))
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(TruncatedFeedError, match="byte 216: ends inside record 5, which has 33 of 40 bytes"):
        feeds.open(path).to_numpy()
    with feeds.open(path, on_bad_record="skip") as feed:
        assert len(feed.to_numpy()) == 8
        assert feed.skipped.counts == {"cut file": 1}


def test_times_as_doubles_of_days_are_refused_by_name(tmp_path: Path) -> None:
    days = struct.unpack("<q", struct.pack("<d", 40_000.5))[0]
    with pytest.raises(FormatError, match="doubles of days, as older versions of Sierra Chart wrote them"):
        feeds.open(written(tmp_path, [one(us=days)]))


@pytest.mark.parametrize("head", [{"size": 40}, {"record": 36}])
def test_another_layout_is_refused(tmp_path: Path, head: dict[str, int]) -> None:
    with pytest.raises(FormatError, match="56 and 40 can be read"):
        feeds.open(written(tmp_path, [one(), one()], **head))


def test_a_longer_header_is_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path, [one(), one()], size=64)
    assert len(feeds.open(path).to_numpy()) == 4


def test_times_that_run_back_are_raised_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, [one(us=US + 5), one(us=US)])
    with feeds.open(path, batch_ticks=2) as feed:
        ticks = feed.to_numpy()
        assert feed.statistics()["times_raised"] == 1
    assert len(set(ticks["ts_recv"].tolist())) == 1


def test_a_selection_of_time_takes_both_ticks_of_a_record(tmp_path: Path) -> None:
    path = written(tmp_path, [one(us=US + at) for at in range(6)])
    start = int(ref.NOON.timestamp()) * 10**9
    assert feeds.open(path, start=start + 2000, end=start + 4000).to_numpy()["sequence"].tolist() == [3, 3, 4, 4]


def test_a_file_of_another_name_needs_its_symbol(tmp_path: Path) -> None:
    path = written(tmp_path, [one()], "data.bin")
    with pytest.raises(ConfigurationError, match=r"SYMBOL\.scid"):
        feeds.open(path)
    assert feeds.open(path, symbol="ES").symbols == ("ES",)


def test_an_empty_file_of_a_header_alone_has_no_ticks(tmp_path: Path) -> None:
    assert len(feeds.open(written(tmp_path, [])).to_numpy()) == 0


def test_market_depth_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "ESH20.2020-01-30.depth"
    path.write_bytes(b"SCDD" + struct.pack("<III", 64, 24, 1) + bytes(200))
    with pytest.raises(UnknownFormatError, match="Sierra Chart's market depth"):
        feeds.open(path)


@pytest.mark.parametrize("magic", [b"\xfe\x20", b"\xfd\x20", b"\xff\x01", b"kxzipped"])
def test_tables_of_kdb_are_refused_with_the_way_over(tmp_path: Path, magic: bytes) -> None:
    table = tmp_path / "db" / "2020.01.30" / "trade"
    table.mkdir(parents=True)
    (table / "price").write_bytes(magic + bytes(20))
    (table / ".d").write_bytes(b"\xff\x01\x0b\0")
    for path in (table / "price", table, table.parent, tmp_path / "db"):
        with pytest.raises(UnknownFormatError, match=r"kdb\+: write the table as CSV in q .* or as Parquet by PyKX"):
            feeds.open(path)


def test_columns_of_short_floats_are_whole_or_refused(tmp_path: Path) -> None:
    records = np.zeros(3, [("ts_event", "<i8"), ("price", "<f4"), ("size", "<f4")])
    records["ts_event"], records["price"], records["size"] = 10**18 + np.arange(3), [1.1, 123.45, 7], [0.5, 1.25, 3]
    np.save(tmp_path / "a.npy", records)
    given = {"columns": {"ts_event": "ts_event"}, "constants": {"kind": 2, "action": "T"}, "symbol": "A"}
    ticks = feeds.open(tmp_path / "a.npy", size_unit="0.01", **given).to_numpy()
    assert ticks["price"].tolist() == [1_100_000_000, 123_450_000_000, 7 * 10**9]
    assert ticks["size"].tolist() == [50, 125, 300]


@pytest.mark.parametrize("back_s", [0, 59])
def test_a_start_is_looked_up_and_gives_what_the_whole_file_gives(tmp_path: Path, back_s: int) -> None:
    rng = random.Random(back_s)
    times = [US + at * 10**6 - rng.randint(0, back_s) * 10**6 * (at > 100) for at in range(30_000)]
    path = written(tmp_path, [one(us=us) for us in times])
    noon = int(ref.NOON.timestamp()) * 10**9
    whole = feeds.open(path).to_numpy()
    for start_s in (-5, 0, 1, 15_000, 29_998, 29_999, 40_000, *rng.sample(range(30_000), 20)):
        start = noon + start_s * 10**9
        with feeds.open(path, start=start) as feed:
            assert feed.to_numpy().tobytes() == whole[whole["ts_recv"] >= start].tobytes()
            # Of what lies before, only a minute and what times may run back are read.
            assert feed.statistics()["records"] <= max(30_000 - start_s, 0) + 121


def test_a_packed_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = written(tmp_path, [one(us=US + at * 10**9) for at in range(6)])
    packed = tmp_path / "packed" / f"{path.name}.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    start = int(ref.NOON.timestamp()) * 10**9 + 3 * 10**12
    found = [feeds.open(each, start=start).to_numpy().tobytes() for each in (path, packed)]
    assert found[0] == found[1] != b""
