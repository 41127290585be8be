"""Rows that become several ticks each: levels of a book, and what a row with a fault gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from csv_files import KINDS, made_up, write_made_up
from csv_reference import LAST, reference
from csv_tables import as_dicts

from strand.errors import ConfigurationError, FormatError
from strand.feeds.formats.csv.reader import CsvFeed

pytestmark = pytest.mark.python


def test_levels_bounds_how_much_of_a_book_becomes_ticks(tmp_path: Path) -> None:
    path = write_made_up(tmp_path, "tardis-snapshots", 100)
    expected = reference(KINDS["tardis-snapshots"], path.read_bytes())
    for levels in (1, 3, 64):
        few = [tick | {"flags": 0} for tick in expected if int(str(tick["depth"])) < levels]
        for tick, after in zip(few, [*few[1:], None], strict=True):
            # The last one of a row ends its event.
            tick["flags"] = 0 if after is not None and after["sequence"] == tick["sequence"] else LAST
        assert as_dicts(CsvFeed(path, levels=levels)) == few
    with pytest.raises(ConfigurationError, match="levels: 0 is not a whole number from 1 to 64"):
        CsvFeed(path, levels=0)


def test_float_tails_in_a_part_are_rounded_on_request_and_counted_by_row(tmp_path: Path) -> None:
    lines = made_up("tardis-snapshots", 30)
    lines[3][4:8] = ["1854.980000000000018", "1", "1854.970000000000018", "1"]
    path = write_made_up(tmp_path, "tardis-snapshots", lines)
    with pytest.raises(FormatError, match="inexact='round'"):
        as_dicts(CsvFeed(path))
    feed = CsvFeed(path, inexact="round")
    tick = next(tick for tick in as_dicts(feed) if tick["sequence"] == 4)
    assert (tick["order_id"], tick["price"]) == (1_854_980_000_000, 1_854_970_000_000)
    assert feed.statistics()["rows_rounded"] == 1
