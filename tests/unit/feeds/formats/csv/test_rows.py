"""Rows as ticks of one file: counted, and left out where they are not selected."""

from __future__ import annotations

from pathlib import Path

import pytest
from csv_files import write_made_up
from csv_tables import write
from reading import read

from strand.feeds.formats.csv.reader import CsvFeed
from strand.feeds.merge.selected import SelectedFeed
from strand.feeds.selection import Selection

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    "select",
    [
        Selection(("BTC",)),
        Selection(("E*",)),
        Selection(("none",)),
        Selection((), 1_700_000_000_500_000_000),
        Selection((), None, 1_700_000_001_000_000_000),
        Selection(("BTC",), 1_700_000_000_300_000_000, 1_700_000_000_301_000_000),
    ],
)
@pytest.mark.parametrize("name", ["tardis-trades", "tardis-quotes"])
def test_a_selection_gives_what_masking_afterwards_gives(name: str, select: Selection, tmp_path: Path) -> None:
    path = write_made_up(tmp_path, name, 3000)
    expected, _ = read(SelectedFeed(CsvFeed(path), select))
    feed = CsvFeed(path, select=select)
    ticks, _ = read(feed)
    assert ticks.tobytes() == expected.tobytes()
    assert feed.statistics()["not_selected"] == 3000 - len(ticks)


def test_times_that_run_backwards_are_given_as_they_are_and_counted(tmp_path: Path) -> None:
    times = [5, 3, 4, 4, 1]
    rows = [f"deribit,BTC,1,170000000000000{time},1,buy,1,2" for time in times]
    feed = CsvFeed(write(tmp_path / "trades.csv", rows))
    ticks, _ = read(feed)
    assert (ticks["ts_recv"] // 1000 % 10).tolist() == times
    assert feed.statistics()["time_reversals"] == 2


def test_rounded_rows_are_counted_where_they_are_selected(tmp_path: Path) -> None:
    amounts = ("1.0000000000001", "2", "3.1234567849999999999999999999999999999")
    rows = [f"x,{'AB'[at % 2]},{at},{at},{at},buy,1,{amount}" for at, amount in enumerate(amounts)]
    path = write(tmp_path / "trades.csv", [*rows, "x,B,9,9,9,buy,1.00000000001e999999999,1"])
    feed = CsvFeed(path, inexact="round", select=Selection(("A",), end_ns=2000))
    assert (read(feed)[0]["size"].tolist(), feed.statistics()["rows_rounded"]) == ([100_000_000], 1)
    feed = CsvFeed(path, inexact="round")
    ticks, error = read(feed)
    assert ticks["size"].tolist() == [100_000_000, 200_000_000, 312_345_678]
    assert "out of range" in str(error)
