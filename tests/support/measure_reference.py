"""Spreads, imbalance and volatility from their definitions: sums over lists, in exact fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import log, pi, sqrt
from typing import Any

from strand import UNDEF_PRICE

FOREVER = 2**63 - 1


@dataclass(frozen=True)
class Top:
    """A price of None: the side is empty."""

    bid: int | None = None
    bid_size: int = 0
    ask: int | None = None
    ask_size: int = 0

    @property
    def sound(self) -> bool:
        return self.bid is not None and self.ask is not None and self.bid < self.ask


def quotes_of(ticks: Any) -> list[tuple[int, Top]]:
    """Each change of one symbol's top, with its time (the greatest so far)."""
    found: list[tuple[int, Top]] = []
    top, now = Top(), 0
    for t in ticks:
        if int(t["kind"]) != 3 or int(t["depth"]) != 0:
            continue
        now = max(now, int(t["ts_recv"]))
        side = bytes(t["side"])
        price, size = int(t["price"]), int(t["size"])
        bid, ask = (top.bid, top.bid_size), (top.ask, top.ask_size)
        if side != b"A":
            bid = _side(price, size)
        if side == b"A":
            ask = _side(price, size)
        elif side == b"N":
            ask = _side(int(t["order_id"]), int(t["ref_id"]))
        new = Top(*bid, *ask)
        if new != top or not found:
            found.append((now, new))
        top = new
    return found


def _side(price: int, size: int) -> tuple[int | None, int]:
    return (None, 0) if price in (UNDEF_PRICE, -(2**63)) else (price, size)


def overlap(start: int, end: int, sessions: list[tuple[int, int]] | None) -> int:
    """The part of a span that is in sessions."""
    return sum(max(0, min(end, b) - max(start, a)) for a, b in sessions or [(0, FOREVER)])


def spans(quotes: list[tuple[int, Top]], end: int, sessions: list[tuple[int, int]] | None) -> list[tuple[Top, int]]:
    """Tops in force, and the time of each that counts."""
    times = [time for time, _ in quotes[1:]] + [end]
    return [(top, overlap(time, until, sessions)) for (time, top), until in zip(quotes, times, strict=True)]


def quoted(quotes: list[tuple[int, Top]], end: int, sessions: Any = None) -> tuple[int, float, float]:
    """Time, quoted and relative spread."""
    counted = [(top, ns) for top, ns in spans(quotes, end, sessions) if top.sound]
    total = sum(ns for _, ns in counted)
    absolute = sum((top.ask - top.bid) * ns for top, ns in counted)
    usable = [(top, ns) for top, ns in counted if top.ask + top.bid > 0]
    relative = sum(Fraction(2 * (top.ask - top.bid) * ns, top.ask + top.bid) for top, ns in usable)
    return total, float(Fraction(absolute, total * 10**9)), float(relative / sum(ns for _, ns in usable))


def effective(pairs: list[tuple[int, int, Top]]) -> tuple[float, float]:
    """Weighted by size and plain, of (price, size, top before)."""
    costs = [(abs(2 * price - top.bid - top.ask), size) for price, size, top in pairs]
    weighted = Fraction(sum(cost * size for cost, size in costs), sum(size for _, size in costs) * 10**9)
    return float(weighted), float(Fraction(sum(cost for cost, _ in costs), len(costs) * 10**9))


def order_flow(was: Top, now: Top) -> int:
    """e_n of Cont, Kukanov and Stoikov (2014), (2)."""
    low, high = float("-inf"), float("inf")
    b0, b1 = (low if t.bid is None else t.bid for t in (was, now))
    a0, a1 = (high if t.ask is None else t.ask for t in (was, now))
    return (b1 >= b0) * now.bid_size - (b1 <= b0) * was.bid_size - (a1 <= a0) * now.ask_size + (a1 >= a0) * was.ask_size


def queue(top: Top) -> Fraction | None:
    if top.bid is None or top.ask is None or top.bid_size + top.ask_size == 0:
        return None
    return Fraction(top.bid_size - top.ask_size, top.bid_size + top.ask_size)


def variation(prices: list[int]) -> dict[str, float]:
    """Of samples in a row."""
    returns = [log(b / a) for a, b in pairwise(prices)]
    rv = sum(r * r for r in returns)
    return {
        "rv": rv,
        "bv": pi / 2 * sum(abs(a) * abs(b) for a, b in pairwise(returns)),
        "volatility": sqrt(rv),
        "sum": sum(returns),
        "returns": len(returns),
    }


def on_grid(prices: list[tuple[int, int]], step: int, end: int, origin: int = 0) -> list[int]:
    """The last price before each point of a grid after the first price, up to ``end``."""
    found, at = [], 0
    point = origin + ((prices[0][0] - origin) // step + 1) * step
    while point <= end:
        while at + 1 < len(prices) and prices[at + 1][0] < point:
            at += 1
        found.append(prices[at][1])
        point += step
    return found
