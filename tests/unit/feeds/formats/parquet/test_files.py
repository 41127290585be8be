"""Parquet and Arrow files are recognised by their first bytes. What cannot be opened is refused, with what to do."""

from __future__ import annotations

import gzip
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from parquet_files import T0, arrow, pa, parquet, table
from reading import assert_selected, read

from strand.errors import FeedError, FormatError, MissingExtraError
from strand.feeds import Selection
from strand.feeds import open as open_feed
from strand.feeds.formats.parquet.reader import ParquetFeed, recognise
from strand.feeds.formats.parquet.sources import first_line, names_of

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
        open_feed(tmp_path / "pipe")
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
    assert names_of(twice.schema.remove(3), "a") == ["timestamp", "price", "size"]


def test_an_error_of_several_lines_is_told_by_its_first() -> None:
    assert first_line(pa.ArrowInvalid("damaged\n/arrow/file.cc:12  at Read")) == "damaged"
    assert first_line(pa.ArrowInvalid()) == "ArrowInvalid"
