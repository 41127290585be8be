"""The column of symbols: how many there may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from csv_tables import write
from reading import read

from strand.feeds.formats.csv.reader import CsvFeed

pytestmark = pytest.mark.python


def test_more_symbols_than_there_may_be_are_an_error_that_names_the_option(tmp_path: Path) -> None:
    rows = [f"x,S{at},1700000000000000,1700000000000000,1,buy,1,2" for at in range(20)]
    feed = CsvFeed(write(tmp_path / "trades.csv", rows), max_symbols=10)
    assert feed.max_symbols == 10
    ticks, error = read(feed)
    assert (len(ticks), len(feed.symbols)) == (10, 10)
    assert "max_symbols is 10" in str(error)
