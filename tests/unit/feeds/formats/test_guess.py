"""Files of hftbacktest; and a file that no reader knows: the error guesses its kind from its bytes."""

from __future__ import annotations

import gzip
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import ticks_of

from strand import UNDEF_PRICE, feeds
from strand.errors import ConfigurationError, FormatError, UnknownFormatError
from strand.feeds import open as open_feed
from strand.feeds.base import Selection
from strand.feeds.formats.decoded import symbol_filter
from strand.feeds.formats.npy import EXCHANGE, LOCAL, NpyFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python


def test_open_interest_of_lean_is_refused_by_name(tmp_path: Path) -> None:
    rows = b"34200000,1000\n34260000,1010\n"
    names = ["20240102_es_minute_openinterest_202403.csv", "20240102_es_tick_openinterest_202403.csv"]
    for name in names:
        (tmp_path / name).write_bytes(rows)
        with zipfile.ZipFile(tmp_path / "20240102_openinterest.zip", "w") as archive:
            archive.writestr(name, rows)
        for path in (name, "20240102_openinterest.zip"):
            with pytest.raises(UnknownFormatError, match="LEAN's open interest, which is not read: name the files of"):
                feeds.open(tmp_path / path)
    (tmp_path / "interest.csv").write_bytes(rows)
    with pytest.raises(UnknownFormatError, match="no built-in profile knows"):
        feeds.open(tmp_path / "interest.csv")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\0\5T\0\0\x1c\x20", "looks like ITCH 4.1"),
        (b'{"ts": 1, "px": "3.5"}\n', "looks like JSON lines"),
        (b'1700000000 {"ts": 1}\n', "looks like JSON lines"),
        (b"[1, 2]\n", None),
        (
            b'[{"info": {"id": "5", ',
            "without a whole first message in 22 bytes: get the whole file, or give a profile",
        ),
        (b'[{"info": "' + 9_999 * b"5", "without a whole first message in 4,096 bytes: give a profile that says"),
        (
            b'[{"timestamp": 1767571200000, "datetime": "1", "symbol":"A", "price": "", "amount": 1, "side": null},',
            "whose first message no built-in profile knows, ccxt-trades not for price: give a profile",
        ),
        (b"Date,Open,High\n", "give a profile"),
        (b"8=FIX.4.2\x019=70\x01", "looks like FIX"),
        (b"<!DOCTYPE html>\n<html>", "looks like a web page"),
        (b"\x89HDF\r\n\x1a\n\0", "looks like HDF5"),
        (b"MATLAB 7.3 MAT-file, Platform: GLNXA64, HDF5".ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n", "looks like HDF5"),
        (bytes(2048) + b"\x89HDF\r\n\x1a\n", "looks like HDF5"),
        (b"\x80\x04\x95\x10", "looks like a pickle"),
        (b"Dear Sir\n", None),
    ],
)
def test_other_content_is_told_by_what_it_looks_like(tmp_path: Path, data: bytes, words: str | None) -> None:
    for path, packed in (("a.dat", data), ("a.dat.gz", gzip.compress(data))):
        (tmp_path / path).write_bytes(packed)
        with pytest.raises(UnknownFormatError) as raised:
            feeds.open(tmp_path / path)
        said = str(raised.value)
        assert "starts with" in said
        assert words in said if words is not None else "looks like JSON" not in said and "ITCH 4" not in said


# ---- What files of ticks written by strand say of their source


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz"])
def test_what_the_source_was_is_kept_and_read_back_also_through_two_files(tmp_path: Path, ending: str) -> None:
    source = open_feed(sample_path(), date=SAMPLE_DATE)
    for _ in source.batches():
        pass
    first, second = tmp_path / "XNAS.a.parquet", tmp_path / f"b.{ending}"
    convert(sample_path(), first, feed_options={"date": SAMPLE_DATE})
    convert(first, second)
    feed = open_feed(second)
    kept = ("date", "venue", "price_unit", "size_unit", "ticks", "undated")
    assert [getattr(feed.info, name) for name in kept] == [getattr(source.info, name) for name in kept]
    assert (feed.info.format, feed.info.details["source"]) == (ending, {"format": "itch50"})
    assert list(feed.symbols) == list(source.symbols)
    assert len(source.directory) == 500
    assert feed.directory == source.directory


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz"])
def test_a_source_s_units_and_meaning_are_kept(tmp_path: Path, ending: str) -> None:
    lines = ["exchange,symbol,timestamp,local_timestamp,id,side,price,amount"]
    lines += [
        f"bitmex,XBTUSD,158569920000000{i},158569920000000{i},{i},buy,{8700 + i},0.0000000{i}" for i in range(1, 5)
    ]
    (tmp_path / "trades.csv").write_text("\n".join(lines) + "\n")
    convert(tmp_path / "trades.csv", tmp_path / f"a.{ending}")
    infos = [open_feed(tmp_path / name).info for name in ("trades.csv", f"a.{ending}")]
    assert [(info.size_unit, info.ticks, info.undated) for info in infos] == [(1e-8, infos[0].ticks, False)] * 2
    assert infos[1].details["source"] == {"format": "csv", "profile": infos[0].details["profile"]}


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"symbols": [1], "info": {}}', b'{"symbols": [], "info": {"ticks": "some"}}',
             b'{"symbols": [], "info": {"date": "2026-13-01"}}', b"[" * 100_000]
)  # fmt: skip
def test_metadata_that_is_something_else_is_a_bad_file(tmp_path: Path, text: bytes) -> None:
    import zipfile

    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table({"ts_event": [1], "instrument_id": pa.array([0], pa.uint32())})
    pyarrow.parquet.write_table(table.replace_schema_metadata({"strand": text}), tmp_path / "a.parquet")
    write_npy(tmp_path / "a.npz", zeros(1), ["A"])
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("strand.json", text)
    for name in ("a.parquet", "a.npz"):
        with pytest.raises(FormatError, match="the metadata 'strand' cannot be read"):
            open_feed(tmp_path / name)


