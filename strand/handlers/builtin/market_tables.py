"""Built-in handlers that emit a market's tables: each change of the best bid and ask, and each trade.

docs/handlers/tables.md has the rules.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from strand.handlers.base import Handler
from strand.handlers.builtin.definition import built_in
from strand.handlers.builtin.tape import TOP, Tape
from strand.handlers.feed_trades import Fills
from strand.units import COUNT, LETTER, PRICE, SIZE, TIME, declare, prefixed

_CHANGED: Final = {"changes": 1}
_TRADED: Final = {"trades": 1}
#: The number of an order or a match, null in tables where there is none.
_ID: Final = declare(COUNT, "<u8", none=(0,))

#: The best bid and ask after a change, and the venue's time of the tick that changed it. A side that is empty has the
#: price ``UNDEF_PRICE`` and the size 0.
BBO: Final = np.dtype([("ts_event", TIME), *TOP])
#: The last change, and how many there were: all, those that left a side empty, those with the bid at or above the ask.
BBO_ROW: Final = np.dtype([*prefixed(TOP, "", _CHANGED), ("changes", COUNT), ("one_sided", COUNT), ("locked", COUNT)])
#: A trade. ``order_id``: the order that rested, 0 where none is known; ``match_id``: the venue's number of the trade, 0
#: where the feed has none; ``aggressor``: ``B`` buyer, ``A`` seller, ``N`` nobody can tell; ``hidden``, ``cross``: 1.
TRADES: Final = np.dtype(
    [
        ("ts_event", TIME),
        ("price", PRICE),
        ("size", SIZE),
        ("order_id", _ID),
        ("match_id", _ID),
        ("aggressor", declare(LETTER, "S1")),
        ("hidden", declare(COUNT, "u1")),
        ("cross", declare(COUNT, "u1")),
    ]
)
#: Counts, and the last trade. ``unpriced``: trades without a price, which are in no other field.
TRADES_ROW: Final = np.dtype(
    [
        ("trades", COUNT),
        ("volume", SIZE),
        ("last_price", declare(PRICE, given=_TRADED)),
        ("last_size", declare(SIZE, given=_TRADED)),
        ("unpriced", COUNT),
    ]
)


@built_in
def bbo(*, book: bool | None = None, fills: Fills | None = None) -> Handler:
    """Emits each change of the best bid and ask, price or size of either side, as a ``BBO`` to the output ``bbo``.

    A row is ``BBO_ROW``. Quotes are ticks of kind quote; with ``book``, the top of order books. If a book or a day is
    cleared, the emptied top is a change.

    Args:
        book: Whether quotes come from order books; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.

    Raises:
        ConfigurationError: If ``fills`` is another word.
    """
    return Tape("bbo", BBO_ROW, b"", book=book, fills=fills, quotes=True, outputs={"bbo": BBO}).handler()


@built_in
def trades(*, crosses: bool = True, book: bool | None = None, fills: Fills | None = None) -> Handler:
    """Emits each trade, as all built-in handlers count it, as a ``TRADES`` to the output ``trades``.

    A row is ``TRADES_ROW``. Trades without a price are counted as ``unpriced`` and not emitted.

    Args:
        crosses: Whether crosses (auctions) count.
        book: Whether order books say what trades are; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.

    Raises:
        ConfigurationError: If ``fills`` is another word.
    """
    return Tape(
        "trades", TRADES_ROW, b"", crosses=crosses, book=book, fills=fills, outputs={"trades": TRADES}
    ).handler()
