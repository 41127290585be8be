"""Built-in handlers that measure a market: average price, spreads, imbalance, volatility, statistics of trades.

Each takes ``crosses``, ``book`` and ``fills`` as ``strand.bars`` does, and ``sessions`` (``strand.Sessions``, or text
for it): what is outside of them does not count. With ``every``, each emits a record for
each interval of so much time, and with ``partial`` also for what the run's end leaves unfinished.
docs/handlers/measures.md has the formulas.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np

from strand.errors import ConfigurationError
from strand.handlers.base import Handler
from strand.handlers.builtin.definition import built_in
from strand.handlers.builtin.tape import STRETCH, TOP, tape_handler
from strand.handlers.feed_trades import Fills
from strand.handlers.sessions import SessionsLike, session_table
from strand.handlers.spans import SpanLike, span_ns
from strand.units import (
    COUNT,
    INNER,
    NOTIONAL,
    PRICE,
    RATIO,
    SIZE,
    SIZE_SQUARED,
    SPAN,
    TIME,
    declare,
    prefixed,
)
from strand.validate import one_of, whole

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
    "VWAP_ROW",
    "imbalance",
    "spread",
    "trade_stats",
    "volatility",
    "vwap",
]

#: An interval's span, its end not in it; and, last, whether the run ended first (1).
_SPAN: Final = [("start", TIME), ("end", TIME)]
_FLAGS: Final = [("flags", declare(COUNT, "<u8"))]
#: The interval under way, in a row, where there is one.
_UNDER_WAY: Final = {"end": 1}
_OWN_SPAN: Final = [(name, declare(TIME, given=_UNDER_WAY)) for name, _ in _SPAN]
_LOW: Final = declare(INNER, "<u8")
_SUM: Final = declare(INNER, "<f8")
_TRADED: Final = {"trades": 1}
_TWICE: Final = {"trades": 2}


def _interval(fields: Sequence[tuple[str, np.dtype[Any]]]) -> list[tuple[Any, ...]]:
    """The fields of the interval under way, in a row."""
    return prefixed(fields, "interval_", _UNDER_WAY)


#: Spreads in units of currency; ``quoted_ns`` is the time, ``volume`` the size they are weighted by.
_SPREADS: Final = [
    ("quoted_ns", SPAN),
    ("quoted", declare(PRICE, "<f8", given={"quoted_ns": 1})),
    ("relative", declare(RATIO, given={"quoted_ns": 1})),
    ("trades", COUNT),
    ("volume", SIZE),
    ("unmatched", COUNT),
    ("effective", declare(PRICE, "<f8", given=_TRADED)),
    ("effective_mean", declare(PRICE, "<f8", given=_TRADED)),
]
_SPREAD_SUMS: Final = [
    ("quoted_low", _LOW),
    ("quoted_high", INNER),
    ("relative_sum", _SUM),
    ("effective_low", _LOW),
    ("effective_high", INNER),
    ("mean_low", _LOW),
    ("mean_high", INNER),
]
_SPREAD_FIELDS: Final = [
    *prefixed(TOP, "", {"quotes": 1}),
    ("last_time", INNER),
    ("quotes", COUNT),
    ("locked", COUNT),
    ("one_sided", COUNT),
    *_SPREADS,
    *_SPREAD_SUMS,
    *STRETCH,
]
SPREAD_ROW: Final = np.dtype(_SPREAD_FIELDS)
_SPREAD_EVERY_ROW: Final = np.dtype(
    [
        *_SPREAD_FIELDS,
        *_OWN_SPAN,
        ("accounted", INNER),
        ("events", COUNT),
        ("empty_left", INNER),
        *_interval(_SPREADS),
        *_interval(_SPREAD_SUMS),
    ]
)
#: An interval's spreads, NaN where nothing makes one, and the top at its end.
SPREAD: Final = np.dtype([*_SPAN, *_SPREADS, *TOP, *_FLAGS])

#: An interval's order flow imbalance, and the time-weighted mean of the queues' (NaN where no side met another).
#: ``start``, ``end`` in ns, the end not in it; the top as of the end. ``flags`` 1: the run ended first.
IMBALANCE: Final = np.dtype([*_SPAN, ("ofi", SIZE), ("queue_mean", RATIO), *TOP, ("events", COUNT), *_FLAGS])
IMBALANCE_ROW: Final = np.dtype(
    [
        *prefixed(TOP, "", {"quotes": 1}),
        ("last_time", INNER),
        ("quotes", COUNT),
        ("events", COUNT),
        ("ofi", SIZE),
        ("queue", declare(RATIO, given={"bid": None, "ask": None})),
        ("queue_mean", declare(RATIO, given={"queue_ns": 1})),
        ("queue_ns", SPAN),
        ("queue_sum", _SUM),
        *_OWN_SPAN,
        ("accounted", INNER),
        *prefixed([("ofi", SIZE), ("sum", _SUM), ("ns", SPAN), ("events", COUNT)], "interval_", _UNDER_WAY),
        *STRETCH,
        ("session", INNER),
    ]
)

_RETURNED: Final = {"returns": 1}
_VARIATION: Final = [
    ("rv", declare(RATIO, given=_RETURNED)),
    ("bv", declare(RATIO, given=_RETURNED)),
    ("volatility", declare(RATIO, given=_RETURNED)),
    ("sum", declare(RATIO, given=_RETURNED)),
    ("returns", COUNT),
]
#: A window's realised variance, bipower variation, volatility, sum and number of returns.
VOLATILITY: Final = np.dtype([*_SPAN, *_VARIATION, *_FLAGS])
VOLATILITY_ROW: Final = np.dtype(
    [
        *_VARIATION,
        ("price", declare(PRICE, given={"prices": 1})),
        ("sampled", INNER),
        ("next", INNER),
        ("prices", COUNT),
        ("left_out", COUNT),
        ("last", _SUM),
        ("last_time", INNER),
        ("count", INNER),
        *_OWN_SPAN,
        ("empty_left", INNER),
        *prefixed(_VARIATION, "window_", _UNDER_WAY),
        *prefixed(TOP, "", {"quoted": 1}),
        *STRETCH,
        ("quoted", INNER),
    ]
)

#: Prices in 1e-9, ``notional`` in units of currency, times in ns.
_FIGURES: Final = [
    ("trades", COUNT),
    ("volume", SIZE),
    ("notional", NOTIONAL),
    ("size_mean", declare(SIZE, "<f8", given=_TRADED)),
    ("size_variance", declare(SIZE_SQUARED, given=_TWICE)),
    ("size_min", declare(SIZE, given=_TRADED)),
    ("size_max", declare(SIZE, given=_TRADED)),
    ("price_min", declare(PRICE, given=_TRADED)),
    ("price_max", declare(PRICE, given=_TRADED)),
    ("price_first", declare(PRICE, given=_TRADED)),
    ("price_last", declare(PRICE, given=_TRADED)),
    ("signed_volume", SIZE),
    ("buys", COUNT),
    ("sells", COUNT),
    ("first_time", declare(TIME, given=_TRADED)),
    ("last_time", declare(TIME, given=_TRADED)),
    ("interarrival_ns", declare(SPAN, "<f8", given=_TWICE)),
    ("unpriced", COUNT),
]
_FIGURE_SUMS: Final = [("size_squares", _SUM), ("notional_low", _LOW), ("notional_high", INNER)]
_STATS_FIELDS: Final = [*_FIGURES, *_FIGURE_SUMS, ("direction", INNER), ("new_day", INNER), *STRETCH]
TRADE_STATS_ROW: Final = np.dtype(_STATS_FIELDS)
_TRADE_STATS_EVERY_ROW: Final = np.dtype(
    [*_STATS_FIELDS, *_OWN_SPAN, *_interval(_FIGURES), *_interval(_FIGURE_SUMS), ("now", INNER)]
)
#: The figures of an interval with a trade.
TRADE_STATS: Final = np.dtype([*_SPAN, *_FIGURES, *_FLAGS])

VWAP_ROW: Final = np.dtype(
    [
        ("trades", COUNT),
        ("volume", SIZE),
        ("notional", NOTIONAL),
        ("vwap", declare(PRICE, "<f8", given=_TRADED)),
        ("unpriced", COUNT),
    ]
)
_VWAP_FIELDS: Final = [(name, VWAP_ROW[name]) for name in VWAP_ROW.names or ()]
_VWAP_EVERY_ROW: Final = np.dtype([*_VWAP_FIELDS, *STRETCH, *_OWN_SPAN, *_interval(_VWAP_FIELDS), ("now", INNER)])
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
    fields behind those. The output ``vwap`` has a ``VWAP`` for each interval with a trade. ``every``, ``partial``,
    ``sessions``, ``crosses``, ``book`` and ``fills`` are as in ``strand.bars``.
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
    which a top with both sides only stood, none of them after a day's last trade or quote. ``every``, ``partial``,
    ``sessions``, ``crosses`` and ``fills`` are as in ``strand.bars``.
    """
    step = _step(every)
    if fill and not step:
        raise ConfigurationError(
            "fill: without every= there are no intervals to emit: give every= too, or leave fill out"
        )
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
    ``every``, ``partial``, ``sessions``, ``book`` and ``fills`` are as in ``strand.bars``.
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
    what the run's end leaves unfinished. ``sessions``, ``crosses``, ``book`` and ``fills`` are as in ``strand.bars``.
    """
    if (step is None) == (ticks is None):
        raise ConfigurationError("volatility: give either step or ticks")
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
    ``trade_stats`` has a ``TRADE_STATS`` for each interval with a trade. ``every``, ``partial``, ``sessions``,
    ``crosses``, ``book`` and ``fills`` are as in ``strand.bars``.
    """
    how = one_of("sign", sign, ("tick", "aggressor", "resting"))
    if how == 2:
        if book:
            raise ConfigurationError("sign: with a book the side is the aggressor's: give sign='aggressor'")
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
