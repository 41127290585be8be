"""Numbers with more decimals than a tick has are rounded where that was asked for, and counted."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from csv_tables import write
from reading import read

from strand.errors import ConfigurationError
from strand.feeds.formats.csv.reader import CsvFeed

pytestmark = pytest.mark.python


def test_amounts_finer_than_the_size_unit_are_an_error_or_rounded_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    amounts = ("0.5", "5000000", "0", "1.2345", "1.2355", "0.0004")
    write(path, [f"x,B,1700000000000000,1700000000000000,1,buy,1,{amount}" for amount in amounts])
    ticks, error = read(CsvFeed(path, size_unit="0.001"))
    assert ticks["size"].tolist() == [500, 5_000_000_000, 0]
    assert "inexact='round'" in str(error)
    feed = CsvFeed(path, size_unit="0.001", inexact="round")
    ticks, error = read(feed)
    assert ticks["size"].tolist() == [500, 5_000_000_000, 0, 1234, 1236], "ties go to even"
    assert "rounds to 0" in str(error), "a size of 0 would say something else"
    assert set(ticks["flags"].tolist()) == {0}
    assert feed.statistics()["rows_rounded"] == 3
    assert (feed.info.size_unit, CsvFeed(path).info.size_unit) == (0.001, 1e-8)
    with pytest.raises(ConfigurationError, match="size_unit"):
        CsvFeed(path, size_unit="0.3")


TAILS = (  # the first lines are those that the profile is recognised by
    *(f"34200.00000000{at},1,{at},18,5853300,1" for at in range(1, 6)),
    "35821.088778456004,1,2,18,5853300.0000500001,1",
    "35821.0887784565,1,3,18,5853300.000005,-1",  # ties: times to the even ns, prices to the even 1e-9
    "35821.0887784575,1,4,18,1e-5,-1",
    "35821.1,1,5,18.4999,5853300,1",
)


@pytest.mark.parametrize("threads", [1, 3])
def test_numbers_with_more_decimals_than_a_tick_has_are_rounded_on_request(threads: int, tmp_path: Path) -> None:
    path = tmp_path / "AAPL_2012-06-21_34200000_57600000_message_1.csv"
    path.write_text("\n".join(TAILS) + "\n")
    feed = CsvFeed(path, inexact="round", threads=threads)
    ticks, error = read(feed)
    assert error is None
    midnight = 1340251200 * 10**9  # of 2012-06-21 in New York
    cells = [line.split(",") for line in TAILS]
    assert ticks["ts_event"].tolist() == [midnight + round(Fraction(row[0]) * 10**9) for row in cells]
    assert ticks["price"].tolist() == [round(Fraction(row[4]) * 10**5) for row in cells]
    assert ticks["size"].tolist() == [18] * 9
    assert (feed.statistics()["rows_rounded"], feed.statistics()["ticks"]) == (4, 9)
    assert feed.skipped.counts == {}
    ticks, error = read(CsvFeed(path))
    assert len(ticks) == 5
    assert "inexact='round'" in str(error)
    with pytest.raises(ConfigurationError, match="inexact: give 'raise' or 'round', not 'near'"):
        CsvFeed(path, inexact="near")  # type: ignore[arg-type]
