"""The built-in handler ``bars``: open, high, low, close, volume and average price of each stretch of trades."""

from __future__ import annotations

import struct
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from strand.errors import ConfigurationError
from strand.handlers.base import Handler
from strand.handlers.builtin.definition import built_in
from strand.handlers.builtin.tape import STRETCH, Tape
from strand.handlers.feed_trades import ContractsLike, Fills, contracts_of
from strand.handlers.native_handlers import NativeHandler, SymbolMemory
from strand.handlers.sessions import SessionsLike, session_table
from strand.spans import SpanLike, span_ns
from strand.ticks import PRICE_SCALE, UNDEF_PRICE
from strand.units import COUNT, INNER, NO_SIZE_UNIT, NOTIONAL, PRICE, SIZE, TIME, declare, prefixed
from strand.validate import is_whole, one_of, whole

if TYPE_CHECKING:
    from strand.binding.books import Tapes
    from strand.feeds import FeedInfo

__all__ = ["BAR", "BARS_ROW", "BAR_AUCTION", "BAR_CUT", "BAR_EMPTY", "BAR_OUTSIDE", "BAR_PARTIAL", "bars"]

#: ``flags`` of a bar: the run ended first; no trade; its session ended before it was full; outside of sessions; of
#: crosses after a session.
BAR_PARTIAL: Final = 1
BAR_EMPTY: Final = 2
BAR_CUT: Final = 4
BAR_OUTSIDE: Final = 8
BAR_AUCTION: Final = 16

#: A bar. ``start`` and ``end`` in ns: of a time bar its span, the end not in it; of others the times of the first and
#: the last trade. Prices in 1e-9. ``notional``: price x size in units of currency, or what the
#: symbol's contract says.
BAR: Final = np.dtype(
    [
        ("start", TIME),
        ("end", TIME),
        ("open", PRICE),
        ("high", PRICE),
        ("low", PRICE),
        ("close", PRICE),
        ("vwap", PRICE),
        ("volume", SIZE),
        ("notional", NOTIONAL),
        ("trades", declare(COUNT, "<i4")),
        ("flags", declare(COUNT, "<u4")),
    ]
)
#: A bar is under way and has a trade: it ends, and its high is not that of no trade.
_UNDER_WAY: Final = {"end": 1, "high": None}
#: Of the bar under way, and where there is none of the last one: 0 before the first.
_STANDING: Final = declare(PRICE, none=(UNDEF_PRICE, -1 - UNDEF_PRICE, 0))

#: A symbol's row: the bar under way, counts, and the last bar that closed as ``last_*``. Fields: csrc/measures/bars.h.
BARS_ROW: Final = np.dtype(
    [
        ("end", declare(TIME, given=_UNDER_WAY)),
        ("start", declare(TIME, given=_UNDER_WAY)),
        ("high", declare(PRICE, given={"end": 1})),
        ("low", declare(PRICE, given=_UNDER_WAY)),
        ("close", _STANDING),
        ("volume", SIZE),
        ("notional_low", declare(INNER, "<u8")),
        ("trades", COUNT),
        ("open", _STANDING),
        ("notional_high", INNER),
        ("last_time", INNER),
        *STRETCH,
        ("empty_left", INNER),
        ("bars", COUNT),
        ("outside", COUNT),
        ("late", COUNT),
        ("unpriced", COUNT),
        *prefixed([(name, BAR[name]) for name in BAR.names or ()], "last_", {"bars": 1}),
    ]
)

_TIME, _TICKS, _VOLUME, _NOTIONAL = range(4)


