"""What the command shows to people."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.report.tables import print_replay, print_skipped

pytestmark = pytest.mark.python


def test_what_was_passed_over_is_counted_and_shown_with_its_place() -> None:
    shown = io.StringIO()
    sample = {"reason": "bad [field]", "offset": 70, "line": 3, "text": "[x]"}
    found = {"counts": {"bad [field]": 1200}, "samples": [sample, sample | {"offset": None, "text": ""}]}
    print_skipped(Console(file=shown, width=100), found)
    assert shown.getvalue().splitlines() == [
        "skipped: 1,200 bad [field]",
        "  bad [field] at byte 70 at line 3 [x]",
        "  bad [field] at line 3",
    ]


@pytest.mark.parametrize(("compression", "work"), [("none", "reading"), ("gzip", "reading and inflating")])
def test_what_a_run_waited_for_is_named_as_it_was(compression: str, work: str) -> None:
    result = strand.replay(sample_path(), "count", workers=0, limit=10, feed_options={"date": SAMPLE_DATE})
    info = replace(result.info, details={"compression": compression})
    result = replace(result, info=info, wall_s=10.0, setup_s=1.0, feed_s=6.0, input_wait_s=5.0)
    shown = io.StringIO()
    print_replay(Console(file=shown, width=200), result, None)
    line = next(line for line in shown.getvalue().splitlines() if line.startswith("limited by"))
    assert line.startswith(f"limited by: {work} (set-up took 10% of the time, getting ticks 60%, {work} 50%)")


def test_where_nothing_was_passed_over_nothing_is_shown() -> None:
    shown = io.StringIO()
    print_skipped(Console(file=shown), {"counts": {}, "samples": []})
    assert shown.getvalue() == ""
