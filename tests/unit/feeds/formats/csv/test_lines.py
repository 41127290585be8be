"""Lines in blocks: their ends, empty and endless ones, and quotes."""

from __future__ import annotations

from pathlib import Path

import pytest
from csv_tables import GOOD, HEADER, lines, write
from reading import read

from strand.errors import FormatError
from strand.feeds.formats.csv.reader import CsvFeed, recognise

pytestmark = pytest.mark.python


def test_a_byte_order_mark_mixed_ends_empty_lines_and_no_last_end_change_nothing(tmp_path: Path) -> None:
    rows = lines(6)
    odd = b"\xef\xbb\xbf" + HEADER.encode() + b"\r\n" + rows[0].encode() + b"\n\n" + rows[1].encode() + b"\r\n\r\n"
    odd += "\n".join(rows[2:4]).encode() + b"\r" + "\r\n".join(rows[4:]).encode()
    (tmp_path / "odd.csv").write_bytes(odd)
    feed = CsvFeed(tmp_path / "odd.csv")
    expected, _ = read(CsvFeed(write(tmp_path / "even.csv", rows)))
    ticks, error = read(feed)
    assert error is None
    assert ticks.tobytes() == expected.tobytes()
    assert feed.statistics()["empty_lines"] == 2
    assert recognise(odd)


def test_a_line_after_empty_ones_is_still_named_by_its_place_in_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "trades.csv", [*lines(2), "", "", GOOD.replace("buy", "no")])
    _, error = read(CsvFeed(path))
    assert error is not None
    assert error.line == 6


def test_quoted_fields_may_hold_commas_and_quotes(tmp_path: Path) -> None:
    rows = [f'"a,""b""","BTC,{at}",1700000000000000,"1700000000000001",{at},"buy","1.5",2' for at in range(3)]
    feed = CsvFeed(write(tmp_path / "trades.csv", rows))
    ticks, error = read(feed)
    assert error is None
    assert ticks["price"].tolist() == [1_500_000_000] * 3
    assert feed.symbols == ["BTC,0", "BTC,1", "BTC,2"]


def test_a_line_of_a_megabyte_is_no_line(tmp_path: Path) -> None:
    path = write(tmp_path / "trades.csv", [*lines(5), "x" * 3_000_000, *lines(5)])
    ticks, error = read(CsvFeed(path))
    assert isinstance(error, FormatError)
    assert "no end within 65536 bytes" in str(error)
    assert error.path == path
    assert str(error).count(str(path)) == 1
    assert len(ticks) == 5
