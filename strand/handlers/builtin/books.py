"""The built-in handlers that keep books: ``book`` of single orders, ``depth`` of price levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from strand.binding.books import MAX_TOP, BookMemory, DepthMemory, TradeRules
from strand.errors import ConfigurationError
from strand.handlers.base import Handler
from strand.handlers.builtin.definition import built_in
from strand.handlers.builtin.tape import FILLS
from strand.handlers.feed_trades import Fills, fills_of, flags_of, usual_for
from strand.handlers.native_handlers import NativeHandler
from strand.units import COUNT, LETTER, PRICE, SIZE, TIME, Given, declare
from strand.validate import one_of, whole

if TYPE_CHECKING:
    from strand.feeds import FeedInfo

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


def _levels(top: int, *, given: Given | None, counted: bool) -> list[tuple[Any, ...]]:
    """The fields of the best ``top`` levels: what ``given`` says makes them defined."""
    kinds = {"price": declare(PRICE, given=given), "size": SIZE, **({"count": COUNT} if counted else {})}
    return [
        (f"{side}_{name}s", declare(kind, each=f"{side}_{name}"), (top,))
        for side in ("bid", "ask")
        for name, kind in kinds.items()
    ]


def _changes(top: int, *, counted: bool) -> dict[str, np.dtype[Any]]:
    """The output of changes of the levels."""
    return {"levels": np.dtype([("ts_event", TIME), *_levels(top, given=None, counted=counted)])}


def book_row(top: int) -> np.dtype[np.void]:
    """The row of ``book(top=top)``: that of ``BOOK_ROW``, and the best ``top`` levels of both sides, best first."""
    return np.dtype(
        [*((name, BOOK_ROW[name]) for name in BOOK_ROW.names or ()), *_levels(top, given=_SEEN, counted=True)]
    )


@built_in
def book(*, top: int | None = None, changes: bool = False, fills: Fills | None = None, crosses: bool = True) -> Handler:
    """Keeps order-by-order books of all symbols, from feeds of single orders (ITCH, PITCH, LOBSTER, DBN MBO).

    A row (``BOOK_ROW``) shows the top of the book and counts what did not fit. Prices are in 1e-9, and ``UNDEF_PRICE``
    if a side is empty. ``Dispatcher.books`` and ``ReplayResult.books`` answer for levels, orders and places in a queue.
    csrc/books/book.h and trade.h have the rules.

    Args:
        top: How many levels of each side a row shows too (``book_row(top)``), 1 to 64: price, size and count of orders.
            None: only the best, as ``BOOK_ROW`` has it.
        changes: Whether each change of these levels is emitted to the output ``levels``. It needs ``top``.
        fills: What a fill (action F) does. ``"reduce"`` takes it off its order, as ITCH, PITCH and LOBSTER mean it.
            ``"report"`` leaves the book to the cancel or modify that follows, as in DBN. It follows Databento's other
            rules too (docs/feeds/dbn.md): tops are shown at the end of events, and each publisher has a book. None: a
            replay goes by its feed's format, and refuses a merge of both sorts; a dispatcher without ``feed=`` takes
            ``"reduce"``.
        crosses: Whether crosses (auctions) count into volume, trades and last price.

    Raises:
        ConfigurationError: If ``top`` is out of its bounds, or missing with ``changes``, or ``fills`` is another word.
    """
    if fills is not None:
        one_of("fills", fills, FILLS)
    shown = 0 if top is None else whole("top", top, 1, MAX_TOP)
    if changes and not shown:
        raise ConfigurationError("changes", "say of how many levels: top=5, for example")
    return _book(shown, fills, changes=changes, crosses=crosses)


def _book(
    top: int, fills: Fills | None, *, changes: bool, crosses: bool, info: FeedInfo | None = None
) -> NativeHandler:
    its_fills = fills_of(info) if fills is None and info is not None else fills
    flags = usual_for(its_fills) if info is None else flags_of(info)
    rules = TradeRules(orders=True, fills_report=its_fills == "report", crosses=crosses, flags=flags)
    return NativeHandler(
        name="book",
        state=book_row(top) if top else BOOK_ROW,
        function=lambda tapes: BookMemory(tapes.space, tapes.n_symbols, rules, top=top, emits=changes),
        needs_ticks=True,
        outputs=_changes(top, counted=True) if changes else {},
        for_feed=(
            None if info is not None else lambda info: _book(top, fills, changes=changes, crosses=crosses, info=info)
        ),
    )


MAX_LEVELS = 1 << 24


def depth_row(top: int) -> np.dtype[np.void]:
    """The row of ``depth(top=top)``; ``bid_prices`` and the other three hold the best ``top`` levels, best first."""
    price, few = declare(PRICE, given={"ticks": 1}), declare(COUNT, "<i4")
    return np.dtype(
        [
            ("ticks", COUNT),
            ("last_ts_recv", declare(TIME, given={"ticks": 1})),
            ("bid_price", price),
            ("ask_price", price),
            ("bid_size", SIZE),
            ("ask_size", SIZE),
            ("bid_levels", few),
            ("ask_levels", few),
            ("volume", SIZE),
            ("trades", COUNT),
            ("last_price", declare(PRICE, given={"trades": 1})),
            ("crossed", COUNT),
            ("snapshots", few),
            ("absent", few),
            ("beyond", few),
            ("unusable", few),
            ("passed_over", COUNT),
            ("unpriced", COUNT),
            ("unended", COUNT),
            *_levels(top, given=_SEEN, counted=False),
        ]
    )


@built_in
def depth(*, top: int = 5, changes: bool = False, max_levels: int = 16_384, fills: Fills | None = None) -> Handler:
    """Keeps books of price levels of all symbols, from feeds of level updates, snapshots and views.

    A row (``depth_row(top)``) shows the best levels of both sides, and counts what did not fit. Prices are in 1e-9, and
    ``UNDEF_PRICE`` if there is no level. ``Dispatcher.books`` and ``ReplayResult.books`` answer for all levels.
    docs/handlers/depth.md has the rules.

    Args:
        top: How many levels of each side a row shows, 1 to 64.
        changes: Whether each change of these levels is emitted to the output ``levels``.
        max_levels: The greatest number of levels that a side of a symbol keeps, which bounds its memory to 64 bytes per
            level and 4 KB more. When it is full the worst level goes, which ``beyond`` counts.
        fills: Whether a fill (action F) is a trade: ``"reduce"``. With ``"report"`` it repeats what a trade says, and
            does not count. None: as the feed says; a dispatcher without ``feed=`` takes ``"reduce"``.

    Raises:
        ConfigurationError: If a number is out of its bounds, or ``fills`` is another word.
    """
    shown, kept = whole("top", top, 1, MAX_TOP), whole("max_levels", max_levels, 1, MAX_LEVELS)
    if fills is not None:
        one_of("fills", fills, FILLS)
    return _depth(shown, kept, fills, changes=changes)


def _depth(
    top: int, max_levels: int, fills: Fills | None, *, changes: bool, info: FeedInfo | None = None
) -> NativeHandler:
    its_fills = fills_of(info) if fills is None and info is not None else fills
    rules = TradeRules(
        fills_report=its_fills == "report",
        flags=usual_for(its_fills) if info is None else flags_of(info),
        sizeless=info is not None and not info.has_sizes,
    )
    return NativeHandler(
        name="depth",
        state=depth_row(top),
        function=lambda tapes: DepthMemory(
            tapes.space, tapes.n_symbols, top=top, max_levels=max_levels, rules=rules, emits=changes
        ),
        outputs=_changes(top, counted=False) if changes else {},
        needs_ticks=True,
        ends=True,
        for_feed=None if info is not None else lambda info: _depth(top, max_levels, fills, changes=changes, info=info),
    )
