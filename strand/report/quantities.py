"""Numbers as tables, figures and pages write them."""

from __future__ import annotations

import numpy as np

__all__ = ["count", "duration", "moment", "rate"]


def count(n: float) -> str:
    """1200000 as 1.2M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(n) >= size:
            return f"{n / size:g}{unit}"
    return f"{n:g}"


def duration(ns: float) -> str:
    """A time span as three digits and a unit: 850 ns, 41.8 us, 1.2 s; from 1,000 s on in whole seconds."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        number = ns / size
        # A value that rounds to 1,000 of a unit is 1 of the next.
        if number >= 0.9995:
            return f"{number:,.3g} {unit}" if number < 999.5 else f"{number:,.0f} {unit}"
    return f"{ns:.3g} ns"


def moment(ns: int) -> str:
    """A time in ns since 1970-01-01 UTC, as 2026-01-05 14:30:00.123."""
    return str(np.datetime64(ns, "ns"))[:23].replace("T", " ")


def rate(per_s: float) -> tuple[str, str]:
    """Ticks per second as a number of three digits or so, and its unit: 1.25 of "M ticks/s", 12.3 of "k ticks/s"."""
    if per_s >= 99_950:
        return f"{per_s / 1e6:,.2f}", "M ticks/s"
    return (f"{per_s / 1e3:,.3g}", "k ticks/s") if per_s >= 999.5 else (f"{per_s:.3g}", "ticks/s")
