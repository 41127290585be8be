"""Books of price levels in C."""

from __future__ import annotations

import pytest

from strand import Dispatcher, depth
from strand.binding.books import DEPTH_LEVEL, DepthMemory
from strand.binding.memory import Space
from strand.ticks import KIND_QUOTE, zeros


def test_books_begin_empty_and_take_memory_for_their_symbols() -> None:
    few, many = (DepthMemory(Space(), n, top=2, max_levels=4) for n in (1, 1000))
    assert len(few.levels(0, "A", 3)) == 0
    assert few.levels(0, "B", 3).dtype == DEPTH_LEVEL
    assert 0 < few.bytes < many.bytes
    assert few.offset > 0


@pytest.mark.parametrize(("side", "best"), [("A", [101, 102, 103]), ("B", [103, 102, 101])])
def test_the_best_levels_come_first(side: str, best: list[int]) -> None:
    ticks = zeros(3)
    ticks["kind"], ticks["action"], ticks["side"] = KIND_QUOTE, b"M", side.encode()
    ticks["price"], ticks["size"] = [102, 101, 103], [1, 2, 3]
    with Dispatcher(["X"], depth(top=2), workers=1, cores=None) as dispatcher:
        dispatcher.publish(ticks)
        dispatcher.drain()
        book = dispatcher.books["X"]
        levels = book.asks(9) if side == "A" else book.bids(9)
        assert levels["price"].tolist() == best
        assert (book.asks(2) if side == "A" else book.bids(2))["price"].tolist() == best[:2]
