"""The figures of a run in one line, and what a user has to know beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.skipped import Skipped
from strand.report.closing import closing_lines, figures_line, left_ticks
from strand.report.counts import shown_latency
from strand.report.html import contents

pytestmark = pytest.mark.python

DAY = {"date": SAMPLE_DATE}


def test_one_line_has_ticks_time_rate_workers_and_warnings() -> None:
    result = strand.replay(sample_path(), "count", workers=1, limit=1000, feed_options=DAY)
    symbols = int((result.ticks_by_symbol > 0).sum())
    line = figures_line(result)
    assert line.startswith(f"1,000 ticks of {symbols} symbols in ")
    assert line.endswith(" ticks/s, 1 worker, warnings: none")
    assert list(closing_lines(result, None)) == [("", line)]


def test_the_latency_of_ticks_that_came_at_a_pace_is_in_the_line() -> None:
    result = strand.replay(sample_path(), "count", workers=1, limit=1000, feed_options=DAY, speed=1e9)
    latency = result.statistics.end_to_end
    p50, p99 = (shown_latency(latency, latency.percentiles[p]) for p in (50.0, 99.0))
    assert f", 1 worker, end to end p50 {p50} and p99 {p99}, warnings: " in figures_line(result)


def test_what_was_written_is_said_and_that_the_date_is_not_known(tmp_path: Path) -> None:
    out = {"bars": tmp_path / "bars.npy"}
    result = strand.replay(sample_path(), strand.bars("1m"), workers=1, limit=50_000, out=out)
    lines = list(closing_lines(result, tmp_path / "rows.csv"))
    assert ("", f"bars: {result.written['bars'][1]:,} records written to {tmp_path / 'bars.npy'}") in lines
    assert ("", f"rows written to {tmp_path / 'rows.csv'}") in lines
    assert any("date is unknown" in words for words, _ in lines)
    collected = strand.replay(sample_path(), strand.bars("1m"), workers=1, limit=50_000, feed_options=DAY)
    (_, last) = list(closing_lines(collected, None))[-1]
    assert last == f"bars: {len(collected.outputs['bars']):,} records, not written (--out bars=FILE)"


def test_what_was_skipped_dropped_and_quarantined_is_counted_in_the_line_and_named_below() -> None:
    result = strand.replay(sample_path(), "count", workers=1, limit=1000, feed_options=DAY)
    skipped = Skipped()
    skipped.add("unknown type", 3)
    statistics = replace(result.statistics, dropped={"newest": 1200, "oldest": 0, "abandoned": 16_383})
    bad = replace(result, skipped=skipped, statistics=statistics, failures=("A at 7",))
    line, *others = closing_lines(bad, None)
    assert ", 3 skipped, 1,200 dropped, 16,383 not handled, 1 quarantined, " in line[1]
    assert others == [
        ("skipped:", " 3 unknown type"),
        ("dropped:", " 1,200 newest"),
        ("not handled:", " 16,383 ticks were read, and still waited when the run stopped"),
        ("quarantined:", " A at 7"),
    ]
    assert left_ticks(replace(statistics, dropped={"abandoned": 1})).startswith("1 tick was read, and ")
    page = contents(bad, None, "count", "")["verdict"]
    assert "; dropped: 1,200 newest; 16,383 ticks were read, and still waited when the run stopped" in page
    assert "still waited" in bad._repr_html_()
