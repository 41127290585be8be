"""Rows and records of the handlers that measure a market."""

from __future__ import annotations

import pytest

from strand import spread, trade_stats, vwap
from strand.handlers.builtin.measure_rows import SPREAD, SPREAD_ROW, TRADE_STATS, TRADE_STATS_ROW, VWAP, VWAP_ROW

pytestmark = pytest.mark.python


def test_the_declared_fields_are_what_is_emitted() -> None:
    for like, declared in ((spread("1ns"), SPREAD), (trade_stats("1ns"), TRADE_STATS), (vwap("1ns"), VWAP)):
        (output,) = like.outputs.values()
        assert output == declared
    # Without intervals a row is no larger than before.
    assert (spread().state, trade_stats().state, vwap().state) == (SPREAD_ROW, TRADE_STATS_ROW, VWAP_ROW)
