"""Built-in handlers that measure a market: average price, spreads, imbalance, volatility, statistics of trades.

Each takes ``crosses``, ``book`` and ``fills`` as ``strand.bars`` does, and ``sessions`` (``strand.Sessions``, or text
for it): what is outside of them does not count. With ``every``, each emits a record for
each interval of so much time, and with ``partial`` also for what the run's end leaves unfinished.
docs/handlers/measures.md has the formulas.
"""

from __future__ import annotations

import struct
from typing import Final, Literal

import numpy as np

from strand.errors import ConfigurationError
from strand.handlers.base import VWAP_ROW, Fills, Handler
from strand.handlers.options import built_in
from strand.handlers.tape import STRETCH, TOP, one_of, tape_handler
from strand.numbers import whole
from strand.sessions import SessionsLike, session_table
from strand.spans import SpanLike, span_ns

__all__ = [
    "IMBALANCE",
    "IMBALANCE_ROW",
    "SPREAD",
    "SPREAD_ROW",
    "TRADE_STATS",
    "TRADE_STATS_ROW",
    "VOLATILITY",
    "VOLATILITY_ROW",
    "VWAP",
    "imbalance",
    "spread",
    "trade_stats",
    "volatility",
    "vwap",
]

_Fields = list[tuple[str, str]]
#: An interval's span in ns, its end not in it; and, last, whether the run ended first (1).
_SPAN: Final = [("start", "<i8"), ("end", "<i8")]
_FLAGS: Final = [("flags", "<u8")]


def _interval(fields: _Fields) -> _Fields:
    """The fields of the interval under way, in a row."""
    return [(f"interval_{name}", form) for name, form in fields]


#: Spreads in units of currency; ``quoted_ns`` is the time, ``volume`` the size they are weighted by.
_SPREADS: Final = [
    ("quoted_ns", "<i8"),
    ("quoted", "<f8"),
    ("relative", "<f8"),
    ("trades", "<i8"),
    ("volume", "<i8"),
    ("unmatched", "<i8"),
    ("effective", "<f8"),
    ("effective_mean", "<f8"),
]
_SPREAD_SUMS: Final = [
    ("quoted_low", "<u8"),
    ("quoted_high", "<i8"),
    ("relative_sum", "<f8"),
    ("effective_low", "<u8"),
    ("effective_high", "<i8"),
    ("mean_low", "<u8"),
    ("mean_high", "<i8"),
]
SPREAD_ROW: Final = np.dtype(
    [
        *TOP,
        ("last_time", "<i8"),
        ("quotes", "<i8"),
        ("locked", "<i8"),
        ("one_sided", "<i8"),
        *_SPREADS,
        *_SPREAD_SUMS,
        *STRETCH,
    ]
)
_SPREAD_EVERY_ROW: Final = np.dtype(
    [
        *SPREAD_ROW.descr,
        *_SPAN,
        ("events", "<i8"),
        ("empty_left", "<i8"),
        *_interval(_SPREADS),
        *_interval(_SPREAD_SUMS),
    ]
)
#: An interval's spreads, NaN where nothing makes one, and the top at its end.
SPREAD: Final = np.dtype([*_SPAN, *_SPREADS, *TOP, *_FLAGS])

#: An interval's order flow imbalance, and the time-weighted mean of the queues' (NaN where no side met another).
#: ``start``, ``end`` in ns, the end not in it; the top as of the end. ``flags`` 1: the run ended first.
IMBALANCE: Final = np.dtype(
    [
        ("start", "<i8"),
        ("end", "<i8"),
        ("ofi", "<i8"),
        ("queue_mean", "<f8"),
        *TOP,
        ("events", "<i8"),
        *_FLAGS,
    ]
)
IMBALANCE_ROW: Final = np.dtype(
    [
        *TOP,
        ("last_time", "<i8"),
        ("quotes", "<i8"),
        ("events", "<i8"),
        ("ofi", "<i8"),
        ("queue", "<f8"),
        ("queue_mean", "<f8"),
        ("queue_ns", "<i8"),
        ("queue_sum", "<f8"),
        ("start", "<i8"),
        ("end", "<i8"),
        ("interval_ofi", "<i8"),
        ("interval_sum", "<f8"),
        ("interval_ns", "<i8"),
        ("interval_events", "<i8"),
        *STRETCH,
        ("session", "<i8"),
    ]
)

