"""The built-in handler ``book``: books of single orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strand.binding.books import BookMemory, TradeRules
from strand.handlers.base import Handler
from strand.handlers.builtin.definition import built_in
from strand.handlers.builtin.tape import FILLS
from strand.handlers.feed_trades import Fills, fills_of, flags_of, usual_for
from strand.handlers.native_handlers import NativeHandler
from strand.units import COUNT, LETTER, PRICE, SIZE, TIME, declare
from strand.validate import one_of

if TYPE_CHECKING:
    from strand.feeds import FeedInfo

__all__ = ["BOOK_ROW", "book"]

_SEEN = {"ticks": 1}
_COUNT4 = declare(COUNT, "<i4")

BOOK_ROW = np.dtype(
    [
        ("ticks", COUNT),
        ("last_ts_recv", declare(TIME, given=_SEEN)),
        ("bid_price", declare(PRICE, given=_SEEN)),
        ("ask_price", declare(PRICE, given=_SEEN)),
        ("bid_size", SIZE),
        ("ask_size", SIZE),
        ("bid_orders", _COUNT4),
        ("ask_orders", _COUNT4),
        ("orders", _COUNT4),
        ("state", LETTER),
        ("bid_levels", _COUNT4),
        ("ask_levels", _COUNT4),
        ("volume", SIZE),
        ("trades", COUNT),
        ("last_price", declare(PRICE, given={"trades": 1})),
        ("crossed", COUNT),
        ("unknown", _COUNT4),
        ("duplicates", _COUNT4),
        ("clipped", _COUNT4),
        ("unusable", _COUNT4),
    ]
)


@built_in
def book(*, fills: Fills | None = None, crosses: bool = True) -> Handler:
    """Keeps order-by-order books of all symbols, from feeds of single orders (ITCH, PITCH, LOBSTER, DBN MBO).

    A row (``BOOK_ROW``) shows the top of the book and counts what did not fit. Prices are in 1e-9, and ``UNDEF_PRICE``
    if a side is empty. ``Dispatcher.books`` and ``ReplayResult.books`` answer for levels, orders and places in a queue.
    csrc/books/book.h and trade.h have the rules.

    Args:
        fills: What a fill (action F) does. ``"reduce"`` takes it off its order, as ITCH, PITCH and LOBSTER mean it.
            ``"report"`` leaves the book to the cancel or modify that follows, as in DBN. It follows Databento's other
            rules too (docs/feeds/dbn.md): tops are shown at the end of events, and each publisher has a book. None: a
            replay goes by its feed's format, and refuses a merge of both sorts; a dispatcher without ``feed=`` takes
            ``"reduce"``.
        crosses: Whether crosses (auctions) count into volume, trades and last price.

    Raises:
        ConfigurationError: If ``fills`` is another word.
    """
    if fills is not None:
        one_of("fills", fills, FILLS)
    return _book(fills, crosses=bool(crosses))


def _book(fills: Fills | None, *, crosses: bool, info: FeedInfo | None = None) -> NativeHandler:
    its_fills = fills_of(info) if fills is None and info is not None else fills
    flags = usual_for(its_fills) if info is None else flags_of(info)
    rules = TradeRules(orders=True, fills_report=its_fills == "report", crosses=crosses, flags=flags)
    return NativeHandler(
        name="book",
        state=BOOK_ROW,
        function=lambda space, n: BookMemory(space, n, rules),
        needs_ticks=True,
        for_feed=None if info is not None else lambda info: _book(fills, crosses=crosses, info=info),
    )
