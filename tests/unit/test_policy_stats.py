"""What policies and the guard count, as a prompt shows it."""

from __future__ import annotations

import pytest

from strand.stats import FairStatistics, GroupStatistics, GuardStatistics, LongStretch

pytestmark = pytest.mark.python


def test_what_fair_counts_is_shown_by_group() -> None:
    stretch = LongStretch(("AAPL", "MSFT"), 2, 30_000_000)
    fair = FairStatistics({"slow": GroupStatistics(60_000_000, 1.0, 1, 2, 30_000_000)}, None, 2, (stretch,))
    assert repr(fair) == "<FairStatistics: 1 group (slow), 2 long stretches>"
    assert repr(stretch) == "<LongStretch: AAPL, MSFT, 2 visits, longest 30,000,000 ns>"


def test_a_guard_says_whether_it_holds_strands_back() -> None:
    assert repr(GuardStatistics("the machine", True, 3, 1, 5_000)) == (
        "<GuardStatistics: holding, 3 begun, 1 expired, held 5,000 ns>"
    )
    assert "not holding" in repr(GuardStatistics("the machine", False, 0, 0, 0))
