"""Messages of Arrow are held against the limits before pyarrow gets them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from expanding_files import table, write

from strand.errors import FeedError, FormatError
from strand.feeds import open as open_feed
from strand.feeds.io.sources import InflateLimits

pytestmark = pytest.mark.python
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


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