_VARIATION: Final = [("rv", "<f8"), ("bv", "<f8"), ("volatility", "<f8"), ("sum", "<f8"), ("returns", "<i8")]
#: A window's realised variance, bipower variation, volatility, sum and number of returns.
VOLATILITY: Final = np.dtype([("start", "<i8"), ("end", "<i8"), *_VARIATION, ("flags", "<u8")])
VOLATILITY_ROW: Final = np.dtype(
    [
        *_VARIATION,
        ("price", "<i8"),
        ("sampled", "<i8"),
        ("next", "<i8"),
        ("prices", "<i8"),
        ("left_out", "<i8"),
        ("last", "<f8"),
        ("last_time", "<i8"),
        ("count", "<i8"),
        ("start", "<i8"),
        ("end", "<i8"),
        ("empty_left", "<i8"),
        *((f"window_{name}", dtype) for name, dtype in _VARIATION),
        *TOP,
        *STRETCH,
        ("quoted", "<i8"),
    ]
)

#: Prices in 1e-9, ``notional`` in units of currency, times in ns.
_FIGURES: Final = [
    ("trades", "<i8"),
    ("volume", "<i8"),
    ("notional", "<f8"),
    ("size_mean", "<f8"),
    ("size_variance", "<f8"),
    ("size_min", "<i8"),
    ("size_max", "<i8"),
    ("price_min", "<i8"),
    ("price_max", "<i8"),
    ("price_first", "<i8"),
    ("price_last", "<i8"),
    ("signed_volume", "<i8"),
    ("buys", "<i8"),
    ("sells", "<i8"),
    ("first_time", "<i8"),
    ("last_time", "<i8"),
    ("interarrival_ns", "<f8"),
    ("unpriced", "<i8"),
]
_FIGURE_SUMS: Final = [("size_squares", "<f8"), ("notional_low", "<u8"), ("notional_high", "<i8")]
TRADE_STATS_ROW: Final = np.dtype([*_FIGURES, *_FIGURE_SUMS, ("direction", "<i8"), ("new_day", "<i8"), *STRETCH])
_TRADE_STATS_EVERY_ROW: Final = np.dtype(
    [*TRADE_STATS_ROW.descr, *_SPAN, *_interval(_FIGURES), *_interval(_FIGURE_SUMS), ("now", "<i8")]
)
#: The figures of an interval with a trade.
TRADE_STATS: Final = np.dtype([*_SPAN, *_FIGURES, *_FLAGS])

_VWAP_FIELDS: Final = [
    ("trades", "<i8"),
    ("volume", "<i8"),
    ("notional", "<f8"),
    ("vwap", "<f8"),
    ("unpriced", "<i8"),
]
_VWAP_EVERY_ROW: Final = np.dtype([*VWAP_ROW.descr, *STRETCH, *_SPAN, *_interval(_VWAP_FIELDS), ("now", "<i8")])
#: An interval with a trade: prices in units of currency.
VWAP: Final = np.dtype([*_SPAN, *_VWAP_FIELDS, *_FLAGS])


