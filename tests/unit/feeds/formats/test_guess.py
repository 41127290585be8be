"""A file that no reader knows: the error guesses its kind from its bytes."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand import feeds
from strand.errors import FormatError, UnknownFormatError
from strand.feeds import open as open_feed
from strand.feeds.base import Selection
from strand.feeds.formats.decoded import symbol_filter
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
        (b"Date,Open,High\n", "give a profile"),
        (b"8=FIX.4.2\x019=70\x01", "looks like FIX"),
        (b"<!DOCTYPE html>\n<html>", "looks like a web page"),
        (b"\x89HDF\r\n\x1a\n\0", "looks like HDF5"),
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
    assert symbol_filter(select)(asked).tolist() == [select.keeps(name) for name in names]


def test_names_that_no_message_can_hold_want_nothing_and_stop_nothing() -> None:
    asked = np.array([b"A       ", b"ABCDEFGH", b"B       ", b" " * 8])
    odd = ("A ", "ABCDEFGHI", "\u00c5", "A\0")
    assert symbol_filter(Selection(odd))(asked).tolist() == [False, False, False, False]
    for names in (("A", "ABCDEFGH", *odd), ("A", "ABC*GH", *odd)):
        assert symbol_filter(Selection(names))(asked).tolist() == [True, True, False, False]
    assert symbol_filter(Selection(("",)))(asked).tolist() == [False, False, False, True]
