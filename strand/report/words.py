"""Numbers as tables, figures and pages write them."""

from __future__ import annotations

__all__ = ["count", "duration"]


def count(n: float) -> str:
    """1200000 as 1.2M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(n) >= size:
            return f"{n / size:g}{unit}"
    return f"{n:g}"


def duration(ns: float) -> str:
    """A time span, three digits and a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:,.3g} {unit}" if ns < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns:.3g} ns"
