"""Parquet and Arrow files obey the limits that gzip obeys, before memory is taken for what they promise."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from expanding_files import read_apart, table, write

from strand.errors import FeedError, FormatError
from strand.feeds import open as open_feed
from strand.feeds.io.sources import InflateLimits

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.python


@pytest.mark.parametrize("form", ["parquet", "arrow", "stream"])
def test_a_small_file_of_hundreds_of_megabytes_is_refused_before_memory_is_taken_for_it(
    tmp_path: Path, form: str
) -> None:
    path = write(tmp_path, 20_000_000, form, "zstd")
    assert path.stat().st_size < 500_000
    said, taken = read_apart(path)
    assert said.startswith("FormatError")
    assert "max_ratio = 200 times" in said
    assert taken < 120 << 20


@pytest.mark.parametrize("codec", ["zstd", "gzip", "brotli", "lz4", "snappy", "none"])
def test_the_limits_are_those_that_are_given(tmp_path: Path, codec: str) -> None:
    rows = 100_000
    path = write(tmp_path, rows, "parquet", codec)
    with open_feed(path, symbol="A") as feed:
        assert sum(map(len, feed.batches())) == rows, "below ratio_after_bytes nothing is refused"
    generous = InflateLimits(max_ratio=1e9, ratio_after_bytes=0)
    with open_feed(path, symbol="A", limits=generous) as feed:
        assert sum(map(len, feed.batches())) == rows
    feed = open_feed(path, symbol="A", limits=InflateLimits(max_bytes=rows * 16 - 1))
    refused = pytest.raises(FormatError, match="row group 0: the file expands to more than max_bytes")
    with refused, feed:
        list(feed.batches())
    with open_feed(path, symbol="A", limits=InflateLimits(max_bytes=rows * 17)) as feed:
        assert sum(map(len, feed.batches())) == rows


def test_rows_that_lie_nowhere_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    rows = 100_000_000
    columns = [pa.nulls(rows), pa.nulls(rows)]
    with pa.ipc.new_stream(path, pa.schema([("ts_event", pa.null()), ("price", pa.null())])) as writer:
        writer.write_batch(pa.record_batch(columns, names=["ts_event", "price"]))
    assert path.stat().st_size < 2_000
    with pytest.raises(FormatError, match="max_ratio"), open_feed(path, symbol="A", on_bad_record="skip") as feed:
        list(feed.batches())


# ---- Messages of Arrow are held against the limits before pyarrow gets them


@pytest.mark.parametrize("form", ["arrow", "stream"])
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_the_limits_of_arrow_are_those_that_are_given(tmp_path: Path, form: str, codec: str) -> None:
    rows = 100_000
    path = write(tmp_path, rows, form, codec)
    with open_feed(path, symbol="A") as feed:
        assert sum(map(len, feed.batches())) == rows
    with (
        pytest.raises(FormatError, match="max_ratio = 2 times"),
        open_feed(path, symbol="A", limits=InflateLimits(max_ratio=2, ratio_after_bytes=1 << 20)) as feed,
    ):
        list(feed.batches())
    with (
        pytest.raises(FormatError, match="more than max_bytes"),
        open_feed(path, symbol="A", limits=InflateLimits(max_bytes=rows * 16 - 1)) as feed,
    ):
        list(feed.batches())


@pytest.mark.parametrize("marked", [True, False])
def test_a_buffer_that_promises_an_exabyte_is_refused_in_files_of_old_versions_too(
    tmp_path: Path, marked: bool
) -> None:
    rows = 10_000
    path = tmp_path / "a.arrow"
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_legacy_format=not marked)
    with pa.ipc.new_file(path, table(1).schema, options=options) as writer:
        writer.write_table(table(rows))
    data = path.read_bytes()
    promise = struct.pack("<q", rows * 8)
    assert data.count(promise) >= 2
    path.write_bytes(data.replace(promise, struct.pack("<q", 1 << 60)))
    with pytest.raises(FeedError, match="expands"), open_feed(path, symbol="A") as feed:
        list(feed.batches())


# ---- Pages of Parquet are held against the limits, whatever the metadata says of them


def test_what_a_files_metadata_says_of_its_pages_is_not_believed(tmp_path: Path) -> None:
    path = write(tmp_path, 20_000_000, "parquet", "zstd")
    data = path.read_bytes()
    honest = pq.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size
    # Thrift's numbers are zigzag varints: the sizes are lowered where they stand, in as many bytes.
    lowered = data.replace(varint(honest), varint(honest % (1 << 21) | 1 << 28))
    assert lowered != data
    path.write_bytes(lowered)
    said, taken = read_apart(path)
    assert said.startswith("FormatError")
    assert taken < 120 << 20


def varint(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
