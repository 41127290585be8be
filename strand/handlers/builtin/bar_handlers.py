"""Built-in handlers that make bars: of trades, and of the best quotes."""

from __future__ import annotations

import struct
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from strand.dicts import FrozenDict
from strand.errors import ConfigurationError
from strand.handlers.base import Handler
from strand.handlers.builtin.definition import built_in
from strand.handlers.builtin.tape import STRETCH, TOP, Tape
from strand.handlers.feed_trades import ContractsLike, Fills, contracts_of
from strand.handlers.native_handlers import NativeHandler, SymbolMemory
from strand.handlers.sessions import SessionsLike, session_table
from strand.spans import SpanLike, span_ns
from strand.ticks import PRICE_SCALE, UNDEF_PRICE
from strand.units import COUNT, INNER, NO_SIZE_UNIT, NOTIONAL, PRICE, RATIO, SIZE, TIME, declare, prefixed
from strand.validate import is_whole, one_of, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from strand.binding.books import Tapes
    from strand.feeds import FeedInfo

#: ``flags`` of a bar: the run ended first; no trade; its session ended before it was full; outside of sessions; of
#: crosses after a session.
BAR_PARTIAL: Final = 1
BAR_EMPTY: Final = 2
BAR_CUT: Final = 4
BAR_OUTSIDE: Final = 8
BAR_AUCTION: Final = 16
#: ``flags`` of a bar of mids, by price: half of 1e-9 more belongs to it.
BAR_HALVES: Final = FrozenDict({"open": 32, "high": 64, "low": 128, "close": 256})
#: ``flags`` of a bar of imbalance: ``max_ticks`` closed it.
BAR_BOUNDED: Final = 512

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

#: A bar of quotes. ``start`` and ``end`` as in a ``BAR``. ``changes``: changes of the best bid and ask that left a
#: price. ``close`` is ``UNDEF_PRICE`` where the last change left none.
QUOTE_BAR: Final = np.dtype(
    [*((name, BAR[name]) for name in ("start", "end", "open", "high", "low", "close")), ("changes", BAR["trades"]),
     ("flags", BAR["flags"])]
)  # fmt: skip
_OF_QUOTES: Final = {"trades": "changes", "last_trades": "last_changes", "unpriced": "undefined"}
_OF_TRADES: Final = ("volume", "last_vwap", "last_volume", "last_notional")
#: A symbol's row: as ``BARS_ROW``; then the best bid and ask, how often they changed, and how many mids are no whole
#: number of 1e-9.
QUOTE_BARS_ROW: Final = np.dtype(
    [
        *(
            (_OF_QUOTES.get(name, name), INNER if name in _OF_TRADES else BARS_ROW[name])
            for name in BARS_ROW.names or ()
        ),
        *prefixed(TOP, "", {"quotes": 1}),
        ("quotes", COUNT),
        ("halved", COUNT),
        ("halves", INNER),
    ]
)

