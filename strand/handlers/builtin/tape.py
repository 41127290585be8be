"""Common part of the built-in handlers that read trades and quotes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strand.binding.books import TapeMemory, TradeRules, source_bytes
from strand.binding.native import builtin_function
from strand.errors import ConfigurationError
from strand.handlers.base import Handler
from strand.handlers.feed_trades import Contracts, Fills, check_intervals, fills_of, flags_of, ticks_of, usual_for
from strand.handlers.native_handlers import NativeHandler
from strand.handlers.sessions import session_table
from strand.units import INNER, PRICE, SIZE, declare
from strand.validate import one_of

if TYPE_CHECKING:
    from fractions import Fraction

    from strand.feeds import FeedInfo

__all__ = ["FILLS", "STRETCH", "TOP", "tape_handler"]

FILLS: Final = ("reduce", "report")

#: The best bid and ask in a row: prices in 1e-9, ``UNDEF_PRICE`` where a side is empty, all 0 before the first quote.
TOP: Final = [("bid", PRICE), ("ask", PRICE), ("bid_size", SIZE), ("ask_size", SIZE)]
#: The session a row is in, or what is between two: ns since the epoch, and whether it is one.
STRETCH: Final = [("stretch_start", INNER), ("stretch_end", INNER), ("inside", declare(INNER, "<u8"))]


def tape_handler(
    name: str,
    state: np.dtype[Any],
    params: bytes,
    *,
    book: bool | None,
    fills: Fills | None,
    quotes: bool = False,
    crosses: bool = True,
    auctions: bool = False,
    resting: bool = False,
    outputs: Mapping[str, np.dtype[Any]] | None = None,
    timers: bool = False,
    ends: bool = False,
    shown: str | None = None,
    every: int = 0,
    calendar: bytes = b"",
    contracts: tuple[Contracts, Fraction | None] | None = None,
    info: FeedInfo | None = None,
) -> NativeHandler:
    """The handler of the C functions ``sd_handle_NAME``, ``sd_wake_NAME`` and ``sd_finish_NAME``.

    ``params``: those behind its sd_source. ``book``: it takes trades and quotes from books of its own, and ``fills``:
    what a fill does; where they are None its feed says so, and without one it takes ticks as they are, and
    ``"reduce"``. ``quotes``: it needs quotes, and not trades alone. ``crosses``: they count. ``auctions``: those after
    a session count too, so that the feed has to mark them. ``resting``: the side of a trade is the resting order's.
    ``contracts``: those that its notionals take, and the notional that closes a bar (``ContractMemory``); None: it
    makes no notional. ``every``: the length of its intervals in ns, which ready-made bars have to fill; 0: it has none.
    ``calendar``: an sd_calendar, the last of its params; empty: it takes no sessions.
    ``info``: the feed, once it is known.
    """
    if auctions and not crosses:
        raise ConfigurationError("auctions", "crosses=False leaves all crosses out: leave one of the two out")
    acts = {"timers": timers, "ends": ends}
    options: dict[str, Any] = {
        "quotes": quotes, "crosses": crosses, "auctions": auctions, "resting": resting, "outputs": outputs,
        "shown": shown, "every": every, "calendar": calendar, "contracts": contracts, **acts,
    }  # fmt: skip

    def for_feed(info: FeedInfo) -> Handler:
        return tape_handler(name, state, params, book=book, fills=fills, info=info, **options)

    if fills is not None:
        one_of("fills", fills, FILLS)
    if info is not None and info.bars is not None and every:
        always = calendar == session_table(None)
        check_intervals(every, info.bars, info.details.get("bars_of") if always else None)
    books = orders = bool(book)
    its_fills = fills
    if info is not None and (book is None or fills is None):
        ticks = ticks_of(info)
        orders = ticks in ("orders", "dbn-orders")
        its_fills = fills_of(info) if fills is None else fills
        if book is None:
            books = ticks == "orders" or (quotes and ticks == "dbn-orders")
    rules = TradeRules(
        orders=orders or books,
        fills_report=its_fills == "report",
        crosses=bool(crosses),
        resting=resting,
        flags=usual_for(its_fills) if info is None else flags_of(info),
        sizeless=info is not None and not info.has_sizes,
        at_end=info is not None and bool(info.bars),
    )
    if auctions and info is not None and not rules.flags.cross:
        raise ConfigurationError(
            "auctions",
            "this feed does not mark crosses: let the sessions end later, as in sessions='09:30-16:05 "
            "America/New_York', which counts all trades",
        )
    whole = params + calendar
    return NativeHandler(
        name=shown or name,
        state=state,
        function=(
            (lambda space, n: TapeMemory(space, n, name, rules, whole, orders=books, **acts))
            if books or quotes
            else builtin_function(name, source_bytes(rules) + whole, **acts)
        ),
        needs_ticks=True,
        takes_ticks_as_plain=book is None and info is None,
        for_feed=for_feed if info is None else None,
        outputs=outputs or {},
        timers=timers,
        ends=ends,
        contracts=contracts,
        intervals=(every, calendar) if calendar else None,
    )
