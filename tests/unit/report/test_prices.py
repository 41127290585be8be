"""Prices in the page."""

from __future__ import annotations

import numpy as np
import pytest

import strand
from strand import replay
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.report.html import page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


pytestmark = pytest.mark.python
SAMPLE = str(sample_path())


def test_prices_leave_out_what_no_row_has_and_quotes_far_from_the_market() -> None:
    from strand.report import market

    rows = np.zeros(4, [("feed_ns", "u8"), ("bid_price", "i8"), ("ask_price", "i8")])
    rows["feed_ns"] = np.arange(4) * 10**9
    rows["bid_price"] = [0, 10**10, 10**10, 10**6]
    rows["ask_price"] = [0, 2**63 - 1, 11 * 10**9, 10**14]
    found = market._prices(rows)
    assert np.isnan(found["bid"]).tolist() == [True, False, False, False]
    assert np.isnan(found["ask"]).tolist() == [True, True, False, False]
    assert market._span(list(found.values())) == (10.0, 11.0)
    assert not market.has_prices(rows[:1])
    assert market._priced_span([rows])[0] == np.datetime64(1, "s")


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


def test_of_a_book_and_a_tape_the_books_quotes_are_drawn() -> None:
    from strand.report import market

    rows = np.array(
        [(1, 10**9, 2 * 10**9, 5 * 10**9)], [("feed_ns", "u8"), ("bid", "i8"), ("ask", "i8"), ("bid_price", "i8")]
    )
    found = market._prices(rows)
    assert (found["bid"].tolist(), found["ask"].tolist()) == ([5.0], [2.0])