# ---- Many names at once are judged as a selection judges each


NAMES = st.text("ABab.*[", max_size=8)
PATTERNS = st.lists(st.text("ABab.*?[]!", max_size=9), max_size=4).map(tuple)


@given(st.lists(NAMES, max_size=20), PATTERNS)
def test_a_name_is_kept_where_the_selection_keeps_it(names: list[str], symbols: tuple[str, ...]) -> None:
    select = Selection(symbols)
    asked = np.array([name.ljust(8).encode() for name in names], "S8")
    wanted = [not symbols or any(fnmatchcase(name, pattern) for pattern in symbols) for name in names]
    assert symbol_filter(select)(asked).tolist() == wanted
    assert [select.keeps(name) for name in names] == select.keys(names).tolist() == wanted


def test_names_that_no_message_can_hold_want_nothing_and_stop_nothing() -> None:
    asked = np.array([b"A       ", b"ABCDEFGH", b"B       ", b" " * 8])
    odd = ("A ", "ABCDEFGHI", "\u00c5", "A\0")
    assert symbol_filter(Selection(odd))(asked).tolist() == [False, False, False, False]
    for names in (("A", "ABCDEFGH", *odd), ("A", "ABC*GH", *odd)):
        assert symbol_filter(Selection(names))(asked).tolist() == [True, True, False, False]
    assert symbol_filter(Selection(("",)))(asked).tolist() == [False, False, False, True]


# ---- Hftbacktest's event arrays: what each event becomes, and which are passed over or refused


#: As hftbacktest documents its event.
EVENT = np.dtype(
    [("ev", "<u8"), ("exch_ts", "<i8"), ("local_ts", "<i8"), ("px", "<f8"), ("qty", "<f8"), ("order_id", "<u8"),
     ("ival", "<i8"), ("fval", "<f8")], align=True
)  # fmt: skip
EXCH, RECV, BUY, SELL = 1 << 31, 1 << 30, 1 << 29, 1 << 28
BOTH = EXCH | RECV


def events(*rows: dict[str, Any]) -> np.ndarray:
    out = np.zeros(len(rows), EVENT)
    usual = {"ev": 1 | BOTH | BUY, "exch_ts": 10, "local_ts": 20, "px": 100.1, "qty": 3.0}
    for i, row in enumerate(rows):
        for name, value in (usual | row).items():
            out[name][i] = value
    return out


def save(folder: Path, array: np.ndarray, name: str = "btcusdt.20240808.npz") -> Path:
    if name.endswith("z"):
        np.savez_compressed(folder / name, data=array)
    else:
        np.save(folder / name, array)
    return folder / name


