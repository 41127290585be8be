"""Common part of the built-in handlers that read trades and quotes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strand.binding.books import TapeMemory, TradeRules, source_bytes
from strand.binding.native import builtin_function
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.handlers.feed_trades import Contracts, Fills, check_intervals, fills_of, flags_of, ticks_of, usual_for
from strand.handlers.native_handlers import NativeHandler
from strand.handlers.sessions import session_table
from strand.units import INNER, PRICE, SIZE, declare
from strand.validate import one_of

if TYPE_CHECKING:
    from fractions import Fraction

    from strand.feeds import FeedInfo

FILLS: Final = ("reduce", "report")

#: The best bid and ask in a row: prices in 1e-9, ``UNDEF_PRICE`` where a side is empty, all 0 before the first quote.
TOP: Final = [("bid", PRICE), ("ask", PRICE), ("bid_size", SIZE), ("ask_size", SIZE)]
#: The session a row is in, or what is between two: ns since the epoch, and whether it is one.
STRETCH: Final = [("stretch_start", INNER), ("stretch_end", INNER), ("inside", declare(INNER, "<u8"))]


@dataclass(frozen=True)
class Tape:
    """A handler of the C functions ``sd_handle_NAME``, ``sd_wake_NAME`` and ``sd_finish_NAME``.

    Attributes:
        name: The name of the functions; of the handler too, unless it is ``shown`` by another.
        state: The row.
        params: The parameters behind its sd_source.
        book: Whether it takes trades and quotes from books of its own; None: as its feed says, and without one it takes
            ticks as they are.
        fills: What a fill does; None: as its feed says, and without one ``"reduce"``.
        quotes: It needs quotes, and not trades alone.
        crosses: Crosses count.
        auctions: Those after a session count too, so that the feed has to mark them.
        resting: The side of a trade is the resting order's.
        outputs: The dtypes of the records it emits, by name.
        timers: It has timers.
        ends: It does something at the end of a run.
        every: The length of its intervals in ns, which ready-made bars have to fill; 0: it has none.
        calendar: An sd_calendar, the last of its params; empty: it takes no sessions.
        contracts: Those that its notionals take, and the notional that closes a bar (``ContractMemory``); None: it
            makes no notional.
    """

    name: str
    state: np.dtype[Any]
    params: bytes
    _: KW_ONLY
    book: bool | None
    fills: Fills | None
    quotes: bool = False
    crosses: bool = True
    auctions: bool = False
    resting: bool = False
    outputs: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    timers: bool = False
    ends: bool = False
    shown: str = ""
    every: int = 0
    calendar: bytes = b""
    contracts: tuple[Contracts, Fraction | None] | None = None

    def handler(self, info: FeedInfo | None = None) -> NativeHandler:
        """Returns the handler for a feed; None: no feed is known yet. Raises ConfigurationError."""
        if self.auctions and not self.crosses:
            raise ConfigurationError("auctions", "crosses=False leaves all crosses out: leave one of the two out")
        if self.fills is not None:
            one_of("fills", self.fills, FILLS)
        if info is not None and info.bars is not None and self.every:
            always = self.calendar == session_table(None)
            check_intervals(self.every, info.bars, info.details.get("bars_of") if always else None)
        books = orders = bool(self.book)
        fills = self.fills
        if info is not None and (self.book is None or fills is None):
            ticks = ticks_of(info)
            orders = ticks in ("orders", "dbn-orders")
            fills = fills_of(info) if fills is None else fills
            if self.book is None:
                books = ticks == "orders" or (self.quotes and ticks == "dbn-orders")
        rules = TradeRules(
            orders=orders or books,
            fills_report=fills == "report",
            crosses=bool(self.crosses),
            resting=self.resting,
            flags=usual_for(fills) if info is None else flags_of(info),
            sizeless=info is not None and not info.has_sizes,
            at_end=info is not None and bool(info.bars),
        )
        if self.auctions and info is not None and not rules.flags.cross:
            raise ConfigurationError(
                "auctions",
                "this feed does not mark crosses: let the sessions end later, as in sessions='09:30-16:05 "
                "America/New_York', which counts all trades",
            )
        name, whole, acts = self.name, self.params + self.calendar, {"timers": self.timers, "ends": self.ends}
        return NativeHandler(
            name=self.shown or name,
            state=self.state,
            function=(
                (lambda tapes: TapeMemory(tapes, name, rules, whole, orders=books, **acts))
                if books or self.quotes
                else builtin_function(name, source_bytes(rules) + whole, **acts)
            ),
            needs_ticks=True,
            takes_ticks_as_plain=self.book is None and info is None,
            for_feed=self.handler if info is None else None,
            outputs=self.outputs,
            contracts=self.contracts,
            intervals=(self.every, self.calendar) if self.calendar else None,
            timers=self.timers,
            ends=self.ends,
        )
