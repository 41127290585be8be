"""Built-in handlers that measure a market: average price, spreads, imbalance, volatility, statistics of trades.

Each takes ``book`` and ``fills`` as ``strand.bars`` does (``vwap`` no book unless told to), and most ``sessions``
(``strand.Sessions``, or text for it): what is outside of them does not count.
docs/handlers/ has a page for each, with its formulas.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from strand.errors import ConfigurationError
from strand.handlers.base import VWAP_ROW, Handler
from strand.handlers.tape import STRETCH, TOP, one_of, tape_handler
from strand.sessions import SessionsLike, session_table
from strand.spans import SpanLike, span_ns

__all__ = [
    "IMBALANCE",
    "IMBALANCE_ROW",
    "SPREAD_ROW",
    "TRADE_STATS_ROW",
    "VOLATILITY",
    "VOLATILITY_ROW",
    "imbalance",
    "spread",
    "trade_stats",
    "volatility",
    "vwap",
]

#: Spreads in units of currency; ``quoted_ns`` is the time, ``volume`` the size they are weighted by.
SPREAD_ROW: Final = np.dtype(
    [
        *TOP,
        ("last_time", "<u8"),
        ("quotes", "<u8"),
        ("locked", "<u8"),
        ("one_sided", "<u8"),
        ("quoted_ns", "<u8"),
        ("quoted", "<f8"),
        ("relative", "<f8"),
        ("trades", "<u8"),
        ("volume", "<u8"),
        ("unmatched", "<u8"),
        ("effective", "<f8"),
        ("effective_mean", "<f8"),
        ("quoted_low", "<u8"),
        ("quoted_high", "<i8"),
        ("relative_sum", "<f8"),
        ("effective_low", "<u8"),
        ("effective_high", "<i8"),
        ("mean_low", "<u8"),
        ("mean_high", "<i8"),
        *STRETCH,
    ]
)

#: An interval's order flow imbalance, and the time-weighted mean of the queues' (NaN where no side met another).
#: ``start``, ``end`` in ns, the end not in it; the top as of the end. ``flags`` 1: the run ended first.
IMBALANCE: Final = np.dtype(
    [
        ("start", "<u8"),
        ("end", "<u8"),
        ("ofi", "<i8"),
        ("queue_mean", "<f8"),
        *TOP,
        ("events", "<u4"),
        ("flags", "<u4"),
    ]
)
IMBALANCE_ROW: Final = np.dtype(
    [
        *TOP,
        ("last_time", "<u8"),
        ("quotes", "<u8"),
        ("events", "<u8"),
        ("ofi", "<i8"),
        ("queue", "<f8"),
        ("queue_mean", "<f8"),
        ("queue_ns", "<u8"),
        ("queue_sum", "<f8"),
        ("start", "<u8"),
        ("end", "<u8"),
        ("interval_ofi", "<i8"),
        ("interval_sum", "<f8"),
        ("interval_ns", "<u8"),
        ("interval_events", "<u8"),
        *STRETCH,
        ("session", "<u8"),
    ]
)

_VARIATION: Final = [("rv", "<f8"), ("bv", "<f8"), ("volatility", "<f8"), ("sum", "<f8"), ("returns", "<u8")]
#: A window's realised variance, bipower variation, volatility, sum and number of returns.
VOLATILITY: Final = np.dtype([("start", "<u8"), ("end", "<u8"), *_VARIATION, ("flags", "<u8")])
VOLATILITY_ROW: Final = np.dtype(
    [
        *_VARIATION,
        ("price", "<i8"),
        ("sampled", "<i8"),
        ("next", "<u8"),
        ("prices", "<u8"),
        ("left_out", "<u8"),
        ("last", "<f8"),
        ("last_time", "<u8"),
        ("count", "<u8"),
        ("start", "<u8"),
        ("end", "<u8"),
        *((f"window_{name}", dtype) for name, dtype in _VARIATION),
        *TOP,
        *STRETCH,
        ("quoted", "<u8"),
    ]
)

#: Prices in 1e-9, ``notional`` in units of currency, times in ns.
TRADE_STATS_ROW: Final = np.dtype(
    [
        ("trades", "<u8"),
        ("volume", "<u8"),
        ("notional", "<f8"),
        ("size_mean", "<f8"),
        ("size_variance", "<f8"),
        ("size_min", "<u8"),
        ("size_max", "<u8"),
        ("price_min", "<i8"),
        ("price_max", "<i8"),
        ("price_first", "<i8"),
        ("price_last", "<i8"),
        ("signed_volume", "<i8"),
        ("buys", "<u8"),
        ("sells", "<u8"),
        ("first_time", "<u8"),
        ("last_time", "<u8"),
        ("interarrival_ns", "<f8"),
        ("unpriced", "<u8"),
        ("size_squares", "<f8"),
        ("notional_low", "<u8"),
        ("notional_high", "<i8"),
        ("direction", "<i8"),
        *STRETCH,
    ]
)


def vwap(*, book: bool = False, fills: str | None = None) -> Handler:
    """Volume-weighted average price of ticks of kind trade; with ``book``, of all that the books count as trades.

    A row is ``VWAP_ROW``: sums in publish order, in units of currency.
    """
    return tape_handler("vwap", VWAP_ROW, b"", book=book, fills=fills)


def spread(*, sessions: SessionsLike | None = None, book: bool | None = None, fills: str | None = None) -> Handler:
    """Quoted spread, weighted by feed time, and effective spread of trades against the mid before them.

    A row is ``SPREAD_ROW``. Quotes are ticks of kind quote; with ``book``, the top of order books.
    """
    return tape_handler("spread", SPREAD_ROW, session_table(sessions), book=book, fills=fills, quotes=True)


def imbalance(
    every: SpanLike | None = None,
    *,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    book: bool | None = None,
    fills: str | None = None,
) -> Handler:
    """Imbalance of the best quotes' sizes, and order flow imbalance after Cont, Kukanov and Stoikov (2014).

    A row is ``IMBALANCE_ROW``. With ``every``, each interval of so much time is emitted to the output ``imbalance`` as
    an ``IMBALANCE``; with ``partial`` also what the run's end leaves unfinished.
    """
    step = 0 if every is None else span_ns("every", every)
    return tape_handler(
        "imbalance",
        IMBALANCE_ROW,
        struct.pack("=QQ", step, bool(partial)) + session_table(sessions),
        book=book,
        fills=fills,
        quotes=True,
        outputs={"imbalance": IMBALANCE} if step else None,
        timers=step > 0,
        ends=step > 0,
    )


def volatility(
    step: SpanLike | None = None,
    *,
    ticks: int | None = None,
    price: str = "trade",
    every: SpanLike | None = None,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    book: bool | None = None,
    fills: str | None = None,
) -> Handler:
    """Realised variance, its square root and bipower variation, of returns of the log price.

    One of ``step``: returns over a grid of so much time (``"5m"``), or ``ticks``: over so many prices. ``price``: of
    trades, or the ``"mid"`` of the best quotes. A row is ``VOLATILITY_ROW``. With ``every``, each window of so much
    time, a multiple of ``step``, is emitted to the output ``volatility`` as a ``VOLATILITY``; with ``partial`` also
    what the run's end leaves unfinished.
    """
    if (step is None) == (ticks is None):
        raise ConfigurationError("volatility: give one of step and ticks")
    if ticks is not None and (not isinstance(ticks, int) or not 0 < ticks < 2**63):
        raise ConfigurationError(f"ticks: {ticks!r} is not a whole number above 0")
    grid = 0 if step is None else span_ns("step", step)
    window = 0 if every is None else span_ns("every", every)
    if grid and window % grid:
        raise ConfigurationError(f"every: {every!r} is not a multiple of the step {step!r}")
    mid = one_of("price", price, ("trade", "mid"))
    params = struct.pack("=IIQQQ", grid > 0, mid, grid or ticks or 0, window, bool(partial))
    return tape_handler(
        "volatility",
        VOLATILITY_ROW,
        params + session_table(sessions),
        book=book,
        fills=fills,
        quotes=mid == 1,
        outputs={"volatility": VOLATILITY} if window else None,
        timers=True,
        ends=window > 0,
    )


def trade_stats(
    *, sign: str = "tick", sessions: SessionsLike | None = None, book: bool | None = None, fills: str | None = None
) -> Handler:
    """Count, volume, mean and variance of sizes, extremes of prices, signed volume and time between trades.

    ``sign``: who bought, told by the ``"tick"`` rule, or by the trade's side where that is the ``"aggressor"``'s (DBN,
    Tardis, Binance; with ``book``, any feed) or the ``"resting"`` order's (ITCH, LOBSTER). A row is
    ``TRADE_STATS_ROW``.
    """
    how = one_of("sign", sign, ("tick", "aggressor", "resting"))
    if how == 2:
        if book:
            raise ConfigurationError("sign: with a book the side is the aggressor's")
        book = False
    return tape_handler(
        "trade_stats",
        TRADE_STATS_ROW,
        struct.pack("=Q", how) + session_table(sessions),
        book=book,
        fills=fills,
    )
