"""Bars and what is measured of trades, as plain as can be: Python integers, lists, no state machine."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

from strand import UNDEF_PRICE

PARTIAL, EMPTY, CUT, OUTSIDE = 1, 2, 4, 8
FOREVER = 2**63 - 1


@dataclass(frozen=True)
class Trade:
    ts: int
    price: int
    size: int


def trades_of(ticks: Any, *, fills_report: bool = False) -> dict[int, list[Trade]]:
    """By key: those that count, with a price and a size."""
    found: dict[int, list[Trade]] = {}
    for t in ticks:
        action = bytes(t["action"])
        if action != b"T" and (action != b"F" or fills_report):
            continue
        price, size = int(t["price"]), int(t["size"])
        if int(t["flags"]) & 1 or size == 0 or price in (UNDEF_PRICE, -(2**63)):
            continue
        found.setdefault(int(t["instrument_id"]), []).append(Trade(int(t["ts_recv"]), price, size))
    return found


def bar(trades: list[Trade], start: int, end: int, flags: int = 0) -> dict[str, Any]:
    prices = [t.price for t in trades]
    volume = sum(t.size for t in trades)
    notional = sum(t.price * t.size for t in trades)
    return {
        "start": start,
        "end": end,
        "open": prices[0],
        "high": max(prices),
        "low": min(prices),
        "close": prices[-1],
        "vwap": floor(Fraction(notional, volume) + Fraction(1, 2)),
        "volume": volume,
        "notional": float(notional) / 1e9,
        "trades": len(trades),
        "flags": flags,
    }


def empty_bar(close: int, start: int, end: int, flags: int = 0) -> dict[str, Any]:
    four = dict.fromkeys(("open", "high", "low", "close"), close)
    return {"start": start, "end": end, **four, "vwap": UNDEF_PRICE, "volume": 0, "notional": 0.0, "trades": 0,
            "flags": EMPTY | flags}  # fmt: skip


def stretches(sessions: list[tuple[int, int]] | None) -> list[tuple[int, int, bool]]:
    """All of time: (start, end, whether it is a session)."""
    if sessions is None:
        return [(0, FOREVER, True)]
    found, at = [], 0
    for start, end in sessions:
        if at < start:
            found.append((at, start, False))
        found.append((start, end, True))
        at = end
    return [*found, (at, FOREVER, False)]


def time_bars(
    trades: list[Trade],
    step: int,
    feed_end: int,
    *,
    sessions: list[tuple[int, int]] | None = None,
    outside: bool = False,
    fill: bool = False,
    partial: bool = True,
) -> list[dict[str, Any]]:
    """Of one symbol's trades, in order of time; ``feed_end``: the greatest time in the feed.

    Bars without a trade lie before the last trade, or in its session.
    """
    found: list[dict[str, Any]] = []
    close: int | None = None
    filled = trades[-1].ts if trades else 0
    for first, last, inside in stretches(sessions):
        if sessions and inside and first <= filled < last:
            filled = last
    for first, last, inside in stretches(sessions):
        if not (inside or outside) or first > feed_end:
            continue
        mark = 0 if inside else OUTSIDE
        mine = [t for t in trades if first <= t.ts < last]
        if fill and close is not None:
            participants = range((min(last - 1, feed_end, filled) - first) // step + 1)
        elif fill and mine:
            participants = range((mine[0].ts - first) // step, (min(last - 1, feed_end, filled) - first) // step + 1)
        else:
            participants = sorted({(t.ts - first) // step for t in mine})
        for participant in participants:
            start, end = first + participant * step, min(first + (participant + 1) * step, last)
            of = [t for t in mine if start <= t.ts < end]
            flags = mark | (CUT if end - start < step else 0)
            if end > feed_end:
                if of and partial:
                    found.append(bar(of, start, end, mark | PARTIAL))
            elif of:
                found.append(bar(of, start, end, flags))
            else:
                assert close is not None
                found.append(empty_bar(close, start, end, flags))
            close = of[-1].price if of else close
    return found


def counted_bars(
    trades: list[Trade],
    full: Any,
    feed_end: int,
    *,
    sessions: list[tuple[int, int]] | None = None,
    partial: bool = True,
) -> list[dict[str, Any]]:
    """Bars that close once ``full(trades)``, of one symbol's trades in order of time."""
    found = []
    for first, last, inside in stretches(sessions):
        of: list[Trade] = []
        for t in [t for t in trades if inside and first <= t.ts < last]:
            of.append(t)
            if full(of):
                found.append(bar(of, of[0].ts, of[-1].ts))
                of = []
        if of and last <= feed_end:
            found.append(bar(of, of[0].ts, of[-1].ts, CUT))
        elif of and partial:
            found.append(bar(of, of[0].ts, of[-1].ts, PARTIAL))
    return found


# ---- bars of quotes

HALVES = {"open": 32, "high": 64, "low": 128, "close": 256}


def quoted(bid: int | None, ask: int | None, price: str) -> Fraction | None:
    """The price of a best bid and ask, in 1e-9; None where a side is missing that it needs."""
    if price == "mid":
        return None if bid is None or ask is None else Fraction(bid + ask, 2)
    side = bid if price == "bid" else ask
    return None if side is None else Fraction(side)


def exact_prices(bar: Any) -> dict[str, Fraction | None]:
    """The prices of a bar of quotes, in 1e-9."""
    flags = int(bar["flags"])
    return {
        name: None if int(bar[name]) == UNDEF_PRICE else int(bar[name]) + Fraction(1 if flags & bit else 0, 2)
        for name, bit in HALVES.items()
    }


def quote_bars(
    changes: list[tuple[int, Fraction | None]], *, step: int = 0, ticks: int = 0, fill: bool = False
) -> list[dict[str, Any]]:
    """All bars, with the last one, of the prices after changes of one symbol's top, in the order of time."""
    groups: list[tuple[int, int, list[tuple[int, Fraction | None]]]] = []
    for ts, price in changes:
        full = groups and ticks and sum(p is not None for _, p in groups[-1][2]) == ticks
        if step and (not groups or ts >= groups[-1][1]):
            at = ts // step
            first = groups[-1][1] // step if groups else at
            groups += [(n * step, (n + 1) * step, []) for n in range(first, at + 1)]
        elif not step and (not groups or full):
            groups.append((0, 0, []))
        groups[-1][2].append((ts, price))
    found: list[dict[str, Any]] = []
    standing: Fraction | None = None
    for start, end, of in groups:
        prices = [p for _, p in of if p is not None]
        standing = of[-1][1] if of else standing
        if prices:
            times = [ts for ts, p in of if p is not None]
            span = {"start": start, "end": end} if step else {"start": times[0], "end": times[-1]}
            low, high = min(prices), max(prices)
            its = {"open": prices[0], "high": high, "low": low, "close": standing}
            found.append(span | its | {"changes": len(prices), "flags": 0})
        elif fill and found:
            four = dict.fromkeys(HALVES, standing)
            found.append({"start": start, "end": end} | four | {"changes": 0, "flags": EMPTY})
    if groups and found and not any(p is not None for _, p in groups[-1][2]) and found[-1]["flags"] & EMPTY:
        found.pop()  # the last interval has not ended, and nothing came in it
    return found