@built_in
def vwap(
    every: SpanLike | None = None,
    *,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    crosses: bool = True,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Volume-weighted average price of trades.

    A row is ``VWAP_ROW``, sums in publish order, in units of currency; with ``every`` or ``sessions`` it has more
    fields behind those. The output ``vwap`` has a ``VWAP`` for each interval with a trade.
    """
    if every is None and sessions is None:
        return tape_handler("vwap", VWAP_ROW, b"", crosses=crosses, book=book, fills=fills)
    step = _step(every)
    return tape_handler(
        "vwap_every",
        _VWAP_EVERY_ROW,
        struct.pack("=QQ", step, bool(partial)) + session_table(sessions),
        crosses=crosses,
        book=book,
        fills=fills,
        outputs={"vwap": VWAP} if step else None,
        timers=step > 0,
        ends=step > 0,
        shown="vwap",
    )


@built_in
def spread(
    every: SpanLike | None = None,
    *,
    fill: bool = False,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    crosses: bool = True,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Quoted spread, weighted by feed time, and effective spread of trades against the mid before them.

    A row is ``SPREAD_ROW``. Quotes are ticks of kind quote; with ``book``, the top of order books. The output
    ``spread`` has a ``SPREAD`` for each interval with a trade or a change of the top; with ``fill`` also for those in
    which a top with both sides only stood.
    """
    step = _step(every)
    if fill and not step:
        raise ConfigurationError("fill: there are no intervals to emit without every=")
    return tape_handler(
        "spread",
        _SPREAD_EVERY_ROW if step else SPREAD_ROW,
        struct.pack("=QII", step, bool(fill), bool(partial)) + session_table(sessions),
        crosses=crosses,
        book=book,
        fills=fills,
        quotes=True,
        outputs={"spread": SPREAD} if step else None,
        timers=step > 0,
        ends=step > 0,
    )


def _step(every: SpanLike | None) -> int:
    return 0 if every is None else span_ns("every", every)


@built_in
def imbalance(
    every: SpanLike | None = None,
    *,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Imbalance of the best quotes' sizes, and order flow imbalance after Cont, Kukanov and Stoikov (2014).

    A row is ``IMBALANCE_ROW``. The output ``imbalance`` has an ``IMBALANCE`` for each interval with an event.
    """
    step = _step(every)
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


@built_in
def volatility(
    step: SpanLike | None = None,
    *,
    ticks: int | None = None,
    price: Literal["trade", "mid"] = "trade",
    every: SpanLike | None = None,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    crosses: bool = True,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Realised variance, its square root and bipower variation, of returns of the log price.

    One of ``step``: returns over a grid of so much time (``"5m"``), or ``ticks``: over so many prices. ``price``: of
    trades, or the ``"mid"`` of the best quotes. A row is ``VOLATILITY_ROW``. With ``every``, each window of so much
    time, a multiple of ``step``, is emitted to the output ``volatility`` as a ``VOLATILITY``; with ``partial`` also
    what the run's end leaves unfinished.
    """
    if (step is None) == (ticks is None):
        raise ConfigurationError("volatility: give one of step and ticks")
    grid = 0 if step is None else span_ns("step", step)
    window = _step(every)
    if grid and window % grid:
        raise ConfigurationError(f"every: {every!r} is not a multiple of the step {step!r}")
    mid = one_of("price", price, ("trade", "mid"))
    sampled = grid if ticks is None else whole("ticks", ticks, 1)
    params = struct.pack("=IIQQQ", grid > 0, mid, sampled, window, bool(partial))
    return tape_handler(
        "volatility",
        VOLATILITY_ROW,
        params + session_table(sessions),
        crosses=crosses,
        book=book,
        fills=fills,
        quotes=mid == 1,
        outputs={"volatility": VOLATILITY} if window else None,
        timers=True,
        ends=window > 0,
    )


@built_in
def trade_stats(
    every: SpanLike | None = None,
    *,
    sign: Literal["tick", "aggressor", "resting"] = "tick",
    partial: bool = True,
    sessions: SessionsLike | None = None,
    crosses: bool = True,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Count, volume, mean and variance of sizes, extremes of prices, signed volume and time between trades.

    ``sign``: who bought, told by the ``"tick"`` rule, or by the trade's ``"aggressor"``; ``"resting"`` is the same for
    ticks whose side is that of the order that rested, and keeps no books. A row is ``TRADE_STATS_ROW``. The output
    ``trade_stats`` has a ``TRADE_STATS`` for each interval with a trade.
    """
    how = one_of("sign", sign, ("tick", "aggressor", "resting"))
    if how == 2:
        if book:
            raise ConfigurationError("sign: with a book the side is the aggressor's")
        book = False
    step = _step(every)
    return tape_handler(
        "trade_stats",
        _TRADE_STATS_EVERY_ROW if step else TRADE_STATS_ROW,
        struct.pack("=QQQ", how != 0, step, bool(partial)) + session_table(sessions),
        crosses=crosses,
        resting=how == 2,
        book=book,
        fills=fills,
        outputs={"trade_stats": TRADE_STATS} if step else None,
        timers=step > 0,
        ends=step > 0,
    )
