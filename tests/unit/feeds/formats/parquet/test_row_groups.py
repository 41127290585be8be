"""Row groups that a selection does not need are passed over, as their statistics say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from parquet_files import T0, pa, parquet, table
from reading import assert_selected, read

from strand.errors import FormatError
from strand.feeds import Selection
from strand.feeds.formats.parquet.reader import ParquetFeed

pytestmark = pytest.mark.python


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
