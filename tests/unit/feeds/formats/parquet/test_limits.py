"""Parquet and Arrow files obey the limits that gzip obeys, before memory is taken for what they promise."""

from __future__ import annotations

from pathlib import Path

import pytest
from expanding_files import read_apart, write

from strand.errors import FormatError
from strand.feeds import open as open_feed
from strand.feeds.io.sources import InflateLimits

pytestmark = pytest.mark.python

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


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
