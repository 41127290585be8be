"""Numbers, texts and the feed's time as tables, figures and pages write them.

The feed's time is on the clocks of the market's sessions, or in UTC where no zone is known.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand.ticks import PRICE_SCALE, UNDEF_PRICE
from strand.zones import FeedClock, clock_of

if TYPE_CHECKING:
    from strand.feeds import FeedInfo


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


def prices_of(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Prices in units of currency, NaN where there is none: integers are in 1e-9, floats in that unit already."""
    found = values.astype(np.float64)
    if values.dtype.kind == "f":
        return found
    return np.where((values == UNDEF_PRICE) | (values == -1 - UNDEF_PRICE), np.nan, found / PRICE_SCALE)


def sizes_of(values: npt.NDArray[Any], size_unit: float | None) -> npt.NDArray[np.float64]:
    """Sizes in units of the instrument: integers count ``size_unit``, floats are in that unit already. NaN where nobody
    knows the unit, because merged files differ in it."""
    found = values.astype(np.float64)
    return found if values.dtype.kind == "f" else found * (np.nan if size_unit is None else size_unit)


def printable(text: str) -> str:
    """The text with each character that is not to be seen as its escape, such as ``\\x1b``; ends of lines stay."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        letter if letter == "\n" or letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def text_width(text: str) -> int:
    """The columns of a terminal that a text takes: two for a wide letter of East Asia, none for one that combines."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text
    )


def feed_clock(info: FeedInfo) -> FeedClock:
    """The clock of the market's sessions; UTC, where nobody knows their zone, or this system does not. Where nobody
    knows of which day times are, they are times of day at the market, and count from 1970-01-01."""
    return clock_of(info.zone, undated=info.undated)