_NO_SIZES: Final = "the feed's trades have no sizes"
_TIME, _TICKS, _VOLUME, _NOTIONAL = range(4)
_IMBALANCES: Final = ("ticks", "volume", "notional")
#: A bar of imbalance, by what is counted: a ``BAR``, the sum that closed it, and the threshold, which is NaN for a
#: first bar, before anything is expected.
IMBALANCE_BARS: Final = FrozenDict(
    {
        of: np.dtype(
            [
                *((name, BAR[name]) for name in BAR.names or ()),
                ("imbalance", quantity),
                ("threshold", declare(quantity, "<f8")),
            ]
        )
        for of, quantity in zip(_IMBALANCES, (COUNT, SIZE, NOTIONAL), strict=True)
    }
)
#: A symbol's row: as ``BARS_ROW``; then the imbalance of the bar under way, what it needs to close, and counts:
#: trades that the tick rule signed, trades without a sign, bars that ``max_ticks`` closed.
IMBALANCE_BARS_ROW: Final = np.dtype(
    [
        *((name, BARS_ROW[name]) for name in BARS_ROW.names or ()),
        ("imbalance_low", declare(INNER, "<u8")),
        ("imbalance_high", INNER),
        ("limit", declare(INNER, "<f8")),
        ("threshold", declare(RATIO, given=_UNDER_WAY)),
        *((name, declare(INNER, "<f8")) for name in ("ticks_sum", "ticks_weight", "value_sum", "value_weight")),
        ("price", INNER),
        ("priced", INNER),
        ("direction", INNER),
        ("by_rule", COUNT),
        ("unsigned", COUNT),
        ("bounded", COUNT),
    ]
)
_QUOTED: Final = ("bid", "ask", "mid")


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
    name = "volume" if volume is not None else "notional"
    limit = notional if volume is None else volume
    amount = None if limit is None else _amount(name, limit)
    fixed = span_ns("every", every) if every is not None else whole("ticks", ticks, 1) if ticks is not None else 0
    flags = (fill, one_of("outside", outside, ("skip", "bars")), partial)
    zero = None if zero_sizes is None else one_of("zero_sizes", zero_sizes, ("skip", "price"))
    hours = session_table(sessions, auctions)
    if auctions is not None and flags[1]:
        raise ConfigurationError("auctions", "outside='bars' makes bars of all trades: leave one of the two out")
    its_contracts = contracts_of(contracts)

    def of(limit: int, info: FeedInfo | None) -> NativeHandler:
        prices = bool(info is not None and info.bars) if zero is None else zero
        closes, size_unit = None, 1.0 if info is None else info.size_unit
        if kind == _NOTIONAL and amount is not None and size_unit is not None:
            from fractions import Fraction

            closes = Fraction(amount) / Fraction(Decimal(repr(size_unit)))
        return Tape(
            "bars",
            BARS_ROW,
            _params(kind, flags, fixed or limit, prices=bool(prices)),
            crosses=crosses,
            auctions=auctions is not None,
            every=fixed if kind == _TIME else 0,
            book=book,
            fills=fills,
            contracts=(its_contracts, closes),
            calendar=hours,
            outputs={"bars": BAR},
            timers=True,
            ends=True,
        ).handler(info)

    sized = None if amount is None else ConfigurationError(name, f"{_NO_SIZES}: give every= or ticks=")
    return _of_feed(of, kind, name, amount, sized)


