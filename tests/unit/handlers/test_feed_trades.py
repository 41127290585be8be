"""What a feed's ticks mean to handlers that count trades."""

from __future__ import annotations

from typing import Any

import pytest

from strand.errors import ConfigurationError
from strand.feeds import FeedInfo
from strand.handlers.feed_trades import fills_of, source_for, trades_of

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("ticks", "fills", "orders", "books"),
    [
        ("plain", "reduce", False, False),
        ("orders", "reduce", True, True),
        ("dbn", "report", False, False),
        ("dbn-orders", "report", True, False),
    ],
)
def test_each_kind_of_feed_says_what_a_fill_does_and_whether_books_are_needed(
    ticks: Any, fills: str, orders: bool, books: bool
) -> None:
    info = FeedInfo("own", "a", ticks=ticks)
    source = trades_of(info)
    assert fills_of(info) == fills
    assert (source.rules.orders, source.rules.fills_report, source.books) == (orders, fills == "report", books)
    assert not source.assumed


def test_files_that_do_not_agree_are_an_error() -> None:
    with pytest.raises(ConfigurationError, match="give handlers by symbol"):
        trades_of(FeedInfo("own", "a", ticks=None))


def test_a_handler_is_called_with_ticks_or_with_trades() -> None:
    assert source_for("tick") is None
    source = source_for("trade")
    assert source is not None
    assert source.assumed
    with pytest.raises(ConfigurationError, match="on: 'quote' is not one of tick, trade"):
        source_for("quote")  # type: ignore[arg-type]