@built_in
def bars(
    every: SpanLike | None = None,
    *,
    ticks: int | None = None,
    volume: int | str | Decimal | None = None,
    notional: int | str | Decimal | None = None,
    fill: bool = False,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    auctions: SpanLike | None = None,
    outside: Literal["skip", "bars"] = "skip",
    zero_sizes: Literal["skip", "price"] | None = None,
    crosses: bool = True,
    contracts: ContractsLike | None = None,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Makes bars of trades, emitted as records of ``BAR`` to the output ``bars``.

    A row is ``BARS_ROW``: the current bar and the last one. Give exactly one of ``every``, ``ticks``, ``volume`` and
    ``notional``; it says what closes a bar. Amounts hold whatever the feed's ``size_unit``. A dispatcher, which knows
    no feed, takes sizes as they are. docs/handlers/bars.md has the rules.

    Args:
        every: The time of a bar: ``"1m"`` or float seconds.
        ticks: How many trades close a bar.
        volume: How many units of the instrument close a bar.
        notional: How many units of currency close a bar. A trade at a price below 0 takes from the sum.
        fill: Whether time bars without a trade are emitted too, at the last close. There are none after a day's last
            trade.
        partial: Whether the bar under way is emitted at the run's end.
        sessions: When the venue is open: ``strand.Sessions``, or text for it. Bars begin at a session's start, and end
            at its end at the latest. None: bars are aligned to the UNIX epoch.
        auctions: How long after a session crosses still count, as ``"5m"``: a closing auction is printed at its end or
            later. They make bars of their own, with the flag ``BAR_AUCTION``. None: they are outside.
        outside: What to do with trades outside of sessions: ``"skip"`` leaves them out and counts them, ``"bars"``
            makes bars of their own.
        zero_sizes: What to do with trades of size 0: ``"skip"`` leaves them out; ``"price"`` counts their price. None:
            ``"price"`` for a feed of ready-made bars, else ``"skip"``. In a feed without sizes all trades count.
        crosses: Whether crosses (auctions) count.
        contracts: The contracts of symbols, by name or pattern: ``{"ES*": 50, "BTCUSD_PERP": strand.Inverse(100)}``,
            or text. A number is what one point of price is worth in currency. None: a notional is price x size.
        book: True: order books say what trades are, for feeds of single orders, whose fills have no price of their own.
            None: a replay goes by its feed, and a dispatcher without ``feed=`` takes ticks as they are.
        fills: What a fill does, as for ``strand.book``: ``"report"`` for DBN MBO, whose fills repeat trades. None: a
            replay goes by its feed, and a dispatcher without ``feed=`` takes ``"reduce"``.

    Raises:
        ConfigurationError: If not exactly one of the first four is given, or if an option cannot work.
    """
    given = [(kind, value) for kind, value in enumerate((every, ticks, volume, notional)) if value is not None]
    if len(given) != 1:
        raise ConfigurationError("bars", "give exactly one of every, ticks, volume and notional")
    kind = given[0][0]
    if fill and kind != _TIME:
        raise ConfigurationError("fill", "only bars of time can be empty: give every=, or leave fill out")
    name, amount, price = "notional", None, Decimal(1)
    if volume is not None:
        name, amount = "volume", _amount("volume", volume)
    elif notional is not None:
        amount, price = _amount("notional", notional), Decimal(1) / PRICE_SCALE
    fixed = span_ns("every", every) if every is not None else whole("ticks", ticks, 1) if ticks is not None else 0
    flags = (bool(fill), one_of("outside", outside, ("skip", "bars")), bool(partial))
    zero = None if zero_sizes is None else one_of("zero_sizes", zero_sizes, ("skip", "price"))
    hours = session_table(sessions, auctions)
    if auctions is not None and flags[1]:
        raise ConfigurationError("auctions", "outside='bars' makes bars of all trades: leave one of the two out")
    its_contracts = contracts_of(contracts)
    acts: dict[str, Any] = {"outputs": {"bars": BAR}, "timers": True, "ends": True}

    def of(size_unit: float | None, info: FeedInfo | None = None) -> NativeHandler:
        limit = fixed if amount is None else _limit(name, amount, size_unit, price)
        step, minimum = (0, limit) if kind == _NOTIONAL else (limit, 0)
        prices = bool(info is not None and info.bars) if zero is None else zero
        params = struct.pack("=IIIIQQQq", kind, *flags, prices, step, minimum % 2**64, minimum >> 64)
        closes = None
        if kind == _NOTIONAL and amount is not None and size_unit is not None:
            from fractions import Fraction

            closes = Fraction(amount) / Fraction(Decimal(repr(size_unit)))
        return Tape(
            "bars",
            BARS_ROW,
            params,
            crosses=crosses,
            auctions=auctions is not None,
            every=step if kind == _TIME else 0,
            book=book,
            fills=fills,
            contracts=(its_contracts, closes),
            calendar=hours,
            **acts,
        ).handler(info)

    def for_feed(info: FeedInfo) -> Handler:
        if amount is not None and not info.has_sizes:
            raise ConfigurationError(name, "the feed's trades have no sizes: give every= or ticks=")
        return of(info.size_unit, info)

    if amount is None:
        return replace(of(1.0), for_feed=for_feed)

    try:
        return replace(of(1.0), for_feed=for_feed)
    except ConfigurationError as error:
        refused = error

    def refuse(_: Tapes) -> SymbolMemory:
        raise refused

    # A feed that counts in finer units may have what is no whole number of ones.
    return NativeHandler(name="bars", state=BARS_ROW, function=refuse, needs_ticks=True, for_feed=for_feed, **acts)


def _amount(name: str, value: int | float | str | Decimal) -> Decimal:
    """An amount above 0, exactly: a float stands for its shortest decimal."""
    try:
        amount = Decimal(int(value)) if is_whole(value) else Decimal(str(value))
    except (InvalidOperation, TypeError, ValueError) as error:
        raise ConfigurationError(name, f"{value!r} is not an amount: give a number above 0") from error
    if isinstance(value, bool) or not amount.is_finite() or amount <= 0:
        raise ConfigurationError(name, f"{value!r} is not an amount above 0")
    return amount


def _limit(name: str, amount: Decimal, size_unit: float | None, price: Decimal) -> int:
    """Sum that closes a bar, in units of the handler's sum: sizes in ``size_unit``, of prices in ``price``."""
    from fractions import Fraction

    if size_unit is None:
        raise ConfigurationError(name, f"{NO_SIZE_UNIT}")
    unit = Decimal(repr(size_unit)) * price
    units = Fraction(amount) / Fraction(unit)
    if units.denominator != 1:
        raise ConfigurationError(
            name, f"give a multiple of {unit.normalize()}, not {amount}: sizes are in units of {size_unit:g}"
        )
    if (units >= 2**63 and name == "volume") or units >= 2**95:
        raise ConfigurationError(name, f"give less than {amount}, or read sizes in a coarser unit than {size_unit:g}")
    return int(units)