@built_in
def quote_bars(
    every: SpanLike | None = None,
    *,
    ticks: int | None = None,
    price: Literal["bid", "ask", "mid"] = "mid",
    fill: bool = False,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    outside: Literal["skip", "bars"] = "skip",
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Makes bars of the best bid, the best ask or their mid, emitted as records of ``QUOTE_BAR`` to ``quote_bars``.

    Each change that ``strand.bbo`` emits counts once, at the price after it. A mid is (bid + ask) / 2, and undefined
    where a side is missing: then no price counts, and the bar's close is undefined. A row is ``QUOTE_BARS_ROW``. Give
    one of ``every`` and ``ticks``. docs/handlers/bars.md has the rules.

    Args:
        every: The time of a bar: ``"1m"`` or float seconds.
        ticks: How many changes that leave a price close a bar.
        price: The price: the best ``"bid"``, the best ``"ask"``, or the ``"mid"``.
        fill: Whether time bars without a change are emitted too, at the price that stands. There are none after a day's
            last change.
        partial: Whether the bar under way is emitted at the run's end.
        sessions: When the venue is open, as for ``strand.bars``. A change outside sets only the price that stands.
        outside: Whether changes outside of sessions are left out and counted (``"skip"``), or make ``"bars"`` of their
            own.
        book: Whether quotes come from order books; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.

    Raises:
        ConfigurationError: If not exactly one of ``every`` and ``ticks`` is given, or if an option cannot work.
    """
    if (every is None) == (ticks is None):
        raise ConfigurationError("quote_bars", "give exactly one of every and ticks")
    if fill and every is None:
        raise ConfigurationError("fill", "only bars of time can be empty: give every=, or leave fill out")
    kind, step = (_TIME, span_ns("every", every)) if every is not None else (_TICKS, whole("ticks", ticks, 1))
    flags = (fill, one_of("outside", outside, ("skip", "bars")), partial)
    return Tape(
        "bars",
        QUOTE_BARS_ROW,
        _params(kind, flags, step, quotes=1 + one_of("price", price, _QUOTED)),
        every=step if kind == _TIME else 0,
        book=book,
        fills=fills,
        quotes=True,
        shown="quote_bars",
        calendar=session_table(sessions),
        outputs={"quote_bars": QUOTE_BAR},
        timers=True,
        ends=True,
    ).handler()


@built_in
def imbalance_bars(
    of: Literal["ticks", "volume", "notional"] = "ticks",
    *,
    threshold: int | str | Decimal | None = None,
    expected_ticks: int | None = None,
    span_bars: int = 20,
    span_ticks: int | None = None,
    min_ticks: int = 1,
    max_ticks: int | None = None,
    sign: Literal["aggressor", "tick"] = "aggressor",
    partial: bool = True,
    sessions: SessionsLike | None = None,
    auctions: SpanLike | None = None,
    crosses: bool = True,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Makes bars that close once buyers or sellers have prevailed enough: abs(sum of b v over its trades) >= threshold.

    b is 1 for a buyer's trade and -1 for a seller's; v is 1, the trade's size, or price x size. The threshold is fixed,
    or E[T] abs(E[b v]) from the trades before: M. Lopez de Prado, Advances in Financial Machine Learning (2018),
    2.3.2.1 and 2.3.2.2. Give one of ``threshold`` and ``expected_ticks``. Records are ``IMBALANCE_BARS[of]``, to the
    output ``imbalance_bars``; a row is ``IMBALANCE_BARS_ROW``. docs/handlers/bars.md has the rules.

    Args:
        of: v: of each trade 1 (``"ticks"``), its size (``"volume"``), or price x size (``"notional"``).
        threshold: The fixed threshold: a number of trades, units of the instrument, or units of currency.
        expected_ticks: The expected form: how many trades close a symbol's first bar, before anything is known.
        span_bars: Span of the exponentially weighted mean E[T] of the numbers of trades of full bars; a bar's weight is
            1 - 2 / (span + 1) of that of the next one.
        span_ticks: Span of the mean E[b v], in trades. None: ``span_bars`` x ``expected_ticks``.
        min_ticks: How many trades a bar has at least: a bound where the expected threshold falls to 0.
        max_ticks: How many trades it has at most: a bound where the expected threshold explodes. None: no bound.
        sign: ``"aggressor"``: the trade's aggressor, and the tick rule for trades without one. ``"tick"``: the tick
            rule alone: the sign of the last change of price; 0 before a day's first change.
        partial: Whether the bar under way is emitted at the run's end.
        sessions: When the venue is open, as for ``strand.bars``. Bars end with their session.
        auctions: How long after a session crosses still count, as for ``strand.bars``.
        crosses: Whether crosses (auctions) count. They have no aggressor.
        book: Whether order books say what trades are; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.

    Raises:
        ConfigurationError: If not exactly one of ``threshold`` and ``expected_ticks`` is given, or if an option cannot
            work.
    """
    if (threshold is None) == (expected_ticks is None):
        raise ConfigurationError("imbalance_bars", "give exactly one of threshold and expected_ticks")
    kind = (_TICKS, _VOLUME, _NOTIONAL)[one_of("of", of, _IMBALANCES)]
    first = 0 if expected_ticks is None else whole("expected_ticks", expected_ticks, 1)
    bars_span = whole("span_bars", span_bars, 1)
    ticks_span = bars_span * max(first, 1) if span_ticks is None else whole("span_ticks", span_ticks, 1)
    least, most = whole("min_ticks", min_ticks, 1), 0 if max_ticks is None else whole("max_ticks", max_ticks, 1)
    if most and most < least:
        raise ConfigurationError("max_ticks", f"{most} is less than min_ticks, {least}: give at least as many")
    signs = 2 - one_of("sign", sign, ("aggressor", "tick"))
    flags = (False, 0, partial)
    hours = session_table(sessions, auctions)
    amount = None if threshold is None else _amount("threshold", threshold)
    signed = (signs, threshold is None, first, least, most, 1 - 2 / (bars_span + 1), 1 - 2 / (ticks_span + 1))

    def made(limit: int, info: FeedInfo | None) -> NativeHandler:
        return Tape(
            "bars",
            IMBALANCE_BARS_ROW,
            _params(kind, flags, limit, signed=signed),
            crosses=crosses,
            auctions=auctions is not None,
            book=book,
            fills=fills,
            calendar=hours,
            shown="imbalance_bars",
            outputs={"imbalance_bars": IMBALANCE_BARS[of]},
            timers=True,
            ends=True,
        ).handler(info)

    sized = None if kind == _TICKS else ConfigurationError("of", f"{_NO_SIZES}: give of='ticks'")
    return _of_feed(made, kind, "threshold", amount, sized)


def _of_feed(
    of: Callable[[int, FeedInfo | None], NativeHandler],
    kind: int,
    name: str,
    amount: Decimal | None,
    sized: ConfigurationError | None,
) -> Handler:
    """The handler that is made for a feed and its ``size_unit``.

    Args:
        of: Makes it, for a limit in units of the handler's sum.
        kind: What the limit counts.
        name: The option that gives the limit.
        amount: The limit; None: there is none.
        sized: The error for a feed without sizes; None: they are not needed.
    """
    price = Decimal(1) / PRICE_SCALE if kind == _NOTIONAL else Decimal(1)

    def of_unit(size_unit: float | None, info: FeedInfo | None = None) -> NativeHandler:
        if amount is None:
            return of(0, info)
        return of(_limit(name, amount, 1.0 if kind == _TICKS else size_unit, price), info)

    def for_feed(info: FeedInfo) -> Handler:
        if sized is not None and not info.has_sizes:
            raise sized
        return of_unit(info.size_unit, info)

    try:
        return replace(of_unit(1.0), for_feed=for_feed)
    except ConfigurationError as error:
        refused = error

    def refuse(_: Tapes) -> SymbolMemory:
        raise refused

    # A feed that counts in finer units may have what is no whole number of ones.
    return replace(of(0, None), function=refuse, for_feed=for_feed, contracts=None, intervals=None)


def _params(
    kind: int,
    flags: tuple[bool, int, bool],
    limit: int,
    *,
    quotes: int = 0,
    prices: bool = False,
    signed: tuple[int, bool, int, int, int, float, float] = (0, False, 0, 0, 0, 0.0, 0.0),
) -> bytes:
    """An ``sd_bars_params`` of csrc/measures/bars.h, between its source and its calendar.

    Args:
        kind: What closes a bar.
        flags: ``fill``, ``outside`` and ``partial``.
        limit: The step or the notional that closes a bar.
        quotes: The price that bars of quotes are made of.
        prices: Prices of trades of size 0 count.
        signed: Of bars of imbalance, from ``signs`` on.
    """
    step, minimum = (0, limit) if kind == _NOTIONAL else (limit, 0)
    head = struct.pack("=IIIIIIQQq", kind, quotes, *flags, prices, step, minimum % 2**64, minimum >> 64)
    return head + struct.pack("=IIQQQdd", *signed)


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
    if units >= (2**63 if price == 1 else 2**95):
        raise ConfigurationError(name, f"give less than {amount}, or read sizes in a coarser unit than {size_unit:g}")
    return int(units)
