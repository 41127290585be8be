"""Arrow files and streams: cut, damaged, compressed, with and without their stream."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bad_input import write_anew
from parquet_files import T0, arrow, pa, parquet, table
from reading import names_of, read

from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds import open as open_feed
from strand.feeds.formats.parquet.reader import ParquetFeed

pytestmark = pytest.mark.python


def test_arrow_files_and_streams_give_the_same_ticks_as_parquet(tmp_path: Path) -> None:
    content = table(side=pa.array(["buy", "Sell"] * 5), action=pa.array(["A", "trade"] * 5).dictionary_encode())
    expected, _ = read(ParquetFeed(parquet(tmp_path, content)))
    assert expected["side"].tolist() == [b"B", b"A"] * 5
    assert expected["action"].tolist() == [b"A", b"T"] * 5
    assert expected["kind"].tolist() == [1, 2] * 5
    for path in (arrow(tmp_path, content), arrow(tmp_path, content, "b", stream=True)):
        feed = open_feed(path)
        np.testing.assert_array_equal(read(feed)[0], expected)
        packed = path.with_name(path.name + ".gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        np.testing.assert_array_equal(read(open_feed(packed))[0], expected)


@pytest.mark.parametrize("stream", [True, False])
def test_an_arrow_file_cut_anywhere_gives_what_was_whole_then_a_typed_error(
    tmp_path: Path, stream: bool, one_in: Callable[[int], int]
) -> None:
    path = arrow(tmp_path, table(12), stream=stream)
    whole = path.read_bytes()
    expected, _ = read(ParquetFeed(path))
    lengths = set()
    for cut in [*range(0, len(whole), one_in(3)), len(whole) - 1]:
        write_anew(path, whole[:cut])
        try:
            feed = ParquetFeed(path)
        except (TruncatedFeedError, FormatError):
            continue
        ticks, error = read(feed)
        assert isinstance(error, TruncatedFeedError | FormatError), cut
        np.testing.assert_array_equal(ticks, expected[: len(ticks)])
        lengths.add(len(ticks))
    assert lengths == {0, 4, 8, 12}


@pytest.mark.parametrize("stream", [False, True])
def test_an_arrow_file_with_another_behind_it_gives_the_first_then_a_typed_error(tmp_path: Path, stream: bool) -> None:
    path = arrow(tmp_path, table(), stream=stream)
    first = path.read_bytes()
    path.write_bytes(first + first)
    ticks, error = read(ParquetFeed(path))
    assert len(ticks) == 10
    assert isinstance(error, FormatError)
    assert "not part of an Arrow file" in str(error)
    assert error.offset is not None
    assert error.offset <= len(first)


@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_of_the_compression_behind_the_last_rows_is_a_typed_error(tmp_path: Path, stream: bool) -> None:
    rows, path = table(50_000), tmp_path / "a.arrow"
    with path.open("wb") as file, (pa.ipc.new_stream if stream else pa.ipc.new_file)(file, rows.schema) as writer:
        writer.write_table(rows)
    packed = bytearray(gzip.compress(path.read_bytes(), 1))
    packed[-8] ^= 1  # of the checksum
    path.write_bytes(packed)
    _, error = read(ParquetFeed(path))
    assert isinstance(error, FormatError)
    assert "gzip" in str(error)


def without_its_stream(path: Path) -> Path:
    """An Arrow file that does not begin as a stream does: only its index says what is in it."""
    data = bytearray(path.read_bytes())
    assert data[8:12] == b"\xff\xff\xff\xff"
    data[8:16] = b"\x04" + bytes(7)
    path.write_bytes(data)
    return path


def test_an_arrow_file_that_does_not_begin_with_a_stream_is_read_by_its_index(tmp_path: Path) -> None:
    expected, _ = read(ParquetFeed(arrow(tmp_path, table(30), "b.arrow")))
    path = without_its_stream(arrow(tmp_path, table(30)))
    feed = open_feed(path)
    ticks, error = read(feed)
    assert error is None
    assert len(ticks) == 30
    assert np.array_equal(ticks, expected)
    assert names_of(feed, ticks) == ["A", "B"] * 15


def test_an_arrow_file_of_polars_is_read(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    frame = {
        "timestamp": [T0, T0 + 1, T0 + 2],
        "symbol": ["A", "B", "A"],
        "price": [1.25, 2.5, 3.75],
        "size": [1, 2, 3],
    }
    for name, write in (("a.arrow", "write_ipc"), ("a.arrows", "write_ipc_stream"), ("a.parquet", "write_parquet")):
        getattr(pl.DataFrame(frame), write)(tmp_path / name)
        feed = ParquetFeed(tmp_path / name)
        ticks, error = read(feed)
        assert error is None
        assert names_of(feed, ticks) == ["A", "B", "A"]
        assert ticks["price"].tolist() == [1_250_000_000, 2_500_000_000, 3_750_000_000]


@pytest.mark.parametrize("kept", [16, 300, -1, -6, -7, -40])
def test_an_arrow_file_without_its_stream_that_is_cut_is_truncated(tmp_path: Path, kept: int) -> None:
    path = without_its_stream(arrow(tmp_path, table(30)))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(TruncatedFeedError, match="can only be read by the index"):
        ParquetFeed(path)


def test_an_arrow_file_without_its_stream_that_is_damaged_loses_no_row_silently(
    tmp_path: Path, one_in: Callable[[int], int]
) -> None:
    keys = pa.array(["A", "B"] * 15).dictionary_encode()
    path = without_its_stream(arrow(tmp_path, table(30, symbol=keys)))
    sound = path.read_bytes()
    index = len(sound) - 10 - int.from_bytes(sound[-10:-6], "little")
    ended = 0
    for at in [*range(16, index, 7), *range(index, len(sound))]:
        for bit in range(at % one_in(4), 8, one_in(4)):  # two of each byte, others of the next one
            write_anew(path, sound[:at] + bytes([sound[at] ^ 1 << bit]) + sound[at + 1 :])
            try:
                ticks, error = read(ParquetFeed(path))
            except FeedError:
                ended += 1
                continue
            ended += error is not None
            assert error is not None or len(ticks) == 30, (at, bit)
    assert ended > 500 // one_in(4)


@pytest.mark.parametrize("kept", [8, 9, 11, 15])
def test_a_compressed_arrow_file_cut_in_its_first_bytes_is_no_file_without_a_stream(tmp_path: Path, kept: int) -> None:
    (tmp_path / "a.arrow.gz").write_bytes(gzip.compress(arrow(tmp_path, table()).read_bytes()[:kept]))
    with pytest.raises(FeedError) as raised:
        open_feed(tmp_path / "a.arrow.gz")
    assert "decompress" not in str(raised.value)


def test_an_arrow_file_without_its_stream_needs_its_end(tmp_path: Path) -> None:
    data = without_its_stream(arrow(tmp_path, table())).read_bytes()
    (tmp_path / "a.arrow.gz").write_bytes(gzip.compress(data))
    with pytest.raises(FeedError, match="gzip data does not allow: decompress it into a file first"):
        open_feed(tmp_path / "a.arrow.gz")
