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
from strand.handlers.builtin.tape import STRETCH, TOP, Tape
from strand.handlers.feed_trades import ContractsLike, Fills, contracts_of
from strand.handlers.sessions import SessionsLike, session_table
from strand.spans import SpanLike, span_ns
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

# ---- rows, and records of intervals

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

# ---- handlers


def _step(every: SpanLike | None) -> int:
    return 0 if every is None else span_ns("every", every)


def _params(
    every: int, partial: bool, *, fill: bool = False, way: int = 0, by_time: bool = False, step: int = 0
) -> bytes:
    """An ``sd_measure_params`` of csrc/measures/interval.h, between its source and its calendar."""
    return struct.pack("=QIIIIQ", every, fill, partial, way, by_time, step)


def _emits(name: str, record: np.dtype[Any], every: int) -> dict[str, Any]:
    """The options of ``Tape`` for a measure that emits a record for each interval of ``every`` ns; 0: none."""
    return {"outputs": {name: record} if every else {}, "every": every, "timers": every > 0, "ends": every > 0}


@built_in
def vwap(
    every: SpanLike | None = None,
    *,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    auctions: SpanLike | None = None,
    crosses: bool = True,
    contracts: ContractsLike | None = None,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Measures the volume-weighted average price of trades.

    A row is ``VWAP_ROW``, sums in publish order, in units of currency. With ``every`` or ``sessions`` it has more
    fields behind those. The output ``vwap`` has a ``VWAP`` for each interval with a trade.

    Args:
        every: Emits a record for each interval of so much time (``"1m"`` or float seconds); None: emits none.
        partial: Whether the interval under way at the run's end is emitted too.
        sessions: When the venue is open, ``strand.Sessions`` or text for it. Trades outside are left out, and counted.
            None: always.
        auctions: How long after a session crosses still count, as ``"5m"``: a closing auction is printed at its end or
            later. None: they are left out.
        crosses: Whether crosses (auctions) count.
        contracts: The contracts of symbols, by name or pattern, as for ``strand.bars``. None: a notional is price x
            size.
        book: Whether order books say what trades are; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.

    Raises:
        ConfigurationError: If an option cannot work.
    """
    if every is None and sessions is None and auctions is None:
        return Tape(
            "vwap", VWAP_ROW, b"", crosses=crosses, contracts=(contracts_of(contracts), None), book=book, fills=fills
        ).handler()
    step = _step(every)
    return Tape(
        "vwap_every",
        VWAP_EVERY_ROW,
        _params(step, partial),
        calendar=session_table(sessions, auctions),
        crosses=crosses,
        contracts=(contracts_of(contracts), None),
        auctions=auctions is not None,
        book=book,
        fills=fills,
        shown="vwap",
        **_emits("vwap", VWAP, step),
    ).handler()


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
    """Measures the quoted spread, weighted by feed time, and the effective spread against the mid before each trade.

    A row is ``SPREAD_ROW``. Quotes are ticks of kind quote; with ``book``, the top of order books. The output
    ``spread`` has a ``SPREAD`` for each interval with a trade or a change of the top.

    Args:
        every: Emits a record for each interval of so much time (``"1m"`` or float seconds); None: emits none.
        fill: Whether intervals are emitted too in which a top with both sides only stood. There are none after a day's
            last trade or quote.
        partial: Whether the interval under way at the run's end is emitted too.
        sessions: When the venue is open, ``strand.Sessions`` or text for it. Ticks outside do not count. None: always.
        crosses: Whether crosses (auctions) count.
        book: Whether trades and quotes come from order books; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.

    Raises:
        ConfigurationError: If an option cannot work, or if ``fill`` is given without ``every``.
    """
    step = _step(every)
    if fill and not step:
        raise ConfigurationError(
            "fill", "without every= there are no intervals to emit: give every= too, or leave fill out"
        )
    return Tape(
        "spread",
        SPREAD_EVERY_ROW if step else SPREAD_ROW,
        _params(step, partial, fill=fill),
        calendar=session_table(sessions),
        crosses=crosses,
        book=book,
        fills=fills,
        quotes=True,
        **_emits("spread", SPREAD, step),
    ).handler()


@built_in
def imbalance(
    every: SpanLike | None = None,
    *,
    partial: bool = True,
    sessions: SessionsLike | None = None,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Measures imbalance of the best quotes' sizes, and order flow imbalance (Cont, Kukanov and Stoikov, 2014).

    A row is ``IMBALANCE_ROW``. The output ``imbalance`` has an ``IMBALANCE`` for each interval with an event.

    Args:
        every: Emits a record for each interval of so much time (``"1m"`` or float seconds); None: emits none.
        partial: Whether the interval under way at the run's end is emitted too.
        sessions: When the venue is open, ``strand.Sessions`` or text for it. Ticks outside do not count. None: always.
        book: Whether quotes come from order books; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.

    Raises:
        ConfigurationError: If an option cannot work.
    """
    step = _step(every)
    return Tape(
        "imbalance",
        IMBALANCE_ROW,
        _params(step, partial),
        calendar=session_table(sessions),
        book=book,
        fills=fills,
        quotes=True,
        **_emits("imbalance", IMBALANCE, step),
    ).handler()


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
    """Measures realised variance, its square root and bipower variation, of returns of the log price.

    A row is ``VOLATILITY_ROW``. Give exactly one of ``step`` and ``ticks``.

    Args:
        step: Returns are taken over a grid of so much time (``"5m"`` or float seconds).
        ticks: Returns are taken over so many prices.
        price: The price: of trades, or the ``"mid"`` of the best quotes.
        every: Emits each window of so much time, a multiple of ``step``, as a ``VOLATILITY`` to the output
            ``volatility``. None: emits none.
        partial: Whether the window under way at the run's end is emitted too.
        sessions: When the venue is open, ``strand.Sessions`` or text for it. Ticks outside do not count. None: always.
        crosses: Whether crosses (auctions) count.
        book: Whether trades and quotes come from order books; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.

    Raises:
        ConfigurationError: If both or none of ``step`` and ``ticks`` are given, or if an option cannot work.
    """
    if (step is None) == (ticks is None):
        raise ConfigurationError("volatility", "give either step or ticks")
    grid = 0 if step is None else span_ns("step", step)
    window = _step(every)
    if grid and window % grid:
        raise ConfigurationError("every", f"{every!r} is not a multiple of the step {step!r}")
    mid = one_of("price", price, ("trade", "mid"))
    sampled = grid if ticks is None else whole("ticks", ticks, 1)
    return Tape(
        "volatility",
        VOLATILITY_ROW,
        _params(window, partial, way=mid, by_time=grid > 0, step=sampled),
        calendar=session_table(sessions),
        crosses=crosses,
        book=book,
        fills=fills,
        quotes=mid == 1,
        **_emits("volatility", VOLATILITY, window) | {"timers": True},
    ).handler()


@built_in
def trade_stats(
    every: SpanLike | None = None,
    *,
    sign: Literal["tick", "aggressor", "resting"] = "tick",
    partial: bool = True,
    sessions: SessionsLike | None = None,
    auctions: SpanLike | None = None,
    crosses: bool = True,
    contracts: ContractsLike | None = None,
    book: bool | None = None,
    fills: Fills | None = None,
) -> Handler:
    """Counts trades: volume, mean and variance of sizes, extremes of prices, signed volume, time between trades.

    A row is ``TRADE_STATS_ROW``. The output ``trade_stats`` has a ``TRADE_STATS`` for each interval with a trade.

    Args:
        every: Emits a record for each interval of so much time (``"1m"`` or float seconds); None: emits none.
        sign: What tells who bought: the ``"tick"`` rule, or the trade's ``"aggressor"``. ``"resting"`` is the same for
            ticks whose side is that of the order that rested, and keeps no books.
        partial: Whether the interval under way at the run's end is emitted too.
        sessions: When the venue is open, ``strand.Sessions`` or text for it. Trades outside are left out, and counted.
            None: always.
        auctions: How long after a session crosses still count, as ``"5m"``: a closing auction is printed at its end or
            later. None: they are left out.
        crosses: Whether crosses (auctions) count.
        contracts: The contracts of symbols, by name or pattern, as for ``strand.bars``. None: a notional is price x
            size.
        book: Whether order books say what trades are; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.

    Raises:
        ConfigurationError: If an option cannot work.
    """
    how = one_of("sign", sign, ("tick", "aggressor", "resting"))
    if how == 2:
        if book:
            raise ConfigurationError("sign", "with a book the side is the aggressor's: give sign='aggressor'")
        book = False
    step = _step(every)
    return Tape(
        "trade_stats",
        TRADE_STATS_EVERY_ROW if step else TRADE_STATS_ROW,
        _params(step, partial, way=how != 0),
        calendar=session_table(sessions, auctions),
        crosses=crosses,
        contracts=(contracts_of(contracts), None),
        auctions=auctions is not None,
        resting=how == 2,
        book=book,
        fills=fills,
        **_emits("trade_stats", TRADE_STATS, step),
    ).handler()
