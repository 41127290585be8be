"""The built-in handler ``bars``: open, high, low, close, volume and average price of each stretch of trades."""

from __future__ import annotations

import struct
from decimal import Decimal, InvalidOperation
from typing import Final, Literal

import numpy as np

from strand.errors import ConfigurationError
from strand.handlers.base import Fills, Handler
from strand.handlers.options import built_in
from strand.handlers.tape import STRETCH, one_of, tape_handler
from strand.numbers import is_whole, whole
from strand.sessions import SessionsLike, session_table
from strand.spans import SpanLike, span_ns
from strand.ticks import PRICE_SCALE
from strand.units import COUNT, INNER, NOTIONAL, PRICE, SIZE, TIME, declare, prefixed

__all__ = ["BAR", "BARS_ROW", "BAR_CUT", "BAR_EMPTY", "BAR_OUTSIDE", "BAR_PARTIAL", "bars"]

#: ``flags`` of a bar: the run ended first; no trade; its session ended before it was full; outside of sessions.
BAR_PARTIAL: Final = 1
BAR_EMPTY: Final = 2
BAR_CUT: Final = 4
BAR_OUTSIDE: Final = 8

#: A bar. ``start`` and ``end`` in ns: of a time bar its span, the end not in it; of others the times of the first and
#: the last trade. Prices in 1e-9. ``notional``: price x size in units of currency.
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

#: A symbol's row: the bar under way, counts, and the last bar that closed as ``last_*``. Fields: csrc/handlers/bars.h.
BARS_ROW: Final = np.dtype(
    [
        ("end", declare(TIME, given=_UNDER_WAY)),
        ("start", declare(TIME, given=_UNDER_WAY)),
        ("high", declare(PRICE, given={"end": 1})),
        ("low", declare(PRICE, given=_UNDER_WAY)),
        ("close", declare(PRICE, given=_UNDER_WAY)),
        ("volume", SIZE),
        ("notional_low", declare(INNER, "<u8")),
        ("trades", COUNT),
        ("open", declare(PRICE, given=_UNDER_WAY)),
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
    volume: int | None = None,
    notional: int | str | Decimal | None = None,
    fill: bool = False,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    outside: Literal["skip", "bars"] = "skip",
    zero_sizes: Literal["skip", "price"] = "skip",
    crosses: bool = True,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Bars of trades, emitted as records of ``BAR`` to the output ``bars``; ``BARS_ROW`` has the current and last one.

    One of: ``every``, the time of a bar (``"1m"``, a timedelta, ns); ``ticks``, ``volume``, ``notional``: how many
    trades, how much volume, how many units of currency close one.

    ``fill``: time bars without a trade are emitted too, at the last close. ``partial``: the bar under way is emitted
    at the run's end. ``sessions``: ``strand.Sessions``, or text for it; bars begin at a session's start and end at its
    end at the latest, trades ``outside`` are left out and counted (``"skip"``) or make ``"bars"`` of their own. Without
    sessions bars are aligned to the UNIX epoch.

    ``crosses``: they count. ``book``: order books say what trades are; for feeds of single orders, whose fills have no
    price of their own.
    ``fills``: as for ``strand.book``: ``"report"`` for DBN MBO, whose fills repeat trades. Without them a replay goes
    by its feed; a dispatcher, which knows no feed, takes ticks as they are, and ``"reduce"``. ``zero_sizes``: trades
    of size 0 are left out, or their ``"price"`` counts, as in feeds of ready-made bars.

    docs/handlers/bars.md has the rules. Raises ConfigurationError.
    """
    given = [(kind, value) for kind, value in enumerate((every, ticks, volume, notional)) if value is not None]
    if len(given) != 1:
        raise ConfigurationError("bars: give one of every, ticks, volume and notional")
    kind = given[0][0]
    if fill and kind != _TIME:
        raise ConfigurationError("fill: only bars of time can be empty")
    step, least = 0, 0
    if every is not None:
        step = span_ns("every", every)
    elif notional is not None:
        least = _notional(notional)
    else:
        name = "ticks" if ticks is not None else "volume"
        step = whole(name, ticks if ticks is not None else volume, 1)
    params = struct.pack(
        "=IIIIQQQq",
        kind,
        bool(fill),
        one_of("outside", outside, ("skip", "bars")),
        bool(partial),
        one_of("zero_sizes", zero_sizes, ("skip", "price")),
        step,
        least % 2**64,
        least >> 64,
    )
    return tape_handler(
        "bars",
        BARS_ROW,
        params + session_table(sessions),
        crosses=crosses,
        book=book,
        fills=fills,
        outputs={"bars": BAR},
        timers=True,
        ends=True,
    )


def _notional(value: int | str | Decimal) -> int:
    """Units of currency in 1e-9, exactly."""
    try:
        value = int(value) if is_whole(value) else value
        units = Decimal(value) * PRICE_SCALE if not isinstance(value, float) else Decimal(str(value)) * PRICE_SCALE
    except (InvalidOperation, TypeError, ValueError) as error:
        raise ConfigurationError(f"notional: {value!r} is no amount of currency") from error
    if not units.is_finite() or units != int(units) or not 0 < units < 2**95:
        raise ConfigurationError(f"notional: {value!r} is not an amount above 0 with at most nine decimals")
    return int(units)