@pytest.mark.parametrize(
    ("number", "qty", "action", "kind"),
    [
        (1, 3.0, b"M", 3),
        (1, 0.0, b"C", 3),
        (2, 3.0, b"T", 2),
        (3, 0.0, b"R", 3),
        (4, 3.0, b"A", 3),
        (5, 3.0, b"M", 3),
        (10, 3.0, b"A", 1),
        (11, 3.0, b"C", 1),
        (12, 3.0, b"M", 1),
        (13, 3.0, b"F", 1),
    ],
)
@pytest.mark.parametrize("name", ["btcusdt.20240808.npz", "btcusdt.npy"])
def test_every_event_becomes_the_tick_it_says(  # noqa: PLR0917
    tmp_path: Path, number: int, qty: float, action: bytes, kind: int, name: str
) -> None:
    rows = [
        {"ev": number | BOTH | BUY, "qty": qty, "order_id": 7, "ival": -1},
        {"ev": number | RECV | SELL, "qty": qty, "px": np.nan},
        {"ev": number, "qty": qty},
    ]
    feed = open_feed(save(tmp_path, events(*rows), name))
    assert list(feed.symbols) == ["btcusdt"]
    ticks = ticks_of(feed)  # type: ignore[arg-type]
    assert ticks["action"].tolist() == [action] * 3
    assert ticks["kind"].tolist() == [kind] * 3
    assert ticks["side"].tolist() == [b"B", b"A", b"N"]
    assert ticks["price"].tolist() == [100_100_000_000, UNDEF_PRICE, 100_100_000_000]
    assert ticks["size"].tolist() == [int(qty)] * 3
    assert ticks["flags"].tolist() == [number | EXCHANGE | LOCAL, number | LOCAL, number | 32]
    assert (ticks["ts_event"].tolist(), ticks["ts_recv"].tolist()) == ([10] * 3, [20] * 3)
    assert ticks["sequence"].tolist() == [1, 2, 3]
    assert (int(ticks["order_id"][0]), int(ticks["ref_id"][0])) == (0 if kind == 3 else 7, (1 << 64) - 1)


def test_an_event_that_only_the_exchange_saw_makes_no_tick(tmp_path: Path) -> None:
    array = events(*([{}] * 3 + [{"ev": 1 | EXCH}] * 5 + [{"ev": 2 | RECV}]))
    ticks = ticks_of(NpyFeed(save(tmp_path, array), batch_ticks=2))
    assert ticks["sequence"].tolist() == [1, 2, 3, 9]
    assert list(NpyFeed(save(tmp_path, events({"ev": 1 | EXCH}))).batches()) == []


def test_quantities_in_parts_of_a_coin_are_scaled(tmp_path: Path) -> None:
    path = save(tmp_path, events({"qty": 0.001}, {"qty": 1.5}))
    with pytest.raises(FormatError, match=r"record 1: column 'qty': .*size_unit"):
        ticks_of(NpyFeed(path))
    feed = NpyFeed(path, size_unit="0.001")
    assert (ticks_of(feed)["size"].tolist(), feed.info.size_unit) == ([1, 1500], 0.001)


def test_the_symbol_can_be_named_where_files_are_opened(tmp_path: Path) -> None:
    path = save(tmp_path, events({}, {}))
    with open_feed(path, symbol="XBT", symbols=["XBT"]) as feed:
        assert feed.symbols == ("XBT",)
        assert sum(len(batch) for batch in feed.batches()) == 2
    with pytest.raises(ConfigurationError, match="symbol: give it, or symbols: the one name, or all of them"):
        NpyFeed(path, symbol="XBT", symbols=["XBT"])


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"ev": 99 | BOTH}, "ev"),
        ({"exch_ts": -1}, "exch_ts"),
        ({"local_ts": -1}, "local_ts"),
        ({"px": np.inf}, "px"),
        ({"px": 1e-10}, "px"),
        ({"qty": 1e19}, "qty"),
        ({"qty": -1.0}, "qty"),
        ({"qty": np.nan}, "qty"),
    ],
)
def test_an_event_that_cannot_be_a_tick_is_named_with_its_record(
    tmp_path: Path, bad: dict[str, Any], field: str
) -> None:
    path = save(tmp_path, events({}, {"ev": 1 | EXCH}, bad, {}))
    with pytest.raises(FormatError, match=f"record 3: column '{field}'"):
        ticks_of(NpyFeed(path))


def test_the_scale_of_sizes_is_refused_where_it_cannot_work(tmp_path: Path) -> None:
    for unit in ("0", "0.3", "much"):
        with pytest.raises(ConfigurationError, match="size_unit: give a power of ten"):
            NpyFeed(save(tmp_path, events({})), size_unit=unit)
    with pytest.raises(ConfigurationError, match="size_unit: it works only with columns="):
        NpyFeed(save(tmp_path, zeros(1), "a.npy"), size_unit="0.1")


def test_quantities_finer_than_the_unit_are_rounded_on_request_and_counted(tmp_path: Path) -> None:
    rows = [{"qty": qty} for qty in (0.0015, 0.0025, 5e9, 1.0)]
    feed = NpyFeed(save(tmp_path, events(*rows, {"px": 0.30000000000000004})), size_unit="0.001", inexact="round")
    ticks = ticks_of(feed)
    assert ticks["size"].tolist() == [2, 2, 5 * 10**12, 1000, 3000], "ties go to even"
    assert ticks["price"].tolist() == [100_100_000_000] * 4 + [300_000_000]
    assert feed.statistics()["rows_rounded"] == 3
    with pytest.raises(FormatError, match=r"'qty': .*0.0004.* rounds to 0: give a finer size_unit"):
        ticks_of(NpyFeed(save(tmp_path, events({"qty": 0.0004})), size_unit="0.001", inexact="round"))
