"""Prices in the page."""

from __future__ import annotations

import pytest

import strand
from strand import replay
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.report.html import page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


pytestmark = pytest.mark.python
SAMPLE = str(sample_path())


def test_a_part_of_a_chain_that_is_named_like_a_price_is_none(undrawn: None) -> None:
    both = strand.chain(strand.book(), strand.vwap())
    result = replay(SAMPLE, both, watch=1, feed_options={"date": SAMPLE_DATE}, workers=1)
    assert result.timeline is not None
    assert len(result.timeline.symbols) == 1
    assert 'id="prices"' in page(result)  # those of the book


@pytest.mark.parametrize("handler", [strand.bbo(), strand.imbalance(), strand.chain(strand.bbo(), strand.vwap())])
def test_a_row_that_calls_its_quotes_bid_and_ask_has_them_drawn(undrawn: None, handler: strand.Handler) -> None:
    result = replay(SAMPLE, handler, watch=1, date=SAMPLE_DATE, workers=1)
    assert result.timeline is not None
    (watched,) = result.timeline.symbols.values()
    assert {"bid", "ask"} <= set(watched.rows.dtype.names or ())
    assert 'id="prices"' in page(result)
