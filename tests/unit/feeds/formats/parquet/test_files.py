"""Parquet and Arrow files are recognised by their first bytes. What cannot be opened is refused, with what to do."""

from __future__ import annotations

import gzip
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import write_anew
from parquet_files import T0, arrow, pa, parquet, table
from reading import assert_selected, names_of, read

from strand.errors import FeedError, FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds import Selection
from strand.feeds import open as open_feed
from strand.feeds.formats.parquet import sources
from strand.feeds.formats.parquet.reader import ParquetFeed, recognise
from strand.feeds.formats.parquet.sources import first_line

pytestmark = pytest.mark.python


def test_recognition_is_by_content(tmp_path: Path) -> None:
    assert recognise(parquet(tmp_path, table()).read_bytes()[:4096])
    assert recognise(arrow(tmp_path, table()).read_bytes()[:4096])
    assert recognise(arrow(tmp_path, table(), stream=True).read_bytes()[:4096])
    for other in (b"", b"PAR", b"DBN\1....", b"\xff" * 64, b"time,price\n", bytes(64)):
        assert not recognise(other)


def test_a_compressed_parquet_file_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress(parquet(tmp_path, table()).read_bytes()))
    with pytest.raises(FeedError, match="decompress"):
        open_feed(path)


def test_a_file_without_times_or_without_the_package_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path, table(2, timestamp=None))
    with pytest.raises(FormatError, match="times"):
        ParquetFeed(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="parquet"):
        ParquetFeed(path)


# ---- Parquet files: only the columns that are used are read, and from a file alone


def test_only_columns_that_are_used_are_read(tmp_path: Path) -> None:
    path = parquet(tmp_path, table(1000, junk=pa.array([str(i) * 9 for i in range(1000)])), compression="none")
    whole = bytearray(path.read_bytes())
    at = whole.index(b"7" * 9)  # the junk column's pages
    whole[at : at + 2000] = b"\xff" * 2000
    path.write_bytes(whole)
    assert len(read(ParquetFeed(path))[0]) == 1000
    with pytest.raises(FormatError):
        list(ParquetFeed(path, columns={"symbol": "junk"}).batches())


def test_parquet_that_cannot_be_read_from_its_end_says_what_to_do(tmp_path: Path) -> None:
    data = parquet(tmp_path, table()).read_bytes()
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(data))
    with pytest.raises(FeedError, match="gzip data does not allow: decompress it into a file"):
        open_feed(tmp_path / "a.parquet.gz")
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(data,))
    writer.start()
    with pytest.raises(FeedError, match="a pipe does not allow: store it in a file"):
        ParquetFeed(tmp_path / "pipe")  # strand.feeds.open copies it
    writer.join()


# ---- Row groups that a selection does not need are passed over, as their statistics say


def selected(tmp_path: Path, select: Selection, **options: Any) -> ParquetFeed:
    """A feed of 1,000 rows in 10 row groups, checked against masking."""
    content = table(
        1000,
        symbol=pa.array([f"S{i // 100}" if i % 5 else "X" for i in range(1000)]),
        unread=pa.array(["x" * 50] * 1000),
    )
    path = parquet(tmp_path, content, row_group_size=100)
    feed = ParquetFeed(path, select=select, **options)
    assert_selected(feed, ParquetFeed(path), select)
    counts = feed.statistics()
    assert counts["ticks"] + counts["not_selected"] == 1000
    return feed


@pytest.mark.parametrize("batch_ticks", [7, 4096])
def test_a_selection_gives_what_masking_would_and_reads_less(tmp_path: Path, batch_ticks: int) -> None:
    some = selected(tmp_path, Selection((), T0 + 250, T0 + 350), batch_ticks=batch_ticks)
    assert some.statistics()["row_groups_passed_over"] == 8
    group = selected(tmp_path, Selection((), T0 + 200, T0 + 300), batch_ticks=batch_ticks)
    assert group.statistics()["row_groups_passed_over"] == 9
    one = selected(tmp_path, Selection(("S3",)), batch_ticks=batch_ticks)
    assert one.statistics()["row_groups_passed_over"] == 6  # in the first three S3 lies between S0 and X
    assert selected(tmp_path, Selection(("S[34]", "none"))).statistics()["row_groups_passed_over"] == 0
    selected(tmp_path, Selection(("none",), T0 + 1, T0 + 2))
    selected(tmp_path, Selection(("X",), T0 + 999))


def test_a_row_group_with_nulls_is_read_whatever_its_statistics_say(tmp_path: Path) -> None:
    path = parquet(tmp_path, table(4, symbol=pa.array(["A", "A", "B", None])), row_group_size=2)
    ticks, error = read(ParquetFeed(path, select=Selection(("A",))))
    assert len(ticks) == 2
    assert isinstance(error, FormatError)
    assert "row 4" in str(error)


# ---- Columns have one name each, and text of pyarrow's errors is what it says first


def test_two_columns_of_one_name_are_refused_in_both_kinds_of_files(tmp_path: Path) -> None:
    twice = pa.table([[1], [2], [3], [4]], names=["timestamp", "price", "size", "price"])
    for path in (parquet(tmp_path, twice), arrow(tmp_path, twice), arrow(tmp_path, twice, "b.arrow", stream=True)):
        with pytest.raises(FormatError, match="more than one column named 'price'") as caught:
            ParquetFeed(path, symbol="A")
        assert caught.value.path == path
    assert sources.names_of(twice.schema.remove(3), "a") == ["timestamp", "price", "size"]


def test_an_error_of_several_lines_is_told_by_its_first() -> None:
    assert first_line(pa.ArrowInvalid("damaged\n/arrow/file.cc:12  at Read")) == "damaged"
    assert first_line(pa.ArrowInvalid()) == "ArrowInvalid"


# ---- Arrow files and streams: cut, damaged, compressed, with and without their stream


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
    for at in [*range(16, index, 14), *range(index, len(sound), 2)]:
        for bit in range(at % one_in(4), 8, one_in(4)):  # two of each byte, others of the next one
            write_anew(path, sound[:at] + bytes([sound[at] ^ 1 << bit]) + sound[at + 1 :])
            try:
                ticks, error = read(ParquetFeed(path))
            except FeedError:
                ended += 1
                continue
            ended += error is not None
            assert error is not None or len(ticks) == 30, (at, bit)
    assert ended > 250 // one_in(4)


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
