"""What was passed over is counted by reason, and the first few of each reason are kept."""

from __future__ import annotations

import pytest

from strand.feeds.skipped import SAMPLES, Skipped, SkippedRecord

pytestmark = pytest.mark.python


def test_all_are_counted_and_the_first_of_each_reason_are_kept() -> None:
    skipped = Skipped()
    for offset in range(SAMPLES + 5):
        skipped.add("bad side", offset=offset)
        skipped.add("bad name", 3, line=offset + 1, text="x" * 100)
    assert skipped.counts == {"bad side": SAMPLES + 5, "bad name": 3 * (SAMPLES + 5)}
    assert skipped.total == 4 * (SAMPLES + 5)
    assert [one for one in skipped.samples if one.reason == "bad side"] == [
        SkippedRecord("bad side", offset) for offset in range(SAMPLES)
    ]
    assert [(one.line, one.text) for one in skipped.samples if one.reason == "bad name"] == [
        (line, "x" * 80) for line in range(1, SAMPLES + 1)
    ]
    skipped.clear()
    assert (skipped.total, skipped.samples) == (0, [])
