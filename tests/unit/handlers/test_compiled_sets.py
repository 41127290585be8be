"""The row that a compiled handler sees of a set of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers.sets import with_sets

pytest.importorskip("numba")

pytestmark = pytest.mark.python

OPTIONS: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}, "symbols": ["AAAA*"], "timeline": False}


class Span:
    span: np.int64


@strand.handler(state=[("wide", "i8"), ("sum", "f8")], params=Span)
def behind_a_book(row, tick, params):  # type: ignore[no-untyped-def]
    if row.book.bid_orders and row.book.ask_orders:
        row.wide += row.book.ask_price - row.book.bid_price > params.span
        row.sum += params.span * 0.5


def test_sets_behind_a_book_see_it_as_one_of_them_would() -> None:
    sets = [{"span": span} for span in (0, 20_000_000, 50_000_000)]
    chained = strand.chain(strand.book(), behind_a_book)
    many = strand.replay(sample_path(), with_sets(chained, sets), **OPTIONS).rows
    for place, values in enumerate(sets):
        alone = strand.chain(strand.book(), behind_a_book.with_params({"*": values}))
        one = strand.replay(sample_path(), alone, **OPTIONS).rows
        assert one.array["behind_a_book"]["wide"].any()
        assert (many.array["behind_a_book"]["sets"][:, place] == one.array["behind_a_book"]).all()
        assert (many.array["book"] == one.array["book"]).all()


@pytest.mark.parametrize("written", ["row.sets[0]", "row.timers[0]", "row.turn", "row.nothing"])
def test_what_holds_the_sets_is_no_field_of_theirs(written: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def asks(row, tick, params):\n    row.n = {written}\n", space)
    asks = strand.handler(state=[("n", "i8")], params=Span, cache=False)(space["asks"])
    with pytest.raises(strand.errors.ConfigurationError, match="does not compile"):
        strand.replay(sample_path(), with_sets(asks, [{"span": 1}]), **OPTIONS)
