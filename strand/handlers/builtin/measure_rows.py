"""The rows of the built-in handlers that measure a market, and the records that they emit for intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from strand.handlers.builtin.tape import STRETCH, TOP
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

__all__ = [
    "IMBALANCE",
    "IMBALANCE_ROW",
    "SPREAD",
    "SPREAD_EVERY_ROW",
    "SPREAD_ROW",
    "TRADE_STATS",
    "TRADE_STATS_EVERY_ROW",
    "TRADE_STATS_ROW",
    "VOLATILITY",
    "VOLATILITY_ROW",
    "VWAP",
    "VWAP_EVERY_ROW",
    "VWAP_ROW",
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
#: ``relative_ns`` is the part of the time in which the mid was above 0.
_SPREADS: Final = [
    ("quoted_ns", SPAN),
    ("quoted", declare(PRICE, "<f8", given={"quoted_ns": 1})),
    ("relative_ns", SPAN),
    ("relative", declare(RATIO, given={"relative_ns": 1})),
    ("trades", COUNT),
    ("volume", SIZE),
    ("unmatched", COUNT),
    ("effective", declare(PRICE, "<f8", given={"volume": 1})),
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
    ("unusable", COUNT),
    ("outside", COUNT),
    *_SPREADS,
    *_SPREAD_SUMS,
    *STRETCH,
]
SPREAD_ROW: Final = np.dtype(_SPREAD_FIELDS)
SPREAD_EVERY_ROW: Final = np.dtype(
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
        ("outside", COUNT),
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
        ("outside", COUNT),
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
_STATS_FIELDS: Final = [
    *_FIGURES,
    *_FIGURE_SUMS,
    ("direction", INNER),
    ("new_day", INNER),
    ("outside", COUNT),
    *STRETCH,
]
TRADE_STATS_ROW: Final = np.dtype(_STATS_FIELDS)
TRADE_STATS_EVERY_ROW: Final = np.dtype(
    [*_STATS_FIELDS, *_OWN_SPAN, *_interval(_FIGURES), *_interval(_FIGURE_SUMS), ("now", INNER)]
)
#: The figures of an interval with a trade.
TRADE_STATS: Final = np.dtype([*_SPAN, *_FIGURES, *_FLAGS])

VWAP_ROW: Final = np.dtype(
    [
        ("trades", COUNT),
        ("volume", SIZE),
        ("notional", NOTIONAL),
        ("vwap", declare(PRICE, "<f8", given={"volume": 1})),
        ("unpriced", COUNT),
    ]
)
_VWAP_FIELDS: Final = [(name, VWAP_ROW[name]) for name in VWAP_ROW.names or ()]
VWAP_EVERY_ROW: Final = np.dtype(
    [*_VWAP_FIELDS, *STRETCH, *_OWN_SPAN, *_interval(_VWAP_FIELDS), ("now", INNER), ("outside", COUNT)]
)
#: An interval with a trade: prices in units of currency.
VWAP: Final = np.dtype([*_SPAN, *_VWAP_FIELDS, *_FLAGS])
