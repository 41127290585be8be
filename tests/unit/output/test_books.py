"""Questions to books."""

from __future__ import annotations

import pytest
from book_runs import run, tick

from strand import Dispatcher, book
from strand.errors import ConfigurationError, UnknownSymbolError


def test_questions_that_cannot_be_answered_are_refused() -> None:
    d = run(tick("A", 1, 100, 10, side="B"))
    found = d.books[0]
    assert found.order(2) is None
    assert len(found.bids(0)) == 0
    with pytest.raises(ConfigurationError, match="side: 'buy' is not one of bid, ask"):
        found.levels("buy")
    with pytest.raises(ConfigurationError, match="n: -1 is not a whole number"):
        found.bids(-1)
    with pytest.raises(UnknownSymbolError):
        d.books["nobody"]
    with pytest.raises(ConfigurationError, match="fills: 'both'"):
        book(fills="both")
    with Dispatcher(["A", "B"], handlers={"A": "book", "*": "count"}, workers=1, cores=None) as mixed:
        assert len(mixed.books["A"]) == 0
        with pytest.raises(ConfigurationError, match="the handler of B keeps no book"):
            mixed.books["B"]
    with Dispatcher(1, "count", workers=1, cores=None) as none, pytest.raises(ConfigurationError, match="keeps books"):
        _ = none.books
