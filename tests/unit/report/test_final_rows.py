"""Rows in the page."""

from __future__ import annotations

import pytest

import strand
from strand import replay
from strand.feeds.sample import sample_path
from strand.report.page import page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
from page_reader import Reader

pytestmark = pytest.mark.python


def test_inner_parts_of_rows_are_left_out_and_prices_are_shown_as_such(undrawn: None) -> None:
    text = Reader(page(replay(sample_path(), strand.trade_stats("30m"), watch=1))).text
    assert "size squares" not in text
    assert "price max" in text
    row = replay(sample_path(), strand.trade_stats()).rows["AAAHD"]
    assert f"{row['price_max'] / 1e9:,.15g}" in text
